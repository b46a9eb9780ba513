/* SPDX-License-Identifier: MIT */
/* test_err.c - codes, texts, and errors that a person can read whatever went into them. */
#include "core/base/entropy.h"
#include "core/base/err.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static rdl_err_t err;

TestSuite(err, .timeout = 10);
TestSuite(printable, .timeout = 10);
TestSuite(line, .timeout = 10);

static const struct {
    int code;
    const char *name;
    const char *text;
} codes[] = {
#define ENTRY(name_, number_, text_) {.code = (number_), .name = #name_, .text = (text_)},
    RDL_ERRORS(ENTRY)
#undef ENTRY
};
enum { CODES = sizeof codes / sizeof *codes };

Test(err, every_code_has_its_name_and_text)
{
    for (size_t i = 0; i < CODES; i++) {
        cr_assert_str_eq(rdl_err_name(codes[i].code), codes[i].name);
        cr_assert_str_eq(rdl_strerror(codes[i].code), codes[i].text);
        cr_assert_lt(codes[i].code, 0);
        for (size_t j = 0; j < i; j++)
            cr_assert_neq(codes[i].code, codes[j].code);
    }
    cr_assert_str_eq(rdl_err_name(RDL_OK), "RDL_OK");
    cr_assert_str_eq(rdl_strerror(RDL_OK), "success");
}

/* Programs are compiled with the numbers: new codes come behind these. */
Test(err, codes_keep_their_numbers)
{
    static const char *const names[] = {
        "RDL_ETIMEDOUT", "RDL_ENOTOWNER",   "RDL_ELOST", "RDL_EUNKNOWN", "RDL_EDEADLK", "RDL_ECANCELED",
        "RDL_ENOQUORUM", "RDL_ENOREPLICAS", "RDL_ECONN", "RDL_ESERVER",  "RDL_EINVAL",  "RDL_ENOMEM",
        "RDL_EFORK",     "RDL_ECLOSED",     "RDL_EAUTH", "RDL_EHOST",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_assert_str_eq(rdl_err_name(-1 - (int)i), names[i]);
}

Test(err, unknown_codes_have_a_text_and_no_name)
{
    static const int unknown[] = {1, -1000, INT32_MIN, INT32_MAX};

    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        cr_assert_str_eq(rdl_strerror(unknown[i]), "unknown error");
        cr_assert_null(rdl_err_name(unknown[i]));
    }
}

Test(err, version_is_the_headers)
{
    char text[32];

    snprintf(text, sizeof text, "%d.%d.%d", RDL_VERSION_MAJOR, RDL_VERSION_MINOR, RDL_VERSION_PATCH);
    cr_assert_str_eq(rdl_version(), RDL_VERSION);
    cr_assert_eq(strncmp(rdl_version(), text, strlen(text)), 0);
    cr_assert(rdl_version()[strlen(text)] == '\0' || rdl_version()[strlen(text)] == '-');
}

Test(err, set_fills_code_and_message_and_empties_the_rest)
{
    strcpy(err.server, "old:1");
    strcpy(err.lock, "old");
    cr_assert_eq(rdl__err_set(&err, RDL_ECONN, "no %s in %d ms", "answer", 7), RDL_ECONN);
    cr_assert_eq(err.code, RDL_ECONN);
    cr_assert_str_eq(err.message, "no answer in 7 ms");
    cr_assert_str_eq(err.server, "");
    cr_assert_str_eq(err.lock, "");
}

Test(err, set_without_a_text_uses_the_codes_own)
{
    cr_assert_eq(rdl__err_set(&err, RDL_ENOMEM, NULL), RDL_ENOMEM);
    cr_assert_str_eq(err.message, rdl_strerror(RDL_ENOMEM));
}

Test(err, null_is_accepted_everywhere)
{
    cr_assert_eq(rdl__err_set(NULL, RDL_EINVAL, "%d", 1), RDL_EINVAL);
    rdl__err_where(NULL, "s", "n", 1);
}

Test(err, message_may_quote_the_errors_former_message)
{
    rdl__err_set(&err, RDL_ECONN, "refused");
    rdl__err_set(&err, RDL_EUNKNOWN, "gave up: %s", err.message);
    cr_assert_str_eq(err.message, "gave up: refused");
}

