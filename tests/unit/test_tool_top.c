/* SPDX-License-Identifier: MIT */
/* test_tool_top.c - what `redlatch top` makes of looks at locks: which are known, their rates, their order, and how
 * that stands on a page. */
#include "tools/redlatch/top_page.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct top_model *model;
static int64_t now;

static void set_up(void)
{
    model = top_model_new();
    cr_assert_not_null(model);
    now = 1000000;
}

static void tear_down(void)
{
    (void)top_model_free(model);
}

TestSuite(tool_top, .init = set_up, .fini = tear_down, .timeout = 10);

/* A look that finds it held by that owner ("": free), for as long. */
static void note(const char *name, const char *owner, int64_t waiters, int64_t left_ms)
{
    rdl_holder_t holder = {.count = 1};
    rdl_inspection_t found = {.name = name,
                              .name_len = strlen(name),
                              .type = "none",
                              .state = "free",
                              .number = -1,
                              .ttl_ms = left_ms,
                              .waiters = waiters,
                              .holder = &holder};

    (void)snprintf(holder.owner, sizeof holder.owner, "%s", owner);
    if (owner[0] != '\0') {
        found.type = "lock";
        found.state = "held";
        found.holders = 1;
        found.holder_count = 1;
    }
    cr_assert(top_model_note(model, &found, now));
}

static void expect_order(const struct top_view *view, const char *expected)
{
    struct top_lock *const *locks;
    size_t count = top_model_view(model, view, &locks);
    char names[256] = "";

    for (size_t i = 0; i < count; i++)
        (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", locks[i]->name);
    cr_assert_str_eq(names, expected);
}

static double changes(void)
{
    struct top_lock *const *locks;

    cr_assert_eq(top_model_view(model, &(struct top_view){.order = TOP_BY_NAME}, &locks), 1);
    return locks[0]->changes;
}

Test(tool_top, most_contended_lock_comes_first)
{
    note("b", "u:1", 0, 5000);
    note("a", "u:2", 0, -1);
    note("d", "u:3", 7, 1000);
    note("c", "u:4", -1, 9000);
    expect_order(&(struct top_view){.order = TOP_BY_WAITERS}, "d a b c ");
    expect_order(&(struct top_view){.order = TOP_BY_LEFT}, "d b c a ");
    expect_order(&(struct top_view){.order = TOP_BY_NAME, .reverse = true}, "d c b a ");
    note("b", "u:1", 8, 5000);
    expect_order(&(struct top_view){.order = TOP_BY_WAITERS}, "b d a c ");
}

Test(tool_top, pattern_is_a_part_of_the_name_or_all_of_it)
{
    note("job:1", "u:1", 0, 1000);
    note("job:2", "u:1", 0, 1000);
    note("cron:1", "u:1", 0, 1000);
    expect_order(&(struct top_view){.order = TOP_BY_NAME, .pattern = "ob:"}, "job:1 job:2 ");
    expect_order(&(struct top_view){.order = TOP_BY_NAME, .pattern = "*:1"}, "cron:1 job:1 ");
    expect_order(&(struct top_view){.order = TOP_BY_NAME, .pattern = "ob:*"}, "");
}

Test(tool_top, rate_is_that_of_the_changes_that_were_seen)
{
    char owner[16];

    for (int i = 0; i < 100; i++, now += 500) {
        (void)snprintf(owner, sizeof owner, "u:%d", i);
        note("x", owner, 0, 1000);
    }
    cr_assert_float_eq(changes(), 2.0, 0.05);
    for (int i = 0; i < 100; i++, now += 500)
        note("x", "u:99", 0, 1000);
    cr_assert_lt(changes(), 0.05);
}

Test(tool_top, lock_that_is_free_in_between_has_changed_hands_once)
{
    note("x", "u:1", 0, 1000);
    now += 1000;
    note("x", "", 0, -1);
    cr_assert_float_eq(changes(), 0, 0.001);
    now += 1000;
    note("x", "u:2", 0, 1000);
    cr_assert_gt(changes(), 0);
    now += 1000;
    note("x", "", 0, -1);
    now += 1000;
    note("x", "u:2", 0, 1000);
    cr_assert_lt(changes(), 0.1);
}

Test(tool_top, lock_that_is_free_is_forgotten_after_a_while_and_one_that_was_never_held_not_known)
{
    note("x", "", 0, -1);
    cr_assert_eq(top_model_count(model).locks, 0);
    note("x", "u:1", 0, 1000);
    now += TOP_FREE_MS - 1;
    note("x", "", 0, -1);
    top_model_sweep(model, 0);
    cr_assert_eq(top_model_count(model).locks, 1);
    cr_assert_eq(top_model_count(model).held, 0);
    now += 2;
    note("x", "", 0, -1);
    top_model_sweep(model, 0);
    cr_assert_eq(top_model_count(model).locks, 0);
}

Test(tool_top, what_a_whole_walk_has_not_found_is_forgotten)
{
    note("x", "u:1", 0, 1000);
    now += 5000;
    note("y", "u:1", 0, 1000);
    top_model_sweep(model, now);
    expect_order(&(struct top_view){.order = TOP_BY_NAME}, "y ");
}

Test(tool_top, many_locks_are_counted_and_found_again)
{
    char name[16];

    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5000; i++) {
            (void)snprintf(name, sizeof name, "l%d", i);
            note(name, "u:1", i % 2, 1000);
        }
    cr_assert_eq(top_model_count(model).locks, 5000);
    cr_assert_eq(top_model_count(model).held, 5000);
    cr_assert_eq(top_model_count(model).waited_for, 2500);
    cr_assert_eq(top_model_count(model).waiters, 2500);
}

