/* SPDX-License-Identifier: MIT */
#include "tests/support/resp.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bytes_add(struct bytes *b, const void *from, size_t len)
{
    if (len > b->cap - b->len) {
        b->cap = (b->len + len) * 2;
        b->at = must_realloc(b->at, b->cap);
    }
    if (len > 0)
        memcpy(b->at + b->len, from, len);
    b->len += len;
}

void bytes_drop(struct bytes *b, size_t len)
{
    b->len -= len;
    if (b->len > 0)
        memmove(b->at, b->at + len, b->len);
}

void bytes_done(struct bytes *b)
{
    free(b->at);
    *b = (struct bytes){0};
}

/* Length of the line at `at` with its CRLF, 0 when it has no end yet. */
static size_t line_length(const char *at, size_t len)
{
    const char *end = len == 0 ? NULL : memchr(at, '\n', len);

    return end == NULL ? 0 : (size_t)(end - at) + 1;
}

/* The number behind a line's type byte. The line is whole, so its end stops the reading. Without a sign the lowest fits
 * too. */
static int64_t number_of(const char *line)
{
    bool negative = line[1] == '-';
    uint64_t number = 0;

    for (const char *at = line + 1 + negative; *at >= '0' && *at <= '9'; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    return (int64_t)(negative ? -number : number);
}

ssize_t resp_frame(const char *at, size_t len)
{
    size_t used = line_length(at, len);
    int64_t announced;

    if (used == 0)
        return 0;
    if (memchr("$=!*~>%|", at[0], 8) == NULL)
        return (ssize_t)used;
    announced = number_of(at);
    if (announced < -1)
        return -1;
    if (memchr("$=!", at[0], 3) != NULL) {
        if (announced < 0)
            return (ssize_t)used;
        used += (size_t)announced + 2;
        return used <= len ? (ssize_t)used : 0;
    }
    if (at[0] == '%' || at[0] == '|')
        announced *= 2;
    if (at[0] == '|') /* an attribute and the value that it belongs to */
        announced++;
    for (int64_t i = 0; i < announced; i++) {
        ssize_t item = resp_frame(at + used, len - used);

        if (item <= 0)
            return item;
        used += (size_t)item;
    }
    return (ssize_t)used;
}

static char *text_copy(const char *at, size_t len)
{
    char *text = must_alloc(len + 1);

    memcpy(text, at, len);
    return text;
}

static size_t parse_at(struct reply *r, const char *at, size_t len);

static size_t parse_items(struct reply *r, enum reply_kind kind, size_t count, const char *at, size_t len)
{
    size_t used = 0;

    r->kind = kind;
    r->count = count;
    r->items = must_alloc((count + 1) * sizeof *r->items);
    for (size_t i = 0; i < count; i++)
        used += parse_at(&r->items[i], at + used, len - used);
    return used;
}

/* Read one frame into *r; the caller has made sure that it is complete. Returns its length. */
static size_t parse_at(struct reply *r, const char *at, size_t len)
{
    size_t line = line_length(at, len);
    int64_t number = number_of(at);

    switch (at[0]) {
    case ':':
        r->kind = REPLY_INTEGER;
        r->integer = number;
        return line;
    case '#':
        r->kind = REPLY_INTEGER;
        r->integer = at[1] == 't';
        return line;
    case '_':
        r->kind = REPLY_NIL;
        return line;
    case '$':
    case '=':
    case '!':
        r->kind = number < 0 ? REPLY_NIL : at[0] == '!' ? REPLY_ERROR : REPLY_STRING;
        if (number < 0)
            return line;
        r->len = (size_t)number;
        r->text = text_copy(at + line, r->len);
        return line + r->len + 2;
    case '*':
    case '~':
    case '>':
        if (number < 0) {
            r->kind = REPLY_NIL;
            return line;
        }
        return line + parse_items(r, at[0] == '>' ? REPLY_PUSH : REPLY_ARRAY, (size_t)number, at + line, len - line);
    case '%':
        return line + parse_items(r, REPLY_ARRAY, (size_t)number * 2, at + line, len - line);
    case '-':
        r->kind = REPLY_ERROR;
        break;
    default:
        r->kind = at[0] == '+' ? REPLY_STATUS : REPLY_STRING;
        break;
    }
    r->len = line - 3;
    r->text = text_copy(at + 1, r->len);
    return line;
}

struct reply *resp_parse(const char *at, size_t len)
{
    struct reply *r = must_alloc(sizeof *r);

    parse_at(r, at, len);
    return r;
}

static void reply_done(struct reply *r)
{
    for (size_t i = 0; i < r->count; i++)
        reply_done(&r->items[i]);
    free(r->items);
    free(r->text);
}

void reply_free(struct reply *reply)
{
    if (reply == NULL)
        return;
    reply_done(reply);
    free(reply);
}

static const char *inline_word(const char *at, size_t len, size_t i, size_t *ret_len)
{
    size_t start = 0;
    size_t end = 0;

    for (;; i--) {
        start = end;
        while (start < len && strchr(" \r\n", at[start]) != NULL)
            start++;
        end = start;
        while (end < len && strchr(" \r\n", at[end]) == NULL)
            end++;
        if (i == 0)
            break;
    }
    *ret_len = end - start;
    return end > start ? at + start : NULL;
}

const char *resp_word(const char *at, size_t len, size_t i, size_t *ret_len)
{
    size_t used = line_length(at, len);

    if (used == 0 || (at[0] != '*' && at[0] != '>'))
        return inline_word(at, len, i, ret_len);
    if ((int64_t)i >= number_of(at))
        return NULL;
    for (; i > 0; i--) {
        ssize_t item = resp_frame(at + used, len - used);

        if (item <= 0)
            return NULL;
        used += (size_t)item;
    }
    if (used >= len || at[used] != '$')
        return NULL;
    *ret_len = (size_t)number_of(at + used);
    return at + used + line_length(at + used, len - used);
}

void resp_request(struct bytes *to, size_t argc, const char *const *argv, const size_t *argv_len)
{
    char head[32];

    bytes_add(to, head, (size_t)snprintf(head, sizeof head, "*%zu\r\n", argc));
    for (size_t i = 0; i < argc; i++) {
        size_t len = argv_len != NULL ? argv_len[i] : strlen(argv[i]);

        bytes_add(to, head, (size_t)snprintf(head, sizeof head, "$%zu\r\n", len));
        bytes_add(to, argv[i], len);
        bytes_add(to, "\r\n", 2);
    }
}
