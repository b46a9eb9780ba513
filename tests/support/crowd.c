/* SPDX-License-Identifier: MIT */
#include "tests/support/crowd.h"

#include <stdio.h>
#include <string.h>

#define RECONNECTS .reconnect_min_ms = 1, .reconnect_max_ms = 20
#define PHASE_MS 4000
#define OFTEN 100
#define THREADS_MAX 16

/* What a verb may say on a line that is cut. */
static void note(struct crowd *crowd, int rc, const char *verb, const rdl_err_t *err)
{
    if (rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN || rc == RDL_ECONN)
        atomic_fetch_add(rc == RDL_ETIMEDOUT ? &crowd->refused : &crowd->unknown, 1);
    else if (rc != RDL_OK)
        race_violation("%s: %s: %s", verb, rdl_err_name(rc), err->message);
}

static bool nests(const rdl_lock_t *lock)
{
    return strcmp(rdl_lock_type(lock), "nonreentrant") != 0 && strcmp(rdl_lock_type(lock), "simple") != 0;
}

static void use(struct crowd *crowd, struct race_thread *t, int client, int which)
{
    static const int64_t waits[] = {0, 1, 20, 2000, RDL_WAIT_FOREVER};
    bool reads = crowd->read[client][which] != NULL && race_below(&t->random, 4) != 0;
    rdl_lock_t *lock = reads ? crowd->read[client][which] : crowd->lock[client][which];
    struct guarded *guarded = &crowd->guarded[which];
    bool nest = nests(lock) && race_below(&t->random, 4) == 0;
    rdl_err_t err = {0};
    int64_t token, seen = 0;
    int rc =
        rdl_try_lock(lock, waits[race_below(&t->random, 5)], race_below(&t->random, 2) ? RDL_LEASE_AUTO : 20000, &err);

    note(crowd, rc, "try_lock", &err);
    if (rc != RDL_OK)
        return;
    atomic_fetch_add(&crowd->acquired[client], 1);
    token = rdl_token(lock, NULL);
    if (reads)
        seen = guarded_read(guarded);
    else
        guarded_enter(guarded, token > 0 ? token : 0);
    if (nest && (rc = rdl_try_lock(lock, 2000, RDL_LEASE_AUTO, &err)) == RDL_OK)
        note(crowd, rdl_unlock(lock, &err), "nested unlock", &err);
    if (rdl_is_held(lock, &err) != 1)
        race_violation("held, and told otherwise");
    if (reads && guarded->uses != seen)
        race_violation("what is read has changed");
    if (reads)
        guarded_has_read(guarded);
    else
        guarded_leave(guarded);
    note(crowd, rdl_unlock(lock, &err), "unlock", &err);
}

static void *run(void *arg)
{
    struct race_thread *t = arg;
    struct crowd *crowd = t->arg;

    while (!atomic_load(&crowd->phase_over))
        use(crowd, t, t->number % crowd->clients, race_below(&t->random, crowd->locks));
    return NULL;
}

static void run_phase(struct crowd *crowd, struct stage *st, bool cut)
{
    struct race_thread threads[THREADS_MAX];
    unsigned random = 17;

    atomic_store(&crowd->phase_over, false);
    race_start(threads, crowd->threads, run, crowd);
    for (int64_t end = now_ms() + PHASE_MS; race_goes_on() && now_ms() < end; let_pass_ms(5)) {
        if (cut && race_below(&random, 4) == 0)
            proxy_cut_after(st->proxy, race_below(&random, 2) ? PROXY_TO_SERVER : PROXY_TO_CLIENT,
                            (size_t)race_below(&random, 2000));
    }
    atomic_store(&crowd->phase_over, true);
    proxy_cut_after(st->proxy, PROXY_BOTH_WAYS, SIZE_MAX);
    race_join(threads, crowd->threads);
}

void crowd_open(struct stage *st)
{
    stage_open(st, .proxied = true, .client = OPTIONS(RECONNECTS));
}

rdl_client_t *crowd_client(const struct stage *st, int32_t connections)
{
    return client_open(stage_uri(st), OPTIONS(RECONNECTS, .connections = connections));
}

void crowd_run(struct crowd *crowd, struct stage *st)
{
    for (int i = 0; i < crowd->clients; i++)
        race_wants(&crowd->acquired[i], OFTEN);
    for (bool cut = false; race_goes_on(); cut = !cut)
        run_phase(crowd, st, cut);
    for (int i = 0; i < crowd->clients; i++)
        printf("%llu acquired, ", crowd->acquired[i]);
    printf("%llu refused, %llu unknown\n", crowd->refused, crowd->unknown);
    race_claim(race_violations() == 0, "whoever is inside is alone or one of readers, with a token above the last");
    for (int i = 0; i < crowd->clients; i++)
        race_claim(crowd->acquired[i] > OFTEN, "each client has had the locks");
    for (int i = 0; i < crowd->clients * crowd->locks; i++) {
        rdl_lock_free(crowd->lock[i % crowd->clients][i / crowd->clients]);
        rdl_lock_free(crowd->read[i % crowd->clients][i / crowd->clients]);
    }
}