/* ---- pages ------------------------------------------------------------------------------------------------------ */

static struct top_page page;
static struct top_ui ui;

/* Lines, none of which is wider than that: all but what ends a name that is cut is ASCII. */
static size_t count_lines(int width)
{
    size_t lines = 0;

    for (const char *at = page.text; *at != '\0'; lines++) {
        size_t len = strcspn(at, "\n"), columns = 0;

        for (size_t i = 0; i < len; i++)
            columns += ((unsigned char)at[i] & 0xc0) != 0x80;
        cr_assert(columns <= (size_t)width || width < 12, "%zu of %d columns: %.*s", columns, width, (int)len, at);
        at += len + (at[len] == '\n');
    }
    return lines;
}

static void make(struct top_state *state, int width, int height)
{
    top_page_done(&page);
    top_page_make(&page, state, model, &ui, width, height, now);
    cr_assert_not_null(page.text);
}

static void expect_on_page(const char *words, bool there)
{
    cr_assert_eq(strstr(page.text, words) != NULL, there, "'%s' in\n%s", words, page.text);
}

Test(tool_top, page_is_as_large_as_its_terminal)
{
    static const int sizes[][2] = {{1, 1}, {1, 2}, {12, 3}, {20, 5}, {20, 12}, {80, 24}, {300, 100}};
    struct top_state state = {.masters = 1, .answered_ms = 1};
    char name[160];

    for (int i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof name, "a-name-that-is-longer-than-most-terminals-are-wide-%d", i);
        note(name, "u:1", 0, 1000);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        make(&state, sizes[i][0], sizes[i][1]);
        cr_assert_eq(count_lines(sizes[i][0]), (size_t)sizes[i][1]);
        ui.at = TOP_AT_HELP;
        ui.text = strdup(top_page_keys);
        make(&state, sizes[i][0], sizes[i][1]);
        cr_assert_eq(count_lines(sizes[i][0]), (size_t)sizes[i][1]);
        free(ui.text);
        ui = (struct top_ui){.at = TOP_AT_LIST};
    }
    top_page_done(&page);
}

Test(tool_top, page_says_how_many_masters_answer_and_how_old_it_is)
{
    struct top_state state = {.masters = 3, .answered_ms = now - 500};

    state.master[0] = (rdl_master_t){.server = "a:1", .keys = 10, .round_trip_us = 300, .now_ms = 1700000000000};
    state.master[1] = (rdl_master_t){.server = "b:1", .rc = RDL_ECONN, .keys = -1, .round_trip_us = -1};
    state.master[2] = (rdl_master_t){.server = "c:1", .keys = 5, .round_trip_us = 1200};
    make(&state, 120, 24);
    expect_on_page("3 masters, 1 without an answer, round trip 1.2 ms, 15 keys, 2023-11-14 22:13:20 UTC", true);
    expect_on_page("up to date", true);
    state.answered_ms = now - 42000;
    state.trouble_ms = now - 40000;
    (void)snprintf(state.trouble.message, sizeof state.trouble.message, "a:1: it hangs\x1b[31m");
    make(&state, 120, 24);
    expect_on_page("42 s old: a:1: it hangs\\x1b[31m", true);
    expect_on_page("\x1b", false);
    make(&state, 20, 5);
    expect_on_page("42 s old: a:1: it ha", true);
    top_page_done(&page);
}

Test(tool_top, what_is_selected_is_on_the_page)
{
    struct top_state state = {.masters = 1, .answered_ms = now, .view = {.order = TOP_BY_NAME}};
    char name[16];

    for (int i = 10; i < 60; i++) {
        (void)snprintf(name, sizeof name, "job:%d", i);
        note(name, "u:1", 0, 1000);
    }
    make(&state, 80, 12);
    expect_on_page("job:10", true);
    expect_on_page("job:30", false);
    ui.selected = (char *)"job:30";
    ui.selected_len = 6;
    make(&state, 80, 12);
    expect_on_page("job:30", true);
    expect_on_page("job:10", false);
    state.view.reverse = true;
    make(&state, 80, 12);
    expect_on_page("job:30", true);
    cr_assert_eq(ui.row, 29);
    ui.selected = (char *)"gone";
    ui.selected_len = 4;
    make(&state, 80, 12);
    cr_assert_eq(ui.row, 29); /* what stands there now */
    top_page_done(&page);
}
