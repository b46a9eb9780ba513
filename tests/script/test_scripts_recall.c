/* SPDX-License-Identifier: MIT */
/* test_scripts_recall.c - which scripts tell a client that somebody wants a lock that it keeps, and which do not
 * (wire.md, Recalls); and that nobody else sees a difference: Redisson's scripts on such a lock.
 */
#include "tests/script/call.h"

#define U "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
#define V "11111111-2222-3333-4444-555555555555"
#define KEPT U ":-7"
#define CHANNEL(name) "redlatch_recall:{" name "}:" U

static struct fixture f;
static struct probe *listener;

static void open_it(void)
{
    f = open_fixture();
    listener = probe_open(f.server);
    (void)probe_ask(listener, "PSUBSCRIBE redlatch_recall:*");
}

static void close_it(void)
{
    probe_close(listener);
    close_fixture(&f);
}

TestSuite(scripts_recall, .init = open_it, .fini = close_it, .timeout = 60);

/* What was published until now is `expected`, on that channel: one message; NULL: none. */
static void expect_recall(const char *channel, const char *expected, const char *what)
{
    const struct reply *r;

    (void)probe_int(f.probe, "PUBLISH redlatch_recall:end end");
    r = probe_next(listener, 5000);
    cr_assert(r != NULL && r->count == 4, "%s", what);
    if (expected != NULL) {
        cr_assert_str_eq(r->items[2].text, channel, "%s", what);
        cr_assert_str_eq(r->items[3].text, expected, "%s", what);
        r = probe_next(listener, 5000);
        cr_assert(r != NULL && r->count == 4, "%s", what);
    }
    cr_assert_str_eq(r->items[2].text, "redlatch_recall:end", "%s: more than that was published", what);
}

static const char *const takes[][2] = {{"reentrant_take", "N ,"}, {"fenced_take", "N T ,"}};

static const struct reply *take_as(size_t which, const char *field, const char *more)
{
    char *words = must_format("%s %s %s", takes[which][1], field, more);
    const struct reply *r = run(&f, takes[which][0], words);

    free(words);
    return r;
}

/* Whoever is refused says so, each time; who is let in, confirms, nests or finds its hold gone does not. */
Test(scripts_recall, take_that_is_refused_because_of_a_kept_hold_says_so)
{
    for (size_t i = 0; i < 2; i++) {
        const char *what = takes[i][0];

        clear(&f);
        (void)take_as(i, KEPT, "1 60000");
        expect_recall(CHANNEL("N"), NULL, what);
        (void)take_as(i, KEPT, "1 60000"); /* again, as its answer was lost */
        (void)take_as(i, KEPT, "2 60000");
        (void)take_as(i, V ":8", "2 60000"); /* a nested take whose hold is gone */
        expect_recall(CHANNEL("N"), NULL, what);
        for (int twice = 0; twice < 2; twice++) {
            cr_expect(is_near(take_as(i, V ":8", "1 60000")->integer, LEASE), "%s", what);
            expect_recall(CHANNEL("N"), "-7", what);
        }
        (void)take_as(i, U ":9", "1 60000"); /* of the same client */
        expect_recall(CHANNEL("N"), "-7", what);
        (void)take_as(i, V ":-9", "1 60000"); /* to be kept by another one */
        expect_recall(CHANNEL("N"), "-7", what);
        (void)run_integer(&f, "reentrant_release", "N ch , " KEPT " 0");
        (void)take_as(i, V ":8", "1 60000");
        expect_recall(CHANNEL("N"), NULL, what);
    }
}

/* Fields that are no kept hold's: an ordinary one, Redisson's, and what only looks like one. */
Test(scripts_recall, other_holds_are_not_recalled)
{
    static const char *const fields[] = {U ":7", U ":-", U ":-x", U "0:-7", "0:-7", ":-7", "short-uuid:-7", U "-7"};

    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < sizeof fields / sizeof fields[0]; j++) {
            clear(&f);
            (void)take_as(i, fields[j], "1 60000");
            (void)take_as(i, V ":8", "1 60000");
            expect_recall(CHANNEL("N"), NULL, fields[j]);
        }
}

