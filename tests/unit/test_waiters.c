/* SPDX-License-Identifier: MIT */
/* test_waiters.c - whom a message wakes, and that nobody sleeps beside a free lock (protocol.md, 5). */
#include "tests/unit/waiting.h"

TestSuite(waiters, .init = set_up, .fini = tear_down, .timeout = 120);

/* ---- rule 1: the epoch ------------------------------------------------------------------------------------------ */

Test(waiters, a_refusal_puts_to_sleep_when_nothing_came_since_the_try_was_sent)
{
    all_asleep("a");
    message("0");
    cr_assert_str_eq(trail, "a");
    cr_assert(refused('a'));
    message("0");
    cr_assert_str_eq(trail, "aa");
}

Test(waiters, a_refusal_that_a_message_has_overtaken_is_no_refusal)
{
    all_asleep("a");
    message("0");
    message("0"); /* while a's try is under way */
    cr_assert_not(refused('a'));
    rdl__waiter_sent(waiter('a'));
    cr_assert(refused('a'));
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_message_that_came_before_the_try_was_sent_does_not_count)
{
    all_asleep("a");
    message("0");
    message("0");
    rdl__waiter_sent(waiter('a')); /* only now */
    cr_assert(refused('a'));
}

Test(waiters, an_overtaken_refusal_counts_for_everybody_whose_try_is_under_way)
{
    all_asleep("abc");
    message("0");
    message("0");
    cr_assert_str_eq(trail, "ab");
    cr_assert_not(refused('a')); /* b's message came after a's try was sent */
    cr_assert(refused('b'));
}

/* ---- when the message came that woke a waiter ------------------------------------------------------------------- */

Test(waiters, who_is_woken_by_a_message_knows_when_it_came_and_who_is_woken_otherwise_that_none_did)
{
    int64_t came;

    all_asleep("ab");
    cr_assert_eq(waiter('a')->news_at, 0);
    loop.now += RDL__MS;
    came = loop.now;
    message("0");
    cr_assert_eq(waiter('a')->news_at, came);
    cr_assert_eq(waiter('b')->news_at, 0);
    loop.now += RDL__MS;
    go_away('a', false); /* the wake-up is handed on */
    cr_assert_eq(waiter('b')->news_at, came);
    cr_assert(refused('b'));
    fake_loop_run(&loop, loop.now + 5 * RDL__SEC); /* the hint */
    cr_assert_str_eq(trail, "abb");
    cr_assert_eq(waiter('b')->news_at, 0);
    cr_assert(refused('b'));
    acknowledge();
    cr_assert_eq(waiter('b')->news_at, 0);
    loop.now += RDL__MS;
    message("0");
    cr_assert_not(refused('b')); /* the message came while its try was under way */
    cr_assert_eq(waiter('b')->news_at, loop.now);
}

/* ---- rule 2: acknowledgements ----------------------------------------------------------------------------------- */

Test(waiters, the_acknowledgement_of_the_subscription_makes_a_sleeper_try)
{
    join("a");
    cr_assert_str_eq(trail, "");
    acknowledge();
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_repeated_acknowledgement_makes_a_sleeper_try)
{
    all_asleep("ab");
    acknowledge();
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_refusal_that_an_acknowledgement_has_overtaken_is_no_refusal)
{
    all_asleep("a");
    message("0");
    acknowledge(); /* what was published while the subscription was away is not known */
    cr_assert_not(refused('a'));
}

/* ---- rule 3: the hint ------------------------------------------------------------------------------------------- */

Test(waiters, the_hint_wakes_the_first_at_its_moment)
{
    join_hint('a', 300);
    join("b");
    fake_loop_run(&loop, T0 + 300 * RDL__MS - 1);
    cr_assert_str_eq(trail, "");
    fake_loop_run(&loop, T0 + 300 * RDL__MS);
    cr_assert_str_eq(trail, "a");
}

