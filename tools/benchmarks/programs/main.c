/* SPDX-License-Identifier: MIT */
/* main.c - reads what was asked for and runs it; see measure.h. */
#include "tools/benchmarks/programs/measure.h"

#include "tests/support/proxy.h"
#include "tests/support/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOUND_S 300

/* Uses its core until it is killed: somebody else who wants it. */
void measure_nothing(const struct run *run)
{
    volatile uint64_t n = 0;

    (void)run;
    while (now_ns() > 0)
        n++;
}

static const struct {
    const char *name;
    void (*measure)(const struct run *run);
} measurements[] = {
    {"pairs", measure_pairs},         {"pipeline", measure_pipeline}, {"async", measure_async},
    {"handoff", measure_handoff},     {"waiters", measure_waiters},   {"processes", measure_processes},
    {"takeover", measure_takeover},   {"renewal", measure_renewal},   {"bytes", measure_bytes},
    {"reconnect", measure_reconnect}, {"failover", measure_failover}, {"recall", measure_recall},
    {"turns", measure_turns},         {"writer", measure_writer},     {"shares", measure_shares},
    {"renewed", measure_renewed},     {"crowd", measure_crowd},       {"contended", measure_contended},
    {"zipf", measure_zipf},           {"nothing", measure_nothing},
};

static int64_t number(const char *name, const char *text)
{
    char *end = NULL;
    long long n;

    errno = 0;
    n = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || n < 0)
        fail("%s wants a whole number, not %s", name, text);
    return n;
}

static double real(const char *name, const char *text)
{
    char *end = NULL;
    double n = strtod(text, &end);

    if (end == text || *end != '\0' || n < 0)
        fail("%s wants a number of seconds, not %s", name, text);
    return n;
}

static void read_option(struct run *run, const char *name, const char *text)
{
    const struct {
        const char *name;
        const char **text;
        int64_t *number;
        double *real;
    } options[] = {
        {"--server", &run->server, NULL, NULL},   {"--tree", &run->tree, NULL, NULL},
        {"--kind", &run->kind, NULL, NULL},       {"--threads", NULL, &run->threads, NULL},
        {"--locks", NULL, &run->locks, NULL},     {"--processes", NULL, &run->processes, NULL},
        {"--owners", NULL, &run->owners, NULL},   {"--rounds", NULL, &run->rounds, NULL},
        {"--holds", NULL, &run->holds, NULL},     {"--lease-ms", NULL, &run->lease_ms, NULL},
        {"--far-ms", NULL, &run->far_ms, NULL},   {"--outage-ms", NULL, &run->outage_ms, NULL},
        {"--hold-ms", NULL, &run->hold_ms, NULL}, {"--pause-ms", NULL, &run->pause_ms, NULL},
        {"--at-ms", NULL, &run->at_ms, NULL},     {"--core", NULL, &run->core, NULL},
        {"--count", NULL, &run->count, NULL},     {"--batch", NULL, &run->batch, NULL},
        {"--seconds", NULL, NULL, &run->seconds}, {"--warmup", NULL, NULL, &run->warmup},
    };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strcmp(options[i].name, name) != 0)
            continue;
        if (text == NULL)
            fail("%s wants a value", name);
        if (options[i].text != NULL)
            *options[i].text = text;
        else if (options[i].number != NULL)
            *options[i].number = number(name, text);
        else
            *options[i].real = real(name, text);
        return;
    }
    fail("no such option: %s", name);
}

/* Far away from a server of one's own. The hand-off and the writer do it by themselves, for one of those who lock. */
static void measure_far(void (*measure)(const struct run *run), struct run *run)
{
    struct server *server = server_start(NULL);
    struct proxy *proxy = proxy_start(server);

    proxy_delay(proxy, PROXY_BOTH_WAYS, run->far_ms);
    run->server = proxy_uri(proxy);
    measure(run);
    proxy_stop(proxy);
    server_stop(server);
}

int main(int argc, char **argv)
{
    struct run run = {.server = "redis://127.0.0.1:6379",
                      .tree = ".",
                      .kind = "redlatch",
                      .threads = 1,
                      .locks = 1,
                      .processes = 16,
                      .owners = 256,
                      .rounds = 5,
                      .holds = 1000,
                      .batch = 1,
                      .seconds = 1,
                      .warmup = 0.2};

    if (argc < 2)
        fail("what? (pairs, ...)");
    for (int i = 2; i < argc; i += 2)
        read_option(&run, argv[i], argv[i + 1]);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)alarm(BOUND_S);
    for (size_t i = 0; i < sizeof measurements / sizeof *measurements; i++) {
        if (strcmp(measurements[i].name, argv[1]) != 0)
            continue;
        if (run.far_ms > 0 && measurements[i].measure != measure_handoff && measurements[i].measure != measure_writer)
            measure_far(measurements[i].measure, &run);
        else
            measurements[i].measure(&run);
        return 0;
    }
    fail("no such measurement: %s", argv[1]);
}
