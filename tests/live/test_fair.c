/* SPDX-License-Identifier: MIT */
/* test_fair.c - the fair lock: first come, first served, by signs of life (wire.md, Fair; protocol.md, 7).
 *
 * Who waits is seen in the server's queue, which is where tests wait for it. Lives are short here, so that the dead are
 * passed over soon.
 */
#include "tests/live/live.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "turns"
#define QUEUE "redisson_lock_queue:{" NAME "}"
#define SCORES "redisson_lock_timeout:{" NAME "}"
#define SIGNS "redlatch_lock_waiters:{" NAME "}"
#define LEASE_MS 20000
#define LIFE_MS 3000 /* a sign of life comes in each third of it: the machine may stand still for a second */
#define HOUR_MS 3600000
#define SHORT_LIVES LOCK_OPTIONS(.waiter_life_ms = LIFE_MS)

LIVE_SUITE(fair, 120);

static int64_t queued(void)
{
    return probe_int(st.probe, "LLEN " QUEUE);
}

static void expect_queued(int64_t n)
{
    cr_assert(WAIT_UNTIL(queued() == n, SOON_MS), "%" PRId64 " in the queue, expected %" PRId64, queued(), n);
}

/* ---- many waiters in one process: an owner each ----------------------------------------------------------------- */

#define MOST 64

struct crowd {
    size_t count;
    rdl_owner_t *owners[MOST];
    struct outcome outcomes[MOST];
    rdl_op_t *ops[MOST];
};

/* One more waits; it is in the queue when this returns. */
static void add_waiter(struct crowd *c, rdl_lock_t *lock, int64_t wait_ms)
{
    size_t i = c->count++;
    int64_t before = queued();

    cr_assert_lt(i, (size_t)MOST);
    expect(RDL_OK, rdl_owner_new(st.client, &c->owners[i], &err));
    expect(RDL_OK,
           rdl_try_lock_async(lock, c->owners[i], wait_ms, LEASE_MS, outcome_note, &c->outcomes[i], &c->ops[i], &err));
    expect_queued(before + 1);
}

/* The caller holds the lock, and so many wait for it. */
static void hold_before(struct crowd *c, rdl_lock_t *lock, int waiters)
{
    expect(RDL_OK, rdl_lock(lock, LEASE_MS, &err));
    for (int i = 0; i < waiters; i++)
        add_waiter(c, lock, RDL_WAIT_FOREVER);
}

static bool has_it(const struct crowd *c, size_t i)
{
    return atomic_load(&c->outcomes[i].calls) > 0;
}

static void give_back(struct crowd *c, size_t i, rdl_lock_t *lock)
{
    struct outcome back = {0};

    expect(RDL_OK, rdl_unlock_async(lock, c->owners[i], outcome_note, &back, NULL, &err));
    expect(RDL_OK, outcome_wait(&back, SOON_MS));
}

/* Waiter i gets it, while nobody of those after it has an answer; then it gives it back. */
static void expect_turn(struct crowd *c, size_t i, rdl_lock_t *lock)
{
    expect(RDL_OK, outcome_wait(&c->outcomes[i], SOON_MS));
    for (size_t later = i + 1; later < c->count; later++)
        cr_assert(!has_it(c, later) || c->outcomes[later].result < 0, "%zu came before %zu", later, i);
    give_back(c, i, lock);
}

/* The caller, who holds the lock, releases it. */
static void expect_all_in_turn(struct crowd *c, rdl_lock_t *lock)
{
    expect(RDL_OK, rdl_unlock(lock, &err));
    for (size_t i = 0; i < c->count; i++)
        expect_turn(c, i, lock);
}

static void crowd_done(struct crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        rdl_op_free(c->ops[i]);
        rdl_owner_free(c->owners[i]);
    }
}

/* ---- processes that die ----------------------------------------------------------------------------------------- */

/* A process that asks for the lock, and then only waits for its end. */
static pid_t start_process(int64_t lease_ms)
{
    pid_t child = fork();
    rdl_client_t *client;
    rdl_lock_t *lock;

    if (child != 0)
        return child;
    client = client_open(server_uri(st.server), NULL);
    lock = fair(client, NAME, SHORT_LIVES);
    (void)rdl_lock(lock, lease_ms, NULL);
    for (;;)
        pause();
}

