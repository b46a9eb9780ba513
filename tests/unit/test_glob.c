/* SPDX-License-Identifier: MIT */
#include "core/base/glob.h"

#include <criterion/criterion.h>
#include <string.h>

static bool matches(const char *pattern, const char *text)
{
    return rdl__glob(pattern, strlen(pattern), text, strlen(text));
}

Test(glob, stars_and_question_marks_are_any_bytes)
{
    cr_assert(matches("*", ""));
    cr_assert(matches("*", "job:7"));
    cr_assert(matches("job:*", "job:7"));
    cr_assert(matches("*:7", "job:7"));
    cr_assert(matches("j*b*7", "job:job:7"));
    cr_assert(matches("j?b:?", "job:7"));
    cr_assert(matches("job:**", "job:"));
    cr_assert_not(matches("job:*", "jab:7"));
    cr_assert_not(matches("job:?", "job:"));
    cr_assert_not(matches("*a*b", "aaaaaaaaaaaaaaaaaaaac"));
    cr_assert_not(matches("", "a"));
    cr_assert(matches("", ""));
}

Test(glob, classes_have_ranges_and_may_be_inverted)
{
    cr_assert(matches("job:[0-9]", "job:7"));
    cr_assert(matches("job:[9-0]", "job:7"));
    cr_assert(matches("job:[abc]", "job:b"));
    cr_assert(matches("job:[^abc]", "job:d"));
    cr_assert(matches("[\\]]", "]"));
    cr_assert(matches("[a", "a"));
    cr_assert_not(matches("job:[^0-9]", "job:7"));
    cr_assert_not(matches("job:[0-9]", "job:x"));
    cr_assert_not(matches("[", "["));
}

Test(glob, a_backslash_takes_the_next_literally)
{
    cr_assert(matches("a\\*", "a*"));
    cr_assert(matches("a\\?b", "a?b"));
    cr_assert(matches("a\\", "a\\"));
    cr_assert_not(matches("a\\*", "ab"));
}
