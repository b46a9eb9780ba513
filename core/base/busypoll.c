#include "core/base/busypoll.h"

#include "core/base/clock.h"

#define GAIN (20 * RDL__US) /* what a sleep and a wake-up cost at least */
#define BALANCE_MAX (2 * RDL__MS)
#define PAUSE_MIN 16
#define PAUSE_MAX 8192

bool rdl__busypoll_due(struct rdl__busypoll *s)
{
    if (s->skip == 0)
        return true;
    s->skip--;
    return false;
}

void rdl__busypoll_gained(struct rdl__busypoll *s)
{
    s->balance += GAIN;
    if (s->balance < BALANCE_MAX)
        return;
    s->balance = BALANCE_MAX;
    s->pause /= 2;
}

void rdl__busypoll_lost(struct rdl__busypoll *s, int64_t ns)
{
    s->balance -= ns;
    if (s->balance >= 0)
        return;
    s->balance = 0;
    s->pause = s->pause < PAUSE_MIN ? PAUSE_MIN : s->pause * 2;
    if (s->pause > PAUSE_MAX)
        s->pause = PAUSE_MAX;
    s->skip = s->pause;
}
