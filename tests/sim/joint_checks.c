/* SPDX-License-Identifier: MIT */
/* joint_checks.c - what must hold of composite locks (joint.c). */
#include "tests/sim/joint_impl.h"
#include "tests/sim/kinds.h"
#include "tests/sim/net.h"
#include "tests/sim/seams.h"
#include "tests/sim/server.h"

static unsigned names_of(const struct actor *actor)
{
    unsigned mask = 0;

    if (joint.red)
        return 1;
    for (unsigned i = 0; i < sets[actor->lock].count; i++)
        mask |= 1u << sets[actor->lock].name[i];
    return mask;
}

static int64_t ask_state(const struct actor *actor)
{
    struct process *before = process_enter(&actor->party->process);
    rdl_lock_t *lock = actor->party->lock[actor->lock];
    int64_t state;

    world_quiet(true);
    state = actor->owner != NULL ? rdl_owner_hold_state(actor->owner, lock, NULL) : rdl_hold_state(lock, NULL);
    world_quiet(false);
    (void)process_enter(before);
    return seam_blind() ? RDL_NOT_HELD : state; /* a thread is changing it */
}

bool joint_believes(const struct actor *actor)
{
    int64_t state;

    if (actor->count <= 0 || actor->party->dead || actor->party->ending)
        return false;
    state = ask_state(actor);
    return state == RDL_HELD || state == RDL_AT_RISK;
}

static void check_exclusion(void)
{
    for (size_t i = 0; i < joint.actor_count; i++) {
        const struct actor *a = &joint.actors[i];

        if (a->count <= 0)
            continue;
        for (size_t k = 0; k < i; k++) {
            const struct actor *b = &joint.actors[k];

            if (b->count > 0 && (names_of(a) & names_of(b)) != 0 && joint_believes(a) && joint_believes(b))
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

    for (unsigned n = 0; n < joint.servers; n++)
        taken += taken_at(n);
    return taken;
}

static const struct actor *somebody_waits(void)
{
    for (size_t i = 0; i < joint.actor_count; i++)
        if (joint.actors[i].waits && !joint.actors[i].party->dead && !joint.actors[i].party->ending)
            return &joint.actors[i];
    return NULL;
}

/* A pause, a round, and what else may be on its way. */
static void check_progress(void)
{
    const struct actor *actor = joint.calm ? somebody_waits() : NULL;
    int64_t pause_ns = joint.unasked ? SPREAD_ROUNDS * net_round_trip() : LONGEST_PAUSE_MS * RDL__MS;
    int64_t bound = pause_ns + NODE_MS * RDL__MS + 8 * net_round_trip();

    if (actor == NULL || taken_at_all() > 0)
        joint.free_since = -1;
    else if (joint.free_since < 0)
        joint.free_since = world_now();
    else if (world_now() - joint.free_since > bound)
        violated("what is free is taken", "%s waits, and nothing has been taken for %.3f ms", actor->name,
                 (double)(world_now() - joint.free_since) / (double)RDL__MS);
}

void joint_on_event(void)
{
    check_exclusion();
    check_progress();
}

void joint_check_nothing_left(const char *when)
{
    for (unsigned n = 0; n < joint.servers; n++)
        if (taken_at(n) > 0)
            violated("nothing is left behind", "%s, server %u has %u names as taken", when, n, taken_at(n));
}
