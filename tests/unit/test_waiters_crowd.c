/* SPDX-License-Identifier: MIT */
/* test_waiters_crowd.c - 100,000 who wait for one lock: no stack for each, and time by their number (scenarios.md, N3).
 */
#include "tests/support/wait.h"
#include "tests/unit/waiting.h"

#include <time.h>

TestSuite(waiters, .init = set_up, .fini = tear_down, .timeout = 120);

/* ---- 100,000 who wait ------------------------------------------------------------------------------------------- */

/* N3. What befalls all of them at once takes no stack for each, and time by their number, not by its square: a tenth of
 * them goes first, to compare. */

enum { CROWD = 100000 };

static struct sleeper crowd[CROWD];

static void on_crowd_go(struct rdl__waiter *waiter, int64_t now)
{
    struct sleeper *a = rdl__container(waiter, struct sleeper, waiter);

    a->goes++;
    if (a->reaction == TRIES)
        rdl__waiter_sent(waiter);
    else
        rdl__waiter_leave(waiter, a->reaction == LEAVES_USED, now);
}

static const struct rdl__waiter_ops crowd_ops = {.go = on_crowd_go};

/* The i-th to wait. */
static struct rdl__waiter *one_of(int i)
{
    return &crowd[i].waiter;
}

static void crowd_joins(int n, enum rdl__news news, enum reaction reaction)
{
    for (int i = 0; i < n; i++) {
        rdl__waiter_init(one_of(i), &crowd_ops);
        one_of(i)->news = (unsigned char)news;
        one_of(i)->wish = news == RDL__NEWS_TOTAL && i % 2 == 0 ? CROWD : 1;
        crowd[i].reaction = reaction;
        crowd[i].goes = 0;
        cr_assert_eq(rdl__waiter_join(&waiters, one_of(i), "ch", 2, -1, loop.now), RDL_OK);
    }
}

static void crowd_leaves(int n)
{
    for (int i = 0; i < n; i++)
        rdl__waiter_leave(one_of(i), false, loop.now);
    (void)turn();
    cr_assert_eq(sub.count, 0);
}

static int crowd_goes(int n)
{
    int goes = 0;

    for (int i = 0; i < n; i++)
        goes += crowd[i].goes;
    return goes;
}

static void each_hands_the_wake_up_on(int n)
{
    crowd_joins(n, RDL__NEWS_WAKE, LEAVES);
    message("0");
    cr_assert_eq(crowd_goes(n), n);
    crowd_leaves(n);
}

static void each_ends_before_it_could_go(int n)
{
    turns_end_by_chance = true;
    crowd_joins(n, RDL__NEWS_WAKE, TRIES);
    message("0");
    crowd_leaves(n);
    turns_end_by_chance = false;
    cr_assert_eq(crowd_goes(n), 0);
}

static void the_first_to_share_lets_the_others_in(int n)
{
    crowd_joins(n, RDL__NEWS_SHARED, LEAVES_USED);
    message("");
    cr_assert_eq(crowd_goes(n), n);
    crowd_leaves(n);
}

static void all_try_and_are_refused(int n)
{
    crowd_joins(n, RDL__NEWS_ALL, TRIES);
    for (int round = 1; round <= 3; round++) {
        message("");
        cr_assert_eq(crowd_goes(n), round * n);
        for (int i = 0; i < n; i++)
            cr_assert(rdl__waiter_refused(one_of(i), -1, loop.now));
    }
    crowd_leaves(n);
}

/* Every second one wants more than there will ever be. */
static void all_who_fit_try_and_are_refused(int n)
{
    char total[24];

    (void)snprintf(total, sizeof total, "%d", n / 2);
    crowd_joins(n, RDL__NEWS_TOTAL, TRIES);
    acknowledge(); /* wakes the first, who wants too much */
    rdl__waiter_told(one_of(0), 0);
    cr_assert(rdl__waiter_refused(one_of(0), -1, loop.now));
    for (int round = 1; round <= 3; round++) {
        message(total);
        cr_assert_eq(crowd_goes(n), 1 + round * (n / 2));
        for (int i = 0; i < n; i++) {
            if (!crowd[i].waiter.woken)
                continue;
            rdl__waiter_told(one_of(i), 0);
            cr_assert(rdl__waiter_refused(one_of(i), -1, loop.now));
        }
    }
    message(total);
    crowd_leaves(n);
}

/* Ten times as many would take a hundred times as long; a few first, so that this is known soon. */
static void expect_linear(void (*befall)(int n), const char *what)
{
    for (int n = CROWD / 100; n <= CROWD; n *= 10) {
        int64_t start = user_us();

        befall(n);
        limit_user_us(n < CROWD ? 30 * (user_us() - start) + 50000 : 0, what);
    }
}

#define EXPECT_LINEAR(befall) expect_linear(befall, #befall)

Test(waiters, N3_a_crowd_is_woken_and_leaves_without_recursion_in_linear_time)
{
    EXPECT_LINEAR(each_hands_the_wake_up_on);
    EXPECT_LINEAR(each_ends_before_it_could_go);
    EXPECT_LINEAR(the_first_to_share_lets_the_others_in);
}

Test(waiters, N3_a_crowd_that_tries_in_vain_is_back_in_its_places_in_linear_time)
{
    EXPECT_LINEAR(all_try_and_are_refused);
    EXPECT_LINEAR(all_who_fit_try_and_are_refused);
}
