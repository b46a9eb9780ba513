/* SPDX-License-Identifier: MIT */
/* test_failover.c - holds, waiters and releases through failovers, and waits that end while there is no master
 * (scenarios.md, C6, C3, N9 and N10).
 */
#include "tests/live/failover.h"

FAILOVER_SUITES();

/* Do messages go by sharded channels? */
static bool sharded(void)
{
    return topology == &by_cluster && !server_is_old();
}

/* ---- one master after another ----------------------------------------------------------------------------------- */

/* The replica has everything; then the master dies. */
static void kill_master(void)
{
    cr_assert(WAIT_UNTIL(ask(1, "EXISTS " NAME) == 1, SOON_MS));
    topology->kill(0);
    cr_assert(topology->wait_master(1));
}

/* The master dies, and what it has done since the replica was cut off with it. */
static void kill_master_alone(void)
{
    topology->kill(0);
    topology->resume(1);
}

#define MOST_KINDS 16

/* A lock of each type, all in one slot. */
static rdl_lock_t *locks[MOST_KINDS];

static struct slot_name name_of(const struct kind *kind)
{
    return cluster_name(cluster_slot(NAME), (unsigned)(kind - kinds));
}

static struct slot_name other_name_of(const struct kind *kind)
{
    return cluster_name(cluster_slot(NAME), MOST_KINDS + (unsigned)(kind - kinds));
}

static rdl_lock_t *lock_of(const struct kind *kind)
{
    return locks[kind - kinds];
}

/* -1: not known, as a replica that becomes the master throws out whoever asks it. */
static int is_there(int which, const struct kind *kind)
{
    struct probe *p = topology->look(which);
    const struct reply *r;
    int is;

    probe_send(p, "EXISTS %s", name_of(kind).text);
    r = probe_next(p, SOON_MS);
    is = r != NULL && r->kind == REPLY_INTEGER ? r->integer == 1 : -1;
    probe_close(p);
    return is;
}

static void open_locks_with(const rdl_lock_options_t *options)
{
    client = client_open(uri, NULL);
    cr_assert_leq(single_kind_count, MOST_KINDS);
    FOR_EACH_SINGLE_KIND(kind)
    {
        locks[kind - kinds] = kind->make(client, name_of(kind).text, options);
    }
}

static void open_locks(void)
{
    open_locks_with(NULL);
}

static void take_locks(int64_t lease_ms)
{
    FOR_EACH_SINGLE_KIND(kind)
    {
        expect(RDL_OK, rdl_try_lock(lock_of(kind), 0, lease_ms, &err));
    }
}

static void take_and_free_locks(void)
{
    FOR_EACH_SINGLE_KIND(kind)
    {
        expect(RDL_OK, rdl_try_lock(lock_of(kind), SOON_MS, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock_of(kind), &err));
        rdl_lock_free(lock_of(kind));
    }
}

static void expect_seen_by_replica(bool seen)
{
    FOR_EACH_SINGLE_KIND(kind)
    {
        cr_assert(WAIT_UNTIL(is_there(1, kind) == (int)seen, SOON_MS), "%s: nothing is shown", kind->type);
    }
}

TEST_EACH(C6_hold_that_the_new_master_knows_goes_on)
{
    open_locks();
    take_locks(RDL_LEASE_AUTO);
    expect_seen_by_replica(true);
    topology->kill(0);
    cr_assert(topology->wait_master(1));
    FOR_EACH_SINGLE_KIND(kind)
    {
        cr_assert(WAIT_UNTIL(rdl_extend(lock_of(kind), LEASE_MS, &err) == RDL_OK, HEAL_MS), "%s", err.message);
        if (kind->reentrant) {
            expect(RDL_OK, rdl_try_lock(lock_of(kind), 0, LEASE_MS, &err));
            expect(2, rdl_hold_count(lock_of(kind), &err));
            expect(RDL_OK, rdl_unlock(lock_of(kind), &err));
        }
        expect(RDL_OK, rdl_unlock(lock_of(kind), &err));
        cr_assert(is_there(1, kind) == 0, "%s", kind->type);
        rdl_lock_free(lock_of(kind));
    }
}

/* Their leases have an end and are never renewed: only looking tells. */
TEST_EACH(C6_hold_that_the_new_master_does_not_know_is_lost_at_once)
{
    struct losses losses;

    losses_init(&losses);
    open_locks();
    FOR_EACH_SINGLE_KIND(kind)
    {
        expect(RDL_OK, rdl_on_lost(lock_of(kind), losses_note, &losses, &err));
    }
    topology->cut_off();
    take_locks(LEASE_MS);
    kill_master_alone();
    expect_seen_by_replica(false);
    cr_assert(topology->wait_master(1));
    cr_assert(losses_wait(&losses, RDL_LOST, (int)single_kind_count, HEAL_MS));
    cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_GONE);
    FOR_EACH_SINGLE_KIND(kind)
    {
        expect(RDL_ELOST, rdl_unlock(lock_of(kind), &err));
    }
    take_and_free_locks();
}

