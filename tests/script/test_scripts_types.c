/* SPDX-License-Identifier: MIT */
/* test_scripts_types.c - the Lua files of the fenced, the fair and the read-write lock, on a real server: what their
 * headers promise; and what the verbs of locks cost the server.
 */
#include "tests/script/call.h"

/* ---- cost ------------------------------------------------------------------------------------------------------- */

/* How many commands the script gave the server. */
static size_t cost(struct fixture *f, struct monitor *m, const char *script, const char *words)
{
    size_t mark = monitor_mark(m);

    (void)run(f, script, words);
    (void)monitor_mark(m);
    return monitor_count_lua(m, mark, "");
}

Test(scripts, hot_paths_take_few_commands, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct monitor *m = monitor_start(f.server);

    cr_expect_eq(cost(&f, m, "reentrant_take", "N , A 1 60000"), 3u);
    cr_expect_eq(cost(&f, m, "reentrant_take", "N , B 1 60000"), 3u);
    cr_expect_eq(cost(&f, m, "reentrant_release", "N ch , A 0"), 2u);
    cr_expect_eq(cost(&f, m, "simple_take", "N , A 1 60000"), 2u);
    cr_expect_eq(cost(&f, m, "simple_take", "N , B 1 60000"), 2u);
    cr_expect_eq(cost(&f, m, "simple_release", "N ch , A 0"), 3u);
    monitor_stop(m);
    close_fixture(&f);
}

/* A verb on nested reads costs the same at any depth; a renewal, and whoever looks for the longest hold of others, two
 * or one for each of them. */
Test(scripts, nested_reads_cost_no_more_the_deeper_they_are, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct monitor *m = monitor_start(f.server);
    static const size_t depths[] = {1, 10, 100, 1000};
    size_t take[4], release[4], renew[4];
    int at = 0;

    for (int depth = 1; depth <= 1000; depth++) {
        char *words = must_format("N , A %d 60000", depth);

        (void)run(&f, "read_take", words);
        free(words);
        if ((size_t)depth != depths[at])
            continue;
        words = must_format("N , A %d 60000", depth + 1);
        take[at] = cost(&f, m, "read_take", words);
        free(words);
        words = must_format("N ch , A %d", depth);
        release[at] = cost(&f, m, "read_release", words);
        free(words);
        renew[at++] = cost(&f, m, "read_renew", "N , A 60000");
    }
    for (int i = 0; i < 4; i++) {
        cr_expect_leq(take[i], 8u, "%zu", take[i]);
        cr_expect_leq(release[i], 3u, "%zu", release[i]);
        cr_expect_leq(renew[i], 4u + 2u * depths[i], "%zu", renew[i]);
    }
    cr_expect_leq(cost(&f, m, "read_release", "N ch , A 0"), 5u); /* a thousand keys by each DEL */
    monitor_stop(m);
    close_fixture(&f);
}

/* ---- fenced take: the same, and a token ------------------------------------------------------------------------- */

#define FENCED "fenced_take"

Test(scripts, fenced_take_counts_once_for_each_hold_and_repeats_answer_the_same, .timeout = 60)
{
    struct fixture f = open_fixture();

    for (int64_t token = 1; token <= 3; token++) {
        cr_expect_eq(run_integer(&f, FENCED, "N T , A 1 60000"), -1000 - token);
        cr_expect_eq(run_integer(&f, FENCED, "N T , A 1 30000"), -1000 - token);
        cr_expect_eq(run_integer(&f, FENCED, "N T , A 2 60000"), HELD_ALREADY);
        cr_expect(is_near(run_integer(&f, FENCED, "N T , B 1 60000"), LEASE));
        cr_expect_eq(run_integer(&f, FENCED, "N T , B 2 60000"), HOLD_GONE);
        cr_expect_eq(count_of_a(&f), 2);
        cr_expect(ttl_is_near(&f, LEASE));
        cr_expect_eq(atoll(probe_text(f.probe, "GET T")), token);
        (void)probe_int(f.probe, "DEL N");
    }
    cr_expect_eq(run_integer(&f, FENCED, "N T , A 2 60000"), HOLD_GONE);
    cr_expect_eq(probe_int(f.probe, "EXISTS N"), 0);
    close_fixture(&f);
}

