/* SPDX-License-Identifier: MIT */
/* race_composite.c - composite locks under many threads: multi-locks over names that overlap, given in different orders
 * and through clients of two servers, a red lock of three, and the names by themselves; blocking and asynchronous,
 * nested, canceled, queried; and one side's clients closed and opened again meanwhile. Whoever holds is alone, every
 * call is answered, and nothing is left. */
#include "tests/support/race.h"

#include <stdio.h>
#include <string.h>

enum { SERVERS = 3, NAMES = 3, SIDES = 2, THREADS = 6, MULTIS = 3, RED = NAMES };

static const struct {
    int n;
    int name[NAMES]; /* the first one's client is the home */
} sets[MULTIS] = {{2, {1, 0}}, {2, {2, 0}}, {3, {2, 1, 0}}};

/* What one side of the race has: a client a server, members, and the composites made of them. */
struct side {
    rdl_client_t *client[SERVERS];
    rdl_lock_t *member[NAMES];
    rdl_lock_t *vote[SERVERS];
    rdl_lock_t *lock[MULTIS + 1]; /* the last is the red lock */
};

static struct server *server[SERVERS];
static struct probe *probe[SERVERS];
static struct guarded resources[NAMES + 1];
static struct side sides[SIDES];
static atomic_bool phase_over;
static atomic_ullong acquired, refused, canceled, closed;

static void side_open(struct side *s)
{
    const rdl_lock_options_t *any_age =
        LOCK_OPTIONS(.min_uptime_ms = RDL_UPTIME_ANY, .node_timeout_ms = 2000, .retry.kind = RDL_RETRY_EXPONENTIAL,
                     .retry.min_ms = 1, .retry.max_ms = 20);

    for (int i = 0; i < SERVERS; i++) {
        s->client[i] = client_open(server_uri(server[i]), OPTIONS(.connections = 2));
        s->vote[i] = reentrant(s->client[i], "vote", NULL);
    }
    for (int i = 0; i < NAMES; i++)
        s->member[i] = reentrant(s->client[i % 2], (const char *const[]){"x", "y", "z"}[i], NULL);
    for (int k = 0; k < MULTIS; k++) {
        rdl_lock_t *of[NAMES];

        for (int i = 0; i < sets[k].n; i++)
            of[i] = s->member[sets[k].name[i]];
        if (rdl_multi_lock(of, (size_t)sets[k].n, NULL, &s->lock[k], NULL) < 0)
            die("no multi-lock");
    }
    if (rdl_red_lock(s->vote, SERVERS, any_age, &s->lock[MULTIS], NULL) < 0)
        die("no red lock");
}

static void side_close_clients(struct side *s, int first)
{
    for (int i = 0; i < SERVERS; i++)
        (void)rdl_client_close(s->client[(first + i) % SERVERS]);
}

static void side_free(struct side *s)
{
    for (int k = 0; k <= MULTIS; k++)
        rdl_lock_free(s->lock[k]);
    for (int i = 0; i < NAMES; i++)
        rdl_lock_free(s->member[i]);
    for (int i = 0; i < SERVERS; i++)
        rdl_lock_free(s->vote[i]);
}

/* The composites, and behind them the names by themselves: those who want one meet threads that read for several
 * servers. */
enum { LOCKS = MULTIS + 1 + NAMES };

static rdl_lock_t *lock_of(const struct side *s, int which)
{
    return which <= MULTIS ? s->lock[which] : s->member[which - MULTIS - 1];
}

/* What a verb may say without anything being wrong: a single lock's request that is in a hurry may not even be sent.
 * Once the side is closed, holds are lost. */
static bool is_refusal(int which, int64_t rc, bool may_close)
{
    return rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN || rc == RDL_ENOQUORUM || rc == RDL_ECANCELED ||
           (which > MULTIS && rc == RDL_ECONN) ||
           (may_close && (rc == RDL_ECLOSED || rc == RDL_ELOST || rc == RDL_ECONN));
}

static bool note(int which, int64_t rc, const char *verb, const rdl_err_t *err, bool may_close)
{
    if (rc == RDL_OK)
        return true;
    if (!is_refusal(which, rc, may_close))
        race_violation("%s: %s: %s", verb, rdl_err_name((int)rc), err->message);
    atomic_fetch_add(rc == RDL_ECLOSED ? &closed : rc == RDL_ECANCELED ? &canceled : &refused, 1);
    return false;
}

static void enter_and_leave(int which)
{
    int resource[NAMES] = {which == MULTIS ? RED : which - MULTIS - 1};
    int n = which >= MULTIS ? 1 : sets[which].n;

    for (int i = 0; which < MULTIS && i < n; i++)
        resource[i] = sets[which].name[i];
    for (int i = 0; i < n; i++)
        guarded_enter(&resources[resource[i]], 0);
    for (int i = 0; i < n; i++)
        guarded_leave(&resources[resource[i]]);
}

static void use_blocking(struct race_thread *t, rdl_lock_t *lock, int which, bool may_close)
{
    static const int64_t waits[] = {0, 1, 20, 2000, 10000};
    rdl_err_t err = {0};

    if (!note(which,
              rdl_try_lock(lock, waits[race_below(&t->random, 5)], race_below(&t->random, 2) ? RDL_LEASE_AUTO : 20000,
                           &err),
              "try_lock", &err, may_close))
        return;
    atomic_fetch_add(&acquired, 1);
    if (!may_close) /* a closed client's holds end with their leases, whoever believes to be inside */
        enter_and_leave(which);
    if (race_below(&t->random, 4) == 0 &&
        note(which, rdl_try_lock(lock, 2000, RDL_LEASE_AUTO, &err), "nested", &err, may_close))
        (void)note(which, rdl_unlock(lock, &err), "nested unlock", &err, may_close);
    if (rdl_is_held(lock, &err) != 1 && !may_close)
        race_violation("held, and told otherwise");
    (void)note(which, rdl_unlock(lock, &err), "unlock", &err, may_close);
}

