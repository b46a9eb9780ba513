/* SPDX-License-Identifier: MIT */
/* composite/verbs.h - the verbs of composites: acquiring in take.c, the others in gather.c. */
#ifndef REDLATCH_COMPOSITE_VERBS_H
#define REDLATCH_COMPOSITE_VERBS_H

#include "locks/composite/call.h"

extern const struct rdl__composite_verb rdl__composite_take;
extern const struct rdl__composite_verb rdl__composite_release;
extern const struct rdl__composite_verb rdl__composite_extend;
extern const struct rdl__composite_verb rdl__composite_force;
extern const struct rdl__composite_verb rdl__composite_is_locked;
extern const struct rdl__composite_verb rdl__composite_remaining;

/* Of a verb of gather.c: who has not answered by now has failed. It ends.  @locks mu */
void rdl__composite_answers_are_late(struct rdl__composite_op *call);

#endif
