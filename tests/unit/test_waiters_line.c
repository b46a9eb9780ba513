/* SPDX-License-Identifier: MIT */
/* test_waiters_line.c - waiters of a client that stands in line beside the lock, and of one that stands in none
 * (protocol.md, 5, rules 8 to 17 and 21). */
#include "tests/unit/waiting.h"

TestSuite(waiters, .init = set_up, .fini = tear_down, .timeout = 120);

#define SHARED "lock"
#define OWN SHARED ":{U}"

/* Join the client's own channel. */
static int join_own(char letter, bool entered, enum rdl__ear ear)
{
    struct rdl__waiter *w = waiter(letter);

    w->news = RDL__NEWS_NAMED;
    w->own_tail = sizeof OWN - sizeof SHARED;
    w->entered = entered;
    w->ear_for = (unsigned char)ear;
    return rdl__waiter_join(&waiters, w, OWN, sizeof OWN - 1, -1, loop.now);
}

static struct rdl__topic *topic(const char *name)
{
    for (size_t i = 0; i < sub.count; i++)
        if (sub.topics[i]->node.key_len == strlen(name) && memcmp(sub.topics[i]->node.key, name, strlen(name)) == 0)
            return sub.topics[i];
    return NULL;
}

static void confirm(const char *name)
{
    cr_assert_not_null(topic(name), "%s is not subscribed to", name);
    topic(name)->confirmed = true;
    topic(name)->ops->subscribed(topic(name), loop.now);
    end_turn();
}

static void says(const char *name, const char *payload)
{
    topic(name)->ops->message(topic(name), payload, strlen(payload), loop.now);
    end_turn();
}

/* `a` sleeps, and its client's channel is confirmed. */
static void a_sleeps(void)
{
    cr_assert_eq(join_own('a', false, RDL__EAR_NOT), RDL_OK);
    confirm(OWN);
    cr_assert(refused('a'));
    trail[0] = '\0';
}

Test(waiters, a_message_to_the_client_wakes_its_first_waiter_and_the_others_wait_behind_it)
{
    a_sleeps();
    cr_assert_eq(join_own('b', false, RDL__EAR_NOT), RDL_OK, "it needs no try of its own");
    says(OWN, "0");
    cr_assert_str_eq(trail, "a");
    cr_assert_null(topic(SHARED));
}

/* The channel lingers: who comes back was refused by a try that has entered the line, or has not. */
Test(waiters, a_try_that_did_not_enter_the_line_is_repeated)
{
    a_sleeps();
    go_away('a', true);
    loop.now += RDL__MS;
    waiter('a')->tried_at = loop.now;
    cr_assert_eq(join_own('a', true, RDL__EAR_NOT), RDL_OK, "its place is kept");
    go_away('a', true);
    waiter('a')->tried_at = loop.now;
    cr_assert_eq(join_own('a', false, RDL__EAR_NOT), 1);
}

Test(waiters, a_place_that_may_have_been_left_since_its_try_is_no_place)
{
    a_sleeps();
    go_away('a', true);
    loop.now += RDL__MS;
    waiter('a')->tried_at = loop.now;
    rdl__waiters_retry(&waiters, OWN, sizeof OWN - 1, loop.now + 1);
    loop.now += 2;
    cr_assert_eq(join_own('a', true, RDL__EAR_NOT), 1);
}

/* Its last release has entered it, and it has begun to wait since; or its client has left for want of anybody. */
Test(waiters, a_turn_that_finds_nobody_is_whose_who_is_about_to_join_or_nobodys)
{
    a_sleeps();
    for (int since = 0; since < 2; since++) {
        go_away('a', true);
        comes = since > 0;
        says(OWN, "0");
        loop.now += RDL__MS;
        waiter('a')->tried_at = loop.now;
        cr_assert_eq(join_own('a', true, RDL__EAR_NOT), since > 0 ? 1 : RDL_OK);
    }
    cr_assert(refused('a'));
    go_away('a', true);
    waiter('a')->tried_at = loop.now + 1;
    cr_assert_eq(join_own('a', true, RDL__EAR_NOT), RDL_OK, "it has been used");
}

/* While nobody waited, or as the channel ends, which may be the client's that stands in line. */
Test(waiters, a_turn_that_nobody_could_hear_is_asked_for)
{
    a_sleeps();
    go_away('a', true);
    confirm(OWN);
    loop.now += RDL__MS;
    waiter('a')->tried_at = loop.now;
    cr_assert_eq(join_own('a', true, RDL__EAR_NOT), 1, "its connection was another in between");
    rdl__waiter_sent(waiter('a'));
    cr_assert(refused('a'));
    go_away('a', true);
    cr_assert_eq(unheard, 0);
    fake_loop_run(&loop, loop.now + RDL__CLIENT_LINGER_MS * RDL__MS);
    cr_assert_eq(unheard, 1);
}

Test(waiters, an_ear_hears_who_does_not_know_the_line_and_passes_over_who_does)
{
    a_sleeps();
    says(OWN, "0");
    waiter('a')->ear_for = RDL__EAR_PEER;
    waiter('a')->entered = true;
    cr_assert(refused('a'));
    confirm(SHARED);
    cr_assert_str_eq(trail, "aa", "what was said before was not heard");
    cr_assert(refused('a'));
    says(SHARED, "2");
    says(SHARED, "0");
    cr_assert_str_eq(trail, "aa", "the first in line was woken by name");
    says(SHARED, "0");
    cr_assert_str_eq(trail, "aaa");
    says(SHARED, "0");
    cr_assert_not(refused('a'), "it has heard of a release since its try was sent");
    go_away('a', true);
    fake_loop_run(&loop, loop.now + RDL__CLIENT_LINGER_MS * RDL__MS);
    cr_assert_eq(sub.count, 0, "the ear goes with the channel");
}

