/* SPDX-License-Identifier: MIT */
/* measure.h - what the measurements share: what was asked for, time, samples, and the line of answer.
 *
 * The program is
 *
 *   measure NAME --server URI --tree DIR [--OPTION VALUE]...
 *
 * and answers one line of JSON on standard output. It measures one thing once; tools/bench starts it again and again,
 * pins it, and compares. What goes wrong is one line on standard error and exit status 1. A measurement that hangs is
 * ended by an alarm.
 *
 * A new measurement is a file with one function, and a line in main.c.
 */
#ifndef TOOLS_BENCHMARKS_MEASURE_H
#define TOOLS_BENCHMARKS_MEASURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define SEC INT64_C(1000000000)

/* What was asked for. Not every measurement looks at everything. */
struct run {
    const char *server; /* URI, "unix:/path" or "redis://127.0.0.1:port" */
    const char *tree;   /* the top of the source tree, for its Lua files */
    const char *kind;   /* who locks: kind.h */
    int64_t threads;
    int64_t locks; /* thread i takes lock i modulo that */
    int64_t processes;
    int64_t owners; /* asynchronous, or what a pipeline has under way */
    int64_t rounds;
    int64_t holds;
    int64_t lease_ms;  /* 0: renewed */
    int64_t far_ms;    /* above 0: a server of the program's own, behind a proxy that delays so long each way */
    int64_t outage_ms; /* how long the server stays away */
    int64_t hold_ms;   /* how long a lock is held, */
    int64_t pause_ms;  /* and how long its holder stays away then */
    int64_t at_ms;     /* when to begin, in ms since 1970 */
    int64_t core;      /* of the server; where servers of the program's own are put, if it puts them anywhere */
    int64_t count;     /* above 0: so many pairs a thread, and no warm-up, instead of a time */
    int64_t batch;     /* pairs that make one sample */
    double seconds;    /* measured */
    double warmup;     /* before that */
};

void measure_pairs(const struct run *run);
void measure_pipeline(const struct run *run);
void measure_async(const struct run *run);
void measure_handoff(const struct run *run);
void measure_recall(const struct run *run);
void measure_waiters(const struct run *run);
void measure_processes(const struct run *run);
void measure_turns(const struct run *run);
void measure_writer(const struct run *run);
void measure_shares(const struct run *run);
void measure_renewed(const struct run *run);
void measure_crowd(const struct run *run);
void measure_contended(const struct run *run);
void measure_zipf(const struct run *run);
void measure_takeover(const struct run *run);
void measure_renewal(const struct run *run);
void measure_bytes(const struct run *run);
void measure_reconnect(const struct run *run);
void measure_failover(const struct run *run);
void measure_nothing(const struct run *run);

/* ---- time ------------------------------------------------------------------------------------------------------- */

int64_t now_ns(void); /* CLOCK_MONOTONIC: one clock for all processes of the machine */
int64_t cpu_ns(void); /* used by this process so far */
void pause_ns(int64_t ns);
void sleep_until(int64_t then); /* on the clock of now_ns */

/* What is measured happens from start to end; before that is warm-up. */
struct phase {
    int64_t start;
    int64_t end;
};

struct phase phase_from_now(const struct run *run);

/* ---- samples ---------------------------------------------------------------------------------------------------- */

/* Durations in ns. A zeroed one is empty. One thread at a time. */
struct samples {
    int64_t *ns;
    size_t count;
    size_t room;
};

void samples_add(struct samples *s, int64_t ns);
void samples_add_all(struct samples *to, const struct samples *from);
void samples_done(struct samples *s);

/* ---- the answer ------------------------------------------------------------------------------------------------- */

void answer_number(const char *name, double value);
void answer_samples(const char *prefix, struct samples *s); /* PREFIXp50_us, p99, p999, min, max; sorts them */
void answer_end(void);

/* ---- the rest --------------------------------------------------------------------------------------------------- */

_Noreturn void fail(const char *text, ...) __attribute__((format(printf, 1, 2)));

void *allocate(size_t count, size_t size); /* zeroed, or the end */
void *share(size_t size);                  /* zeroed, and the same memory in processes forked later */
void raise_to(_Atomic int64_t *most, int64_t value);
char *format(const char *text, ...) __attribute__((format(printf, 1, 2)));

/* One thread a part, until all have ended. */
void run_threads(int64_t count, void *(*body)(void *part), void *parts, size_t part_size);

#endif
