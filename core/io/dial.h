/* SPDX-License-Identifier: MIT */
/* dial.h - a connection to whichever of several addresses answers (RFC 8305, "happy eyeballs").
 *
 * The addresses are tried in their order. Each attempt begins as soon as the one before it has failed, or has been
 * silent for a while; earlier ones go on meanwhile. The first that is connected is kept, the others are closed.
 * @thread loop, all of it, unless it says otherwise
 */
#ifndef REDLATCH_IO_DIAL_H
#define REDLATCH_IO_DIAL_H

#include "core/io/resolve.h"
#include "core/io/watch.h"

struct rdl__dial;

struct rdl__dial_try {
    struct rdl__dial *dial;
    struct rdl__sock sock;
    struct rdl__watch watch;
};

struct rdl__dial {
    struct rdl__loop *loop;
    void (*done)(struct rdl__dial *dial, int64_t now);
    const struct rdl__addrs *addrs;
    int64_t delay;
    struct rdl__timer timer; /* the next attempt is due */
    unsigned next;           /* address to be tried */
    unsigned open;           /* attempts under way */
    struct rdl__dial_try tries[RDL__ADDRS_MAX];
    /* for `done` */
    struct rdl__sock sock; /* connected, and its own from then on; fd -1: none could be */
    unsigned won;          /* which address that is */
    int error;             /* else an errno: of the attempt that failed last */
};

/* @thread any */
void rdl__dial_init(struct rdl__dial *dial, struct rdl__loop *loop, void (*done)(struct rdl__dial *dial, int64_t now));

/* Begin; `done` runs once, perhaps from inside. `addrs` has one at least, and stays as it is until then. All are tried
 * before `deadline`, however many there are. */
void rdl__dial_start(struct rdl__dial *dial, const struct rdl__addrs *addrs, int64_t now, int64_t deadline);

void rdl__dial_stop(struct rdl__dial *dial); /* `done` will not run; also of one that is over */

#endif
