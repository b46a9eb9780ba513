/* SPDX-License-Identifier: MIT */
/* counting_alloc.h - an allocator for rdl_allocator_t that counts, checks, and fails when it is told to.
 *
 * It aborts the test, with a message, when a block is given back with another size than it was asked for with, is given
 * back twice, or was never its own. Any thread may use it, several at once.
 *
 *     struct counting_alloc a;
 *     rdl_allocator_t hooks = counting_alloc_init(&a);
 *     counting_alloc_fail_at(&a, 3);      the third call from now fails, the others do not
 *     ...
 *     cr_assert_eq(counting_alloc_blocks(&a), 0);
 *     counting_alloc_done(&a);
 */
#ifndef TESTS_SUPPORT_COUNTING_ALLOC_H
#define TESTS_SUPPORT_COUNTING_ALLOC_H

#include <redlatch/client.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COUNTING_ALLOC_GRAVES = 1024 };

struct counting_alloc {
    _Atomic int64_t calls;      /* since the last setting of what fails */
    _Atomic int64_t fail_first; /* the first call that fails, counted from 1; 0: none */
    _Atomic int64_t fail_last;
    _Atomic int64_t refused;
    _Atomic int64_t blocks;
    _Atomic int64_t bytes;
    _Atomic int64_t peak_bytes;
    _Atomic size_t next_grave;
    _Atomic(void *)
        graves[COUNTING_ALLOC_GRAVES]; /* the last blocks given back, kept so that a second time is noticed */
};

/* The hooks point to `a`, which must outlive their use. */
rdl_allocator_t counting_alloc_init(struct counting_alloc *a);

/* Frees what was kept. Live blocks are the test's to check. */
void counting_alloc_done(struct counting_alloc *a);

/* What fails, counted in calls from now, the next one being 1; 0: nothing. */
void counting_alloc_fail_at(struct counting_alloc *a, int64_t call);   /* this one only */
void counting_alloc_fail_from(struct counting_alloc *a, int64_t call); /* this one and all after it */

int64_t
counting_alloc_calls(const struct counting_alloc *a); /* allocations since init or the last fail_at, fail_from */
int64_t counting_alloc_refused(const struct counting_alloc *a); /* of those, the ones that failed */
int64_t counting_alloc_blocks(const struct counting_alloc *a);  /* live now */
int64_t counting_alloc_bytes(const struct counting_alloc *a);   /* live now */
int64_t counting_alloc_peak_bytes(const struct counting_alloc *a);

#endif
