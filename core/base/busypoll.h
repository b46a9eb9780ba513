/* busypoll.h - is it worth looking again and again before sleeping?
 *
 * A thread that sleeps until its answer comes has to be woken, which on an idle core takes longer than a local server takes
 * to answer. Looking for the answer all the while saves that, and costs the core. Whether it pays is not known beforehand: a
 * server on the same core cannot even answer before the looker sleeps, a far one will not, and somebody else may want the
 * core. So each attempt is booked. What an answer in time saves comes in; what was spent in vain, or taken from others, goes
 * out. A negative balance suspends looking for a number of calls that doubles each time, up to PAUSE_MAX, and only a long
 * run of gains shortens it again. So where looking does not help it is as good as never done.
 *
 * Pure; one thread at a time.
 */
#ifndef REDLATCH_BASE_BUSYPOLL_H
#define REDLATCH_BASE_BUSYPOLL_H

#include <stdbool.h>
#include <stdint.h>

struct rdl__busypoll {
    int64_t balance; /* ns */
    uint32_t pause;  /* calls to let pass after the next loss */
    uint32_t skip;   /* of them still to pass */
};

/* Another wait begins: look before sleeping? */
bool rdl__busypoll_due(struct rdl__busypoll *s);

void rdl__busypoll_gained(struct rdl__busypoll *s);
void rdl__busypoll_lost(struct rdl__busypoll *s, int64_t ns); /* so much time was spent in vain, or was wanted by others */

#endif
