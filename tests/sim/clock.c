/* SPDX-License-Identifier: MIT */
/* clock.c - the simulator's clock and randomness, in place of core/base/clock.c and entropy.c, and of forkmark.c,
 * because here nobody forks and its system calls would be a tenth of a run.
 *
 * The clock is that of the process that runs. Randomness is the world's.
 */
#include "core/base/clock.h"
#include "core/base/entropy.h"
#include "core/base/forkmark.h"
#include "tests/sim/world.h"
#include "tests/support/wait.h"

#include <redlatch/error.h>

int64_t rdl__now(void)
{
    if (process_here() == NULL)
        die("sim: the clock is read outside of any process");
    return process_clock(process_here());
}

int64_t rdl__awake(void)
{
    return rdl__now();
}

int64_t rdl__wall_ms(void)
{
    return rdl__now() / RDL__MS;
}

int rdl__entropy(void *to, size_t len)
{
    unsigned char *at = to;

    for (; len > 0; len--)
        *at++ = (unsigned char)draw(256);
    return RDL_OK;
}

int rdl__forkmark_init(struct rdl__forkmark *mark)
{
    static const unsigned char never_forked = 1;

    *mark = (struct rdl__forkmark){.page = &never_forked};
    return RDL_OK;
}

void rdl__forkmark_done(struct rdl__forkmark *mark)
{
    *mark = (struct rdl__forkmark){0};
}

bool rdl__forkmark_pid_differs(const struct rdl__forkmark *mark)
{
    (void)mark;
    return false;
}
