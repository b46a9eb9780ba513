/* SPDX-License-Identifier: MIT */
/* race_callers.c - many threads share one connection, each on a lock of its own: nobody contends, so every call
 * succeeds.
 *
 * Here the reader's role goes round as fast as it can (core/io/lane_callers.c). A thread that overlooks that it was
 * made the reader, or that sleeps on after it was answered, shows as calls that run into their deadline. */
#include "tests/support/race.h"

#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 24, PATIENCE_MS = 5000 };

static rdl_lock_t *locks[THREADS];
static atomic_ullong pairs;
static atomic_bool stuck;

static void *run(void *arg)
{
    struct race_thread *t = arg;
    rdl_err_t err = {0};

    while (race_goes_on() && !atomic_load(&stuck)) {
        if (rdl_try_lock(locks[t->number], 0, 20000, &err) != RDL_OK || rdl_unlock(locks[t->number], &err) != RDL_OK) {
            race_violation("nobody else wants the lock: %s", err.message);
            atomic_store(&stuck, true);
        }
        atomic_fetch_add(&pairs, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct race_thread threads[THREADS];
    struct stage st;

    race_begin(argc, argv);
    stage_open(&st, .client = OPTIONS(.connections = 1, .command_timeout_ms = PATIENCE_MS));
    for (int i = 0; i < THREADS; i++) {
        char *name = must_format("own%d", i);

        locks[i] = i % 2 == 0 ? reentrant(st.client, name, NULL) : simple(st.client, name, NULL);
        free(name);
    }
    race_start(threads, THREADS, run, NULL);
    race_join(threads, THREADS);
    printf("%llu pairs\n", pairs);
    race_claim(race_violations() == 0, "every call is answered");
    race_claim(stage_ends_clean(&st, 5000), "nothing is left at the server");
    for (int i = 0; i < THREADS; i++)
        rdl_lock_free(locks[i]);
    stage_close(&st);
    return race_end();
}
