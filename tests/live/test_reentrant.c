/* SPDX-License-Identifier: MIT */
/* test_reentrant.c - the reentrant lock by itself: what it leaves at the server, what its verbs answer, and that it
 * excludes. What it has in common with every other type is in test_types.c; what happens around it has programs of its
 * own: waiters, watchdog, connection, doubt. */
#include "tests/live/live.h"

#define NAME "orders:42"
#define LEASE_MS 10000

LIVE_SUITE(reentrant, 60);

/* The one field of the lock's hash, or NULL. */
static char *holder(void)
{
    const struct reply *fields = probe_ask(st.probe, "HKEYS " NAME);

    return fields->count == 1 ? must_format("%s", fields->items[0].text) : NULL;
}

static bool is_field_of(const char *field, const rdl_client_t *client)
{
    char *end = NULL;

    if (field == NULL || strncmp(field, rdl_client_id(client), 36) != 0 || field[36] != ':')
        return false;
    (void)strtoll(field + 37, &end, 10);
    return end > field + 37 && *end == '\0';
}

/* T3; wire.md, Keys by lock type. */
Test(reentrant, is_a_hash_with_the_owners_field_and_a_time_to_live)
{
    rdl_lock_t *lock;
    char *field;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    field = holder();
    cr_assert(is_field_of(field, st.client), "%s", field);
    cr_assert_eq(probe_int(st.probe, "HGET " NAME " %s", field), 1);
    expect_between(LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL " NAME), LEASE_MS);
    expect_between(LEASE_MS - SLACK_MS, rdl_remaining_ms(lock, &err), LEASE_MS);
    cr_assert_eq(probe_keys(st.probe), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    free(field);
    rdl_lock_free(lock);
}

Test(reentrant, guard_unlocks_when_its_scope_is_left)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < 2; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        RDL_GUARD(lock);
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        RDL_GUARD(lock);
        cr_assert_eq(rdl_hold_count(lock, &err), 2);
        if (i == 0)
            continue;
    }
    cr_assert_eq(rdl_hold_count(lock, &err), 0);
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_lock_free(lock);
}

static int fail_under(rdl_lock_t *lock)
{
    RDL_GUARD(lock);
    errno = ENOENT;
    return -1;
}

static void change_errno(rdl_metric_t metric, int64_t value, void *arg)
{
    (void)metric;
    (void)value;
    (void)arg;
    errno = EAGAIN;
}

/* As a reply that is not there yet may change it. */
Test(reentrant, guard_leaves_errno_to_the_caller_of_what_it_guards)
{
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.metrics_fn = change_errno));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(fail_under(lock), -1);
    cr_assert_eq(errno, ENOENT);
    rdl_lock_free(lock);
}

Test(reentrant, gets_a_fresh_owner_field_for_every_outermost_hold)
{
    rdl_lock_t *lock;
    char *fields[3];

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < 3; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        fields[i] = holder();
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    cr_assert_str_neq(fields[0], fields[1]);
    cr_assert_str_neq(fields[1], fields[2]);
    cr_assert_str_neq(fields[0], fields[2]);
    for (int i = 0; i < 3; i++)
        free(fields[i]);
    rdl_lock_free(lock);
}

