/* SPDX-License-Identifier: MIT */
/* test_readwrite.c - the read-write lock: what it leaves at the server, who shares with whom, and how the ends meet. */
#include "tests/live/live.h"

#define NAME "catalogue"
#define CHANNEL "redisson_rwlock:{" NAME "}"
#define LEASE_MS 10000

LIVE_SUITE(readwrite, 60);

struct ends {
    rdl_lock_t *r, *w;
};

static struct ends both(rdl_client_t *client, const rdl_lock_options_t *options)
{
    return (struct ends){.r = read_end(client, NAME, options), .w = write_end(client, NAME, options)};
}

static void done_with(struct ends e)
{
    rdl_lock_free(e.r);
    rdl_lock_free(e.w);
}

/* The stage, both ends at its client, and both at another one, which is returned. */
static rdl_client_t *open_two(const rdl_lock_options_t *options, struct ends *e, struct ends *far)
{
    rdl_client_t *other;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    *e = both(st.client, options);
    *far = both(other, options);
    return other;
}

static void close_two(rdl_client_t *other, struct ends e, struct ends far)
{
    done_with(e);
    done_with(far);
    rdl_client_close(other);
}

static bool mode_is(const char *mode)
{
    const char *text = probe_text(st.probe, "HGET " NAME " mode");

    return text != NULL && strcmp(text, mode) == 0;
}

