/* SPDX-License-Identifier: MIT */
/* test_enumerate_line.c - all orders in which clients can meet in the line beside a plain lock. What is searched and
 * for what: enumerate_line.h.
 *
 * Each mix says how long somebody may sleep beside a free lock: 0, since a message always comes; 4 ms, where somebody
 * listens on the lock's channel and is left a turn (protocol.md, 5, rule 18); 100 ms, the look of rule 14; or 5 s.
 *
 * That a search finds what it should is shown by rules that are left out (enumerate_line_red), and by planted bugs.
 */
#include "tests/script/enumerate_line.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define STATES_MAX 30000000
#define LONG .timeout = 3600

static void expect_line(const char *verdict, size_t steps, const struct line_scenario *scenario)
{
    struct search_result r = enumerate_line(scenario, STATES_MAX);
    bool same = verdict == NULL ? r.verdict == NULL : r.verdict != NULL && strcmp(verdict, r.verdict) == 0;

    cr_log_info("%s: %zu states", scenario->threads[0][0], r.states);
    cr_expect(same && r.steps == steps, "%s: %s, %zu states, %zu steps\n%s", scenario->threads[0][0],
              r.verdict == NULL ? "ok" : r.verdict, r.states, r.steps, r.schedule == NULL ? "" : r.schedule);
    search_done(&r);
}

#define LINE(...) (&(struct line_scenario){__VA_ARGS__})
#define EXPECT_HOLDS(...) expect_line(NULL, 0, LINE(__VA_ARGS__))
#define EXPECT_BREAKS(verdict, steps, ...) expect_line(verdict, steps, LINE(__VA_ARGS__))

#define WITHOUT(rule) .without = {.rule = true}
#define ALL 7 /* clients, of three: for .returns */

/* ---- what breaks ------------------------------------------------------------------------------------------------ */

/* Rule 11: Java is faster than who was woken, and its release is not heard. */
Test(enumerate_line_red, without_an_ear_nobody_hears_javas_release, LONG)
{
    EXPECT_BREAKS("ASLEEP", 11, .threads = {{"Wu"}, {"Wu"}}, .java = "Wu", .sleeps_ms = 100, WITHOUT(ear));
}

/* Rule 12: the other call of its client sleeps, and the line is empty. */
Test(enumerate_line_red, without_its_release_a_client_that_waits_is_in_no_line, LONG)
{
    EXPECT_BREAKS("ASLEEP", 20, .threads = {{"Wu", "Wu"}, {"Wu"}}, .sleeps_ms = 100, WITHOUT(enters_again));
}

/* Rule 13: the place of a call that gives up was that of the next one. */
Test(enumerate_line_red, without_a_try_behind_an_undo_a_place_is_lost, LONG)
{
    EXPECT_BREAKS("ASLEEP", 29, .threads = {{"Wu", "Wu"}, {"Wu"}}, .time_outs = 1, .sleeps_ms = 100, WITHOUT(retry));
}

Test(enumerate_line_red, without_a_look_one_death_costs_more, LONG)
{
    const struct line_plant plant = {"tell_one(line, l, publish, '3', place + 1)", "local _ = 0"};

    EXPECT_BREAKS("ASLEEP", 23, .threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .deaths = 1, .sleeps_ms = 100, .line_stays = true,
                  .plant = &plant);
}

Test(enumerate_line_red, grant_that_leaves_its_client_in_line_has_it_woken_in_vain, LONG)
{
    const struct line_plant plant = {"waits.leave(call, line, waits.l, client, waits.among)", ""};

    EXPECT_BREAKS("LINE", 27, .threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .plant = &plant);
    EXPECT_BREAKS("ASLEEP", 31, .threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .plant = &plant, .line_stays = true);
}

/* Rule 19: its turn comes before its next call, and nobody else is to look. */
Test(enumerate_line_red, turn_that_nobody_leaves_for_is_lost, LONG)
{
    EXPECT_BREAKS("ASLEEP", 27, .threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = ALL, .sleeps_ms = 4,
                  WITHOUT(leaves_unheard));
}

Test(enumerate_line_red, call_that_sleeps_behind_its_own_turn_sleeps_beside_a_free_lock, LONG)
{
    EXPECT_BREAKS("ASLEEP", 39, .threads = {{"WuWu"}, {"Wu"}, {"Wu"}}, .returns = 1, .sleeps_ms = 4,
                  WITHOUT(tries_instead));
}

Test(enumerate_line_red, release_that_has_entered_unheard_leaves_a_place_that_nobody_uses, LONG)
{
    EXPECT_BREAKS("LINE", 39, .threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = 1, .breaks = 1, .sleeps_ms = 100,
                  WITHOUT(undo_of_release));
    EXPECT_BREAKS("ASLEEP", 34, .threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = 3, .breaks = 1, .sleeps_ms = 4,
                  WITHOUT(undo_of_release));
}

/* ---- what holds ------------------------------------------------------------------------------------------------- */

Test(enumerate_line, clients_take_turns_without_a_timer, LONG)
{
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}});
    EXPECT_HOLDS(.threads = {{"WuWu"}, {"WuWu"}});
    EXPECT_HOLDS(.threads = {{"Wu", "Wu"}, {"Wu"}});
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}, {"Tu"}});
    EXPECT_HOLDS(.threads = {{"Wu", "Wu"}, {"Wu"}, {"Tu"}}, .sleeps_ms = 4);
}

