/* SPDX-License-Identifier: MIT */
/* resp.h - the part of Redis' protocol that the tests speak by themselves.
 *
 * Kept apart from hiredis and from the library's own reader, so that a mistake there cannot hide itself here. Reads
 * RESP2 and RESP3 frames; writes requests.
 */
#ifndef TESTS_SUPPORT_RESP_H
#define TESTS_SUPPORT_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes that grow. A zeroed one is empty. */
struct bytes {
    char *at;
    size_t len;
    size_t cap;
};

void bytes_add(struct bytes *b, const void *from, size_t len);
void bytes_drop(struct bytes *b, size_t len); /* from the front */
void bytes_done(struct bytes *b);

enum reply_kind {
    REPLY_STATUS,
    REPLY_ERROR,
    REPLY_INTEGER,
    REPLY_STRING,
    REPLY_NIL,
    REPLY_ARRAY, /* maps too: keys and values by turns */
    REPLY_PUSH,
};

struct reply {
    enum reply_kind kind;
    int64_t integer; /* REPLY_INTEGER */
    char *text;      /* REPLY_STATUS, _ERROR, _STRING: NUL-terminated after len bytes; else NULL */
    size_t len;
    struct reply *items; /* REPLY_ARRAY, _PUSH */
    size_t count;
};

/* Length of the frame that starts at `at`; 0 when it is not all there yet, -1 when these bytes are no RESP frame. A
 * line that starts with none of RESP's type bytes is an inline command and counts as a frame. */
ssize_t resp_frame(const char *at, size_t len);

/* Read one whole frame; free it with reply_free. */
struct reply *resp_parse(const char *at, size_t len);
void reply_free(struct reply *reply);

/* The i-th word of a request frame, or NULL: bytes inside `at`. */
const char *resp_word(const char *at, size_t len, size_t i, size_t *ret_len);

/* Append a request. */
void resp_request(struct bytes *to, size_t argc, const char *const *argv, const size_t *argv_len);

#endif
