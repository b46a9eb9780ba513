/* SPDX-License-Identifier: MIT */
/* ours.h - redlatch, for measurements that need more of it than kind.h has. What fails is the end of the program. */
#ifndef TOOLS_BENCHMARKS_OURS_H
#define TOOLS_BENCHMARKS_OURS_H

#include "tools/benchmarks/programs/measure.h"

#include <redlatch/redlatch.h>

/* options may be NULL. */
rdl_client_t *ours_open(const char *server, const rdl_client_options_t *options);
rdl_lock_t *ours_lock(rdl_client_t *client, const char *kind, const char *name); /* of one of our kinds (kind.h) */
rdl_owner_t *ours_owner(rdl_client_t *client);

/* What the run wants as lease_ms. */
int64_t ours_lease(const struct run *run);

/* For callbacks: a call that failed is the end. */
void ours_check(int64_t result, const rdl_err_t *err);

/* What a party of ours does (kind.h), wherever its client was made; arg is the party. */
void ours_part(void *arg);
void ours_take(void *arg);
void ours_release(void *arg);

/* Take n locks for one owner, some at a time; returns when all are held. */
void ours_hold_all(rdl_lock_t *const *locks, int64_t n, rdl_owner_t *owner, int64_t lease_ms);

#endif
