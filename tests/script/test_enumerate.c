/* SPDX-License-Identifier: MIT */
/* test_enumerate.c - all orders in which verbs, connections and time can meet, for small programs.
 *
 * Three parts. First the schedules that protocol.md names, each found in scripts or rules that lack what closes it:
 * same verdict, same number of steps. Then the world is the one in which the rules were found: as many states as the
 * models had. Then the product's scripts under the rules, in that world and in larger ones. What is searched and for
 * what: enumerate.h.
 *
 * Seeing a red schedule: run this program with --verbose after changing its number of steps.
 */
#include "tests/script/enumerate_cases.h"
#include "tests/script/enumerate_multi.h"

#include <criterion/criterion.h>
#include <string.h>

#define LONG .timeout = 1200

/* One owner, or two, against the rival, as in the models. */
#define BESIDE_RIVAL(lock, by, fault_count, looked_for, ...)                                                           \
    (&(struct scenario){.type = &lock##_type,                                                                          \
                        .rules = by,                                                                                   \
                        .owners = {__VA_ARGS__},                                                                       \
                        .rival_turns = 2,                                                                              \
                        .faults = fault_count,                                                                         \
                        .ticks = 7,                                                                                    \
                        .checks = looked_for})
#define RULES(...) (&(struct rules){__VA_ARGS__})

/* Scripts that write what they are told: HSET and PEXPIRE, whatever is there. */
#define SETTING                                                                                                        \
    .planted = {[LOCK_TAKE] = "reentrant_take_sets",                                                                   \
                [LOCK_RELEASE] = "reentrant_release_sets",                                                             \
                [LOCK_RENEW] = "reentrant_renew_sets"}

/* ---- red -------------------------------------------------------------------------------------------------------- */

Test(enumerate_red, late_take_that_sets_the_lease_undoes_an_extension_in_8_steps, LONG)
{
    expect_bad(BESIDE_RIVAL(reentrant, RULES(SETTING), 1, CHECK_SAFETY, &programs[LOCK_EXTEND]), "GONE", 8);
}

Test(enumerate_red, renewal_that_sets_the_lease_shortens_a_longer_one_in_5_steps_without_a_fault, LONG)
{
    const struct rules *rules = RULES(SETTING, .close = CLOSE_KILLS_ALL);

    expect_bad(BESIDE_RIVAL(reentrant, rules, 0, CHECK_SAFETY, &programs[LOCK_RENEW_EXTEND]), "GONE", 5);
}

Test(enumerate_red, nested_take_that_sets_the_lease_shortens_the_outer_one_in_6_steps, LONG)
{
    const struct rules *rules = RULES(SETTING, .close = CLOSE_KILLS_ALL);

    expect_bad(BESIDE_RIVAL(reentrant, rules, 0, CHECK_SAFETY, &programs[LOCK_NEST]), "GONE", 6);
}

/* What a waiter may make of the message that the lock is its. */
#define GRANTS(how) RULES(.close = CLOSE_KILLS_ALL, .gives_up_live = true, .grant = how)

Test(enumerate_red, grant_counted_from_when_it_is_read_outlives_the_servers_in_8_steps_without_a_fault, LONG)
{
    expect_bad(BESIDE_RIVAL(fair, GRANTS(GRANT_FROM_READING), 0, CHECK_SAFETY, &programs[LOCK_UNLOCK]), "GONE", 8);
}

Test(enumerate_red, grant_counted_for_the_whole_lease_outlives_the_waiters_sign_of_life_in_8_steps, LONG)
{
    expect_bad(BESIDE_RIVAL(fair, GRANTS(GRANT_FOR_WHOLE_LEASE), 0, CHECK_SAFETY, &programs[LOCK_TWICE]), "GONE", 8);
}

Test(enumerate_red, grant_counted_from_a_sending_that_it_does_not_rest_on_is_over_already_in_12_steps, LONG)
{
    expect_bad(BESIDE_RIVAL(fair, GRANTS(GRANT_OF_ANY_SENDING), 1, CHECK_SAFETY, &programs[LOCK_UNLOCK]), "GONE", 12);
}

Test(enumerate_red, without_kill_a_take_given_up_comes_back_as_a_zombie_in_4_steps, LONG)
{
    const struct rules *rules = RULES(.close = CLOSE_ONLY);

    expect_bad(BESIDE_RIVAL(reentrant, rules, 1, CHECK_ZOMBIE, &programs[LOCK_UNLOCK]), "ZOMBIE", 4);
    expect_bad(BESIDE_RIVAL(simple, rules, 1, CHECK_ZOMBIE, &programs[LOCK_UNLOCK]), "ZOMBIE", 4);
}

