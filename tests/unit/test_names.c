/* SPDX-License-Identifier: MIT */
/* test_names.c - derived keys and slots, as Redisson and the servers compute them (wire.md, Names). */
#include "core/base/entropy.h"
#include "core/wire/names.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct rdl__mem mem;
static struct rdl__buf b;

static void set_up(void)
{
    rdl__mem_init(&mem, NULL);
    rdl__buf_init(&b, &mem);
}

static void tear_down(void)
{
    rdl__buf_done(&b);
}

TestSuite(names, .init = set_up, .fini = tear_down, .timeout = 30);

static void assert_prefix(const char *name, size_t len, const char *expected, size_t expected_len)
{
    char head[32];

    rdl__buf_cut(&b, 0);
    rdl__name_prefix(&b, "p", name, len);
    cr_assert_eq(b.len, expected_len, "%s", expected);
    cr_assert_arr_eq(b.data, expected, expected_len, "%s", expected);
    cr_assert_eq(rdl__name_prefix_len("p", name, len), expected_len);
    rdl__buf_cut(&b, 0);
    rdl__cmd_prefixed(&b, "p", name, len);
    (void)snprintf(head, sizeof head, "$%zu\r\n", expected_len);
    cr_assert_eq(b.len, strlen(head) + expected_len + 2);
    cr_assert_arr_eq(b.data, head, strlen(head));
    cr_assert_arr_eq(b.data + strlen(head), expected, expected_len);
    cr_assert_arr_eq(b.data + b.len - 2, "\r\n", 2);
}

static void assert_suffix(const char *name, size_t len, const char *expected, size_t expected_len)
{
    rdl__buf_cut(&b, 0);
    rdl__name_suffix(&b, name, len, "s");
    cr_assert_eq(b.len, expected_len, "%s", expected);
    cr_assert_arr_eq(b.data, expected, expected_len, "%s", expected);
}

#define ASSERT_PREFIX(name, expected) assert_prefix(name, sizeof name - 1, expected, sizeof expected - 1)
#define ASSERT_SUFFIX(name, expected) assert_suffix(name, sizeof name - 1, expected, sizeof expected - 1)

Test(names, prefix_wraps_unless_there_is_an_opening_brace)
{
    ASSERT_PREFIX("orders", "p:{orders}");
    ASSERT_PREFIX("{u}:orders", "p:{u}:orders");
    ASSERT_PREFIX("a{b", "p:a{b");
    ASSERT_PREFIX("a}b", "p:{a}b}");
    ASSERT_PREFIX("", "p:{}");
    ASSERT_PREFIX("a\0b", "p:{a\0b}");
    ASSERT_PREFIX("\0{", "p:\0{");
    assert_prefix(NULL, 0, "p:{}", 4);
}

Test(names, suffix_wraps_unless_there_is_an_opening_brace)
{
    ASSERT_SUFFIX("orders", "{orders}:s");
    ASSERT_SUFFIX("{u}:orders", "{u}:orders:s");
    ASSERT_SUFFIX("a{b", "a{b:s");
    ASSERT_SUFFIX("a}b", "{a}b}:s");
    ASSERT_SUFFIX("", "{}:s");
}

Test(names, prefix_length_is_that_of_the_prefix_for_long_names)
{
    static char name[65536];

    rdl__name_prefix(&b, "redisson_lock__channel", name, sizeof name);
    cr_assert_eq(b.len, rdl__name_prefix_len("redisson_lock__channel", name, sizeof name));
    cr_assert_eq(b.len, 22 + 1 + 2 + sizeof name);
}

/* ---- slots ------------------------------------------------------------------------------------------------------ */

static unsigned slot(const char *key)
{
    return rdl__slot(key, strlen(key));
}

Test(names, slots_are_those_of_the_servers)
{
    cr_assert_eq(slot("123456789"), 0x31c3 % 16384);
    cr_assert_eq(slot("foo"), 12182);
    cr_assert_eq(slot("bar"), 5061);
    cr_assert_eq(slot("hello"), 866);
    cr_assert_eq(slot("somekey"), 11058);
    cr_assert_eq(slot(""), 0);
    cr_assert_eq(rdl__slot(NULL, 0), 0);
}

