/* SPDX-License-Identifier: MIT */
/* test_keep.c - the machine of a lock that stays with its client: events in, decisions out. */
#include "core/call/keep.h"

#include "core/base/clock.h"

#include <criterion/criterion.h>

#define CACHE_MS 1000

static struct rdl__keep keep;
static int64_t now, number;

static void set_up(void)
{
    keep = (struct rdl__keep){0};
    now = 1000 * RDL__SEC;
    number = 0;
    rdl__keep_heard(&keep);
}

TestSuite(keep, .init = set_up, .timeout = 10);

static enum rdl__keep_entry come(bool free)
{
    return rdl__keep_enter(&keep, free, RDL__WAITS_LONG, now);
}

/* As many takes as it needs, and the last of them is granted. */
static int until_kept(void)
{
    int takes = 1;

    while (come(true) == RDL__ENTRY_ASK)
        takes++;
    cr_assert_eq(keep.state, RDL__KEEP_TAKING);
    rdl__keep_granted(&keep, --number, now, CACHE_MS);
    return takes;
}

static void assert_given(enum rdl__keep_end end)
{
    cr_assert_eq(keep.state, RDL__KEEP_GIVING);
    cr_assert_eq(keep.end, end);
    cr_assert(!keep.begun);
}

Test(keep, is_kept_from_the_second_take_on)
{
    cr_assert_eq(until_kept(), 2);
    cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_IDLE);
    cr_assert_eq(come(true), RDL__ENTRY_IN);
    cr_assert_eq(keep.state, RDL__KEEP_HELD);
}

/* It keeps nobody out but who wants the other end, and one reader who is let in pays for the recall. */
Test(keep, what_is_shared_is_kept_from_the_first_take_on_while_one_more_comes_in)
{
    keep.shared = true;
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(until_kept(), 1);
        cr_assert_eq(come(true), RDL__ENTRY_IN);
        cr_assert(rdl__keep_recalled(&keep, number, now));
        cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_GIVE);
        rdl__keep_given(&keep, now, RDL__MS, 0);
        cr_assert(rdl__keep_pause_over(&keep, now += RDL__MS));
    }
    for (int takes = 1; takes < 100; takes = takes == 1 ? 2 : 2 * takes - 1) {
        cr_assert_eq(until_kept(), takes);
        cr_assert(rdl__keep_recalled(&keep, number, now));
        cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_GIVE);
        rdl__keep_given(&keep, now, RDL__MS, 0);
        cr_assert(rdl__keep_pause_over(&keep, now += RDL__MS));
    }
}

Test(keep, is_not_kept_unless_recalls_are_heard)
{
    rdl__keep_unheard(&keep);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(come(true), RDL__ENTRY_ASK);
}

Test(keep, subscription_that_was_confirmed_after_the_take_was_sent_does_not_count)
{
    (void)come(true);
    cr_assert_eq(come(true), RDL__ENTRY_TAKE);
    rdl__keep_unheard(&keep);
    rdl__keep_heard(&keep);
    rdl__keep_granted(&keep, -1, now, CACHE_MS);
    cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_GIVE);
    assert_given(RDL__END_UNHEARD);
}

Test(keep, cut_of_the_subscription_ends_what_is_kept_and_no_pass_is_made)
{
    (void)until_kept();
    rdl__keep_unheard(&keep);
    rdl__keep_heard(&keep); /* anew: holds of before do not count again */
    cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_GIVE);
    assert_given(RDL__END_UNHEARD);
    rdl__keep_given(&keep, now, RDL__MS, 0);
    cr_assert_eq(keep.state, RDL__KEEP_NONE); /* nobody is known to want it */
}

Test(keep, recall_of_an_idle_lock_gives_it_back)
{
    (void)until_kept();
    cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_IDLE);
    cr_assert(rdl__keep_recalled(&keep, number, now));
    cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_GIVE);
    assert_given(RDL__END_RECALLED);
}

Test(keep, recall_that_overtakes_the_grant_counts)
{
    (void)come(true);
    cr_assert_eq(come(true), RDL__ENTRY_TAKE);
    cr_assert(!rdl__keep_recalled(&keep, -7, now));
    rdl__keep_granted(&keep, -7, now, CACHE_MS);
    cr_assert(keep.wanted);
    cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_GIVE);
}

