/* SPDX-License-Identifier: MIT */
/* race_unconfirmed.c - many threads whose unlocks are not waited for (core/call/detached.c), on few connections that
 * break and at a server that forgets its scripts.
 *
 * Most of the time each thread is on a lock of its own, which nobody else wants: so each try succeeds at once, though
 * the release before it may be on its way, in doubt, or to be sent again. Else all are on one lock. At no time is a
 * hold lost. */
#include "tests/support/race.h"

#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 16, PATIENCE_MS = 10000, LEASE_MS = 60000, MISHAP_MS = 30 };

static rdl_lock_t *locks[THREADS], *common;
static struct guarded guarded;
static atomic_ullong pairs;
static atomic_bool stuck;

static void on_lost(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    (void)lock;
    (void)arg;
    race_violation("hold %s is lost", loss->owner);
}

static void stop(const char *what, const rdl_err_t *err)
{
    race_violation("%s: %s", what, err->message);
    atomic_store(&stuck, true);
}

static void use_own(rdl_lock_t *lock, bool nested)
{
    rdl_err_t err = {0};

    for (int i = 0; i <= nested; i++)
        if (rdl_try_lock(lock, 0, LEASE_MS, &err) != RDL_OK)
            stop("nobody else wants the lock", &err);
    for (int i = 0; i <= nested; i++)
        if (rdl_unlock(lock, &err) != RDL_OK)
            stop("what is held can be given back", &err);
}

static void use_common(void)
{
    rdl_err_t err = {0};

    if (rdl_try_lock(common, PATIENCE_MS, LEASE_MS, &err) != RDL_OK) {
        stop("everybody's turn comes", &err);
        return;
    }
    guarded_enter(&guarded, 0);
    guarded_leave(&guarded);
    if (rdl_unlock(common, &err) != RDL_OK)
        stop("what is held can be given back", &err);
}

static void *run(void *arg)
{
    struct race_thread *t = arg;

    while (race_goes_on() && !atomic_load(&stuck)) {
        if (race_below(&t->random, 8) == 0)
            use_common();
        else
            use_own(locks[t->number], t->number % 2 == 0 && race_below(&t->random, 4) == 0);
        atomic_fetch_add(&pairs, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const rdl_lock_options_t *options = LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED);
    struct race_thread threads[THREADS];
    struct stage st;

    race_begin(argc, argv);
    stage_open(&st, .client = OPTIONS(.connections = 2, .command_timeout_ms = PATIENCE_MS,
                                      .close_timeout_ms = PATIENCE_MS, .reconnect_min_ms = 1, .reconnect_max_ms = 5));
    for (int i = 0; i < THREADS; i++) {
        char *name = must_format("own%d", i);

        locks[i] = i % 2 == 0 ? reentrant(st.client, name, options) : simple(st.client, name, options);
        (void)rdl_on_lost(locks[i], on_lost, NULL, NULL);
        free(name);
    }
    common = reentrant(st.client, "common", options);
    (void)rdl_on_lost(common, on_lost, NULL, NULL);
    race_start(threads, THREADS, run, NULL);
    for (int i = 0; race_goes_on() && !atomic_load(&stuck); i++) {
        if (i % 2 == 0)
            (void)probe_ask(st.probe, "SCRIPT FLUSH");
        else
            (void)probe_ask(st.probe, "CLIENT KILL TYPE normal SKIPME yes");
        let_pass_ms(MISHAP_MS);
    }
    race_join(threads, THREADS);
    printf("%llu pairs\n", pairs);
    for (int i = 0; i < THREADS; i++)
        rdl_lock_free(locks[i]); /* their last releases may be on their way */
    rdl_lock_free(common);
    st.client = rdl_client_close(st.client);
    race_claim(race_violations() == 0, "no take is refused by what its own owner has given back, and no hold is lost");
    race_claim(stage_is_clean(&st, 5000), "nothing is left at the server");
    stage_close(&st);
    return race_end();
}
