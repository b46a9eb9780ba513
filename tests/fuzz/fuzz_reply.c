/* SPDX-License-Identifier: MIT */
/* fuzz_reply.c - the texts that a server answers with, read by the code under test and by a slower reading of the same
 * rule.
 *
 * An input is a key, a newline, and the text. */
#include "core/wire/reply.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool separates(char c, char sep)
{
    return c == '\r' || c == '\n' || (sep == '=' && c == ' ');
}

/* The first place where the key stands at a field's beginning, with `sep` behind it. */
static bool slow_field(const char *text, size_t len, const char *key, char sep, size_t *ret_at, size_t *ret_len)
{
    size_t key_len = strlen(key);

    for (size_t i = 0; i + key_len < len; i++) {
        size_t end = i + key_len + 1;

        if ((i != 0 && !separates(text[i - 1], sep)) || memcmp(text + i, key, key_len) != 0 || text[i + key_len] != sep)
            continue;
        *ret_at = end;
        while (end < len && !separates(text[end], sep))
            end++;
        *ret_len = end - *ret_at;
        return true;
    }
    return false;
}

static bool has_separator(const char *key, char sep)
{
    for (; *key != '\0'; key++) {
        if (separates(*key, sep))
            return true;
    }
    return false;
}

static void claim_field(const struct rdl__reply *r, const char *key, char sep)
{
    size_t at = 0, expected_len = 0, len = 0;
    const char *value = NULL;
    bool expected = slow_field(r->str, r->len, key, sep, &at, &expected_len);

    if (has_separator(key, sep))
        return;
    FUZZ_CLAIM(rdl__reply_field(r, key, sep, &value, &len) == expected);
    FUZZ_CLAIM(!expected || (value == r->str + at && len == expected_len));
}

static void claim_integer(const struct rdl__reply *r)
{
    const char *digits = r->len > 0 && r->str[0] == '-' ? r->str + 1 : r->str;
    bool expected = digits[0] != '\0' && strspn(digits, "0123456789") == r->len - (size_t)(digits - r->str);
    int64_t value = 0;
    long long slow;

    errno = 0;
    slow = strtoll(r->str, NULL, 10);
    expected = expected && errno == 0;
    FUZZ_CLAIM(rdl__reply_integer(r, &value) == expected);
    FUZZ_CLAIM(!expected || value == slow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size != 0 ? memchr(data, '\n', size) : NULL;
    size_t key_len = newline != NULL ? (size_t)(newline - data) : 0;
    size_t begin = newline != NULL ? key_len + 1 : 0;
    char *key = must_alloc(key_len + 1);
    char *text = must_alloc(size - begin + 1);
    struct rdl__reply r = {.type = RDL__REPLY_STRING, .str = text, .len = size - begin};

    if (key_len != 0)
        memcpy(key, data, key_len);
    if (r.len != 0)
        memcpy(text, data + begin, r.len);
    claim_field(&r, key, ':');
    claim_field(&r, key, '=');
    claim_integer(&r);
    r.type = RDL__REPLY_ERROR;
    FUZZ_CLAIM(!rdl__reply_is_error(&r, key) ||
               (strncmp(text, key, strlen(key)) == 0 && (r.len == strlen(key) || text[strlen(key)] == ' ')));
    free(key);
    free(text);
    return 0;
}