Test(waiters, an_unknown_or_distant_hint_is_five_seconds)
{
    static const int64_t hints[] = {-1, 5001, 86400000, INT64_MAX};

    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        int64_t joined = loop.now;

        trail[0] = '\0';
        join_hint('a', hints[i]);
        fake_loop_run(&loop, joined + 5 * RDL__SEC - 1);
        cr_assert_str_eq(trail, "");
        fake_loop_run(&loop, joined + 5 * RDL__SEC);
        cr_assert_str_eq(trail, "a");
        go_away('a', false);
    }
}

Test(waiters, a_hint_of_nothing_does_not_spin)
{
    join_hint('a', 0);
    fake_loop_run(&loop, T0);
    cr_assert_str_eq(trail, "");
    fake_loop_run(&loop, T0 + RDL__MS);
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_refusal_sets_the_hint_anew)
{
    join_hint('a', 100);
    fake_loop_run(&loop, T0 + 100 * RDL__MS);
    cr_assert(rdl__waiter_refused(waiter('a'), 250, loop.now));
    fake_loop_run(&loop, T0 + 350 * RDL__MS - 1);
    cr_assert_str_eq(trail, "a");
    fake_loop_run(&loop, T0 + 350 * RDL__MS);
    cr_assert_str_eq(trail, "aa");
}

Test(waiters, the_hint_goes_on_for_the_others_when_the_woken_one_gets_no_answer)
{
    join_hint('a', 100);
    join("b");
    fake_loop_run(&loop, T0 + 100 * RDL__MS);
    cr_assert_str_eq(trail, "a");
    fake_loop_run(&loop, T0 + 100 * RDL__MS + 5 * RDL__SEC);
    cr_assert_str_eq(trail, "ab");
}

Test(waiters, the_hint_is_the_channels_and_outlives_who_brought_it)
{
    join_hint('a', 100);
    join("b");
    go_away('a', false);
    fake_loop_run(&loop, T0 + 100 * RDL__MS);
    cr_assert_str_eq(trail, "b");
}

/* ---- rule 4: handing on ----------------------------------------------------------------------------------------- */

Test(waiters, who_leaves_with_an_unused_wake_up_hands_it_on)
{
    all_asleep("abc");
    message("0");
    go_away('a', false);
    cr_assert_str_eq(trail, "ab");
    go_away('b', false);
    cr_assert_str_eq(trail, "abc");
}

Test(waiters, who_leaves_from_inside_the_wake_up_hands_it_on)
{
    all_asleep("abc");
    sleepers[0].reaction = sleepers[1].reaction = LEAVES;
    message("0");
    cr_assert_str_eq(trail, "abc");
    cr_assert(refused('c'));
}

Test(waiters, who_was_let_in_hands_nothing_on)
{
    all_asleep("ab");
    message("0");
    go_away('a', true);
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_wake_up_that_was_answered_by_a_refusal_is_used)
{
    all_asleep("ab");
    message("0");
    cr_assert(refused('a'));
    go_away('a', false);
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_wake_up_whose_refusal_was_overtaken_is_unused)
{
    all_asleep("ab");
    message("0");
    acknowledge(); /* wakes b */
    cr_assert_not(refused('a'));
    cr_assert(refused('b'));
    go_away('a', false);
    cr_assert_str_eq(trail, "abb");
}

Test(waiters, who_leaves_asleep_wakes_nobody)
{
    all_asleep("ab");
    go_away('a', false);
    cr_assert_str_eq(trail, "");
    message("0");
    cr_assert_str_eq(trail, "b");
}

