/* SPDX-License-Identifier: MIT */
/* permit_verbs.h - the verbs of a semaphore whose permits have ids, for its public functions (permit_semaphore.c),
 * which check arguments. Beside them it has those of permits.h. */
#ifndef REDLATCH_COUNTED_PERMIT_VERBS_H
#define REDLATCH_COUNTED_PERMIT_VERBS_H

#include "locks/counted/permits.h"

/* Of as many ids as the order's amount, in its list. */
extern const struct rdl__verb rdl__permit_take, rdl__permit_release;
/* Of one id. */
extern const struct rdl__verb rdl__permit_extend, rdl__permit_remaining;
/* How many permits are free, and taken; set how many there are. */
extern const struct rdl__verb rdl__permit_available, rdl__permit_acquired, rdl__permit_set;

bool rdl__permit_is_id(const rdl_permit_t *permit);

#endif
