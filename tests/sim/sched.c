/* SPDX-License-Identifier: MIT */
/* sched.c - random runs of threads that are interrupted anywhere (driver.h, plan_threads.c):
 *
 *     sched ...              about anything
 *     sched --locks ...      locks that are waited for
 *     sched --busy ...       locks that are not
 *     sched --shared ...     threads that are one owner
 *     sched --closing ...    a client that is closed meanwhile
 *     sched --kept ...       locks that their clients keep, of each of these
 *     sched --pools ...      semaphores, leased permits, latches
 *     sched --composite ...  composite locks over several servers
 *     sched --permits ...    leased permits, several at a time, that nobody waits for
 */
#include "tests/sim/driver.h"
#include "tests/sim/threads.h"

int main(int argc, char **argv)
{
    static const struct mode modes[] = {{"", threads_run},
                                        {"--locks", threads_locks_run},
                                        {"--busy", threads_busy_run},
                                        {"--shared", threads_shared_run},
                                        {"--closing", threads_closing_run},
                                        {"--kept", threads_kept_run},
                                        {"--pools", threads_pools_run},
                                        {"--composite", threads_composite_run},
                                        {"--permits", threads_permits_run},
                                        {0}};

    return drive(argc, argv, modes);
}
