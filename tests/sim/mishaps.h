/* SPDX-License-Identifier: MIT */
/* mishaps.h - what random runs of every kind draw alike: spans of time, waits, and which fault strikes when.
 *
 * A run is its number, whoever compiled it. Two draws are never arguments of one call or operands of one operator,
 * whose order is the compiler's.
 */
#ifndef TESTS_SIM_MISHAPS_H
#define TESTS_SIM_MISHAPS_H

#include <stddef.h>
#include <stdint.h>

int64_t draw_ms(int64_t least, int64_t most); /* in ns */

/* Of ten waits two are none, one is short, three are some round trips. The rest is as long as the caller likes: -1. */
int64_t draw_wait_ms(void);

struct fault {
    void (*happen)(void);
    unsigned weight;
};

/* At some moment of the next span_ns one of them happens. In a fibre. */
void fault_strikes(const struct fault *faults, size_t count, int64_t span_ns);

/* Faults of any connection that there is: it is cut, at once or after some more bytes. */
void fault_cut(void);
void fault_cut_after(void);

#endif
