/* session.c - one lock, held around one command: taken, run, released.
 *
 * One thread, one poll loop. Everything that can happen is an event in it: the library's callbacks (they come through
 * rdl_client_fd), signals and the command's end (they come through a pipe), and one deadline. Nothing else waits, and every
 * phase but two has a bound of its own: waiting for the lock has the user's, the command runs as long as it likes.
 *
 *   WAITING --taken--> RUNNING --the command ended--> RELEASING --> DONE
 *      |                  |  lost, or max-hold is over        ^
 *      | a signal         v                                   |
 *      v               ENDING (SIGTERM) --grace--> KILLING ---+
 *   GIVING_UP --> RELEASING (taken all the same) or DONE
 *
 * The lock is released in every case where it was taken: after an ordinary end when the command itself has ended, as everybody
 * expects of a wrapper; after a loss or --max-hold when all that it started has ended as well (family.h).
 *
 * Before the client is open nothing is held, so a signal may simply end the process (signals.h). */
#include "tools/redlatch/session.h"

#include "tools/redlatch/child.h"
#include "tools/redlatch/duration.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/signals.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <redlatch/redlatch.h>
#include <string.h>
#include <time.h>

/* Bounds on what the user sets none for. */
#define CONNECT_MS 10000      /* reaching the server; -w lowers it, ... */
#define CONNECT_LEAST_MS 1000 /* ... but not below this: a short -w is about other holders, not about the network */
#define ANSWER_MS 4000        /* an answer to a release or to giving up: the library's own bound, and a second */
#define KILL_MS 2000          /* processes that SIGKILL does not end: they hang in the kernel */

#define NO_DEADLINE INT64_MAX
#define LEASE_DEFAULT_MS 30000 /* the library's own */

enum phase { PHASE_WAITING, PHASE_GIVING_UP, PHASE_RUNNING, PHASE_ENDING, PHASE_KILLING, PHASE_RELEASING, PHASE_DONE };

/* Why the command did not end by itself; the worst one counts. */
enum cause { CAUSE_NONE, CAUSE_MAX_HOLD, CAUSE_LOST };