/* The replica has seen the locks taken, and was cut off before they were given back: the failover revives holds that
 * nobody has. For how long is the client's affair: it may have repeated all releases before anybody can look. */
static void expect_releases_repeated(const rdl_lock_options_t *options)
{
    open_locks_with(options);
    take_locks(LEASE_MS);
    expect_seen_by_replica(true);
    topology->cut_off();
    FOR_EACH_SINGLE_KIND(kind)
    {
        expect(RDL_OK, rdl_unlock(lock_of(kind), &err));
    }
    kill_master_alone();
    cr_assert(topology->wait_master(1));
    FOR_EACH_SINGLE_KIND(kind)
    {
        cr_assert(WAIT_UNTIL(is_there(1, kind) == 0, HEAL_MS), "%s", kind->type);
    }
    take_and_free_locks();
}

TEST_EACH(C6_release_that_the_new_master_has_not_seen_is_repeated_there)
{
    expect_releases_repeated(NULL);
}

/* Answered or not. */
TEST_EACH(C6_release_that_is_not_waited_for_is_repeated_at_the_new_master)
{
    expect_releases_repeated(LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED));
}

TEST_EACH(C6_waiter_subscribes_at_the_new_master_and_is_woken_there)
{
    struct caller *waiter = caller_new();
    struct probe *p;
    rdl_lock_t *lock;
    char *channel = channel_of(NAME);

    client = client_open(uri, NULL);
    lock = reentrant(client, NAME, NULL);
    p = topology->look(0);
    foreign_take(p, NAME, 600000);
    caller_try_lock(waiter, lock, 2 * FAILOVER_BOUND_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers_of(p, sharded(), channel) == 1, SOON_MS));
    probe_close(p);
    kill_master();
    p = topology->look(1);
    cr_assert(WAIT_UNTIL(probe_listeners_of(p, sharded(), channel) == 1, HEAL_MS));
    cr_assert_eq(foreign_release_by(p, sharded() ? "spublish" : "publish", NAME), 1);
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert_eq(probe_int(p, "HLEN " NAME), 1);
    probe_close(p);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
    free(channel);
}

/* Those of semaphores are not in a connection's greeting; and whatever the former master had learnt, this one has not.
 */