struct answer {
    pthread_mutex_t mu;
    pthread_cond_t called;
    bool done;
    int64_t result;
    rdl_err_t err;
};

static void on_answer(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct answer *a = arg;

    (void)lock;
    pthread_mutex_lock(&a->mu);
    a->done = true;
    a->result = result;
    if (err != NULL)
        a->err = *err;
    pthread_cond_signal(&a->called);
    pthread_mutex_unlock(&a->mu);
}

static int64_t await(struct answer *a)
{
    pthread_mutex_lock(&a->mu);
    while (!a->done)
        pthread_cond_wait(&a->called, &a->mu);
    a->done = false;
    pthread_mutex_unlock(&a->mu);
    return a->result;
}

static void use_async(struct race_thread *t, rdl_lock_t *lock, int which, bool may_close)
{
    struct answer a = {.mu = PTHREAD_MUTEX_INITIALIZER, .called = PTHREAD_COND_INITIALIZER};
    rdl_op_t *op = NULL;
    rdl_err_t err = {0};
    int64_t rc = rdl_try_lock_async(lock, NULL, race_below(&t->random, 3000), RDL_LEASE_AUTO, on_answer, &a, &op, &err);

    if (!note(which, rc, "try_lock_async", &err, may_close))
        return;
    if (race_below(&t->random, 2))
        rdl_op_cancel(op);
    rc = await(&a);
    rdl_op_free(op);
    if (!note(which, rc, "asynchronous take", &a.err, may_close))
        return;
    atomic_fetch_add(&acquired, 1);
    if (!may_close)
        enter_and_leave(which);
    if (note(which, rdl_unlock_async(lock, NULL, on_answer, &a, NULL, &err), "unlock_async", &err, may_close))
        (void)note(which, await(&a), "asynchronous release", &a.err, may_close);
}

static void run_once(struct race_thread *t, struct side *s, bool may_close)
{
    int which = race_below(&t->random, LOCKS);
    rdl_lock_t *lock = lock_of(s, which);

    switch (race_below(&t->random, 5)) {
    case 0:
        (void)rdl_is_locked(lock, NULL);
        (void)rdl_remaining_ms(lock, NULL);
        break;
    case 1:
        use_async(t, lock, which, may_close);
        break;
    default:
        use_blocking(t, lock, which, may_close);
    }
}

/* A thread that ends leaves nothing behind of the calls that have failed. */
static void *run(void *arg)
{
    struct race_thread *t = arg;

    for (int i = 0; i < 20 && !atomic_load(&phase_over); i++)
        run_once(t, &sides[t->number % SIDES], false);
    return NULL;
}

static void *run_on(void *arg)
{
    race_lives(arg, run, &phase_over);
    return NULL;
}

/* Until the side is closed: every kind of call, and then one that says so. */
static void *run_to_the_end(void *arg)
{
    struct race_thread *t = arg;
    struct side *s = t->arg;

    while (rdl_is_held(s->lock[MULTIS], NULL) != RDL_ECLOSED)
        run_once(t, s, true);
    return NULL;
}

static void run_sharing(void)
{
    struct race_thread threads[THREADS];

    atomic_store(&phase_over, false);
    race_start(threads, THREADS, run_on, NULL);
    for (int64_t end = now_ms() + 3000; race_goes_on() && now_ms() < end;)
        let_pass_ms(5);
    atomic_store(&phase_over, true);
    race_join(threads, THREADS);
}

static void run_closing(unsigned *random)
{
    struct race_thread threads[THREADS];
    struct side *s = &sides[0];
    int64_t start;

    race_start(threads, THREADS, run_to_the_end, s);
    let_pass_ms(race_below(random, 100));
    start = now_ms();
    side_close_clients(s, race_below(random, SERVERS));
    if (now_ms() - start > 6000)
        race_violation("closing took %lld ms", (long long)(now_ms() - start));
    race_join(threads, THREADS);
    side_free(s);
    for (int i = 0; i < SERVERS; i++)
        (void)probe_text(probe[i], "FLUSHALL"); /* holds of a closed client live on their leases */
    side_open(s);
}

int main(int argc, char **argv)
{
    unsigned random = 23;

    race_begin(argc, argv);
    race_wants(&acquired, 50);
    race_wants(&refused, 0);
    race_wants(&canceled, 0);
    race_wants(&closed, 0);
    for (int i = 0; i < SERVERS; i++) {
        server[i] = server_start(NULL);
        probe[i] = probe_open(server[i]);
    }
    for (int i = 0; i < SIDES; i++)
        side_open(&sides[i]);
    do {
        run_sharing();
        for (int i = 0; i < SERVERS; i++)
            race_claim(WAIT_UNTIL(probe_keys(probe[i]) == 0, 5000), "nothing is left at any server");
        for (int i = 0; i < 5; i++)
            run_closing(&random);
    } while (race_goes_on());
    printf("%llu acquired, %llu refused, %llu canceled, %llu closed\n", acquired, refused, canceled, closed);
    race_claim(race_violations() == 0, "whoever is inside is alone, and every call comes home");
    race_claim(race_had_them(), "the locks were taken, refused, canceled and closed");
    for (int i = 0; i < SIDES; i++) {
        side_close_clients(&sides[i], 0);
        side_free(&sides[i]);
    }
    for (int i = 0; i < SERVERS; i++) {
        probe_close(probe[i]);
        server_stop(server[i]);
    }
    return race_end();
}
