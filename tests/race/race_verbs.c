/* SPDX-License-Identifier: MIT */
/* race_verbs.c - two threads of one client, each verb against each verb, on every type of lock: by one handle and by
 * two of one name, as owners of their own and as one owner. Who excludes is had by one of them, and when both verbs are
 * over the server has what the owners believe to hold and, once that is given back, nothing.
 *
 * To add a verb: a row. */
#include "tests/support/race.h"

#include <stdio.h>
#include <string.h>

#define NAME "verbs"
#define LEASE_MS 60000

enum { SIDES = 2, SOON_ENOUGH_MS = 5000 };

static const struct kind *kind;
static rdl_client_t *client;
static rdl_lock_t *locks[SIDES];
static rdl_owner_t *shared; /* bound by both; NULL: each thread is itself */
static struct probe *probe;

/* ---- verbs ------------------------------------------------------------------------------------------------------ */

static int64_t take(rdl_lock_t *lock)
{
    return rdl_try_lock(lock, 0, LEASE_MS, NULL);
}

static int64_t take_renewed(rdl_lock_t *lock)
{
    return rdl_try_lock(lock, 0, RDL_LEASE_AUTO, NULL);
}

static int64_t wait_shortly(rdl_lock_t *lock)
{
    return rdl_try_lock(lock, 3, LEASE_MS, NULL);
}

static int64_t take_twice(rdl_lock_t *lock)
{
    int64_t rc = take(lock);

    return rc == RDL_OK ? take(lock) : rc;
}

static int64_t give_back(rdl_lock_t *lock)
{
    return rdl_unlock(lock, NULL);
}

static int64_t take_and_give_back(rdl_lock_t *lock)
{
    int64_t rc = take(lock);

    return rc == RDL_OK ? rdl_unlock(lock, NULL) : rc;
}

static int64_t extend(rdl_lock_t *lock)
{
    return rdl_extend(lock, 2 * LEASE_MS, NULL);
}

static int64_t force(rdl_lock_t *lock)
{
    return rdl_force_unlock(lock, NULL);
}

static int64_t ask(rdl_lock_t *lock)
{
    return rdl_is_locked(lock, NULL);
}

static int64_t look(rdl_lock_t *lock)
{
    int64_t rc = rdl_remaining_ms(lock, NULL);

    (void)rdl_hold_state(lock, NULL);
    (void)rdl_token(lock, NULL);
    return rc < 0 ? rc : rdl_hold_count(lock, NULL);
}

static void note(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)lock;
    (void)err;
    atomic_store((_Atomic int64_t *)arg, result);
}

#define NOT_YET INT64_MIN

static int64_t take_and_cancel(rdl_lock_t *lock)
{
    _Atomic int64_t result = NOT_YET;
    rdl_op_t *op = NULL;
    int64_t rc = rdl_lock_async(lock, shared, LEASE_MS, note, (void *)&result, &op, NULL);

    if (rc < 0)
        return rc;
    rdl_op_cancel(op);
    if (!WAIT_UNTIL(atomic_load(&result) != NOT_YET, SOON_ENOUGH_MS))
        die("a call that was canceled does not end");
    rdl_op_free(op);
    return atomic_load(&result);
}

/* Another handle comes and goes; of a composite that is another composite. */
static int64_t free_a_handle(rdl_lock_t *lock)
{
    rdl_lock_t *another = kind->make(client, NAME, NULL);

    (void)lock;
    (void)rdl_is_held(another, NULL);
    rdl_lock_free(another);
    return RDL_OK;
}

static void on_lost(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    (void)arg;
    if (rdl_lock_name(lock, NULL) == NULL || (loss->state != RDL_LOST && loss->state != RDL_AT_RISK))
        race_violation("a callback with nonsense");
}

static int64_t set_on_lost(rdl_lock_t *lock)
{
    int64_t rc = rdl_on_lost(lock, on_lost, NULL, NULL);

    return rc == RDL_OK ? rdl_on_lost(lock, NULL, NULL, NULL) : rc;
}

/* An owner that takes it, gives it back, and ends. */
static int64_t end_an_owner(rdl_lock_t *lock)
{
    rdl_owner_t *owner = NULL;
    int64_t rc = rdl_owner_new(client, &owner, NULL);

    if (rc < 0 || (rc = rdl_owner_bind(owner, NULL)) < 0)
        die("no owner");
    if ((rc = take(lock)) == RDL_OK)
        rc = rdl_unlock(lock, NULL);
    rdl_owner_unbind(client);
    if (shared != NULL)
        (void)rdl_owner_bind(shared, NULL);
    (void)rdl_owner_free(owner);
    return rc;
}

static const struct verb {
    const char *name;
    int64_t (*run)(rdl_lock_t *lock);
    bool evicts; /* a holder that is not told, for it has a lease of its own */
} verbs[] = {
    {"take", take, false},
    {"take, renewed", take_renewed, false},
    {"wait", wait_shortly, false},
    {"take twice", take_twice, false},
    {"release", give_back, false},
    {"take and release", take_and_give_back, false},
    {"extend", extend, false},
    {"force", force, true},
    {"is_locked", ask, false},
    {"look", look, false},
    {"cancel", take_and_cancel, false},
    {"free a handle", free_a_handle, false},
    {"on_lost", set_on_lost, false},
    {"end an owner", end_an_owner, false},
};

enum { VERBS = sizeof verbs / sizeof verbs[0] };

/* Is it an answer that such a verb may give? A short wait may be over before its thread comes to send anything. */
static bool may_answer(const struct verb *verb, int64_t rc)
{
    return rc >= 0 || (rc == RDL_ECONN && verb->run == wait_shortly) || rc == RDL_ETIMEDOUT || rc == RDL_ENOQUORUM ||
           rc == RDL_EDEADLK || rc == RDL_ELOST || rc == RDL_ENOTOWNER || rc == RDL_ECANCELED || rc == RDL_EUNKNOWN;
}

