/* SPDX-License-Identifier: MIT */
/* test_reentrant.c - the reentrant lock, shared by C and Java. */
#include "tests/interop/checks.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define TYPE "reentrant"

Test(reentrant, java_is_kept_out_by_c, .timeout = 60)
{
    check_exclusion(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(reentrant, c_is_kept_out_by_java, .timeout = 60)
{
    check_exclusion(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(reentrant, java_waiter_is_woken_by_a_release_in_c, .timeout = 60)
{
    check_release_wakes(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(reentrant, c_waiter_is_woken_by_a_release_in_java, .timeout = 60)
{
    check_release_wakes(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(reentrant, watchdog_of_c_keeps_java_out, .timeout = 60)
{
    check_renewal_holds(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(reentrant, watchdog_of_java_keeps_c_out, .timeout = 60)
{
    check_renewal_holds(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(reentrant, c_is_evicted_by_java, .timeout = 60)
{
    check_force_unlock(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(reentrant, java_is_evicted_by_c, .timeout = 60)
{
    check_force_unlock(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(reentrant, nested_holds_of_c_are_counted_for_java, .timeout = 60)
{
    check_reentry(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(reentrant, nested_holds_of_java_are_counted_for_c, .timeout = 60)
{
    check_reentry(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(reentrant, java_takes_over_from_a_killed_c_process, .timeout = 60)
{
    check_death(TYPE, PARTY_PROCESS, PARTY_JAVA);
}

Test(reentrant, c_takes_over_from_a_killed_jvm, .timeout = 60)
{
    check_death(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(reentrant, thousand_rounds_shared_with_java_lose_nothing, .timeout = 120)
{
    check_rounds(TYPE, 1000);
}

/* ---- what ours leaves in Redis ---------------------------------------------------------------------------------- */

/* The n of the only field `U:n`, which must be ours and have that count. */
static int64_t number_of(struct meeting *m, const struct party *who, const char *count)
{
    const struct reply *all = probe_ask(m->probe, "HGETALL orders");
    char *end = NULL;
    long long n;

    cr_assert_eq(all->count, 2);
    cr_assert_eq(strncmp(all->items[0].text, party_id(who), 36), 0);
    cr_assert_eq(all->items[0].text[36], ':');
    n = strtoll(all->items[0].text + 37, &end, 10);
    cr_assert(end != all->items[0].text + 37 && *end == '\0', "%s", all->items[0].text);
    cr_assert_str_eq(all->items[1].text, count);
    return n;
}

Test(reentrant, hold_of_c_looks_like_redissons_with_a_fresh_number, .timeout = 60)
{
    struct meeting m;
    struct party *who;
    int64_t first;
    int64_t ttl;

    meeting_open(&m, TYPE, 0);
    who = party_on(&m, PARTY_THREAD, "orders");
    cr_assert_eq(party_try(who, 0, LONG_MS), RDL_OK);
    first = number_of(&m, who, "1");
    cr_assert_eq(party_try(who, 0, LONG_MS), RDL_OK);
    cr_assert_eq(number_of(&m, who, "2"), first);
    ttl = probe_int(m.probe, "PTTL orders");
    cr_assert(ttl > 0 && ttl <= LONG_MS);
    cr_assert_eq(probe_keys(m.probe), 1);

    cr_assert_eq(party_unlock(who), RDL_OK);
    cr_assert_eq(number_of(&m, who, "1"), first);
    cr_assert_eq(party_unlock(who), RDL_OK);
    cr_assert_eq(probe_keys(m.probe), 0);
    cr_assert_eq(party_try(who, 0, LONG_MS), RDL_OK);
    cr_assert_neq(number_of(&m, who, "1"), first);
    meeting_close(&m);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

Test(reentrant, names_of_every_form_mean_the_same_lock_and_channel, .timeout = 120)
{
    static const struct {
        const char *name;
        const char *channel;
    } names[] = {
        {"two words", "redisson_lock__channel:{two words}"},
        {"Größe \"100%\"", "redisson_lock__channel:{Größe \"100%\"}"},
        {"shop:{orders}:42", "redisson_lock__channel:shop:{orders}:42"},
        {"{}", "redisson_lock__channel:{}"},
        {"a{b", "redisson_lock__channel:a{b"},
        {"a}b", "redisson_lock__channel:{a}b}"},
    };
    struct meeting m;

    meeting_open(&m, TYPE, 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct party *c = party_on(&m, PARTY_THREAD, names[i].name);
        struct party *java = party_on(&m, PARTY_JAVA, names[i].name);

        check_hand_over(&m, c, java, names[i].name, names[i].channel);
        check_hand_over(&m, java, c, names[i].name, names[i].channel);
    }
    meeting_close(&m);
}