Test(scripts, fenced_take_writes_nothing_of_the_lock_when_something_is_wrong, .timeout = 60)
{
    struct fixture f = open_fixture();

    expect_refused(&f, FENCED, "N T , A 1 $", LEASE_TOO_LONG, 0);
    expect_refused(&f, FENCED, "N T , A $ 60000", COUNT_TOO_HIGH, 0);
    (void)probe_ask(f.probe, "SET T words");
    cr_expect(run_fails(&f, FENCED, "N T , A 1 60000", "ERR value is not an integer"));
    (void)probe_ask(f.probe, "SET T 9223372036854775807");
    cr_expect(run_fails(&f, FENCED, "N T , A 1 60000", "ERR increment"));
    cr_expect_eq(probe_int(f.probe, "EXISTS N"), 0);
    (void)probe_ask(f.probe, "SET N string");
    cr_expect(run_fails(&f, FENCED, "N T , A 1 60000", "WRONGTYPE"));
    close_fixture(&f);
}

Test(scripts, fenced_take_with_a_floor_answers_the_servers_time_or_one_more, .timeout = 60)
{
    struct fixture f = open_fixture();
    int64_t before = server_us(&f);
    int64_t token = -1000 - run_integer(&f, FENCED, "N T , A 1 60000 1");

    cr_expect(before <= token && token <= server_us(&f));
    cr_expect_eq(atoll(probe_text(f.probe, "GET T")), token);
    cr_expect_eq(-1000 - run_integer(&f, FENCED, "N T , A 1 60000 1"), token);
    (void)probe_int(f.probe, "DEL N");
    (void)probe_ask(f.probe, "SET T 9000000000000000");
    cr_expect_eq(-1000 - run_integer(&f, FENCED, "N T , A 1 60000 1"), INT64_C(9000000000000001));
    close_fixture(&f);
}

/* ---- the fair lock ---------------------------------------------------------------------------------------------- */

#define FAIR_KEYS "N ch q t w , "
#define LIFE_MS 15000
#define LIFE "15000"

/* The owner `who` asks for its hold `who`:n. */
static int64_t fair_take(struct fixture *f, const char *who, int n, const char *lease_token_life)
{
    char *words = must_format(FAIR_KEYS "%s:%d 1 %s %s 1", who, n, lease_token_life, who);
    int64_t answer = run_integer(f, "fair_take", words);

    free(words);
    return answer;
}

static int64_t fair_release(struct fixture *f, const char *who, int n)
{
    char *words = must_format(FAIR_KEYS "%s:%d 0 %s", who, n, who);
    int64_t answer = run_integer(f, "fair_release", words);

    free(words);
    return answer;
}

static int64_t fair_has(struct fixture *f, const char *field)
{
    return probe_int(f->probe, "HEXISTS N %s", field);
}

Test(scripts_fair, refused_take_stands_in_the_queue_and_its_keys_end_together)
{
    struct fixture f = open_fixture();
    int64_t end;

    cr_assert_eq(fair_take(&f, "A", 1, "60000 0 " LIFE), TAKEN);
    cr_assert_eq(probe_keys(f.probe), 1);
    cr_assert_eq(fair_take(&f, "B", 1, "60000 0 " LIFE), 5000);
    cr_assert_eq(fair_take(&f, "B", 1, "60000 0 " LIFE), 5000); /* once, whatever it repeats */
    cr_assert_eq(fair_take(&f, "C", 1, "60000 0 " LIFE), 5000);
    cr_assert_gt(fair_take(&f, "D", 1, "60000 0 0"), LIFE_MS); /* a single try does not queue: the holder's time */
    cr_assert_eq(probe_int(f.probe, "LLEN q"), 2);
    cr_assert_eq(probe_int(f.probe, "ZCARD t"), 2);
    cr_assert_eq(probe_int(f.probe, "HLEN w"), 2);
    end = probe_int(f.probe, "PEXPIRETIME q");
    /* The server's clock goes on between the script's commands. */
    cr_assert_leq(llabs(probe_int(f.probe, "PEXPIRETIME t") - end), 1000);
    cr_assert_leq(llabs(probe_int(f.probe, "PEXPIRETIME w") - end), 1000);
    cr_assert_eq(fair_release(&f, "C", 1), NO_SUCH_HOLD); /* leaves the queue */
    cr_assert_eq(fair_release(&f, "B", 1), NO_SUCH_HOLD);
    cr_assert_eq(probe_keys(f.probe), 1);
    close_fixture(&f);
}

