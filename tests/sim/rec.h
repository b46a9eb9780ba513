/* SPDX-License-Identifier: MIT */
/* rec.h - what the client's record of a hold says. */
#ifndef TESTS_SIM_REC_H
#define TESTS_SIM_REC_H

#include "core/call/record.h"
#include "tests/sim/apps.h"

int64_t rec_valid_until(const struct rdl__record *rec);
int64_t rec_rests_since(const struct caller *caller, const struct rdl__record *rec, const struct lock_call *call);
int64_t rec_asked_at(const struct rdl__record *rec); /* by the app's clock, at the earliest: its present lease */
void rec_fields(struct hold *h, const struct rdl__record *rec); /* at the server, and as losses name it */

#endif
