/* SPDX-License-Identifier: MIT */
/* entropy.h - randomness: identities from the kernel, jitter from a small generator seeded once.
 *
 * Seam: the simulator links an entropy.c of its own, so that a run is one number.
 */
#ifndef REDLATCH_BASE_ENTROPY_H
#define REDLATCH_BASE_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

/* Fill from the kernel (getrandom, else /dev/urandom). RDL_OK, or RDL_ENOMEM when there is none to be had. */
int rdl__entropy(void *to, size_t len);

struct rdl__rand {
    uint64_t state; /* splitmix64 */
};

static inline uint64_t rdl__rand_next(struct rdl__rand *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* From 0..bound-1, evenly but for a bias below bound / 2^64; 0 for bound 0. */
static inline uint64_t rdl__rand_below(struct rdl__rand *r, uint64_t bound)
{
    return bound == 0 ? 0 : rdl__rand_next(r) % bound;
}

#endif
