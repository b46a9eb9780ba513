/* SPDX-License-Identifier: MIT */
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

/* Programs that say how many permits there are, and take one. */
enum set_program_id {
    SET_TWO_TAKE,
    SET_ONE_TAKE,
    SET_NONE_AND_ONE,
    SET_PROGRAMS,
};

extern const struct program set_programs[SET_PROGRAMS];

extern const struct program programs[PROGRAMS];

/* Programs of the read-write lock. */
enum rw_program_id {
    RW_WRITE,
    RW_READ_TWICE,
    RW_NEST_SHORTER,
    RW_NEST_LONGER,
    RW_READ_EXTEND,
    RW_READ_RENEW,
    RW_DOWNGRADE,
    RW_DOWNGRADE_SECOND,
    RW_WRITE_NEST,
    RW_PROGRAMS,
};

extern const struct program rw_programs[RW_PROGRAMS];

/* Programs of locks that count. */
enum count_program_id {
    COUNT_ONE,
    COUNT_TWO,
    ACQUIRE_ONE,
    ACQUIRE_TWO,
    ACQUIRE_TWICE,
    DRAIN_ALL,
    SET_ACQUIRE,
    SET_COUNT,
    COUNT_PROGRAMS,
};

extern const struct program count_programs[COUNT_PROGRAMS];

/* protocol.md, 1 to 3, as it is, */
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
/* The same with programs that set, */
void expect_set_pairs_ok(const struct lock_type *type, unsigned set, int faults, int ticks);
/* and with programs of the read-write lock. */
void expect_rw_pairs_ok(const struct lock_type *type, unsigned set, int faults, int ticks);
/* Three owners of one program. */
void expect_three_ok(const struct lock_type *type, enum program_id program, int faults, int ticks);
/* Two or three owners of a lock that counts, c may be NULL. Under the rules, and without CLIENT KILL. Time is nothing
 * to it unless there is a queue. */
void expect_count_ok(const struct lock_type *type, const struct program *a, const struct program *b,
                     const struct program *c, int faults, int ticks);
/* Three owners of a read-write lock, each with its own. */
void expect_rw_three_ok(const struct lock_type *type, enum rw_program_id a, enum rw_program_id b, enum rw_program_id c,
                        int faults, int ticks);

#endif