/* wire.md, Keys by lock type. */
Test(readwrite, read_holds_are_a_field_and_a_timeout_key_each)
{
    struct ends e;
    const struct reply *fields;
    char *key;

    stage_open(&st);
    e = both(st.client, NULL);
    cr_assert_str_eq(rdl_lock_type(e.r), "read");
    cr_assert_str_eq(rdl_lock_type(e.w), "write");
    for (int i = 1; i <= 3; i++)
        expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    cr_assert(mode_is("read"));
    cr_assert_eq(probe_keys(st.probe), 1 + 3);
    fields = probe_ask(st.probe, "HKEYS " NAME);
    cr_assert_eq(fields->count, 2);
    key = must_format("{" NAME "}:%s:rwlock_timeout:", fields->items[strcmp(fields->items[0].text, "mode") == 0].text);
    for (int i = 1; i <= 3; i++)
        expect_between(LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL %s%d", key, i), LEASE_MS);
    for (int i = 2; i >= 0; i--) {
        expect(RDL_OK, rdl_unlock(e.r, &err));
        expect(i, rdl_hold_count(e.r, &err));
        cr_assert_eq(probe_keys(st.probe), i == 0 ? 0 : 1 + i);
    }
    expect(RDL_ENOTOWNER, rdl_unlock(e.r, &err));
    free(key);
    done_with(e);
}

Test(readwrite, write_hold_is_a_field_that_ends_in_write)
{
    struct ends e;
    const struct reply *fields;
    const char *field;

    stage_open(&st);
    e = both(st.client, NULL);
    expect(RDL_OK, rdl_try_lock(e.w, 0, LEASE_MS, &err));
    cr_assert(mode_is("write"));
    fields = probe_ask(st.probe, "HKEYS " NAME);
    field = fields->items[strcmp(fields->items[0].text, "mode") == 0].text;
    cr_assert_eq(strncmp(field, rdl_client_id(st.client), 36), 0);
    cr_assert_str_eq(field + strlen(field) - 6, ":write");
    expect(1, rdl_is_locked(e.w, &err));
    expect(0, rdl_is_locked(e.r, &err));
    expect(RDL_OK, rdl_unlock(e.w, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    done_with(e);
}

/* N12: what is asked of one end while its owner holds both, by itself and from elsewhere. */
Test(readwrite, N12_each_end_is_locked_as_long_as_it_is_held_beside_the_other)
{
    struct ends e, far;
    rdl_client_t *client = open_two(NULL, &e, &far);

    expect(RDL_OK, rdl_try_lock(e.w, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    expect(1, rdl_is_locked(e.r, &err));
    expect(1, rdl_is_locked(far.r, &err));
    expect(1, rdl_is_locked(far.w, &err));
    expect(RDL_OK, rdl_unlock(e.r, &err));
    expect(0, rdl_is_locked(far.r, &err));
    expect(1, rdl_is_locked(far.w, &err));
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(e.w, &err));
    expect(1, rdl_is_locked(far.r, &err));
    expect(0, rdl_is_locked(far.w, &err));
    expect(RDL_OK, rdl_unlock(e.r, &err));
    expect(0, rdl_is_locked(far.r, &err));
    close_two(client, e, far);
}

Test(readwrite, readers_share_and_a_writer_is_alone)
{
    struct caller *other = caller_new();
    struct ends e, far;
    rdl_client_t *client;

    client = open_two(NULL, &e, &far);
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(far.r, 0, LEASE_MS, &err));
    caller_try_lock(other, e.r, 0, LEASE_MS);
    expect_result(RDL_OK, other, SOON_MS);
    cr_assert_eq(probe_int(st.probe, "HLEN " NAME), 1 + 3);
    expect(1, rdl_is_locked(far.r, &err));
    expect(0, rdl_is_locked(far.w, &err));
    expect(RDL_OK, rdl_unlock(e.r, &err));
    expect(RDL_OK, rdl_unlock(far.r, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(far.w, 0, LEASE_MS, &err));
    caller_unlock(other, e.r);
    expect_result(RDL_OK, other, SOON_MS);
    expect(RDL_OK, rdl_try_lock(far.w, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(e.w, 0, LEASE_MS, &err));
    expect(RDL_ENOTOWNER, rdl_unlock(e.w, &err));
    expect(RDL_OK, rdl_unlock(far.w, &err));
    caller_free(other);
    close_two(client, e, far);
}

/* RW8 */
Test(readwrite, RW8_a_reader_that_wants_to_write_is_told_at_once)
{
    struct monitor *monitor;
    struct ends e;
    size_t mark;

    stage_open(&st);
    e = both(st.client, NULL);
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    expect(RDL_EDEADLK, rdl_try_lock(e.w, 0, LEASE_MS, &err));
    expect_err_names(&err, RDL_EDEADLK, NAME);
    expect(RDL_EDEADLK, rdl_try_lock(e.w, 5000, LEASE_MS, &err));
    expect(RDL_EDEADLK, rdl_lock(e.w, LEASE_MS, &err));
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, NAME), 0);
    expect(RDL_OK, rdl_unlock(e.r, &err));
    expect(RDL_OK, rdl_try_lock(e.w, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(e.w, &err));
    monitor_stop(monitor);
    done_with(e);
}

/* RW1 */
Test(readwrite, RW1_a_downgrade_lets_a_waiting_reader_in_and_keeps_writers_out)
{
    struct caller *reader = caller_new();
    rdl_client_t *client;
    struct ends e, far;

    client = open_two(NULL, &e, &far);
    expect(RDL_OK, rdl_try_lock(e.w, 0, 60000, &err));
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    caller_try_lock(reader, far.r, 20000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    let_pass_ms(50); /* its try after the acknowledgement is over: it sleeps */
    expect(RDL_OK, rdl_unlock(e.w, &err));
    expect_result(RDL_OK, reader, WOKEN_MS);
    cr_assert(mode_is("read"));
    cr_assert_leq(probe_int(st.probe, "PTTL " NAME), LEASE_MS); /* the writer's 60 s are over */
    expect(RDL_ETIMEDOUT, rdl_try_lock(far.w, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(e.r, &err));
    caller_unlock(reader, far.r);
    expect_result(RDL_OK, reader, SOON_MS);
    caller_free(reader);
    close_two(client, e, far);
}

/* The other way round: the reader leaves first. protocol.md, 6: it leaves the writer's time to live alone. */
Test(readwrite, read_unlock_while_writing_leaves_the_write_lease_alone)
{
    struct ends e;

    stage_open(&st);
    e = both(st.client, NULL);
    expect(RDL_OK, rdl_try_lock(e.w, 0, 60000, &err));
    expect(RDL_OK, rdl_try_lock(e.r, 0, 5000, &err));
    expect(RDL_OK, rdl_unlock(e.r, &err));
    expect_between(60000 - 2 * SLACK_MS, probe_int(st.probe, "PTTL " NAME), 60000);
    cr_assert(mode_is("write"));
    expect(RDL_OK, rdl_unlock(e.w, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    done_with(e);
}

/* RW2 */
Test(readwrite, RW2_nested_write_holds_never_add_up_their_leases)
{
    struct ends e;

    stage_open(&st);
    e = both(st.client, NULL);
    for (int i = 0; i < 4; i++) {
        expect(RDL_OK, rdl_try_lock(e.w, 0, 30000, &err));
        expect_between(30000 - 2 * SLACK_MS, probe_int(st.probe, "PTTL " NAME), 30000);
    }
    for (int i = 3; i >= 0; i--) {
        expect(RDL_OK, rdl_unlock(e.w, &err));
        expect(i, rdl_hold_count(e.w, &err));
    }
    done_with(e);
}

/* RW4: the keys of a process that died do not hold the lock for longer than its own lease, whoever else reads. */
Test(readwrite, RW4_a_dead_readers_hold_ends_with_its_own_lease)
{
    struct caller *writer = caller_new();
    rdl_client_t *client;
    struct ends e, far;
    int64_t start;

    client = open_two(NULL, &e, &far);
    (void)probe_int(st.probe, "HSET " NAME " mode read dead:1 1");
    (void)probe_ask(st.probe, "SET {" NAME "}:dead:1:rwlock_timeout:1 1 PX 1000");
    (void)probe_int(st.probe, "PEXPIRE " NAME " 1000");
    start = now_ms();
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err)); /* raises the time to live of the whole */
    caller_try_lock(writer, far.w, 20000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    expect(RDL_OK, rdl_unlock(e.r, &err)); /* the dead one's lease is what is left */
    cr_assert_leq(probe_int(st.probe, "PTTL " NAME), 1000);
    expect_result(RDL_OK, writer, 5000 + 2000); /* told by nobody: it looks every 5 s */
    cr_assert_geq(now_ms() - start, 950);
    caller_unlock(writer, far.w);
    expect_result(RDL_OK, writer, SOON_MS);

    (void)probe_int(st.probe, "HSET " NAME " mode read dead:1 1"); /* and one whose lease is over counts for nothing */
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(e.r, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    caller_free(writer);
    close_two(client, e, far);
}

/* RW5 */
Test(readwrite, RW5_after_as_many_unlocks_as_locks_nothing_is_renewed)
{
    enum { TIMES = 20, WATCHDOG_MS = 3600 };
    struct monitor *monitor;
    struct ends e;
    size_t mark;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = WATCHDOG_MS));
    e = both(st.client, NULL);
    for (int i = 0; i < TIMES; i++)
        expect(RDL_OK, rdl_try_lock(e.r, 0, RDL_LEASE_AUTO, &err));
    let_pass_ms(WATCHDOG_MS * 5 / 4);
    expect(TIMES, rdl_hold_count(e.r, &err)); /* it was renewed, with all its timeout keys */
    cr_assert_eq(probe_keys(st.probe), 1 + TIMES);
    for (int i = 0; i < TIMES; i++)
        expect(RDL_OK, rdl_unlock(e.r, &err));
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    let_pass_ms(WATCHDOG_MS);
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, NAME), 0);
    cr_assert_eq(probe_keys(st.probe), 0);
    monitor_stop(monitor);
    done_with(e);
}

/* RW7: without writer preference a gap between readers is what a writer needs; it takes the first one. */
Test(readwrite, RW7_a_writer_gets_in_when_the_last_reader_leaves)
{
    struct caller *writer = caller_new(), *reader = caller_new();
    rdl_client_t *client;
    struct ends e, far;

    client = open_two(NULL, &e, &far);
    expect(RDL_OK, rdl_try_lock(e.r, 0, 60000, &err));
    caller_try_lock(writer, far.w, 30000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    for (int i = 0; i < 10;
         i++) { /* readers overlap: the writer goes on waiting, and a reader does not wait behind it */
        caller_try_lock(reader, i % 2 == 0 ? far.r : e.r, 0, 60000);
        expect_result(RDL_OK, reader, SOON_MS);
        caller_unlock(reader, i % 2 == 0 ? far.r : e.r);
        expect_result(RDL_OK, reader, SOON_MS);
    }
    cr_assert_not(caller_idle(writer));
    expect(RDL_OK, rdl_unlock(e.r, &err));
    expect_result(RDL_OK, writer, WOKEN_MS);
    caller_unlock(writer, far.w);
    expect_result(RDL_OK, writer, SOON_MS);
    caller_free(writer);
    caller_free(reader);
    close_two(client, e, far);
}

/* Q7 */
Test(readwrite, Q7_one_message_lets_all_local_readers_in_and_the_writer_after_them)
{
    enum { READERS = 5 };
    struct caller *readers[READERS], *writer = caller_new();
    rdl_client_t *client;
    struct ends e, far;
    int64_t released;

    client = open_two(NULL, &e, &far);
    expect(RDL_OK, rdl_try_lock(far.w, 0, 60000, &err));
    for (int i = 0; i < READERS; i++) {
        readers[i] = caller_new();
        caller_try_lock(readers[i], e.r, 20000, 60000);
    }
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    let_pass_ms(100);
    released = now_ms();
    expect(RDL_OK, rdl_unlock(far.w, &err));
    for (int i = 0; i < READERS; i++)
        expect_result(RDL_OK, readers[i], SOON_MS); /* all at a time: none has left yet */
    cr_assert_lt(now_ms() - released, WOKEN_MS, "they looked by themselves");
    caller_try_lock(writer, e.w, 20000, 60000);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    for (int i = 0; i < READERS; i++) {
        cr_assert_not(caller_idle(writer));
        caller_unlock(readers[i], e.r);
        expect_result(RDL_OK, readers[i], SOON_MS);
        caller_free(readers[i]);
    }
    expect_result(RDL_OK, writer, WOKEN_MS);
    caller_unlock(writer, e.w);
    expect_result(RDL_OK, writer, SOON_MS);
    caller_free(writer);
    close_two(client, e, far);
}

/* Q7: whoever comes first, and wherever the writer stands among them. */
Test(readwrite, Q7_five_readers_and_a_writer_that_wait_together_all_get_their_turn)
{
    enum { WAITERS = 6 };
    struct caller *waiters[WAITERS];
    rdl_client_t *client;
    struct ends e, far;

    client = open_two(NULL, &e, &far);
    for (int i = 0; i < WAITERS; i++)
        waiters[i] = caller_new();
    for (int writer = 0; writer < WAITERS; writer++) {
        bool had[WAITERS] = {false};
        int64_t released;
        int turns = 0;

        expect(RDL_OK, rdl_try_lock(far.w, 0, 60000, &err));
        for (int i = 0; i < WAITERS; i++)
            caller_try_lock(waiters[i], i == writer ? e.w : e.r, 20000, 60000);
        cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
        let_pass_ms(30);
        released = now_ms();
        expect(RDL_OK, rdl_unlock(far.w, &err));
        while (turns < WAITERS) {
            cr_assert_lt(now_ms() - released, WOKEN_MS, "after %d turns nobody has one",
                         turns); /* they look by themselves after 5 s */
            for (int i = 0; i < WAITERS; i++) {
                if (had[i] || !caller_idle(waiters[i]))
                    continue;
                had[i] = true;
                turns++;
                expect_result(RDL_OK, waiters[i], 0);
                caller_unlock(waiters[i], i == writer ? e.w : e.r);
                expect_result(RDL_OK, waiters[i], SOON_MS);
            }
        }
    }
    for (int i = 0; i < WAITERS; i++)
        caller_free(waiters[i]);
    close_two(client, e, far);
}

/* Q8: a peer's watchdog sets the time to live of the whole lock, and dies. Ours is confirmed every third of that. */
Test(readwrite, Q8_a_long_read_hold_outlives_a_peers_watchdog)
{
    enum { PEER_MS = 4500 };
    struct ends e;

    stage_open(&st);
    e = both(st.client, LOCK_OPTIONS(.peer_watchdog_ms = PEER_MS));
    expect(RDL_OK, rdl_try_lock(e.r, 0, 60000, &err));
    cr_assert_leq(rdl_remaining_ms(e.r, &err), PEER_MS);
    for (int i = 0; i < 2; i++) {
        (void)probe_int(st.probe, "PEXPIRE " NAME " %d", PEER_MS);
        let_pass_ms(PEER_MS * 2 / 3);
        cr_assert_eq(probe_int(st.probe, "EXISTS " NAME), 1);
        expect(1, rdl_is_held(e.r, &err));
    }
    expect(RDL_OK, rdl_unlock(e.r, &err));
    done_with(e);
}

Test(readwrite, read_hold_confirmed_again_still_ends_with_its_lease)
{
    enum { PEER_MS = 300, SHORT_MS = 1000 };
    struct ends e;
    int64_t start;

    stage_open(&st);
    e = both(st.client, LOCK_OPTIONS(.peer_watchdog_ms = PEER_MS));
    start = now_ms();
    expect(RDL_OK, rdl_try_lock(e.r, 0, SHORT_MS, &err));
    cr_assert(WAIT_UNTIL(rdl_is_held(e.r, NULL) == RDL_ELOST, SOON_MS));
    expect_between(SHORT_MS - 50, now_ms() - start, SHORT_MS + SLACK_MS);
    expect(RDL_ELOST, rdl_unlock(e.r, &err));
    done_with(e);
}

Test(readwrite, both_ends_of_a_name_go_together_and_nothing_else_does)
{
    rdl_lock_t *lock = NULL;
    struct ends e;

    stage_open(&st);
    e = both(st.client, NULL);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, NULL, &lock, &err));
    rdl_lock_free(e.r);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_read_lock(st.client, NAME, LOCK_OPTIONS(.peer_watchdog_ms = 5), &lock, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, "x", LOCK_OPTIONS(.peer_watchdog_ms = 5), &lock, &err));
    expect(RDL_EINVAL, rdl_read_lock(st.client, "x", LOCK_OPTIONS(.peer_watchdog_ms = -2), &lock, &err));
    cr_assert_null(lock);
    rdl_lock_free(e.w);
    rdl_lock_free(reentrant(st.client, NAME, NULL));
}

/* protocol.md, 6: N without `mode` is another kind of lock. */
Test(readwrite, name_held_as_another_type_is_an_error)
{
    struct ends e;

    stage_open(&st);
    e = both(st.client, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    expect(RDL_ESERVER, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    expect(RDL_ESERVER, rdl_try_lock(e.w, 0, LEASE_MS, &err));
    cr_assert(strstr(err.message, "another type") != NULL, "%s", err.message);
    (void)foreign_release(st.probe, NAME);
    (void)probe_text(st.probe, "SET " NAME " string");
    expect(RDL_ESERVER, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    (void)probe_int(st.probe, "DEL " NAME);
    done_with(e);
}

Test(readwrite, force_unlock_evicts_the_end_that_is_held)
{
    struct caller *other = caller_new();
    struct ends e;

    stage_open(&st);
    e = both(st.client, NULL);
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    caller_try_lock(other, e.r, 0, LEASE_MS);
    expect_result(RDL_OK, other, SOON_MS);
    expect(0, rdl_force_unlock(e.w, &err));
    expect(1, rdl_force_unlock(e.r, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    expect(RDL_ELOST, rdl_is_held(e.r, &err));
    expect(RDL_ELOST, rdl_try_lock(e.w, 0, LEASE_MS, &err)); /* the lost read hold is given back first */
    expect(RDL_ELOST, rdl_unlock(e.r, &err));
    caller_unlock(other, e.r);
    expect_result(RDL_ELOST, other, SOON_MS);
    expect(RDL_OK, rdl_try_lock(e.w, 0, LEASE_MS, &err));
    expect(0, rdl_force_unlock(e.r, &err));
    expect(1, rdl_force_unlock(e.w, &err));
    expect(RDL_ELOST, rdl_unlock(e.w, &err));
    caller_free(other);
    done_with(e);
}

/* Q9: the release's reply is lost, it is repeated, and meanwhile nothing of a newer hold is touched. */
Test(readwrite, Q9_a_repeated_read_unlock_spares_the_next_hold)
{
    struct ends e;
    int cut;

    stage_open(&st, .proxied = true);
    e = both(st.client, NULL);
    for (int i = 0; i < 5; i++) {
        expect(RDL_OK, rdl_try_lock(e.r, 5000, LEASE_MS, &err));
        cut = proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
        expect(RDL_OK, rdl_unlock(e.r, &err));
        cr_assert_eq(proxy_acted(st.proxy, cut), 1);
        expect(RDL_OK, rdl_try_lock(e.r, 5000, LEASE_MS, &err));
        cr_assert_eq(probe_keys(st.probe), 2);
        expect(1, rdl_is_held(e.r, &err));
        expect(RDL_OK, rdl_unlock(e.r, &err));
        cr_assert_eq(probe_keys(st.probe), 0);
    }
    done_with(e);
}

struct tally {
    rdl_lock_t *r, *w;
    int64_t value;
    int64_t seen; /* torn reads */
};

static struct tally tally;
static int64_t halves[2];

static int64_t read_and_write(void *arg, rdl_err_t *e)
{
    int64_t rc = RDL_OK;

    for (int i = 0; i < 60 && rc == RDL_OK; i++) {
        bool writes = (i + (int)(intptr_t)arg) % 4 == 0;
        rdl_lock_t *end = writes ? tally.w : tally.r;

        if ((rc = rdl_try_lock(end, 20000, RDL_LEASE_AUTO, e)) < 0)
            break;
        if (writes) {
            halves[0]++;
            let_pass_ms(i % 3 == 0);
            halves[1]++;
        } else {
            __atomic_fetch_add(&tally.seen, halves[0] != halves[1], __ATOMIC_RELAXED);
        }
        rc = rdl_unlock(end, e);
    }
    return rc;
}

Test(readwrite, readers_never_see_a_writers_work_half_done, .timeout = 60)
{
    enum { THREADS = 8 };
    struct caller *callers[THREADS];
    struct ends e;

    stage_open(&st);
    e = both(st.client, NULL);
    tally = (struct tally){.r = e.r, .w = e.w};
    halves[0] = halves[1] = 0;
    for (int i = 0; i < THREADS; i++) {
        callers[i] = caller_new();
        caller_call(callers[i], read_and_write, (void *)(intptr_t)i);
    }
    for (int i = 0; i < THREADS; i++) {
        expect_result(RDL_OK, callers[i], 40000);
        caller_free(callers[i]);
    }
    cr_assert_eq(tally.seen, 0);
    cr_assert_eq(halves[0], THREADS * 15);
    cr_assert_eq(halves[1], THREADS * 15);
    done_with(e);
}

/* ---- writers are preferred -------------------------------------------------------------------------------------- */

#define MARKS "redlatch_rwlock_writers:{" NAME "}"

/* Two clients with both ends each, a reader of the first, and a writer of the second that waits for it. */
struct setup {
    rdl_client_t *client;
    struct ends e, far;
    struct caller *writer, *reader;
};

static struct setup preferring(const rdl_lock_options_t *options, int64_t wait_ms)
{
    struct setup s = {.writer = caller_new(), .reader = caller_new()};

    s.client = open_two(options, &s.e, &s.far);
    expect(RDL_OK, rdl_try_lock(s.e.r, 0, 60000, &err));
    caller_try_lock(s.writer, s.far.w, wait_ms, 60000);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "ZCARD " MARKS) == 1, SOON_MS));
    return s;
}

static void setup_over(struct setup *s)
{
    cr_assert_eq(probe_keys(st.probe), 0, "%lld keys are left", (long long)probe_keys(st.probe));
    caller_free(s->writer);
    caller_free(s->reader);
    close_two(s->client, s->e, s->far);
}

/* RW7: however readers overlap, those of the moment are all that a preferred writer waits for. */
Test(readwrite, RW7_a_preferred_writer_keeps_new_readers_out_and_is_next)
{
    struct setup s = preferring(LOCK_OPTIONS(.prefer_writers = true), 30000);

    caller_try_lock(s.reader, s.e.r, 0, 60000);
    expect_result(RDL_ETIMEDOUT, s.reader, SOON_MS);
    caller_try_lock(s.reader, s.far.r, 30000, 60000);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    let_pass_ms(50); /* its try after the acknowledgement is over: it sleeps */
    cr_assert_not(caller_idle(s.reader));
    cr_assert_not(caller_idle(s.writer));
    expect(RDL_OK, rdl_unlock(s.e.r, &err));
    expect_result(RDL_OK, s.writer, WOKEN_MS);
    cr_assert_not(caller_idle(s.reader));
    cr_assert_eq(probe_int(st.probe, "EXISTS " MARKS), 0);
    caller_unlock(s.writer, s.far.w);
    expect_result(RDL_OK, s.writer, SOON_MS);
    expect_result(RDL_OK, s.reader, WOKEN_MS);
    caller_unlock(s.reader, s.far.r);
    expect_result(RDL_OK, s.reader, SOON_MS);
    setup_over(&s);
}

Test(readwrite, who_holds_an_end_reads_on_beside_a_preferred_writer)
{
    struct setup s = preferring(LOCK_OPTIONS(.prefer_writers = true), 30000);

    expect(RDL_OK, rdl_try_lock(s.e.r, 0, 60000, &err));
    expect(RDL_OK, rdl_unlock(s.e.r, &err));
    expect(RDL_OK, rdl_unlock(s.e.r, &err));
    expect_result(RDL_OK, s.writer, WOKEN_MS);
    (void)probe_int(st.probe, "ZADD " MARKS " 9999999999999 another");
    caller_try_lock(s.writer, s.far.r, 0, 60000); /* reads what it writes */
    expect_result(RDL_OK, s.writer, SOON_MS);
    caller_unlock(s.writer, s.far.w);
    expect_result(RDL_OK, s.writer, SOON_MS);
    caller_try_lock(s.writer, s.far.r, 0, 60000); /* and goes on reading */
    expect_result(RDL_OK, s.writer, SOON_MS);
    for (int i = 0; i < 2; i++) {
        caller_unlock(s.writer, s.far.r);
        expect_result(RDL_OK, s.writer, SOON_MS);
    }
    (void)probe_int(st.probe, "DEL " MARKS);
    setup_over(&s);
}

/* By its time-out or by a cancellation: who was kept out hears of it at once, although no lock was freed. */
Test(readwrite, preferred_writer_that_gives_up_lets_readers_in)
{
    struct setup s = preferring(LOCK_OPTIONS(.prefer_writers = true, .waiter_life_ms = 3600000), 1500);

    caller_try_lock(s.reader, s.far.r, 30000, 60000);
    expect_result(RDL_ETIMEDOUT, s.writer, WOKEN_MS);
    expect_result(RDL_OK, s.reader, WOKEN_MS);
    cr_assert_lt(caller_ended_us(s.reader) - caller_ended_us(s.writer), 3000000); /* not by itself, after 5 s */
    cr_assert_eq(probe_int(st.probe, "EXISTS " MARKS), 0);
    caller_unlock(s.reader, s.far.r);
    expect_result(RDL_OK, s.reader, SOON_MS);
    expect(RDL_OK, rdl_unlock(s.e.r, &err));
    setup_over(&s);
}

/* The first of two leaves: the other one's mark, or that one when it is woken, goes on keeping readers out. */
Test(readwrite, second_writer_goes_on_where_the_first_gave_up)
{
    struct setup s = preferring(LOCK_OPTIONS(.prefer_writers = true), 4000);
    struct caller *second = caller_new();

    caller_try_lock(second, s.e.w, 30000, 60000);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "ZCARD " MARKS) == 2, SOON_MS));
    expect_result(RDL_ETIMEDOUT, s.writer, 2 * SOON_MS);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "ZCARD " MARKS) == 1, SOON_MS));
    caller_try_lock(s.reader, s.far.r, 0, 60000);
    expect_result(RDL_ETIMEDOUT, s.reader, SOON_MS);
    expect(RDL_OK, rdl_unlock(s.e.r, &err));
    expect_result(RDL_OK, second, WOKEN_MS);
    caller_unlock(second, s.e.w);
    expect_result(RDL_OK, second, SOON_MS);
    caller_free(second);
    setup_over(&s);
}

