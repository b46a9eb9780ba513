/* SPDX-License-Identifier: MIT */
/* test_evicted.c - whose hold is evicted learns of it at once (wire.md, Evictions), and only a hold that is gone is
 * lost.
 *
 * Leases are so long that no renewal is due in the time that a test has: what is noticed was told.
 */
#include "tests/live/live.h"
#include "tests/support/cluster.h"
#include "tests/support/sentinels.h"

#define NAME "orders:42"
#define LONG_MS 600000 /* its first renewal is due after 150 s */
#define CHANNELS "redlatch_lost:*"

LIVE_SUITE(evicted, 120);

static struct losses losses;
static rdl_client_t *other;

static void open_two(void)
{
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LONG_MS));
    other = client_open(stage_uri(&st), NULL);
    losses_init(&losses);
}

static int64_t listening(struct probe *p)
{
    return (int64_t)probe_ask(p, "PUBSUB CHANNELS " CHANNELS)->count;
}

static rdl_lock_t *take(rdl_lock_t *lock, int64_t lease_ms)
{
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, lease_ms, &err));
    return lock;
}

static void expect_told(rdl_lock_t *lock, unsigned times)
{
    cr_assert(losses_wait(&losses, RDL_LOST, times, SOON_MS), "%s: %u losses were told", rdl_lock_type(lock),
              losses_count(&losses, RDL_LOST));
    cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_GONE);
    expect(RDL_ELOST, rdl_is_held(lock, &err));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
}

/* The first of each round waits for its client to listen; the others find it listening. */
static void expect_each_kind_told(int64_t lease_ms)
{
    open_two();
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = take(kind->make(st.client, NAME, NULL), lease_ms);
        rdl_lock_t *far = kind->make(other, NAME, NULL);

        cr_assert(WAIT_UNTIL(listening(st.probe) == 1, SOON_MS), "%s", kind->type);
        losses_init(&losses);
        expect(1, rdl_force_unlock(far, &err));
        expect_told(lock, kind->members > 1 ? (unsigned)kind->members : 1);
        rdl_lock_free(far);
        lock_over(st.probe, lock);
    }
    rdl_client_close(other);
}

Test(evicted, holder_of_each_type_is_told_long_before_its_renewal)
{
    expect_each_kind_told(RDL_LEASE_AUTO);
}

Test(evicted, holder_with_a_lease_that_is_never_renewed_is_told_too)
{
    expect_each_kind_told(LONG_MS);
}

/* Before it listens nobody hears; when it does, it asks about what it has. */
Test(evicted, hold_that_was_evicted_before_its_client_listened_is_found_gone)
{
    rdl_lock_t *lock, *far;

    open_two();
    lock = take(reentrant(st.client, NAME, NULL), RDL_LEASE_AUTO);
    (void)take(reentrant(st.client, NAME "2", NULL), RDL_LEASE_AUTO); /* by which it listens, if not by the first */
    far = reentrant(other, NAME, NULL);
    expect(1, rdl_force_unlock(far, &err));
    expect_told(lock, 1);
    left_behind = true;
    rdl_client_close(other);
}

Test(evicted, readers_of_a_lock_are_all_told)
{
    struct caller *second = caller_new();
    rdl_lock_t *lock, *far;

    open_two();
    lock = take(read_end(st.client, NAME, NULL), RDL_LEASE_AUTO);
    far = read_end(other, NAME, NULL);
    caller_try_lock(second, lock, 0, RDL_LEASE_AUTO);
    expect_result(RDL_OK, second, SOON_MS);
    cr_assert(WAIT_UNTIL(listening(st.probe) == 1, SOON_MS));
    expect(1, rdl_force_unlock(far, &err));
    expect_told(lock, 2);
    caller_unlock(second, lock);
    expect_result(RDL_ELOST, second, SOON_MS);
    caller_free(second);
    rdl_lock_free(lock);
    rdl_lock_free(far);
    rdl_client_close(other);
}