Test(scripts_fair, who_frees_the_lock_passes_it_on_to_the_first_for_no_longer_than_that_one_counts_as_alive)
{
    struct fixture f = open_fixture();

    (void)fair_take(&f, "A", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "B", 1, "60000 1 " LIFE);
    (void)fair_take(&f, "C", 7, "300 0 " LIFE);
    (void)fair_take(&f, "D", 1, "60000 0 " LIFE);
    cr_assert_eq(fair_release(&f, "A", 1), 1);
    cr_assert_eq(fair_has(&f, "B:1"), 1);
    cr_assert_eq(probe_int(f.probe, "HLEN N"), 1);
    cr_assert_leq(probe_int(f.probe, "PTTL N"), LIFE_MS);
    cr_assert_gt(probe_int(f.probe, "PTTL N"), LIFE_MS / 2);
    cr_assert_gt(fair_take(&f, "B", 1, "60000 1 " LIFE), INT64_C(1)
                                                             << 40); /* it finds its hold, which it makes whole */
    cr_assert_gt(probe_int(f.probe, "PTTL N"), LIFE_MS);
    cr_assert_eq(run_integer(&f, "fair_force", FAIR_KEYS "A:1"), 0);
    cr_assert_eq(run_integer(&f, "fair_force", FAIR_KEYS "B:1"), 1);
    cr_assert_eq(fair_has(&f, "C:7"), 1);
    cr_assert_leq(probe_int(f.probe, "PTTL N"), 300);
    (void)probe_int(f.probe, "DEL N"); /* as if its time were over: whoever looks passes it on */
    cr_assert_gt(fair_take(&f, "E", 1, "60000 0 0"), LIFE_MS / 2);
    cr_assert_eq(fair_has(&f, "D:1"), 1);
    cr_assert_eq(fair_release(&f, "D", 1), 1);
    cr_assert_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_fair, head_that_leaves_while_the_lock_is_free_passes_it_on)
{
    struct fixture f = open_fixture();

    (void)fair_take(&f, "A", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "B", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "C", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "D", 1, "60000 0 " LIFE);
    (void)probe_int(f.probe, "DEL N");
    cr_assert_eq(fair_release(&f, "D", 1), NO_SUCH_HOLD); /* who was not first leaves that to others */
    cr_assert_eq(probe_int(f.probe, "EXISTS N"), 0);
    cr_assert_eq(fair_release(&f, "B", 1), NO_SUCH_HOLD);
    cr_assert_eq(fair_has(&f, "C:1"), 1);
    cr_assert_eq(fair_release(&f, "C", 1), 1);
    cr_assert_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_fair, of_two_takes_of_an_owner_the_later_counts_and_waits_anew)
{
    struct fixture f = open_fixture();

    (void)fair_take(&f, "A", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "B", 9, "60000 0 " LIFE);
    (void)fair_take(&f, "C", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "B", 10, "60000 0 " LIFE); /* behind C */
    cr_assert_eq(probe_int(f.probe, "LLEN q"), 2);
    cr_assert_gt(fair_take(&f, "B", 9, "60000 0 " LIFE), LIFE_MS); /* comes late, and does nothing */
    cr_assert_eq(fair_release(&f, "B", 9), NO_SUCH_HOLD);
    cr_assert_eq(probe_int(f.probe, "LLEN q"), 2);
    cr_assert_eq(fair_release(&f, "A", 1), 1);
    cr_assert_eq(fair_has(&f, "C:1"), 1);
    cr_assert_eq(fair_release(&f, "C", 1), 1);
    cr_assert_eq(fair_has(&f, "B:10"), 1);
    cr_assert_eq(fair_release(&f, "B", 10), 1);
    cr_assert_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_fair, bad_arguments_and_wrong_types_change_nothing)
{
    static const char *const BAD[] = {"A 0 60000 0 15000 P 1",  "A x 60000 0 15000 P 1", "A 1 0 0 15000 P 1",
                                      "A 1 1e3 0 15000 P 1",    "A 1 60000 0 2 P 1",     "A 1 60000 0 -15000 P 1",
                                      "A 1 60000 0 15000 P",    "A 1 60000 0 15000 P x", "A 1 60000 0 15000 P 1 say",
                                      "A 1 60000 0 15000 P 1 0"};
    static const char TAKE[] = FAIR_KEYS "A 1 60000 0 " LIFE " P 1";
    struct fixture f = open_fixture();

    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        char *words = must_format(FAIR_KEYS "%s", BAD[i]);

        cr_assert(run_fails(&f, "fair_take", words, "ERR"), "%s", words);
        free(words);
    }
    cr_assert(run_fails(&f, "fair_release", FAIR_KEYS "A -1 P", "ERR"));
    cr_assert(run_fails(&f, "fair_release", FAIR_KEYS "A 0 P say", "ERR"));
    cr_assert(run_fails(&f, "fair_force", FAIR_KEYS "A say", "ERR"));
    cr_assert_eq(probe_keys(f.probe), 0);
    for (const char *key = "qw"; *key != '\0'; key++) {
        (void)probe_text(f.probe, "SET %c x", *key);
        cr_assert(run_fails(&f, "fair_take", TAKE, "WRONGTYPE"));
        cr_assert_eq(probe_keys(f.probe), 1);
        (void)probe_int(f.probe, "DEL %c", *key);
    }
    (void)probe_int(f.probe, "HSET N B 1");
    (void)probe_text(f.probe, "SET t x");
    cr_assert(run_fails(&f, "fair_take", TAKE, "WRONGTYPE"));
    cr_assert_eq(probe_keys(f.probe), 2);
    (void)probe_text(f.probe, "SET q x");
    cr_assert(run_fails(&f, "fair_release", FAIR_KEYS "B 0 P", "WRONGTYPE"));
    cr_assert(run_fails(&f, "fair_force", FAIR_KEYS "B", "WRONGTYPE"));
    cr_assert_eq(fair_has(&f, "B"), 1);
    close_fixture(&f);
}

