/* SPDX-License-Identifier: MIT */
/* checks.h - what has to hold between C and Java, whatever the lock type.
 *
 * Each opens a meeting of its own, so it is the whole of a test; give it the type's name and which side does what.
 * Those that fit only some types say so. A type's own file calls what fits and adds what is particular to it.
 */
#ifndef TESTS_INTEROP_CHECKS_H
#define TESTS_INTEROP_CHECKS_H

#include "tests/interop/party.h"

/* While one holds the lock the other neither gets it nor can release it; once released it does. Both give up waiting in
 * time, and nothing is left behind. For exclusive types. */
void check_exclusion(const char *type, enum party_kind holder, enum party_kind other);

/* A waiter asleep under a long lease gets the lock by its holder's release: one message, `0`, and one try. For types
 * whose waiters share a channel. */
void check_release_wakes(const char *type, enum party_kind holder, enum party_kind waiter);

/* The watchdog of the holder's side keeps the lock for several leases, as the other side sees it; and lets go. */
void check_renewal_holds(const char *type, enum party_kind holder, enum party_kind other);

/* A force-unlock from the other side frees the lock, wakes a waiter of the holder's side, and the former holder cannot
 * hurt the new one. */
void check_force_unlock(const char *type, enum party_kind holder, enum party_kind other);

/* Taken three times, the lock is the other's only after the third release. For re-entrant types. */
void check_reentry(const char *type, enum party_kind holder, enum party_kind other);

/* The holder's process is killed: a waiter takes over when the lease ends, neither sooner nor much later. */
void check_death(const char *type, enum party_kind holder, enum party_kind waiter);

/* The same with a lease of its own, and nothing but the two: for types that are not one key. */
void check_takeover(const char *type, enum party_kind holder, enum party_kind waiter);

/* `goal` rounds shared by two Java threads, two C threads and a C process: no overlap, no update lost. */
void check_rounds(const char *type, int64_t goal);

/* `goal` rounds in all, in pairs of a Java thread and a C thread, each pair under a lock of its own and all at the same
 * time: for types where those who meet pause. */
void check_rounds_of_pairs(const char *type, int64_t goal);

/* The same of readers and writers (mixed.h), of a type that is a read end; of the C parties of that type, which may be
 * one that Java does not know. */
void check_mixed(const char *type, int64_t goal);

/* A test's step: holder has `name`, waiter sleeps for it, the release hands it over; the waiter releases it as well.
 * The waiter must be subscribed to `channel`. */
void check_hand_over(struct meeting *m, struct party *holder, struct party *waiter, const char *name,
                     const char *channel);

/* Wait until a waiter that was started after `mark` has subscribed and tried again: from here on only a message, the
 * hint or its deadline lets it try. */
void wait_asleep(struct meeting *m, size_t mark, const struct party *waiter, const char *name, const char *channel);

/* How often did the party's client try to take `name` after `mark`? */
size_t tries_after(struct meeting *m, size_t mark, const struct party *who, const char *name);

#endif
