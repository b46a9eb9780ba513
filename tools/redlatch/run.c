/* run.c - `redlatch run`: take a lock, run a command under it, release.
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
 * The lock is released in every case where it was taken, and only when nothing that the command started can be still at
 * work because of us: after a loss or --max-hold that means the command's whole family (family.h); after an ordinary end
 * only the command itself, as everybody expects of a wrapper.
 *
 * Before the client is open nothing is held, so a signal may simply end the process (signals.h). */
#include "tools/redlatch/child.h"
#include "tools/redlatch/duration.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/run_options.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/signals.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <redlatch/redlatch.h>
#include <stdlib.h>
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

struct run {
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

static void enter(struct run *r, enum phase phase, int64_t bound_ms)
{
    r->phase = phase;
    r->deadline_ms = bound_ms == NO_DEADLINE ? NO_DEADLINE : now_ms() + bound_ms;
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

static void say_failed(const struct run *r, const char *what, const rdl_err_t *err)
{
    text_say("cannot %s '%s' at %s: %s", what, r->name, r->server, reason_of(err));
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

static void say_locking(const struct run *r)
{
    int64_t wait_ms = r->options->wait_ms;
    char shown[32];

    if (!r->options->verbose)
        return;
    duration_print(wait_ms, shown, sizeof shown);
    text_say("locking '%s' at %s, %s%s", r->name, r->server, how_long(wait_ms), is_bounded(wait_ms) ? shown : "");
}

static void say_locked(const struct run *r, int64_t token)
{
    char shown[32];

    if (!r->options->verbose)
        return;
    duration_print(r->taken_ms - r->began_ms, shown, sizeof shown);
    text_say("locked '%s' after %s, token %" PRId64, r->name, shown, token);
}

static void say_released(const struct run *r)
{
    char shown[32];

    if (!r->options->verbose)
        return;
    duration_print(now_ms() - r->taken_ms, shown, sizeof shown);
    text_say("released '%s' after %s", r->name, shown);
}

static void say_at_risk(const struct run *r, int64_t remaining_ms)
{
    char shown[32];

    if (!r->options->verbose)
        return;
    duration_print(remaining_ms, shown, sizeof shown);
    text_say("'%s' could not be renewed in time, it is held for another %s", r->name, shown);
}

static const char *loss_text(rdl_loss_reason_t reason)
{
    return reason == RDL_LOSS_GONE ? "the server no longer has it" : "its lease ran out and could not be renewed";
}

/* Called by the library on any thread. */
static void on_log(rdl_log_level_t level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    text_say("%s", line);
}

/* ---- releasing ---------------------------------------------------------------------------------------------------------- */

static void on_released(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct run *r = arg;

    (void)lock;
    if (r->phase != PHASE_RELEASING)
        return;
    if (result == RDL_OK) {
        say_released(r);
    } else if (result == RDL_ELOST || result == RDL_ENOTOWNER) {
        if (r->cause != CAUSE_LOST)
            text_say("lost '%s' at %s before the command had ended: %s", r->name, r->server, reason_of(err));
        r->cause = CAUSE_LOST;
    } else {
        say_failed(r, "release", err);
        text_say("the server frees '%s' when its lease ends", r->name);
    }
    enter(r, PHASE_DONE, NO_DEADLINE);
}

static void release(struct run *r)
{
    rdl_err_t err = {0};
    int rc;

    enter(r, PHASE_RELEASING, ANSWER_MS);
    rc = rdl_unlock_async(r->lock, NULL, on_released, r, NULL, &err);
    if (rc < 0)
        on_released(r->lock, rc, &err, r);
}

/* ---- the command -------------------------------------------------------------------------------------------------------- */

static void start_command(struct run *r, int64_t token)
{
    char *const shell[] = {(char *)"/bin/sh", (char *)"-c", (char *)r->options->shell, NULL};
    const struct child_facts facts = {.name = r->options->name, .token = token};
    char *const *argv = r->options->command != NULL ? r->options->command : shell;

    if (child_start(&r->child, argv, &facts) == 0) {
        enter(r, PHASE_RUNNING, r->options->max_hold_ms > 0 ? r->options->max_hold_ms : NO_DEADLINE);
        return;
    }
    text_say("cannot start a process: %s", strerror(errno));
    r->exit_code = EXITCODE_TROUBLE;
    release(r);
}

static void end_command(struct run *r, enum cause cause)
{
    bool first = r->cause == CAUSE_NONE;

    if (cause > r->cause)
        r->cause = cause;
    if (!first)
        return;
    child_terminate(&r->child);
    enter(r, PHASE_ENDING, r->options->grace_ms);
}

static void kill_command(struct run *r)
{
    child_kill(&r->child);
    enter(r, PHASE_KILLING, KILL_MS);
}

static void after_reap(struct run *r)
{
    switch (r->phase) {
    case PHASE_RUNNING:
        if (r->child.ended)
            release(r);
        break;
    case PHASE_ENDING:
    case PHASE_KILLING:
        if (!child_family_lives(&r->child))
            release(r);
        else if (r->phase == PHASE_KILLING)
            child_kill(&r->child); /* those that were born during the last round */
        break;
    default:
        break;
    }
}

/* ---- the lock ----------------------------------------------------------------------------------------------------------- */

static void on_lost(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    struct run *r = arg;

    (void)lock;
    if (loss->state == RDL_AT_RISK) {
        say_at_risk(r, loss->remaining_ms);
        return;
    }
    if (r->phase != PHASE_RUNNING && r->phase != PHASE_ENDING && r->phase != PHASE_KILLING)
        return;
    text_say("lost '%s' at %s: %s; ending the command", r->name, r->server, loss_text(loss->reason));
    end_command(r, CAUSE_LOST);
}

static void taken(struct run *r)
{
    rdl_err_t err = {0};
    int64_t token = rdl_token(r->lock, &err);

    r->taken_ms = now_ms();
    if (token > 0) {
        say_locked(r, token);
        start_command(r, token);
        return;
    }
    say_failed(r, "lock", &err);
    r->exit_code = exitcode_of_error(err.code, r->options->conflict_code);
    release(r);
}

static void not_taken(struct run *r, int code, const rdl_err_t *err)
{
    /* The time was over in the middle of a try: that the server had no time to say it again makes it no other outcome. */
    if (code == RDL_EUNKNOWN && r->contended)
        code = RDL_ETIMEDOUT;
    /* A conflict is an ordinary outcome with a status of its own, and cron mails whatever is printed. */
    if (code != RDL_ETIMEDOUT || r->options->verbose)
        say_failed(r, "lock", err);
    r->exit_code = exitcode_of_error(code, r->options->conflict_code);
    enter(r, PHASE_DONE, NO_DEADLINE);
}

/* Of what -w allows. */
static int64_t wait_left(const struct run *r)
{
    int64_t wait_ms = r->options->wait_ms;
    int64_t left = wait_ms - (now_ms() - r->began_ms);

    if (wait_ms == RDL_WAIT_FOREVER)
        return wait_ms;
    return left > 0 ? left : 0;
}

static void on_taken(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg);

static int ask(struct run *r, int64_t wait_ms, rdl_err_t *err)
{
    r->taking = rdl_op_free(r->taking);
    return rdl_try_lock_async(r->lock, NULL, wait_ms, RDL_LEASE_AUTO, on_taken, r, &r->taking, err);
}

/* A bounded wait is begun by asking without waiting: the answer then has the time that the network needs, and what -w bounds
 * is the wait for other holders. */
static int ask_first(struct run *r, rdl_err_t *err)
{
    return ask(r, r->options->wait_ms == RDL_WAIT_FOREVER ? RDL_WAIT_FOREVER : 0, err);
}

/* It is somebody else's. */
static void ask_again(struct run *r, const rdl_err_t *refusal)
{
    int64_t left = wait_left(r);
    rdl_err_t err = {0};
    int rc;

    r->contended = true;
    if (left == 0)
        not_taken(r, RDL_ETIMEDOUT, refusal);
    else if ((rc = ask(r, left, &err)) < 0)
        not_taken(r, rc, &err);
}

static void on_taken(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct run *r = arg;

    (void)lock;
    if (r->phase == PHASE_GIVING_UP && result == RDL_OK)
        release(r);
    else if (r->phase != PHASE_WAITING)
        enter(r, PHASE_DONE, NO_DEADLINE);
    else if (result == RDL_OK)
        taken(r);
    else if (result == RDL_ETIMEDOUT && !r->contended)
        ask_again(r, err);
    else
        not_taken(r, (int)result, err);
}

static void give_up(struct run *r, int signo)
{
    r->exit_code = EXITCODE_SIGNAL + signo;
    enter(r, PHASE_GIVING_UP, ANSWER_MS);
    rdl_op_cancel(r->taking);
}

/* ---- the loop ----------------------------------------------------------------------------------------------------------- */

static void handle_signal(struct run *r, const struct signal_event *event)
{
    switch (event->kind) {
    case SIGNAL_CHILD: /* the loop looks after every batch */
        break;
    case SIGNAL_ENDS:
        if (r->phase == PHASE_WAITING)
            give_up(r, event->signo);
        else
            child_forward(&r->child, event);
        break;
    case SIGNAL_STOPS:
        child_forward(&r->child, event);
        signals_stop_self();
        break;
    case SIGNAL_TELLS:
        child_forward(&r->child, event);
        break;
    }
}

static void handle_signals(struct run *r)
{
    struct signal_event event;
    bool any = false;

    for (; signals_read(&event); any = true)
        handle_signal(r, &event);
    if (!any)
        return;
    child_reap(&r->child);
    after_reap(r);
}

static void handle_deadline(struct run *r)
{
    switch (r->phase) {
    case PHASE_RUNNING:
        text_say("'%s' was held for as long as --max-hold allows; ending the command", r->name);
        end_command(r, CAUSE_MAX_HOLD);
        break;
    case PHASE_ENDING:
        kill_command(r);
        break;
    case PHASE_KILLING:
        text_say("the command, or a process that it started, cannot be killed");
        release(r);
        break;
    case PHASE_RELEASING:
        text_say("no answer from %s; it frees '%s' when its lease ends", r->server, r->name);
        enter(r, PHASE_DONE, NO_DEADLINE);
        break;
    default: /* giving up */
        enter(r, PHASE_DONE, NO_DEADLINE);
        break;
    }
}

static int poll_timeout(const struct run *r)
{
    int64_t left = r->deadline_ms == NO_DEADLINE ? NO_DEADLINE : r->deadline_ms - now_ms();

    if (left == NO_DEADLINE)
        return -1;
    return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

/* poll only sleeps: what is asked afterwards never waits, so a spurious or failed poll does no harm. */
static void loop(struct run *r, int signal_fd)
{
    struct pollfd fds[] = {
        {.fd = signal_fd, .events = POLLIN},
        {.fd = rdl_client_fd(r->client), .events = POLLIN},
    };

    while (r->phase != PHASE_DONE) {
        poll(fds, sizeof fds / sizeof *fds, poll_timeout(r));
        rdl_client_dispatch(r->client);
        handle_signals(r);
        if (r->phase != PHASE_DONE && r->deadline_ms != NO_DEADLINE && now_ms() >= r->deadline_ms)
            handle_deadline(r);
    }
}

/* ---- before and after --------------------------------------------------------------------------------------------------- */

static int64_t connect_bound(int64_t wait_ms)
{
    if (wait_ms == 0 || wait_ms > CONNECT_MS)
        return CONNECT_MS;
    return wait_ms > CONNECT_LEAST_MS ? wait_ms : CONNECT_LEAST_MS;
}

static int open_client(struct run *r, const char *uri, rdl_err_t *err)
{
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;

    options.dispatch = RDL_DISPATCH_FD;
    options.connect_timeout_ms = connect_bound(r->options->wait_ms);
    options.watchdog_lease_ms = r->options->lease_ms > 0 ? r->options->lease_ms : LEASE_DEFAULT_MS;
    options.connections = 1;
    options.log = r->options->verbose ? on_log : NULL;
    options.log_level = RDL_LOG_WARN;
    return rdl_client_open(uri, &options, &r->client, err);
}

/* From the open client to an acquire that is under way. */
static int begin(struct run *r, rdl_err_t *err)
{
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    int rc;

    options.fencing = RDL_FENCING_TIME;
    if ((rc = r->options->type->make(r->client, r->options->name, &options, &r->lock, err)) < 0 ||
        (rc = rdl_on_lost(r->lock, on_lost, r, err)) < 0)
        return rc;
    enter(r, PHASE_WAITING, NO_DEADLINE);
    return ask_first(r, err);
}

static void finish(struct run *r)
{
    r->phase = PHASE_DONE; /* closing may still run on_taken or on_released */
    rdl_op_free(r->taking);
    rdl_lock_free(r->lock);
    rdl_client_close(r->client);
    child_done(&r->child);
}

static int exit_code_of(const struct run *r)
{
    const struct child *c = &r->child;
    const char *file = r->options->command != NULL ? r->options->command[0] : "/bin/sh";
    char shown[TEXT_SAFE_CAP];

    if (c->exec_errno != 0) {
        text_say("cannot run '%s': %s", text_safe(file, strlen(file), shown), strerror(c->exec_errno));
        return exitcode_of_exec(c->exec_errno);
    }
    if (r->cause != CAUSE_NONE)
        return r->cause == CAUSE_LOST ? EXITCODE_LOST : EXITCODE_MAX_HOLD;
    return c->pid != 0 ? exitcode_of_status(c->status) : r->exit_code;
}

static int run_under_lock(const struct run_options *options, const char *uri)
{
    struct run r = {.options = options, .began_ms = now_ms()};
    rdl_err_t err = {0};
    int signal_fd;
    int rc;

    text_safe(options->name, strlen(options->name), r.name);
    if ((signal_fd = signals_open()) < 0) {
        text_say("cannot handle signals: %s", strerror(errno));
        return EXITCODE_TROUBLE;
    }
    rc = open_client(&r, uri, &err);
    signals_defer();
    if (rc == RDL_EINVAL) {
        /* Not even its harmless parts are shown: in a malformed address nobody knows which part is the password. */
        text_say("the address in %s is wrong: %s", options->server != NULL ? "--server" : "REDLATCH_SERVER",
                 reason_of(&err));
        return EXITCODE_USAGE;
    }
    server_label(uri, r.server);
    say_locking(&r);
    if (rc == RDL_OK)
        rc = begin(&r, &err);
    if (rc == RDL_OK)
        loop(&r, signal_fd);
    else
        not_taken(&r, rc, &err);
    finish(&r);
    return exit_code_of(&r);
}

/* ---- the subcommand ----------------------------------------------------------------------------------------------------- */

static void run_help(FILE *out)
{
    fputs("Take the lock NAME, run COMMAND, release the lock.\n"
          "\n"
          "Usage: redlatch run [options] NAME [--] COMMAND [ARG...]\n"
          "       redlatch run [options] NAME -c 'SHELL COMMAND'\n"
          "\n",
          out);
    run_options_print(out);
    fputs("\n"
          "TIME is in seconds, or has a unit: 500ms, 2.5s, 5m, 1h.\n"
          "URI is redis://[[USER:]PASSWORD@]HOST[:PORT][/DB] or unix:/PATH[?db=DB]. Passwords belong into\n"
          "REDLATCH_SERVER: ps shows the command line to everybody.\n"
          "\n"
          "COMMAND finds in its environment REDLATCH_NAME, and REDLATCH_TOKEN, a number that grows\n"
          "whenever the lock changes hands. When the lock is lost, COMMAND and all that it started\n"
          "get SIGTERM and, after --grace, SIGKILL.\n"
          "\n"
          "Exit status:\n"
          "  that of COMMAND, or 128+n when signal n ended it (or ended the wait for the lock)\n"
          "    1  the lock was not acquired in time (-E changes it)\n"
          "   64  the command line or the address of the server is wrong\n"
          "   69  no server, or no answer from it\n"
          "   70  the server refused, or the system is out of memory or processes\n"
          "   75  the lock was lost before COMMAND had ended\n"
          "  124  COMMAND was ended after --max-hold\n"
          "  126  COMMAND cannot be executed\n"
          "  127  there is no such COMMAND\n"
          "\n"
          "Examples:\n"
          "  redlatch run nightly -- backup.sh /srv\n"
          "  redlatch run -n -E 0 report -- make report       # skip it while another host is at it\n"
          "  redlatch run -w 30 --max-hold 1h db:migrate -- ./migrate\n"
          "  redlatch run --server redis://db1:6379/2 counter -c 'n=$(cat n); echo $((n+1)) >n'\n",
          out);
}

static int run_main(int argc, char **argv)
{
    struct run_options options;
    struct usage_error why;
    const char *uri = getenv("REDLATCH_SERVER");
    char *copy = NULL;
    int rc;

    if (run_options_parse(argc, argv, &options, &why) < 0)
        return subcommand_misused(subcommand_run.name, &why);
    if (options.help)
        return subcommand_print(run_help);
    if (options.server != NULL) {
        if ((copy = strdup(options.server)) == NULL) {
            text_say("%s", rdl_strerror(RDL_ENOMEM));
            return EXITCODE_TROUBLE;
        }
        server_hide_secret(options.server);
        uri = copy;
    } else if (uri == NULL || uri[0] == '\0') {
        uri = SERVER_DEFAULT;
    }
    rc = run_under_lock(&options, uri);
    free(copy);
    return rc;
}

const struct subcommand subcommand_run = {
    .name = "run",
    .summary = "run a command under a lock",
    .main = run_main,
    .help = run_help,
};