Test(waiters, a_wake_up_by_the_hint_is_handed_on_as_well)
{
    join_hint('a', 100);
    join("b");
    fake_loop_run(&loop, T0 + 100 * RDL__MS);
    go_away('a', false);
    cr_assert_str_eq(trail, "ab");
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

Test(waiters, zero_wakes_one_and_in_order)
{
    all_asleep("abc");
    message("0");
    message("0");
    cr_assert_str_eq(trail, "ab");
}

Test(waiters, one_wakes_all_who_sleep_now)
{
    all_asleep("abcd");
    message("1");
    cr_assert_str_eq(trail, "abcd");
    message("1");
    cr_assert_str_eq(trail, "abcd");
}

Test(waiters, one_wakes_all_although_some_leave_meanwhile)
{
    all_asleep("abcd");
    sleepers[0].reaction = LEAVES;
    sleepers[2].reaction = LEAVES_USED;
    message("1");
    cr_assert_str_eq(trail, "abcd");
    cr_assert(refused('b'));
}

Test(waiters, one_wakes_all_and_the_last_to_leave_takes_the_channel_along)
{
    all_asleep("abc");
    for (int i = 0; i < 3; i++)
        sleepers[i].reaction = LEAVES;
    message("1");
    cr_assert_str_eq(trail, "abc");
    cr_assert_eq(sub.count, 0);
    cr_assert_eq(waiters.channels.count, 0);
}

Test(waiters, other_payloads_mean_nothing)
{
    static const struct {
        const char *bytes;
        size_t len;
    } payloads[] = {
        {.bytes = "", .len = 0},   {.bytes = "2", .len = 1},   {.bytes = "00", .len = 2}, {.bytes = "1\n", .len = 2},
        {.bytes = "-1", .len = 2}, {.bytes = "0\0", .len = 2}, {.bytes = "\0", .len = 1}, {.bytes = "x", .len = 1},
    };

    all_asleep("ab");
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++)
        publish(payloads[i].bytes, payloads[i].len);
    cr_assert_str_eq(trail, "");
    message("0");
    publish("2", 1);
    cr_assert(refused('a')); /* nor do they overtake a refusal */
}

Test(waiters, who_goes_back_to_sleep_keeps_its_place)
{
    all_asleep("abc");
    message("0");
    cr_assert(refused('a'));
    message("0");
    cr_assert_str_eq(trail, "aa");
}

/* ---- channels --------------------------------------------------------------------------------------------------- */

Test(waiters, a_channel_is_subscribed_while_somebody_waits)
{
    join("a");
    cr_assert_eq(sub.count, 1);
    cr_assert_eq(sub.topics[0]->node.key_len, 2);
    cr_assert_arr_eq(sub.topics[0]->node.key, "ch", 2);
    join("b");
    cr_assert_eq(sub.count, 1);
    go_away('a', false);
    cr_assert_eq(sub.count, 1);
    go_away('b', false);
    cr_assert_eq(sub.count, 0);
}

Test(waiters, those_who_only_poll_meet_without_a_subscription_and_ask_as_often_as_all_of_them)
{
    waiter('a')->news = waiter('b')->news = RDL__NEWS_NONE;
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('a'), "ch", 2, 30, T0), RDL_OK);
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('b'), "ch", 2, 50, T0), RDL_OK);
    cr_assert_eq(sub.count, 0);
    fake_loop_run(&loop, T0 + 24 * RDL__MS);
    cr_assert_str_eq(trail, "");
    fake_loop_run(&loop, T0 + 25 * RDL__MS);
    cr_assert_str_eq(trail, "a");
    cr_assert(rdl__waiter_refused(waiter('a'), 40, loop.now));
    fake_loop_run(&loop, T0 + 44 * RDL__MS);
    cr_assert_str_eq(trail, "a");
    fake_loop_run(&loop, T0 + 45 * RDL__MS);
    cr_assert_str_eq(trail, "aa");
    go_away('a', false); /* its wake-up goes to the next */
    cr_assert_str_eq(trail, "aab");
}

Test(waiters, who_is_granted_what_is_polled_for_has_the_next_one_ask_for_all)
{
    waiter('a')->news = waiter('b')->news = RDL__NEWS_NONE;
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('a'), "ch", 2, 30, T0), RDL_OK);
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('b'), "ch", 2, 50, T0), RDL_OK);
    fake_loop_run(&loop, T0 + 25 * RDL__MS);
    cr_assert_str_eq(trail, "a");
    rdl__waiter_hint(waiter('a'), 100, loop.now);
    go_away('a', true);
    fake_loop_run(&loop, T0 + 74 * RDL__MS);
    cr_assert_str_eq(trail, "a");
    fake_loop_run(&loop, T0 + 75 * RDL__MS);
    cr_assert_str_eq(trail, "ab");
}

