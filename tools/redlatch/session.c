/* SPDX-License-Identifier: MIT */
/* session.c - one lock, held around one command: taken, run, released.
 *
 * What is held may be a lock, several, a lock on several servers, or a permit; this file says "lock" for all of them,
 * and hold.h has the differences.
 *
 * One thread, one poll loop. Everything that can happen is an event in it: what becomes of the lock (hold.h), signals
 * and the command's end (they come through a pipe), and one deadline. Nothing else waits, and every phase but two has a
 * bound of its own: waiting for the lock has the user's, the command runs as long as it likes.
 *
 *   ASKING <--> WAITING --taken--> RUNNING --the command ended--> RELEASING --> DONE
 *      |          |                  |  lost, or max-hold is over        ^
 *      v          | a signal         v                                   |
 *     DONE        v               ENDING (SIGTERM) --grace--> KILLING ---+
 *              GIVING_UP --> RELEASING (taken all the same) or DONE
 *
 * A wait can fail in two ways: another holder has the lock, or the server is away. An answer from before the server
 * went away does not tell which, so a wait ends with a query (ASKING), which any answer settles.
 *
 * The lock is released in every case where it was taken: after an ordinary end when the command itself has ended, as
 * everybody expects of a wrapper; after a loss or --max-hold when all that it started has ended as well (family.h).
 *
 * Before the client is open nothing is held, so a signal may simply end the process (signals.h). */
#include "tools/redlatch/session.h"

#include "tools/redlatch/child.h"
#include "tools/redlatch/duration.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/hold.h"
#include "tools/redlatch/holder.h"
#include "tools/redlatch/progress.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/signals.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <redlatch/redlatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Bounds on what the user sets none for. */
#define ANSWER_MS 4000 /* an answer to a release or to giving up: the library's own bound, and a second */
#define KILL_MS 2000   /* processes that SIGKILL does not end: they hang in the kernel */
#define ROUND_MS 10000 /* of a wait for a majority, which the library never ends: until we ask whether there is one */

#define NO_DEADLINE INT64_MAX

enum phase {
    PHASE_WAITING,
    PHASE_ASKING,
    PHASE_GIVING_UP,
    PHASE_RUNNING,
    PHASE_ENDING,
    PHASE_KILLING,
    PHASE_RELEASING,
    PHASE_DONE,
};

/* Why the command did not end by itself; the worst one counts. */
enum cause { CAUSE_NONE, CAUSE_MAX_HOLD, CAUSE_LOST };