Test(reentrant, nests_with_one_field_and_wants_as_many_unlocks)
{
    rdl_lock_t *lock;
    char *field;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    for (int64_t count = 1; count <= 5; count++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(count, rdl_hold_count(lock, &err));
        field = holder();
        cr_assert_not_null(field);
        cr_assert_eq(probe_int(st.probe, "HGET " NAME " %s", field), count);
        free(field);
    }
    for (int64_t count = 4; count >= 0; count--) {
        expect(RDL_OK, rdl_unlock(lock, &err));
        expect(count, rdl_hold_count(lock, &err));
        expect(count > 0, rdl_is_held(lock, &err));
        cr_assert_eq(probe_keys(st.probe), count > 0);
    }
    expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* wire.md, Where we differ: a nested acquire never shortens, and counts at once when it is longer. */
Test(reentrant, takes_the_longest_lease_of_nested_holds)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, 5000, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, 2000, &err));
    expect_between(5000 - SLACK_MS, probe_int(st.probe, "PTTL " NAME), 5000);
    expect_between(5000 - SLACK_MS, rdl_remaining_ms(lock, &err), 5000);
    expect(RDL_OK, rdl_try_lock(lock, 0, 20000, &err));
    expect_between(20000 - SLACK_MS, probe_int(st.probe, "PTTL " NAME), 20000);
    expect_between(20000 - SLACK_MS, rdl_remaining_ms(lock, &err), 20000);
    for (int i = 0; i < 3; i++)
        expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(reentrant, refuses_the_same_name_under_another_type_or_with_other_options)
{
    rdl_lock_t *lock, *other = NULL;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_EINVAL, rdl_simple_lock(st.client, NAME, NULL, &other, &err));
    cr_assert_null(other);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME), &other, &err));
    expect(RDL_EINVAL,
           rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.retry = {.kind = RDL_RETRY_FIXED}), &other, &err));
    cr_assert_null(other);
    rdl_lock_free(lock);
    other = simple(st.client, NAME, NULL); /* the last handle has gone: the name is free */
    rdl_lock_free(other);
}

Test(reentrant, refuses_options_out_of_range)
{
    rdl_lock_t *other = NULL;

    stage_open(&st);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, "x", LOCK_OPTIONS(.retry = {.min_ms = -1}), &other, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, "x",
                                          LOCK_OPTIONS(.retry = {.kind = RDL_RETRY_RANDOM, .min_ms = 50, .max_ms = 10}),
                                          &other, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, "x", LOCK_OPTIONS(.retry = {.kind = 77}), &other, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, "x", LOCK_OPTIONS(.fencing = 77), &other, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, "x", &(rdl_lock_options_t){.version = 99}, &other, &err));
    cr_assert_null(other);
}

Test(reentrant, accepts_the_longest_and_the_shortest_lease)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_MAX_MS, &err));
    expect_between(RDL_LEASE_MAX_MS - 2000, probe_int(st.probe, "PTTL " NAME), RDL_LEASE_MAX_MS);
    expect(RDL_OK, rdl_unlock(lock, &err));
    (void)rdl_try_lock(lock, 0, 1, &err); /* over before its answer is read, most likely: then it was not acquired */
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    (void)rdl_unlock(lock, &err);
    rdl_lock_free(lock);
}

