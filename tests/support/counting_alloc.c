/* SPDX-License-Identifier: MIT */
/* counting_alloc.c - an allocator that counts, checks and fails.
 *
 * In front of each block stands a tomb: the size asked for and a mark that says whether the block is live. A new block
 * is full of what makes no sense, a large one only at its beginning: those are buffers, written before they are read. A
 * block given back is overwritten, so that reading it goes wrong soon, and buried: its memory stays ours until a
 * thousand others have followed, so that the mark can still be read when it is given back again. Under AddressSanitizer
 * nothing is buried: it finds both mistakes itself, and better. */
#include "tests/support/counting_alloc.h"

#include "tests/support/wait.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define BURIES 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BURIES 0
#endif
#endif
#ifndef BURIES
#define BURIES 1
#endif

#define LIVE UINT64_C(0x11fe11fe11fe11fe)
#define DEAD UINT64_C(0xdeadb10cdeadb10c)
#define FILLED_MOST 2048

struct tomb {
    alignas(max_align_t) _Atomic uint64_t mark;
    size_t size;
};

static void raise_peak(struct counting_alloc *a, int64_t bytes)
{
    int64_t peak = atomic_load(&a->peak_bytes);

    while (bytes > peak && !atomic_compare_exchange_weak(&a->peak_bytes, &peak, bytes))
        ;
}

static bool must_fail(struct counting_alloc *a)
{
    int64_t call = atomic_fetch_add(&a->calls, 1) + 1;

    return atomic_load(&a->fail_first) != 0 && call >= atomic_load(&a->fail_first) &&
           call <= atomic_load(&a->fail_last);
}

static void *take(size_t size, void *arg)
{
    struct counting_alloc *a = arg;
    struct tomb *t;

    if (size == 0)
        die("a request for 0 bytes");
    if (must_fail(a)) {
        atomic_fetch_add(&a->refused, 1);
        return NULL;
    }
    if (size > SIZE_MAX - sizeof *t || (t = malloc(sizeof *t + size)) == NULL)
        return NULL;
    atomic_init(&t->mark, LIVE);
    t->size = size;
    memset(t + 1, 0xa5, size < FILLED_MOST ? size : FILLED_MOST);
    atomic_fetch_add(&a->blocks, 1);
    raise_peak(a, atomic_fetch_add(&a->bytes, (int64_t)size) + (int64_t)size);
    return t + 1;
}

static void bury(struct counting_alloc *a, struct tomb *t)
{
    if (BURIES)
        t = atomic_exchange(&a->graves[atomic_fetch_add(&a->next_grave, 1) % COUNTING_ALLOC_GRAVES], t);
    free(t);
}

static void give_back(void *block, size_t size, void *arg)
{
    struct counting_alloc *a = arg;
    struct tomb *t = (struct tomb *)block - 1;
    uint64_t mark = LIVE;

    if (block == NULL)
        die("NULL given back");
    if (!atomic_compare_exchange_strong(&t->mark, &mark, DEAD))
        die(mark == DEAD ? "a block given back twice" : "something given back that is no block");
    if (t->size != size)
        die("a block of %zu bytes given back as one of %zu", t->size, size);
    atomic_fetch_sub(&a->blocks, 1);
    atomic_fetch_sub(&a->bytes, (int64_t)size);
    memset(block, 0xdb, size < FILLED_MOST ? size : FILLED_MOST);
    bury(a, t);
}

rdl_allocator_t counting_alloc_init(struct counting_alloc *a)
{
    memset(a, 0, sizeof *a);
    return (rdl_allocator_t){.alloc = take, .free = give_back, .arg = a};
}

void counting_alloc_done(struct counting_alloc *a)
{
    size_t used = atomic_load(&a->next_grave);

    for (size_t i = 0; i < COUNTING_ALLOC_GRAVES && i < used; i++)
        free(atomic_exchange(&a->graves[i], NULL));
}

static void fail_between(struct counting_alloc *a, int64_t first, int64_t last)
{
    atomic_store(&a->fail_first, 0); /* nothing fails while the rest changes */
    atomic_store(&a->fail_last, last);
    atomic_store(&a->refused, 0);
    atomic_store(&a->calls, 0);
    atomic_store(&a->fail_first, first);
}

void counting_alloc_fail_at(struct counting_alloc *a, int64_t call)
{
    fail_between(a, call, call);
}

void counting_alloc_fail_from(struct counting_alloc *a, int64_t call)
{
    fail_between(a, call, INT64_MAX);
}

int64_t counting_alloc_calls(const struct counting_alloc *a)
{
    return atomic_load(&a->calls);
}

int64_t counting_alloc_refused(const struct counting_alloc *a)
{
    return atomic_load(&a->refused);
}

int64_t counting_alloc_blocks(const struct counting_alloc *a)
{
    return atomic_load(&a->blocks);
}

int64_t counting_alloc_bytes(const struct counting_alloc *a)
{
    return atomic_load(&a->bytes);
}

int64_t counting_alloc_peak_bytes(const struct counting_alloc *a)
{
    return atomic_load(&a->peak_bytes);
}
