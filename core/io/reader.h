/* SPDX-License-Identifier: MIT */
/* reader.h - replies out of bytes: hiredis' reader building the views of core/wire/reply.h in an arena of its own.
 *
 * In steady state nothing is allocated: the arena keeps its first chunk, hiredis keeps its buffer.
 *
 * Attributes (RESP3's `|`), which may stand before any value, are left out. What a server may make us remember is
 * bounded: a reply that is larger (frames.h), or nested deeper, than any answer to what we ask is an error, as soon as
 * it says so, or has come so far.
 */
#ifndef REDLATCH_IO_READER_H
#define REDLATCH_IO_READER_H

#include "core/base/mem.h"
#include "core/wire/frames.h"
#include "core/wire/reply.h"

#include <stdbool.h>

struct rdl__reader;

#define RDL__REPLY_DEPTH_MAX 16 /* arrays within arrays */

/* Where an error quotes `secret` there will be stars instead; NULL: there is none. It must outlive the reader. NULL: no
 * memory. */
struct rdl__reader *rdl__reader_new(const struct rdl__mem *mem, const char *secret);
struct rdl__reader *rdl__reader_free(struct rdl__reader *r); /* NULL is fine; returns NULL */

/* Add bytes, less than RDL__REPLY_BYTES_MAX at a time. RDL_OK, RDL_ENOMEM, or RDL_ESERVER after an error in the
 * protocol. */
int rdl__reader_feed(struct rdl__reader *r, const void *bytes, size_t len);

/* If nothing is begun, and *at begins with a whole integer, which nearly every script answers: that reply, and *at
 * behind it. Much cheaper than feeding it. False: feed what is there. */
bool rdl__reader_integer(struct rdl__reader *r, const char **at, const char *end, const struct rdl__reply **ret);

/* The next whole reply, valid until the next call on this reader; NULL in *ret when more bytes are needed.
 * RDL_OK, RDL_ENOMEM, or RDL_ESERVER when the bytes are not the Redis protocol, or too many. */
int rdl__reader_next(struct rdl__reader *r, const struct rdl__reply **ret);

/* What is wrong, for people, after one of these has failed. Static. */
const char *rdl__reader_why(const struct rdl__reader *r);

#endif
