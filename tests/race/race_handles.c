/* SPDX-License-Identifier: MIT */
/* race_handles.c - handles that come and go while their locks are held, lost, evicted and watched: on short leases,
 * with threads that end as holders and a stranger that deletes keys. Each hold is reported lost to a handle at most
 * once, and nothing of a handle is touched after it was freed (the sanitizers see to that). */
#include "tests/support/race.h"

#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 6, NAMES = 3, WATCHES_MAX = 200000 };

/* What one handle was told. It outlives the handle, for a callback may still be running when the handle is freed. */
struct watch {
    pthread_mutex_t mu;
    int64_t lost; /* the last hold reported lost, by its token: holds of a lock are lost one after another, mostly */
};

static rdl_client_t *client;
static struct watch *watches;
static atomic_uint watch_count;
static atomic_bool over;
static atomic_ullong taken, lost, told;

static void on_lost(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    struct watch *watch = arg;

    if (rdl_lock_name(lock, NULL) == NULL || (loss->state != RDL_LOST && loss->state != RDL_AT_RISK))
        race_violation("a callback with nonsense");
    if (loss->state != RDL_LOST)
        return;
    atomic_fetch_add(&told, 1);
    pthread_mutex_lock(&watch->mu);
    if (watch->lost == loss->token)
        race_violation("%s was reported lost twice", loss->owner);
    watch->lost = loss->token;
    pthread_mutex_unlock(&watch->mu);
}

static struct watch *new_watch(void)
{
    unsigned i = atomic_fetch_add(&watch_count, 1);

    if (i >= WATCHES_MAX)
        return NULL;
    pthread_mutex_init(&watches[i].mu, NULL);
    return &watches[i];
}

static rdl_lock_t *make(unsigned *random)
{
    int i = race_below(random, NAMES);
    char name[16];

    (void)snprintf(name, sizeof name, "short%d", i);
    return (i == 0 ? simple : reentrant)(client, name, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
}

/* Take it, perhaps sit on it until it is lost, give it back, or forget to. */
static void use(struct race_thread *t, rdl_lock_t *lock)
{
    static const int64_t leases[] = {RDL_LEASE_AUTO, 5, 20, 60};
    int rc = rdl_try_lock(lock, race_below(&t->random, 40), leases[race_below(&t->random, 4)], NULL);

    if (rc != RDL_OK)
        return;
    atomic_fetch_add(&taken, 1);
    if (race_below(&t->random, 3) == 0)
        let_pass_ms(race_below(&t->random, 40));
    if (rdl_is_held(lock, NULL) == RDL_ELOST)
        atomic_fetch_add(&lost, 1);
    if (race_below(&t->random, 8) != 0)
        (void)rdl_unlock(lock, NULL);
    if (race_below(&t->random, 8) == 0)
        (void)rdl_force_unlock(lock, NULL);
}

/* A thread lives for a few handles and may end as a holder; another follows it. */
static void *live_shortly(void *arg)
{
    struct race_thread *t = arg;

    for (int i = 0; i < 20 && !atomic_load(&over); i++) {
        rdl_lock_t *lock = make(&t->random);
        struct watch *watch = new_watch();

        if (watch != NULL && race_below(&t->random, 2) == 0)
            (void)rdl_on_lost(lock, on_lost, watch, NULL);
        use(t, lock);
        if (race_below(&t->random, 4) == 0)
            (void)rdl_on_lost(lock, NULL, NULL, NULL);
        rdl_lock_free(lock);
    }
    return NULL;
}

static void *follow_each_other(void *arg)
{
    race_lives(arg, live_shortly, &over);
    return NULL;
}

int main(int argc, char **argv)
{
    struct race_thread threads[THREADS];
    struct stage st;
    unsigned random = 3;

    race_begin(argc, argv);
    race_wants(&taken, 100);
    race_wants(&told, 10);
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 60));
    client = st.client;
    watches = must_alloc(WATCHES_MAX * sizeof *watches);
    race_start(threads, THREADS, follow_each_other, NULL);
    for (; race_goes_on(); let_pass_ms(3))
        (void)probe_int(st.probe, "DEL short%d", race_below(&random, NAMES));
    atomic_store(&over, true);
    race_join(threads, THREADS);
    printf("%llu taken, %llu found lost, %llu told, %u handles\n", taken, lost, told, atomic_load(&watch_count));
    race_claim(race_violations() == 0, "no loss is told twice");
    race_claim(race_had_them(), "locks were taken and lost");
    race_claim(stage_ends_clean(&st, 5000), "nothing is left at the server");
    stage_close(&st);
    free(watches);
    return race_end();
}