/* The first in line, if it has none but this turn, is told to try after 4 ms. */
Test(waiters, an_ear_of_who_may_not_enter_the_line_tries_behind_who_was_woken_by_name)
{
    a_sleeps();
    says(OWN, "0");
    waiter('a')->ear_for = RDL__EAR_OUTSIDE;
    waiter('a')->entered = true;
    cr_assert(refused('a'));
    confirm(SHARED);
    cr_assert_str_eq(trail, "aa");
    cr_assert(refused('a'));
    says(SHARED, "2");
    says(SHARED, "0");
    cr_assert_str_eq(trail, "aa", "somebody else was woken");
    fake_loop_run(&loop, loop.now + (RDL__TURN_MS - 1) * RDL__MS);
    cr_assert_str_eq(trail, "aaa");
    cr_assert(refused('a'));
    fake_loop_run(&loop, loop.now + RDL__LOOK_MS * RDL__MS);
    cr_assert_str_eq(trail, "aaa", "once");
}

Test(waiters, an_ear_for_all_is_closed_when_another_client_listens)
{
    a_sleeps();
    says(OWN, "0");
    waiter('a')->entered = true;
    waiter('a')->ear_for = RDL__EAR_FOR_ALL;
    cr_assert(refused('a'));
    confirm(SHARED);
    cr_assert(refused('a'));
    cr_assert_str_eq(trail, "aa", "what was said before was not heard");
    says(SHARED, "0");
    cr_assert_str_eq(trail, "aaa");
    waiter('a')->ear_for = RDL__EAR_NOT;
    waiter('a')->entered = false;
    cr_assert(refused('a'));
    cr_assert_not_null(topic(SHARED), "a try that did not stand in line says nothing of it");
    says(OWN, "0");
    waiter('a')->entered = true;
    cr_assert(refused('a'));
    cr_assert_null(topic(SHARED));
    says(OWN, "0");
    waiter('a')->ear_for = RDL__EAR_FOR_ALL;
    cr_assert(refused('a'));
    cr_assert_not_null(topic(SHARED));
    go_away('a', true);
    cr_assert_null(topic(SHARED), "who does not wait listens for nobody");
    cr_assert_not_null(topic(OWN));
}

/* Else the releases of clients that know the line would take each other for others, for as long as they wait. */
Test(waiters, an_ear_that_hears_nobody_is_closed_once_the_holder_reads_the_line)
{
    a_sleeps();
    says(OWN, "0");
    waiter('a')->entered = true;
    waiter('a')->ear_for = RDL__EAR_PEER;
    cr_assert(refused('a'));
    confirm(SHARED);
    waiter('a')->ear_for = RDL__EAR_NOT;
    cr_assert(refused('a'));
    for (int i = 0; i < 2; i++) {
        cr_assert_not_null(topic(SHARED), "it has heard somebody lately");
        loop.now += RDL__QUIET_EAR_MS * RDL__MS - 1;
        says(SHARED, "2");
        says(SHARED, "0");
        says(OWN, "0");
        cr_assert(refused('a'));
        cr_assert_not_null(topic(SHARED), "not yet");
        if (i == 0) {
            says(SHARED, "0");
            cr_assert(refused('a'));
        }
    }
    loop.now++;
    says(OWN, "0");
    cr_assert(refused('a'));
    cr_assert_null(topic(SHARED));
}

/* A server that writes to its latest subscriber first would let those that come and go be first for ever. */
Test(waiters, an_ear_that_has_heard_many_releases_for_nothing_listens_anew)
{
    a_sleeps();
    says(OWN, "0");
    waiter('a')->entered = true;
    waiter('a')->ear_for = RDL__EAR_PEER;
    cr_assert(refused('a'));
    for (int i = 0; i < 2; i++) {
        confirm(SHARED);
        cr_assert(refused('a'));
        for (int n = 1; n < RDL__STALE_EAR_HEARD; n++) {
            cr_assert(topic(SHARED)->confirmed, "%d", n);
            says(SHARED, "0");
            cr_assert(refused('a'));
        }
        cr_assert_not(topic(SHARED)->confirmed, "it was subscribed to again");
    }
}

Test(waiters, who_is_woken_when_it_is_others_turn_tries_a_moment_later)
{
    a_sleeps();
    says(OWN, "4");
    fake_loop_run(&loop, loop.now + RDL__TURN_MS * RDL__MS - 1);
    cr_assert_str_eq(trail, "");
    fake_loop_run(&loop, loop.now + 1);
    cr_assert_str_eq(trail, "a");
    says(OWN, "4");
    cr_assert_not(refused('a'), "it was woken since its try was sent");
}

Test(waiters, who_is_told_to_look_looks_whatever_the_hint_says)
{
    a_sleeps();
    says(OWN, "0");
    says(OWN, "3"); /* while its try is under way */
    cr_assert_str_eq(trail, "a");
    cr_assert(refused('a'));
    fake_loop_run(&loop, loop.now + RDL__LOOK_MS * RDL__MS);
    cr_assert_str_eq(trail, "aa");
}