static void kill_process(pid_t child)
{
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

/* The server runs; forking comes before the client. */
static void set_up_for_processes(void)
{
    st.server = server_start(NULL);
    st.probe = probe_open(st.server);
}

/* ---- alone ------------------------------------------------------------------------------------------------------ */

Test(fair, uncontended_it_is_the_reentrant_locks_hash_and_nothing_else)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, NULL);
    cr_assert_str_eq(rdl_lock_type(lock), "fair");
    expect(RDL_OK, rdl_lock(lock, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(2, rdl_hold_count(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 1);
    cr_assert_str_eq(probe_text(st.probe, "HGET " NAME " %s", probe_text(st.probe, "HRANDFIELD " NAME)), "2");
    expect_between(LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL " NAME), LEASE_MS);
    expect(RDL_OK, rdl_extend(lock, 3 * LEASE_MS, &err));
    expect_between(3 * LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL " NAME), 3 * LEASE_MS);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(1, rdl_is_held(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(0, rdl_is_locked(lock, &err));
    expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(fair, hold_without_a_lease_is_renewed)
{
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 4500));
    lock = fair(st.client, NAME, NULL);
    expect(RDL_OK, rdl_lock(lock, RDL_LEASE_AUTO, &err));
    let_pass_ms(5500); /* what is not renewed is gone */
    expect(1, rdl_is_held(lock, &err));
    expect(1, rdl_is_locked(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(fair, nonreentrant_form_refuses_its_owner_and_tokens_grow)
{
    rdl_lock_t *lock;
    int64_t token;

    stage_open(&st);
    lock = fair(st.client, NAME, LOCK_OPTIONS(.nonreentrant = true, .fencing = RDL_FENCING_TIME));
    expect(RDL_OK, rdl_lock(lock, LEASE_MS, &err));
    token = rdl_token(lock, &err);
    cr_assert_gt(token, 0);
    expect(RDL_EDEADLK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_EDEADLK, rdl_lock(lock, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_lock(lock, LEASE_MS, &err));
    cr_assert_gt(rdl_token(lock, &err), token);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(fair, options_that_make_no_sense_are_refused)
{
    rdl_lock_t *lock = NULL, *other = NULL;

    stage_open(&st);
    expect(RDL_EINVAL, rdl_fair_lock(st.client, NAME, LOCK_OPTIONS(.waiter_life_ms = 99), &lock, &err));
    expect(RDL_EINVAL, rdl_fair_lock(st.client, NAME, LOCK_OPTIONS(.waiter_life_ms = 3600001), &lock, &err));
    expect(RDL_EINVAL, rdl_fair_lock(st.client, NAME, LOCK_OPTIONS(.waiter_life_ms = -1), &lock, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.waiter_life_ms = 1000), &lock, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.nonreentrant = true), &lock, &err));
    cr_assert_null(lock);
    lock = fair(st.client, NAME, NULL);
    expect(RDL_EINVAL, rdl_fair_lock(st.client, NAME, LOCK_OPTIONS(.nonreentrant = true), &other, &err));
    expect(RDL_EINVAL, rdl_fair_lock(st.client, NAME, LOCK_OPTIONS(.waiter_life_ms = 1000), &other, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, NULL, &other, &err));
    rdl_lock_free(lock);
}

/* ---- order ------------------------------------------------------------------------------------------------------ */

Test(fair, waiters_are_served_in_the_order_in_which_they_came)
{
    struct crowd c = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, NULL);
    hold_before(&c, lock, 32);
    cr_assert_eq(probe_int(st.probe, "ZCARD " SCORES), 32);
    expect_all_in_turn(&c, lock);
    crowd_done(&c);
    rdl_lock_free(lock);
}

Test(fair, a_single_try_neither_queues_nor_passes_who_does)
{
    struct crowd c = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(queued(), 0);
    add_waiter(&c, lock, RDL_WAIT_FOREVER);
    (void)probe_int(st.probe, "DEL " NAME); /* free, and nobody says so */
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LEASE_MS, &err));
    (void)probe_int(st.probe, "PUBLISH redisson_lock__channel:{" NAME "}:%s 0",
                    probe_text(st.probe, "LINDEX " QUEUE " 0"));
    expect_turn(&c, 0, lock);
    crowd_done(&c);
    rdl_lock_free(lock);
}

/* F7 */
Test(fair, who_gives_up_leaves_the_queue_at_once_and_the_others_keep_their_order)
{
    struct crowd c = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, NULL);
    expect(RDL_OK, rdl_lock(lock, LEASE_MS, &err));
    for (int i = 0; i < 6; i++)
        add_waiter(&c, lock, i == 3 ? 4000 : RDL_WAIT_FOREVER);
    rdl_op_cancel(c.ops[0]);
    expect(RDL_ECANCELED, outcome_wait(&c.outcomes[0], SOON_MS));
    expect_queued(5);
    rdl_owner_cancel(c.owners[2]);
    expect(RDL_ECANCELED, outcome_wait(&c.outcomes[2], SOON_MS));
    expect_queued(4);
    expect(RDL_ETIMEDOUT, outcome_wait(&c.outcomes[3], 2 * SOON_MS));
    expect_queued(3);
    cr_assert_eq(probe_int(st.probe, "ZCARD " SCORES), 3);
    cr_assert_eq(probe_int(st.probe, "HLEN " SIGNS), 3);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_turn(&c, 1, lock);
    expect_turn(&c, 4, lock);
    expect_turn(&c, 5, lock);
    crowd_done(&c);
    rdl_lock_free(lock);
}

/* Q10, A4: whether the cancellation or the wake-up comes first, the successor gets its turn. */
Test(fair, head_that_gives_up_at_the_instant_of_the_unlock_does_not_take_the_wake_up_along)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, NULL);
    for (int round = 0; round < 200; round++) {
        struct crowd c = {0};

        hold_before(&c, lock, 2);
        if (round % 2 == 0)
            rdl_op_cancel(c.ops[0]);
        expect(RDL_OK, rdl_unlock(lock, &err));
        rdl_op_cancel(c.ops[0]);
        if (outcome_wait(&c.outcomes[0], SOON_MS) == RDL_OK)
            give_back(&c, 0, lock);
        expect(RDL_OK, outcome_wait(&c.outcomes[1], WOKEN_MS)); /* sooner than any look of its own */
        give_back(&c, 1, lock);
        crowd_done(&c);
    }
    rdl_lock_free(lock);
}