/* CRC-16/XMODEM bit by bit, as its definition says. */
static unsigned slow_crc(const char *bytes, size_t len)
{
    unsigned crc = 0;

    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned)(unsigned char)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
    }
    return crc;
}

Test(names, slots_agree_with_the_definition_of_the_checksum)
{
    struct rdl__rand rand = {.state = 9};

    for (int round = 0; round < 5000; round++) {
        char key[40];
        size_t len = rdl__rand_below(&rand, sizeof key);

        for (size_t i = 0; i < len; i++) {
            key[i] = (char)rdl__rand_next(&rand);
            key[i] = key[i] == '{' ? 'x' : key[i];
        }
        cr_assert_eq(rdl__slot(key, len), slow_crc(key, len) % 16384);
    }
}

Test(names, slot_of_a_key_with_a_hash_tag_is_that_of_the_tag)
{
    cr_assert_eq(slot("{foo}.bar"), slot("foo"));
    cr_assert_eq(slot("x{foo}y{bar}"), slot("foo"));
    cr_assert_eq(slot("{{foo}}"), slot("{foo"));
    cr_assert_eq(slot("foo{}{bar}"), slow_crc("foo{}{bar}", 10) % 16384);
    cr_assert_eq(slot("foo{bar"), slow_crc("foo{bar", 7) % 16384);
    cr_assert_eq(slot("}foo{"), slow_crc("}foo{", 5) % 16384);
}

/* Do the keys that are derived from the name lie in its slot, by looking? */
static bool keys_in_one_slot(const char *name, size_t len)
{
    static const char *const prefixes[] = {"redisson_lock__channel", "redisson_lock_queue", "redlatch_lock_waiters"};
    static const char *const suffixes[] = {"timeout", "8e03978e-40d5-43e8-bc93-6894a57f9324:1:rwlock_timeout:1"};
    unsigned own = rdl__slot(name, len);

    for (size_t i = 0; i < 3; i++) {
        rdl__buf_cut(&b, 0);
        rdl__name_prefix(&b, prefixes[i], name, len);
        if (rdl__slot(b.data, b.len) != own)
            return false;
    }
    for (size_t i = 0; i < 2; i++) {
        rdl__buf_cut(&b, 0);
        rdl__name_suffix(&b, name, len, suffixes[i]);
        if (rdl__slot(b.data, b.len) != own)
            return false;
    }
    return true;
}

Test(names, the_known_traps_split_over_slots)
{
    static const char *const traps[] = {"", "a{b", "x{}y", "a}b", "{}", "}{", "}", "{", "}x"};
    static const char *const fine[] = {"a", "orders:42", "{u}:x", "x{u}", "a}{b}", "{{}", "{a}{"};

    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        cr_assert_not(rdl__name_one_slot(traps[i], strlen(traps[i])), "%s", traps[i]);
        cr_assert_not(keys_in_one_slot(traps[i], strlen(traps[i])), "%s", traps[i]);
    }
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        cr_assert(rdl__name_one_slot(fine[i], strlen(fine[i])), "%s", fine[i]);
        cr_assert(keys_in_one_slot(fine[i], strlen(fine[i])), "%s", fine[i]);
    }
    cr_assert_not(rdl__name_one_slot(NULL, 0));
}

Test(names, one_slot_is_right_for_all_short_names_of_braces_and_letters)
{
    static const char alphabet[] = "{}ab";
    size_t disagreements = 0, names = 0;

    for (size_t len = 0; len <= 6; len++) {
        for (size_t number = 0; number < (size_t)1 << (2 * len); number++) {
            char name[6];

            for (size_t i = 0; i < len; i++)
                name[i] = alphabet[number >> (2 * i) & 3];
            names++;
            if (rdl__name_one_slot(name, len))
                cr_assert(keys_in_one_slot(name, len), "%.*s", (int)len, name);
            else
                disagreements += keys_in_one_slot(name, len);
        }
    }
    cr_assert_leq(disagreements, names / 1000); /* keys that meet by chance */
}
