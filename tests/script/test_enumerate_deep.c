/* test_enumerate_deep.c - as test_enumerate.c, further: minutes instead of seconds, up to 1 GB of memory a test. */
#include "tests/script/enumerate_cases.h"

#include <criterion/criterion.h>

#define LONG .timeout = 3600

#define SET(program) (1u << (program))

Test(enumerate_deep, pairs_of_all_programs_survive_a_fault_on_a_reentrant_lock, LONG)
{
    expect_pairs_ok(&reentrant_type, SET(PROGRAMS) - 1, 1, 6);
}

Test(enumerate_deep, pairs_of_all_programs_survive_a_fault_on_a_simple_lock, LONG)
{
    expect_pairs_ok(&simple_type, (SET(PROGRAMS) - 1) & ~SET(LOCK_NEST), 1, 6);
}

Test(enumerate_deep, pairs_survive_two_faults, LONG)
{
    expect_pairs_ok(&reentrant_type, SET(LOCK_UNLOCK) | SET(LOCK_EXTEND) | SET(LOCK_NEST), 2, 4);
    expect_pairs_ok(&simple_type, SET(LOCK_UNLOCK) | SET(LOCK_EXTEND), 2, 4);
}

Test(enumerate_deep, three_owners_survive_a_fault, LONG)
{
    expect_three_ok(&reentrant_type, LOCK_UNLOCK, 1, 4);
    expect_three_ok(&simple_type, LOCK_UNLOCK, 1, 3);
}

Test(enumerate_deep, three_owners_survive_two_faults, LONG)
{
    expect_three_ok(&reentrant_type, LOCK_UNLOCK, 2, 2);
}
