/* reader.h - replies out of bytes: hiredis' reader building the views of core/wire/reply.h in an arena of its own.
 *
 * In steady state nothing is allocated: the arena keeps its first chunk, hiredis keeps its buffer.
 */
#ifndef REDLATCH_IO_READER_H
#define REDLATCH_IO_READER_H

#include "core/base/mem.h"
#include "core/wire/reply.h"

#include <stdbool.h>

struct rdl__reader;

struct rdl__reader *rdl__reader_new(const struct rdl__mem *mem); /* NULL: no memory */
struct rdl__reader *rdl__reader_free(struct rdl__reader *r);     /* NULL is fine; returns NULL */

/* Add bytes. RDL_OK, RDL_ENOMEM, or RDL_ESERVER after an error in the protocol. */
int rdl__reader_feed(struct rdl__reader *r, const void *bytes, size_t len);

/* If nothing is begun, and *at begins with a whole integer, which nearly every script answers: that reply, and *at behind it.
 * Much cheaper than feeding it. False: feed what is there. */
bool rdl__reader_integer(struct rdl__reader *r, const char **at, const char *end, const struct rdl__reply **ret);

/* The next whole reply, valid until the next call on this reader; NULL in *ret when more bytes are needed.
 * RDL_OK, RDL_ENOMEM, or RDL_ESERVER when the bytes are not the Redis protocol. */
int rdl__reader_next(struct rdl__reader *r, const struct rdl__reply **ret);

#endif
