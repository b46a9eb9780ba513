/* enumerate_cases.h - the programs and rule sets that are searched, and how a search is judged in a test.
 *
 * To search something new: a program or a rule set here, and a line in test_enumerate.c.
 */
#ifndef TESTS_SCRIPT_ENUMERATE_CASES_H
#define TESTS_SCRIPT_ENUMERATE_CASES_H

#include "tests/script/enumerate.h"

enum program_id {
    LOCK_UNLOCK,
    LOCK_EXTEND,
    LOCK_NEST,
    LOCK_TWICE,
    LOCK_RENEW_TWICE,
    LOCK_RENEW_EXTEND,
    PROGRAMS,
};

extern const struct program programs[PROGRAMS];

/* PROTOCOL.md, 1 to 3, as it is, */
extern const struct rules the_rules;
/* and together with giving up on a connection that lives. */
extern const struct rules the_rules_live;

/* More states than this are too many for the machine. */
#define STATES_MAX 30000000

/* Prints the schedule when there is one and none was expected, or the other way round. */
void expect_ok(const struct scenario *scenario);
void expect_bad(const struct scenario *scenario, const char *verdict, size_t steps);
/* No bad state, and as many states as given. */
void expect_states(const struct scenario *scenario, size_t states);

/* All programs of `set` (a bit each) against all of them, two owners, the rules with all their branches. */
void expect_pairs_ok(const struct lock_type *type, unsigned set, int faults, int ticks);
/* Three owners of one program. */
void expect_three_ok(const struct lock_type *type, enum program_id program, int faults, int ticks);

#endif
