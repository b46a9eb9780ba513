/* SPDX-License-Identifier: MIT */
/* test_cluster_moves.c - slots of a cluster that move, and what is done in the middle of that (scenarios.md, C5). */
#include "tests/live/in_cluster.h"

CLUSTER_SUITE();

static struct losses losses;

/* ---- slots that move -------------------------------------------------------------------------------------------- */

Test(cluster, C5_slot_that_has_moved_is_followed)
{
    unsigned slot = cluster_first_slot(0);
    rdl_lock_t *lock, *other;

    start(NULL);
    lock = reentrant(client, name[0].text, NULL);
    other = reentrant(rival, name[0].text, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    for (int to = 1; to <= SHARDS; to++) {
        cluster_move(cluster, slot, to % SHARDS);
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        cr_assert_eq(ask(to % SHARDS, "EXISTS %s", name[0].text), 1);
        expect(RDL_ETIMEDOUT, rdl_try_lock(other, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

Test(cluster, C5_hold_moves_with_its_slot_and_is_renewed_and_given_back_there)
{
    rdl_lock_t *watched, *leased;

    start(OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    losses_init(&losses);
    watched = reentrant(client, name[0].text, NULL);
    leased = reentrant(client, cluster_name(cluster_first_slot(0), 1).text, NULL);
    expect(RDL_OK, rdl_on_lost(watched, losses_note, &losses, &err));
    expect(RDL_OK, rdl_on_lost(leased, losses_note, &losses, &err));
    for (int i = 0; i < 2; i++)
        expect(RDL_OK, rdl_lock(watched, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_try_lock(leased, 0, LEASE_MS, &err));
    cluster_move(cluster, cluster_first_slot(0), 1);
    let_pass_ms(2 * WATCHED_MS);
    cr_assert_gt(ask(1, "PTTL %s", name[0].text), 0);
    expect(RDL_OK, rdl_unlock(watched, &err));
    expect(1, rdl_hold_count(watched, &err));
    expect(RDL_OK, rdl_unlock(watched, &err));
    expect(RDL_OK, rdl_unlock(leased, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    rdl_lock_free(watched);
    rdl_lock_free(leased);
}

/* The client does not reach the master that the slot leaves, and cannot be told there. */
Test(cluster, C5_what_is_on_its_way_to_a_master_out_of_reach_follows_the_slot)
{
    struct caller *caller = caller_new();
    rdl_lock_t *watched, *wanted, *released;

    start_cluster(&(struct cluster_options){.proxied = true});
    client = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = LONG_WATCHED_MS, .command_timeout_ms = 1000));
    losses_init(&losses);
    watched = reentrant(client, name[0].text, NULL);
    wanted = reentrant(client, cluster_name(cluster_first_slot(0), 1).text, NULL);
    released = reentrant(client, cluster_name(cluster_first_slot(0), 2).text, NULL);
    expect(RDL_OK, rdl_on_lost(watched, losses_note, &losses, &err));
    expect(RDL_OK, rdl_lock(watched, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_lock(released, LEASE_MS, &err));
    cluster_bar_clients(cluster, 0, true);
    cr_assert_lt(rdl_unlock(released, &err), 0); /* which goes on */
    caller_try_lock(caller, wanted, PATIENT_MS, LEASE_MS);
    let_pass_ms(LONG_WATCHED_MS / 2); /* a renewal is on its way, too */
    cr_assert_not(caller_idle(caller));
    cluster_move(cluster, cluster_first_slot(0), 1);
    expect_result(RDL_OK, caller, HEAL_MS);
    cr_assert(WAIT_UNTIL(ask(1, "EXISTS %s", rdl_lock_name(released, NULL)) == 0, SOON_MS));
    let_pass_ms(LONG_WATCHED_MS);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    expect(RDL_OK, rdl_unlock(watched, &err));
    caller_unlock(caller, wanted);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_free(caller);
    rdl_lock_free(watched);
    rdl_lock_free(wanted);
    rdl_lock_free(released);
}

static void expect_waiter_moves(bool sharded)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock = reentrant(client, name[0].text, NULL);
    struct probe *p = probe_open(cluster->node[0]);
    char *channel = channel_of(name[0].text);

    foreign_take(p, name[0].text, LEASE_MS);
    caller_try_lock(waiter, lock, PATIENT_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers_of(p, sharded, channel) == 1, SOON_MS), "nobody listens");
    probe_close(p);
    cluster_move(cluster, cluster_first_slot(0), 1);
    p = probe_open(cluster->node[1]);
    cr_assert(!sharded || WAIT_UNTIL(probe_listeners_of(p, sharded, channel) == 1, HEAL_MS), "nobody listens any more");
    cr_assert_not(caller_idle(waiter));
    cr_assert_geq(foreign_release_by(p, sharded ? "spublish" : "publish", name[0].text), sharded ? 1 : 0);
    expect_result(RDL_OK, waiter, WOKEN_MS);
    probe_close(p);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
    free(channel);
}

Test(cluster, C5_waiter_listens_where_its_slot_has_moved)
{
    start(NULL);
    expect_waiter_moves(!server_is_old());
}

/* For the user app, whether the nodes' URI has one or not; to be freed. */
static char *uri_of_app(void)
{
    const char *user_ends = strchr(cluster->uri, '@');

    return must_format("cluster://app:secret@%s", user_ends != NULL ? user_ends + 1 : strstr(cluster->uri, "//") + 2);
}

/* Nodes with those lines of configuration, and a client that may do everything but for these rights. */
static void start_restricted(const char *config, const char *rights)
{
    char *uri;

    start_cluster(&(struct cluster_options){.patient = true, .config = config});
    for (int i = 0; i < CLUSTER_NODES; i++) {
        struct probe *p = probe_open(cluster->node[i]);

        (void)probe_text(p, "ACL SETUSER app on >secret ~* &* +@all %s", rights);
        probe_close(p);
    }
    limited = true;
    uri = uri_of_app();
    client = client_open(uri, NULL);
    free(uri);
}

static void skip_without_sharded_channels(void)
{
    if (server_is_old())
        cr_skip_test("Redis 6.2 has no sharded channels");
}

/* Where sharded channels are forbidden, or unknown, plain ones serve. */
Test(cluster, C5_waiter_is_woken_by_plain_channels_too)
{
    skip_without_sharded_channels();
    start_restricted(NULL, "-pubsub|shardnumsub -ssubscribe -spublish");
    expect_waiter_moves(false);
}

/* What cannot be asked counts as unknown. */
Test(cluster, C5_waiter_is_woken_by_plain_channels_where_nobody_may_ask_for_others)
{
    skip_without_sharded_channels();
    start_restricted(NULL, "-pubsub|shardnumsub");
    expect_waiter_moves(false);
}

Test(cluster, C5_waiter_of_resp2_is_woken_by_sharded_channels)
{
    start_restricted("rename-command HELLO \"\"", "");
    expect_waiter_moves(!server_is_old());
}

Test(cluster, C5_waiter_is_woken_where_administration_is_forbidden)
{
    start_restricted(
        NULL, "-@admin -@dangerous -client -info -script -config -wait -acl -role -ping -select -command -cluster "
              "+cluster|slots");
    expect_waiter_moves(!server_is_old());
}

Test(cluster, C5_slot_on_its_way_is_waited_for_where_asking_is_forbidden)
{
    unsigned slot = cluster_first_slot(0);
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;

    start_restricted(NULL, "-asking");
    lock = reentrant(client, name[0].text, NULL);
    cluster_begin_move(cluster, slot, 1);
    caller_try_lock(waiter, lock, PATIENT_MS, LEASE_MS);
    let_pass_ms(300);
    cr_assert_not(caller_idle(waiter));
    cluster_end_move(cluster, slot, 1);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

Test(cluster, C5_free_lock_of_a_half_moved_slot_is_taken_where_the_slot_goes)
{
    unsigned slot = cluster_first_slot(0);
    rdl_lock_t *lock, *other;

    start(OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    lock = reentrant(client, name[0].text, NULL);
    other = reentrant(rival, name[0].text, NULL);
    cluster_begin_move(cluster, slot, 1);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    cr_assert_eq(ask(1, "EXISTS %s", name[0].text), 1);
    expect(RDL_ETIMEDOUT, rdl_try_lock(other, 0, LEASE_MS, &err));
    let_pass_ms(2 * WATCHED_MS);
    expect(1, rdl_is_held(lock, &err));
    cr_assert_gt(ask(1, "PTTL %s", name[0].text), 0);
    cluster_end_move(cluster, slot, 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_try_lock(other, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(other, &err));
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

/* One batch at a time waits for the replicas of a shard. One that is sent on to where a slot goes waits there. */
Test(cluster, C5_renewal_that_follows_its_slot_to_a_silent_master_holds_up_no_other)
{
    const rdl_lock_options_t *confirmed = LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 500);
    unsigned slot = cluster_first_slot(0);
    rdl_lock_t *moving, *staying;

    start(OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    moving = reentrant(client, name[0].text, confirmed);
    staying = reentrant(client, cluster_name(slot + 1, 0).text, confirmed);
    cluster_begin_move(cluster, slot, 1);
    expect(RDL_OK, rdl_try_lock(staying, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_try_lock(moving, 0, RDL_LEASE_AUTO, &err));
    cr_assert_eq(ask(1, "EXISTS %s", name[0].text), 1);
    cluster_pause(cluster, 1);
    let_pass_ms(2 * WATCHED_MS);
    expect(1, rdl_is_held(staying, &err));
    cluster_resume(cluster, 1);
    cluster_end_move(cluster, slot, 1);
    (void)rdl_unlock(moving, &err);
    expect(RDL_OK, rdl_unlock(staying, &err));
    rdl_lock_free(moving);
    rdl_lock_free(staying);
}

/* Its script needs keys that are not here yet and not there any more. */
Test(cluster, C5_reader_in_the_middle_of_a_move_waits_for_its_end)
{
    unsigned slot = cluster_first_slot(0);
    struct caller *reader = caller_new();
    rdl_lock_t *lock = NULL, *other = NULL;

    start(NULL);
    expect(RDL_OK, rdl_read_lock(client, name[0].text, NULL, &lock, &err));
    expect(RDL_OK, rdl_read_lock(rival, name[0].text, NULL, &other, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cluster_begin_move(cluster, slot, 1);
    caller_try_lock(reader, other, PATIENT_MS, LEASE_MS);
    let_pass_ms(200);
    cr_assert_not(caller_idle(reader), "it was answered in a slot that is not whole");
    cr_assert_eq(ask(0, "HLEN %s", name[0].text), 2, "something was written of a take that did not succeed");
    cr_assert_eq(cluster_move_keys(cluster, slot, 1), 2);
    cluster_end_move(cluster, slot, 1);
    expect_result(RDL_OK, reader, PATIENT_MS);
    caller_unlock(reader, other);
    expect_result(RDL_OK, reader, SOON_MS);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_lock_free(other);
    caller_free(reader);
}

/* The release names a channel beside the lock, so it cannot run before the slot is whole again. (That of a lock with a
 * line, which is a key of the channel's name, can as long as both are there.) */
Test(cluster, C5_release_in_the_middle_of_a_move_waits_for_its_end_and_wakes)
{
    unsigned slot = cluster_first_slot(0);
    struct caller *holder = caller_new(), *waiter = caller_new();
    rdl_lock_t *lock = NULL, *other = NULL;
    int64_t ended;

    start(NULL);
    expect(RDL_OK, rdl_write_lock(client, name[0].text, NULL, &lock, &err));
    expect(RDL_OK, rdl_write_lock(rival, name[0].text, NULL, &other, &err));
    caller_try_lock(holder, lock, 0, LEASE_MS);
    expect_result(RDL_OK, holder, SOON_MS);
    caller_try_lock(waiter, other, PATIENT_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, 0, name[0].text) == 1, SOON_MS));
    cluster_begin_move(cluster, slot, 1);
    caller_unlock(holder, lock);
    let_pass_ms(100);
    cr_assert_not(caller_idle(holder), "it was released in a slot that is not whole");
    cr_assert_eq(cluster_move_keys(cluster, slot, 1), 1);
    let_pass_ms(100);
    cr_assert_not(caller_idle(holder), "it was released in a slot that is not whole");
    cluster_end_move(cluster, slot, 1);
    ended = now_us();
    expect_result(RDL_OK, holder, SOON_MS);
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert_lt(caller_ended_us(waiter) - ended, 1000 * WOKEN_MS);
    caller_unlock(waiter, other);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(holder);
    caller_free(waiter);
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

Test(cluster, C5_no_call_outlives_its_deadline_in_a_slot_that_stays_half_moved)
{
    rdl_lock_t *lock;
    int64_t began;

    start(OPTIONS(.command_timeout_ms = 500));
    left_behind = true;
    lock = reentrant(client, name[0].text, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cluster_begin_move(cluster, cluster_first_slot(0), 1);
    began = now_ms();
    cr_assert_lt(rdl_unlock(lock, &err), 0);
    cr_assert_lt(now_ms() - began, 500 + SLACK_MS);
    cluster_move_keys(cluster, cluster_first_slot(0), 1);
    cluster_end_move(cluster, cluster_first_slot(0), 1);
    cr_assert(WAIT_UNTIL(ask(1, "EXISTS %s", name[0].text) == 0, SOON_MS), "nobody has undone it");
    rdl_lock_free(lock);
}

/* No server takes it, and that is an outage, however long it would wait for the lock. (The script needs keys on either
 * side of the move, so the servers refuse it and it is sent again, pause after pause.) */
Test(cluster, C5_waiting_call_that_is_sent_round_ends_when_an_outage_would_end_it)
{
    const int64_t outage_ms = 1000;
    rdl_lock_t *lock = NULL, *other = NULL;
    int64_t began;

    start(OPTIONS(.outage_timeout_ms = outage_ms));
    expect(RDL_OK, rdl_read_lock(client, name[0].text, NULL, &lock, &err));
    expect(RDL_OK, rdl_read_lock(rival, name[0].text, NULL, &other, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cluster_begin_move(cluster, cluster_first_slot(0), 1);
    began = now_ms();
    expect(RDL_ECONN, rdl_try_lock(other, LEASE_MS, LEASE_MS, &err));
    expect_between(outage_ms - 1, now_ms() - began, LEASE_MS / 2);
    cr_assert_not_null(strstr(err.message, "no server takes it"), "%s", err.message);
    cr_assert_eq(cluster_move_keys(cluster, cluster_first_slot(0), 1), 2);
    cluster_end_move(cluster, cluster_first_slot(0), 1);
    expect(RDL_OK, rdl_try_lock(other, LEASE_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(other, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

static void expect_all_run(const char *rules, void *arg)
{
    char *copy = must_format("%s", rules), *rest = copy;

    (void)arg;
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        int64_t calls = 0;

        for (int i = 0; word[0] == '+' && i < CLUSTER_MASTERS; i++) {
            struct probe *p = probe_open(cluster->node[i]);

            calls += probe_calls(p, word + 1);
            probe_close(p);
        }
        cr_expect(calls > 0 || word[0] != '+', "%s is allowed and was not needed", word);
    }
    free(copy);
}

Test(cluster, documented_rights_are_enough_to_wait_and_to_follow_a_slot_and_no_more)
{
    unsigned moving = cluster_first_slot(1);
    rdl_lock_t *lock;
    char *uri;

    skip_without_sharded_channels();
    start_cluster(&(struct cluster_options){.patient = true});
    for (int i = 0; i < CLUSTER_NODES; i++) {
        rights_grant(cluster->node[i], "Every program", "app");
        rights_grant(cluster->node[i], "In a cluster", "app");
        rights_grant(cluster->node[i], "Reentrant, non-reentrant and spin lock", "app");
    }
    uri = uri_of_app();
    client = client_open(uri, NULL);
    expect_waiter_moves(!server_is_old());
    lock = reentrant(client, cluster_name(moving, 1).text, NULL);
    cluster_begin_move(cluster, moving, 0);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cluster_end_move(cluster, moving, 0);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    cr_assert(cluster_is_clean(cluster, CLEAN_BOUND_MS));
    for (int i = 0; i < CLUSTER_NODES; i++)
        cr_expect_eq(rights_refused(cluster->node[i]), 0, "node %d", i);
    (void)rights_read("In a cluster", "app", expect_all_run, NULL);
    free(uri);
}

/* ---- releases that nobody waits for ----------------------------------------------------------------------------- */

/* The release is redirected, and so is the take behind it, which is not refused because of it. */
Test(cluster, C5_release_that_is_not_waited_for_follows_its_slot)
{
    unsigned slot = cluster_first_slot(0);
    rdl_lock_t *lock;

    start(NULL);
    losses_init(&losses);
    lock = reentrant(client, name[0].text, LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED));
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    for (int to = 1; to <= 2 * SHARDS; to++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        cluster_move(cluster, slot, to % SHARDS);
        expect(RDL_OK, rdl_unlock(lock, &err));
        if (to % 2 == 0)
            expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        if (to % 2 == 0)
            expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert(WAIT_UNTIL(ask(to % SHARDS, "EXISTS %s", name[0].text) == 0, SOON_MS), "%d", to);
    }
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    rdl_lock_free(lock);
}

/* While the slot is being moved the key is at its new master already: ASK. There it may have to wait, as it has a key
 * and a channel, until the slot has arrived; so does the take behind it. */
Test(cluster, C5_release_that_is_not_waited_for_goes_where_its_key_is)
{
    unsigned slot = cluster_first_slot(0);
    rdl_lock_t *lock;

    start(NULL);
    losses_init(&losses);
    lock = reentrant(client, name[0].text, LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED));
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cluster_begin_move(cluster, slot, 1);
    (void)cluster_move_keys(cluster, slot, 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    cluster_end_move(cluster, slot, 1);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(ask(1, "EXISTS %s", name[0].text) == 0, SOON_MS));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    rdl_lock_free(lock);
}
