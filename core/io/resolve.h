/* SPDX-License-Identifier: MIT */
/* resolve.h - from a URI to socket addresses, without stopping the loop. */
#ifndef REDLATCH_IO_RESOLVE_H
#define REDLATCH_IO_RESOLVE_H

#include "core/io/loop.h"
#include "core/io/sock.h"

#define RDL__ADDRS_MAX 8

struct rdl__addrs {
    struct rdl__addr addr[RDL__ADDRS_MAX];
    unsigned count;
};

/* Rotate the addresses so that they begin with this one, if it is one of them. */
void rdl__addrs_begin_with(struct rdl__addrs *addrs, const struct rdl__addr *first);

struct rdl__resolver; /* a client's */
struct rdl__resolve;  /* a look-up under way */

/* The addresses of a unix path, a numeric host or localhost, at once. False: it is a name, for rdl__resolve_start. */
bool rdl__resolve_numeric(const struct rdl__uri *uri, struct rdl__addrs *ret);

/* NULL: no memory. */
struct rdl__resolver *rdl__resolver_new(struct rdl__loop *loop);

/* Without look-ups under way. Threads that are inside getaddrinfo end by themselves. NULL is fine; returns NULL. */
struct rdl__resolver *rdl__resolver_free(struct rdl__resolver *resolver);

/* Ask the system's resolver on a thread; `done` runs on the loop: addrs, the families alternating, or NULL and the
 * reason. NULL when memory is short, or a thread cannot be started.  @thread loop */
struct rdl__resolve *
rdl__resolve_start(struct rdl__resolver *resolver, const struct rdl__uri *uri,
                   void (*done)(void *arg, const struct rdl__addrs *addrs, const char *why, int64_t now), void *arg);

/* Cancel: `done` will not run. NULL is fine; returns NULL.  @thread loop */
struct rdl__resolve *rdl__resolve_drop(struct rdl__resolve *r);

#endif
