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

static bool mode_is(const char *mode)
{
    const char *text = probe_text(st.probe, "HGET " NAME " mode");

    return text != NULL && strcmp(text, mode) == 0;
}

/* WIRE.md, Keys by lock type. */
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

Test(readwrite, readers_share_and_a_writer_is_alone)
{
    struct actor *other = actor_new();
    struct ends e, far;
    rdl_client_t *client;

    stage_open(&st);
    client = client_open(stage_uri(&st), NULL);
    e = both(st.client, NULL);
    far = both(client, NULL);
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(far.r, 0, LEASE_MS, &err));
    actor_try_lock(other, e.r, 0, LEASE_MS);
    expect_result(RDL_OK, other, SOON_MS);
    cr_assert_eq(probe_int(st.probe, "HLEN " NAME), 1 + 3);
    expect(1, rdl_is_locked(far.r, &err));
    expect(0, rdl_is_locked(far.w, &err));
    expect(RDL_OK, rdl_unlock(e.r, &err));
    expect(RDL_OK, rdl_unlock(far.r, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(far.w, 0, LEASE_MS, &err));
    actor_unlock(other, e.r);
    expect_result(RDL_OK, other, SOON_MS);
    expect(RDL_OK, rdl_try_lock(far.w, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(e.w, 0, LEASE_MS, &err));
    expect(RDL_ENOTOWNER, rdl_unlock(e.w, &err));
    expect(RDL_OK, rdl_unlock(far.w, &err));
    actor_free(other);
    done_with(e);
    done_with(far);
    rdl_client_close(client);
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
    struct actor *reader = actor_new();
    rdl_client_t *client;
    struct ends e, far;

    stage_open(&st);
    client = client_open(stage_uri(&st), NULL);
    e = both(st.client, NULL);
    far = both(client, NULL);
    expect(RDL_OK, rdl_try_lock(e.w, 0, 60000, &err));
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    actor_try_lock(reader, far.r, 20000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    let_pass_ms(50); /* its try after the acknowledgement is over: it sleeps */
    expect(RDL_OK, rdl_unlock(e.w, &err));
    expect_result(RDL_OK, reader, 1000);
    cr_assert(mode_is("read"));
    cr_assert_leq(probe_int(st.probe, "PTTL " NAME), LEASE_MS); /* the writer's 60 s are over */
    expect(RDL_ETIMEDOUT, rdl_try_lock(far.w, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(e.r, &err));
    actor_unlock(reader, far.r);
    expect_result(RDL_OK, reader, SOON_MS);
    actor_free(reader);
    done_with(e);
    done_with(far);
    rdl_client_close(client);
}

/* The other way round: the reader leaves first. PROTOCOL.md, 6: it leaves the writer's time to live alone. */
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
    struct actor *writer = actor_new();
    rdl_client_t *client;
    struct ends e, far;
    int64_t start;

    stage_open(&st);
    client = client_open(stage_uri(&st), NULL);
    e = both(st.client, NULL);
    far = both(client, NULL);
    (void)probe_int(st.probe, "HSET " NAME " mode read dead:1 1");
    (void)probe_ask(st.probe, "SET {" NAME "}:dead:1:rwlock_timeout:1 1 PX 1000");
    (void)probe_int(st.probe, "PEXPIRE " NAME " 1000");
    start = now_ms();
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err)); /* raises the time to live of the whole */
    actor_try_lock(writer, far.w, 20000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    expect(RDL_OK, rdl_unlock(e.r, &err)); /* the dead one's lease is what is left */
    cr_assert_leq(probe_int(st.probe, "PTTL " NAME), 1000);
    expect_result(RDL_OK, writer, 5000 + 2000); /* told by nobody: it looks every 5 s */
    cr_assert_geq(now_ms() - start, 950);
    actor_unlock(writer, far.w);
    expect_result(RDL_OK, writer, SOON_MS);

    (void)probe_int(st.probe, "HSET " NAME " mode read dead:1 1"); /* and one whose lease is over counts for nothing */
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(e.r, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    actor_free(writer);
    done_with(e);
    done_with(far);
    rdl_client_close(client);
}

/* RW5 */
Test(readwrite, RW5_after_as_many_unlocks_as_locks_nothing_is_renewed)
{
    enum { TIMES = 20, WATCHDOG_MS = 300 };
    struct monitor *monitor;
    struct ends e;
    size_t mark;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = WATCHDOG_MS));
    e = both(st.client, NULL);
    for (int i = 0; i < TIMES; i++)
        expect(RDL_OK, rdl_try_lock(e.r, 0, RDL_LEASE_AUTO, &err));
    let_pass_ms(2 * WATCHDOG_MS);
    expect(TIMES, rdl_hold_count(e.r, &err)); /* it was renewed, with all its timeout keys */
    cr_assert_eq(probe_keys(st.probe), 1 + TIMES);
    for (int i = 0; i < TIMES; i++)
        expect(RDL_OK, rdl_unlock(e.r, &err));
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    let_pass_ms(2 * WATCHDOG_MS);
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, NAME), 0);
    cr_assert_eq(probe_keys(st.probe), 0);
    monitor_stop(monitor);
    done_with(e);
}