/* The braces of a name that has its own. */
Test(scripts_recall, channel_is_that_of_the_name)
{
    (void)run(&f, "reentrant_take", "a{b}c , " KEPT " 1 60000");
    (void)run(&f, "reentrant_take", "a{b}c , " V ":8 1 60000");
    expect_recall("redlatch_recall:a{b}c:" U, "-7", "a{b}c");
}

Test(scripts_recall, forced_unlock_of_a_kept_hold_says_that_it_is_gone)
{
    (void)run(&f, "reentrant_take", "N , " KEPT " 1 60000");
    cr_expect_eq(run_integer(&f, "reentrant_force", "N ch , " V ":8"), 0); /* that one is not there */
    expect_recall(CHANNEL("N"), NULL, "another");
    cr_expect_eq(run_integer(&f, "reentrant_force", "N ch , " KEPT), 1);
    expect_recall(CHANNEL("N"), "-7:gone", "force");
    (void)run(&f, "reentrant_take", "N , " U ":7 1 60000");
    cr_expect_eq(run_integer(&f, "reentrant_force", "N ch , " U ":7"), 1);
    expect_recall(CHANNEL("N"), NULL, "no kept one");
}

/* ---- both ends -------------------------------------------------------------------------------------------------- */

static int64_t take_end(const char *script, const char *field)
{
    char *words = must_format("N , %s 1 60000", field);
    int64_t answer = run_integer(&f, script, words);

    free(words);
    return answer;
}

static int64_t reads_as(const char *field)
{
    return take_end("read_take", field);
}

static int64_t writes_as(const char *field)
{
    return take_end("write_take", field);
}

Test(scripts_recall, writer_that_readers_keep_out_recalls_those_that_are_kept)
{
    cr_expect_eq(reads_as(V ":8"), -10);
    cr_expect(is_near(writes_as(V ":9:write"), LEASE));
    expect_recall(CHANNEL("N"), NULL, "an ordinary reader");
    cr_expect_eq(reads_as(KEPT), -10);
    for (int twice = 0; twice < 2; twice++) {
        cr_expect(is_near(writes_as(V ":9:write"), LEASE));
        expect_recall(CHANNEL("N"), "-7", "write_take");
    }
    cr_expect(is_near(run_integer(&f, "write_take", "N marks ch , " V ":9:write 1 60000 0 240"), 80));
    expect_recall(CHANNEL("N"), "-7", "with a mark");
    cr_expect_eq(run_integer(&f, "write_take", "N , " V ":9:write 2 60000"), -12);
    expect_recall(CHANNEL("N"), NULL, "gone");
    cr_expect_eq(reads_as(V ":10"), -10);
    expect_recall(CHANNEL("N"), NULL, "who reads as well");
    cr_assert_str_eq(probe_text(f.probe, "ACL SETUSER default -hkeys"), "OK");
    cr_expect(is_near(writes_as(V ":9:write"), LEASE));
    cr_assert_str_eq(probe_text(f.probe, "ACL SETUSER default +@all"), "OK");
    expect_recall(CHANNEL("N"), NULL, "without the right to list the fields");
}

Test(scripts_recall, reader_that_a_kept_writer_keeps_out_recalls_it)
{
    cr_expect_eq(writes_as(V ":9:write"), -10);
    cr_expect(is_near(reads_as(V ":8"), LEASE));
    expect_recall(CHANNEL("N"), NULL, "an ordinary writer");
    cr_expect_eq(run_integer(&f, "write_release", "N ch , " V ":9:write 0"), 1);
    cr_expect_eq(writes_as(KEPT ":write"), -10);
    for (int twice = 0; twice < 2; twice++) {
        cr_expect(is_near(reads_as(V ":8"), LEASE));
        expect_recall(CHANNEL("N"), "-7", "read_take");
        cr_expect(is_near(writes_as(U ":9:write"), LEASE)); /* of the same client */
        expect_recall(CHANNEL("N"), "-7", "write_take");
    }
    cr_expect_eq(run_integer(&f, "read_take", "N , " V ":8 2 60000"), -12);
    expect_recall(CHANNEL("N"), NULL, "gone");
    cr_assert_str_eq(probe_text(f.probe, "ACL SETUSER default -hkeys"), "OK");
    cr_expect(is_near(reads_as(V ":8"), LEASE));
    cr_assert_str_eq(probe_text(f.probe, "ACL SETUSER default +@all"), "OK");
    expect_recall(CHANNEL("N"), NULL, "without the right to list the fields");
    cr_expect_eq(run_integer(&f, "read_take", "N , " U ":8 1 60000 0 " KEPT ":write"), -10);
    expect_recall(CHANNEL("N"), NULL, "the writer itself");
    cr_expect_eq(run_integer(&f, "readwrite_force", "N ch , " KEPT ":write"), 1);
    expect_recall(CHANNEL("N"), "-7:gone", "force");
    cr_expect_eq(writes_as(KEPT ":write"), -10);
    cr_assert_str_eq(probe_text(f.probe, "ACL SETUSER default resetchannels &ch"), "OK"); /* the listener's end */
    cr_expect(is_near(reads_as(V ":8"), LEASE));
    cr_assert_str_eq(probe_text(f.probe, "ACL SETUSER default allchannels"), "OK");
}