struct session {
    const struct run_options *options;
    char name[TEXT_SAFE_CAP];   /* for messages */
    char server[TEXT_SAFE_CAP]; /* for messages */
    rdl_client_t *client;
    rdl_lock_t *lock;
    rdl_op_t *taking;
    enum phase phase;
    bool contended;      /* the server has said that somebody else has the lock */
    int64_t deadline_ms; /* of the phase */
    int64_t began_ms;
    int64_t taken_ms;
    struct child child;
    enum cause cause;
    int exit_code; /* unless the command and `cause` say another */
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void enter(struct session *s, enum phase phase, int64_t bound_ms)
{
    s->phase = phase;
    s->deadline_ms = bound_ms == NO_DEADLINE ? NO_DEADLINE : now_ms() + bound_ms;
}

/* ---- what is said ------------------------------------------------------------------------------------------------------- */

/* Skip the words at the start of a text. False: it starts otherwise, and `at` stays. */
static bool skip(const char **at, const char *words)
{
    size_t len = strlen(words);

    if (strncmp(*at, words, len) != 0)
        return false;
    *at += len;
    return true;
}

/* The library's message without the lock's and the server's name before it, which our own messages give already. */
static const char *reason_of(const rdl_err_t *err)
{
    const char *text = err->message;
    const char *p = text;

    if (text[0] == '\0')
        return rdl_strerror(err->code);
    if (skip(&p, "lock ") && skip(&p, err->lock)) {
        (void)(skip(&p, " at ") && skip(&p, err->server));
        if (skip(&p, ": "))
            text = p;
    }
    p = text;
    if (skip(&p, err->server) && skip(&p, ": "))
        text = p;
    return text;
}

static void say_failed(const struct session *s, const char *what, const rdl_err_t *err)
{
    text_say("cannot %s '%s' at %s: %s", what, s->name, s->server, reason_of(err));
}

static bool is_bounded(int64_t wait_ms)
{
    return wait_ms != 0 && wait_ms != RDL_WAIT_FOREVER;
}

static const char *how_long(int64_t wait_ms)
{
    if (is_bounded(wait_ms))
        return "waiting at most ";
    return wait_ms == 0 ? "not waiting" : "waiting as long as it takes";
}

static void say_locking(const struct session *s)
{
    int64_t wait_ms = s->options->wait_ms;
    char shown[32];

    if (!s->options->verbose)
        return;
    duration_print(wait_ms, shown, sizeof shown);
    text_say("locking '%s' at %s, %s%s", s->name, s->server, how_long(wait_ms), is_bounded(wait_ms) ? shown : "");
}

static void say_locked(const struct session *s, int64_t token)
{
    char shown[32];

    if (!s->options->verbose)
        return;
    duration_print(s->taken_ms - s->began_ms, shown, sizeof shown);
    text_say("locked '%s' after %s, token %" PRId64, s->name, shown, token);
}

static void say_released(const struct session *s)
{
    char shown[32];

    if (!s->options->verbose)
        return;
    duration_print(now_ms() - s->taken_ms, shown, sizeof shown);
    text_say("released '%s' after %s", s->name, shown);
}

static const char *loss_text(rdl_loss_reason_t reason)
{
    return reason == RDL_LOSS_GONE ? "the server no longer has it" : "its lease ran out and could not be renewed";
}

/* Called by the library on any thread: connections that were lost, renewals that are overdue. That the hold is lost, its only
 * error, is said by on_lost or on_released, verbose or not. */
static void on_log(rdl_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    if (level < RDL_LOG_ERROR)
        text_say("%s", line);
}

/* ---- releasing ---------------------------------------------------------------------------------------------------------- */

/* The release says so. */
static void found_lost(struct session *s, const rdl_err_t *err)
{
    if (s->child.pid == 0 || s->cause == CAUSE_LOST)
        return;
    text_say("lost '%s' at %s before the command had ended: %s", s->name, s->server, reason_of(err));
    s->cause = CAUSE_LOST;
}

static void on_released(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct session *s = arg;

    (void)lock;
    if (s->phase != PHASE_RELEASING)
        return;
    if (result == RDL_OK) {
        say_released(s);
    } else if (result == RDL_ELOST || result == RDL_ENOTOWNER) {
        found_lost(s, err);
    } else {
        say_failed(s, "release", err);
        text_say("the server frees '%s' when its lease ends", s->name);
    }
    enter(s, PHASE_DONE, NO_DEADLINE);
}

static void release(struct session *s)
{
    rdl_err_t err = {0};
    int rc;

    enter(s, PHASE_RELEASING, ANSWER_MS);
    rc = rdl_unlock_async(s->lock, NULL, on_released, s, NULL, &err);
    if (rc < 0)
        on_released(s->lock, rc, &err, s);
}

/* ---- the command -------------------------------------------------------------------------------------------------------- */

static void start_command(struct session *s, int64_t token)
{
    char *const shell[] = {(char *)"/bin/sh", (char *)"-c", (char *)s->options->shell, NULL};
    const struct child_facts facts = {.name = s->options->name, .token = token};
    char *const *argv = s->options->command != NULL ? s->options->command : shell;

    if (child_start(&s->child, argv, &facts) == 0) {
        enter(s, PHASE_RUNNING, s->options->max_hold_ms > 0 ? s->options->max_hold_ms : NO_DEADLINE);
        return;
    }
    text_say("cannot start a process: %s", strerror(errno));
    s->exit_code = EXITCODE_TROUBLE;
    release(s);
}

static void end_command(struct session *s, enum cause cause)
{
    bool first = s->cause == CAUSE_NONE;

    if (cause > s->cause)
        s->cause = cause;
    if (!first)
        return;
    child_terminate(&s->child);
    enter(s, PHASE_ENDING, s->options->grace_ms);
}

static void kill_command(struct session *s)
{
    child_kill(&s->child);
    enter(s, PHASE_KILLING, KILL_MS);
}

static void after_reap(struct session *s)
{
    switch (s->phase) {
    case PHASE_RUNNING:
        if (s->child.ended)
            release(s);
        break;
    case PHASE_ENDING:
    case PHASE_KILLING:
        if (!child_family_lives(&s->child))
            release(s);
        else if (s->phase == PHASE_KILLING)
            child_kill(&s->child); /* those that were born during the last round */
        break;
    default:
        break;
    }
}

/* ---- the lock ----------------------------------------------------------------------------------------------------------- */

static void on_lost(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    struct session *s = arg;

    (void)lock;
    if (loss->state != RDL_LOST || (s->phase != PHASE_RUNNING && s->phase != PHASE_ENDING && s->phase != PHASE_KILLING))
        return;
    text_say("lost '%s' at %s: %s; ending the command", s->name, s->server, loss_text(loss->reason));
    end_command(s, CAUSE_LOST);
}

static void taken(struct session *s)
{
    rdl_err_t err = {0};
    int64_t token = rdl_token(s->lock, &err);

    s->taken_ms = now_ms();
    if (token > 0) {
        say_locked(s, token);
        start_command(s, token);
        return;
    }
    say_failed(s, "lock", &err);
    s->exit_code = exitcode_of_error(err.code, s->options->conflict_code);
    release(s);
}

static void not_taken(struct session *s, int code, const rdl_err_t *err)
{
    /* The time was over in the middle of a try: that the server had no time to say it again makes it no other outcome. */
    if (code == RDL_EUNKNOWN && s->contended)
        code = RDL_ETIMEDOUT;
    /* A conflict is an ordinary outcome with a status of its own, and cron mails whatever is printed. */
    if (code != RDL_ETIMEDOUT || s->options->verbose)
        say_failed(s, "lock", err);
    s->exit_code = exitcode_of_error(code, s->options->conflict_code);
    enter(s, PHASE_DONE, NO_DEADLINE);
}

/* Of what -w allows. */
static int64_t wait_left(const struct session *s)
{
    int64_t wait_ms = s->options->wait_ms;
    int64_t left = wait_ms - (now_ms() - s->began_ms);

    if (wait_ms == RDL_WAIT_FOREVER)
        return wait_ms;
    return left > 0 ? left : 0;
}

static void on_taken(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg);

static int ask(struct session *s, int64_t wait_ms, rdl_err_t *err)
{
    s->taking = rdl_op_free(s->taking);
    return rdl_try_lock_async(s->lock, NULL, wait_ms, RDL_LEASE_AUTO, on_taken, s, &s->taking, err);
}

/* A bounded wait is begun by asking without waiting: the answer then has the time that the network needs, and what -w bounds
 * is the wait for other holders. */
static int ask_first(struct session *s, rdl_err_t *err)
{
    return ask(s, s->options->wait_ms == RDL_WAIT_FOREVER ? RDL_WAIT_FOREVER : 0, err);
}

/* It is somebody else's. */
static void ask_again(struct session *s, const rdl_err_t *refusal)
{
    int64_t left = wait_left(s);
    rdl_err_t err = {0};
    int rc;

    s->contended = true;
    if (left == 0)
        not_taken(s, RDL_ETIMEDOUT, refusal);
    else if ((rc = ask(s, left, &err)) < 0)
        not_taken(s, rc, &err);
}

static void on_taken(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct session *s = arg;

    (void)lock;
    if (s->phase == PHASE_GIVING_UP && result == RDL_OK)
        release(s);
    else if (s->phase != PHASE_WAITING)
        enter(s, PHASE_DONE, NO_DEADLINE);
    else if (result == RDL_OK)
        taken(s);
    else if (result == RDL_ETIMEDOUT && !s->contended)
        ask_again(s, err);
    else
        not_taken(s, (int)result, err);
}

static void give_up(struct session *s, int signo)
{
    s->exit_code = EXITCODE_SIGNAL + signo;
    enter(s, PHASE_GIVING_UP, ANSWER_MS);
    rdl_op_cancel(s->taking);
}

/* ---- the loop ----------------------------------------------------------------------------------------------------------- */

static void handle_signal(struct session *s, const struct signal_event *event)
{
    switch (event->kind) {
    case SIGNAL_CHILD: /* the loop looks after every batch */
        break;
    case SIGNAL_ENDS:
        if (s->phase == PHASE_WAITING)
            give_up(s, event->signo);
        else
            child_forward(&s->child, event);
        break;
    case SIGNAL_STOPS:
        child_forward(&s->child, event);
        signals_stop_self();
        break;
    case SIGNAL_TELLS:
        child_forward(&s->child, event);
        break;
    }
}

static void handle_signals(struct session *s)
{
    struct signal_event event;
    bool any = false;

    for (; signals_read(&event); any = true)
        handle_signal(s, &event);
    if (!any)
        return;
    child_reap(&s->child);
    after_reap(s);
}

static void handle_deadline(struct session *s)
{
    switch (s->phase) {
    case PHASE_RUNNING:
        text_say("'%s' was held for as long as --max-hold allows; ending the command", s->name);
        end_command(s, CAUSE_MAX_HOLD);
        break;
    case PHASE_ENDING:
        kill_command(s);
        break;
    case PHASE_KILLING:
        text_say("the command, or a process that it started, cannot be killed");
        release(s);
        break;
    case PHASE_RELEASING:
        text_say("no answer from %s; it frees '%s' when its lease ends", s->server, s->name);
        enter(s, PHASE_DONE, NO_DEADLINE);
        break;
    default: /* giving up */
        enter(s, PHASE_DONE, NO_DEADLINE);
        break;
    }
}

static int poll_timeout(const struct session *s)
{
    int64_t left = s->deadline_ms == NO_DEADLINE ? NO_DEADLINE : s->deadline_ms - now_ms();

    if (left == NO_DEADLINE)
        return -1;
    return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

/* poll only sleeps: what is asked afterwards never waits, so a spurious or failed poll does no harm. */
static void loop(struct session *s, int signal_fd)
{
    struct pollfd fds[] = {
        {.fd = signal_fd, .events = POLLIN},
        {.fd = rdl_client_fd(s->client), .events = POLLIN},
    };

    while (s->phase != PHASE_DONE) {
        poll(fds, sizeof fds / sizeof *fds, poll_timeout(s));
        rdl_client_dispatch(s->client);
        handle_signals(s);
        if (s->phase != PHASE_DONE && s->deadline_ms != NO_DEADLINE && now_ms() >= s->deadline_ms)
            handle_deadline(s);
    }
}

/* ---- before and after --------------------------------------------------------------------------------------------------- */

static int64_t connect_bound(int64_t wait_ms)
{
    if (wait_ms == 0 || wait_ms > CONNECT_MS)
        return CONNECT_MS;
    return wait_ms > CONNECT_LEAST_MS ? wait_ms : CONNECT_LEAST_MS;
}

static int open_client(struct session *s, const char *uri, rdl_err_t *err)
{
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;

    options.dispatch = RDL_DISPATCH_FD;
    options.connect_timeout_ms = connect_bound(s->options->wait_ms);
    options.watchdog_lease_ms = s->options->lease_ms > 0 ? s->options->lease_ms : LEASE_DEFAULT_MS;
    options.connections = 1;
    options.log = s->options->verbose ? on_log : NULL;
    options.log_level = RDL_LOG_WARN;
    return rdl_client_open(uri, &options, &s->client, err);
}

/* From the open client to an acquire that is under way. */
static int begin(struct session *s, rdl_err_t *err)
{
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    int rc;

    options.fencing = RDL_FENCING_TIME;
    if ((rc = s->options->type->make(s->client, s->options->name, &options, &s->lock, err)) < 0 ||
        (rc = rdl_on_lost(s->lock, on_lost, s, err)) < 0)
        return rc;
    enter(s, PHASE_WAITING, NO_DEADLINE);
    return ask_first(s, err);
}

static void finish(struct session *s)
{
    s->phase = PHASE_DONE; /* closing may still run on_taken or on_released */
    rdl_op_free(s->taking);
    rdl_lock_free(s->lock);
    rdl_client_close(s->client);
    child_done(&s->child);
}

static int exit_code_of(const struct session *s)
{
    const struct child *c = &s->child;
    const char *file = s->options->command != NULL ? s->options->command[0] : "/bin/sh";
    char shown[TEXT_SAFE_CAP];

    if (c->exec_errno != 0) {
        text_say("cannot run '%s': %s", text_safe(file, strlen(file), shown), strerror(c->exec_errno));
        return exitcode_of_exec(c->exec_errno);
    }
    if (s->cause != CAUSE_NONE)
        return s->cause == CAUSE_LOST ? EXITCODE_LOST : EXITCODE_MAX_HOLD;
    return c->pid != 0 ? exitcode_of_status(c->status) : s->exit_code;
}

int session_run(const struct run_options *options, const char *uri)
{
    struct session s = {.options = options, .began_ms = now_ms()};
    rdl_err_t err = {0};
    int signal_fd;
    int rc;

    text_safe(options->name, strlen(options->name), s.name);
    if ((signal_fd = signals_open()) < 0) {
        text_say("cannot handle signals: %s", strerror(errno));
        return EXITCODE_TROUBLE;
    }
    rc = open_client(&s, uri, &err);
    signals_defer();
    if (rc == RDL_EINVAL) {
        /* Not even its harmless parts are shown: in a malformed address nobody knows which part is the password. */
        text_say("the address in %s is wrong: %s", options->server != NULL ? "--server" : "REDLATCH_SERVER",
                 reason_of(&err));
        return EXITCODE_USAGE;
    }
    server_label(uri, s.server);
    say_locking(&s);
    if (rc == RDL_OK)
        rc = begin(&s, &err);
    if (rc == RDL_OK)
        loop(&s, signal_fd);
    else
        not_taken(&s, rc, &err);
    finish(&s);
    return exit_code_of(&s);
}
