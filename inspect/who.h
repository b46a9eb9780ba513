/* SPDX-License-Identifier: MIT */
/* who.h - what clients say of themselves, by their ids (wire.md, Descriptions). */
#ifndef REDLATCH_INSPECT_WHO_H
#define REDLATCH_INSPECT_WHO_H

#include "core/service/client.h"

#include <redlatch/inspect.h>

/* Descriptions that were asked for, kept for the next who wants them.  @thread one */
struct rdl__who {
    rdl_client_t *client;
    struct rdl__table known;
    struct rdl__link wanted; /* added, and not asked for yet */
};

int rdl__who_init(struct rdl__who *who, rdl_client_t *client); /* RDL_OK or RDL_ENOMEM */
void rdl__who_done(struct rdl__who *who);

/* Say whom the inspection names: then ask for all of those, and write into it what they say. A description that cannot
 * be had, for want of memory or of rights, is an unknown one. */
void rdl__who_want(struct rdl__who *who, const rdl_inspection_t *inspection);
void rdl__who_ask(struct rdl__who *who);
void rdl__who_tell(const struct rdl__who *who, rdl_inspection_t *inspection);

#endif
