/* SPDX-License-Identifier: MIT */
/* sentinel.h - the finder of a master behind Sentinel.  @thread loop, all of it, unless it says otherwise
 *
 * See sentinel.c. The node whose finder this is stands for the master (node.h).
 */
#ifndef REDLATCH_IO_SENTINEL_H
#define REDLATCH_IO_SENTINEL_H

#include "core/io/node.h"

struct rdl__sentinels;

/* Make the finder of `master`, whose URI names the sentinels, and set it there. tls, username and password are for the
 * sentinels, and may be NULL. NULL: no memory.  @thread any */
struct rdl__sentinels *rdl__sentinels_new(struct rdl__node *master, struct rdl__tls *tls, const char *username,
                                          const char *password);

void rdl__sentinels_open(struct rdl__sentinels *all, int64_t now);
void rdl__sentinels_close(struct rdl__sentinels *all); /* NULL is fine */

/* NULL is fine; returns NULL.  @thread any, the loop has stopped */
struct rdl__sentinels *rdl__sentinels_free(struct rdl__sentinels *all);

/* Was a master found, ever? */
bool rdl__sentinels_found(const struct rdl__sentinels *all);

#endif
