/* SPDX-License-Identifier: MIT */
/* sim.c - random runs of one thread that gives way where it sleeps (driver.h):
 *
 *     sim ...                locks (plan.c)
 *     sim --kept ...         locks that their clients keep
 *     sim --composite ...    composite locks over several servers (composite.c)
 *     sim --pools ...        semaphores and latches (plan_pools.c)
 *     sim --outage ...       locks that outlast outages, on one host or two (plan_outage.c)
 */
#include "tests/sim/composite.h"
#include "tests/sim/driver.h"

#include <stddef.h>

static struct outcome composites_run(uint64_t seed)
{
    return composite_run(seed, NULL);
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {
        {"", plan_run},         {"--kept", kept_run},     {"--composite", composites_run},
        {"--pools", pools_run}, {"--outage", outage_run}, {0}};

    return drive(argc, argv, modes);
}
