/* SPDX-License-Identifier: MIT */
/* sync.c - mutex, and the parker.
 *
 * A thread has a seat for life, one of 32 in a row, and sleeps there whatever it waits for: a private futex for each
 * row, whose bitset wakes any of its seats in one call. That is what many callers of one connection are woken by,
 * whose answers come together: one call instead of one for each, and whoever wakes them is not put aside for each.
 *
 *     sleeper                                   poster
 *     read the row's count                      add the bits; read the seat that is in the same word
 *     write its seat; read the bits             if there is one, change the row's count, and wake the seat
 *     sleep while the row's count is that
 *
 * Bits and seat are one word: either the sleeper sees the bits, or the poster sees the seat. The bits are added before
 * the count changes, and read after it: who has read the new count sees the bits, and who has read the old one does not
 * fall asleep. What ends a sleep without cause (a wake in the row just before it, a signal, another thread of the same
 * seat, a post for an earlier parker) only leads to another look. */
#include "core/base/sync.h"

#include "core/base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <redlatch/error.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The kernel measures a futex's timeout on a clock that stands still while the machine is suspended. Looking at our own
 * clock once in a while bounds how late a deadline that passed during suspension is noticed. */
#define LONGEST_SLEEP (5 * RDL__SEC)

_Static_assert(sizeof(struct timespec) == 2 * sizeof(long), "SYS_futex reads two longs");

/* Seats are never given back: threads after so many share those of earlier ones. */
enum { ROWS = 256, SEATS = 32 };

struct row {
    _Alignas(64) _Atomic uint32_t count; /* of wakes; goes round. On a line of its own, as it changes at each */
};

static struct row rows[ROWS];

/* This thread's seat, from 1. */
static uint32_t seat_here(void)
{
    static _Atomic uint32_t seated;
    static _Thread_local uint32_t seat;

    if (seat == 0)
        seat = atomic_fetch_add_explicit(&seated, 1, memory_order_relaxed) % (ROWS * SEATS) + 1;
    return seat;
}

static uint32_t row_of(uint32_t seat)
{
    return (seat - 1) / SEATS;
}

static uint32_t bit_of(uint32_t seat)
{
    return UINT32_C(1) << (seat - 1) % SEATS;
}

/* until: of CLOCK_MONOTONIC. seats: one bit each. */
static void futex(struct row *row, int op, uint32_t value, const struct timespec *until, uint32_t seats)
{
    (void)syscall(SYS_futex, &row->count, op, value, until, NULL, seats);
}

#ifdef REDLATCH_ASSERTS
unsigned *rdl__mutexes_held(void)
{
    static _Thread_local unsigned held;

    return &held;
}
#endif

int rdl__mutex_init(struct rdl__mutex *mu)
{
#ifdef REDLATCH_ASSERTS
    mu->holder = (pthread_t)0;
#endif
    return pthread_mutex_init(&mu->m, NULL) == 0 ? RDL_OK : RDL_ENOMEM;
}

void rdl__mutex_done(struct rdl__mutex *mu)
{
    (void)pthread_mutex_destroy(&mu->m);
}

static void wake(uint32_t row, uint32_t seats)
{
    (void)atomic_fetch_add_explicit(&rows[row].count, 1, memory_order_acq_rel);
    futex(&rows[row], FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, seats);
}

/* Returns the owner's seat; 0: it has not sat down since the parker was made. */
static uint32_t post(struct rdl__parker *p, uint32_t bits)
{
    return (uint32_t)(atomic_fetch_or_explicit(&p->word, bits, memory_order_acq_rel) >> 32);
}

void rdl__parker_post(struct rdl__parker *p, uint32_t bits)
{
    uint32_t seat = post(p, bits);

    if (seat != 0)
        wake(row_of(seat), bit_of(seat));
}

void rdl__parker_post_with(struct rdl__parker *p, uint32_t bits, struct rdl__wakes *wakes)
{
    uint32_t seat = post(p, bits);
    size_t i = 0;

    if (seat == 0)
        return;
    while (i < wakes->n && wakes->in[i].row != row_of(seat))
        i++;
    if (i == RDL__WAKES) {
        rdl__wakes_send(wakes);
        i = 0;
    }
    if (i == wakes->n)
        wakes->in[wakes->n++] = (struct rdl__wakes_in){.row = row_of(seat)};
    wakes->in[i].seats |= bit_of(seat);
}

void rdl__wakes_send(struct rdl__wakes *wakes)
{
    for (size_t i = 0; i < wakes->n; i++)
        wake(wakes->in[i].row, wakes->in[i].seats);
    wakes->n = 0;
}

/* Sleep while the row's count is that, for `ns` at most, or without end: RDL__NEVER. */
static void sleep_while(uint32_t seat, uint32_t count, int64_t ns)
{
    int64_t end = ns != RDL__NEVER ? rdl__awake() + (ns < LONGEST_SLEEP ? ns : LONGEST_SLEEP) : 0;
    struct timespec until = {.tv_sec = (time_t)(end / RDL__SEC), .tv_nsec = (long)(end % RDL__SEC)};

    futex(&rows[row_of(seat)], FUTEX_WAIT_BITSET_PRIVATE, count, ns != RDL__NEVER ? &until : NULL, bit_of(seat));
}

/* Write the seat into the parker's word. Returns what is posted. */
static uint32_t sit_down(struct rdl__parker *p, uint32_t seat)
{
    uint64_t word = atomic_load_explicit(&p->word, memory_order_acquire);

    while (word >> 32 != seat &&
           !atomic_compare_exchange_weak_explicit(&p->word, &word, (uint64_t)seat << 32 | (uint32_t)word,
                                                  memory_order_acq_rel, memory_order_acquire))
        ;
    return (uint32_t)word;
}

uint32_t rdl__park_for(struct rdl__parker *p, uint32_t bits, int64_t deadline)
{
    uint32_t seat = seat_here();

    if ((rdl__parker_peek(p) & bits) != 0)
        return rdl__parker_peek(p); /* without a seat, so that nobody wakes who does not sleep */
    for (;;) {
        uint32_t count = atomic_load_explicit(&rows[row_of(seat)].count, memory_order_acquire);
        uint32_t posted = sit_down(p, seat);
        int64_t left = RDL__NEVER;

        if ((posted & bits) != 0)
            return posted;
        if (deadline != RDL__NEVER && (left = deadline - rdl__now()) <= 0)
            return rdl__parker_peek(p);
        sleep_while(seat, count, left);
    }
}

uint32_t rdl__park(struct rdl__parker *p, int64_t deadline)
{
    return rdl__park_for(p, UINT32_MAX, deadline);
}
