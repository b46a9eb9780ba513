/* SPDX-License-Identifier: MIT */
/* look.h - one look at a name: which keys, and what they say (look.c). */
#ifndef REDLATCH_INSPECT_LOOK_H
#define REDLATCH_INSPECT_LOOK_H

#include "core/service/client.h"

#include <redlatch/inspect.h>

/* Keys beside a name, and channels, as bits. */
enum {
    RDL__BESIDE_TOKEN = 1,
    RDL__BESIDE_QUEUE = 2, /* of a fair lock, with its signs of life */
    RDL__BESIDE_SIGNS = 4,
    RDL__BESIDE_TURNS = 8, /* the same of a fair semaphore, whose signs nobody needs here */
    RDL__BESIDE_PERMITS = 16,
    RDL__BESIDE_ALL = 31,
};
enum {
    RDL__HEARD_LOCK,
    RDL__HEARD_READWRITE,
    RDL__HEARD_SEMAPHORE,
    RDL__HEARD_LATCH,
    RDL__HEARD_SIMPLE,
    RDL__HEARD_COUNT
};
#define RDL__HEARD_ALL 31u

struct rdl__look {
    rdl_client_t *client;
    const char *name;
    size_t len;
    unsigned beside, heard; /* bits: what is looked at. Of channels 1 << RDL__HEARD_... */
    unsigned most;          /* holders and waiters */
    bool any_value;         /* a string is a simple lock, whatever it says */

    int rc;                 /* RDL_OK; RDL_EINVAL: no lock, RDL_ESERVER, RDL_ENOMEM */
    char words[240];        /* what the server has refused it with, or what it is */
    rdl_inspection_t *made; /* rc is RDL_OK. Descriptions are not filled in */
};

void rdl__look_put(const struct rdl__look *look, struct rdl__buf *to, bool eval);
void rdl__look_take(struct rdl__look *look, const struct rdl__reply *reply); /* again: the former is forgotten */

/* Is it `U:n`, `U:n:write` or the like? */
bool rdl__is_owner(const char *text, size_t len);

/* What is in rdl_inspection_t, to be filled in. */
rdl_holder_t *rdl__inspection_holders(rdl_inspection_t *inspection);
rdl_waiter_t *rdl__inspection_waiters(rdl_inspection_t *inspection);

#endif
