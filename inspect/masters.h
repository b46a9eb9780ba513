/* SPDX-License-Identifier: MIT */
/* masters.h - the servers that are asked where all of them are meant (masters.c). */
#ifndef REDLATCH_INSPECT_MASTERS_H
#define REDLATCH_INSPECT_MASTERS_H

#include "core/service/client.h"

/* The masters that have slots; `masters` has room for RDL__SHARDS_MAX. Returns how many. Behind the first answer of any
 * of them the map is known.  @thread any */
unsigned rdl__masters(rdl_client_t *client, struct rdl__shard **masters);

#endif
