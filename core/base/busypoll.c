#include "core/base/busypoll.h"

#include "core/base/clock.h"

#define CREDIT (1 * RDL__MS) /* to try with */
#define BALANCE_MAX (2 * RDL__MS)
#define GAIN_LEAST (5 * RDL__US)
#define GAIN_MOST (200 * RDL__US)
#define SLICE (500 * RDL__US) /* whoever had the core for longer was no interrupt, but wants to work */
#define PAUSE_MIN 16
#define PAUSE_MAX 8192
#define PAUSE_FOR_OTHERS 512

void rdl__busypoll_init(struct rdl__busypoll *s)
{
    *s = (struct rdl__busypoll){.balance = CREDIT};
}

bool rdl__busypoll_due(struct rdl__busypoll *s)
{
    if (s->skip == 0)
        return true;
    s->skip--;
    return false;
}

void rdl__busypoll_slept(struct rdl__busypoll *s, int64_t took)
{
    s->slept = s->slept == 0 ? took : s->slept + (took - s->slept) / 8;
}

static void spend(struct rdl__busypoll *s, int64_t ns)
{
    s->balance -= ns;
    if (s->balance > 0)
        return;
    s->balance = CREDIT;
    s->pause = s->pause < PAUSE_MIN ? PAUSE_MIN : s->pause * 2;
    if (s->pause > PAUSE_MAX)
        s->pause = PAUSE_MAX;
    s->skip = s->pause;
}

void rdl__busypoll_found(struct rdl__busypoll *s, int64_t took)
{
    int64_t gain = s->slept - took;

    if (gain < GAIN_LEAST)
        gain = GAIN_LEAST;
    s->balance += gain < GAIN_MOST ? gain : GAIN_MOST;
    if (s->balance < BALANCE_MAX)
        return;
    s->balance = BALANCE_MAX;
    s->pause /= 2;
}

void rdl__busypoll_wasted(struct rdl__busypoll *s, int64_t took)
{
    spend(s, took);
}

void rdl__busypoll_kept(struct rdl__busypoll *s, int64_t idle)
{
    spend(s, idle);
    if (idle >= SLICE && s->skip < PAUSE_FOR_OTHERS)
        s->skip = PAUSE_FOR_OTHERS;
}
