/* SPDX-License-Identifier: MIT */
/* census.h - the locks that one scan has found: how many of each kind, and of the first so many the numbers. Bounded,
 * whatever the servers have. Pure.
 *
 * Since when somebody holds a lock is at the server for few types. Of the others a census says for how long the same
 * owner has been seen with it, scan by scan: it is given the census before it. */
#ifndef REDLATCH_EXPORTER_CENSUS_H
#define REDLATCH_EXPORTER_CENSUS_H

#include <redlatch/inspect.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CENSUS_NAME_MAX 256 /* bytes; a lock of a longer name is only counted */

struct census_holder {
    uint64_t owner; /* a hash of it */
    int64_t since_ms;
};

struct census_lock {
    char *label; /* the name, as it stands in a label; owned */
    const char *type;
    int64_t holders, waiters, ttl_ms, held_ms; /* -1: not known, or none */
    size_t holder_count;
    struct census_holder *holder; /* those that are listed; owned */
};

/* Types and states are static strings of the library's, and few. */
struct census_kind {
    const char *type, *state;
    int64_t count;
};

/* Zeroed but for `most` and `before`: none. */
struct census {
    size_t most;                 /* so many locks are told one by one */
    const struct census *before; /* which has ended; NULL: there was none. Looked at by census_add only */
    size_t count, room;
    struct census_lock *locks; /* by label, when it has ended */
    int64_t left_out;          /* these are only counted */
    size_t kind_count;
    struct census_kind kinds[64];
};

/* `now_ms` is any clock's that only goes on. False without memory. */
bool census_add(struct census *c, const rdl_inspection_t *lock, int64_t now_ms);

/* All are added. */
void census_end(struct census *c);

/* Of one that has ended. */
void census_print(FILE *out, const struct census *c);

void census_done(struct census *c);

#endif
