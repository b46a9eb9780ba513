/* SPDX-License-Identifier: MIT */
/* test_tool_nearest.c - what was meant by a misspelt word. */
#include "tools/redlatch/nearest.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(tool_nearest, .timeout = 10);

static void expect_meant(const char *typed, const char *meant)
{
    static const char *const words[] = {"wait",   "timeout", "lease", "max-hold",  "server", "permits",
                                        "shared", "json",    "ls",    "exclusive", "top"};
    struct nearest near = {.word = NULL};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        nearest_try(&near, typed, words[i]);
    if (meant == NULL)
        cr_expect_null(near.word, "'%s' is taken for '%s'", typed, near.word);
    else
        cr_expect(near.word != NULL && strcmp(near.word, meant) == 0, "'%s' is taken for '%s'", typed, near.word);
}

Test(tool_nearest, one_slip_in_three_letters_is_seen_through)
{
    expect_meant("wiat", "wait");
    expect_meant("wai", "wait");
    expect_meant("waitt", "wait");
    expect_meant("wayt", "wait");
    expect_meant("WAIT", "wait");
    expect_meant("exlcusve", "exclusive");
    expect_meant("maxhold", "max-hold");
    expect_meant("sl", "ls");
    expect_meant("tpo", "top");
}

Test(tool_nearest, what_is_farther_away_is_another_word)
{
    expect_meant("frobnicate", NULL);
    expect_meant("", NULL);
    expect_meant("x", NULL);
    expect_meant("wt", NULL);
    expect_meant("a-word-that-is-longer-than-any-that-is-compared", NULL);
}