/* A writer that they keep out asks again. Not the first, nor one that confirms, nor one that keeps nothing. */
Test(scripts_recall, kept_reader_that_joins_others_wakes_writers)
{
    struct probe *waits = probe_open(f.server);

    (void)probe_ask(waits, "SUBSCRIBE redisson_rwlock:{N} end");
    (void)probe_next(waits, 5000);
    cr_expect_eq(reads_as(KEPT), -10);
    cr_expect_eq(reads_as(V ":8"), -10);
    cr_expect_eq(reads_as(KEPT), -11);
    (void)probe_int(f.probe, "PUBLISH end end");
    cr_assert_str_eq(probe_next(waits, 5000)->items[2].text, "end");
    cr_expect_eq(reads_as(V ":-9"), -10);
    cr_assert_str_eq(probe_next(waits, 5000)->items[2].text, "0");
    probe_close(waits);
}

Test(scripts_recall, forced_unlock_of_readers_says_which_kept_holds_are_gone)
{
    cr_expect_eq(reads_as(V ":8"), -10);
    cr_expect_eq(reads_as(KEPT), -10);
    cr_expect_eq(run_integer(&f, "read_force", "N ch , " V ":8"), 1);
    expect_recall(CHANNEL("N"), NULL, "another reader");
    cr_expect_eq(reads_as(V ":8"), -10);
    cr_expect_eq(run_integer(&f, "read_force", "N ch , " KEPT), 1);
    expect_recall(CHANNEL("N"), "-7:gone", "read_force");
    cr_expect_eq(reads_as(U ":-11"), -10);
    cr_expect_eq(run_integer(&f, "readwrite_force", "N ch , " V ":8"), 1);
    expect_recall(CHANNEL("N"), "-11:gone", "readwrite_force");
    cr_expect_eq(reads_as(KEPT), -10);
    cr_expect_eq(run_integer(&f, "read_force", "N ch , " KEPT), 1);
    expect_recall(CHANNEL("N"), "-7:gone", "the last reader");
}

/* What keeps no lock, gives back, renews or looks says nothing. */
Test(scripts_recall, other_scripts_say_nothing)
{
    (void)run(&f, "reentrant_take", "N , " KEPT " 1 60000");
    (void)run(&f, "reentrant_renew", "N , " KEPT " 120000");
    (void)run(&f, "reentrant_renew", "N , " V ":8 120000");
    (void)run(&f, "reentrant_release", "N ch , " V ":8 0");
    (void)run(&f, "reentrant_release", "N ch , " KEPT " 1");
    (void)run(&f, "reentrant_release", "N ch , " KEPT " 0");
    expect_recall(CHANNEL("N"), NULL, "others");
}

/* The refused may not publish there, or not list the fields: it is refused as ever. */
Test(scripts_recall, rights_that_are_missing_change_no_refusal)
{
    static const char *const rights[] = {"ACL SETUSER default resetchannels &ch",
                                         "ACL SETUSER default allchannels -hkeys"};

    for (size_t i = 0; i < 2; i++) {
        clear(&f);
        (void)take_as(i, KEPT, "1 60000");
        for (size_t j = 0; j < 2; j++) {
            cr_assert_str_eq(probe_text(f.probe, "%s", rights[j]), "OK");
            cr_expect(is_near(take_as(i, V ":8", "1 60000")->integer, LEASE), "%s, %s", takes[i][0], rights[j]);
            cr_assert_str_eq(probe_text(f.probe, "ACL SETUSER default allchannels +@all"), "OK");
        }
    }
}