/* Those who wait in a client that closes: asleep, on their way into the queue, and one to whom the lock is just being
 * passed on. */
Test(fair, client_that_closes_gives_up_the_places_of_its_waiters)
{
    enum { WAITERS = 20 };
    struct crowd c = {0};
    rdl_client_t *closing;
    rdl_lock_t *lock, *theirs;

    stage_open(&st);
    lock = fair(st.client, NAME, NULL);
    for (int round = 0; round < 10; round++) {
        closing = client_open(server_uri(st.server), NULL);
        theirs = fair(closing, NAME, NULL);
        expect(RDL_OK, rdl_lock(lock, LEASE_MS, &err));
        for (c.count = 0; c.count < WAITERS; c.count++) {
            c.outcomes[c.count] = (struct outcome){0};
            expect(RDL_OK, rdl_owner_new(closing, &c.owners[c.count], &err));
            expect(RDL_OK, rdl_lock_async(theirs, c.owners[c.count], LEASE_MS, outcome_note, &c.outcomes[c.count],
                                          &c.ops[c.count], &err));
        }
        if (round % 2 == 0)
            expect_queued(WAITERS);
        expect(RDL_OK, rdl_unlock(lock, &err));
        if (round % 4 < 2)
            expect(RDL_OK, outcome_wait(&c.outcomes[0], SOON_MS));
        cr_assert_null(rdl_client_close(closing));
        cr_assert_eq(queued(), 0, "round %d", round);
        for (size_t i = 0; i < WAITERS; i++)
            expect(1, atomic_load(&c.outcomes[i].calls));
        (void)probe_int(st.probe, "DEL " NAME); /* what was held is left to its lease */
        crowd_done(&c);
        rdl_lock_free(theirs);
    }
    rdl_lock_free(lock);
}

/* ---- passing on ------------------------------------------------------------------------------------------------- */

/* Owner i asks again, for that lease; it is in the queue when this returns. */
static void ask_again(struct crowd *c, size_t i, rdl_lock_t *lock, int64_t lease_ms)
{
    int64_t before = queued();

    rdl_op_free(c->ops[i]);
    c->outcomes[i] = (struct outcome){0};
    expect(RDL_OK, rdl_lock_async(lock, c->owners[i], lease_ms, outcome_note, &c->outcomes[i], &c->ops[i], &err));
    expect_queued(before + 1);
}