Test(enumerate_red, killing_only_the_last_connection_leaves_a_zombie_in_6_steps_with_two_faults, LONG)
{
    const struct rules *rules = RULES(.close = CLOSE_KILLS_LAST);

    expect_ok(BESIDE_RIVAL(reentrant, rules, 1, CHECK_ALL, &programs[LOCK_UNLOCK]));
    expect_bad(BESIDE_RIVAL(reentrant, rules, 2, CHECK_ZOMBIE, &programs[LOCK_UNLOCK]), "ZOMBIE", 6);
    expect_bad(BESIDE_RIVAL(simple, rules, 2, CHECK_ZOMBIE, &programs[LOCK_UNLOCK]), "ZOMBIE", 6);
}

Test(enumerate_red, number_used_again_lets_a_late_release_delete_the_newer_hold_in_8_steps, LONG)
{
    const struct rules *rules = RULES(.same_number = true);

    expect_bad(BESIDE_RIVAL(reentrant, rules, 1, CHECK_SAFETY, &programs[LOCK_TWICE]), "GONE", 8);
    expect_bad(BESIDE_RIVAL(simple, rules, 1, CHECK_SAFETY, &programs[LOCK_TWICE]), "GONE", 8);
}

Test(enumerate_red, nested_take_that_creates_answers_otherwise_than_the_reference, LONG)
{
    const struct rules *rules = RULES(.planted = {[LOCK_TAKE] = "reentrant_take_creates"}, .close = CLOSE_KILLS_ALL);

    expect_bad(BESIDE_RIVAL(reentrant, rules, 0, CHECK_MODEL, &programs[LOCK_NEST]), "MODEL", 9);
}

Test(enumerate_red, scripts_that_set_answer_otherwise_than_the_reference, LONG)
{
    const struct rules *rules = RULES(SETTING, .close = CLOSE_KILLS_ALL);

    expect_bad(BESIDE_RIVAL(reentrant, rules, 1, CHECK_MODEL, &programs[LOCK_UNLOCK]), "MODEL", 5);
}

Test(enumerate_red, unchecked_release_deletes_anothers_hold, LONG)
{
    const struct rules *reentrant = RULES(.planted = {[LOCK_RELEASE] = "reentrant_release_unchecked"});
    const struct rules *simple = RULES(.planted = {[LOCK_RELEASE] = "simple_release_unchecked"});

    expect_bad(BESIDE_RIVAL(reentrant, reentrant, 0, CHECK_SAFETY, &programs[LOCK_UNLOCK]), "GONE", 8);
    expect_bad(BESIDE_RIVAL(simple, simple, 0, CHECK_SAFETY, &programs[LOCK_UNLOCK]), "GONE", 8);
}

Test(enumerate_red, unchecked_renewal_takes_anothers_hold_for_its_own, LONG)
{
    const struct rules *rules = RULES(.planted = {[LOCK_RENEW] = "simple_renew_unchecked"}, .close = CLOSE_KILLS_ALL);

    expect_bad(BESIDE_RIVAL(simple, rules, 0, CHECK_SAFETY, &programs[LOCK_EXTEND]), "GONE", 7);
}

Test(enumerate_red, take_that_overwrites_undoes_an_extension, LONG)
{
    const struct rules *rules = RULES(.planted = {[LOCK_TAKE] = "simple_take_overwrites"});

    expect_bad(BESIDE_RIVAL(simple, rules, 2, CHECK_SAFETY, &programs[LOCK_EXTEND]), "GONE", 9);
}

/* ---- red: the read-write lock ----------------------------------------------------------------------------------- */

#define RW_BESIDE(rival, by, fault_count, looked_for, program)                                                         \
    RW_TYPE_BESIDE(&readwrite_type, rival, by, fault_count, looked_for, program)
#define RW_TYPE_BESIDE(of, rival, by, fault_count, looked_for, program)                                                \
    (&(struct scenario){.type = of,                                                                                    \
                        .rules = by,                                                                                   \
                        .owners = {&rw_programs[program]},                                                             \
                        .rival_turns = 3,                                                                              \
                        .rival_end = rival,                                                                            \
                        .faults = fault_count,                                                                         \
                        .ticks = 7,                                                                                    \
                        .checks = looked_for})

Test(enumerate_red, one_number_for_both_ends_lets_a_late_read_release_delete_the_newer_hold_in_10_steps, LONG)
{
    const struct rules *rules = RULES(.same_number = true);

    expect_bad(RW_BESIDE(LOCK_ONE, rules, 1, CHECK_SAFETY, RW_DOWNGRADE_SECOND), "GONE", 10);
    expect_bad(RW_BESIDE(LOCK_ONE, rules, 1, CHECK_SAFETY, RW_READ_TWICE), "GONE", 8);
}

