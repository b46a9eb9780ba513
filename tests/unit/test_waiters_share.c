/* SPDX-License-Identifier: MIT */
/* test_waiters_share.c - whose client has had it lets others try at a release (protocol.md, 5, rule 21). */
#include "tests/unit/waiting.h"

TestSuite(waiters, .init = set_up, .fini = tear_down, .timeout = 60);

#define PASS_NS (700 * RDL__US)

/* What is free in words of its news. */
static void is_freed(enum rdl__news news)
{
    if (news == RDL__NEWS_ALONE) { /* a writer's two come together */
        turns_end_by_chance = true;
        message("1");
        turns_end_by_chance = false;
        message("0");
        return;
    }
    message(rdl__news_count(news) ? "1" : "0");
}

static void sleeps(const char *letters, enum rdl__news news)
{
    passes_ns = 0;
    wish(letters, 1, news, false);
    join(letters);
    acknowledge();
    rdl__waiter_told(waiter(letters[0]), 0);
    cr_assert(refused(letters[0]));
    trail[0] = asked[0] = '\0';
}

static const enum rdl__news raced_for[] = {RDL__NEWS_WAKE, RDL__NEWS_TOTAL, RDL__NEWS_SOME, RDL__NEWS_ALONE};

enum { KINDS = sizeof raced_for / sizeof *raced_for };

/* Of each kind: it was freed, and the client of the one who waits lets others pass; what comes then, after which it has
 * tried. */
static void check_lets_pass_and_tries(void (*then)(enum rdl__news news))
{
    for (int i = 0; i < KINDS; i++) {
        sleeps("a", raced_for[i]);
        passes_ns = PASS_NS;
        is_freed(raced_for[i]);
        cr_assert_str_eq(asked, "1", "%d", i);
        cr_assert_str_eq(trail, "", "%d", i);
        then(raced_for[i]);
        cr_assert_str_eq(trail, "a", "%d", i);
        go_away('a', true);
        rdl__waiters_sweep(&waiters);
    }
}

static void time_is_over(enum rdl__news news)
{
    fake_loop_run(&loop, loop.now + PASS_NS - 1);
    cr_assert_str_eq(trail, "", "%d", news);
    fake_loop_run(&loop, loop.now + 1);
}

Test(waiters, whose_client_lets_others_pass_tries_when_the_time_for_that_is_over)
{
    check_lets_pass_and_tries(time_is_over);
}

static void turn_has_come(enum rdl__news news)
{
    passes_ns = 0;
    is_freed(news);
}

Test(waiters, whose_client_lets_others_pass_tries_at_the_next_release_if_it_is_its_turn)
{
    check_lets_pass_and_tries(turn_has_come);
}

static void others_come_back(enum rdl__news news)
{
    for (int n = 1; n < 7; n++) {
        fake_loop_run(&loop, loop.now + PASS_NS / 7);
        is_freed(news);
    }
    cr_assert_str_eq(trail, "", "%d", news);
    fake_loop_run(&loop, loop.now + PASS_NS / 7);
}

/* Others' releases may come for ever. */
Test(waiters, whose_client_lets_others_pass_does_so_for_no_longer_than_it_was_to_be_at_first)
{
    check_lets_pass_and_tries(others_come_back);
}

/* Java's `1` is a release, and so are the two of a writer of ours. */
Test(waiters, each_writer_that_frees_it_is_let_pass_once)
{
    sleeps("a", RDL__NEWS_ALONE);
    passes_ns = PASS_NS;
    is_freed(RDL__NEWS_ALONE);
    message("1");
    is_freed(RDL__NEWS_ALONE);
    cr_assert_str_eq(asked, "111");
    cr_assert_str_eq(trail, "");
}

Test(waiters, readers_release_ends_that_writers_let_others_pass)
{
    sleeps("a", RDL__NEWS_ALONE);
    passes_ns = PASS_NS;
    is_freed(RDL__NEWS_ALONE);
    message("0");
    cr_assert_str_eq(trail, "a");
}

Test(waiters, who_is_told_that_all_may_try_lets_nobody_pass)
{
    sleeps("ab", RDL__NEWS_WAKE);
    passes_ns = PASS_NS;
    is_freed(RDL__NEWS_WAKE);
    message("1");
    cr_assert_str_eq(trail, "ab");
}

/* One was told to try by a release, and has not gone yet when the next one is heard. */
Test(waiters, whose_client_lets_others_pass_does_not_go_by_an_earlier_word)
{
    sleeps("ab", RDL__NEWS_WAKE);
    turns_end_by_chance = true;
    is_freed(RDL__NEWS_WAKE);
    passes_ns = PASS_NS;
    is_freed(RDL__NEWS_WAKE);
    turns_end_by_chance = false;
    end_turn();
    cr_assert_str_eq(trail, "");
    fake_loop_run(&loop, loop.now + PASS_NS);
    cr_assert_str_eq(trail, "a");
}