/* ---- a round ---------------------------------------------------------------------------------------------------- */

static struct {
    pthread_barrier_t gate;
    const struct verb *verb[SIDES];
    bool held; /* by the first, at the beginning */
    bool over;
    int64_t rc[SIDES], count[SIDES];
} round_;

static void *run(void *arg)
{
    const struct race_thread *t = arg;

    for (;;) {
        rdl_lock_t *lock;

        pthread_barrier_wait(&round_.gate); /* the round is laid out */
        if (round_.over)
            return NULL;
        lock = locks[t->number];
        if (shared != NULL && rdl_owner_bind(shared, NULL) < 0)
            die("no owner");
        if (t->number == 0 && round_.held)
            (void)take(lock);
        pthread_barrier_wait(&round_.gate);
        round_.rc[t->number] = round_.verb[t->number]->run(lock);
        pthread_barrier_wait(&round_.gate); /* both are over */
        round_.count[t->number] = rdl_hold_count(lock, NULL);
        pthread_barrier_wait(&round_.gate); /* and looked at */
        pthread_barrier_wait(&round_.gate);
        while (rdl_unlock(lock, NULL) != RDL_ENOTOWNER)
            ;
        if (shared != NULL)
            rdl_owner_unbind(client);
        pthread_barrier_wait(&round_.gate); /* all is given back */
    }
}

static const char *says(int64_t rc)
{
    return rc < 0 ? rdl_err_name((int)rc) : "done";
}

/* Both verbs are over, and nobody does anything. Two composites of the same members are two, and their owner may have
 * both. */
static void judge(void)
{
    const int64_t *count = round_.count;
    const char *a = round_.verb[0]->name, *b = round_.verb[1]->name;
    bool evicted = round_.verb[0]->evicts || round_.verb[1]->evicts;
    bool one = shared != NULL && (locks[0] == locks[1] || kind->members == 0), shares = strcmp(kind->type, "read") == 0;
    int64_t all = count[0] + (one ? 0 : count[1]);

    for (int i = 0; i < SIDES; i++)
        if (!may_answer(round_.verb[i], round_.rc[i]))
            race_violation("%s, %s against %s: %s answers %s", kind->type, a, b, round_.verb[i]->name,
                           says(round_.rc[i]));
    if (evicted || count[0] < 0 || count[1] < 0)
        return;
    if (!shares && count[0] > 0 && count[1] > 0 && shared == NULL)
        race_violation("%s, %s against %s: both hold it", kind->type, a, b);
    if (!WAIT_UNTIL(lock_holds(probe, NAME) == all, SOON_ENOUGH_MS))
        race_violation("%s, %s (%s) against %s (%s), %s: the server has %lld holds, the owners %lld and %lld",
                       kind->type, a, says(round_.rc[0]), b, says(round_.rc[1]),
                       shared != NULL ? "one owner" : "two owners", (long long)lock_holds(probe, NAME),
                       (long long)count[0], (long long)count[1]);
}

static void one_round(unsigned which)
{
    round_.verb[0] = &verbs[which % VERBS];
    round_.verb[1] = &verbs[which / VERBS % VERBS];
    round_.held = which / VERBS / VERBS % 2 == 1;
    pthread_barrier_wait(&round_.gate);
    pthread_barrier_wait(&round_.gate);
    pthread_barrier_wait(&round_.gate);
    pthread_barrier_wait(&round_.gate);
    judge();
    pthread_barrier_wait(&round_.gate);
    pthread_barrier_wait(&round_.gate);
    if (!WAIT_UNTIL(lock_holds(probe, NAME) == 0, SOON_ENOUGH_MS))
        race_violation("%s, %s against %s: it is held when all is given back", kind->type, round_.verb[0]->name,
                       round_.verb[1]->name);
}

/* Rounds of one type, one choice of handles and of owners. */
static unsigned long run_rounds(unsigned *random, bool two_handles, bool one_owner, int rounds)
{
    locks[0] = kind->make(client, NAME, NULL);
    locks[1] = two_handles ? kind->make(client, NAME, NULL) : locks[0];
    if (one_owner && rdl_owner_new(client, &shared, NULL) < 0)
        die("no owner");
    for (int i = 0; i < rounds; i++)
        one_round((unsigned)race_below(random, VERBS * VERBS * 2));
    shared = rdl_owner_free(shared);
    if (two_handles)
        rdl_lock_free(locks[1]);
    lock_over(probe, locks[0]);
    return (unsigned long)rounds;
}

int main(int argc, char **argv)
{
    enum { ROUNDS = 12 };
    struct race_thread threads[SIDES];
    unsigned random = 7;
    unsigned long rounds = 0;
    struct stage st;

    race_begin(argc, argv);
    stage_open(&st);
    client = st.client;
    probe = st.probe;
    pthread_barrier_init(&round_.gate, NULL, SIDES + 1);
    race_start(threads, SIDES, run, NULL);
    do {
        for (kind = kinds; kind < kinds + kind_count; kind++)
            for (int how = 0; how < 4; how++)
                rounds += run_rounds(&random, how % 2 == 1, how / 2 == 1, ROUNDS);
    } while (race_goes_on());
    round_.over = true;
    pthread_barrier_wait(&round_.gate);
    race_join(threads, SIDES);
    pthread_barrier_destroy(&round_.gate);
    printf("%lu rounds\n", rounds);
    race_claim(race_violations() == 0, "two threads agree with the server, whatever they do to each other");
    race_claim(stage_ends_clean(&st, 5000), "nothing is left at the server");
    stage_close(&st);
    return race_end();
}
