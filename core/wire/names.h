/* SPDX-License-Identifier: MIT */
/* names.h - keys and channels made from a lock's name, and cluster slots (wire.md, Names). */
#ifndef REDLATCH_WIRE_NAMES_H
#define REDLATCH_WIRE_NAMES_H

#include "core/wire/buf.h"

#include <stdbool.h>

/* Append prefix(p, N): `p:N` when N contains '{' anywhere, else `p:{N}`; where p ends in '{' itself, always `pN}`. */
void rdl__name_prefix(struct rdl__buf *b, const char *prefix, const char *name, size_t len);
size_t rdl__name_prefix_len(const char *prefix, const char *name, size_t len);

/* The same as one argument of a command. */
void rdl__cmd_prefixed(struct rdl__buf *b, const char *prefix, const char *name, size_t len);

/* What prefix(p, N) has behind `p:`: may braces have been put around N? Then N is what they enclose, or it has them
 * itself: `{a}` is made of both `a` and `{a}`. */
bool rdl__name_may_be_wrapped(const char *text, size_t len);

/* Append suffix(N, s): `N:s` when N contains '{', else `{N}:s`. */
void rdl__name_suffix(struct rdl__buf *b, const char *name, size_t len, const char *suffix);

/* The cluster slot of a key: CRC16 (XMODEM) of the hash tag, or of the whole key, modulo 16384. */
unsigned rdl__slot(const char *key, size_t len);

/* Do the keys that Redisson derives from this name (N, `p:{N}` or `p:N`, and `{N}:s` or `N:s`) all lie in N's slot? */
bool rdl__name_one_slot(const char *name, size_t len);

#endif