/* One that has died keeps readers out for a life: the lock is free all the time. */
Test(readwrite, dead_preferred_writer_costs_readers_one_life)
{
    enum { LIFE_MS = 900 };
    struct caller *reader = caller_new();
    const struct reply *time;
    struct ends e;
    int64_t start;

    stage_open(&st);
    e = both(st.client, LOCK_OPTIONS(.prefer_writers = true, .waiter_life_ms = LIFE_MS));
    start = now_ms();
    time = probe_ask(st.probe, "TIME");
    (void)probe_int(st.probe, "ZADD " MARKS " %lld dead", atoll(time->items[0].text) * 1000 + LIFE_MS);
    caller_try_lock(reader, e.r, 20000, LEASE_MS);
    expect_result(RDL_OK, reader, LIFE_MS + WOKEN_MS);
    cr_assert_lt(now_ms() - start, LIFE_MS + WOKEN_MS);
    caller_unlock(reader, e.r);
    expect_result(RDL_OK, reader, SOON_MS);
    caller_free(reader);
    (void)probe_int(st.probe, "DEL " MARKS);
    done_with(e);
}

/* A mark lives for as long as its writer waits, and no longer: it is renewed each third of a life. */
Test(readwrite, waiting_writer_renews_its_mark)
{
    enum { LIFE_MS = 3600 };
    struct setup s = preferring(LOCK_OPTIONS(.prefer_writers = true, .waiter_life_ms = LIFE_MS), 30000);

    for (int i = 0; i < 3; i++) {
        let_pass_ms(LIFE_MS / 2);
        caller_try_lock(s.reader, s.e.r, 0, 60000);
        expect_result(RDL_ETIMEDOUT, s.reader, SOON_MS);
    }
    expect(RDL_OK, rdl_unlock(s.e.r, &err));
    expect_result(RDL_OK, s.writer, WOKEN_MS);
    caller_unlock(s.writer, s.far.w);
    expect_result(RDL_OK, s.writer, SOON_MS);
    setup_over(&s);
}