Test(keep, recall_of_another_hold_is_nothing)
{
    (void)until_kept();
    cr_assert(!rdl__keep_recalled(&keep, number - 1, now));
    cr_assert(!rdl__keep_recalled(&keep, number + 1, now));
    cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_IDLE);
    cr_assert(rdl__keep_recalled(&keep, number, now));
    cr_assert(!rdl__keep_recalled(&keep, number, now)); /* once is enough */
}

Test(keep, unwanted_lock_is_passed_on_without_end)
{
    (void)until_kept();
    for (int i = 0; i < 10000; i++)
        cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_PASS);
}

Test(keep, after_a_recall_it_is_passed_on_sixteen_times_at_most)
{
    (void)until_kept();
    (void)rdl__keep_recalled(&keep, number, now);
    for (int i = 0; i < RDL__PASSES_MOST; i++)
        cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_PASS);
    cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_GIVE);
    assert_given(RDL__END_RECALLED);
}

Test(keep, and_within_ten_milliseconds)
{
    (void)until_kept();
    (void)rdl__keep_recalled(&keep, number, now);
    cr_assert_eq(rdl__keep_emptied(&keep, true, now + RDL__PASSES_MS * RDL__MS - 1), RDL__EMPTY_PASS);
    cr_assert_eq(rdl__keep_emptied(&keep, true, now + RDL__PASSES_MS * RDL__MS), RDL__EMPTY_GIVE);
}

Test(keep, nobody_is_let_in_after_a_release_was_decided)
{
    (void)until_kept();
    (void)rdl__keep_recalled(&keep, number, now);
    cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_GIVE);
    keep.begun = true;
    cr_assert_eq(come(true), RDL__ENTRY_QUEUE);
    cr_assert_eq(rdl__keep_enter(&keep, true, RDL__WAITS_NOT, now), RDL__ENTRY_QUEUE); /* for that release */
    rdl__keep_given(&keep, now, 4 * RDL__MS, 0);
    cr_assert_eq(keep.state, RDL__KEEP_PAUSING);
    cr_assert_eq(come(true), RDL__ENTRY_QUEUE); /* it stands back */
    cr_assert_eq(rdl__keep_enter(&keep, true, RDL__WAITS_NOT, now), RDL__ENTRY_ASK);
    cr_assert(!rdl__keep_pause_over(&keep, now + 4 * RDL__MS - 1));
    cr_assert(rdl__keep_pause_over(&keep, now + 4 * RDL__MS));
    cr_assert_eq(keep.state, RDL__KEEP_NONE);
}

static void give_back(enum rdl__keep_end end)
{
    rdl__keep_give(&keep, end);
    rdl__keep_given(&keep, now, RDL__MS, 10 * RDL__MS);
}

/* As those do who poll. A Java client recalls nobody. */
Test(keep, is_not_kept_while_those_may_sleep_for_whom_it_was_given_back)
{
    static const enum rdl__keep_end ends[] = {RDL__END_RECALLED, RDL__END_OLD};

    (void)until_kept();
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        give_back(ends[i]);
        now += 10 * RDL__MS - 1;
        cr_assert(rdl__keep_pause_over(&keep, now));
        for (int k = 0; k < 100; k++)
            cr_assert_eq(come(true), RDL__ENTRY_ASK);
        now++;
        cr_assert_eq(until_kept(), 1);
    }
    give_back(RDL__END_SHORT);
    cr_assert_lt(until_kept(), 100, "nobody else wants it");
}

Test(keep, is_kept_for_cache_ms_at_most_however_busy)
{
    (void)until_kept();
    cr_assert_eq(rdl__keep_emptied(&keep, true, now + CACHE_MS * RDL__MS - 1), RDL__EMPTY_PASS);
    cr_assert_eq(rdl__keep_emptied(&keep, true, now + CACHE_MS * RDL__MS), RDL__EMPTY_GIVE);
    assert_given(RDL__END_OLD);
    rdl__keep_given(&keep, now, RDL__MS, 0);
    cr_assert_eq(keep.state, RDL__KEEP_PAUSING); /* as if recalled: those of Java cannot */
}

Test(keep, idle_lock_that_is_too_old_lets_nobody_in)
{
    (void)until_kept();
    cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_IDLE);
    now += CACHE_MS * RDL__MS;
    cr_assert_eq(come(true), RDL__ENTRY_QUEUE);
    assert_given(RDL__END_OLD);
}

