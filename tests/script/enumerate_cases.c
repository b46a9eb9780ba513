/* SPDX-License-Identifier: MIT */
#include "tests/script/enumerate_cases.h"

#include <criterion/criterion.h>
#include <string.h>

/* Leases are so different that one verb's can undo another's; the ticks of a scenario are enough to see it. */
const struct program programs[PROGRAMS] = {
    [LOCK_UNLOCK] = {"lock 3, unlock", {{OP_LOCK, 3}, {OP_UNLOCK, 3}}},
    [LOCK_EXTEND] = {"lock 2, extend 5, unlock", {{OP_LOCK, 2}, {OP_EXTEND, 5}, {OP_UNLOCK, 2}}},
    [LOCK_NEST] = {"lock 5, lock 2 inside, unlock, unlock",
                   {{OP_LOCK, 5}, {OP_NEST, 2}, {OP_UNLOCK, 2}, {OP_UNLOCK, 2}}},
    [LOCK_TWICE] = {"lock 4, unlock, lock 4, unlock", {{OP_LOCK, 4}, {OP_UNLOCK, 3}, {OP_LOCK, 4}, {OP_UNLOCK, 3}}},
    [LOCK_RENEW_TWICE] = {"lock 2, renew 2, renew 2, unlock",
                          {{OP_LOCK, 2}, {OP_RENEW, 2}, {OP_RENEW, 2}, {OP_UNLOCK, 2}}},
    [LOCK_RENEW_EXTEND] = {"lock 4, renew 1, extend 6, unlock",
                           {{OP_LOCK, 4}, {OP_RENEW, 1}, {OP_EXTEND, 6}, {OP_UNLOCK, 2}}},
};

#define WRITE(lease)                                                                                                   \
    {                                                                                                                  \
        OP_LOCK, lease, LOCK_ONE                                                                                       \
    }
#define UNWRITE                                                                                                        \
    {                                                                                                                  \
        OP_UNLOCK, 2, LOCK_ONE                                                                                         \
    }
#define READ(lease)                                                                                                    \
    {                                                                                                                  \
        OP_LOCK, lease, LOCK_MANY                                                                                      \
    }
#define READ_INSIDE(lease)                                                                                             \
    {                                                                                                                  \
        OP_NEST, lease, LOCK_MANY                                                                                      \
    }
#define UNREAD                                                                                                         \
    {                                                                                                                  \
        OP_UNLOCK, 2, LOCK_MANY                                                                                        \
    }

const struct program rw_programs[RW_PROGRAMS] = {
    [RW_WRITE] = {"write 3, give it back", {WRITE(3), UNWRITE}},
    [RW_READ_TWICE] = {"read 4, give it back, read 4, give it back", {READ(4), UNREAD, READ(4), UNREAD}},
    [RW_NEST_SHORTER] = {"read 5, read 2 inside, give both back", {READ(5), READ_INSIDE(2), UNREAD, UNREAD}},
    [RW_NEST_LONGER] = {"read 2, read 5 inside, give both back", {READ(2), READ_INSIDE(5), UNREAD, UNREAD}},
    [RW_READ_EXTEND] = {"read 2, extend 5, give it back", {READ(2), {OP_EXTEND, 5, LOCK_MANY}, UNREAD}},
    [RW_READ_RENEW] = {"read 2, renew 2, renew 2, give it back",
                       {READ(2), {OP_RENEW, 2, LOCK_MANY}, {OP_RENEW, 2, LOCK_MANY}, UNREAD}},
    [RW_DOWNGRADE] = {"write 6, read 6, stop writing, stop reading", {WRITE(6), READ(6), UNWRITE, UNREAD}},
    [RW_DOWNGRADE_SECOND] = {"write 6, read 6 twice, one after the other, stop writing before the second is given back",
                             {WRITE(6), READ(6), UNREAD, READ(6), UNWRITE, UNREAD}},
    [RW_WRITE_NEST] = {"write 5, read 2, read 2 inside, give all back",
                       {WRITE(5), READ(2), READ_INSIDE(2), UNREAD, UNREAD, UNWRITE}},
};

#define SET_PERMITS(n)                                                                                                 \
    {                                                                                                                  \
        OP_SET, .amount = n                                                                                            \
    }

const struct program set_programs[SET_PROGRAMS] = {
    [SET_TWO_TAKE] = {"say 2, lock 3, unlock", {SET_PERMITS(2), {OP_LOCK, 3}, {OP_UNLOCK, 3}}},
    [SET_ONE_TAKE] = {"lock 3, say 1, unlock", {{OP_LOCK, 3}, SET_PERMITS(1), {OP_UNLOCK, 3}}},
    [SET_NONE_AND_ONE] = {"say 0, say 1", {SET_PERMITS(0), SET_PERMITS(1)}},
};

#define LONG_LEASE 9
#define ACQUIRE(n)                                                                                                     \
    {                                                                                                                  \
        OP_LOCK, LONG_LEASE, LOCK_ONE, n                                                                               \
    }
#define GIVE(n)                                                                                                        \
    {                                                                                                                  \
        OP_UNLOCK, LONG_LEASE, LOCK_ONE, n                                                                             \
    }