static int64_t read_until(void *arg, rdl_err_t *e)
{
    const struct ends *end = arg;
    int64_t rc = RDL_OK, rounds = 0;

    do { /* once at least: the writers may be done before this thread has begun */
        if ((rc = rdl_try_lock(end->r, 20000, RDL_LEASE_AUTO, e)) == RDL_OK) {
            let_pass_ms(5);
            rc = rdl_unlock(end->r, e);
        }
        rounds++;
    } while (!__atomic_load_n(&tally.seen, __ATOMIC_RELAXED) && rc == RDL_OK);
    return rc < 0 ? rc : rounds;
}

/* RW7, with readers that overlap without end in two processes' worth of clients. */
Test(readwrite, RW7_preferred_writers_get_in_among_readers_without_end, .timeout = 60)
{
    enum { READERS = 6, WRITES = 20 };
    const rdl_lock_options_t *options = LOCK_OPTIONS(.prefer_writers = true);
    struct caller *readers[READERS];
    rdl_client_t *client;
    struct ends e, far;

    client = open_two(options, &e, &far);
    tally.seen = 0;
    for (int i = 0; i < READERS; i++) {
        readers[i] = caller_new();
        caller_call(readers[i], read_until, i % 2 == 0 ? &e : &far);
    }
    for (int i = 0; i < WRITES; i++) {
        expect(RDL_OK, rdl_try_lock(e.w, 10000, RDL_LEASE_AUTO, &err));
        expect(RDL_OK, rdl_unlock(e.w, &err));
    }
    __atomic_store_n(&tally.seen, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++) {
        cr_assert_geq(caller_result(readers[i], 20000), 1);
        caller_free(readers[i]);
    }
    cr_assert_eq(probe_keys(st.probe), 0);
    close_two(client, e, far);
}

