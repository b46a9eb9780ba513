#include "tests/script/enumerate_cases.h"

#include <criterion/criterion.h>
#include <string.h>

/* Leases are so different that one verb's can undo another's; the ticks of a scenario are enough to see it. */
const struct program programs[PROGRAMS] = {
    [LOCK_UNLOCK] = {"lock 3, unlock", {{OP_LOCK, 3}, {OP_UNLOCK, 3}}},
    [LOCK_EXTEND] = {"lock 2, extend 5, unlock", {{OP_LOCK, 2}, {OP_EXTEND, 5}, {OP_UNLOCK, 2}}},
    [LOCK_NEST] = {"lock 5, lock 2 inside, unlock, unlock", {{OP_LOCK, 5}, {OP_NEST, 2}, {OP_UNLOCK, 2}, {OP_UNLOCK, 2}}},
    [LOCK_TWICE] = {"lock 4, unlock, lock 4, unlock", {{OP_LOCK, 4}, {OP_UNLOCK, 3}, {OP_LOCK, 4}, {OP_UNLOCK, 3}}},
    [LOCK_RENEW_TWICE] = {"lock 2, renew 2, renew 2, unlock", {{OP_LOCK, 2}, {OP_RENEW, 2}, {OP_RENEW, 2}, {OP_UNLOCK, 2}}},
    [LOCK_RENEW_EXTEND] = {"lock 4, renew 1, extend 6, unlock",
                           {{OP_LOCK, 4}, {OP_RENEW, 1}, {OP_EXTEND, 6}, {OP_UNLOCK, 2}}},
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

void expect_pairs_ok(const struct lock_type *type, unsigned set, int faults, int ticks)
{
    for (unsigned a = 0; a < PROGRAMS; a++)
        for (unsigned b = a; b < PROGRAMS; b++)
            if ((set >> a & set >> b & 1) != 0)
                expect_ok(&(struct scenario){.type = type,
                                             .rules = &the_rules_live,
                                             .owners = {&programs[a], &programs[b]},
                                             .faults = faults,
                                             .ticks = ticks,
                                             .checks = CHECK_ALL});
}

void expect_three_ok(const struct lock_type *type, enum program_id program, int faults, int ticks)
{
    const struct program *p = &programs[program];

    expect_ok(&(struct scenario){
        .type = type, .rules = &the_rules_live, .owners = {p, p, p}, .faults = faults, .ticks = ticks, .checks = CHECK_ALL});
}