Test(enumerate_red, without_kill_a_read_take_given_up_comes_back_as_a_zombie, LONG)
{
    const struct rules *rules = RULES(.close = CLOSE_ONLY);

    expect_bad(RW_BESIDE(LOCK_ONE, rules, 1, CHECK_ZOMBIE, RW_READ_TWICE), "ZOMBIE", 4);
    expect_bad(RW_BESIDE(LOCK_ONE, rules, 1, CHECK_ZOMBIE, RW_DOWNGRADE), "ZOMBIE", 4);
}

Test(enumerate_red, watchdog_of_a_peer_that_reads_ends_a_longer_read_hold_in_6_steps_without_a_fault, LONG)
{
    const struct rules *rules = RULES(.planted = {[LOCK_PEER_RENEW] = "peer_renew_sets"}, .close = CLOSE_KILLS_ALL);

    expect_bad(RW_BESIDE(LOCK_MANY, rules, 0, CHECK_SAFETY, RW_NEST_SHORTER), "GONE", 6);
    expect_bad(RW_BESIDE(LOCK_MANY, rules, 0, CHECK_SAFETY, RW_READ_TWICE), "GONE", 6);
    expect_bad(RW_BESIDE(LOCK_MANY, rules, 0, CHECK_SAFETY, RW_NEST_LONGER), "GONE", 8);
    expect_bad(RW_BESIDE(LOCK_MANY, rules, 0, CHECK_SAFETY, RW_DOWNGRADE), "GONE", 10);
    expect_bad(RW_BESIDE(LOCK_MANY, rules, 0, CHECK_SAFETY, RW_DOWNGRADE_SECOND), "GONE", 14);
}

Test(enumerate_red, read_release_that_shortens_the_lock_while_its_owner_writes, LONG)
{
    const struct rules *rules =
        RULES(.planted = {[LOCK_READ_RELEASE] = "read_release_shortens"}, .close = CLOSE_KILLS_ALL);

    expect_bad(RW_BESIDE(LOCK_ONE, rules, 0, CHECK_SAFETY, RW_WRITE_NEST), "GONE", 10);
}

Test(enumerate_red, counts_of_a_reader_that_live_each_for_itself, LONG)
{
    const struct rules *rules = RULES(.planted = {[LOCK_READ_TAKE] = "read_take_own_lease"}, .close = CLOSE_KILLS_ALL);

    expect_bad(RW_BESIDE(LOCK_MANY, rules, 0, CHECK_SAFETY, RW_NEST_LONGER), "GONE", 10);
}

Test(enumerate_red, writer_that_does_not_look_for_readers_and_reader_that_any_writer_lets_in, LONG)
{
    const struct rules *writer =
        RULES(.planted = {[LOCK_TAKE] = "write_take_beside_readers"}, .close = CLOSE_KILLS_ALL);
    const struct rules *reader =
        RULES(.planted = {[LOCK_READ_TAKE] = "read_take_beside_a_writer"}, .close = CLOSE_KILLS_ALL);

    expect_bad(RW_BESIDE(LOCK_ONE, writer, 0, CHECK_SAFETY, RW_READ_TWICE), "BOTH", 3);
    expect_bad(RW_BESIDE(LOCK_ONE, reader, 0, CHECK_SAFETY, RW_READ_TWICE), "BOTH", 3);
}

Test(enumerate_red, writers_release_that_frees_the_lock_ends_its_read_hold, LONG)
{
    const struct rules *rules = RULES(.planted = {[LOCK_RELEASE] = "write_release_frees"}, .close = CLOSE_KILLS_ALL);

    expect_bad(RW_BESIDE(LOCK_ONE, rules, 0, CHECK_SAFETY, RW_DOWNGRADE), "GONE", 6);
}

Test(enumerate_red, reader_that_no_mark_keeps_out_and_writer_that_gives_up_and_leaves_its_mark, LONG)
{
    const struct rules *reader =
        RULES(.planted = {[LOCK_READ_TAKE] = "read_take_beside_a_mark"}, .close = CLOSE_KILLS_ALL);
    const struct rules *writer =
        RULES(.planted = {[LOCK_RELEASE] = "write_release_leaves_its_mark"}, .close = CLOSE_KILLS_ALL);

    expect_bad(&(struct scenario){.type = &preferring_type,
                                  .rules = reader,
                                  .owners = {&rw_programs[RW_WRITE], &rw_programs[RW_READ_TWICE]},
                                  .ticks = 2,
                                  .checks = CHECK_MODEL},
               "MODEL", 8);
    expect_bad(RW_TYPE_BESIDE(&preferring_type, LOCK_MANY, writer, 0, CHECK_ZOMBIE, RW_WRITE), "ZOMBIE", 7);
}

