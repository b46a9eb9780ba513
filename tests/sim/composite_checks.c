/* SPDX-License-Identifier: MIT */
/* composite_checks.c - what must hold of composite locks (composite.c). */
#include "tests/sim/composite_impl.h"
#include "tests/sim/kinds.h"
#include "tests/sim/net.h"
#include "tests/sim/seams.h"
#include "tests/sim/server.h"

static unsigned names_of(const struct caller *caller)
{
    unsigned mask = 0;

    if (composite.red)
        return 1;
    for (unsigned i = 0; i < sets[caller->lock].count; i++)
        mask |= 1u << sets[caller->lock].name[i];
    return mask;
}

static int64_t ask_state(const struct caller *caller)
{
    struct process *before = process_enter(&caller->party->process);
    rdl_lock_t *lock = caller->party->lock[caller->lock];
    int64_t state;

    world_quiet(true);
    state = caller->owner != NULL ? rdl_owner_hold_state(caller->owner, lock, NULL) : rdl_hold_state(lock, NULL);
    world_quiet(false);
    (void)process_enter(before);
    return seam_blind() ? RDL_NOT_HELD : state; /* a thread is changing it */
}

bool composite_believes(const struct caller *caller)
{
    int64_t state;

    if (caller->count <= 0 || caller->party->dead || caller->party->ending)
        return false;
    state = ask_state(caller);
    return state == RDL_HELD || state == RDL_AT_RISK;
}

static void check_exclusion(void)
{
    for (size_t i = 0; i < composite.caller_count; i++) {
        const struct caller *a = &composite.callers[i];

        if (a->count <= 0)
            continue;
        for (size_t k = 0; k < i; k++) {
            const struct caller *b = &composite.callers[k];

            if (b->count > 0 && (names_of(a) & names_of(b)) != 0 && composite_believes(a) && composite_believes(b))
                violated("one holder", "%s and %s both believe to hold what they have in common", a->name, b->name);
        }
    }
}

/* How many names the server has as taken. */
static unsigned taken_at(unsigned server)
{
    const struct kind *kind = kind_named("reentrant");
    unsigned before = server_select(server), taken = 0;
    const char *field;
    size_t len;

    for (size_t n = 0; n < MOST_NAMES; n++)
        taken += kind->holders(server_keys(), names[n], &field, &len) > 0;
    (void)server_select(before);
    return taken;
}

static unsigned taken_at_all(void)
{
    unsigned taken = 0;

    for (unsigned n = 0; n < composite.servers; n++)
        taken += taken_at(n);
    return taken;
}

static const struct caller *somebody_waits(void)
{
    for (size_t i = 0; i < composite.caller_count; i++)
        if (composite.callers[i].waits && !composite.callers[i].party->dead && !composite.callers[i].party->ending)
            return &composite.callers[i];
    return NULL;
}

/* A pause, a round, and what else may be on its way. */
static void check_progress(void)
{
    const struct caller *caller = composite.calm ? somebody_waits() : NULL;
    int64_t pause_ns = composite.unasked ? SPREAD_ROUNDS * net_round_trip() : LONGEST_PAUSE_MS * RDL__MS;
    int64_t bound = pause_ns + NODE_MS * RDL__MS + 8 * net_round_trip();

    if (caller == NULL || taken_at_all() > 0)
        composite.free_since = -1;
    else if (composite.free_since < 0)
        composite.free_since = world_now();
    else if (world_now() - composite.free_since > bound)
        violated("what is free is taken", "%s waits, and nothing has been taken for %.3f ms", caller->name,
                 (double)(world_now() - composite.free_since) / (double)RDL__MS);
}

void composite_on_event(void)
{
    check_exclusion();
    check_progress();
}

void composite_check_nothing_left(const char *when)
{
    for (unsigned n = 0; n < composite.servers; n++)
        if (taken_at(n) > 0)
            violated("nothing is left behind", "%s, server %u has %u names as taken", when, n, taken_at(n));
}
