/* SPDX-License-Identifier: MIT */
/* err.c - codes, texts, and filling an rdl_err_t.
 *
 * What ends up in front of a person is one line of UTF-8 without control characters, whatever a server or a name put
 * into it, and cut between characters when it is too long. */
#include "core/base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char ellipsis[] = "...";
enum { ELLIPSIS_LEN = sizeof ellipsis - 1 };

const char *rdl_version(void)
{
    return RDL_VERSION;
}

const char *rdl_strerror(int code)
{
    switch (code) {
    case RDL_OK:
        return "success";
#define CASE(name, number, text)                                                                                       \
    case name:                                                                                                         \
        return text;
        RDL_ERRORS(CASE)
#undef CASE
    default:
        return "unknown error";
    }
}

const char *rdl_err_name(int code)
{
    switch (code) {
    case RDL_OK:
        return "RDL_OK";
#define CASE(name, number, text)                                                                                       \
    case name:                                                                                                         \
        return #name;
        RDL_ERRORS(CASE)
#undef CASE
    default:
        return NULL;
    }
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The longest length <= max at which `text` may be cut without splitting a UTF-8 sequence. */
static size_t boundary(const char *text, size_t max)
{
    size_t at = max;

    while (at > 0 && max - at < 3 && is_continuation(text[at]))
        at--;
    return is_continuation(text[at]) ? max : at; /* no UTF-8 at all: anywhere */
}

/* The length of the valid UTF-8 sequence of two to four bytes at `s`, or 0: overlong forms, surrogates and what lies
 * above U+10FFFF are not valid. The second byte's range depends on the first; the others' does not. */
static size_t utf8_sequence(const unsigned char *s, size_t left)
{
    size_t len = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
                 : s[0] >= 0xe0 && s[0] <= 0xef ? 3
                 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                : 0;
    unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;

    if (len == 0 || len > left || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if (!is_continuation((char)s[i]))
            return 0;
    }
    return len;
}

/* What terminals obey becomes a blank, and what is no UTF-8 a question mark: JSON, say, can have none. */
static void make_plain(char *text)
{
    size_t left = strlen(text), step;

    for (; left > 0; text += step, left -= step) {
        step = 1;
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
        else if ((unsigned char)*text >= 0x80)
            step = utf8_sequence((const unsigned char *)text, left);
        if (step == 0) {
            *text = '?';
            step = 1;
        }
    }
}

size_t rdl__vline(char *to, size_t cap, const char *fmt, va_list args)
{
    int want = vsnprintf(to, cap, fmt, args);
    size_t len = want > 0 ? (size_t)want : 0;

    if (len >= cap) {
        len = boundary(to, cap - 1 - ELLIPSIS_LEN);
        memcpy(to + len, ellipsis, sizeof ellipsis);
        len += ELLIPSIS_LEN;
    }
    to[len] = '\0';
    make_plain(to);
    return len;
}

size_t rdl__line(char *to, size_t cap, const char *fmt, ...)
{
    va_list args;
    size_t len;

    va_start(args, fmt);
    len = rdl__vline(to, cap, fmt, args);
    va_end(args);
    return len;
}

void rdl__err_fill_(rdl_err_t *err, int code, const char *fmt, ...)
{
    char message[sizeof err->message]; /* apart from err, because a caller may quote err's own message in the new one */
    va_list args;

    if (err == NULL)
        return;
    if (fmt != NULL) {
        va_start(args, fmt);
        (void)rdl__vline(message, sizeof message, fmt, args);
        va_end(args);
    } else {
        (void)rdl__line(message, sizeof message, "%s", rdl_strerror(code));
    }
    memset(err, 0, sizeof *err);
    err->code = code;
    memcpy(err->message, message, strlen(message));
}

void rdl__err_where(rdl_err_t *err, const char *server, const char *name, size_t name_len)
{
    if (err == NULL)
        return;
    if (server != NULL)
        (void)rdl__line(err->server, sizeof err->server, "%s", server);
    if (name != NULL)
        (void)rdl__printable(err->lock, sizeof err->lock, name, name_len);
}

/* Write the printable form of what begins at `s` into `unit`. Returns how many bytes of `s` it stands for. */
static size_t print_unit(char unit[5], size_t *unit_len, const unsigned char *s, size_t left)
{
    static const char hex[] = "0123456789abcdef";
    size_t taken = s[0] >= 0x20 && s[0] <= 0x7e && s[0] != '\\' ? 1 : utf8_sequence(s, left);

    if (taken != 0) {
        memcpy(unit, s, taken);
        *unit_len = taken;
        return taken;
    }
    unit[0] = '\\';
    unit[1] = 'x';
    unit[2] = hex[s[0] >> 4];
    unit[3] = hex[s[0] & 0xf];
    *unit_len = 4;
    return 1;
}

size_t rdl__printable(char *to, size_t cap, const char *bytes, size_t len)
{
    const unsigned char *s = (const unsigned char *)bytes;
    size_t out = 0;
    size_t cut = 0; /* the last place between two units where "..." still fits */

    for (size_t i = 0; i < len;) {
        char unit[5];
        size_t unit_len;

        i += print_unit(unit, &unit_len, s + i, len - i);
        if (out + unit_len >= cap) {
            memcpy(to + cut, ellipsis, ELLIPSIS_LEN);
            out = cut + ELLIPSIS_LEN;
            break;
        }
        memcpy(to + out, unit, unit_len);
        out += unit_len;
        if (out + ELLIPSIS_LEN < cap)
            cut = out;
    }
    to[out] = '\0';
    return out;
}