/* ---- red: locks that count -------------------------------------------------------------------------------------- */

#define COUNTING(lock, by, fault_count, ...)                                                                           \
    (&(struct scenario){.type = &lock##_type,                                                                          \
                        .rules = by,                                                                                   \
                        .owners = {__VA_ARGS__},                                                                       \
                        .faults = fault_count,                                                                         \
                        .checks = CHECK_SAFETY | CHECK_ZOMBIE})

Test(enumerate_red, requests_without_guards_are_carried_out_twice, LONG)
{
    const struct rules *take = RULES(.planted = {[LOCK_TAKE] = "semaphore_take_unguarded"}, .close = CLOSE_KILLS_ALL);
    const struct rules *give = RULES(.planted = {[LOCK_GIVE] = "semaphore_add_unguarded"}, .close = CLOSE_KILLS_ALL);
    const struct rules *count =
        RULES(.planted = {[LOCK_TAKE] = "latch_count_down_unguarded"}, .close = CLOSE_KILLS_ALL);

    expect_bad(COUNTING(semaphore, take, 1, &count_programs[ACQUIRE_ONE]), "LEAK", 5);
    expect_bad(COUNTING(semaphore, give, 1, &count_programs[ACQUIRE_ONE]), "OVER", 7);
    expect_bad(COUNTING(latch, count, 1, &count_programs[COUNT_ONE]), "LEAK", 5);
}

Test(enumerate_red, drain_without_a_guard_and_number_that_anybody_says_again, LONG)
{
    const struct rules *drain =
        RULES(.planted = {[LOCK_DRAIN] = "semaphore_drain_unguarded"}, .close = CLOSE_KILLS_ALL);
    const struct rules *set = RULES(.planted = {[LOCK_SET] = "semaphore_try_set_sets"}, .close = CLOSE_KILLS_ALL);
    const struct rules *again = RULES(.planted = {[LOCK_SET] = "permit_set_again"}, .close = CLOSE_ONLY);

    expect_bad(COUNTING(semaphore, drain, 1, &count_programs[DRAIN_ALL]), "LEAK", 5);
    expect_bad(COUNTING(bare_semaphore, set, 0, &count_programs[SET_ACQUIRE], &count_programs[SET_ACQUIRE]), "OVER", 6);
    expect_bad(&(struct scenario){.type = &permit_type,
                                  .rules = again,
                                  .owners = {&set_programs[SET_NONE_AND_ONE], &set_programs[SET_NONE_AND_ONE]},
                                  .faults = 1,
                                  .checks = CHECK_MODEL},
               "MODEL", 6);
}

Test(enumerate_red, take_out_of_turn_and_place_that_is_left_behind, LONG)
{
    const struct rules *take = RULES(.planted = {[LOCK_TAKE] = "semaphore_take_out_of_turn"}, .close = CLOSE_KILLS_ALL);
    const struct rules *undo =
        RULES(.planted = {[LOCK_RELEASE] = "semaphore_undo_keeps_place"}, .close = CLOSE_KILLS_ALL);
    struct scenario s = {
        .type = &fair_semaphore_type,
        .owners = {&count_programs[ACQUIRE_ONE], &count_programs[ACQUIRE_TWO], &count_programs[ACQUIRE_ONE]}};

    s.rules = take;
    s.checks = CHECK_MODEL;
    expect_bad(&s, "MODEL", 6);
    s.rules = undo;
    s.checks = CHECK_ZOMBIE;
    expect_bad(&s, "ZOMBIE", 8);
}

Test(enumerate_red, undo_that_leaves_no_guard_lets_a_later_take_leak, LONG)
{
    const struct rules *rules = RULES(.planted = {[LOCK_RELEASE] = "semaphore_undo_forgets"}, .close = CLOSE_ONLY);

    expect_bad(COUNTING(semaphore, rules, 1, &count_programs[ACQUIRE_ONE]), "LEAK", 4);
}

Test(enumerate_red, permits_whose_takes_and_extensions_do_not_look_at_their_ids, LONG)
{
    const struct rules *take = RULES(.planted = {[LOCK_TAKE] = "permit_take_unknown"}, .close = CLOSE_KILLS_ALL);
    const struct rules *extend = RULES(.planted = {[LOCK_RENEW] = "permit_extend_sets"}, .close = CLOSE_KILLS_ALL);

    expect_bad(BESIDE_RIVAL(permit, take, 1, CHECK_MODEL, &programs[LOCK_UNLOCK]), "MODEL", 5);
    expect_bad(BESIDE_RIVAL(permit, extend, 0, CHECK_SAFETY, &programs[LOCK_RENEW_EXTEND]), "GONE", 5);
}

/* ---- the same world --------------------------------------------------------------------------------------------- */