/* The lock goes round among three, and nothing is done inside. */
Test(fair, change_of_owner_costs_a_take_and_a_release)
{
    enum { OWNERS = 3, CHANGES = 60, SHORT_LEASE_MS = 5000 };
    struct monitor *monitor;
    struct crowd c = {0};
    rdl_lock_t *lock;
    size_t mark = 0;

    stage_open(&st);
    monitor = monitor_start(st.server);
    lock = fair(st.client, NAME, NULL);
    hold_before(&c, lock, OWNERS);
    expect(RDL_OK, rdl_unlock(lock, &err));
    for (int change = 0; change < OWNERS + CHANGES; change++) {
        size_t i = (size_t)change % OWNERS;

        if (change == OWNERS) /* everybody has subscribed */
            mark = monitor_mark(monitor);
        expect(RDL_OK, outcome_wait(&c.outcomes[i], SOON_MS));
        give_back(&c, i, lock);
        ask_again(&c, i, lock, SHORT_LEASE_MS);
    }
    (void)monitor_mark(monitor);
    expect_between(2 * CHANGES, (int64_t)monitor_count(monitor, mark, "evalsha"),
                   2 * CHANGES + 2 * OWNERS); /* after 5 s each looks by itself */
    cr_expect_eq(monitor_count(monitor, mark, "subscribe"), 0, "%zu", monitor_count(monitor, mark, "subscribe"));
    for (size_t i = 0; i < OWNERS; i++) {
        expect(RDL_OK, outcome_wait(&c.outcomes[i], SOON_MS));
        give_back(&c, i, lock);
    }
    monitor_stop(monitor);
    crowd_done(&c);
    rdl_lock_free(lock);
}

/* It is passed on for no longer than its sign of life counts. */
Test(fair, waiter_that_wants_the_lock_for_longer_than_a_life_has_it_whole_when_it_is_told)
{
    struct crowd c = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, SHORT_LIVES);
    hold_before(&c, lock, 1);
    cr_assert(
        WAIT_UNTIL(probe_calls(st.probe, "evalsha") >= 3, SOON_MS)); /* it listens, and has tried once more since */
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_OK, outcome_wait(&c.outcomes[0], SOON_MS));
    expect_between(LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL " NAME), LEASE_MS);
    give_back(&c, 0, lock);
    crowd_done(&c);
    rdl_lock_free(lock);
}

Test(fair, hold_that_is_passed_on_without_a_lease_is_renewed_for_the_watchdogs)
{
    enum { WATCHDOG_MS = 8 * LIFE_MS };
    struct crowd c = {0};
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = WATCHDOG_MS));
    lock = fair(st.client, NAME, SHORT_LIVES);
    hold_before(&c, lock, 1);
    rdl_op_cancel(c.ops[0]);
    expect(RDL_ECANCELED, outcome_wait(&c.outcomes[0], SOON_MS));
    expect_queued(0);
    ask_again(&c, 0, lock, RDL_LEASE_AUTO);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_OK, outcome_wait(&c.outcomes[0], SOON_MS));
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "PTTL " NAME) > WATCHDOG_MS - SOON_MS / 2, LIFE_MS + SLACK_MS));
    let_pass_ms(LIFE_MS * 4 / 3);
    give_back(&c, 0, lock);
    crowd_done(&c);
    rdl_lock_free(lock);
}

/* W3, for what the message says: the acknowledgement of the next subscription makes it look. */
Test(fair, waiter_whose_message_is_lost_with_the_connection_has_the_lock_all_the_same)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, NULL);
    for (int round = 0; round < 20; round++) {
        struct crowd c = {0};

        hold_before(&c, lock, 1);
        (void)probe_int(st.probe, "CLIENT KILL TYPE pubsub");
        expect(RDL_OK, rdl_unlock(lock, &err));
        expect(RDL_OK, outcome_wait(&c.outcomes[0], WOKEN_MS)); /* sooner than any look of its own */
        give_back(&c, 0, lock);
        crowd_done(&c);
    }
    rdl_lock_free(lock);
}

/* The sign of life of the first in the queue: "arrival:till:sending: ... :n". */
static const char *sign(void)
{
    return probe_text(st.probe, "HGET " SIGNS " %s", probe_text(st.probe, "LINDEX " QUEUE " 0"));
}

static int64_t sending(void)
{
    return atoll(strchr(strchr(sign(), ':') + 1, ':') + 1);
}

