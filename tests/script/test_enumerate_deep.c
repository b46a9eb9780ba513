/* SPDX-License-Identifier: MIT */
/* test_enumerate_deep.c - as test_enumerate.c, further: minutes instead of seconds, up to 1 GB of memory a test. */
#include "tests/script/enumerate_cases.h"

#include <criterion/criterion.h>

#define LONG .timeout = 3600

#define SET(program) (1u << (program))

Test(enumerate_deep, pairs_of_all_programs_survive_a_fault_on_a_reentrant_lock, LONG)
{
    expect_pairs_ok(&reentrant_type, SET(PROGRAMS) - 1, 1, 5);
}

Test(enumerate_deep, pairs_of_all_programs_survive_a_fault_on_a_simple_lock, LONG)
{
    expect_pairs_ok(&simple_type, (SET(PROGRAMS) - 1) & ~SET(LOCK_NEST), 1, 5);
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

Test(enumerate_deep, pairs_of_all_programs_survive_a_fault_on_a_read_write_lock, LONG)
{
    expect_rw_pairs_ok(&readwrite_type, SET(RW_PROGRAMS) - 1, 1, 4);
}

Test(enumerate_deep, pairs_survive_a_fault_on_a_lock_that_prefers_writers, LONG)
{
    expect_rw_pairs_ok(&preferring_type, SET(RW_WRITE) | SET(RW_READ_TWICE) | SET(RW_DOWNGRADE), 1, 4);
}

Test(enumerate_deep, three_owners_of_a_fair_lock_keep_their_order, LONG)
{
    expect_three_ok(&fair_type, LOCK_UNLOCK, 0, 4);
}

Test(enumerate_deep, pairs_survive_two_faults_on_a_read_write_lock, LONG)
{
    expect_rw_pairs_ok(&readwrite_type, SET(RW_WRITE) | SET(RW_READ_TWICE) | SET(RW_DOWNGRADE), 2, 3);
}

Test(enumerate_deep, three_owners_of_a_read_write_lock_survive_a_fault, LONG)
{
    expect_rw_three_ok(&readwrite_type, RW_WRITE, RW_READ_EXTEND, RW_NEST_LONGER, 1, 3);
    expect_rw_three_ok(&readwrite_type, RW_DOWNGRADE, RW_WRITE, RW_READ_RENEW, 1, 3);
}

Test(enumerate_deep, pairs_of_all_programs_survive_two_faults_on_a_semaphore, LONG)
{
    for (unsigned a = ACQUIRE_ONE; a <= ACQUIRE_TWICE; a++)
        for (unsigned b = a; b <= ACQUIRE_TWICE; b++)
            expect_count_ok(&semaphore_type, &count_programs[a], &count_programs[b], NULL, 2, 0);
}

Test(enumerate_deep, pairs_of_all_programs_survive_a_fault_on_a_fair_semaphore, LONG)
{
    for (unsigned a = ACQUIRE_ONE; a <= ACQUIRE_TWICE; a++)
        for (unsigned b = a; b <= ACQUIRE_TWICE; b++)
            expect_count_ok(&fair_semaphore_type, &count_programs[a], &count_programs[b], NULL, 1, 2);
}

Test(enumerate_deep, three_owners_of_a_fair_semaphore_survive_a_fault, LONG)
{
    expect_count_ok(&fair_semaphore_type, &count_programs[ACQUIRE_TWO], &count_programs[ACQUIRE_TWO],
                    &count_programs[ACQUIRE_ONE], 1, 1);
}

Test(enumerate_deep, permits_by_turns_survive_two_faults, LONG)
{
    expect_pairs_ok(&fair_permit_type, SET(LOCK_UNLOCK), 2, 3);
    expect_three_ok(&fair_permit_type, LOCK_UNLOCK, 1, 2);
}

Test(enumerate_deep, drains_and_numbers_that_are_said_survive_two_faults, LONG)
{
    expect_count_ok(&semaphore_type, &count_programs[DRAIN_ALL], &count_programs[DRAIN_ALL], &count_programs[DRAIN_ALL],
                    2, 0);
    expect_count_ok(&semaphore_type, &count_programs[DRAIN_ALL], &count_programs[ACQUIRE_TWICE], NULL, 2, 0);
    expect_count_ok(&bare_semaphore_type, &count_programs[SET_ACQUIRE], &count_programs[SET_ACQUIRE],
                    &count_programs[SET_ACQUIRE], 2, 0);
    expect_set_pairs_ok(&permit_type, SET(SET_PROGRAMS) - 1, 2, 3);
}

Test(enumerate_deep, latch_is_set_anew_once_for_each_request, LONG)
{
    expect_ok(&(struct scenario){
        .type = &latch_type,
        .rules = &the_rules_live,
        .owners = {&count_programs[SET_COUNT], &count_programs[SET_COUNT], &count_programs[SET_COUNT]},
        .faults = 2,
        .checks = CHECK_MODEL});
}