/* A message is a reason to ask, and the server's answer is what counts. */
Test(evicted, messages_that_are_not_true_cost_a_renewal_and_end_nothing)
{
    static const char *const nonsense[] = {"", "0", "-1", "x", "99999999999999999999", ":", "1:write", "1:", "\\x00"};
    rdl_lock_t *lock;
    char *channel, *field;
    int64_t asked;

    open_two();
    lock = take(reentrant(st.client, NAME, NULL), RDL_LEASE_AUTO);
    cr_assert(WAIT_UNTIL(listening(st.probe) == 1, SOON_MS));
    channel = must_format("%s", probe_ask(st.probe, "PUBSUB CHANNELS " CHANNELS)->items[0].text);
    cr_assert(WAIT_UNTIL(probe_calls(st.probe, "time") >= 1, SOON_MS)); /* it asks about all when it listens */
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        cr_assert_eq(probe_ask(st.probe, "PUBLISH %s \"%s\"", channel, nonsense[i])->integer, 1);
    asked = probe_calls(st.probe, "time");
    field = must_format("%s", probe_ask(st.probe, "HKEYS " NAME)->items[0].text);
    cr_assert_eq(probe_ask(st.probe, "PUBLISH %s %s", channel, field + 37)->integer, 1);
    cr_assert(WAIT_UNTIL(probe_calls(st.probe, "time") > asked, SOON_MS));
    expect(1, rdl_is_held(lock, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_client_close(other);
    free(channel);
    free(field);
}

Test(evicted, client_that_holds_for_moments_only_listens_to_nothing)
{
    rdl_lock_t *lock;
    int64_t until;

    open_two();
    lock = reentrant(st.client, NAME, NULL);
    until = now_ms() + 2500;
    while (now_ms() < until) {
        expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    cr_assert_eq(probe_calls(st.probe, "subscribe"), 0);
    rdl_lock_free(lock);
    rdl_client_close(other);
}

/* ---- exactly the holder that was shown --------------------------------------------------------------------------- */

/* The nth hold's field, or the value of a simple lock; to be freed. */
static char *owner_shown(int nth)
{
    const struct reply *fields = probe_ask(st.probe, "HKEYS " NAME);

    if (fields->kind == REPLY_ERROR)
        return must_format("%s", probe_ask(st.probe, "GET " NAME)->text);
    for (size_t i = 0; i < fields->count; i++)
        if (strcmp(fields->items[i].text, "mode") != 0 && nth-- == 0)
            return must_format("%s", fields->items[i].text);
    return must_format("nobody");
}

Test(evicted, holder_of_each_type_that_was_shown_is_ended_and_nobody_who_came_since)
{
    open_two();
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = take(kind->make(st.client, NAME, NULL), RDL_LEASE_AUTO);
        rdl_lock_t *far = kind->make(other, NAME, NULL);
        char *first = owner_shown(0), *second;

        expect(RDL_OK, rdl_unlock(lock, &err));
        expect(0, rdl_evict(far, first, &err));
        expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
        second = owner_shown(0);
        cr_assert_str_neq(first, second);
        expect(0, rdl_evict(far, first, &err));
        expect(1, rdl_is_locked(far, &err));
        expect(1, rdl_is_held(lock, &err));
        cr_assert(WAIT_UNTIL(listening(st.probe) == 1, SOON_MS));
        losses_init(&losses);
        expect(1, rdl_evict(far, second, &err));
        expect(0, rdl_is_locked(far, &err));
        expect_told(lock, 1);
        expect(0, rdl_evict(far, second, &err));
        rdl_lock_free(far);
        lock_over(st.probe, lock);
        free(first);
        free(second);
    }
    rdl_client_close(other);
}

Test(evicted, one_reader_of_several_is_ended_alone_and_the_last_lets_a_writer_in)
{
    struct caller *second = caller_new(), *writer = caller_new();
    rdl_lock_t *lock, *beside, *far;
    char *owner;

    open_two();
    lock = take(read_end(st.client, NAME, NULL), RDL_LEASE_AUTO);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err)); /* twice */
    owner = owner_shown(0);
    beside = take(read_end(other, NAME, NULL), 2 * LONG_MS);
    far = write_end(other, NAME, NULL);
    caller_try_lock(writer, write_end(st.client, NAME, NULL), LONG_MS, LONG_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1 && listening(st.probe) == 2, SOON_MS));
    losses_init(&losses);
    expect(1, rdl_evict(far, owner, &err));
    expect_told(lock, 1);
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    expect(1, rdl_is_held(beside, &err));
    cr_assert_eq(probe_keys(st.probe), 2, "the lock, and the key of the reader that is left");
    cr_assert_gt(probe_int(st.probe, "PTTL " NAME), LONG_MS);
    free(owner);
    owner = owner_shown(0);
    expect(1, rdl_evict(lock, owner, &err));
    expect_result(RDL_OK, writer, WOKEN_MS);
    expect_told(beside, 2);
    caller_unlock(writer, far);
    free(owner);
    left_behind = true;
    caller_free(second);
    caller_free(writer);
    rdl_client_close(other);
}