Test(err, message_is_one_line)
{
    rdl__err_set(&err, RDL_ESERVER, "ERR a\r\nb\tc\x7f\x1b[31m");
    cr_assert_str_eq(err.message, "ERR a  b c  [31m");
}

Test(err, message_is_utf8)
{
    rdl__err_set(&err, RDL_ESERVER, "%s",
                 "\xff \xc3\xa9 \xc3( f\xfcr \xe2\x82\xac \xe2\x82 \xed\xa0\x80 \xf0\x9f\x94\x92 \xf0");
    cr_assert_str_eq(err.message, "? \xc3\xa9 ?( f?r \xe2\x82\xac ?? ??? \xf0\x9f\x94\x92 ?");
}

Test(err, long_message_is_cut_with_dots_and_a_fitting_one_is_not)
{
    char text[400];
    size_t room = sizeof err.message - 1;

    memset(text, 'x', sizeof text);
    text[room] = '\0';
    rdl__err_set(&err, RDL_ESERVER, "%s", text);
    cr_assert_str_eq(err.message, text);

    text[room] = 'x';
    text[room + 1] = '\0';
    rdl__err_set(&err, RDL_ESERVER, "%s", text);
    cr_assert_eq(strlen(err.message), room);
    cr_assert_str_eq(err.message + room - 4, "x...");
}