Test(waiters, names_are_bytes_and_channels_do_not_mix)
{
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('a'), "x\0y", 3, -1, T0), RDL_OK);
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('b'), "x\0z", 3, -1, T0), RDL_OK);
    cr_assert_eq(sub.count, 2);
    sub.topics[1]->ops->message(sub.topics[1], "1", 1, T0);
    (void)turn();
    cr_assert_str_eq(trail, "b");
}

Test(waiters, leaving_without_having_joined_is_nothing)
{
    rdl__waiter_sent(waiter('a'));
    go_away('a', false);
    go_away('a', true);
    cr_assert_str_eq(trail, "");
}

Test(waiters, joining_without_memory_fails_and_leaves_nothing)
{
    counting_alloc_fail_at(&counting, 1);
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('a'), "ch", 2, -1, T0), RDL_ENOMEM);
    cr_assert_eq(sub.count, 0);
    go_away('a', false);
    join("a");
    cr_assert_eq(sub.count, 1);
}

Test(waiters, ten_thousand_channels_come_and_go)
{
    static struct sleeper many[TOPICS_MAX];

    for (int i = 0; i < TOPICS_MAX; i++) {
        char name[16];
        size_t len = (size_t)snprintf(name, sizeof name, "ch:%d", i);

        rdl__waiter_init(&many[i].waiter, &sleeper_ops);
        cr_assert_eq(rdl__waiter_join(&waiters, &many[i].waiter, name, len, -1, T0), RDL_OK);
    }
    cr_assert_eq(sub.count, TOPICS_MAX);
    for (int i = 0; i < TOPICS_MAX; i++)
        rdl__waiter_leave(&many[i].waiter, false, T0);
    cr_assert_eq(sub.count, 0);
}

static void refused_with(char letter, int64_t total)
{
    rdl__waiter_told(waiter(letter), total);
    cr_assert(refused(letter));
}

Test(waiters, total_wakes_in_order_all_whose_wishes_fit)
{
    wish("a", 5, RDL__NEWS_TOTAL, false);
    wish("bcd", 1, RDL__NEWS_TOTAL, false);
    join("abcd");
    message("2");
    cr_assert_str_eq(trail, "bc");
}

Test(waiters, answer_tells_the_others_what_is_left)
{
    wish("a", 3, RDL__NEWS_SOME, false);
    wish("bc", 1, RDL__NEWS_SOME, false);
    join("abc");
    message("7");
    cr_assert_str_eq(trail, "a");
    refused_with('a', 2);
    cr_assert_str_eq(trail, "abc");
    refused_with('c', 0);
    cr_assert_str_eq(trail, "abc");
}

Test(waiters, nobody_passes_in_order_and_who_is_next_looks_when_the_first_has_left)
{
    wish("a", 3, RDL__NEWS_TOTAL, true);
    wish("b", 1, RDL__NEWS_TOTAL, true);
    join("ab");
    message("2");
    cr_assert_str_eq(trail, "");
    message("3");
    cr_assert_str_eq(trail, "a");
    rdl__waiter_told(waiter('a'), 0);
    go_away('a', true);
    cr_assert_str_eq(trail, "ab");
}

Test(waiters, news_for_all_wakes_all_and_odd_totals_nobody)
{
    wish("abc", 1, RDL__NEWS_ALL, false);
    join("abc");
    message("0");
    cr_assert_str_eq(trail, "abc");
    for (const char *letter = "abc"; *letter != '\0'; letter++)
        go_away(*letter, true);
    trail[0] = '\0';
    wish("a", 1, RDL__NEWS_TOTAL, false);
    join("a");
    message("0");
    message("-3");
    message("x");
    cr_assert_str_eq(trail, "");
}

