/* SPDX-License-Identifier: MIT */
/* test_tool_holder.c - who holds what could not be taken, in words. */
#include "tools/redlatch/holder.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(tool_holder, .timeout = 10);

static char said[HOLDER_CAP];

static const rdl_holder_t known = {
    .owner = "U:1",
    .left_ms = 28300,
    .since_ms = 1000000,
    .by = {.known = true, .host = "db3", .pid = 812, .program = "redlatch", .label = "backup.sh"},
};

Test(tool_holder, is_named_with_its_time_and_those_who_wait)
{
    rdl_inspection_t found = {.holder = &known, .holder_count = 1, .holders = 1, .now_ms = 1041500, .waiters = 3};

    cr_assert(holder_print(&found, said, sizeof said));
    cr_assert_str_eq(said, "held by db3, pid 812 (backup.sh), for 41.5 s, 28.3 s left, 3 wait");
}

Test(tool_holder, is_called_by_its_program_when_it_has_no_label_and_others_are_counted)
{
    rdl_holder_t holder = known;
    rdl_inspection_t found = {.holder = &holder, .holder_count = 1, .holders = 4, .waiters = -1};

    holder.by.label[0] = '\0';
    holder.since_ms = 0;
    holder.left_ms = -1;
    cr_assert(holder_print(&found, said, sizeof said));
    cr_assert_str_eq(said, "held by db3, pid 812 (redlatch), and 3 more");
}

Test(tool_holder, that_says_nothing_of_itself_is_shown_as_it_stands_on_the_wire)
{
    rdl_holder_t holder = {.owner = "U:1\x1b[2J", .left_ms = 5000};
    rdl_inspection_t found = {.holder = &holder, .holder_count = 1, .holders = 1};

    cr_assert(holder_print(&found, said, sizeof said));
    cr_assert_str_eq(said, "held by U:1\\x1b[2J, which does not say who it is, 5.0 s left");
}

Test(tool_holder, of_a_free_lock_is_nobody)
{
    rdl_inspection_t found = {.holders = 0};

    strcpy(said, "x");
    cr_assert_not(holder_print(&found, said, sizeof said));
    cr_assert_str_eq(said, "");
}

Test(tool_holder, is_cut_to_the_room_there_is)
{
    rdl_inspection_t found = {.holder = &known, .holder_count = 1, .holders = 1, .now_ms = 1041500, .waiters = 3};
    char little[24];

    cr_assert(holder_print(&found, little, sizeof little));
    cr_assert_str_eq(little, "held by db3, pid 812 (b");
}