/* ---- the read-write lock ---------------------------------------------------------------------------------------- */

static void expect_release_refuses(struct fixture *f, const char *script, const char *head)
{
    static const char *const BAD[] = {"-1", "00", "1.5", "2147483648", "x", "''", "nan", "0 flushall"};

    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        char *line = must_format("%s %s", head, BAD[i]);

        cr_expect(run_fails(f, script, line, "ERR redlatch: "), "%s %s", script, line);
        free(line);
    }
}

Test(scripts_readwrite, bad_arguments_are_refused_before_anything_is_written, .timeout = 60)
{
    static const char *const TAKES[] = {"read_take", "write_take"};
    struct fixture f = open_fixture();

    for (size_t i = 0; i < 2; i++) {
        int64_t keys;

        clear(&f);
        expect_refused(&f, TAKES[i], "N , A 1 $", LEASE_TOO_LONG, 0);
        expect_refused(&f, TAKES[i], "N , A $ 60000", COUNT_TOO_HIGH, 0);
        (void)run_integer(&f, TAKES[i], "N , A 1 60000");
        keys = probe_keys(f.probe);
        expect_refused(&f, TAKES[i], "N , A 2 $", LEASE_TOO_LONG, keys);
        expect_refused(&f, TAKES[i], "N , A $ 120000", COUNT_TOO_HIGH, keys);
        expect_refused(&f, "read_renew", "N M , A 120000 A $", LEASE_TOO_LONG, keys);
        expect_release_refuses(&f, i == 0 ? "read_release" : "write_release", "N ch , A");
        cr_expect(run_fails(&f, "readwrite_force", "N ch , A flushall", WAYS_TO_PUBLISH));
        cr_expect_eq(count_of_a(&f), 1);
        cr_expect(ttl_is_near(&f, LEASE));
    }
    cr_expect(run_fails(&f, "read_renew", "N , A 60000 A 60000", "ERR redlatch: "));
    close_fixture(&f);
}

Test(scripts_readwrite, name_of_another_lock_is_not_taken, .timeout = 60)
{
    struct fixture f = open_fixture();

    (void)probe_ask(f.probe, "HSET N A 1"); /* a reentrant lock */
    cr_expect(run_fails(&f, "read_take", "N , A 1 60000", "ERR redlatch: the name is held"));
    cr_expect(run_fails(&f, "write_take", "N , A 1 60000", "ERR redlatch: the name is held"));
    cr_expect_eq(probe_keys(f.probe), 1);
    cr_expect_eq(probe_int(f.probe, "HLEN N"), 1);
    clear(&f);
    (void)probe_ask(f.probe, "SET N A");
    cr_expect(run_fails(&f, "read_take", "N , A 1 60000", "WRONGTYPE "));
    cr_expect(run_fails(&f, "write_take", "N , A 1 60000", "WRONGTYPE "));
    cr_expect_eq(run(&f, "read_renew", "N , A 60000")->items[2].integer, NO_SUCH_HOLD);
    cr_expect_eq(probe_keys(f.probe), 1);
    close_fixture(&f);
}

