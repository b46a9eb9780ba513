/* SPDX-License-Identifier: MIT */
/* test_scripts.c - the Lua files of the reentrant and the simple lock, on a real server: what their headers promise.
 *
 * What both lock types promise alike is tested for both, by a loop over TYPES. Other types are test_scripts_types'.
 */
#include "tests/script/call.h"

/* ---- the two types ---------------------------------------------------------------------------------------------- */

/* take and the others: names of scripts. hold: a command that makes a hold of A with a count of 1 and no time to live.
 */
static const struct type {
    const char *name, *take, *release, *renew, *force;
    const char *hold;
    const char *other; /* a command that puts a key of another type there */
} TYPES[] = {
    {"reentrant", "reentrant_take", "reentrant_release", "reentrant_renew", "reentrant_force", "HSET N A 1", "SET N A"},
    {"simple", "simple_take", "simple_release", "simple_renew", "simple_force", "SET N A", "HSET N A 1"},
};

#define EACH_TYPE(t) (const struct type *t = TYPES; t < TYPES + sizeof TYPES / sizeof TYPES[0]; t++)

/* ---- take ------------------------------------------------------------------------------------------------------- */

Test(scripts, take_of_a_free_lock_leaves_just_the_hold_and_the_lease, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 60000"), TAKEN, "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
            cr_expect_eq(probe_keys(f.probe), 1, "%s", t->name);
        }
    cr_expect_eq(probe_int(f.probe, "STRLEN N"), 1);
    clear(&f);
    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    cr_expect_eq(probe_int(f.probe, "HLEN N"), 1);
    close_fixture(&f);
}

Test(scripts, repeated_take_says_so_and_changes_nothing, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 60000"), HELD_ALREADY, "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, take_never_shortens_a_lease_and_may_lengthen_it, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 30000"), HELD_ALREADY, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 120000"), HELD_ALREADY, "%s", t->name);
            cr_expect(ttl_is_near(&f, LONGER), "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, take_gives_a_hold_without_a_time_to_live_its_lease, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)probe_ask(f.probe, "%s", t->hold);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 60000"), HELD_ALREADY, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, nested_take_raises_the_count_and_never_lowers_it, .timeout = 60)
{
    struct fixture f = open_fixture();

    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2 60000"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2 60000"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 1 120000"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect(ttl_is_near(&f, LONGER));
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 10 30000"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 10);
    cr_expect(ttl_is_near(&f, LONGER));
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2147483647 1"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 2147483647);
    close_fixture(&f);
}

Test(scripts, nested_take_of_a_hold_that_is_gone_creates_nothing, .timeout = 60)
{
    struct fixture f = open_fixture();

    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2 60000"), HOLD_GONE);
    cr_expect_eq(probe_keys(f.probe), 0);
    (void)run_integer(&f, "reentrant_take", "N , B 1 60000");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2 120000"), HOLD_GONE);
    cr_expect_eq(probe_int(f.probe, "HLEN N"), 1);
    cr_expect_eq(probe_int(f.probe, "HGET N B"), 1);
    cr_expect(ttl_is_near(&f, LEASE));
    close_fixture(&f);
}

Test(scripts, refused_take_answers_the_holders_time_to_live_and_leaves_it, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect(is_near(run_integer(&f, t->take, "N , B 1 120000"), LEASE), "%s", t->name);
            cr_expect(is_near(run_integer(&f, t->take, "N , B 1 120000 1"), LEASE), "%s: a token changes no refusal",
                      t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
            clear(&f);
            (void)probe_ask(f.probe, "%s", t->hold);
            cr_expect_eq(run_integer(&f, t->take, "N , B 1 60000"), -1, "%s", t->name);
            cr_expect_eq(probe_int(f.probe, "PTTL N"), -1, "%s", t->name);
        }
    clear(&f);
    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    (void)run_integer(&f, "reentrant_take", "N , B 1 60000");
    cr_expect_eq(probe_int(f.probe, "HLEN N"), 1);
    close_fixture(&f);
}