Test(keep, recalled_before_two_owners_were_let_in_doubles_the_takes_until_the_next)
{
    int expected = 2;

    for (int i = 0; i < 20; i++) {
        cr_assert_eq(until_kept(), expected, "%d", i);
        (void)rdl__keep_recalled(&keep, number, now);
        cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_GIVE);
        rdl__keep_given(&keep, now, 0, 0);
        cr_assert(rdl__keep_pause_over(&keep, now));
        expected = expected > 1024 ? 1025 : expected == 2 ? 3 : 2 * (expected - 1) + 1;
    }
    (void)until_kept();
    cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_PASS);
    cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_PASS);
    (void)rdl__keep_recalled(&keep, number, now);
    cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_GIVE);
    rdl__keep_given(&keep, now, 0, 0);
    cr_assert(rdl__keep_pause_over(&keep, now));
    cr_assert_eq(until_kept(), 2); /* a better one sets them back */
}

Test(keep, so_does_one_that_could_let_nobody_in)
{
    for (int expected = 2, i = 0; i < 3; i++, expected = 2 * expected - 1) {
        cr_assert_eq(until_kept(), expected, "%d", i);
        rdl__keep_give(&keep, RDL__END_SHORT);
        rdl__keep_given(&keep, now, 0, 0);
        (void)rdl__keep_pause_over(&keep, now);
    }
}

Test(keep, after_one_that_let_four_owners_in_the_next_take_is_kept)
{
    for (int owners = 2; owners <= 4; owners++) {
        (void)until_kept();
        for (int i = 0; i < owners; i++)
            cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_PASS);
        (void)rdl__keep_recalled(&keep, number, now);
        cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_GIVE);
        rdl__keep_given(&keep, now, 0, 0);
        cr_assert(rdl__keep_pause_over(&keep, now));
        cr_assert_eq(until_kept(), owners < 4 ? 2 : 1);
        cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_PASS);
        cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_PASS);
        rdl__keep_lost(&keep, RDL__END_LOST);
    }
}

Test(keep, one_that_does_not_wait_is_told_of_an_owner_here_and_asks_otherwise)
{
    (void)until_kept();
    cr_assert_eq(rdl__keep_enter(&keep, false, RDL__WAITS_NOT, now), RDL__ENTRY_TAKEN);
    rdl__keep_lost(&keep, RDL__END_LOST);
    cr_assert_eq(rdl__keep_enter(&keep, true, RDL__WAITS_NOT, now), RDL__ENTRY_ASK);
    cr_assert_eq(rdl__keep_enter(&keep, true, RDL__WAITS_NOT, now), RDL__ENTRY_TAKE);
    cr_assert_eq(rdl__keep_enter(&keep, true, RDL__WAITS_NOT, now), RDL__ENTRY_ASK); /* not for another's take */
}

/* Else its wait might be over before it has asked. */
Test(keep, one_that_waits_briefly_waits_for_an_owner_here_and_asks_otherwise)
{
    (void)until_kept();
    cr_assert_eq(rdl__keep_enter(&keep, false, RDL__WAITS_BRIEFLY, now), RDL__ENTRY_QUEUE);
    now += CACHE_MS * RDL__MS;
    cr_assert_eq(rdl__keep_enter(&keep, true, RDL__WAITS_BRIEFLY, now), RDL__ENTRY_QUEUE); /* it is given back */
    keep.begun = true;
    cr_assert_eq(rdl__keep_enter(&keep, true, RDL__WAITS_BRIEFLY, now), RDL__ENTRY_QUEUE);
    rdl__keep_given(&keep, now, 4 * RDL__MS, 0);
    cr_assert_eq(rdl__keep_enter(&keep, true, RDL__WAITS_BRIEFLY, now), RDL__ENTRY_ASK);
    now += 4 * RDL__MS;
    cr_assert(rdl__keep_pause_over(&keep, now));
    cr_assert_eq(rdl__keep_enter(&keep, true, RDL__WAITS_BRIEFLY, now), RDL__ENTRY_ASK);
    cr_assert_eq(rdl__keep_enter(&keep, true, RDL__WAITS_BRIEFLY, now), RDL__ENTRY_TAKE);
    cr_assert_eq(rdl__keep_enter(&keep, true, RDL__WAITS_BRIEFLY, now), RDL__ENTRY_ASK);
}

