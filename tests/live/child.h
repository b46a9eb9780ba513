/* SPDX-License-Identifier: MIT */
/* child.h - what is checked in a child of fork, which has no framework, and that it held. */
#ifndef TESTS_LIVE_CHILD_H
#define TESTS_LIVE_CHILD_H

#include "tests/live/live.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_IN_CHILD(condition)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            dprintf(STDERR_FILENO, "in the child: %s does not hold\n", #condition);                                    \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static inline void expect_child_succeeds(pid_t child)
{
    int status = -1;

    cr_assert_gt(child, 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is %d", status);
}

#endif