Test(scripts, token_is_the_servers_time_when_the_take_was_granted, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            int64_t before = server_us(&f);
            int64_t first;
            int64_t again;

            clear(&f);
            first = run_integer(&f, t->take, "N , A 1 60000 1");
            again = run_integer(&f, t->take, "N , A 1 60000 1");
            cr_expect(before < first && first < again && again < server_us(&f), "%s", t->name);
            cr_expect_gt(first, INT64_C(1) << 40, "%s: cannot be mistaken for a hint", t->name);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 60000 0"), HELD_ALREADY, "%s: not wanted", t->name);
        }
    clear(&f);
    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2 60000 1"), HELD_ALREADY, "nested: the token stays");
    close_fixture(&f);
}

Test(scripts, bad_numbers_are_refused_before_anything_is_written, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            expect_refused(&f, t->take, "N , A 1 $", LEASE_TOO_LONG, 0);
            expect_refused(&f, t->take, "N , A 1 $ 1", LEASE_TOO_LONG, 0);
            expect_refused(&f, t->take, "N , A $ 60000", COUNT_TOO_HIGH, 0);
            expect_refused(&f, t->renew, "N , A $", LEASE_TOO_LONG, 0);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            expect_refused(&f, t->take, "N , A 1 $", LEASE_TOO_LONG, 1);
            expect_refused(&f, t->take, "N , A $ 120000", COUNT_TOO_HIGH, 1);
            expect_refused(&f, t->renew, "N , A $", LEASE_TOO_LONG, 1);
            expect_refused(&f, t->renew, "N M , A 120000 A $", LEASE_TOO_LONG, 1);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, bad_counts_to_be_left_are_refused, .timeout = 60)
{
    static const char *const BAD[] = {"-1", "00", "1.5", "2147483648", "x", "''", "nan"};
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
                char *line = must_format("N ch , A %s", BAD[i]);

                cr_expect(run_fails(&f, t->release, line, "ERR redlatch: "), "%s %s", t->release, line);
                free(line);
            }
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
        }
    cr_expect(run_fails(&f, "simple_release", "N ch , A 1", "ERR redlatch: "));
    cr_expect(run_fails(&f, "simple_take", "M , A 2 60000", "ERR redlatch: "));
    cr_expect_eq(probe_keys(f.probe), 1);
    close_fixture(&f);
}

Test(scripts, only_the_two_ways_to_publish_are_let_through, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect(run_fails(&f, t->release, "N ch , A 0 flushall", "ERR redlatch: "), "%s", t->name);
            cr_expect(run_fails(&f, t->force, "N ch , A flushall", "ERR redlatch: "), "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, bounds_themselves_are_accepted, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 1099511627776"), TAKEN, "%s", t->name);
            cr_expect(ttl_is_near(&f, INT64_C(1) << 40), "%s", t->name);
            clear(&f);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 1"), TAKEN, "%s", t->name);
            cr_expect(WAIT_UNTIL(probe_keys(f.probe) == 0, 5000), "%s: a lease of 1 ms ends", t->name);
        }
    close_fixture(&f);
}

Test(scripts, key_of_another_type_is_reported_as_the_server_reports_it, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)probe_ask(f.probe, "%s", t->other);
            cr_expect(run_fails(&f, t->take, "N , A 1 60000", "WRONGTYPE "), "%s", t->name);
            cr_expect(run_fails(&f, t->release, "N ch , A 0", "WRONGTYPE "), "%s", t->name);
            cr_expect(run_fails(&f, t->force, "N ch , A", "WRONGTYPE "), "%s", t->name);
            cr_expect_eq(probe_int(f.probe, "PTTL N"), -1, "%s: untouched", t->name);
        }
    clear(&f);
    (void)probe_ask(f.probe, "SET N A");
    cr_expect(run_fails(&f, "reentrant_release", "N ch , A 1", "WRONGTYPE "));
    close_fixture(&f);
}

/* ---- release ---------------------------------------------------------------------------------------------------- */

