/* SPDX-License-Identifier: MIT */
/* fuzz_printable.c - any bytes as a lock's name: the printable form fits, is harmless, and says what the bytes were.
 *
 * The first byte of an input chooses the room. */
#include "core/base/err.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/wait.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint8_t hex(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Undo the form; returns the number of bytes. */
static size_t undo(uint8_t *to, const char *form, size_t len)
{
    size_t out = 0;

    for (size_t i = 0; i < len; out++) {
        if (form[i] != '\\') {
            to[out] = (uint8_t)form[i++];
        } else {
            FUZZ_CLAIM(i + 4 <= len && form[i + 1] == 'x');
            to[out] = (uint8_t)(hex(form[i + 2]) << 4 | hex(form[i + 3]));
            i += 4;
        }
    }
    return out;
}

/* Code points of `text` by arithmetic, independent of the tables of the code under test; false when it is no UTF-8. */
static bool is_utf8(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    while (*s != 0) {
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        size_t len = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
        uint32_t point = len == 1 ? *s : *s & (0x7fU >> len);

        if (len == 0)
            return false;
        for (size_t i = 1; i < len; i++) {
            if ((s[i] & 0xc0) != 0x80)
                return false;
            point = point << 6 | (s[i] & 0x3fU);
        }
        if (point < least[len] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
            return false;
        s += len;
    }
    return true;
}

static void claim_form(const char *form, size_t len, const uint8_t *bytes, size_t size)
{
    bool cut = len >= 3 && strcmp(form + len - 3, "...") == 0;
    uint8_t *back = must_alloc(len + 1);
    size_t back_len = undo(back, form, len);

    for (size_t i = 0; i < len; i++)
        FUZZ_CLAIM((unsigned char)form[i] >= 0x20 && form[i] != 0x7f);
    FUZZ_CLAIM(is_utf8(form));
    if (back_len != size || memcmp(back, bytes, size) != 0)
        FUZZ_CLAIM(cut && back_len - 3 <= size && memcmp(back, bytes, back_len - 3) == 0);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t cap = size > 0 ? 5 + (size_t)data[0] * 8 : 5;
    const uint8_t *bytes = size > 0 ? data + 1 : data;
    size_t count = size > 0 ? size - 1 : 0;
    char *form = must_alloc(cap);
    size_t len = rdl__printable(form, cap, (const char *)bytes, count);
    rdl_err_t err = {0};

    FUZZ_CLAIM(len < cap && strlen(form) == len);
    FUZZ_CLAIM(4 * count >= cap || len <= 4 * count);
    claim_form(form, len, bytes, count);
    free(form);

    rdl__err_set(&err, RDL_ESERVER, "%.*s", (int)count, (const char *)bytes);
    for (const char *c = err.message; *c != '\0'; c++)
        FUZZ_CLAIM((unsigned char)*c >= 0x20 && *c != 0x7f);
    return 0;
}