/* RW7: without writer preference a gap between readers is what a writer needs; it takes the first one. */
Test(readwrite, RW7_a_writer_gets_in_when_the_last_reader_leaves)
{
    struct actor *writer = actor_new(), *reader = actor_new();
    rdl_client_t *client;
    struct ends e, far;

    stage_open(&st);
    client = client_open(stage_uri(&st), NULL);
    e = both(st.client, NULL);
    far = both(client, NULL);
    expect(RDL_OK, rdl_try_lock(e.r, 0, 60000, &err));
    actor_try_lock(writer, far.w, 30000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    for (int i = 0; i < 10; i++) { /* readers overlap: the writer goes on waiting, and a reader does not wait behind it */
        actor_try_lock(reader, i % 2 == 0 ? far.r : e.r, 0, 60000);
        expect_result(RDL_OK, reader, SOON_MS);
        actor_unlock(reader, i % 2 == 0 ? far.r : e.r);
        expect_result(RDL_OK, reader, SOON_MS);
    }
    cr_assert_not(actor_idle(writer));
    expect(RDL_OK, rdl_unlock(e.r, &err));
    expect_result(RDL_OK, writer, 2000);
    actor_unlock(writer, far.w);
    expect_result(RDL_OK, writer, SOON_MS);
    actor_free(writer);
    actor_free(reader);
    done_with(e);
    done_with(far);
    rdl_client_close(client);
}

/* Q7 */
Test(readwrite, Q7_one_message_lets_all_local_readers_in_and_the_writer_after_them)
{
    enum { READERS = 5 };
    struct actor *readers[READERS], *writer = actor_new();
    rdl_client_t *client;
    struct ends e, far;
    int64_t released;

    stage_open(&st);
    client = client_open(stage_uri(&st), NULL);
    e = both(st.client, NULL);
    far = both(client, NULL);
    expect(RDL_OK, rdl_try_lock(far.w, 0, 60000, &err));
    for (int i = 0; i < READERS; i++) {
        readers[i] = actor_new();
        actor_try_lock(readers[i], e.r, 20000, 60000);
    }
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    let_pass_ms(100);
    released = now_ms();
    expect(RDL_OK, rdl_unlock(far.w, &err));
    for (int i = 0; i < READERS; i++)
        expect_result(RDL_OK, readers[i], SOON_MS); /* all at a time: none has left yet */
    cr_assert_lt(now_ms() - released, 2000, "they looked by themselves after 5 s");
    actor_try_lock(writer, e.w, 20000, 60000);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    for (int i = 0; i < READERS; i++) {
        cr_assert_not(actor_idle(writer));
        actor_unlock(readers[i], e.r);
        expect_result(RDL_OK, readers[i], SOON_MS);
        actor_free(readers[i]);
    }
    expect_result(RDL_OK, writer, 2000);
    actor_unlock(writer, e.w);
    expect_result(RDL_OK, writer, SOON_MS);
    actor_free(writer);
    done_with(e);
    done_with(far);
    rdl_client_close(client);
}

/* Q8: a peer's watchdog sets the time to live of the whole lock, and dies. Ours is confirmed every third of that. */
Test(readwrite, Q8_a_long_read_hold_outlives_a_peers_watchdog)
{
    enum { PEER_MS = 900 };
    struct ends e;

    stage_open(&st);
    e = both(st.client, LOCK_OPTIONS(.peer_watchdog_ms = PEER_MS));
    expect(RDL_OK, rdl_try_lock(e.r, 0, 60000, &err));
    cr_assert_leq(rdl_remaining_ms(e.r, &err), PEER_MS);
    for (int i = 0; i < 4; i++) {
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

/* PROTOCOL.md, 6: N without `mode` is another kind of lock. */
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
    struct actor *other = actor_new();
    struct ends e;

    stage_open(&st);
    e = both(st.client, NULL);
    expect(RDL_OK, rdl_try_lock(e.r, 0, LEASE_MS, &err));
    actor_try_lock(other, e.r, 0, LEASE_MS);
    expect_result(RDL_OK, other, SOON_MS);
    expect(0, rdl_force_unlock(e.w, &err));
    expect(1, rdl_force_unlock(e.r, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    expect(RDL_ELOST, rdl_is_held(e.r, &err));
    expect(RDL_ELOST, rdl_try_lock(e.w, 0, LEASE_MS, &err)); /* the lost read hold is given back first */
    expect(RDL_ELOST, rdl_unlock(e.r, &err));
    actor_unlock(other, e.r);
    expect_result(RDL_ELOST, other, SOON_MS);
    expect(RDL_OK, rdl_try_lock(e.w, 0, LEASE_MS, &err));
    expect(0, rdl_force_unlock(e.r, &err));
    expect(1, rdl_force_unlock(e.w, &err));
    expect(RDL_ELOST, rdl_unlock(e.w, &err));
    actor_free(other);
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
    struct actor *actors[THREADS];
    struct ends e;

    stage_open(&st);
    e = both(st.client, NULL);
    tally = (struct tally){.r = e.r, .w = e.w};
    halves[0] = halves[1] = 0;
    for (int i = 0; i < THREADS; i++) {
        actors[i] = actor_new();
        actor_call(actors[i], read_and_write, (void *)(intptr_t)i);
    }
    for (int i = 0; i < THREADS; i++) {
        expect_result(RDL_OK, actors[i], 40000);
        actor_free(actors[i]);
    }
    cr_assert_eq(tally.seen, 0);
    cr_assert_eq(halves[0], THREADS * 15);
    cr_assert_eq(halves[1], THREADS * 15);
    done_with(e);
}
