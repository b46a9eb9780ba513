/* SPDX-License-Identifier: MIT */
/* mixed.h - reading and writing in bulk under a read-write lock that Java uses as well; the same in Java is
 * peer/src/redlatch/peer/Mixed.java.
 *
 * Every third round writes: under the write end it raises {NAME}:writers, which must give 1 while {NAME}:readers is 0,
 * then {NAME}:left and {NAME}:right, each by reading it and writing it, and counts in {NAME}:writes; every other one of
 * these goes on reading, by taking the read end before it gives the write end back. A reader, of either kind, raises
 * {NAME}:readers, and must see {NAME}:writers 0 and both halves alike. Whatever is otherwise is an overlap. What was
 * lost shows in the end, when the halves are held against {NAME}:writes.
 *
 * {NAME}:C and {NAME}:J count each side's rounds; a side that is `streak` rounds ahead waits for the other. It is over
 * when both together are `goal`. A crossing is a round since whose predecessor, of the same participant, the other side
 * had one.
 */
#ifndef TESTS_INTEROP_MIXED_H
#define TESTS_INTEROP_MIXED_H

#include "tests/interop/rounds.h"

/* Take part until the end, as the calling thread. RDL_OK, or what went wrong with the lock. */
int mixed_take_part(rdl_lock_t *read, rdl_lock_t *write, struct probe *p, const struct rounds_plan *plan,
                    struct rounds_done *done);

/* The number of writes; -1 when the halves say otherwise. */
int64_t mixed_writes(struct probe *p, const char *name);

#endif