Test(enumerate_line, calls_give_up_and_subscriptions_are_cut, LONG)
{
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .time_outs = 2);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .time_outs = 1, .cuts = 1);
    EXPECT_HOLDS(.threads = {{"WuWu"}, {"WuWu"}}, .time_outs = 1, .cuts = 1);
    EXPECT_HOLDS(.threads = {{"Wu", "Wu"}, {"Wu"}}, .time_outs = 1);
    EXPECT_HOLDS(.threads = {{"Wu", "Wu"}, {"Wu"}}, .cuts = 1, .sleeps_ms = 4);
}

Test(enumerate_line, client_that_dies_costs_one_look, LONG)
{
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .deaths = 1, .sleeps_ms = 100, .line_stays = true);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .deaths = 1, .cuts = 1, .sleeps_ms = 100, .line_stays = true);
    EXPECT_HOLDS(.threads = {{"Wu", "Wu"}, {"Wu"}}, .deaths = 1, .sleeps_ms = 100, .line_stays = true);
}

Test(enumerate_line, requests_are_sent_again_and_releases_given_up, LONG)
{
    EXPECT_HOLDS(.threads = {{"Wu", "Wu"}, {"Wu"}}, .breaks = 1, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"WuWu"}, {"WuWu"}}, .time_outs = 1, .breaks = 1, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .given_up = 1, .breaks = 1);
}

/* A first take gives way, and so enters the line; its connection breaks, and it is sent again. If it is granted then,
 * it takes its client away. */
Test(enumerate_line, take_that_is_sent_again_leaves_the_line, LONG)
{
    EXPECT_HOLDS(.threads = {{"WuWu"}, {"WuWu"}}, .breaks = 1, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = ALL, .breaks = 1, .sleeps_ms = 100);
}

/* Its late answer says that its client stands in line, for a call that is to come, or for one that has waited. */
Test(enumerate_line, release_that_was_given_up_leaves_the_line, LONG)
{
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = 1, .given_up = 1);
    EXPECT_HOLDS(.threads = {{"Wu", "Wu"}, {"Wu"}}, .time_outs = 1, .given_up = 1, .sleeps_ms = 4);
}

/* The undo of a granted take says that another call waits. That one gives up, too, and its undo, on another connection,
 * is first to leave; the other one enters behind it. */
Test(enumerate_line, undo_that_stays_behind_one_that_leaves_leaves, LONG)
{
    EXPECT_HOLDS(.threads = {{"Wu", "Wu"}, {"Wu"}}, .time_outs = 2, .sleeps_ms = 4);
}

Test(enumerate_line, java_waits_beside_the_line, LONG)
{
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}}, .java = "WuWu", .time_outs = 1, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}}, .java = "Wu", .cuts = 1, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}}, .java = "Wu", .breaks = 1, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}}, .java = "Wu", .deaths = 1, .sleeps_ms = 100, .line_stays = true);
}

/* Who stands in line has it as soon as nobody is inside. Java recalls nobody, and waits until it is too old. */
Test(enumerate_line, holder_that_keeps_the_lock_is_recalled_from_the_line, LONG)
{
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Kr"}, {"Wu"}}, .time_outs = 1);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Kr"}, {"Wu"}}, .cuts = 1);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Kr"}, {"Wu"}}, .deaths = 1, .sleeps_ms = 100, .line_stays = true);
    EXPECT_HOLDS(.threads = {{"WuWu"}, {"KrKr"}}, .breaks = 1);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Kr", "Wu"}});
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Kr"}}, .java = "Wu", .sleeps_ms = 10000);
}

/* Rule 19. Its call comes at once, later, after its turn, or never. */
Test(enumerate_line, client_that_comes_back_stands_in_line_already, LONG)
{
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = ALL);
    EXPECT_HOLDS(.threads = {{"WuWu"}, {"Wu"}, {"Wu"}}, .returns = 1);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = 3, .time_outs = 1);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = 1, .cuts = 1);
}

Test(enumerate_line, client_that_comes_back_sends_again_or_gives_up_its_release, LONG)
{
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = 3, .given_up = 1, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = 3, .breaks = 1, .sleeps_ms = 4);
}

/* Who was woken dies, and who was to look has no call: as if two had died. */
Test(enumerate_line, death_beside_a_client_that_does_not_come_back_costs_5_s, LONG)
{
    EXPECT_BREAKS("ASLEEP", 24, .threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = 1, .deaths = 1, .sleeps_ms = 4999,
                  .line_stays = true);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = ALL, .deaths = 1, .sleeps_ms = 5000,
                 .line_stays = true);
}

/* With REDLATCH_TEST_DEEP: three minutes, and up to 2 GB of memory. */
Test(enumerate_line, deeper_mixes_hold, LONG)
{
    if (getenv("REDLATCH_TEST_DEEP") == NULL)
        return;
    EXPECT_HOLDS(.threads = {{"Wu", "Wu"}, {"Wu", "Wu"}}, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"Wu", "Wu"}, {"Wu"}}, .time_outs = 2, .breaks = 1, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}, {"Wu"}}, .deaths = 1, .sleeps_ms = 100, .line_stays = true);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .java = "Wu", .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Kr", "Wu"}, {"Wu"}}, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = ALL, .time_outs = 1);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}}, .returns = ALL, .breaks = 1, .sleeps_ms = 100);
    EXPECT_HOLDS(.threads = {{"Wu", "Wu"}, {"Wu"}, {"Wu"}}, .returns = 1, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"Wu"}, {"Wu"}, {"Wu"}, {"Wu"}}, .returns = 1, .sleeps_ms = 4);
    EXPECT_HOLDS(.threads = {{"WuWu"}, {"Wu"}, {"Wu"}}, .returns = 1, .breaks = 1, .sleeps_ms = 100);
    EXPECT_HOLDS(.threads = {{"WuWu"}, {"Wu"}, {"Wu"}}, .returns = ALL, .deaths = 1, .sleeps_ms = 5000,
                 .line_stays = true);
}
