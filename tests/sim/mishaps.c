/* SPDX-License-Identifier: MIT */
#include "tests/sim/mishaps.h"

#include "tests/sim/net.h"
#include "tests/sim/world.h"

#define MOST_BYTES 500 /* before a cut */

int64_t draw_ms(int64_t least, int64_t most)
{
    return draw_from(least * RDL__MS, most * RDL__MS);
}

int64_t draw_wait_ms(void)
{
    uint64_t which = draw(10);

    if (which < 2)
        return 0;
    if (which < 3)
        return draw_from(1, 10);
    return which < 6 ? draw_from(20, 200) : -1;
}

static const struct fault *any_fault(const struct fault *faults, size_t count)
{
    unsigned all = 0, at;

    for (size_t i = 0; i < count; i++)
        all += faults[i].weight;
    for (at = (unsigned)draw(all); at >= faults->weight; faults++)
        at -= faults->weight;
    return faults;
}

void fault_strikes(const struct fault *faults, size_t count, int64_t span_ns)
{
    fibre_sleep((int64_t)draw((uint64_t)span_ns));
    any_fault(faults, count)->happen();
}

void fault_cut(void)
{
    struct conn *conn = net_any(NULL);

    if (conn != NULL)
        net_cut(conn);
}

void fault_cut_after(void)
{
    struct conn *conn = net_any(NULL);
    uint64_t bytes;

    if (conn == NULL)
        return;
    bytes = draw(MOST_BYTES);
    net_cut_after(conn, chance(1, 2) ? UP : DOWN, bytes);
}
