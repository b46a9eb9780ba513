/* SPDX-License-Identifier: MIT */
/* fake_loop.h - the loop and the clock under virtual time, for unit tests of what runs on the loop.
 *
 * Linked in place of core/io/loop.c and core/base/clock.c. Nothing happens by itself: fake_loop_run lets time pass. One
 * loop a test.
 */
#ifndef TESTS_UNIT_FAKE_LOOP_H
#define TESTS_UNIT_FAKE_LOOP_H

#include "core/io/loop.h"

struct rdl__loop {
    int64_t now;
    struct rdl__heap timers;
    struct rdl__link tasks; /* posted, or for later: here that is the same */
};

void fake_loop_init(struct rdl__loop *loop, int64_t now);

/* Run the tasks that are posted, and the timers that go off until `until`, each at its moment. */
void fake_loop_run(struct rdl__loop *loop, int64_t until);

/* Run the tasks that are posted, and no timer. False: there were none. */
bool fake_loop_tasks(struct rdl__loop *loop);

#endif