Test(scripts, release_frees_the_lock_and_publishes_0, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for
        EACH_TYPE(t)
        {
            static const char *const WAYS[] = {"N ch , A 0", "N ch , A 0 publish"};

            for (size_t i = 0; i < 2; i++) {
                (void)run_integer(&f, t->take, "N , A 1 60000");
                cr_expect_gt(run_integer(&f, t->release, WAYS[i]), 0, "%s", t->name);
                cr_expect_str_eq(heard(listener), "0", "%s", t->name);
                cr_expect_eq(probe_keys(f.probe), 0, "%s", t->name);
            }
        }
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts, sharded_release_reaches_sharded_subscribers, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener;

    if (probe_ask(f.probe, "PUBSUB SHARDNUMSUB")->kind == REPLY_ERROR) {
        close_fixture(&f);
        cr_skip_test("this server knows no sharded channels");
    }
    listener = listen_to(&f, "SSUBSCRIBE");
    for
        EACH_TYPE(t)
        {
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_gt(run_integer(&f, t->release, "N ch , A 0 spublish"), 0, "%s", t->name);
            cr_expect_str_eq(heard(listener), "0", "%s", t->name);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->force, "N ch , A spublish"), 1, "%s", t->name);
            cr_expect_str_eq(heard(listener), "0", "%s", t->name);
        }
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts, release_without_a_hold_changes_nothing_and_wakes_nobody, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for
        EACH_TYPE(t)
        {
            clear(&f);
            cr_expect_eq(run_integer(&f, t->release, "N ch , A 0"), NO_SUCH_HOLD, "%s", t->name);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->release, "N ch , B 0"), NO_SUCH_HOLD, "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
            cr_expect(nothing_heard(&f, listener), "%s", t->name);
        }
    cr_expect_eq(run_integer(&f, "reentrant_release", "M ch , B 1"), NO_SUCH_HOLD);
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts, repeated_release_leaves_the_next_holder_alone, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , B 1 60000");
            (void)run_integer(&f, t->release, "N ch , B 0");
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->release, "N ch , B 0"), NO_SUCH_HOLD, "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, nested_release_lowers_the_count_never_raises_it_and_keeps_the_lease, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    (void)run_integer(&f, "reentrant_take", "N , A 3 60000");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 2"), 0);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 2"), 0);
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 1"), 0);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 2"), 0, "late: it does not raise");
    cr_expect_eq(count_of_a(&f), 1);
    cr_expect(ttl_is_near(&f, LEASE));
    cr_expect(nothing_heard(&f, listener));
    cr_expect_gt(run_integer(&f, "reentrant_release", "N ch , A 0"), 0);
    cr_expect_str_eq(heard(listener), "0");
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts, release_to_0_frees_a_nested_hold_as_a_whole, .timeout = 60)
{
    struct fixture f = open_fixture();

    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    (void)run_integer(&f, "reentrant_take", "N , A 3 60000");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 0"), 1);
    cr_expect_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts, release_takes_its_own_field_and_no_other, .timeout = 60)
{
    struct fixture f = open_fixture();

    (void)probe_ask(f.probe, "HSET N A 1 foreign 1");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 0"), 1);
    cr_expect_eq(probe_int(f.probe, "HGET N foreign"), 1);
    close_fixture(&f);
}

/* ---- renew ------------------------------------------------------------------------------------------------------ */

/* So many times something was written that scripts write again. */
static int64_t writes(struct fixture *f)
{
    return probe_calls(f->probe, "pexpire") + probe_calls(f->probe, "set");
}

/* The answer to a renewal of N alone. */
static int64_t renew_n(struct fixture *f, const struct type *t, const char *words)
{
    const struct reply *r = run(f, t->renew, words);

    cr_assert_eq(r->count, 3u, "%s", t->name);
    return r->items[2].integer;
}

Test(scripts, renew_lengthens_never_shortens_and_tells_what_was_left, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect(is_near(renew_n(&f, t, "N , A 120000"), LEASE), "%s", t->name);
            cr_expect(ttl_is_near(&f, LONGER), "%s", t->name);
            cr_expect(is_near(renew_n(&f, t, "N , A 30000"), LONGER), "%s", t->name);
            cr_expect(ttl_is_near(&f, LONGER), "%s", t->name);
            (void)probe_int(f.probe, "PERSIST N");
            cr_expect_eq(renew_n(&f, t, "N , A 60000"), -1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
        }
    close_fixture(&f);
}

/* Else a WAIT behind the repetition, on another connection, would count replicas that have never heard of the hold. In
 * a transaction time stands still: nothing changes. */