/* How many states the models found, by program; 0: they found a bad one. */
static void expect_known(const struct rules *rules, int faults, unsigned checks, const size_t known[PROGRAMS])
{
    for (size_t p = 0; p < PROGRAMS; p++)
        if (known[p] != 0)
            expect_states(BESIDE_RIVAL(reentrant, rules, faults, checks, &programs[p]), known[p]);
}

Test(enumerate_world, one_fault_leads_to_as_many_states_as_in_the_models, LONG)
{
    static const size_t KILLS[] = {15059, 25666, 42819, 32756, 62388, 87254};
    static const size_t SETS[] = {15059, 25666, 0, 32756, 62388, 0};
    static const size_t NO_KILL[] = {19357, 35866, 68784, 55503, 101451, 130092};
    static const size_t SAME_NUMBER[] = {15059, 25666, 42819, 27434, 62388, 87254};

    expect_known(RULES(.close = CLOSE_KILLS_ALL), 1, CHECK_ALL, KILLS);
    expect_known(RULES(.close = CLOSE_KILLS_LAST), 1, CHECK_ALL, KILLS);
    expect_known(RULES(.close = CLOSE_KILLS_ALL, SETTING), 1, CHECK_SAFETY | CHECK_ZOMBIE, SETS);
    expect_known(RULES(.close = CLOSE_ONLY), 1, CHECK_SAFETY | CHECK_MODEL, NO_KILL);
    expect_known(RULES(.close = CLOSE_KILLS_ALL, .same_number = true), 1, CHECK_ALL, SAME_NUMBER);
}

Test(enumerate_world, two_faults_lead_to_as_many_states_as_in_the_models, LONG)
{
    static const size_t KILLS[] = {93660, 158537, 236475, 207272, 298859, 491569};
    static const size_t KILLS_LAST[] = {81285, 142042, 222963, 191662, 304131, 451964};

    expect_known(RULES(.close = CLOSE_KILLS_ALL), 2, CHECK_ALL, KILLS);
    expect_known(RULES(.close = CLOSE_KILLS_LAST), 2, CHECK_SAFETY | CHECK_MODEL, KILLS_LAST);
}

/* A search that never gets anywhere finds nothing either. */
static unsigned outcomes_of(const struct scenario *scenario)
{
    unsigned outcomes;
    struct search_result r = enumerate(scenario, STATES_MAX, &outcomes);

    cr_expect_null(r.verdict);
    search_done(&r);
    return outcomes;
}

Test(enumerate_world, every_answer_occurs, LONG)
{
    unsigned both =
        1u << LOCK_TAKEN | 1u << LOCK_HELD_ALREADY | 1u << LOCK_REFUSED | 1u << LOCK_FREED | 1u << LOCK_NO_SUCH_HOLD;

    cr_expect_eq(outcomes_of(BESIDE_RIVAL(reentrant, &the_rules, 1, CHECK_ALL, &programs[LOCK_NEST])),
                 both | 1u << LOCK_HOLD_GONE | 1u << LOCK_STILL_HELD);
    cr_expect_eq(outcomes_of(BESIDE_RIVAL(simple, &the_rules, 1, CHECK_ALL, &programs[LOCK_EXTEND])),
                 both | 1u << LOCK_REFUSED_BLIND | 1u << LOCK_RENEWED);
}

/* ---- green ------------------------------------------------------------------------------------------------------ */

/* A bit for each program. */
#define SET(program) (1u << (program))

Test(enumerate, reentrant_lock_survives_two_faults_beside_a_rival, LONG)
{
    for (size_t p = 0; p < PROGRAMS; p++)
        expect_ok(BESIDE_RIVAL(reentrant, &the_rules_live, 2, CHECK_ALL, &programs[p]));
}

Test(enumerate, simple_lock_survives_two_faults_beside_a_rival, LONG)
{
    for (size_t p = 0; p < PROGRAMS; p++)
        if (p != LOCK_NEST)
            expect_ok(BESIDE_RIVAL(simple, &the_rules_live, 2, CHECK_ALL, &programs[p]));
}

Test(enumerate, fenced_lock_survives_two_faults_beside_a_rival_and_repeats_answer_one_token, LONG)
{
    for (size_t p = 0; p < PROGRAMS; p++)
        expect_ok(BESIDE_RIVAL(fenced, &the_rules_live, 2, CHECK_ALL, &programs[p]));
}

/* A server may forbid CLIENT KILL. Then late commands do come, and may leave zombies; nothing else. */
Test(enumerate, without_kill_the_scripts_alone_keep_holds_safe, LONG)
{
    const struct rules *rules = RULES(.close = CLOSE_ONLY, .gives_up_live = true);

    for (size_t p = 0; p < PROGRAMS; p++) {
        expect_ok(BESIDE_RIVAL(reentrant, rules, 1, CHECK_SAFETY | CHECK_MODEL, &programs[p]));
        if (p != LOCK_NEST)
            expect_ok(BESIDE_RIVAL(simple, rules, 1, CHECK_SAFETY | CHECK_MODEL, &programs[p]));
    }
}