Test(evicted, whoever_reads_and_writes_loses_what_was_shown)
{
    rdl_lock_t *reads, *writes;
    char *reader = NULL, *writer = NULL;

    open_two();
    writes = take(write_end(st.client, NAME, NULL), RDL_LEASE_AUTO);
    reads = take(read_end(st.client, NAME, NULL), RDL_LEASE_AUTO);
    writer = owner_shown(0);
    reader = owner_shown(1);
    expect(1, rdl_evict(writes, reader, &err));
    expect(RDL_ELOST, rdl_unlock(reads, &err));
    expect(1, rdl_is_held(writes, &err));
    cr_assert_gt(probe_int(st.probe, "PTTL " NAME), 0);
    expect(1, rdl_evict(reads, writer, &err));
    expect(RDL_ELOST, rdl_unlock(writes, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    free(reader);
    free(writer);
    rdl_lock_free(reads);
    rdl_lock_free(writes);
    rdl_client_close(other);
}

Test(evicted, what_cannot_be_evicted_is_refused)
{
    rdl_lock_t *lock, *read, *both[2], *multi = NULL;

    open_two();
    read = read_end(st.client, NAME "3", NULL);
    lock = reentrant(st.client, NAME, NULL);
    both[0] = lock;
    both[1] = reentrant(st.client, NAME "2", NULL);
    expect(RDL_OK, rdl_multi_lock(both, 2, NULL, &multi, &err));
    expect(RDL_EINVAL, rdl_evict(NULL, "U:1", &err));
    expect(RDL_EINVAL, rdl_evict(lock, NULL, &err));
    expect(RDL_EINVAL, rdl_evict(lock, "", &err));
    expect(RDL_EINVAL, rdl_evict(multi, "U:1", &err));
    expect(0, rdl_evict(lock, "mode", &err));
    expect(0, rdl_evict(read, "mode", &err));
    cr_assert_eq(probe_int(st.probe, "LPUSH " NAME " x"), 1);
    expect(RDL_ESERVER, rdl_evict(lock, "U:1", &err));
    left_behind = true;
    rdl_lock_free(multi);
    rdl_lock_free(both[0]);
    rdl_lock_free(both[1]);
    rdl_lock_free(read);
    rdl_client_close(other);
}

/* ---- several servers -------------------------------------------------------------------------------------------- */

/* The subscription is at one node, the eviction at another. */
Test(evicted, holder_in_a_cluster_is_told_from_every_shard)
{
    struct cluster *cluster = cluster_start(&(struct cluster_options){.patient = true});
    rdl_client_t *victim = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = LONG_MS));
    rdl_client_t *evictor = client_open(cluster->uri, NULL);
    rdl_lock_t *lock[CLUSTER_MASTERS];
    struct probe *p;
    int64_t nodes = 0;

    losses_init(&losses);
    for (int i = 0; i < CLUSTER_MASTERS; i++)
        lock[i] = take(reentrant(victim, cluster_name(cluster_first_slot(i), 0).text, NULL), RDL_LEASE_AUTO);
    for (int64_t until = now_ms() + SOON_MS; nodes == 0 && now_ms() < until;) {
        for (int i = 0; i < CLUSTER_NODES; i++) {
            p = probe_open(cluster->node[i]);
            nodes += listening(p);
            probe_close(p);
        }
    }
    cr_assert_eq(nodes, 1);
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        rdl_lock_t *far = reentrant(evictor, rdl_lock_name(lock[i], NULL), NULL);

        losses_init(&losses);
        expect(1, rdl_force_unlock(far, &err));
        expect_told(lock[i], 1);
        rdl_lock_free(far);
        rdl_lock_free(lock[i]);
    }
    rdl_client_close(victim);
    rdl_client_close(evictor);
    cluster_stop(cluster);
}

/* After a failover the client listens at the new master. */
Test(evicted, holder_behind_sentinel_is_told_by_the_master)
{
    struct sentinels *fleet = sentinels_start(NULL);
    rdl_lock_t *lock, *far;

    losses_init(&losses);
    st.probe = probe_open(fleet->data[0]);
    st.client = client_open(fleet->uri, OPTIONS(.watchdog_lease_ms = LONG_MS));
    other = client_open(fleet->uri, NULL);
    lock = take(reentrant(st.client, NAME, NULL), RDL_LEASE_AUTO);
    cr_assert(WAIT_UNTIL(listening(st.probe) == 1, SOON_MS));
    far = reentrant(other, NAME, NULL);
    expect(1, rdl_force_unlock(far, &err));
    expect_told(lock, 1);
    rdl_lock_free(lock);
    rdl_lock_free(far);
    st.client = rdl_client_close(st.client);
    rdl_client_close(other);
    probe_close(st.probe);
    st.probe = NULL;
    sentinels_stop(fleet);
}
