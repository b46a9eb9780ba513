/* SPDX-License-Identifier: MIT */
/* ident.h - identities on the wire: a client's U and an owner's field `U:n` (wire.md, Identity). */
#ifndef REDLATCH_WIRE_IDENT_H
#define REDLATCH_WIRE_IDENT_H

#include <stddef.h>
#include <stdint.h>

#define RDL__UUID_LEN 36
#define RDL__FIELD_MAX (RDL__UUID_LEN + 1 + 20 + 8) /* and a lock type's own ending */

struct rdl__uuid {
    char text[RDL__UUID_LEN + 1]; /* lower case, NUL-terminated */
};

int rdl__uuid_make(struct rdl__uuid *uuid); /* random, version 4; RDL_OK or RDL_ENOMEM (no entropy) */

/* Write `U:n`, not NUL-terminated; `to` has room for RDL__FIELD_MAX. Returns the length. */
size_t rdl__field(char *to, const struct rdl__uuid *uuid, int64_t n);

struct rdl__buf;

/* It as a command's argument. */
void rdl__cmd_field(struct rdl__buf *b, const struct rdl__uuid *uuid, int64_t n);

#endif
