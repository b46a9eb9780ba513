/* SPDX-License-Identifier: MIT */
/* race_cancel.c - cancelling and running out of time against being woken: whatever wins, each call has one outcome,
 * nothing stays locked, and no wake-up is lost: at the end a patient waiter gets in at once. */
#include "tests/support/notes.h"
#include "tests/support/race.h"

#include <stdio.h>

enum { WAITERS = 6, CANCELLERS = 2, ASYNC = 4 };

#define NAME "contended"

static rdl_client_t *client;
static rdl_lock_t *lock;
static rdl_owner_t *owners[WAITERS];
static struct guarded resource;
static atomic_bool over;

static atomic_ullong taken, cancelled, timed_out;

static void judge(int64_t rc, const char *what, const rdl_err_t *err)
{
    if (rc == RDL_OK)
        atomic_fetch_add(&taken, 1);
    else if (rc == RDL_ECANCELED)
        atomic_fetch_add(&cancelled, 1);
    else if (rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN || rc == RDL_ECONN) /* on its way, or not yet connected */
        atomic_fetch_add(&timed_out, 1);
    else
        race_violation("%s: %s: %s", what, rdl_err_name((int)rc), err->message);
}

/* Where the machine is so crowded that cancelling nearly always wins, it is given later. */
static int later(int usual)
{
    return atomic_load(&cancelled) > 10 * atomic_load(&taken) + 100 ? 20 * usual : usual;
}

/* Blocking calls of a named owner, some of them patient. */
static void *wait_and_hold(void *arg)
{
    struct race_thread *t = arg;
    rdl_err_t err = {0};

    (void)rdl_owner_bind(owners[t->number], NULL);
    while (!atomic_load(&over)) {
        int64_t wait = race_below(&t->random, 3) == 0 ? RDL_WAIT_FOREVER : race_below(&t->random, 10);
        int rc = rdl_try_lock(lock, wait, RDL_LEASE_AUTO, &err);

        judge(rc, "try_lock", &err);
        if (rc != RDL_OK)
            continue;
        guarded_enter(&resource, 0);
        guarded_leave(&resource);
        if ((rc = rdl_unlock(lock, &err)) != RDL_OK)
            race_violation("unlock: %s: %s", rdl_err_name(rc), err.message);
    }
    rdl_owner_unbind(client);
    return NULL;
}

static void *cancel_owners(void *arg)
{
    struct race_thread *t = arg;

    while (!atomic_load(&over)) {
        (void)rdl_owner_cancel(owners[race_below(&t->random, WAITERS)]);
        let_pass_ms(race_below(&t->random, later(2)));
    }
    return NULL;
}

/* Asynchronous calls, cancelled after a random moment. */
static void *start_and_cancel(void *arg)
{
    struct race_thread *t = arg;
    rdl_owner_t *owner = NULL;
    rdl_err_t err;

    if (rdl_owner_new(client, &owner, &err) < 0)
        die("%s", err.message);
    while (!atomic_load(&over)) {
        struct outcome o = {0}, given_back = {0};
        rdl_op_t *op = NULL;
        int64_t when = now_us() + race_below(&t->random, later(1500));

        if (rdl_lock_async(lock, owner, RDL_LEASE_AUTO, outcome_note, &o, &op, &err) < 0)
            die("%s", err.message);
        while (now_us() < when)
            ;
        rdl_op_cancel(op);
        judge(outcome_wait(&o, 20000), "lock_async", &o.err);
        rdl_op_free(op);
        if (o.result == RDL_OK) {
            guarded_enter(&resource, 0);
            guarded_leave(&resource);
            if (rdl_unlock_async(lock, owner, outcome_note, &given_back, NULL, &err) < 0)
                die("%s", err.message);
            if (outcome_wait(&given_back, 20000) != RDL_OK)
                race_violation("unlock_async: %s", given_back.err.message);
        }
        if (atomic_load(&o.calls) != 1)
            race_violation("a callback came %u times", atomic_load(&o.calls));
    }
    rdl_owner_free(owner);
    return NULL;
}

int main(int argc, char **argv)
{
    struct race_thread waiters[WAITERS], cancellers[CANCELLERS], starters[ASYNC];
    struct stage st;
    rdl_err_t err;
    int64_t start;

    race_begin(argc, argv);
    race_wants(&taken, 100);
    race_wants(&cancelled, 100);
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 3000));
    client = st.client;
    lock = reentrant(client, NAME, NULL);
    for (int i = 0; i < WAITERS; i++) {
        if (rdl_owner_new(client, &owners[i], &err) < 0)
            die("%s", err.message);
    }
    race_start(waiters, WAITERS, wait_and_hold, NULL);
    race_start(cancellers, CANCELLERS, cancel_owners, NULL);
    race_start(starters, ASYNC, start_and_cancel, NULL);
    while (race_goes_on())
        let_pass_ms(20);
    atomic_store(&over, true);
    race_join(waiters, WAITERS);
    race_join(cancellers, CANCELLERS);
    race_join(starters, ASYNC);
    printf("%llu taken, %llu cancelled, %llu timed out\n", taken, cancelled, timed_out);
    race_claim(race_violations() == 0, "every call has one of its outcomes, and whoever is inside is alone");
    race_claim(race_had_them(), "both sides of the race have won");
    start = now_ms();
    race_claim(rdl_try_lock(lock, 4000, RDL_LEASE_AUTO, &err) == RDL_OK && now_ms() - start < 2000,
               "the lock is free at the end");
    race_claim(rdl_unlock(lock, &err) == RDL_OK && stage_ends_clean(&st, 5000), "nothing is left at the server");
    for (int i = 0; i < WAITERS; i++)
        rdl_owner_free(owners[i]);
    rdl_lock_free(lock);
    stage_close(&st);
    return race_end();
}