Test(scripts_readwrite, repeats_say_so_and_change_nothing, .timeout = 60)
{
    struct fixture f = open_fixture();

    cr_expect_eq(run_integer(&f, "read_take", "N , A 1 60000"), TAKEN);
    cr_expect_eq(run_integer(&f, "read_take", "N , A 1 30000"), HELD_ALREADY);
    cr_expect_eq(run_integer(&f, "read_take", "N , A 2 30000"), HELD_ALREADY);
    cr_expect_eq(run_integer(&f, "read_take", "N , A 1 30000"), HELD_ALREADY, "late: it does not lower");
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect_eq(probe_keys(f.probe), 3);
    cr_expect(ttl_is_near(&f, LEASE));
    cr_expect(is_near(probe_int(f.probe, "PTTL {N}:A:rwlock_timeout:2"), LEASE), "as long as the longest");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 1"), 0);
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 1"), 0);
    cr_expect_eq(probe_keys(f.probe), 2);
    cr_expect(ttl_is_near(&f, LEASE));
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 0"), 1);
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 0"), NO_SUCH_HOLD);
    cr_expect_eq(run_integer(&f, "read_take", "N , A 2 60000"), HOLD_GONE);
    cr_expect_eq(probe_keys(f.probe), 0);

    cr_expect_eq(run_integer(&f, "write_take", "N , A 1 60000"), TAKEN);
    cr_expect_eq(run_integer(&f, "write_take", "N , A 1 30000"), HELD_ALREADY);
    cr_expect_eq(run_integer(&f, "write_take", "N , A 2 30000"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect(ttl_is_near(&f, LEASE));
    cr_expect_eq(run_integer(&f, "write_release", "N ch , A 1"), 0);
    cr_expect_eq(run_integer(&f, "write_release", "N ch , A 2"), 0, "late: it does not raise");
    cr_expect_eq(count_of_a(&f), 1);
    cr_expect_eq(run_integer(&f, "write_release", "N ch , A 0"), 1);
    cr_expect_eq(run_integer(&f, "write_release", "N ch , A 0"), NO_SUCH_HOLD);
    cr_expect_eq(run_integer(&f, "write_take", "N , A 2 60000"), HOLD_GONE);
    cr_expect_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_readwrite, one_that_stops_writing_reads_on_and_tells_both_kinds_of_waiters, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    (void)run_integer(&f, "write_take", "N , A:write 1 120000");
    cr_expect(is_near(run_integer(&f, "read_take", "N , B 1 60000"), LONGER), "no other reader");
    cr_expect(is_near(run_integer(&f, "read_take", "N , A 1 60000 0 B:write"), LONGER),
              "nor one who says that it writes");
    cr_expect_eq(run_integer(&f, "read_take", "N , A 1 60000 0 A:write"), TAKEN);
    cr_expect(ttl_is_near(&f, LONGER));
    cr_expect(nothing_heard(&f, listener));
    cr_expect_eq(run_integer(&f, "write_release", "N ch , A:write 0"), 16 + 1, "one has heard it");
    cr_expect_str_eq(heard(listener), "1");
    cr_expect_str_eq(heard(listener), "0");
    cr_expect(ttl_is_near(&f, LEASE), "what is left is the reader's");
    cr_expect_eq(run_integer(&f, "read_take", "N , B 1 30000"), TAKEN);
    cr_expect(is_near(run_integer(&f, "write_take", "N , B:write 1 60000"), LEASE), "no writer beside readers");
    cr_expect_eq(run_integer(&f, "readwrite_force", "N ch , A:write"), 0, "of the other end");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 0"), 0);
    cr_expect(ttl_is_near(&f, SHORTER));
    cr_expect(nothing_heard(&f, listener));
    cr_expect_eq(run_integer(&f, "readwrite_force", "N ch , B"), 1);
    cr_expect_str_eq(heard(listener), "0");
    cr_expect_eq(probe_keys(f.probe), 0);
    probe_close(listener);
    close_fixture(&f);
}

/* Where the one that leaves was the longest, the next longest is what the lock lives for; else nothing changes. */
static void check_who_reads_on(int crowd)
{
    struct fixture f = open_fixture();

    for (int i = 0; i < crowd; i++) {
        char words[32];

        (void)snprintf(words, sizeof words, "N , %d 1 20000", i);
        (void)run_integer(&f, "read_take", words);
    }
    (void)run_integer(&f, "read_take", "N , A 1 120000");
    (void)run_integer(&f, "read_take", "N , B 1 60000");
    (void)run_integer(&f, "read_take", "N , C 1 30000");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , C 0"), 0);
    cr_expect(ttl_is_near(&f, LONGER));
    (void)run_integer(&f, "read_take", "N , C 1 30000");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 0"), 0);
    cr_expect(ttl_is_near(&f, LEASE), "of B, though C came later");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , B 0"), 0);
    cr_expect(ttl_is_near(&f, SHORTER));
    (void)probe_ask(f.probe, "DEL {N}:C:rwlock_timeout:1"); /* all are dead */
    for (int i = 0; i < crowd; i++)
        (void)probe_ask(f.probe, "DEL {N}:%d:rwlock_timeout:1", i);
    (void)run_integer(&f, "read_take", "N , D 1 30000");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , D 0"), 1);
    cr_expect_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_readwrite, lock_lives_as_long_as_the_longest_of_those_who_read_on, .timeout = 60)
{
    check_who_reads_on(0);
}

Test(scripts_readwrite, lock_lives_as_long_as_the_longest_of_a_crowd_that_reads_on, .timeout = 60)
{
    check_who_reads_on(12);
}

/* What others have, and a writer, stay as they are. */
Test(scripts_readwrite, force_of_one_reader_leaves_the_others, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    cr_expect_eq(run_integer(&f, "read_force", "N ch , A"), 0, "free");
    (void)run_integer(&f, "read_take", "N , A 1 120000");
    (void)run_integer(&f, "read_take", "N , A 2 120000");
    (void)run_integer(&f, "read_take", "N , B 1 60000");
    cr_expect_eq(run_integer(&f, "read_force", "N ch , C"), 0);
    cr_expect_eq(run_integer(&f, "read_force", "N ch , mode"), 0);
    cr_expect_eq(run_integer(&f, "read_force", "N ch , A"), 1);
    cr_expect_eq(probe_keys(f.probe), 2);
    cr_expect(ttl_is_near(&f, LEASE));
    cr_expect(nothing_heard(&f, listener));
    cr_expect_eq(run_integer(&f, "read_force", "N ch , B"), 1);
    cr_expect_str_eq(heard(listener), "0");
    cr_expect_eq(probe_keys(f.probe), 0);
    (void)run_integer(&f, "write_take", "N , A:write 1 120000");
    (void)run_integer(&f, "read_take", "N , B 1 60000 0 A:write");
    cr_expect_eq(run_integer(&f, "read_force", "N ch , A:write"), 0, "no reader");
    cr_expect_eq(run_integer(&f, "read_force", "N ch , B"), 1);
    cr_expect(ttl_is_near(&f, LONGER));
    cr_expect(run_fails(&f, "read_force", "N ch , A flushall", WAYS_TO_PUBLISH));
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts_readwrite, force_of_a_writer_tells_both_kinds_of_waiters, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    (void)run_integer(&f, "write_take", "N , A:write 1 60000");
    cr_expect_eq(run_integer(&f, "readwrite_force", "N ch , A:write"), 1);
    cr_expect_str_eq(heard(listener), "1");
    cr_expect_str_eq(heard(listener), "0");
    cr_expect_eq(probe_keys(f.probe), 0);
    probe_close(listener);
    close_fixture(&f);
}

/* A mark is left by a writer whom readers refuse, and by nobody else; beside it nobody begins to read. */
Test(scripts_readwrite, writers_mark_keeps_new_readers_out_and_nobody_else, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    cr_expect_eq(run_integer(&f, "read_take", "N m , A 1 60000"), TAKEN);
    cr_expect(is_near(run_integer(&f, "write_take", "N m ch , B:write 1 60000 0 0"), LEASE), "asked to leave none");
    cr_expect_eq(probe_int(f.probe, "EXISTS m"), 0);
    cr_expect_eq(run_integer(&f, "write_take", "N m ch , B:write 1 60000 0 30000"), 10000,
                 "look again after a third of a life");
    cr_expect_eq(run_integer(&f, "write_take", "N m ch , B:write 1 60000 0 30000"), 10000);
    cr_expect(is_near(run_integer(&f, "write_take", "N m ch , C:write 1 60000 0 600000"), LEASE),
              "or with the readers' lease");
    cr_expect_eq(probe_int(f.probe, "ZCARD m"), 2);
    cr_expect(is_near(probe_int(f.probe, "PTTL m"), 600000), "as long as the longest");
    cr_expect(is_near(run_integer(&f, "read_take", "N m , D 1 60000"), 600000), "a new reader");
    cr_expect_eq(run_integer(&f, "read_take", "N , D 1 60000"), TAKEN, "one that does not look, as a peer");
    cr_expect_eq(run_integer(&f, "read_take", "N m , A 2 60000"), HELD_ALREADY, "one that reads");
    cr_expect(nothing_heard(&f, listener));
    cr_expect_eq(run_integer(&f, "write_release", "N ch m , C:write 1"), NO_SUCH_HOLD, "gives nothing up");
    cr_expect_eq(run_integer(&f, "write_release", "N ch m , C:write 0"), NO_SUCH_HOLD);
    cr_expect(nothing_heard(&f, listener), "another one waits");
    cr_expect_eq(run_integer(&f, "write_release", "N ch m , B:write 0"), NO_SUCH_HOLD);
    cr_expect_str_eq(heard(listener), "2");
    cr_expect_eq(run_integer(&f, "write_release", "N ch m , B:write 0"), NO_SUCH_HOLD);
    cr_expect(nothing_heard(&f, listener), "a repeat");
    cr_expect_eq(probe_int(f.probe, "EXISTS m"), 0);
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts_readwrite, marks_go_when_a_writer_gets_in_and_none_is_left_beside_it, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    (void)probe_ask(f.probe, "ZADD m 1 dead 9999999999999 alive");
    cr_expect_gt(run_integer(&f, "read_take", "N m , A 1 60000"), 60000, "of a free lock, too");
    cr_expect_eq(probe_int(f.probe, "EXISTS N"), 0);
    cr_expect_eq(run_integer(&f, "write_take", "N m ch , B:write 1 60000 0 30000"), TAKEN);
    cr_expect_str_eq(heard(listener), "2"); /* to those whom the marks kept out */
    cr_expect_eq(probe_keys(f.probe), 1);
    cr_expect(is_near(run_integer(&f, "write_take", "N m ch , C:write 1 60000 0 30000"), LEASE), "another writer");
    cr_expect(nothing_heard(&f, listener));
    cr_expect_eq(probe_keys(f.probe), 1);
    (void)probe_ask(f.probe, "ZADD m 9999999999999 alive");
    cr_expect_eq(run_integer(&f, "read_take", "N m , B 1 60000 0 B:write"), TAKEN, "the writer itself");
    cr_expect_eq(run_integer(&f, "write_release", "N ch m , B:write 0"), 16 + 1);
    (void)probe_ask(f.probe, "ZADD m 1 dead");
    cr_expect_eq(run_integer(&f, "write_take", "N m ch , C:write 1 60000 0 30000"), 10000);
    cr_expect_eq(probe_int(f.probe, "ZCARD m"), 2, "the dead go when one leaves a mark");
    clear(&f);
    (void)probe_ask(f.probe, "ZADD m 1 dead");
    cr_expect_eq(run_integer(&f, "read_take", "N m , A 1 60000"), TAKEN, "the dead keep nobody out");
    clear(&f);
    for (const char *const *life = (const char *const[]){"2", "-1", "1.5", "x", "''", "1099511627777", NULL};
         *life != NULL; life++) {
        char *line = must_format("N m , A:write 1 60000 0 %s", *life);

        cr_expect(run_fails(&f, "write_take", line, "ERR redlatch: life"), "%s", *life);
        free(line);
    }
    (void)probe_ask(f.probe, "SET m string");
    cr_expect(run_fails(&f, "read_take", "N m , A 1 60000", "WRONGTYPE "));
    cr_expect_eq(probe_keys(f.probe), 1);
    probe_close(listener);
    close_fixture(&f);
}