const struct program count_programs[COUNT_PROGRAMS] = {
    [COUNT_ONE] = {"count down", {ACQUIRE(1)}},
    [COUNT_TWO] = {"count down twice", {ACQUIRE(1), ACQUIRE(1)}},
    [ACQUIRE_ONE] = {"acquire 1, give it back", {ACQUIRE(1), GIVE(1)}},
    [ACQUIRE_TWO] = {"acquire 2, give them back one by one", {ACQUIRE(2), GIVE(1), GIVE(1)}},
    [ACQUIRE_TWICE] = {"acquire 1, give it back, acquire 2, give them back",
                       {ACQUIRE(1), GIVE(1), ACQUIRE(2), GIVE(2)}},
    [DRAIN_ALL] = {"drain, give all back", {{OP_DRAIN, LONG_LEASE}, GIVE(0)}},
    [SET_ACQUIRE] = {"say 2, acquire 1, give it back", {SET_PERMITS(2), ACQUIRE(1), GIVE(1)}},
    [SET_COUNT] = {"count down, set to 1, count down", {ACQUIRE(1), SET_PERMITS(1), ACQUIRE(1)}},
};

const struct rules the_rules = {.close = CLOSE_KILLS_ALL};
const struct rules the_rules_live = {.close = CLOSE_KILLS_ALL, .gives_up_live = true};

static void describe(const struct scenario *s, const struct search_result *r)
{
    cr_log_warn("%s lock, %d faults, %d ticks, rival %d times: %s, %zu states, %zu steps", s->type->name, s->faults,
                s->ticks, s->rival_turns, r->verdict == NULL ? "ok" : r->verdict, r->states, r->steps);
    for (size_t i = 0; i < OWNERS_MAX && s->owners[i] != NULL; i++)
        cr_log_warn("  %c: %s", (char)('A' + i), s->owners[i]->name);
    if (r->schedule != NULL)
        cr_log_warn("%s", r->schedule);
}

static void expect(const struct scenario *scenario, const char *verdict, size_t steps, size_t states)
{
    struct search_result r = enumerate(scenario, STATES_MAX, NULL);
    bool same =
        verdict == NULL ? r.verdict == NULL : r.verdict != NULL && strcmp(verdict, r.verdict) == 0 && r.steps == steps;

    if (states != 0 && r.states != states)
        same = false;
    if (!same)
        describe(scenario, &r);
    cr_expect(same, "expected %s, %zu steps, %zu states", verdict == NULL ? "ok" : verdict, steps, states);
    search_done(&r);
}

void expect_ok(const struct scenario *scenario)
{
    expect(scenario, NULL, 0, 0);
}

void expect_bad(const struct scenario *scenario, const char *verdict, size_t steps)
{
    expect(scenario, verdict, steps, 0);
}

void expect_states(const struct scenario *scenario, size_t states)
{
    expect(scenario, NULL, 0, states);
}

static void expect_owners_ok(const struct lock_type *type, const struct program *a, const struct program *b,
                             const struct program *c, int faults, int ticks)
{
    expect_ok(&(struct scenario){.type = type,
                                 .rules = &the_rules_live,
                                 .owners = {a, b, c},
                                 .faults = faults,
                                 .ticks = ticks,
                                 .checks = CHECK_ALL});
}

static void expect_pairs_of_ok(const struct lock_type *type, const struct program *of, unsigned set, int faults,
                               int ticks)
{
    for (unsigned a = 0; set >> a != 0; a++)
        for (unsigned b = a; set >> b != 0; b++)
            if ((set >> a & set >> b & 1) != 0)
                expect_owners_ok(type, &of[a], &of[b], NULL, faults, ticks);
}

void expect_pairs_ok(const struct lock_type *type, unsigned set, int faults, int ticks)
{
    expect_pairs_of_ok(type, programs, set, faults, ticks);
}

void expect_set_pairs_ok(const struct lock_type *type, unsigned set, int faults, int ticks)
{
    expect_pairs_of_ok(type, set_programs, set, faults, ticks);
}

void expect_rw_pairs_ok(const struct lock_type *type, unsigned set, int faults, int ticks)
{
    expect_pairs_of_ok(type, rw_programs, set, faults, ticks);
}

void expect_count_ok(const struct lock_type *type, const struct program *a, const struct program *b,
                     const struct program *c, int faults, int ticks)
{
    static const struct rules without_kill = {.close = CLOSE_ONLY, .gives_up_live = true};
    struct scenario s = {.type = type,
                         .rules = &the_rules_live,
                         .owners = {a, b, c},
                         .faults = faults,
                         .ticks = ticks,
                         .checks = CHECK_ALL};

    expect_ok(&s);
    s.rules = &without_kill;
    if (faults > 0) /* else there is nothing to kill */
        expect_ok(&s);
}

void expect_three_ok(const struct lock_type *type, enum program_id program, int faults, int ticks)
{
    const struct program *p = &programs[program];

    expect_owners_ok(type, p, p, p, faults, ticks);
}

void expect_rw_three_ok(const struct lock_type *type, enum rw_program_id a, enum rw_program_id b, enum rw_program_id c,
                        int faults, int ticks)
{
    expect_owners_ok(type, &rw_programs[a], &rw_programs[b], &rw_programs[c], faults, ticks);
}
