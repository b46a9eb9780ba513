/* SPDX-License-Identifier: MIT */
/* describe.h - a client's description: what stands at its key, written and read (wire.md, Descriptions).
 *
 * A description is for people: who is behind the U of a hold's field. Nothing is decided by it, it may be missing, and
 * whoever may write keys may have written anything there.
 */
#ifndef REDLATCH_SERVICE_DESCRIBE_H
#define REDLATCH_SERVICE_DESCRIBE_H

#include "core/wire/buf.h"
#include "core/wire/ident.h"
#include "core/wire/reply.h"

#include <redlatch/client.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RDL__DESCRIBE_KEY_MAX (sizeof "redlatch_client:{}" + RDL__UUID_LEN) /* with its NUL */

/* Texts end in a NUL, and are "" where nothing is known; numbers are 0 then. They are the bytes of whoever wrote them:
 * not to be shown but through rdl__printable. */
struct rdl__description {
    char host[65];
    char program[65];
    char version[17]; /* of the library */
    char label[RDL_LABEL_MAX + 1];
    char info[RDL_INFO_MAX + 1];
    int64_t pid;
    int64_t start_ms; /* when the client was opened: ms since 1970, by its host's clock */
};

/* The key of the client whose id is at `u`, RDL__UUID_LEN bytes, as in the field of a hold: NUL-terminated. Returns its
 * length. */
size_t rdl__describe_key(char to[RDL__DESCRIBE_KEY_MAX], const char *u);

/* Append the command that writes it, to be kept for ttl_ms; or that asks for it; or that takes it away. `eval` as in
 * rdl__script_begin. Writing may be repeated. */
void rdl__describe_put(struct rdl__buf *to, const char *u, const struct rdl__description *d, int64_t ttl_ms, bool eval);
void rdl__describe_ask(struct rdl__buf *to, const char *u);
void rdl__describe_drop(struct rdl__buf *to, const char *u);

/* What the answer to the asking says; longer texts are cut. False, and all is empty: there is none, or it is an error.
 */
bool rdl__describe_decode(const struct rdl__reply *reply, struct rdl__description *ret);

#endif