Test(enumerate, two_owners_of_a_reentrant_lock_survive_a_fault, LONG)
{
    expect_pairs_ok(&reentrant_type, SET(LOCK_UNLOCK) | SET(LOCK_EXTEND) | SET(LOCK_NEST) | SET(LOCK_TWICE), 1, 5);
}

Test(enumerate, two_owners_of_a_simple_lock_survive_a_fault, LONG)
{
    expect_pairs_ok(&simple_type, SET(LOCK_UNLOCK) | SET(LOCK_EXTEND) | SET(LOCK_TWICE), 1, 5);
}

Test(enumerate, two_owners_of_a_fenced_lock_survive_a_fault, LONG)
{
    expect_pairs_ok(&fenced_type, SET(LOCK_UNLOCK) | SET(LOCK_NEST) | SET(LOCK_TWICE), 1, 4);
}

Test(enumerate, two_owners_with_renewals_survive_a_fault, LONG)
{
    expect_pairs_ok(&reentrant_type, SET(LOCK_RENEW_EXTEND), 1, 4);
    expect_pairs_ok(&simple_type, SET(LOCK_RENEW_TWICE), 1, 4);
}

Test(enumerate, two_owners_survive_two_faults, LONG)
{
    expect_pairs_ok(&reentrant_type, SET(LOCK_UNLOCK), 2, 4);
    expect_pairs_ok(&simple_type, SET(LOCK_UNLOCK), 2, 4);
    expect_pairs_ok(&reentrant_type, SET(LOCK_UNLOCK) | SET(LOCK_NEST), 2, 2);
}

Test(enumerate, three_owners_survive_a_fault, LONG)
{
    expect_three_ok(&reentrant_type, LOCK_UNLOCK, 1, 3);
    expect_three_ok(&simple_type, LOCK_UNLOCK, 1, 2);
}

/* Time is long enough for a waiter to die in the queue, and to come back. */
Test(enumerate, fair_lock_survives_a_fault_beside_a_rival, LONG)
{
    for (size_t p = 0; p < PROGRAMS; p++)
        expect_ok(BESIDE_RIVAL(fair, &the_rules_live, 1, CHECK_ALL, &programs[p]));
}

Test(enumerate, two_owners_of_a_fair_lock_survive_a_fault, LONG)
{
    expect_pairs_ok(&fair_type, SET(LOCK_UNLOCK) | SET(LOCK_NEST), 1, 4);
    expect_pairs_ok(&fair_type, SET(LOCK_EXTEND) | SET(LOCK_TWICE), 0, 5);
}

Test(enumerate, three_owners_of_a_fair_lock_keep_their_order, LONG)
{
    expect_three_ok(&fair_type, LOCK_UNLOCK, 0, 4);
}

/* ---- green: the read-write lock --------------------------------------------------------------------------------- */

Test(enumerate, read_write_lock_survives_two_faults_beside_a_writer, LONG)
{
    for (unsigned p = 0; p < RW_PROGRAMS; p++)
        expect_ok(RW_BESIDE(LOCK_ONE, &the_rules_live, 2, CHECK_ALL, p));
}

Test(enumerate, read_write_lock_survives_a_fault_beside_a_reader_that_may_die, LONG)
{
    for (unsigned p = 0; p < RW_PROGRAMS; p++)
        expect_ok(RW_BESIDE(LOCK_MANY, &the_rules_live, 1, CHECK_ALL, p));
}

/* The answer to the peer's watchdog: a read hold is believed in for no longer than that renews for. */
Test(enumerate, read_holds_believed_in_for_a_peers_lease_survive_its_watchdog_and_a_fault, LONG)
{
    const struct rules *rules = RULES(.planted = {[LOCK_PEER_RENEW] = "peer_renew_sets"}, .close = CLOSE_KILLS_ALL,
                                      .gives_up_live = true, .believed = 2);

    for (unsigned p = 0; p < RW_PROGRAMS; p++)
        expect_ok(RW_BESIDE(LOCK_MANY, rules, 1, CHECK_SAFETY | CHECK_ZOMBIE, p));
}

Test(enumerate, without_kill_the_read_write_scripts_alone_keep_holds_safe, LONG)
{
    const struct rules *rules = RULES(.close = CLOSE_ONLY, .gives_up_live = true);

    for (unsigned p = 0; p < RW_PROGRAMS; p++)
        expect_ok(RW_BESIDE(LOCK_ONE, rules, 1, CHECK_SAFETY | CHECK_MODEL, p));
}

