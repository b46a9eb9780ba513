/* SPDX-License-Identifier: MIT */
/* crowd.h - many threads of several clients on few locks, for the race programs: nested, with and without patience,
 * first on a sound line and then on one that is cut again and again. Whoever is inside is alone, or all are who
 * read, and tokens only grow.
 *
 * What a lock guards is plain memory: ThreadSanitizer sees it when the library lets two threads in without an order. */
#ifndef TESTS_SUPPORT_CROWD_H
#define TESTS_SUPPORT_CROWD_H

#include "tests/support/race.h"

#define CROWD_CLIENTS_MAX 3
#define CROWD_LOCKS_MAX 4

struct crowd {
    int threads, clients, locks;
    rdl_lock_t *lock[CROWD_CLIENTS_MAX][CROWD_LOCKS_MAX]; /* each client's handles, of the same names */
    rdl_lock_t *read[CROWD_CLIENTS_MAX][CROWD_LOCKS_MAX]; /* the read ends of those that have one, or NULL */
    struct guarded guarded[CROWD_LOCKS_MAX];
    atomic_ullong acquired[CROWD_CLIENTS_MAX], refused, unknown;
    atomic_bool phase_over;
};

/* The stage, with a proxy, and a further client, whose connection comes back soon after each cut. */
void crowd_open(struct stage *st);
rdl_client_t *crowd_client(const struct stage *st, int32_t connections);

/* Run until the time is over, and claim what must hold, also that each client has had the locks. Frees them. */
void crowd_run(struct crowd *crowd, struct stage *st);

#endif
