/* SPDX-License-Identifier: MIT */
/* test_exporter.c - what the exporter makes of locks and findings. */
#include "tools/exporter/census.h"
#include "tools/exporter/exposition.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(exporter, .timeout = 10);

/* ---- labels ----------------------------------------------------------------------------------------------------- */

static void expect_label(const char *bytes, size_t len, const char *expected)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    exposition_label(out, bytes, len);
    fclose(out);
    cr_assert_str_eq(text, expected);
    free(text);
}

#define EXPECT_LABEL(bytes, expected) expect_label(bytes, sizeof(bytes) - 1, expected)

Test(exporter, labels_keep_text_and_escape_what_the_format_wants)
{
    EXPECT_LABEL("", "");
    EXPECT_LABEL("orders:42 {x}", "orders:42 {x}");
    EXPECT_LABEL("say \"hi\"", "say \\\"hi\\\"");
    EXPECT_LABEL("schl\xc3\xbcssel \xe2\x82\xac \xf0\x9f\x94\x92", "schl\xc3\xbcssel \xe2\x82\xac \xf0\x9f\x94\x92");
}

Test(exporter, labels_have_every_other_byte_in_hexadecimal)
{
    EXPECT_LABEL("a\nb\tc\x7f", "a\\\\x0ab\\\\x09c\\\\x7f");
    EXPECT_LABEL("nul\0nul", "nul\\\\x00nul");
    EXPECT_LABEL("\\xff\\", "\\\\x5cxff\\\\x5c"); /* as no other name */
    EXPECT_LABEL("\xff\x80", "\\\\xff\\\\x80");
    EXPECT_LABEL("\xc0\xaf\xc1\xbf", "\\\\xc0\\\\xaf\\\\xc1\\\\xbf"); /* two bytes where one is enough */
    EXPECT_LABEL("\xe0\x9f\xbf", "\\\\xe0\\\\x9f\\\\xbf");            /* three for two */
    EXPECT_LABEL("\xf0\x8f\xbf\xbf", "\\\\xf0\\\\x8f\\\\xbf\\\\xbf"); /* four for three */
    EXPECT_LABEL("\xed\xa0\x80", "\\\\xed\\\\xa0\\\\x80");            /* half of a pair of UTF-16 */
    EXPECT_LABEL("\xf4\x90\x80\x80", "\\\\xf4\\\\x90\\\\x80\\\\x80"); /* beyond the last character */
    EXPECT_LABEL("\xe2\x82", "\\\\xe2\\\\x82");                       /* cut */
    EXPECT_LABEL("\xe2\x82"
                 "a\xc3",
                 "\\\\xe2\\\\x82"
                 "a\\\\xc3");
}

Test(exporter, no_two_bytes_of_input_leave_the_quotes_or_the_line)
{
    for (int a = 0; a < 256; a++) {
        char bytes[2] = {(char)a, '"'}, *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        exposition_label(out, bytes, 2);
        fclose(out);
        cr_assert(size >= 3 && strcmp(text + size - 2, "\\\"") == 0);
        cr_assert_null(strchr(text, '\n'));
        free(text);
    }
}

/* ---- the census ------------------------------------------------------------------------------------------------- */

static rdl_inspection_t lock_of(const char *name, rdl_holder_t *holder)
{
    return (rdl_inspection_t){.name = name,
                              .name_len = strlen(name),
                              .type = "lock",
                              .state = holder != NULL ? "held" : "free",
                              .ttl_ms = 28500,
                              .now_ms = 1700000000000,
                              .waiters = 2,
                              .holders = holder != NULL,
                              .holder = holder,
                              .holder_count = holder != NULL};
}

static void add(struct census *c, const char *name, rdl_holder_t *holder, int64_t now_ms)
{
    rdl_inspection_t lock = lock_of(name, holder);

    cr_assert(census_add(c, &lock, now_ms));
}

static int64_t held_of(const struct census *c, const char *label)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->locks[i].label, label) == 0)
            return c->locks[i].held_ms;
    cr_assert_fail("there is no %s", label);
    return 0;
}

Test(exporter, a_census_counts_all_and_tells_of_so_many)
{
    struct census c = {.most = 2};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    for (int i = 0; i < 5; i++)
        add(&c, (const char *[]){"e", "d", "c", "b", "a"}[i], NULL, 0);
    census_end(&c);
    cr_assert_eq(c.count, 2);
    cr_assert_str_eq(c.locks[0].label, "d");
    census_print(out, &c);
    fclose(out);
    cr_assert_not_null(strstr(text, "redlatch_locks{type=\"lock\",state=\"free\"} 5\n"));
    cr_assert_not_null(strstr(text, "redlatch_lock_left_out 3\n"));
    cr_assert_not_null(strstr(text, "redlatch_lock_ttl_seconds{lock=\"e\",type=\"lock\"} 28.500\n"));
    cr_assert_null(strstr(text, "redlatch_lock_held_seconds{"));
    free(text);
    census_done(&c);
}

Test(exporter, a_hold_lasts_from_when_its_owner_was_seen_first)
{
    rdl_holder_t one = {.owner = "U:1"}, two = {.owner = "U:2"}, told = {.owner = "U:3", .since_ms = 1699999990000};
    struct census first = {.most = 9}, second = {.most = 9, .before = &first}, third = {.most = 9, .before = &second};

    add(&first, "same", &one, 1000);
    add(&first, "other", &one, 1000);
    add(&first, "told", &told, 1000);
    census_end(&first);
    cr_assert_eq(held_of(&first, "same"), 0);
    cr_assert_eq(held_of(&first, "told"), 10000);
    add(&second, "new", &one, 4000);
    add(&second, "same", &one, 4000);
    add(&second, "other", &two, 4000);
    census_end(&second);
    census_done(&first);
    cr_assert_eq(held_of(&second, "same"), 3000);
    cr_assert_eq(held_of(&second, "other"), 0);
    cr_assert_eq(held_of(&second, "new"), 0);
    add(&third, "same", &one, 9000);
    add(&third, "other", NULL, 9000);
    census_end(&third);
    census_done(&second);
    cr_assert_eq(held_of(&third, "same"), 8000);
    cr_assert_eq(held_of(&third, "other"), -1);
    census_done(&third);
}

/* ---- findings --------------------------------------------------------------------------------------------------- */

Test(exporter, findings_that_are_alike_are_one_series)
{
    rdl_finding_t all[] = {{.id = "rights", .severity = RDL_SEVERITY_WARNING, .server = "a:1"},
                           {.id = "memory", .severity = RDL_SEVERITY_OK, .server = "a:1"},
                           {.id = "rights", .severity = RDL_SEVERITY_WARNING, .server = "a:1"},
                           {.id = "rights", .severity = RDL_SEVERITY_WARNING, .server = "b:1"}};
    struct findings f = {.all = all, .count = 4};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    exposition_findings(out, &f);
    fclose(out);
    cr_assert_not_null(strstr(text, "redlatch_doctor_findings{severity=\"warning\"} 3\n"));
    cr_assert_not_null(strstr(text, "redlatch_doctor_findings{severity=\"critical\"} 0\n"));
    cr_assert_not_null(strstr(text, "{id=\"rights\",severity=\"warning\",server=\"a:1\"} 2\n"));
    cr_assert_not_null(strstr(text, "{id=\"rights\",severity=\"warning\",server=\"b:1\"} 1\n"));
    cr_assert_null(strstr(strstr(text, "server=\"a:1\"} 2") + 1, "server=\"a:1\"} 2"));
    free(text);
}
