/* SPDX-License-Identifier: MIT */
/* race.h - what the race programs share: a seed, an end, claims that are counted, threads.
 *
 *     race_x [SEED [SECONDS]]
 *
 * The seed decides what the threads do, not how the machine interleaves them. A program ends with "N passed, N failed"
 * and the status to go with it. No Criterion: it aborts under ThreadSanitizer.
 */
#ifndef TESTS_SUPPORT_RACE_H
#define TESTS_SUPPORT_RACE_H

#include "tests/support/stage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define RACE_THREADS_MAX 64

void race_begin(int argc, char **argv);
int64_t race_left_ms(void);

/* Before its threads begin: the race is to go on until the count is above that, on a crowded machine too, half a minute
 * longer at most. */
void race_wants(const atomic_ullong *count, unsigned long long above);
bool race_goes_on(void);  /* any thread: is there time left, or is something still wanted? */
bool race_had_them(void); /* all that was wanted */
int race_end(void);       /* to be returned from main */

/* A claim. It is said once when it holds and every time it does not. */
void race_claim(bool holds, const char *claim);

/* Something that must never be; any thread. Counted, and the first few are printed. */
void race_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
unsigned race_violations(void); /* and begin to count anew */

/* Run `fn` on n threads, each with its number and a random state of its own, and wait for all of them. */
struct race_thread {
    int number;
    unsigned random;
    void *arg;
    pthread_t id;
};
void race_start(struct race_thread *threads, int n, void *(*fn)(void *thread), void *arg);
void race_join(struct race_thread *threads, int n);

/* For such a thread: until it is over, have one thread after another live shortly (`fn`), each with a random state of
 * its own. */
void race_lives(struct race_thread *thread, void *(*fn)(void *thread), const atomic_bool *over);

int race_below(unsigned *random, int n); /* 0..n-1 */

/* A resource that one at a time may use, or many may read: what a lock guards. */
struct guarded {
    atomic_int inside, readers;
    int64_t uses;       /* under the lock */
    int64_t last_token; /* under the lock; 0 tokens are not compared */
};
void guarded_enter(struct guarded *g, int64_t token);
void guarded_leave(struct guarded *g);
int64_t guarded_read(struct guarded *g); /* how often it was used */
void guarded_has_read(struct guarded *g);

#endif
