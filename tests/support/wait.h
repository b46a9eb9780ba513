/* SPDX-License-Identifier: MIT */
/* wait.h - time in tests: a clock, a bounded poll for conditions that announce nothing, and a way to give up.
 *
 * A test waits for events. WAIT_UNTIL is for conditions that have none (a key gone from the server, a counter in a
 * callback); let_pass_ms is for showing that nothing happens during a time, or that a time has an effect when it is
 * over. Neither makes a test pass by waiting longer: the bound is a limit, not an expectation.
 */
#ifndef TESTS_SUPPORT_WAIT_H
#define TESTS_SUPPORT_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

int64_t now_us(void); /* CLOCK_MONOTONIC */
int64_t now_ms(void);

/* A condition on that clock, and `ms` from now as pthread_cond_timedwait wants it. */
void cond_init(pthread_cond_t *cond);
struct timespec until_ms(int64_t ms);

/* Spend `ms`. Only where time itself is the subject. */
void let_pass_ms(int64_t ms);

/* The processor time that the process has spent in its own code: what pages cost that are touched for the first time,
 * the kernel decides, and with others beside us that is the larger part of a crowd's. */
int64_t user_us(void);

/* End the process, which says what took too much, as soon as it has spent so many us more of that: the square of what
 * it should be is then not waited for. 0: it may take what it likes. */
void limit_user_us(int64_t us, const char *what);

/* Threads that are to do something at one moment, within less than a thread takes to be woken: whoever comes before the
 * others of its `party` spins. `*here` counts those who have come, from 0 and through any number of meetings. */
void meet(atomic_uint *here, unsigned party);

/* Is `condition` true within bound_ms? Looks every millisecond, and once more at the bound; or less often, where
 * looking takes long. */
#define WAIT_UNTIL(condition, bound_ms) WAIT_UNTIL_EVERY(1, condition, bound_ms)
#define WAIT_UNTIL_EVERY(period_ms, condition, bound_ms)                                                               \
    __extension__({                                                                                                    \
        int64_t wait_until_end_ = now_ms() + (bound_ms);                                                               \
        bool wait_until_met_;                                                                                          \
        while (!(wait_until_met_ = (condition)) && now_ms() < wait_until_end_)                                         \
            let_pass_ms(period_ms);                                                                                    \
        wait_until_met_ || (condition);                                                                                \
    })

/* The harness itself cannot go on (no server binary, no memory): say why and abort the test. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Memory or death. */
void *must_alloc(size_t size); /* zeroed */
void *must_realloc(void *block, size_t size);
char *must_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