Test(keep, hold_that_may_have_been_evicted_or_was_extended_is_not_passed_on)
{
    (void)until_kept();
    cr_assert(rdl__keep_suspected(&keep, number));
    cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_GIVE);
    rdl__keep_given(&keep, now, 0, 0);
    (void)until_kept();
    keep.stretched = true;
    cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_GIVE);
    assert_given(RDL__END_SHORT);
}

Test(keep, eviction_that_overtakes_the_grant_counts)
{
    (void)come(true);
    cr_assert_eq(come(true), RDL__ENTRY_TAKE);
    (void)rdl__keep_recalled(&keep, -7, now);
    cr_assert(!rdl__keep_suspected(&keep, -7));
    rdl__keep_granted(&keep, -7, now, CACHE_MS);
    cr_assert(!keep.sound);
    cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_GIVE);
    cr_assert(!rdl__keep_suspected(&keep, -6)); /* another's */
}

Test(keep, closed_keeps_nothing)
{
    (void)until_kept();
    keep.closed = true;
    cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_GIVE);
    rdl__keep_given(&keep, now, 0, 0);
    for (int i = 0; i < 3000; i++)
        cr_assert_eq(come(true), RDL__ENTRY_ASK);
}

Test(keep, stands_back_for_two_hops_between_bounds)
{
    cr_assert_eq(rdl__keep_pause(0), RDL__PAUSE_LEAST_MS * RDL__MS);
    cr_assert_eq(rdl__keep_pause(3 * RDL__MS), 6 * RDL__MS);
    cr_assert_eq(rdl__keep_pause(RDL__SEC), RDL__PAUSE_MOST_MS * RDL__MS);
}

Test(keep, lease_is_long_enough_not_to_be_renewed_while_it_is_idle)
{
    cr_assert_eq(rdl__keep_lease_ms(1, 30000), 5000);
    cr_assert_eq(rdl__keep_lease_ms(3000, 30000), 12000);
    cr_assert_eq(rdl__keep_lease_ms(60000, 30000), 30000);
    cr_assert_eq(rdl__keep_lease_ms(1, 300), 300);
}

/* ---- shared ----------------------------------------------------------------------------------------------------- */

Test(keep, others_join_until_its_end_is_in_sight)
{
    (void)until_kept();
    cr_assert(rdl__keep_is_open(&keep, now));
    cr_assert_not(rdl__keep_is_open(&keep, now + CACHE_MS * RDL__MS));
    (void)rdl__keep_recalled(&keep, number, now);
    cr_assert_not(rdl__keep_is_open(&keep, now));
    (void)rdl__keep_emptied(&keep, false, now);
    assert_given(RDL__END_RECALLED);
}

Test(keep, nobody_joins_what_a_cut_a_stretch_or_the_end_of_the_handles_ends)
{
    (void)until_kept();
    keep.stretched = true;
    cr_assert_not(rdl__keep_is_open(&keep, now));
    keep.stretched = false;
    keep.closed = true;
    cr_assert_not(rdl__keep_is_open(&keep, now));
    keep.closed = false;
    cr_assert(rdl__keep_is_open(&keep, now));
    rdl__keep_unheard(&keep);
    cr_assert_not(rdl__keep_is_open(&keep, now));
}

Test(keep, what_is_wanted_here_is_given_back_as_if_recalled)
{
    (void)until_kept();
    rdl__keep_want(&keep, now);
    cr_assert_not(rdl__keep_is_open(&keep, now));
    cr_assert_eq(rdl__keep_emptied(&keep, false, now), RDL__EMPTY_GIVE);
    assert_given(RDL__END_RECALLED);
    rdl__keep_given(&keep, now, RDL__MS, 0);
    cr_assert_eq(keep.state, RDL__KEEP_PAUSING);
}

Test(keep, what_is_shared_is_passed_to_nobody_once_it_is_wanted)
{
    keep.shared = true;
    (void)until_kept();
    cr_assert_eq(rdl__keep_awaited_until(&keep), 0);
    now += RDL__MS;
    (void)rdl__keep_recalled(&keep, number, now);
    cr_assert_eq(rdl__keep_awaited_until(&keep), now + RDL__PASSES_MS * RDL__MS);
    cr_assert_eq(rdl__keep_enter(&keep, false, RDL__WAITS_LONG, now), RDL__ENTRY_QUEUE);
    cr_assert_eq(rdl__keep_emptied(&keep, true, now), RDL__EMPTY_GIVE);
    assert_given(RDL__END_RECALLED);
    cr_assert_eq(rdl__keep_awaited_until(&keep), 0);
}