Test(enumerate, two_owners_of_a_read_write_lock_survive_a_fault, LONG)
{
    expect_rw_pairs_ok(&readwrite_type, SET(RW_WRITE) | SET(RW_READ_TWICE) | SET(RW_NEST_LONGER) | SET(RW_DOWNGRADE), 1,
                       3);
    expect_rw_pairs_ok(&readwrite_type, SET(RW_PROGRAMS) - 1, 0, 5);
}

Test(enumerate, three_owners_of_a_read_write_lock_survive_a_fault, LONG)
{
    expect_rw_three_ok(&readwrite_type, RW_WRITE, RW_READ_EXTEND, RW_NEST_LONGER, 0, 5);
    expect_rw_three_ok(&readwrite_type, RW_DOWNGRADE, RW_WRITE, RW_READ_RENEW, 0, 3);
}

Test(enumerate, preferred_writers_survive_a_fault_beside_a_rival, LONG)
{
    for (unsigned p = 0; p < RW_PROGRAMS; p++) {
        expect_ok(RW_TYPE_BESIDE(&preferring_type, LOCK_ONE, &the_rules_live, 1, CHECK_ALL, p));
        expect_ok(RW_TYPE_BESIDE(&preferring_type, LOCK_MANY, &the_rules_live, 1, CHECK_ALL, p));
    }
}

Test(enumerate, two_owners_of_a_lock_that_prefers_writers_survive_a_fault, LONG)
{
    expect_rw_pairs_ok(&preferring_type, SET(RW_WRITE) | SET(RW_READ_TWICE) | SET(RW_DOWNGRADE), 1, 3);
    expect_rw_pairs_ok(&preferring_type, SET(RW_PROGRAMS) - 1, 0, 4);
}

/* ---- green: locks that count ------------------------------------------------------------------------------------ */

Test(enumerate, semaphore_loses_and_invents_no_permit_under_two_faults, LONG)
{
    for (unsigned a = ACQUIRE_ONE; a <= ACQUIRE_TWICE; a++) {
        expect_count_ok(&semaphore_type, &count_programs[a], NULL, NULL, 2, 0);
        for (unsigned b = a; b <= ACQUIRE_TWICE; b++)
            expect_count_ok(&semaphore_type, &count_programs[a], &count_programs[b], NULL, 1, 0);
    }
}

Test(enumerate, three_owners_of_a_semaphore_survive_a_fault, LONG)
{
    expect_count_ok(&semaphore_type, &count_programs[ACQUIRE_ONE], &count_programs[ACQUIRE_ONE],
                    &count_programs[ACQUIRE_TWO], 1, 0);
}

Test(enumerate, drains_survive_two_faults_and_take_what_is_there_once, LONG)
{
    expect_count_ok(&semaphore_type, &count_programs[DRAIN_ALL], NULL, NULL, 2, 0);
    expect_count_ok(&semaphore_type, &count_programs[DRAIN_ALL], &count_programs[DRAIN_ALL], NULL, 1, 0);
    expect_count_ok(&semaphore_type, &count_programs[DRAIN_ALL], &count_programs[ACQUIRE_TWICE], NULL, 1, 0);
    expect_count_ok(&semaphore_type, &count_programs[DRAIN_ALL], &count_programs[ACQUIRE_ONE],
                    &count_programs[ACQUIRE_ONE], 1, 0);
}

Test(enumerate, how_many_there_are_is_said_once, LONG)
{
    expect_count_ok(&bare_semaphore_type, &count_programs[SET_ACQUIRE], NULL, NULL, 2, 0);
    expect_count_ok(&bare_semaphore_type, &count_programs[SET_ACQUIRE], &count_programs[SET_ACQUIRE], NULL, 1, 0);
    expect_count_ok(&bare_semaphore_type, &count_programs[SET_ACQUIRE], &count_programs[ACQUIRE_ONE],
                    &count_programs[SET_ACQUIRE], 0, 0);
}

Test(enumerate, fair_semaphore_keeps_its_order_under_a_fault, LONG)
{
    expect_count_ok(&fair_semaphore_type, &count_programs[ACQUIRE_ONE], &count_programs[ACQUIRE_TWO], NULL, 1, 2);
    expect_count_ok(&fair_semaphore_type, &count_programs[ACQUIRE_TWICE], &count_programs[ACQUIRE_TWO],
                    &count_programs[ACQUIRE_ONE], 0, 2); /* one dies, one waits, one finds the dead */
}

Test(enumerate, permits_by_turns_survive_a_fault, LONG)
{
    expect_pairs_ok(&fair_permit_type, SET(LOCK_UNLOCK) | SET(LOCK_TWICE), 1, 3);
    expect_three_ok(&fair_permit_type, LOCK_UNLOCK, 0, 3);
}