Test(reentrant, force_unlock_evicts_the_holder_and_says_whether_there_was_one)
{
    rdl_client_t *other;
    rdl_lock_t *lock, *elsewhere;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    lock = reentrant(st.client, NAME, NULL);
    elsewhere = reentrant(other, NAME, NULL);
    expect(0, rdl_force_unlock(elsewhere, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(1, rdl_force_unlock(elsewhere, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    expect(RDL_OK, rdl_try_lock(elsewhere, 0, LEASE_MS, &err));
    expect(RDL_ELOST, rdl_unlock(lock, &err)); /* and the new holder keeps it */
    expect(1, rdl_is_locked(lock, &err));
    expect(RDL_OK, rdl_unlock(elsewhere, &err));
    foreign_take(st.probe, NAME, LEASE_MS);
    expect(1, rdl_force_unlock(lock, &err));
    (void)rdl_unlock(lock, &err); /* the second of the two lost holds */
    rdl_lock_free(lock);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
}

/* protocol.md, 9 */
Test(reentrant, fencing_token_grows_with_every_change_of_hands_and_stays_in_nested_holds)
{
    const rdl_lock_options_t *fenced = LOCK_OPTIONS(.fencing = RDL_FENCING_TIME);
    rdl_client_t *other;
    rdl_lock_t *locks[2];
    int64_t last = 0;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    locks[0] = reentrant(st.client, NAME, fenced);
    locks[1] = reentrant(other, NAME, fenced);
    expect(RDL_ENOTOWNER, rdl_token(locks[0], &err));
    for (int i = 0; i < 50; i++) {
        rdl_lock_t *lock = locks[i % 2];
        int64_t token;

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        token = rdl_token(lock, &err);
        cr_assert_gt(token, last);
        last = token;
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(token, rdl_token(lock, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        expect(token, rdl_token(lock, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        expect(RDL_ENOTOWNER, rdl_token(lock, &err));
    }
    rdl_lock_free(locks[0]);
    rdl_lock_free(locks[1]);
    rdl_client_close(other);
}

Test(reentrant, has_no_token_when_it_was_made_without_fencing)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_EINVAL, rdl_token(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* ---- exclusion -------------------------------------------------------------------------------------------------- */

struct contest {
    rdl_lock_t *lock;
    int rounds;
    _Atomic int *inside; /* holders at this moment */
    int64_t *counter;    /* guarded by the lock */
    int64_t *last_token; /* guarded by the lock */
    atomic_int *violations;
};

static int64_t contend(void *arg, rdl_err_t *reterr)
{
    struct contest *c = arg;

    for (int i = 0; i < c->rounds; i++) {
        int rc = rdl_lock(c->lock, RDL_LEASE_AUTO, reterr);
        int64_t token;

        if (rc < 0)
            return rc;
        if (atomic_fetch_add(c->inside, 1) != 0)
            atomic_fetch_add(c->violations, 1);
        token = rdl_token(c->lock, reterr);
        if (token <= *c->last_token)
            atomic_fetch_add(c->violations, 1);
        *c->last_token = token;
        ++*c->counter;
        atomic_fetch_sub(c->inside, 1);
        if ((rc = rdl_unlock(c->lock, reterr)) < 0)
            return rc;
    }
    return RDL_OK;
}

Test(reentrant, excludes_threads_of_two_clients_and_hands_out_growing_tokens)
{
    enum { CALLERS = 8, ROUNDS = 150 };
    const rdl_lock_options_t *fenced = LOCK_OPTIONS(.fencing = RDL_FENCING_TIME);
    struct caller *callers[CALLERS];
    struct contest contests[CALLERS];
    rdl_client_t *other;
    rdl_lock_t *locks[2];
    _Atomic int inside = 0;
    atomic_int violations = 0;
    int64_t counter = 0, last_token = 0;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    locks[0] = reentrant(st.client, NAME, fenced);
    locks[1] = reentrant(other, NAME, fenced);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = caller_new();
        contests[i] = (struct contest){locks[i % 2], ROUNDS, &inside, &counter, &last_token, &violations};
        caller_call(callers[i], contend, &contests[i]);
    }
    for (int i = 0; i < CALLERS; i++) {
        expect_result(RDL_OK, callers[i], 40000);
        caller_free(callers[i]);
    }
    cr_assert_eq(violations, 0);
    cr_assert_eq(counter, CALLERS * ROUNDS);
    rdl_lock_free(locks[0]);
    rdl_lock_free(locks[1]);
    rdl_client_close(other);
}

/* ---- beside a foreign client ------------------------------------------------------------------------------------ */

Test(reentrant, respects_a_foreign_holder_and_is_woken_by_its_release)
{
    rdl_lock_t *lock;
    struct caller *waiter = caller_new();
    char *channel = channel_of(NAME);

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(1, rdl_is_locked(lock, &err));
    caller_try_lock(waiter, lock, SOON_MS * 2, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_listeners_of(st.probe, false, channel) == 1, SOON_MS));
    cr_assert_eq(foreign_release(st.probe, NAME), 1);
    expect_result(RDL_OK, waiter, WOKEN_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
    free(channel);
}

Test(reentrant, tells_foreign_waiters_of_its_release)
{
    rdl_lock_t *lock;
    struct probe *listener;
    char *channel = channel_of(NAME);
    const struct reply *message;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    listener = probe_open(st.server);
    (void)probe_ask(listener, "SUBSCRIBE %s", channel);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_null(probe_next(listener, 30));
    expect(RDL_OK, rdl_unlock(lock, &err));
    message = probe_next(listener, SOON_MS);
    cr_assert_not_null(message);
    cr_assert_str_eq(message->items[2].text, "0");
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(1, rdl_force_unlock(lock, &err));
    cr_assert_not_null(probe_next(listener, SOON_MS));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    probe_close(listener);
    rdl_lock_free(lock);
    free(channel);
}

/* ---- handles ---------------------------------------------------------------------------------------------------- */

/* T12 */
Test(reentrant, null_handles_are_errors_and_no_crash)
{
    rdl_lock_t *lock = NULL;
    rdl_client_t *client = NULL;

    expect(RDL_EINVAL, rdl_try_lock(NULL, 0, LEASE_MS, &err));
    expect(RDL_EINVAL, rdl_lock(NULL, LEASE_MS, &err));
    expect(RDL_EINVAL, rdl_unlock(NULL, &err));
    expect(RDL_EINVAL, rdl_force_unlock(NULL, &err));
    expect(RDL_EINVAL, rdl_extend(NULL, LEASE_MS, &err));
    expect(RDL_EINVAL, rdl_is_locked(NULL, &err));
    expect(RDL_EINVAL, rdl_is_held(NULL, &err));
    expect(RDL_EINVAL, rdl_hold_count(NULL, &err));
    expect(RDL_EINVAL, rdl_hold_state(NULL, &err));
    expect(RDL_EINVAL, rdl_remaining_ms(NULL, &err));
    expect(RDL_EINVAL, rdl_token(NULL, &err));
    expect(RDL_EINVAL, rdl_on_lost(NULL, NULL, NULL, &err));
    cr_assert_null(rdl_lock_free(NULL));
    cr_assert_null(rdl_client_close(NULL));
    cr_assert_null(rdl_owner_free(NULL));
    cr_assert_null(rdl_op_free(NULL));
    rdl_op_cancel(NULL);
    rdl_owner_unbind(NULL);
    expect(RDL_EINVAL, rdl_reentrant_lock(NULL, NAME, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_simple_lock(NULL, NAME, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_owner_new(NULL, NULL, &err));
    expect(RDL_EINVAL, rdl_owner_bind(NULL, &err));
    expect(RDL_EINVAL, rdl_owner_cancel(NULL));
    expect(RDL_EINVAL, rdl_client_fd(NULL));
    expect(RDL_EINVAL, rdl_client_dispatch(NULL));
    expect(RDL_EINVAL, rdl_client_open(NULL, NULL, &client, &err));
    cr_assert_null(lock);
    cr_assert_null(client);
}

Test(reentrant, works_without_an_error_struct)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    cr_assert_eq(rdl_unlock(lock, NULL), RDL_ENOTOWNER);
    cr_assert_eq(rdl_try_lock(lock, 0, LEASE_MS, NULL), RDL_OK);
    cr_assert_eq(rdl_is_held(lock, NULL), 1);
    cr_assert_eq(rdl_unlock(lock, NULL), RDL_OK);
    cr_assert_eq(rdl_try_lock(lock, 0, 0, NULL), RDL_EINVAL);
    rdl_lock_free(lock);
}

/* error.h: filled by the call that failed, left alone by one that succeeded. */
Test(reentrant, error_struct_is_left_alone_by_calls_that_succeed)
{
    rdl_lock_t *lock;
    rdl_err_t untouched;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    memset(&err, 0x5a, sizeof err);
    untouched = err;
    cr_assert_eq(rdl_try_lock(lock, 1000, LEASE_MS, &err), RDL_OK);
    cr_assert_eq(rdl_extend(lock, LEASE_MS, &err), RDL_OK);
    cr_assert_eq(rdl_is_held(lock, &err), 1);
    cr_assert_eq(rdl_is_locked(lock, &err), 1);
    cr_assert_gt(rdl_remaining_ms(lock, &err), 0);
    cr_assert_eq(rdl_unlock(lock, &err), RDL_OK);
    cr_assert_eq(memcmp(&err, &untouched, sizeof err), 0);
    rdl_lock_free(lock);
}

Test(reentrant, handle_tells_its_name_and_type)
{
    rdl_lock_t *lock;
    size_t len = 0;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    cr_assert_eq(memcmp(rdl_lock_name(lock, &len), NAME, sizeof NAME - 1), 0);
    cr_assert_eq(len, sizeof NAME - 1);
    cr_assert_str_eq(rdl_lock_type(lock), "reentrant");
    rdl_lock_free(lock);
}

Test(reentrant, freed_handle_of_a_held_lock_leaves_the_hold_to_its_lease)
{
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 3000));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    rdl_lock_free(lock);
    cr_assert_eq(probe_keys(st.probe), 1);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, 3000 + SLACK_MS));
}
