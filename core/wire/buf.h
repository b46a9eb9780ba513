/* SPDX-License-Identifier: MIT */
/* buf.h - a growing byte buffer, and Redis commands written into it.
 *
 * Memory shortage is sticky: after a failed append the buffer remembers it and ignores further appends; the writer
 * checks once, at the end (rdl__buf_failed), and cuts back to where it began (rdl__buf_cut), which clears the mark.
 */
#ifndef REDLATCH_WIRE_BUF_H
#define REDLATCH_WIRE_BUF_H

#include "core/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rdl__buf {
    const struct rdl__mem *mem;
    char *data;
    size_t len;
    size_t cap;
    bool failed;
};

void rdl__buf_init(struct rdl__buf *b, const struct rdl__mem *mem);
void rdl__buf_done(struct rdl__buf *b); /* also of a zeroed one */

/* Make room for `more` bytes beyond len. False, and the mark set, when there is none. */
bool rdl__buf_reserve_slow(struct rdl__buf *b, size_t more);

static inline bool rdl__buf_reserve(struct rdl__buf *b, size_t more)
{
    return b->cap - b->len >= more && !b->failed ? true : rdl__buf_reserve_slow(b, more);
}

static inline void rdl__buf_put(struct rdl__buf *b, const void *bytes, size_t len)
{
    if (rdl__buf_reserve(b, len) && len != 0) {
        memcpy(b->data + b->len, bytes, len);
        b->len += len;
    }
}

static inline bool rdl__buf_failed(const struct rdl__buf *b)
{
    return b->failed;
}

static inline void rdl__buf_cut(struct rdl__buf *b, size_t len)
{
    b->len = len;
    b->failed = false;
}

/* The first *sent bytes are sent. Once they are half of all they are dropped, and *sent is 0, so that a reader who is
 * always behind does not let the buffer grow; which moves no byte more than once on average. */
static inline void rdl__buf_drop_sent(struct rdl__buf *b, size_t *sent)
{
    size_t pending = b->len - *sent;

    if (*sent == 0 || *sent < pending)
        return;
    memmove(b->data, b->data + *sent, pending);
    rdl__buf_cut(b, pending);
    *sent = 0;
}

/* ---- commands: `*argc` then each argument as `$len` and bytes --------------------------------------------------- */

void rdl__cmd_begin(struct rdl__buf *b, size_t argc);
/* With the first arguments, of which args is the text. */
void rdl__cmd_begin_with(struct rdl__buf *b, size_t argc, const char *args, size_t len);
void rdl__cmd_arg(struct rdl__buf *b, const void *bytes, size_t len);
char *rdl__cmd_room(struct rdl__buf *b,
                    size_t len); /* an argument of len bytes: where to write them; NULL: no memory */
/* An argument of 10 to `most` bytes, 99 at most, whose length is not known yet: where to write them; NULL: no memory.
 * Then, unless it was, and with nothing between, how many they are. */
char *rdl__cmd_open(struct rdl__buf *b, size_t most);
void rdl__cmd_close(struct rdl__buf *b, size_t len);
void rdl__cmd_str(struct rdl__buf *b, const char *string);
void rdl__cmd_int(struct rdl__buf *b, int64_t value);

#define RDL__INT_ARG_MAX (1 + 2 + 2 + 20 + 2)

/* The same into `to`, which has room for RDL__INT_ARG_MAX: an argument that is laid out once. Returns its length. */
size_t rdl__int_arg(char *to, int64_t value);

/* WAIT: until so many replicas have all that was written on this connection. */
void rdl__cmd_wait(struct rdl__buf *b, uint32_t replicas, uint32_t timeout_ms);

/* The decimal text of value, not NUL-terminated; `to` has room for 20 bytes. Returns its length. Fast: hot path. */
size_t rdl__itoa(char *to, int64_t value);

#endif