TEST_EACH(C3_new_master_that_knows_no_script_is_told)
{
    rdl_semaphore_t *permits = NULL;
    struct probe *p;

    client = client_open(uri, NULL);
    expect(RDL_OK, rdl_semaphore(client, NAME, NULL, &permits, &err));
    expect(RDL_OK, rdl_semaphore_add_permits(permits, 2, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(permits, 1, 0, &err));
    cr_assert(WAIT_UNTIL(ask(1, "GET " NAME) == 1, SOON_MS));
    kill_master();
    p = topology->look(1);
    (void)probe_text(p, "SCRIPT FLUSH");
    expect(RDL_OK, rdl_semaphore_try_acquire(permits, 1, FAILOVER_BOUND_MS, &err));
    expect(RDL_OK, rdl_semaphore_release(permits, 2, &err));
    cr_assert_eq(probe_int(p, "GET " NAME), 2);
    probe_close(p);
    rdl_semaphore_free(permits);
}

/* The calls that a stopped master swallowed go to its successor, long before anybody would have given the connection
 * up. What it does with them when it comes back is nothing. */
TEST_EACH(C6_stopped_master_is_left_for_its_successor)
{
    struct caller *giver[MOST_KINDS], *taker[MOST_KINDS];
    rdl_lock_t *wanted[MOST_KINDS];
    int64_t switched, gave;

    open_locks();
    FOR_EACH_SINGLE_KIND(kind)
    {
        wanted[kind - kinds] = kind->make(client, other_name_of(kind).text, NULL);
        taker[kind - kinds] = caller_new();
        giver[kind - kinds] = caller_new();
        caller_try_lock(giver[kind - kinds], lock_of(kind), 0, LEASE_MS);
        expect_result(RDL_OK, giver[kind - kinds], SOON_MS);
    }
    expect_seen_by_replica(true);
    topology->pause(0);
    FOR_EACH_SINGLE_KIND(kind)
    {
        caller_try_lock(taker[kind - kinds], wanted[kind - kinds], 2 * FAILOVER_BOUND_MS, LEASE_MS);
        caller_unlock(giver[kind - kinds], lock_of(kind));
    }
    cr_assert(topology->wait_master(1));
    switched = now_us();
    FOR_EACH_SINGLE_KIND(kind)
    {
        expect_result(RDL_OK, taker[kind - kinds], FAILOVER_BOUND_MS);
        gave = caller_result(giver[kind - kinds],
                             FAILOVER_BOUND_MS); /* its time may be up; then it is repeated all the same */
        cr_assert(gave == RDL_OK || gave == RDL_EUNKNOWN, "%s", code_name(gave));
        cr_assert_lt(caller_ended_us(taker[kind - kinds]) - switched, 1000 * HEAL_MS);
        cr_assert(WAIT_UNTIL(is_there(1, kind) == 0, HEAL_MS), "%s", kind->type);
    }
    topology->resume(0);
    cr_assert(topology->wait_synced(0));
    FOR_EACH_SINGLE_KIND(kind)
    {
        struct probe *p = topology->look(1);

        cr_assert_eq(lock_holds(p, other_name_of(kind).text), 1, "%s", kind->type);
        probe_close(p);
        caller_unlock(taker[kind - kinds], wanted[kind - kinds]);
        expect_result(RDL_OK, taker[kind - kinds], SOON_MS);
        caller_free(taker[kind - kinds]);
        caller_free(giver[kind - kinds]);
        rdl_lock_free(wanted[kind - kinds]);
        rdl_lock_free(lock_of(kind));
    }
}

TEST_EACH(C6_no_call_outlives_its_deadline_while_there_is_no_master)
{
    rdl_lock_t *lock;
    int64_t began;

    client = client_open(uri, NULL);
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    topology->kill(1);
    topology->kill(0);
    began = now_ms();
    cr_assert_lt(rdl_try_lock(lock, 700, LEASE_MS, &err), 0);
    expect_between(600, now_ms() - began, 700 + SLACK_MS);
    rdl_lock_free(lock);
}

/* ---- waits that end while there is no master -------------------------------------------------------------------- */

/* What is counted is waited for by who has it shut. */
static int64_t wait_for_semaphore(void *semaphore, rdl_err_t *e)
{
    return rdl_semaphore_try_acquire(semaphore, 1, RDL_WAIT_FOREVER, e);
}

static int64_t wait_for_permit(void *semaphore, rdl_err_t *e)
{
    static rdl_permit_t permit;

    return rdl_permit_semaphore_try_acquire(semaphore, 1, RDL_WAIT_FOREVER, LEASE_MS, &permit, e);
}

static int64_t wait_for_latch(void *latch, rdl_err_t *e)
{
    return rdl_latch_await(latch, RDL_WAIT_FOREVER, e);
}

static rdl_semaphore_t *semaphore;
static rdl_permit_semaphore_t *permits;
static rdl_latch_t *latch;

static struct slot_name name_of_counted(unsigned i)
{
    return cluster_name(cluster_slot(NAME), 2 * MOST_KINDS + i);
}

static void shut_what_is_counted(void)
{
    expect(RDL_OK, rdl_semaphore(client, name_of_counted(0).text, NULL, &semaphore, &err));
    expect(RDL_OK, rdl_permit_semaphore(client, name_of_counted(1).text, NULL, &permits, &err));
    expect(RDL_OK, rdl_latch(client, name_of_counted(2).text, NULL, &latch, &err));
    expect(1, rdl_latch_try_set_count(latch, 1, &err));
}

static void free_what_is_counted(void)
{
    rdl_semaphore_free(semaphore);
    rdl_permit_semaphore_free(permits);
    rdl_latch_free(latch);
}

#define OUTAGE_MS 2000
#define GIVES_UP_MS 4500 /* of the 5 s after which everybody looks again anyway */

/* Who was not asleep had perhaps a try on its way, whose time began when it was sent. */
static void expect_outage(const char *type, bool paces, struct caller *a, int64_t killed_at)
{
    int64_t result = caller_result(a, 2 * SOON_MS);
    int64_t ms = (caller_ended_us(a) - killed_at) / 1000;
    bool unsure = paces && result == RDL_EUNKNOWN;

    cr_assert(result == RDL_ECONN || unsure, "%s: %s: %s", type, code_name(result), caller_error(a)->message);
    cr_expect((unsure || ms >= OUTAGE_MS) && ms <= GIVES_UP_MS, "%s: %" PRId64 " ms", type, ms);
}

/* Its replica is gone already, and there is no successor. */
TEST_EACH(N9_outage_of_who_is_asleep_begins_when_the_master_dies)
{
    enum { COUNTED = 3 };
    static const char *const counted[COUNTED] = {"semaphore", "permit semaphore", "latch"};
    rdl_client_t *other = client_open(uri, OPTIONS(.close_timeout_ms = 100));
    struct caller *sleeper[MOST_KINDS], *at[COUNTED];
    rdl_lock_t *rival[MOST_KINDS];
    struct monitor *monitor = monitor_start(topology->server(0));
    int64_t last_at = 0, killed_at;

    client = client_open(uri, OPTIONS(.outage_timeout_ms = OUTAGE_MS));
    shut_what_is_counted();
    FOR_EACH_SINGLE_KIND(kind)
    {
        size_t i = (size_t)(kind - kinds);

        rival[i] = kind->rival(other, name_of(kind).text, NULL);
        locks[i] = kind->make(client, name_of(kind).text, NULL);
        sleeper[i] = caller_new();
        expect(RDL_OK, rdl_try_lock(rival[i], 0, LEASE_MS, &err));
    }
    FOR_EACH_SINGLE_KIND(kind)
    {
        if (!kind->paces)
            caller_lock(sleeper[kind - kinds], locks[kind - kinds], LEASE_MS);
    }
    for (size_t i = 0; i < COUNTED; i++)
        at[i] = caller_new();
    caller_call(at[0], wait_for_semaphore, semaphore);
    caller_call(at[1], wait_for_permit, permits);
    FOR_EACH_SINGLE_KIND(kind)
    {
        if (!kind->paces)
            expect_sleeps_for(monitor, kind, name_of(kind).text);
    }
    for (unsigned i = 0; i < COUNTED; i++) {
        struct slot_name name = name_of_counted(i);
        char *channel = must_format("{%s}", name.text);

        if (i == COUNTED - 1) /* who has fallen asleep just now would look last */
            caller_call(at[i], wait_for_latch, latch);
        expect_asks_behind(monitor, channel, i == COUNTED - 1 ? "GET" : "EVALSHA", name.text);
        last_at = now_us();
        free(channel);
    }
    monitor_stop(monitor);
    FOR_EACH_SINGLE_KIND(kind)
    {
        if (kind->paces) /* they send scripts unasked */
            caller_lock(sleeper[kind - kinds], locks[kind - kinds], LEASE_MS);
    }
    let_pass_ms(100);
    topology->kill(1);
    killed_at = now_us();
    topology->kill(0);
    FOR_EACH_SINGLE_KIND(kind)
    {
        expect_outage(kind->type, kind->paces, sleeper[kind - kinds], killed_at);
        caller_free(sleeper[kind - kinds]);
        rdl_lock_free(locks[kind - kinds]);
        rdl_lock_free(rival[kind - kinds]);
    }
    for (size_t i = 0; i < COUNTED; i++) {
        expect_outage(counted[i], false, at[i], killed_at);
        if (i == COUNTED - 1)
            cr_expect_leq((caller_ended_us(at[i]) - last_at) / 1000, GIVES_UP_MS, "it has looked first");
        caller_free(at[i]);
    }
    free_what_is_counted();
    rdl_client_close(other);
}

/* The place is at the new master, which is told by nobody else that its waiter has left. */
TEST_EACH(N10_place_that_is_given_up_without_a_master_is_not_in_its_owners_way)
{
    enum { WAIT_MS = 3000 };
    const rdl_lock_options_t options = {.version = RDL_LOCK_OPTIONS_VERSION, .waiter_life_ms = LEASE_MS};
    rdl_client_t *other = client_open(uri, OPTIONS(.command_timeout_ms = FAILOVER_BOUND_MS));
    struct caller *a = caller_new();
    rdl_lock_t *lock, *rival;
    int64_t result;

    client = client_open(uri, OPTIONS(.command_timeout_ms = FAILOVER_BOUND_MS));
    rival = fair(other, NAME, &options);
    lock = fair(client, NAME, &options);
    expect(RDL_OK, rdl_try_lock(rival, 0, LEASE_MS, &err));
    caller_try_lock(a, lock, WAIT_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(ask(1, "LLEN redisson_lock_queue:{" NAME "}") == 1, SOON_MS));
    topology->kill(0);
    result = caller_result(a, WAIT_MS + SOON_MS);
    cr_assert(result == RDL_ETIMEDOUT || result == RDL_ECONN || result == RDL_EUNKNOWN, "%s", code_name(result));
    cr_assert(topology->wait_master(1));
    expect(RDL_OK, rdl_unlock(rival, &err));
    caller_try_lock(a, lock, 0, LEASE_MS);
    expect_result(RDL_OK, a, FAILOVER_BOUND_MS);
    caller_unlock(a, lock);
    expect_result(RDL_OK, a, FAILOVER_BOUND_MS);
    cr_assert(WAIT_UNTIL(ask(1, "EXISTS redisson_lock_queue:{" NAME "}") == 0, HEAL_MS));
    caller_free(a);
    rdl_lock_free(lock);
    rdl_lock_free(rival);
    rdl_client_close(other);
}