/* ---- a channel of one's own ------------------------------------------------------------------------------------- */

/* Come to one's own channel after a try that was sent at `tried_at` and refused. */
static int come_home(char letter, int64_t tried_at)
{
    waiter(letter)->news = RDL__NEWS_OWN;
    waiter(letter)->tried_at = tried_at;
    return rdl__waiter_join(&waiters, waiter(letter), "home", 4, -1, loop.now);
}

static void acknowledge_now(void)
{
    sub.topics[0]->confirmed = true;
    acknowledge();
}

/* It has waited there, and left. */
static void has_been_home(char letter)
{
    cr_assert_eq(come_home(letter, loop.now), RDL_OK);
    acknowledge_now();
    go_away(letter, true);
    trail[0] = '\0';
}

static void expect_said(char letter, const char *words)
{
    size_t len;
    const char *said = rdl__waiter_message(waiter(letter), &len);

    cr_assert_eq(len, strlen(words));
    cr_assert(len == 0 || memcmp(said, words, len) == 0);
}

Test(waiters, own_channel_stays_subscribed_for_a_while_for_who_comes_again)
{
    has_been_home('a');
    cr_assert_eq(sub.count, 1);
    fake_loop_run(&loop, T0 + (RDL__LINGER_MS - 1) * RDL__MS);
    cr_assert_eq(sub.count, 1);
    fake_loop_run(&loop, T0 + RDL__LINGER_MS * RDL__MS);
    cr_assert_eq(sub.count, 0);
    cr_assert_str_eq(trail, "");
}

Test(waiters, who_comes_again_sleeps_if_nothing_was_heard_since_its_try_and_then_the_channel_stays)
{
    has_been_home('a');
    fake_loop_run(&loop, T0 + 4000 * RDL__MS);
    cr_assert_eq(come_home('a', T0 + 1), RDL_OK);
    fake_loop_run(&loop, T0 + RDL__LINGER_MS * RDL__MS);
    cr_assert_eq(sub.count, 1);
    cr_assert_str_eq(trail, "");
    message("7:1:0");
    cr_assert_str_eq(trail, "a");
    expect_said('a', "7:1:0");
}

Test(waiters, who_comes_again_looks_at_once_if_anything_was_heard_since_its_try)
{
    has_been_home('a');
    cr_assert_eq(come_home('a', T0), 1); /* acknowledged at that moment, or after it */
    go_away('a', true);
    loop.now = T0 + 10;
    message("7:1:0");
    cr_assert_eq(come_home('a', T0 + 5), 1);
    expect_said('a', "7:1:0");
    go_away('a', true);
    cr_assert_eq(come_home('a', T0 + 11), RDL_OK);
}

Test(waiters, who_comes_again_without_a_try_looks_at_once)
{
    has_been_home('a');
    cr_assert_eq(come_home('a', 0), 1);
}

Test(waiters, who_comes_again_to_a_broken_subscription_is_woken_by_its_acknowledgement)
{
    has_been_home('a');
    sub.topics[0]->confirmed = false;
    cr_assert_eq(come_home('a', T0), RDL_OK);
    acknowledge_now();
    cr_assert_str_eq(trail, "a");
}

static int come_to_write(char letter, int64_t tried_at)
{
    waiter(letter)->news = RDL__NEWS_ALONE;
    waiter(letter)->tried_at = tried_at;
    return rdl__waiter_join(&waiters, waiter(letter), "ch", 2, -1, loop.now);
}

Test(waiters, writer_who_comes_again_sleeps_if_nothing_was_heard_since_its_try)
{
    cr_assert_eq(come_to_write('a', T0), RDL_OK);
    acknowledge_now();
    go_away('a', true);
    trail[0] = '\0';
    fake_loop_run(&loop, T0 + (RDL__CLIENT_LINGER_MS - 1) * RDL__MS);
    cr_assert_eq(sub.count, 1);
    cr_assert_eq(come_to_write('a', T0 + 1), RDL_OK);
    message("0");
    cr_assert_str_eq(trail, "a");
}

