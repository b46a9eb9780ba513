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

struct rdl__resolve; /* a look-up under way */

/* The addresses of a unix path, a numeric host or localhost, at once. False: it is a name, and somebody has to be asked. */
bool rdl__resolve_numeric(const struct rdl__uri *uri, struct rdl__addrs *ret);

/* Ask the system's resolver on a thread of its own; `done` runs on the loop: addrs, or NULL and the reason. NULL when the
 * thread cannot be had.  @thread loop */
struct rdl__resolve *
rdl__resolve_start(struct rdl__loop *loop, const struct rdl__uri *uri,
                   void (*done)(void *arg, const struct rdl__addrs *addrs, const char *why, int64_t now), void *arg);

/* Forget about it: `done` will not run; the thread ends when the resolver lets it. NULL is fine; returns NULL.  @thread loop */
struct rdl__resolve *rdl__resolve_drop(struct rdl__resolve *r);

#endif