Test(enumerate, number_of_permits_is_set_once_for_each_request, LONG)
{
    expect_set_pairs_ok(&permit_type, SET(SET_PROGRAMS) - 1, 1, 3);
}

Test(enumerate, latch_counts_each_request_once_under_two_faults, LONG)
{
    expect_count_ok(&latch_type, &count_programs[COUNT_TWO], &count_programs[COUNT_ONE], NULL, 2, 0);
    expect_count_ok(&latch_type, &count_programs[COUNT_ONE], &count_programs[COUNT_ONE], &count_programs[COUNT_ONE], 2,
                    0);
}

/* It is set anew when it is open, and only then. Whose counts those are that come late nobody can say, so the answers
 * alone count. */
Test(enumerate, latch_is_set_anew_once_for_each_request, LONG)
{
    for (unsigned b = COUNT_ONE; b <= COUNT_TWO; b++)
        expect_ok(
            &(struct scenario){.type = &latch_type,
                               .rules = &the_rules_live,
                               .owners = {&count_programs[SET_COUNT], &count_programs[b], &count_programs[COUNT_ONE]},
                               .faults = 1,
                               .checks = CHECK_MODEL});
}

Test(enumerate, permits_with_leases_survive_a_fault, LONG)
{
    expect_pairs_ok(&permit_type, SET(LOCK_UNLOCK) | SET(LOCK_EXTEND) | SET(LOCK_TWICE), 1, 4);
    expect_pairs_ok(&permit_type, SET(LOCK_RENEW_EXTEND), 1, 3);
}

/* ---- multi-locks ------------------------------------------------------------------------------------------------ */

static void expect_multi(const char *verdict, const struct multi_scenario *scenario)
{
    struct search_result r = enumerate_multi(scenario, STATES_MAX);
    bool same = verdict == NULL ? r.verdict == NULL : r.verdict != NULL && strcmp(verdict, r.verdict) == 0;

    cr_expect(same, "%s beside %s: %s, %zu states, %zu steps\n%s", scenario->parties[0], scenario->parties[1],
              r.verdict == NULL ? "ok" : r.verdict, r.states, r.steps, r.schedule == NULL ? "" : r.schedule);
    search_done(&r);
}

#define MULTI(...) (&(struct multi_scenario){__VA_ARGS__})

/* Parts in different orders, and nobody lets go: that is what the common order of composite.c is for. */
Test(enumerate_red, multi_locks_without_a_common_order_wait_in_a_circle, LONG)
{
    expect_multi("STUCK", MULTI(.parties = {"xy", "yx"}));
    expect_multi("STUCK", MULTI(.parties = {"xy", "yz", "zx"}));
}

Test(enumerate, two_multi_locks_exclude_each_other_and_nobody_is_stuck_or_leaves_anything, LONG)
{
    static const char *const sets[] = {"x", "xy", "yz", "xyz"};

    for (size_t a = 0; a < 4; a++)
        for (size_t b = a; b < 4; b++)
            expect_multi(NULL, MULTI(.parties = {sets[a], sets[b]}, .stops = 2, .pauses_end = true));
}

Test(enumerate, multi_locks_survive_a_fault, LONG)
{
    static const char *const sets[] = {"x", "xy", "yz", "xyz"};

    for (size_t a = 0; a < 4; a++)
        for (size_t b = a; b < 4; b++)
            expect_multi(NULL, MULTI(.parties = {sets[a], sets[b]}, .pauses_end = true, .faults = 1));
    expect_multi(NULL, MULTI(.parties = {"xy", "xy"}, .stops = 1, .pauses_end = true, .faults = 2));
}

/* What the two halves of that rest on. */
Test(enumerate_red, multi_lock_that_does_not_undo_what_it_knows_nothing_of_leaves_it, LONG)
{
    expect_multi("ZOMBIE", MULTI(.parties = {"xy", "xy"}, .pauses_end = true, .faults = 1, .no_undo = true));
}

Test(enumerate_red, multi_lock_that_does_not_look_back_believes_in_a_part_whose_lease_has_ended, LONG)
{
    expect_multi("GONE", MULTI(.parties = {"xy", "xy"}, .pauses_end = true, .faults = 1, .blind = true));
}

Test(enumerate, multi_locks_with_a_common_order_need_no_pause_to_come_through, LONG)
{
    expect_multi(NULL, MULTI(.parties = {"xy", "xy"}, .stops = 1));
    expect_multi(NULL, MULTI(.parties = {"xyz", "yz"}, .stops = 1));
    expect_multi(NULL, MULTI(.parties = {"xy", "yz", "xz"}));
}