/* Only of the last one is the moment known, from which the grant counts. */
Test(fair, grant_that_rests_on_an_earlier_sending_is_none)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;
    int64_t before, n;

    stage_open(&st);
    lock = fair(st.client, NAME, SHORT_LIVES);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    caller_lock(waiter, lock, RDL_LEASE_AUTO);
    expect_queued(1);
    cr_assert(WAIT_UNTIL((before = sending()) >= 2, SOON_MS));
    n = atoll(strrchr(sign(), ':') + 1);
    (void)probe_int(st.probe, "PUBLISH redisson_lock__channel:{" NAME "}:%s %" PRId64 ":1:0",
                    probe_text(st.probe, "LINDEX " QUEUE " 0"), n);
    cr_assert(WAIT_UNTIL(caller_idle(waiter) || sending() > before, SOON_MS));
    cr_assert(!caller_idle(waiter), "two have the lock");
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, WOKEN_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

Test(fair, lock_that_is_passed_on_to_the_dead_is_the_next_ones_after_a_life)
{
    struct crowd c = {0};
    rdl_lock_t *lock;
    int64_t killed_at;
    pid_t dead;

    set_up_for_processes();
    foreign_take(st.probe, NAME, LEASE_MS);
    dead = start_process(LEASE_MS);
    expect_queued(1);
    st.client = client_open(server_uri(st.server), NULL);
    lock = fair(st.client, NAME, SHORT_LIVES);
    add_waiter(&c, lock, RDL_WAIT_FOREVER);
    kill_process(dead);
    killed_at = now_ms();
    expect(1, rdl_force_unlock(lock, &err)); /* it is the dead one's now */
    cr_assert_eq(probe_int(st.probe, "EXISTS " NAME), 1);
    expect(RDL_OK, outcome_wait(&c.outcomes[0], 2 * SOON_MS));
    expect_between(0, now_ms() - killed_at, LIFE_MS + SLACK_MS);
    give_back(&c, 0, lock);
    crowd_done(&c);
    rdl_lock_free(lock);
}

/* What lingers goes with the last handle, or with time. */
Test(fair, subscription_outlives_the_wait_but_not_the_handle)
{
    struct crowd c = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, NULL);
    hold_before(&c, lock, 1);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_turn(&c, 0, lock);
    cr_assert_eq(probe_channels(st.probe), 1);
    crowd_done(&c);
    rdl_lock_free(lock);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SLACK_MS));
}

/* ---- signs of life ---------------------------------------------------------------------------------------------- */

/* F4 */
Test(fair, living_waiters_outlive_every_deadline_and_keep_their_places)
{
    struct crowd c = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, SHORT_LIVES);
    hold_before(&c, lock, 3);
    let_pass_ms(2 * LIFE_MS);
    cr_assert_eq(queued(), 3);
    expect_all_in_turn(&c, lock);
    crowd_done(&c);
    rdl_lock_free(lock);
}

/* Peers drop by their clocks and by scores that they lower: from the front, entry and score. */
Test(fair, living_waiters_dropped_by_a_peer_are_back_at_the_front_in_their_order)
{
    struct crowd c = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, SHORT_LIVES);
    hold_before(&c, lock, 4);
    for (int i = 0; i < 3; i++)
        (void)probe_int(st.probe, "ZREM " SCORES " %s", probe_text(st.probe, "LPOP " QUEUE));
    expect_queued(4); /* at the next sign of life */
    cr_assert_eq(probe_int(st.probe, "ZCARD " SCORES), 4);
    expect_all_in_turn(&c, lock);
    crowd_done(&c);
    rdl_lock_free(lock);
}

/* F2: five have died in front of one that lives, the holder has not. */
Test(fair, five_dead_waiters_cost_one_life_not_five)
{
    enum { DEAD = 5 };
    pid_t dead[DEAD];
    struct crowd c = {0};
    rdl_lock_t *lock;
    int64_t killed_at;

    set_up_for_processes();
    foreign_take(st.probe, NAME, LEASE_MS);
    for (int i = 0; i < DEAD; i++) {
        dead[i] = start_process(LEASE_MS);
        expect_queued(i + 1);
    }
    st.client = client_open(server_uri(st.server), NULL);
    lock = fair(st.client, NAME, SHORT_LIVES);
    add_waiter(&c, lock, RDL_WAIT_FOREVER);
    for (int i = 0; i < DEAD; i++)
        kill_process(dead[i]);
    killed_at = now_ms();
    (void)probe_int(st.probe, "DEL " NAME);
    expect(RDL_OK, outcome_wait(&c.outcomes[0], 2 * SOON_MS));
    expect_between(0, now_ms() - killed_at, LIFE_MS + SLACK_MS);
    give_back(&c, 0, lock);
    crowd_done(&c);
    rdl_lock_free(lock);
}

