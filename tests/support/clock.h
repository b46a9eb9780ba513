/* SPDX-License-Identifier: MIT */
/* clock.h - the wall clock of a server, to be set by a test (clockstep.c). */
#ifndef TESTS_SUPPORT_CLOCK_H
#define TESTS_SUPPORT_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* By how many microseconds it is off: 0, until that is changed. *ret_file is for server_options.clock, and may be
 * removed when the server has started; to be freed. */
_Atomic int64_t *clock_make(char **ret_file);

/* What this process starts from now on has the clock of that file; NULL: no longer. */
void clock_preload(const char *file);

#endif
