/* SPDX-License-Identifier: MIT */
/* test_describe.c - a client's description on the wire (wire.md, Descriptions). */
#include "core/base/mem.h"
#include "core/service/describe.h"

#include <criterion/criterion.h>
#include <string.h>

#define U "01234567-89ab-4def-8123-456789abcdef"

TestSuite(describe, .timeout = 10);

static struct rdl__reply string(const char *text)
{
    return (struct rdl__reply){.type = RDL__REPLY_STRING, .str = text, .len = strlen(text)};
}

static bool decode(const char *const *words, size_t count, struct rdl__description *ret)
{
    struct rdl__reply values[32], *elem[32], reply = {.type = RDL__REPLY_ARRAY, .len = count, .elem = elem};

    for (size_t i = 0; i < count; i++) {
        values[i] = string(words[i]);
        elem[i] = &values[i];
    }
    return rdl__describe_decode(&reply, ret);
}

Test(describe, key_has_the_id_as_its_hash_tag)
{
    char key[RDL__DESCRIBE_KEY_MAX];

    cr_assert_eq(rdl__describe_key(key, U ":42:write"), strlen("redlatch_client:{" U "}"));
    cr_assert_str_eq(key, "redlatch_client:{" U "}");
}

Test(describe, what_is_read_is_what_was_written)
{
    static const char *const words[] = {"pid",      "812",           "host",    "db3",   "program", "backup.sh",
                                        "start_ms", "1700000000000", "version", "0.1.0", "label",   "nightly",
                                        "info",     "ticket 7",      "later",   "more"};
    struct rdl__description d;

    cr_assert(decode(words, sizeof words / sizeof words[0], &d));
    cr_expect_str_eq(d.host, "db3");
    cr_expect_str_eq(d.program, "backup.sh");
    cr_expect_str_eq(d.version, "0.1.0");
    cr_expect_str_eq(d.label, "nightly");
    cr_expect_str_eq(d.info, "ticket 7");
    cr_expect_eq(d.pid, 812);
    cr_expect_eq(d.start_ms, 1700000000000);
}

Test(describe, anything_may_stand_there)
{
    static const char *const odd[] = {"pid", "-3", "start_ms", "soon", "host"};
    char longer[2 * RDL_INFO_MAX];
    const char *words[] = {"info", longer};
    struct rdl__reply error = {.type = RDL__REPLY_ERROR, .str = "WRONGTYPE no", .len = 12};
    struct rdl__description d;

    cr_assert(decode(odd, sizeof odd / sizeof odd[0], &d));
    cr_expect_eq(d.pid, 0);
    cr_expect_eq(d.start_ms, 0);
    cr_expect_str_eq(d.host, "");
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    cr_assert(decode(words, 2, &d));
    cr_expect_eq(strlen(d.info), RDL_INFO_MAX);
    cr_expect_not(decode(words, 0, &d));
    cr_expect_str_eq(d.info, "");
    cr_expect_not(rdl__describe_decode(&error, &d));
    cr_expect_not(rdl__describe_decode(NULL, &d));
}

Test(describe, taking_it_away_wants_the_rights_of_writing_it)
{
    static const char want[] = "*3\r\n$7\r\nPEXPIRE\r\n$54\r\nredlatch_client:{" U "}\r\n$1\r\n0\r\n";
    struct rdl__mem mem;
    struct rdl__buf b;

    rdl__mem_init(&mem, NULL);
    rdl__buf_init(&b, &mem);
    rdl__describe_drop(&b, U);
    cr_expect_eq(b.len, strlen(want));
    cr_expect_eq(memcmp(b.data, want, b.len), 0);
    rdl__buf_done(&b);
}