/* F1: the holder dies, too. The one that lives asks now and then. */
Test(fair, behind_a_dead_holder_and_a_dead_head_a_waiter_asks_rarely_and_gets_the_lock)
{
    enum { LEASE_OF_THE_DEAD_MS = 5000 };
    struct monitor *monitor;
    struct crowd c = {0};
    pid_t holder, head;
    rdl_lock_t *lock;
    size_t mark;

    set_up_for_processes();
    holder = start_process(LEASE_OF_THE_DEAD_MS);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS " NAME) == 1, SOON_MS));
    head = start_process(LEASE_MS);
    expect_queued(1);
    st.client = client_open(server_uri(st.server), NULL);
    lock = fair(st.client, NAME, SHORT_LIVES);
    add_waiter(&c, lock, RDL_WAIT_FOREVER);
    kill_process(head);
    kill_process(holder);
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    expect(RDL_OK, outcome_wait(&c.outcomes[0], LEASE_OF_THE_DEAD_MS + SOON_MS));
    (void)monitor_mark(monitor);
    cr_expect_lt(monitor_count(monitor, mark, "evalsha"), 25, "%zu commands in 5 s",
                 monitor_count(monitor, mark, "evalsha"));
    monitor_stop(monitor);
    give_back(&c, 0, lock);
    crowd_done(&c);
    rdl_lock_free(lock);
}

/* F6, without waiting for the hour to pass. */
Test(fair, keys_of_a_queue_whose_waiters_all_died_end_together)
{
    enum { DEAD_LEASE_MS = 4000 };
    pid_t holder, head;
    int64_t left;

    set_up_for_processes();
    holder = start_process(DEAD_LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS " NAME) == 1, SOON_MS));
    head = start_process(DEAD_LEASE_MS);
    expect_queued(1);
    kill_process(holder);
    kill_process(head);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS " NAME) == 0, 2 * SOON_MS));
    left = probe_int(st.probe, "PTTL " QUEUE);
    /* The server's clock goes on between the commands of a script. */
    expect_between(left - SLACK_MS, probe_int(st.probe, "PTTL " SCORES), left + SLACK_MS);
    expect_between(left - SLACK_MS, probe_int(st.probe, "PTTL " SIGNS), left + SLACK_MS);
    expect_between(HOUR_MS - 2 * SOON_MS, left, HOUR_MS + LIFE_MS);
}

/* Peers never renew a time to live. */
Test(fair, last_of_ours_to_leave_takes_the_time_to_live_off_what_peers_need)
{
    struct crowd c = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, NULL);
    expect(RDL_OK, rdl_lock(lock, LEASE_MS, &err));
    (void)probe_int(st.probe, "RPUSH " QUEUE " peer:1");
    (void)probe_int(st.probe, "ZADD " SCORES " 99999999999999 peer:1");
    add_waiter(&c, lock, RDL_WAIT_FOREVER);
    cr_assert_gt(probe_int(st.probe, "PTTL " QUEUE), HOUR_MS);
    rdl_op_cancel(c.ops[0]);
    expect(RDL_ECANCELED, outcome_wait(&c.outcomes[0], SOON_MS));
    expect_queued(1);
    cr_assert_eq(probe_int(st.probe, "PTTL " QUEUE), -1);
    cr_assert_eq(probe_int(st.probe, "PTTL " SCORES), -1);
    cr_assert_eq(probe_int(st.probe, "EXISTS " SIGNS), 0);
    (void)probe_int(st.probe, "DEL " QUEUE " " SCORES);
    expect(RDL_OK, rdl_unlock(lock, &err));
    crowd_done(&c);
    rdl_lock_free(lock);
}

/* ---- eviction --------------------------------------------------------------------------------------------------- */

Test(fair, force_unlock_passes_the_lock_on)
{
    struct crowd c = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fair(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    add_waiter(&c, lock, RDL_WAIT_FOREVER);
    add_waiter(&c, lock, RDL_WAIT_FOREVER);
    expect(1, rdl_force_unlock(lock, &err));
    expect_turn(&c, 0, lock);
    expect_turn(&c, 1, lock);
    expect(0, rdl_force_unlock(lock, &err));
    crowd_done(&c);
    rdl_lock_free(lock);
}