Test(waiters, refusal_that_a_release_for_others_has_overtaken_is_not_followed_by_a_try_at_once)
{
    sleeps("ab", RDL__NEWS_WAKE);
    is_freed(RDL__NEWS_WAKE);
    passes_ns = PASS_NS;
    is_freed(RDL__NEWS_WAKE);
    cr_assert(refused('a'));
    cr_assert_str_eq(trail, "a");
    fake_loop_run(&loop, loop.now + PASS_NS);
    cr_assert_str_eq(trail, "aa");
}

Test(waiters, readers_come_in_while_their_clients_writers_let_others_pass)
{
    wish("a", 1, RDL__NEWS_ALONE, false);
    wish("b", 1, RDL__NEWS_SHARED, false);
    join("ab");
    acknowledge();
    cr_assert(refused('a') && refused('b'));
    trail[0] = '\0';
    passes_ns = PASS_NS;
    is_freed(RDL__NEWS_ALONE);
    cr_assert_str_eq(trail, "b");
}

/* All readers that come in together are one turn, and writers have few enough. */
Test(waiters, writers_let_no_readers_pass)
{
    sleeps("a", RDL__NEWS_ALONE);
    passes_ns = PASS_NS;
    message("0");
    cr_assert_str_eq(trail, "a");
    cr_assert_str_eq(asked, "");
}

/* A client that lets many pass does so for longer than Java is given. */
Test(waiters, turn_of_javas_writers_lasts_as_long_whatever_else_is_let_pass)
{
    sleeps("a", RDL__NEWS_ALONE);
    is_freed(RDL__NEWS_ALONE);
    cr_assert(refused('a'));
    message("1"); /* Java's alone */
    cr_assert(refused('a'));
    trail[0] = '\0';
    passes_ns = PASS_NS;
    is_freed(RDL__NEWS_ALONE);
    fake_loop_run(&loop, loop.now + RDL__TURN_MS * RDL__MS - 1);
    cr_assert_str_eq(trail, "");
    fake_loop_run(&loop, loop.now + 1);
    cr_assert_str_eq(trail, "a");
}

/* Ours and Java's by turns: each of ours would begin Java's turn anew. */
Test(waiters, javas_turns_do_not_add_up_while_others_are_let_pass)
{
    sleeps("a", RDL__NEWS_ALONE);
    is_freed(RDL__NEWS_ALONE);
    cr_assert(refused('a'));
    message("1"); /* Java's alone */
    cr_assert(refused('a'));
    trail[0] = '\0';
    passes_ns = 100 * RDL__MS;
    for (int i = 0; i < 3; i++) {
        is_freed(RDL__NEWS_ALONE);
        message("1");
        fake_loop_run(&loop, loop.now + RDL__MS);
        cr_assert_str_eq(trail, "");
    }
    is_freed(RDL__NEWS_ALONE);
    fake_loop_run(&loop, loop.now + (RDL__TURN_MS - 3) * RDL__MS);
    cr_assert_str_eq(trail, "a");
}

Test(waiters, who_is_refused_when_it_was_its_turn_does_not_look_when_it_was_to_let_others_pass)
{
    sleeps("a", RDL__NEWS_WAKE);
    passes_ns = PASS_NS;
    is_freed(RDL__NEWS_WAKE);
    passes_ns = 0;
    is_freed(RDL__NEWS_WAKE);
    cr_assert(refused('a'));
    fake_loop_run(&loop, loop.now + PASS_NS);
    cr_assert_str_eq(trail, "a");
}

Test(waiters, what_may_have_been_missed_makes_also_those_try_who_let_others_pass)
{
    sleeps("a", RDL__NEWS_WAKE);
    passes_ns = PASS_NS;
    is_freed(RDL__NEWS_WAKE);
    acknowledge();
    cr_assert_str_eq(trail, "a");
}

Test(waiters, who_is_next_when_one_is_let_in_meanwhile_waits_for_no_time)
{
    sleeps("ab", RDL__NEWS_SOME);
    is_freed(RDL__NEWS_SOME);
    passes_ns = PASS_NS;
    is_freed(RDL__NEWS_SOME);
    cr_assert_str_eq(trail, "a");
    go_away('a', true);
    cr_assert_str_eq(trail, "ab");
}

Test(waiters, who_stands_in_a_queue_lets_nobody_pass)
{
    wish("a", 1, RDL__NEWS_TOTAL, true);
    join("a");
    acknowledge();
    rdl__waiter_told(waiter('a'), 0);
    cr_assert(refused('a'));
    trail[0] = asked[0] = '\0';
    passes_ns = PASS_NS;
    message("1");
    cr_assert_str_eq(trail, "a");
    cr_assert_str_eq(asked, "");
}