Test(scripts, repeated_take_and_renewal_write_although_nothing_changes, .timeout = 60)
{
    static const struct {
        const char *take, *words, *brief, *renew, *hold;
    } CASES[] = {
        {"reentrant_take", "N , A 1 60000", "N , A 1 60000", "reentrant_renew", "N , A 60000"},
        {"fenced_take", "N T , A 1 60000", "N T , A 1 60000", "reentrant_renew", "N , A 60000"},
        {"simple_take", "N , A 1 60000", "N , A 1 60000", "simple_renew", "N , A 60000"},
        {"write_take", "N , A 1 60000", "N , A 1 60000", "reentrant_renew", "N , A 60000"},
        {"fair_take", "N ch q t w , A 1 60000 0 15000 P 1", "N ch q t w , A 1 60000 0 15000 P 1", "reentrant_renew",
         "N , A 60000"},
        {"read_take", "N , A 1 60000", "N , A 1 60000", "read_renew", "N , A 60000"},
        /* the time to live is longer, and stays */
        {"reentrant_take", "N , A 1 60000", "N , A 1 5000", "reentrant_renew", "N , A 5000"},
        {"fenced_take", "N T , A 1 60000", "N T , A 1 5000", "reentrant_renew", "N , A 5000"},
        {"simple_take", "N , A 1 60000", "N , A 1 5000", "simple_renew", "N , A 5000"},
        {"write_take", "N , A 1 60000", "N , A 1 5000", "reentrant_renew", "N , A 5000"},
        {"fair_take", "N ch q t w , A 1 60000 0 15000 P 1", "N ch q t w , A 1 5000 0 15000 P 1", "reentrant_renew",
         "N , A 5000"},
        {"read_take", "N , A 1 60000", "N , A 1 5000", "read_renew", "N , A 5000"},
    };
    struct fixture f = open_fixture();

    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        int64_t before;

        clear(&f);
        (void)probe_ask(f.probe, "MULTI");
        (void)run(&f, CASES[i].take, CASES[i].words);
        (void)probe_ask(f.probe, "EXEC");
        for (int again = 0; again < 2; again++) {
            before = writes(&f);
            (void)probe_ask(f.probe, "MULTI");
            (void)run(&f, CASES[i].take, CASES[i].words); /* which makes the time to live the lease */
            (void)run(&f, again == 0 ? CASES[i].take : CASES[i].renew, again == 0 ? CASES[i].brief : CASES[i].hold);
            (void)probe_ask(f.probe, "EXEC");
            cr_expect_geq(writes(&f) - before, 2, "%zu: %s", i, again == 0 ? CASES[i].take : CASES[i].renew);
            cr_expect_gt(probe_int(f.probe, "PTTL N"), 50000, "%zu", i);
        }
    }
    close_fixture(&f);
}