Test(waiters, writers_channel_stays_until_it_has_heard_so_much)
{
    cr_assert_eq(come_to_write('a', T0), RDL_OK);
    acknowledge_now();
    go_away('a', true);
    loop.now = T0 + 10;
    message("0");
    cr_assert_eq(come_to_write('b', T0 + 9), 1, "it was sent after its refused try");
    go_away('b', true);
    for (int i = 1; i < RDL__LINGER_HEARD; i++)
        message("0");
    fake_loop_run(&loop, T0 + 11);
    cr_assert_eq(sub.count, 1);
    message("0");
    fake_loop_run(&loop, T0 + 11);
    cr_assert_eq(sub.count, 0);
}

static void writers_sleep(void)
{
    wish("ab", 1, RDL__NEWS_ALONE, false);
    all_asleep("ab");
}

/* Both messages come together. */
static void writer_of_ours_frees_it(void)
{
    turns_end_by_chance = true;
    message("1");
    turns_end_by_chance = false;
    message("0");
}

static void writer_of_javas_frees_it_for_a(void)
{
    trail[0] = '\0';
    message("1");
    cr_assert_str_eq(trail, "a");
    cr_assert(refused('a'));
}

static void expect_both_woken(void)
{
    trail[0] = '\0';
    writer_of_ours_frees_it();
    cr_assert_str_eq(trail, "ab");
    cr_assert(refused('a') && refused('b'));
}

static void expect_to_stand_back(void)
{
    trail[0] = '\0';
    writer_of_ours_frees_it();
    fake_loop_run(&loop, loop.now + RDL__TURN_MS * RDL__MS - 1);
    cr_assert_str_eq(trail, "");
    fake_loop_run(&loop, loop.now + 1);
    cr_assert_str_eq(trail, "a");
    cr_assert(refused('a'));
}

Test(waiters, writers_stand_back_for_a_moment_when_ours_have_had_more_turns_than_javas)
{
    writers_sleep();
    expect_both_woken(); /* there is nobody else */
    writer_of_javas_frees_it_for_a();
    expect_to_stand_back();
    for (int i = 0; i < 3; i++)
        writer_of_javas_frees_it_for_a();
    expect_both_woken(); /* ours have had one less, */
    expect_both_woken(); /* and as many */
    for (int i = 0; i < 4; i++)
        expect_to_stand_back(); /* Java does not come */
    expect_both_woken();
}

Test(waiters, writers_that_stand_back_try_as_soon_as_java_frees_it)
{
    writers_sleep();
    expect_both_woken();
    writer_of_javas_frees_it_for_a();
    trail[0] = '\0';
    writer_of_ours_frees_it();
    cr_assert_str_eq(trail, "");
    writer_of_javas_frees_it_for_a();
}

Test(waiters, who_is_refused_while_writers_stand_back_does_not_put_their_next_try_off)
{
    writers_sleep();
    expect_both_woken();
    writer_of_javas_frees_it_for_a();
    trail[0] = '\0';
    writer_of_ours_frees_it();
    wish("c", 1, RDL__NEWS_SHARED, false);
    sub.topics[0]->confirmed = true;
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('c'), "ch", 2, -1, loop.now), 1);
    rdl__waiter_sent(waiter('c'));
    cr_assert(refused('c'));
    fake_loop_run(&loop, loop.now + RDL__TURN_MS * RDL__MS);
    cr_assert_str_eq(trail, "ac");
}

Test(waiters, readers_come_in_beside_one_that_is_let_in_while_writers_stand_back)
{
    writers_sleep();
    wish("cd", 1, RDL__NEWS_SHARED, false);
    join("cd");
    writer_of_ours_frees_it(); /* all are told to go */
    cr_assert(refused('a') && refused('b') && refused('c') && refused('d'));
    message("1");
    cr_assert(refused('a') && refused('c'));
    trail[0] = '\0';
    writer_of_ours_frees_it();
    cr_assert_str_eq(trail, "");
    go_away('c', true);
    cr_assert_str_eq(trail, "d");
}

