/* SPDX-License-Identifier: MIT */
/* wait.c - `redlatch wait`: until a lock is free, without taking it.
 *
 * The server is looked at again and again, more rarely the longer it takes, and when a lease is about to end. Nothing
 * is subscribed to: a message says that somebody has released the lock, and whoever it wakes has it by then.
 */
#include "tools/redlatch/access.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/hold.h"
#include "tools/redlatch/holder.h"
#include "tools/redlatch/progress.h"
#include "tools/redlatch/shown.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <redlatch/inspect.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 1000
#define OUTAGE_MS 30000 /* so long no answer is borne, as by a wait of `run` */

struct wait_options {
    struct access access; /* first */
    bool shared;
    int64_t wait_ms;
};

static int apply_wait(void *to, const char *text, struct usage_error *why)
{
    return option_duration("wait", text, 0, &((struct wait_options *)to)->wait_ms, why);
}

static int apply_shared(void *to, const char *text, struct usage_error *why)
{
    (void)text;
    (void)why;
    ((struct wait_options *)to)->shared = true;
    return 0;
}

static const struct option_row rows[] = {
    {'w', "wait", "TIME", "at most that long; 0: look once\n(default: as long as it takes)", apply_wait},
    {'s', "shared", NULL, "until readers are let in: other readers do not matter", apply_shared},
    ACCESS_JSON("how it was found last, as show says it"),
    ACCESS_ROWS,
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

_Static_assert(ROW_COUNT <= OPTIONS_MAX, "getopt_long's tables are too small");

static void wait_help(FILE *out)
{
    fputs("Wait until the lock NAME is free, without taking it.\n"
          "\n"
          "Usage: redlatch wait [options] NAME\n"
          "\n",
          out);
    options_print(out, rows, ROW_COUNT);
    fputs("\n"
          "NAME may be any lock, a semaphore (until there is a permit) or a latch (until it is open). When\n"
          "this ends it was free a moment ago; somebody else may have it by now. To do something while\n"
          "nobody has it, take it: redlatch run. The server is looked at once a second, at first more often.\n"
          "\n"
          "Exit status:\n"
          "    0  it is free\n"
          "    1  it was not, in that time\n"
          "   64  the command line is wrong, or NAME is no lock\n"
          "   69  no server, or no answer from it\n"
          "   70  the server refused, or stdout cannot be written\n",
          out);
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pass(int64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

/* 1: it is free, 0: it is not, and how it is found in *ret_seen; or an error. */
static int look(rdl_client_t *client, const struct wait_options *o, rdl_inspection_t **ret_seen, rdl_err_t *err)
{
    rdl_inspection_t *seen = NULL;
    int rc = rdl_inspect(client, o->access.word, 0, &seen, err);

    if (rc < 0)
        return rc;
    rdl_inspection_free(*ret_seen);
    *ret_seen = seen;
    return strcmp(seen->type, "none") == 0 || strcmp(seen->state, "free") == 0 ||
           (o->shared && strcmp(seen->state, "read") == 0);
}

/* A signal ends this process, as it would any; before that the terminal is as it was. */
static void *end_by_signal(void *arg)
{
    const sigset_t *ending = arg;
    int signo;

    if (sigwait(ending, &signo) != 0)
        return NULL;
    text_status(NULL);
    (void)signal(signo, SIG_DFL);
    (void)raise(signo); /* it comes when this thread lets it in */
    (void)pthread_sigmask(SIG_UNBLOCK, ending, NULL);
    return NULL;
}

/* Before there are other threads. What our caller has us ignore we go on ignoring. */
static void expect_signals(void)
{
    static const int signos[] = {SIGINT, SIGTERM, SIGHUP};
    static sigset_t ending;
    struct sigaction action;
    pthread_t thread;

    (void)sigemptyset(&ending);
    for (size_t i = 0; i < sizeof signos / sizeof *signos; i++)
        if (sigaction(signos[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            (void)sigaddset(&ending, signos[i]);
    (void)pthread_sigmask(SIG_BLOCK, &ending, NULL);
    if (pthread_create(&thread, NULL, end_by_signal, &ending) == 0)
        (void)pthread_detach(thread);
    else
        (void)pthread_sigmask(SIG_UNBLOCK, &ending, NULL);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void show_holder(const char *name, int64_t waited_ms, const rdl_inspection_t *seen)
{
    char holder[HOLDER_CAP];

    if (waited_ms < PROGRESS_FIRST_MS)
        return;
    (void)holder_print(seen, holder, sizeof holder);
    progress_show(name, waited_ms, holder);
}

/* Until it is free, or the time is over, or nobody answers any more. *ret_seen: how it was found last. Only a look that
 * begins when the time is over says that it is not free: an answer may have been long in coming, and the server gone.
 */
static int wait_at(rdl_client_t *client, const struct wait_options *o, rdl_inspection_t **ret_seen)
{
    int64_t began = now_ms(), until = o->wait_ms == RDL_WAIT_FOREVER ? INT64_MAX : began + o->wait_ms, heard = began,
            pause_ms = PAUSE_MIN_MS;
    char name[TEXT_SAFE_CAP];

    text_safe(o->access.word, strlen(o->access.word), name);
    for (;;) {
        rdl_err_t err = {0};
        int64_t asked = now_ms();
        int rc = look(client, o, ret_seen, &err);
        int64_t now = now_ms(), left_ms = rc == 0 ? (*ret_seen)->ttl_ms : -1;

        if (rc == 1)
            return EXITCODE_OK;
        if (rc == 0)
            heard = now;
        else if ((rc != RDL_ECONN && rc != RDL_EUNKNOWN) || now >= least(until, heard + OUTAGE_MS))
            return access_failed(&err);
        if (asked >= until) {
            char holder[HOLDER_CAP];

            (void)holder_print(*ret_seen, holder, sizeof holder);
            text_say("'%s' is not free%s%s", name, holder[0] != '\0' ? ": " : "", holder);
            return EXITCODE_CONFLICT;
        }
        if (rc == 0)
            show_holder(name, now - began, *ret_seen);
        pass(least(least(pause_ms, now < until ? until - now : 0), left_ms >= 0 ? left_ms + 1 : PAUSE_MAX_MS));
        pause_ms = least(pause_ms + pause_ms / 2, PAUSE_MAX_MS);
    }
}

static int wait_and_show(rdl_client_t *client, const struct wait_options *o)
{
    rdl_inspection_t *seen = NULL;
    int status = wait_at(client, o, &seen);

    text_status(NULL);
    if (o->access.json && (status == EXITCODE_OK || status == EXITCODE_CONFLICT)) {
        if (shown_json(stdout, seen, true)) {
            status = subcommand_written(status);
        } else {
            text_say("%s", rdl_strerror(RDL_ENOMEM));
            status = EXITCODE_TROUBLE;
        }
    }
    rdl_inspection_free(seen);
    return status;
}

static int wait_main(int argc, char **argv)
{
    struct wait_options o = {.access = ACCESS_INIT, .wait_ms = RDL_WAIT_FOREVER};
    struct usage_error why;
    rdl_client_t *client = NULL;
    int status;

    if (access_parse(rows, ROW_COUNT, argc, argv, "NAME", &o.access, &why) < 0)
        return subcommand_misused(subcommand_wait.name, &why);
    if (o.access.asked != ASKED_NOTHING)
        return subcommand_asked(o.access.asked, wait_help);
    expect_signals();
    o.access.connect_ms = hold_connect_ms(o.wait_ms);
    if ((status = access_open(&o.access, &client)) == EXITCODE_OK)
        status = wait_and_show(client, &o);
    rdl_client_close(client);
    return status;
}

const struct subcommand subcommand_wait = {
    .name = "wait",
    .summary = "wait until a lock is free, without taking it",
    .main = wait_main,
    .help = wait_help,
};