Test(scripts, renew_of_what_is_gone_says_so_and_creates_nothing, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            cr_expect_eq(renew_n(&f, t, "N , A 120000"), NO_SUCH_HOLD, "%s", t->name);
            cr_expect_eq(probe_keys(f.probe), 0, "%s", t->name);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(renew_n(&f, t, "N , B 120000"), NO_SUCH_HOLD, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, batch_answers_the_time_and_each_hold_in_order, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            int64_t before = server_us(&f);
            const struct reply *r;
            int64_t then;

            clear(&f);
            (void)run_integer(&f, t->take, "K1 , A 1 60000");
            (void)run_integer(&f, t->take, "K2 , B 1 60000");
            (void)probe_ask(f.probe, strcmp(t->name, "simple") == 0 ? "HSET K3 A 1" : "SET K3 A");
            (void)run_integer(&f, t->take, "K5 , A 1 30000");
            r = run(&f, t->renew, "K1 K2 K3 K4 K5 K1 , A 120000 A 120000 A 120000 A 120000 A 120000 A 120000");
            cr_assert_eq(r->count, 8u, "%s", t->name);
            then = r->items[0].integer * 1000000 + r->items[1].integer;
            cr_expect(is_near(r->items[2].integer, LEASE), "%s", t->name);
            cr_expect_eq(r->items[3].integer, NO_SUCH_HOLD, "%s: held by B", t->name);
            cr_expect_eq(r->items[4].integer, NO_SUCH_HOLD, "%s: another type of key", t->name);
            cr_expect_eq(r->items[5].integer, NO_SUCH_HOLD, "%s: no key", t->name);
            cr_expect(is_near(r->items[6].integer, SHORTER), "%s", t->name);
            cr_expect(is_near(r->items[7].integer, LONGER), "%s: a key may occur twice", t->name);
            cr_expect(before <= then && then <= server_us(&f), "%s", t->name);
            cr_expect(is_near(probe_int(f.probe, "PTTL K1"), LONGER), "%s", t->name);
            cr_expect(is_near(probe_int(f.probe, "PTTL K2"), LEASE), "%s", t->name);
            cr_expect_eq(probe_int(f.probe, "PTTL K3"), -1, "%s", t->name);
            cr_expect(is_near(probe_int(f.probe, "PTTL K5"), LONGER), "%s", t->name);
            cr_expect_eq(probe_keys(f.probe), 4, "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, batch_with_missing_or_spare_words_is_refused, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            cr_expect(run_fails(&f, t->renew, "N M , A 60000 A", "ERR redlatch: "), "%s", t->name);
            cr_expect(run_fails(&f, t->renew, "N , A 60000 A 60000", "ERR redlatch: "), "%s", t->name);
            cr_expect_eq(run(&f, t->renew, ",")->count, 2u, "%s: of none: just the time", t->name);
        }
    close_fixture(&f);
}

/* Not every failure is a hold gone: a hold must not be given up because the server refuses to look. */
Test(scripts, renew_reports_what_a_server_forbids, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            (void)probe_text(f.probe, "ACL SETUSER default -hexists -get");
            cr_expect_eq(run(&f, t->renew, "N , A 120000")->kind, REPLY_ERROR, "%s", t->name);
            (void)probe_text(f.probe, "ACL SETUSER default +@all");
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
        }
    close_fixture(&f);
}

/* ---- force ------------------------------------------------------------------------------------------------------ */

Test(scripts, force_frees_from_the_holder_that_was_seen_and_publishes_0, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for
        EACH_TYPE(t)
        {
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->force, "N ch , A publish"), 1, "%s", t->name);
            cr_expect_str_eq(heard(listener), "0", "%s", t->name);
            cr_expect_eq(probe_keys(f.probe), 0, "%s", t->name);
        }
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts, force_leaves_a_holder_that_came_since, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for
        EACH_TYPE(t)
        {
            clear(&f);
            cr_expect_eq(run_integer(&f, t->force, "N ch , B"), 0, "%s: free", t->name);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->force, "N ch , B"), 0, "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(nothing_heard(&f, listener), "%s", t->name);
        }
    probe_close(listener);
    close_fixture(&f);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

Test(scripts, names_and_owners_may_be_any_bytes, .timeout = 60)
{
    static const char NAME[] = "a\0b\r\n\xff";
    static const char OWNER[] = "U\0:1";
    static const char OWNER_CUT[] = "U";
    struct fixture f = open_fixture();
    size_t name = sizeof NAME - 1;
    size_t owner = sizeof OWNER - 1;

    for
        EACH_TYPE(t)
        {
            const char *take[] = {NAME, OWNER, "1", "60000"};
            const char *rival[] = {NAME, OWNER_CUT, "1", "60000"};
            const char *renew[] = {NAME, OWNER, "120000"};
            const char *release[] = {NAME, "ch", OWNER, "0"};

            cr_expect_eq(run_argv(&f, t->take, 1, 4, take, (size_t[]){name, owner, 1, 5})->integer, TAKEN, "%s",
                         t->name);
            cr_expect_gt(run_argv(&f, t->take, 1, 4, rival, (size_t[]){name, 1, 1, 5})->integer, 0, "%s", t->name);
            cr_expect_gt(run_argv(&f, t->renew, 1, 3, renew, (size_t[]){name, owner, 6})->items[2].integer, 0, "%s",
                         t->name);
            cr_expect_eq(run_argv(&f, t->release, 2, 4, release, (size_t[]){name, 2, owner, 1})->integer, 1, "%s",
                         t->name);
            cr_expect_eq(probe_keys(f.probe), 0, "%s", t->name);
        }
    close_fixture(&f);
}
