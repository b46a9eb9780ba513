/* SPDX-License-Identifier: MIT */
/* duration.h - times as people type them: "10", "2.5", "500ms", "2s", "5m", "1h". */
#ifndef REDLATCH_TOOL_DURATION_H
#define REDLATCH_TOOL_DURATION_H

#include <redlatch/lock.h>
#include <stddef.h>
#include <stdint.h>

/* No duration is longer: about 34 years, the longest lease there is. */
#define DURATION_MAX_MS RDL_LEASE_MAX_MS

enum duration_result { DURATION_OK, DURATION_MALFORMED, DURATION_TOO_LONG };

/* Digits with at most one point in or before them, then ms, s, m, h or nothing (seconds). No sign, no blanks, no
 * exponent, whatever the locale. What is finer than a millisecond is rounded up, so that only zero is zero. */
enum duration_result duration_parse(const char *text, int64_t *ret_ms);

/* "850 ms", "12.3 s", "5 min 2 s", "3 h 20 min"; cut to cap. */
void duration_print(int64_t ms, char *to, size_t cap);

/* The same of what was asked for: nothing is rounded below a minute ("1.5 s", "10 s", "1.005 s"). */
void duration_print_exact(int64_t ms, char *to, size_t cap);

#endif