Test(readwrite, preference_is_for_read_write_locks_and_for_all_handles_of_a_name)
{
    rdl_lock_t *lock = NULL;
    struct ends e;

    stage_open(&st);
    e = both(st.client, LOCK_OPTIONS(.prefer_writers = true));
    expect(RDL_EINVAL, rdl_read_lock(st.client, NAME, NULL, &lock, &err));
    expect(RDL_EINVAL,
           rdl_read_lock(st.client, NAME, LOCK_OPTIONS(.prefer_writers = true, .waiter_life_ms = 5000), &lock, &err));
    expect(RDL_EINVAL, rdl_read_lock(st.client, "x", LOCK_OPTIONS(.waiter_life_ms = 5000), &lock, &err));
    expect(RDL_EINVAL,
           rdl_read_lock(st.client, "x", LOCK_OPTIONS(.prefer_writers = true, .waiter_life_ms = 99), &lock, &err));
    expect(RDL_EINVAL, rdl_fair_lock(st.client, "x", LOCK_OPTIONS(.prefer_writers = true), &lock, &err));
    cr_assert(strstr(err.message, "prefer_writers") != NULL, "%s", err.message);
    expect(RDL_EINVAL, rdl_multi_lock(&e.w, 1, LOCK_OPTIONS(.prefer_writers = true), &lock, &err));
    cr_assert_null(lock);
    done_with(e);
}
