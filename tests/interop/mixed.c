/* SPDX-License-Identifier: MIT */
#include "tests/interop/mixed.h"
#include "tests/support/wait.h"

#include <inttypes.h>

struct participant {
    rdl_lock_t *read, *write;
    struct probe *p;
    const struct rounds_plan *plan;
    struct rounds_done *done;
};

static int64_t number(struct probe *p, const char *name, const char *what)
{
    return probe_int(p, "INCRBY '{%s}:%s' 0", name, what);
}

static int64_t add(const struct participant *me, const char *what, int64_t much)
{
    return probe_int(me->p, "INCRBY '{%s}:%s' %" PRId64, me->plan->name, what, much);
}

/* Not in one step: the lock has to see to it. */
static void raise_slowly(const struct participant *me, const char *what)
{
    (void)probe_text(me->p, "SET '{%s}:%s' %" PRId64, me->plan->name, what, number(me->p, me->plan->name, what) + 1);
}

static int take(const struct participant *me, rdl_lock_t *end)
{
    return rdl_try_lock(end, me->plan->bound_ms, me->plan->lease_ms, NULL);
}

static void look(const struct participant *me)
{
    (void)add(me, "readers", 1);
    me->done->overlaps += add(me, "writers", 0) != 0 || add(me, "left", 0) != add(me, "right", 0);
    (void)add(me, "readers", -1);
}

static int read_on(const struct participant *me)
{
    look(me);
    return rdl_unlock(me->read, NULL);
}

static int read_round(const struct participant *me)
{
    int rc = take(me, me->read);

    return rc < 0 ? rc : read_on(me);
}

static int write_round(const struct participant *me, bool reads_on)
{
    int rc = take(me, me->write);

    if (rc < 0)
        return rc;
    me->done->overlaps += add(me, "writers", 1) != 1 || add(me, "readers", 0) != 0;
    raise_slowly(me, "left");
    raise_slowly(me, "right");
    (void)add(me, "writes", 1);
    if (reads_on && (rc = take(me, me->read)) < 0)
        return rc;
    (void)add(me, "writers", -1);
    if ((rc = rdl_unlock(me->write, NULL)) < 0)
        return rc;
    return reads_on ? read_on(me) : RDL_OK;
}

static bool is_over(const struct participant *me)
{
    return add(me, "C", 0) + add(me, "J", 0) >= me->plan->goal;
}

static bool others_follow(const struct participant *me, int64_t ours)
{
    return ours <= add(me, "J", 0) + me->plan->streak || is_over(me);
}

int mixed_take_part(rdl_lock_t *read, rdl_lock_t *write, struct probe *p, const struct rounds_plan *plan,
                    struct rounds_done *done)
{
    const struct participant me = {.read = read, .write = write, .p = p, .plan = plan, .done = done};
    int64_t seen = -1;

    while (!is_over(&me)) {
        int64_t round = done->rounds++, ours, theirs;
        int rc = round % 3 == 0 ? write_round(&me, round % 2 == 0) : read_round(&me);

        if (rc < 0)
            return rc;
        ours = add(&me, "C", 1);
        theirs = add(&me, "J", 0);
        done->crossings += theirs != seen;
        seen = theirs;
        if (!WAIT_UNTIL(others_follow(&me, ours), plan->bound_ms))
            return RDL_ETIMEDOUT;
    }
    return RDL_OK;
}

int64_t mixed_writes(struct probe *p, const char *name)
{
    int64_t writes = number(p, name, "writes");

    return number(p, name, "left") == writes && number(p, name, "right") == writes ? writes : -1;
}
