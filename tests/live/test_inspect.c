/* SPDX-License-Identifier: MIT */
/* test_inspect.c - who holds a lock and who waits, as the server tells it of every type, of ours and of others'. */
#include "tests/live/live.h"

#include <stdio.h>
#include <unistd.h>

#define NAME "orders:7"
#define LEASE_MS 60000
#define UUID "9f1c8a54-0000-4000-8000-0123456789ab"
#define ROOM 8

LIVE_SUITE(inspect, 60);

static rdl_holder_t holder[ROOM];
static rdl_inspection_t *seen;

static rdl_inspection_t *look(const char *name)
{
    seen = rdl_inspection_free(seen);
    expect(RDL_OK, rdl_inspect(st.client, name, 0, &seen, &err));
    cr_assert_str_eq(seen->name, name);
    cr_assert_eq(seen->name_len, strlen(name));
    return seen;
}

static void expect_seen(const char *type, const char *state, int64_t holders)
{
    cr_assert_str_eq(seen->type, type);
    cr_assert_str_eq(seen->state, state, "%s is %s", type, seen->state);
    cr_assert_eq(seen->holders, holders, "%" PRId64 " hold it", seen->holders);
}

static void expect_ours(const rdl_holder_t *it, const rdl_client_t *client, int64_t count)
{
    const char *id = rdl_client_id(client);

    cr_assert_str_eq(it->client, id);
    cr_assert_eq(strncmp(it->owner, id, strlen(id)), 0, "%s", it->owner);
    cr_assert_eq(it->count, count);
    expect_between(LEASE_MS - 30000, it->left_ms, LEASE_MS);
}

/* ---- every type ------------------------------------------------------------------------------------------------- */

