/* SPDX-License-Identifier: MIT */
/* names.c - derived keys and cluster slots.
 *
 * A cluster hashes only the hash tag of a key, when it has one: what lies between its first '{' and the first '}'
 * behind that, unless this is nothing. Wrapping a name in braces thus keeps derived keys in the name's own slot, but
 * for the names that rdl__name_one_slot finds. */
#include "core/wire/names.h"

enum { SLOTS = 16384 };

static bool has_open_brace(const char *name, size_t len)
{
    return len != 0 && memchr(name, '{', len) != NULL;
}

static bool has_close_brace(const char *name, size_t len)
{
    return len != 0 && memchr(name, '}', len) != NULL;
}

static void put_wrapped(struct rdl__buf *b, const char *name, size_t len)
{
    bool bare = has_open_brace(name, len);

    rdl__buf_put(b, "{", bare ? 0 : 1);
    rdl__buf_put(b, name, len);
    rdl__buf_put(b, "}", bare ? 0 : 1);
}

/* What stands before and after the name. */
struct affixes {
    size_t prefix_len, open_len, close_len;
    const char *open;
};

static struct affixes affixes(const char *prefix, const char *name, size_t len)
{
    size_t prefix_len = strlen(prefix);
    bool wraps = prefix_len > 0 && prefix[prefix_len - 1] == '{', bare = !wraps && has_open_brace(name, len);

    return (struct affixes){.prefix_len = prefix_len,
                            .open_len = wraps  ? 0
                                        : bare ? 1
                                               : 2,
                            .close_len = bare ? 0 : 1,
                            .open = ":{"};
}

void rdl__name_prefix(struct rdl__buf *b, const char *prefix, const char *name, size_t len)
{
    struct affixes a = affixes(prefix, name, len);

    rdl__buf_put(b, prefix, a.prefix_len);
    rdl__buf_put(b, a.open, a.open_len);
    rdl__buf_put(b, name, len);
    rdl__buf_put(b, "}", a.close_len);
}

size_t rdl__name_prefix_len(const char *prefix, const char *name, size_t len)
{
    struct affixes a = affixes(prefix, name, len);

    return a.prefix_len + a.open_len + len + a.close_len;
}

void rdl__cmd_prefixed(struct rdl__buf *b, const char *prefix, const char *name, size_t len)
{
    struct affixes a = affixes(prefix, name, len);
    char *at = rdl__cmd_room(b, a.prefix_len + a.open_len + len + a.close_len);

    if (at == NULL)
        return;
    memcpy(at, prefix, a.prefix_len);
    at += a.prefix_len;
    memcpy(at, a.open, a.open_len);
    at += a.open_len;
    if (len != 0)
        memcpy(at, name, len);
    if (a.close_len != 0)
        at[len] = '}';
}

bool rdl__name_may_be_wrapped(const char *text, size_t len)
{
    return len > 2 && text[0] == '{' && text[len - 1] == '}' && !has_open_brace(text + 1, len - 2);
}

void rdl__name_suffix(struct rdl__buf *b, const char *name, size_t len, const char *suffix)
{
    put_wrapped(b, name, len);
    rdl__buf_put(b, ":", 1);
    rdl__buf_put(b, suffix, strlen(suffix));
}

/* CRC-16/XMODEM: polynomial 0x1021, start 0; four bits a step. */
static unsigned crc16(const char *bytes, size_t len)
{
    static const uint16_t steps[16] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
    };
    unsigned crc = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned byte = (unsigned char)bytes[i];

        crc = (crc << 4 & 0xffff) ^ steps[crc >> 12 ^ byte >> 4];
        crc = (crc << 4 & 0xffff) ^ steps[crc >> 12 ^ (byte & 0xf)];
    }
    return crc;
}

/* The hash tag of a key; false when it has none. */
static bool hash_tag(const char *key, size_t len, const char **ret_tag, size_t *ret_len)
{
    const char *open = len != 0 ? memchr(key, '{', len) : NULL;
    const char *close = open != NULL ? memchr(open, '}', len - (size_t)(open - key)) : NULL;

    if (close == NULL || close == open + 1)
        return false;
    *ret_tag = open + 1;
    *ret_len = (size_t)(close - open) - 1;
    return true;
}

unsigned rdl__slot(const char *key, size_t len)
{
    const char *hashed = key;
    size_t hashed_len = len;

    (void)hash_tag(key, len, &hashed, &hashed_len);
    return crc16(hashed, hashed_len) % SLOTS;
}

bool rdl__name_one_slot(const char *name, size_t len)
{
    const char *tag;
    size_t tag_len;

    if (has_open_brace(name, len)) /* derived keys leave it as it is: its own tag, if any, must hold them together */
        return hash_tag(name, len, &tag, &tag_len);
    return len != 0 && !has_close_brace(name, len); /* else the tag of `{N}` is not N */
}
