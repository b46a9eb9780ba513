/* SPDX-License-Identifier: MIT */
/* share.h - who has had what all race for lets others have it (protocol.md, 5, rule 21). A release says how many hear
 * of it; whose client is let in then owes about as many of the next ones to others. They are used up by the releases
 * that it hears while a call of it waits.  @thread any, unless it says otherwise */
#ifndef REDLATCH_CALL_SHARE_H
#define REDLATCH_CALL_SHARE_H

#include <stdint.h>

struct rdl__call;

/* The call has given it back: its answer may say how many have heard of that. Does nothing where nobody races. */
void rdl__share_released(const struct rdl__call *call);

/* The call was let in. Likewise. */
void rdl__share_taken(const struct rdl__call *call);

/* The call waits, and hears of a release, behind which so many are free. For how many ns does it let others try? 0: it
 * is its client's turn, or there is enough for all.  @thread loop */
int64_t rdl__share_pass(const struct rdl__call *call, int64_t free, int64_t now);

#endif