Test(inspect, tells_the_holder_of_each_type)
{
    stage_open(&st);
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        const char *state;

        expect(0, rdl_holders(lock, holder, ROOM, &err));
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        if (kind->reentrant)
            expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(1, rdl_holders(lock, holder, ROOM, &err));
        expect_ours(&holder[0], st.client, kind->reentrant ? 2 : 1);
        expect(1, rdl_holders(lock, NULL, 0, &err));
        state = strcmp(kind->type, "read") == 0 ? "read" : strcmp(kind->type, "write") == 0 ? "write" : "held";
        (void)look(NAME);
        expect_seen(strcmp(kind->type, "fenced") == 0   ? "fenced"
                    : strcmp(kind->type, "simple") == 0 ? "simple"
                    : strcmp(state, "held") != 0        ? "read-write"
                                                        : "lock",
                    state, 1);
        expect_ours(&seen->holder[0], st.client, kind->reentrant ? 2 : 1);
        cr_assert_eq(seen->holder_count, 1);
        cr_assert_eq(holder[0].end, strcmp(state, "read") == 0    ? RDL_END_READ
                                    : strcmp(state, "write") == 0 ? RDL_END_WRITE
                                                                  : RDL_END_NONE);
        expect_between(1, seen->ttl_ms, LEASE_MS);
        expect(0, rdl_waiters(lock, NULL, 0, NULL, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        if (kind->reentrant)
            expect(RDL_OK, rdl_unlock(lock, &err));
        lock_over(st.probe, lock);
    }
    (void)look(NAME);
    expect_seen("none", "free", 0);
    seen = rdl_inspection_free(seen);
}

Test(inspect, tells_a_fenced_holder_s_token)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fenced(st.client, NAME, NULL);
    for (int i = 1; i <= 2; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(1, rdl_holders(lock, holder, ROOM, &err));
        cr_assert_eq(holder[0].token, i);
        cr_assert_eq(holder[0].since_ms, 0);
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    (void)look(NAME);
    expect_seen("fenced", "free", 0);
    cr_assert_eq(seen->token, 2);
    lock_over(st.probe, lock);
    lock = fenced(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    (void)look(NAME);
    expect_between(seen->now_ms - 30000, seen->holder[0].since_ms, seen->now_ms);
    expect(RDL_OK, rdl_unlock(lock, &err));
    lock_over(st.probe, lock);
    seen = rdl_inspection_free(seen);
}

Test(inspect, tells_two_readers_apart_and_leaves_out_one_whose_lease_is_over)
{
    rdl_client_t *other;
    rdl_lock_t *ours, *theirs;
    char *late;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    ours = read_end(st.client, NAME, NULL);
    theirs = read_end(other, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(ours, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(theirs, 0, LEASE_MS / 2, &err));
    expect(2, rdl_holders(ours, holder, ROOM, &err));
    for (int i = 0; i < 2; i++) {
        bool own = strcmp(holder[i].client, rdl_client_id(st.client)) == 0;

        cr_assert_eq(holder[i].end, RDL_END_READ);
        cr_assert_str_eq(holder[i].client, rdl_client_id(own ? st.client : other));
        expect_between(1, holder[i].left_ms, own ? LEASE_MS : LEASE_MS / 2);
    }
    cr_assert_str_neq(holder[0].client, holder[1].client);
    late = must_format("{" NAME "}:%s:rwlock_timeout:1",
                       holder[strcmp(holder[0].client, rdl_client_id(other)) == 0 ? 0 : 1].owner);
    cr_assert_eq(probe_int(st.probe, "DEL %s", late), 1);
    expect(1, rdl_holders(ours, holder, 1, &err));
    cr_assert_str_eq(holder[0].client, rdl_client_id(st.client));
    free(late);
    expect(RDL_OK, rdl_unlock(theirs, &err));
    expect(RDL_OK, rdl_unlock(ours, &err));
    rdl_lock_free(theirs);
    rdl_lock_free(ours);
    rdl_client_close(other);
}

/* ---- who waits -------------------------------------------------------------------------------------------------- */

Test(inspect, tells_how_many_processes_wait)
{
    struct caller *waiter = caller_new();
    rdl_client_t *other;
    rdl_lock_t *lock, *wanted;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    lock = reentrant(st.client, NAME, NULL);
    wanted = reentrant(other, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    caller_lock(waiter, wanted, LEASE_MS);
    cr_assert(WAIT_UNTIL(rdl_waiters(lock, NULL, 0, NULL, &err) == 1, SOON_MS));
    (void)look(NAME);
    expect_seen("lock", "held", 1);
    cr_assert_eq(seen->waiters, 1);
    cr_assert(!seen->in_order);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    expect(1, rdl_holders(lock, holder, ROOM, &err));
    expect_ours(&holder[0], other, 1);
    caller_unlock(waiter, wanted);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(wanted);
    rdl_lock_free(lock);
    rdl_client_close(other);
    seen = rdl_inspection_free(seen);
}

Test(inspect, tells_a_fair_queue_in_its_order)
{
    enum { WAITERS = 2 };
    struct caller *waiter[WAITERS];
    rdl_client_t *client[WAITERS];
    rdl_lock_t *lock, *wanted[WAITERS];
    rdl_waiter_t listed[ROOM];
    size_t count = 0;

    stage_open(&st);
    lock = fair(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    for (int i = 0; i < WAITERS; i++) {
        client[i] = client_open(stage_uri(&st), NULL);
        wanted[i] = fair(client[i], NAME, NULL);
        waiter[i] = caller_new();
        caller_lock(waiter[i], wanted[i], LEASE_MS);
        cr_assert(WAIT_UNTIL(rdl_waiters(lock, NULL, 0, NULL, &err) == i + 1, SOON_MS));
    }
    expect(WAITERS, rdl_waiters(lock, listed, ROOM, &count, &err));
    cr_assert_eq(count, WAITERS);
    (void)look(NAME);
    expect_seen("fair", "held", 1);
    cr_assert(seen->in_order);
    cr_assert_eq(seen->waiter_count, WAITERS);
    for (int i = 0; i < WAITERS; i++) {
        cr_assert_str_eq(listed[i].client, rdl_client_id(client[i]));
        cr_assert_str_eq(seen->waiter[i].client, rdl_client_id(client[i]));
        expect_between(seen->now_ms - 30000, listed[i].since_ms, seen->now_ms);
    }
    expect(RDL_OK, rdl_unlock(lock, &err));
    for (int i = 0; i < WAITERS; i++) {
        expect_result(RDL_OK, waiter[i], SOON_MS);
        caller_unlock(waiter[i], wanted[i]);
        expect_result(RDL_OK, waiter[i], SOON_MS);
        caller_free(waiter[i]);
        rdl_lock_free(wanted[i]);
    }
    for (int i = 0; i < WAITERS; i++)
        rdl_client_close(client[i]);
    rdl_lock_free(lock);
    seen = rdl_inspection_free(seen);
}

/* ---- permits ---------------------------------------------------------------------------------------------------- */

Test(inspect, tells_permits_and_counts)
{
    rdl_permit_semaphore_t *permits = NULL;
    rdl_permit_t permit[2];

    stage_open(&st);
    left_behind = true;
    expect(RDL_OK, rdl_permit_semaphore(st.client, NAME, NULL, &permits, &err));
    expect(1, rdl_permit_semaphore_try_set_permits(permits, 5, &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(permits, 2, 0, LEASE_MS, permit, &err));
    (void)look(NAME);
    expect_seen("permit-semaphore", "free", 2);
    cr_assert_eq(seen->number, 3);
    for (size_t i = 0; i < 2; i++) {
        cr_assert(strcmp(seen->holder[i].owner, permit[0].id) == 0 || strcmp(seen->holder[i].owner, permit[1].id) == 0);
        cr_assert_str_eq(seen->holder[i].client, "");
        expect_between(1, seen->holder[i].left_ms, LEASE_MS);
    }
    expect(RDL_OK, rdl_permit_semaphore_release(permits, 2, permit, &err));
    rdl_permit_semaphore_free(permits);
    cr_assert_str_eq(probe_text(st.probe, "SET orders:count 0"), "OK");
    (void)look("orders:count");
    expect_seen("counter", "taken", 0);
    seen = rdl_inspection_free(seen);
}

static int64_t await(void *latch, rdl_err_t *why)
{
    return rdl_latch_await(latch, LEASE_MS, why);
}

Test(inspect, tells_a_latch_by_who_waits)
{
    struct caller *waiter = caller_new();
    rdl_latch_t *latch = NULL;

    stage_open(&st);
    left_behind = true; /* the guard */
    expect(RDL_OK, rdl_latch(st.client, NAME, NULL, &latch, &err));
    expect(1, rdl_latch_try_set_count(latch, 1, &err));
    (void)look(NAME);
    expect_seen("counter", "free", 0);
    cr_assert_eq(seen->number, 1);
    caller_call(waiter, await, latch);
    cr_assert(WAIT_UNTIL(strcmp(look(NAME)->type, "latch") == 0, SOON_MS));
    expect_seen("latch", "closed", 0);
    cr_assert_eq(seen->waiters, 1);
    cr_assert_eq(seen->number, 1);
    expect(0, rdl_latch_count_down(latch, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_latch_free(latch);
    seen = rdl_inspection_free(seen);
}

static int64_t acquire(void *semaphore, rdl_err_t *why)
{
    return rdl_semaphore_try_acquire(semaphore, 1, LEASE_MS, why);
}

Test(inspect, tells_a_fair_semaphore_s_queue)
{
    rdl_semaphore_options_t options = RDL_SEMAPHORE_OPTIONS_INIT;
    struct caller *waiter = caller_new();
    rdl_semaphore_t *semaphore = NULL;

    stage_open(&st);
    left_behind = true; /* the guard */
    options.fair = true;
    expect(RDL_OK, rdl_semaphore(st.client, NAME, &options, &semaphore, &err));
    expect(1, rdl_semaphore_try_set_permits(semaphore, 1, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(semaphore, 1, 0, &err));
    caller_call(waiter, acquire, semaphore);
    cr_assert(WAIT_UNTIL(look(NAME)->waiter_count == 1, SOON_MS));
    expect_seen("semaphore", "taken", 0);
    cr_assert(seen->in_order);
    cr_assert_str_eq(seen->waiter[0].client, rdl_client_id(st.client));
    expect_between(seen->now_ms - 30000, seen->waiter[0].since_ms, seen->now_ms);
    expect(RDL_OK, rdl_semaphore_release(semaphore, 1, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_semaphore_free(semaphore);
    seen = rdl_inspection_free(seen);
}

/* ---- others' ---------------------------------------------------------------------------------------------------- */

Test(inspect, tells_holders_that_are_no_redlatch_and_their_want_of_a_description)
{
    stage_open(&st);
    left_behind = true;
    cr_assert_eq(probe_int(st.probe, "HSET " NAME " " UUID ":52 3"), 1);
    (void)look(NAME);
    expect_seen("lock", "held", 1);
    cr_assert_str_eq(seen->holder[0].owner, UUID ":52");
    cr_assert_str_eq(seen->holder[0].client, UUID);
    cr_assert_eq(seen->holder[0].count, 3);
    cr_assert_eq(seen->holder[0].left_ms, -1);
    cr_assert_eq(seen->ttl_ms, -1);
    cr_assert(!seen->holder[0].by.known);
    cr_assert_eq(probe_int(st.probe, "HSET redlatch_client:{" UUID "} host db3 pid 812 program backup.sh version 0.1.0 "
                                     "start_ms 1700000000000 label nightly info 'all\x01shards'"),
                 7);
    (void)look(NAME);
    cr_assert(seen->holder[0].by.known);
    cr_assert_str_eq(seen->holder[0].by.host, "db3");
    cr_assert_str_eq(seen->holder[0].by.program, "backup.sh");
    cr_assert_str_eq(seen->holder[0].by.label, "nightly");
    cr_assert_str_eq(seen->holder[0].by.info, "all\\x01shards");
    cr_assert_eq(seen->holder[0].by.pid, 812);
    cr_assert_eq(seen->holder[0].by.start_ms, 1700000000000);
    seen = rdl_inspection_free(seen);
}

Test(inspect, tells_what_a_client_of_ours_says_of_itself)
{
    rdl_client_t *other;
    rdl_lock_t *lock;

    stage_open(&st);
    left_behind = true; /* the description */
    other =
        client_open(stage_uri(&st), &(rdl_client_options_t){.version = RDL_CLIENT_OPTIONS_VERSION, .label = "nightly"});
    lock = reentrant(other, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert(WAIT_UNTIL(look(NAME)->holder[0].by.known, SOON_MS));
    cr_assert_str_eq(seen->holder[0].by.label, "nightly");
    cr_assert_eq(seen->holder[0].by.pid, getpid());
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_client_close(other);
    seen = rdl_inspection_free(seen);
}

static void expect_no_lock(const char *what)
{
    rdl_inspection_t *none = NULL;

    expect(RDL_EINVAL, rdl_inspect(st.client, NAME, 0, &none, &err));
    cr_assert_null(none);
    expect_err_names(&err, RDL_EINVAL, NAME);
    cr_assert_not_null(strstr(err.message, what), "%s", err.message);
    (void)probe_int(st.probe, "DEL " NAME);
}

Test(inspect, says_what_is_no_lock)
{
    rdl_lock_t *lock, *members[2], *multi = NULL;
    rdl_inspection_t *none = NULL;

    stage_open(&st);
    (void)probe_int(st.probe, "RPUSH " NAME " a");
    expect_no_lock("a list");
    (void)probe_int(st.probe, "HSET " NAME " colour red");
    expect_no_lock("a hash whose fields are no holders");
    (void)probe_text(st.probe, "SET " NAME " hello");
    expect_no_lock("a string that names no holder");
    (void)probe_text(st.probe, "SET " NAME " hello PX 60000");
    lock = simple(st.client, NAME, NULL);
    expect(1, rdl_holders(lock, holder, ROOM, &err));
    cr_assert_str_eq(holder[0].owner, "hello");
    cr_assert_str_eq(holder[0].client, "");
    (void)probe_int(st.probe, "DEL " NAME);
    expect(RDL_EINVAL, rdl_inspect(st.client, "", 0, &none, &err));
    expect(RDL_EINVAL, rdl_inspect(st.client, NULL, 0, &none, &err));
    expect(RDL_EINVAL, rdl_holders(NULL, holder, ROOM, &err));
    expect(RDL_EINVAL, rdl_holders(lock, NULL, ROOM, &err));
    members[0] = lock;
    members[1] = reentrant(st.client, "orders:8", NULL);
    expect(RDL_OK, rdl_multi_lock(members, 2, NULL, &multi, &err));
    expect(RDL_EINVAL, rdl_holders(multi, holder, ROOM, &err));
    rdl_lock_free(multi);
    rdl_lock_free(members[0]);
    rdl_lock_free(members[1]);
}

Test(inspect, says_what_a_user_may_not)
{
    rdl_inspection_t *none = NULL;
    rdl_client_t *limited;
    char *uri;

    stage_open(&st);
    left_behind = true;
    (void)probe_text(st.probe, "ACL SETUSER blind reset resetchannels on >secret ~* &* +@all -hscan");
    cr_assert_eq(probe_int(st.probe, "HSET " NAME " " UUID ":1 1"), 1);
    uri = must_format("unix://blind:secret@%s?db=0", server_socket(st.server));
    limited = client_open(uri, NULL);
    expect(RDL_ESERVER, rdl_inspect(limited, NAME, 0, &none, &err));
    expect_err_names(&err, RDL_ESERVER, NAME);
    cr_assert_not_null(strstr(err.message, "docs/acl.md, Inspection"), "%s", err.message);
    rdl_client_close(limited);
    free(uri);
}