Test(waiters, words_are_kept_as_they_came_and_cut_where_they_are_too_long)
{
    char many[RDL__MESSAGE_KEPT + 2];

    memset(many, 'x', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    expect_said('a', "");
    cr_assert_eq(come_home('a', T0), RDL_OK);
    expect_said('a', "");
    message(many);
    many[RDL__MESSAGE_KEPT] = '\0';
    expect_said('a', many);
    message("0");
    expect_said('a', "0");
}

Test(waiters, no_more_than_so_many_channels_linger_and_the_oldest_go)
{
    static struct sleeper many[RDL__LINGER_MAX + 1];
    char name[24];

    for (int i = 0; i <= RDL__LINGER_MAX; i++) {
        (void)snprintf(name, sizeof name, "home:%02d", i);
        rdl__waiter_init(&many[i].waiter, &sleeper_ops);
        many[i].waiter.news = RDL__NEWS_OWN;
        cr_assert_eq(rdl__waiter_join(&waiters, &many[i].waiter, name, strlen(name), -1, T0), RDL_OK);
    }
    for (int i = 0; i <= RDL__LINGER_MAX; i++)
        rdl__waiter_leave(&many[i].waiter, true, T0);
    cr_assert_eq(sub.count, RDL__LINGER_MAX);
    for (size_t i = 0; i < sub.count; i++)
        cr_assert_neq(memcmp(sub.topics[i]->node.key, "home:00", 7), 0);
    rdl__waiters_sweep(&waiters);
    cr_assert_eq(sub.count, 0);
}

Test(waiters, nothing_lingers_when_that_is_closed)
{
    has_been_home('a');
    rdl__waiters_close(&waiters);
    cr_assert_eq(sub.count, 0);
    has_been_home('a');
    cr_assert_eq(sub.count, 0);
}

/* ---- listeners -------------------------------------------------------------------------------------------------- */

static void listens(char letter)
{
    sleepers[letter - 'a'].reaction = LISTENS;
    waiter(letter)->listens = true;
}

Test(waiters, listeners_hear_every_message_and_acknowledgement_and_take_nobodys_turn)
{
    listens('a');
    listens('d');
    join("abcd");
    acknowledge();
    cr_assert_str_eq(trail, "bad");
    cr_assert(refused('b'));
    trail[0] = '\0';
    message("0");
    cr_assert_str_eq(trail, "bad");
    message("0");
    cr_assert_str_eq(trail, "badcad");
    message("something else");
    cr_assert_str_eq(trail, "badcadad");
}

Test(waiters, listener_hears_nothing_of_the_hint_and_sets_none)
{
    listens('a');
    join("a");
    join_hint('b', 100);
    acknowledge();
    cr_assert(rdl__waiter_refused(waiter('b'), 100, loop.now));
    message("something else"); /* after which the listener goes back to sleep */
    trail[0] = '\0';
    fake_loop_run(&loop, loop.now + 100 * RDL__MS);
    cr_assert_str_eq(trail, "b");
}

/* A message that came after its refusal found only the listener. */
Test(waiters, first_to_join_a_listener_tries_once_more)
{
    listens('a');
    join("a");
    acknowledge();
    sub.topics[0]->confirmed = true;
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('b'), "ch", 2, -1, loop.now), 1);
    rdl__waiter_sent(waiter('b'));
    cr_assert(refused('b'));
    join("c"); /* what wakes the other reaches it in turn */
}

Test(waiters, who_joins_to_listen_to_a_confirmed_channel_is_told_at_once)
{
    all_asleep("b");
    sub.topics[0]->confirmed = true;
    listens('a');
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('a'), "ch", 2, -1, loop.now), 1);
}

Test(waiters, listener_that_leaves_when_told_takes_the_channel_along)
{
    listens('a');
    join("a");
    sleepers[0].reaction = LEAVES;
    acknowledge();
    cr_assert_eq(sub.count, 0);
}