struct session {
    const struct run_options *options;
    const char *names;          /* the names with a + between them */
    char name[TEXT_SAFE_CAP];   /* the same for messages */
    char server[TEXT_SAFE_CAP]; /* for messages */
    struct hold hold;
    const char *uri;          /* of the first server */
    struct progress progress; /* of the wait */
    enum phase phase;
    bool waited;         /* more was asked for than the lock at once */
    bool contended;      /* the server has said that somebody else has the lock */
    rdl_err_t refusal;   /* how it was said last */
    int64_t heard_ms;    /* and when; or when all began */
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

/* ---- what is said ----------------------------------------------------------------------------------------------- */

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
    if ((skip(&p, "lock ") || skip(&p, "semaphore ")) && skip(&p, err->lock)) {
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
    duration_print_exact(wait_ms, shown, sizeof shown);
    text_say("locking '%s' at %s, %s%s", s->name, s->server, how_long(wait_ms), is_bounded(wait_ms) ? shown : "");
}

static void say_locked(const struct session *s, int64_t token)
{
    char shown[32];

    if (!s->options->verbose)
        return;
    duration_print(s->taken_ms - s->began_ms, shown, sizeof shown);
    if (token > 0)
        text_say("locked '%s' after %s, token %" PRId64, s->name, shown, token);
    else
        text_say("locked '%s' after %s", s->name, shown);
}

static void say_released(const struct session *s)
{
    char shown[32];

    if (!s->options->verbose)
        return;
    duration_print(now_ms() - s->taken_ms, shown, sizeof shown);
    text_say("released '%s' after %s", s->name, shown);
}

/* ---- releasing -------------------------------------------------------------------------------------------------- */

/* The release says so. */
static void found_lost(struct session *s, const rdl_err_t *err)
{
    if (s->child.pid == 0 || s->cause == CAUSE_LOST)
        return;
    text_say("lost '%s' at %s before the command had ended: %s", s->name, s->server, reason_of(err));
    s->cause = CAUSE_LOST;
}

static void on_released(void *arg, int code, const rdl_err_t *err)
{
    struct session *s = arg;

    if (s->phase != PHASE_RELEASING)
        return;
    if (code == RDL_OK) {
        say_released(s);
    } else if (code == RDL_ELOST || code == RDL_ENOTOWNER) {
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
    rc = hold_release(&s->hold, &err);
    if (rc < 0)
        on_released(s, rc, &err);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static void start_command(struct session *s, int64_t token)
{
    char *const shell[] = {(char *)"/bin/sh", (char *)"-c", (char *)s->options->shell, NULL};
    const struct child_facts facts = {.name = s->names, .token = token};
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

/* ---- the lock --------------------------------------------------------------------------------------------------- */

static bool is_held(const struct session *s)
{
    return s->phase == PHASE_RUNNING || s->phase == PHASE_ENDING || s->phase == PHASE_KILLING;
}

/* Of several locks each may say so; the first one counts. */
static void on_lost(void *arg, const char *why)
{
    struct session *s = arg;

    if (!is_held(s) || s->cause == CAUSE_LOST)
        return;
    end_command(s, CAUSE_LOST);
    text_say("lost '%s' at %s: %s; ending the command", s->name, s->server, why);
}

/* That it is not what it should be is said verbose or not. */
static void on_degraded(void *arg, bool degraded)
{
    struct session *s = arg;
    char shown[32];

    duration_print(s->options->local_after_ms, shown, sizeof shown);
    if (degraded)
        text_say("degraded: no server for %s; '%s' is locked on this host alone", shown, s->name);
    else
        text_say("the server is back; '%s' is locked at %s", s->name, s->server);
}

static void taken(struct session *s)
{
    rdl_err_t err = {0};
    int64_t token;
    int rc = hold_token(&s->hold, &token, &err);

    progress_end(&s->progress);
    s->taken_ms = now_ms();
    if (rc == RDL_OK) {
        say_locked(s, token);
        start_command(s, token);
        return;
    }
    say_failed(s, "lock", &err);
    s->exit_code = exitcode_of_error(rc, s->options->conflict_code);
    release(s);
}

/* The library's reason, with the whole of -w for what it had left for the last try. */
static const char *with_whole_wait(const struct session *s, const char *reason, char *to, size_t cap)
{
    static const char within[] = "not acquired within ", unit[] = " ms";
    const char *at = strstr(reason, within), *end = at != NULL ? strstr(at, unit) : NULL;
    char asked[32];

    if (end == NULL || !is_bounded(s->options->wait_ms))
        return reason;
    duration_print_exact(s->options->wait_ms, asked, sizeof asked);
    (void)snprintf(to, cap, "%.*s%s%s%s", (int)(at - reason), reason, within, asked, end + sizeof unit - 1);
    return to;
}

/* With who it is, if anybody says: this is asked when the time to wait is over. */
static void say_conflict(const struct session *s, const rdl_err_t *err)
{
    char holder[HOLDER_CAP], reason[sizeof err->message + 32];
    bool held = holder_ask(s->options, s->hold.clients, s->hold.client_count, holder, sizeof holder);

    text_say("cannot lock '%s' at %s: %s%s%s", s->name, s->server,
             with_whole_wait(s, reason_of(err), reason, sizeof reason), held ? ": " : "", holder);
}

static void not_taken(struct session *s, int code, const rdl_err_t *err)
{
    progress_end(&s->progress);
    /* A conflict is an ordinary outcome with a status of its own, and cron mails whatever is printed. */
    if (code != RDL_ETIMEDOUT)
        say_failed(s, "lock", err);
    else if (s->options->verbose || isatty(STDERR_FILENO))
        say_conflict(s, err);
    s->exit_code = exitcode_of_error(code, s->options->conflict_code);
    enter(s, PHASE_DONE, NO_DEADLINE);
}

/* Of what -w allows. */
static int64_t wait_left(const struct session *s)
{
    int64_t wait_ms = s->options->wait_ms;
    int64_t left = wait_ms - (now_ms() - s->began_ms);

    if (wait_ms == RDL_WAIT_FOREVER)
        return s->options->redlock != NULL ? ROUND_MS : wait_ms;
    return left > 0 ? left : 0;
}

/* Is a server waited for as a holder is? Or until this host does without. */
static bool is_patient(const struct session *s)
{
    return s->options->on_outage != RDL_OUTAGE_FAIL;
}

/* Of the time for reaching a server. */
static int64_t reach_left(const struct session *s)
{
    int64_t wait_ms = wait_left(s);
    int64_t left = hold_connect_ms(s->options->wait_ms) - (now_ms() - s->began_ms);

    if (is_patient(s))
        return wait_ms;
    if (left <= 0)
        return 0;
    return left < wait_ms ? left : wait_ms;
}

/* A bounded wait is begun by asking without waiting: the answer then has the time that the network needs, and what -w
 * bounds is the wait for other holders. So is one on several servers, because of those that may be down. Where -w
 * bounds the wait for servers as well, it is the wait from the start. */
static int ask_first(struct session *s, rdl_err_t *err)
{
    bool forever = s->options->wait_ms == RDL_WAIT_FOREVER && s->options->redlock == NULL;

    s->waited = is_patient(s);
    return hold_take(&s->hold, forever || s->waited ? wait_left(s) : 0, err);
}

static bool is_silence(int code)
{
    return code == RDL_ECONN || code == RDL_EUNKNOWN || code == RDL_ENOQUORUM;
}

static void take(struct session *s, int64_t wait_ms)
{
    rdl_err_t err = {0};
    int rc;

    enter(s, PHASE_WAITING, NO_DEADLINE);
    s->waited = true;
    if ((rc = hold_take(&s->hold, wait_ms, &err)) < 0)
        not_taken(s, rc, &err);
}

/* Its time is over, or the majority's that a red lock waits for, unless the server is there and the wait has no end. */
static void on_answered(void *arg, int code, const rdl_err_t *err)
{
    struct session *s = arg;
    bool heard = code >= 0 || code == RDL_ESERVER;
    int64_t left = wait_left(s);

    if (s->phase != PHASE_ASKING)
        return;
    if (heard)
        s->heard_ms = now_ms();
    else if (!is_patient(s) && now_ms() - s->heard_ms >= HOLD_OUTAGE_MS)
        left = 0;
    if (left > 0)
        take(s, left);
    else if (heard)
        not_taken(s, RDL_ETIMEDOUT, &s->refusal);
    else
        not_taken(s, code, err);
}

static void ask(struct session *s)
{
    rdl_err_t err = {0};
    int rc;

    enter(s, PHASE_ASKING, NO_DEADLINE);
    if ((rc = hold_ask(&s->hold, &err)) < 0)
        on_answered(s, rc, &err);
}

/* It is somebody else's, or the server is silent. */
static void refused(struct session *s, int code, const rdl_err_t *err)
{
    int64_t left = s->contended || code == RDL_ETIMEDOUT ? wait_left(s) : reach_left(s);
    bool first = !s->waited || s->options->on_outage == RDL_OUTAGE_LOCAL; /* then it may be somebody of this host */

    if (code == RDL_ETIMEDOUT) {
        s->contended = true;
        s->refusal = *err;
    }
    if (first && code == RDL_ETIMEDOUT)
        s->heard_ms = now_ms();
    if (s->contended && !first)
        ask(s);
    else if (left > 0)
        take(s, left);
    else
        not_taken(s, code, err);
}

static void on_taken(void *arg, int code, const rdl_err_t *err)
{
    struct session *s = arg;

    if (s->phase == PHASE_GIVING_UP && code == RDL_OK)
        release(s);
    else if (s->phase != PHASE_WAITING)
        enter(s, PHASE_DONE, NO_DEADLINE);
    else if (code == RDL_OK)
        taken(s);
    else if (code == RDL_ETIMEDOUT || is_silence(code))
        refused(s, code, err);
    else
        not_taken(s, code, err);
}

static const struct hold_events events = {
    .taken = on_taken,
    .answered = on_answered,
    .released = on_released,
    .lost = on_lost,
    .degraded = on_degraded,
};

static void give_up(struct session *s, int signo)
{
    progress_end(&s->progress);
    s->exit_code = EXITCODE_SIGNAL + signo;
    if (s->phase == PHASE_ASKING) {
        enter(s, PHASE_DONE, NO_DEADLINE);
        return;
    }
    enter(s, PHASE_GIVING_UP, ANSWER_MS);
    hold_cancel(&s->hold);
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static void handle_signal(struct session *s, const struct signal_event *event)
{
    switch (event->kind) {
    case SIGNAL_CHILD: /* the loop looks after every batch */
        break;
    case SIGNAL_ENDS:
        if (s->phase == PHASE_WAITING || s->phase == PHASE_ASKING)
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
        end_command(s, CAUSE_MAX_HOLD);
        text_say("'%s' was held for as long as --max-hold allows; ending the command", s->name);
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
    struct pollfd fds[1 + HOLD_FDS_MAX] = {{.fd = signal_fd, .events = POLLIN}};
    size_t count = 1 + hold_poll(&s->hold, fds + 1);

    while (s->phase != PHASE_DONE) {
        poll(fds, count, poll_timeout(s));
        hold_dispatch(&s->hold);
        handle_signals(s);
        if (s->phase != PHASE_DONE && s->deadline_ms != NO_DEADLINE && now_ms() >= s->deadline_ms)
            handle_deadline(s);
    }
}

/* ---- before and after ------------------------------------------------------------------------------------------- */

/* From the open clients to an acquire that is under way. */
static int begin(struct session *s, rdl_err_t *err)
{
    int rc = hold_begin(&s->hold, &events, s, err);

    if (rc < 0)
        return rc;
    enter(s, PHASE_WAITING, NO_DEADLINE);
    return ask_first(s, err);
}

static void finish(struct session *s)
{
    s->phase = PHASE_DONE; /* closing may still run on_taken or on_released */
    hold_close(&s->hold);
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

/* All names, with a + between them as the library shows them. NULL without memory. */
static char *join_names(const struct run_options *o)
{
    char *names;
    char *end;
    size_t size = strlen(o->names[0]) + 1;

    for (size_t i = 1; i < o->name_count; i++)
        size += strlen(o->names[i]) + 1;
    if ((names = malloc(size)) == NULL)
        return NULL;
    end = stpcpy(names, o->names[0]);
    for (size_t i = 1; i < o->name_count; i++)
        end = stpcpy(stpcpy(end, "+"), o->names[i]);
    return names;
}

static void label_servers(struct session *s, const char *const *uris, size_t count)
{
    if (count == 1)
        server_label(uris[0], s->server);
    else
        snprintf(s->server, sizeof s->server, "%zu servers", count);
}

/* Not even its harmless parts are shown: in a malformed address nobody knows which part is the password. */
static void say_address_wrong(const struct session *s, const rdl_err_t *err)
{
    const struct run_options *o = s->options;
    const char *else_wrong = (o->given & GIVEN_TLS) != 0     ? ", or an option for TLS,"
                             : (o->given & GIVEN_LOCAL) != 0 ? ", or --local-dir,"
                                                             : "";

    if (o->redlock != NULL)
        text_say("address %zu in --redlock%s is wrong: %s", s->hold.client_count + 1, else_wrong, reason_of(err));
    else
        text_say("the address in %s%s is wrong: %s", o->server != NULL ? "--server" : "REDLATCH_SERVER", else_wrong,
                 reason_of(err));
}

/* With the clients open, or failed to. */
static void hold_and_run(struct session *s, int rc, rdl_err_t *err, int signal_fd)
{
    say_locking(s);
    if (rc == RDL_OK)
        rc = begin(s, err);
    if (rc == RDL_OK) {
        progress_begin(&s->progress, s->options, s->uri, s->name);
        loop(s, signal_fd);
    } else {
        not_taken(s, rc, err);
    }
}

int session_run(const struct run_options *options, const char *const *uris, size_t count)
{
    char *names = join_names(options);
    struct session s = {.options = options, .names = names, .uri = uris[0], .began_ms = now_ms(), .heard_ms = now_ms()};
    rdl_err_t err = {0};
    int signal_fd;
    int rc;

    if (names == NULL) {
        text_say("%s", rdl_strerror(RDL_ENOMEM));
        return EXITCODE_TROUBLE;
    }
    if (options->verbose)
        text_stamp();
    text_safe(names, strlen(names), s.name);
    if ((signal_fd = signals_open()) < 0) {
        text_say("cannot handle signals: %s", strerror(errno));
        free(names);
        return EXITCODE_TROUBLE;
    }
    rc = hold_open(&s.hold, options, uris, count, &err);
    signals_defer();
    if (rc == RDL_EINVAL) {
        say_address_wrong(&s, &err);
        s.exit_code = EXITCODE_USAGE;
    } else {
        label_servers(&s, uris, count);
        hold_and_run(&s, rc, &err, signal_fd);
    }
    finish(&s);
    rc = exit_code_of(&s);
    if (!progress_done(&s.progress)) {
        text_flush();
        _exit(rc);
    }
    free(names);
    return rc;
}
