/* SPDX-License-Identifier: MIT */
/* race_locks.c - many threads on few locks: of both types, through two clients, nested, with and without patience;
 * first on a sound line, then on one that is cut again and again. Whoever is inside is alone, and tokens only grow.
 *
 * What a lock guards is plain memory: ThreadSanitizer sees it when the library lets two threads in without an order. */
#include "tests/support/race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, LOCKS = 4, CLIENTS = 2 };

static struct guarded resources[LOCKS];
static rdl_lock_t *locks[CLIENTS][LOCKS];
static atomic_ullong acquired, refused, unknown;

/* What an acquire may say without anything being wrong. */
static bool is_refusal(int rc)
{
    return rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN || rc == RDL_ECONN;
}

static void note(int rc, const char *verb, const rdl_err_t *err)
{
    if (is_refusal(rc))
        atomic_fetch_add(rc == RDL_ETIMEDOUT ? &refused : &unknown, 1);
    else if (rc != RDL_OK)
        race_violation("%s: %s: %s", verb, rdl_err_name(rc), err->message);
}

static void use(struct race_thread *t, rdl_lock_t *lock, struct guarded *resource)
{
    static const int64_t waits[] = {0, 1, 20, 2000, RDL_WAIT_FOREVER};
    bool nest = strcmp(rdl_lock_type(lock), "reentrant") == 0 && race_below(&t->random, 4) == 0;
    rdl_err_t err = {0};
    int rc =
        rdl_try_lock(lock, waits[race_below(&t->random, 5)], race_below(&t->random, 2) ? RDL_LEASE_AUTO : 20000, &err);

    note(rc, "try_lock", &err);
    if (rc != RDL_OK)
        return;
    atomic_fetch_add(&acquired, 1);
    guarded_enter(resource, rdl_token(lock, NULL));
    if (nest && (rc = rdl_try_lock(lock, 2000, RDL_LEASE_AUTO, &err)) == RDL_OK)
        note(rdl_unlock(lock, &err), "nested unlock", &err);
    if (rdl_is_held(lock, &err) != 1)
        race_violation("held, and told otherwise");
    guarded_leave(resource);
    note(rdl_unlock(lock, &err), "unlock", &err);
}

static atomic_bool phase_over;

static void *play(void *arg)
{
    struct race_thread *t = arg;

    while (!atomic_load(&phase_over)) {
        int which = race_below(&t->random, LOCKS);

        use(t, locks[t->number % CLIENTS][which], &resources[which]);
    }
    return NULL;
}

static void make_locks(int client, rdl_client_t *of)
{
    const rdl_lock_options_t *fenced = LOCK_OPTIONS(.fencing = RDL_FENCING_TIME);

    for (int i = 0; i < LOCKS; i++) {
        char *name = must_format("shared%d", i);

        locks[client][i] = i % 2 == 0 ? reentrant(of, name, fenced) : simple(of, name, fenced);
        free(name);
    }
}

static void run_phase(struct stage *st, bool cut)
{
    struct race_thread threads[THREADS];
    unsigned random = 17;

    atomic_store(&phase_over, false);
    race_start(threads, THREADS, play, NULL);
    for (int64_t end = now_ms() + 4000; race_goes_on() && now_ms() < end; let_pass_ms(5)) {
        if (cut && race_below(&random, 4) == 0)
            proxy_cut_after(st->proxy, race_below(&random, 2) ? PROXY_TO_SERVER : PROXY_TO_CLIENT,
                            (size_t)race_below(&random, 2000));
    }
    atomic_store(&phase_over, true);
    proxy_cut_after(st->proxy, PROXY_BOTH_WAYS, SIZE_MAX);
    race_join(threads, THREADS);
}

int main(int argc, char **argv)
{
    struct stage st;
    rdl_client_t *other;

    race_begin(argc, argv);
    stage_open(&st, .proxied = true, .client = OPTIONS(.reconnect_min_ms = 1, .reconnect_max_ms = 20));
    other = client_open(stage_uri(&st), OPTIONS(.reconnect_min_ms = 1, .reconnect_max_ms = 20, .connections = 1));
    make_locks(0, st.client);
    make_locks(1, other);
    for (bool cut = false; race_goes_on(); cut = !cut)
        run_phase(&st, cut);
    printf("%llu acquired, %llu refused, %llu unknown\n", acquired, refused, unknown);
    race_claim(race_violations() == 0, "whoever is inside is alone, with a token above the last");
    race_claim(acquired > 100, "the locks were taken");
    race_claim(stage_is_clean(&st, 5000), "nothing is left at the server");
    for (int i = 0; i < CLIENTS * LOCKS; i++)
        rdl_lock_free(locks[i % CLIENTS][i / CLIENTS]);
    rdl_client_close(other);
    stage_close(&st);
    return race_end();
}