/* The scripts of Redisson's RLock, in our words (wire.md): a field is a field. */
#define JAVA_LOCK                                                                                                      \
    "if redis.call('exists',KEYS[1])==0 or redis.call('hexists',KEYS[1],ARGV[2])==1 then "                             \
    "redis.call('hincrby',KEYS[1],ARGV[2],1) redis.call('pexpire',KEYS[1],ARGV[1]) return -1 end "                     \
    "return redis.call('pttl',KEYS[1])"

static int64_t java_lock(void)
{
    const char *argv[] = {"EVAL", JAVA_LOCK, "1", "N", "60000", V ":8"};

    return probe_ask_argv(f.probe, 6, argv, NULL)->integer;
}

Test(scripts_recall, kept_hold_is_to_redisson_a_hold_like_any)
{
    (void)run(&f, "reentrant_take", "N , " KEPT " 1 60000");
    cr_expect(is_near(java_lock(), LEASE));
    expect_recall(CHANNEL("N"), NULL, "Redisson recalls nobody");
    (void)run(&f, "reentrant_release", "N ch , " KEPT " 0");
    cr_expect_eq(java_lock(), -1);
    cr_expect(is_near(run_integer(&f, "reentrant_take", "N , " KEPT " 1 60000"), LEASE));
    expect_recall(CHANNEL("N"), NULL, "and is not recalled");
}

/* Drawn in one block, at the first try and at its repeat; what the next one draws lies above all of it. */
Test(scripts_recall, tokens_of_a_kept_hold_are_drawn_at_once)
{
    cr_expect_eq(run_integer(&f, "fenced_take", "N T , " KEPT " 1 60000 0 4096"), -1001);
    cr_expect_eq(run_integer(&f, "fenced_take", "N T , " KEPT " 1 60000 0 4096"), -1001);
    cr_expect_eq(probe_int(f.probe, "GET T"), 4096);
    (void)run_integer(&f, "reentrant_release", "N ch , " KEPT " 0");
    cr_expect_eq(run_integer(&f, "fenced_take", "N T , " V ":8 1 60000"), -1000 - 4097);
}

static const struct reply *confirm(void)
{
    return run(&f, "fenced_confirm", "N T , " KEPT " 60000");
}

static int64_t clock_of(const struct reply *r)
{
    return r->items[0].integer * 1000000 + r->items[1].integer;
}

/* What is drawn later, by the counter or by the time, lies above the clock that was answered; and nothing is created.
 */
Test(scripts_recall, clock_that_is_answered_for_a_kept_hold_bounds_the_counter_from_below)
{
    const struct reply *r = confirm();
    int64_t token, clock;

    cr_assert_eq(r->count, 3);
    cr_expect_eq(r->items[2].integer, -14);
    cr_expect_eq(probe_int(f.probe, "EXISTS N T"), 0);
    token = -1000 - run_integer(&f, "fenced_take", "N T , " KEPT " 1 30000 1");
    r = confirm();
    clock = clock_of(r);
    cr_expect(is_near(r->items[2].integer, LEASE / 2));
    cr_expect_gt(clock, token);
    cr_expect(is_near(probe_int(f.probe, "PTTL N"), LEASE));
    cr_expect_geq(atoll(probe_text(f.probe, "GET T")), clock);
    cr_expect_gt(probe_int(f.probe, "INCR T"), clock);
    (void)probe_ask(f.probe, "SET T 9000000000000000");
    cr_expect_lt(clock_of(confirm()), INT64_C(9000000000000000));
    cr_expect_eq(atoll(probe_text(f.probe, "GET T")), INT64_C(9000000000000000));
    (void)probe_ask(f.probe, "SET T words");
    (void)confirm();
    cr_expect_str_eq(probe_text(f.probe, "GET T"), "words");
    cr_expect(run_fails(&f, "fenced_confirm", "N T , " KEPT " 0", "ERR redlatch: lease"));
}