Test(err, long_message_is_cut_between_characters)
{
    static const char *const characters[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x94\x92"};

    for (size_t kind = 0; kind < 3; kind++) {
        for (int shift = 0; shift < 4; shift++) {
            char text[800];
            size_t size = strlen(characters[kind]);
            size_t len = 0;

            memset(text, 'a', 4);
            for (len = (size_t)shift; len + size < sizeof text; len += size)
                memcpy(text + len, characters[kind], size);
            text[len] = '\0';
            rdl__err_set(&err, RDL_ESERVER, "%s", text);
            len = strlen(err.message);
            cr_assert_lt(len, sizeof err.message);
            cr_assert_geq(len, sizeof err.message - 4);
            cr_assert_str_eq(err.message + len - 3, "...");
            cr_assert_eq((len - 3 - (size_t)shift) % size, 0);
        }
    }
}

Test(err, long_message_of_stray_continuation_bytes_keeps_its_length)
{
    char text[400];

    memset(text, 0x80, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    rdl__err_set(&err, RDL_ESERVER, "%s", text);
    cr_assert_eq(strlen(err.message), sizeof err.message - 1);
}

Test(err, where_changes_only_what_it_is_given)
{
    rdl__err_set(&err, RDL_ECONN, "x");
    rdl__err_where(&err, "h:1", NULL, 0);
    rdl__err_where(&err, NULL, "orders", 6);
    cr_assert_str_eq(err.server, "h:1");
    cr_assert_str_eq(err.lock, "orders");
    cr_assert_str_eq(err.message, "x");
    rdl__err_where(&err, NULL, "", 0);
    cr_assert_str_eq(err.lock, "");
}

Test(err, where_takes_a_name_of_64_kib_with_nul_bytes)
{
    static char name[65536];

    rdl__err_set(&err, RDL_ETIMEDOUT, NULL);
    rdl__err_where(&err, NULL, name, sizeof name);
    cr_assert_eq(strlen(err.lock), 4 * 31 + 3);
    cr_assert_str_eq(err.lock + 4 * 30, "\\x00...");
}

Test(err, where_cuts_a_long_server)
{
    char server[300];

    memset(server, 's', sizeof server - 1);
    server[sizeof server - 1] = '\0';
    rdl__err_where(&err, server, NULL, 0);
    cr_assert_eq(strlen(err.server), sizeof err.server - 1);
    cr_assert_str_eq(err.server + sizeof err.server - 4, "...");
}

/* ---- the printable form ----------------------------------------------------------------------------------------- */

static const struct {
    const char *bytes;
    size_t len;
    const char *form;
} forms[] = {
/* clang-format off */
#define FORM(bytes_, form_) {.bytes = (bytes_), .len = sizeof bytes_ - 1, .form = (form_)}
    /* clang-format on */
    FORM("", ""),
    FORM("orders:42 {x}~", "orders:42 {x}~"),
    FORM("a\\b", "a\\x5cb"),
    FORM("a\0b\n\x1f\x7f", "a\\x00b\\x0a\\x1f\\x7f"),
    FORM("caf\xc3\xa9", "caf\xc3\xa9"),
    FORM("\xe2\x82\xac\xf0\x9f\x94\x92", "\xe2\x82\xac\xf0\x9f\x94\x92"),
    FORM("\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"),
    FORM("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),
    FORM("\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"),
    /* overlong */
    FORM("\xc0\xaf", "\\xc0\\xaf"),
    FORM("\xc1\xbf", "\\xc1\\xbf"),
    FORM("\xe0\x9f\xbf", "\\xe0\\x9f\\xbf"),
    FORM("\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf"),
    /* surrogates, beyond U+10FFFF, bytes that never occur */
    FORM("\xed\xa0\x80", "\\xed\\xa0\\x80"),
    FORM("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"),
    FORM("\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"),
    FORM("\xfe\xff", "\\xfe\\xff"),
    /* broken off, or without a beginning */
    FORM("\x80", "\\x80"),
    FORM("\xc3", "\\xc3"),
    FORM("\xe2\x82", "\\xe2\\x82"),
    FORM("\xe2\x82x", "\\xe2\\x82x"),
    FORM("\xe2(\xa1", "\\xe2(\\xa1"),
    FORM("\xf0\x9f\x94", "\\xf0\\x9f\\x94"),
    FORM("\xf0\x9f\x94\xc3\xa9", "\\xf0\\x9f\\x94\xc3\xa9"),
#undef FORM
};
enum { FORMS = sizeof forms / sizeof *forms };

Test(printable, has_the_expected_form)
{
    char to[128];

    for (size_t i = 0; i < FORMS; i++) {
        cr_expect_eq(rdl__printable(to, sizeof to, forms[i].bytes, forms[i].len), strlen(forms[i].form));
        cr_expect_str_eq(to, forms[i].form);
    }
}

Test(printable, fits_every_capacity_and_is_cut_only_between_units)
{
    static const char bytes[] = "ab\\c\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\x92\xff";
    static const char form[] = "ab\\x5cc\\x0a\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\x92\\xff";
    static const size_t ends[] = {0, 1, 2, 6, 7, 11, 13, 16, 20, 24}; /* of the units within form */

    for (size_t cap = 5; cap <= sizeof form + 3; cap++) {
        char to[64];
        size_t cut = 0;

        memset(to, '#', sizeof to);
        rdl__printable(to, cap, bytes, sizeof bytes - 1);
        cr_expect_eq(to[cap], '#');
        if (cap >= sizeof form) {
            cr_expect_str_eq(to, form);
            continue;
        }
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            cut = ends[i] + 3 < cap ? ends[i] : cut;
        cr_expect_eq(strlen(to), cut + 3);
        cr_expect_eq(memcmp(to, form, cut), 0);
        cr_expect_str_eq(to + cut, "...");
    }
}

Test(printable, never_writes_what_a_terminal_would_obey)
{
    struct rdl__rand rand = {.state = 5};

    for (int round = 0; round < 20000; round++) {
        char bytes[40], to[48];
        size_t len = rdl__rand_below(&rand, sizeof bytes + 1);
        size_t cap = 5 + rdl__rand_below(&rand, sizeof to - 4);
        size_t got;

        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)rdl__rand_next(&rand);
        got = rdl__printable(to, cap, bytes, len);
        cr_assert_lt(got, cap);
        cr_assert_eq(strlen(to), got);
        for (size_t i = 0; i < got; i++)
            cr_assert((unsigned char)to[i] >= 0x20 && to[i] != 0x7f);
    }
}

Test(line, formats_within_its_room)
{
    char to[10];

    cr_assert_eq(rdl__line(to, sizeof to, "%d-%s", 12, "abcdef"), 9);
    cr_assert_str_eq(to, "12-abcdef");
    cr_assert_eq(rdl__line(to, sizeof to, "%d-%s", 123, "abcdef"), 9);
    cr_assert_str_eq(to, "123-ab...");
    cr_assert_eq(rdl__line(to, sizeof to, "%s", ""), 0);
    cr_assert_str_eq(to, "");
}
