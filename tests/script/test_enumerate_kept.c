/* SPDX-License-Identifier: MIT */
/* test_enumerate_kept.c - all orders in which owners, clients and what breaks can meet at a read-write lock that its
 * client keeps. What is searched and for what: enumerate_kept.h.
 *
 * That a search finds what it should is shown by bugs that are planted in the library and its Lua (tests/teeth), and
 * first by rules that are left out here.
 */
#include "tests/script/enumerate_kept.h"

#include <criterion/criterion.h>
#include <string.h>

#define STATES_MAX 20000000
#define LONG .timeout = 600

static void expect_kept(const char *verdict, const struct kept_scenario *scenario)
{
    struct search_result r = enumerate_kept(scenario, STATES_MAX);
    bool same = verdict == NULL ? r.verdict == NULL : r.verdict != NULL && strcmp(verdict, r.verdict) == 0;

    cr_log_info("%s: %zu states", scenario->owners[0][0], r.states);
    cr_expect(same, "%s: %s, %zu states, %zu steps\n%s", scenario->owners[0][0], r.verdict == NULL ? "ok" : r.verdict,
              r.states, r.steps, r.schedule == NULL ? "" : r.schedule);
    search_done(&r);
}

#define KEPT(...) (&(struct kept_scenario){__VA_ARGS__})

/* No lease ends: its own client waits for it. */
Test(enumerate_kept_red, without_kill_a_take_that_was_given_up_comes_back, LONG)
{
    expect_kept("STUCK", KEPT(.owners = {{"Ww"}}, .faults = 1, .no_kill = true));
}

/* Its read is refused because of the client's take, before the answer to that lets it in to write. Nothing wakes it
 * then but its hint, after 5 s at most, which the search does not have. */
Test(enumerate_kept_red, read_that_is_refused_just_before_its_owner_is_let_in_to_write_has_nothing_but_its_hint, LONG)
{
    expect_kept("STUCK", KEPT(.owners = {{"W=w", "R=r"}}, .twins = true));
}

/* One end after the other: the name turns to that which is wanted, and back. */
Test(enumerate_kept, name_that_turns_from_one_end_to_the_other_and_back, LONG)
{
    expect_kept(NULL, KEPT(.owners = {{"WwRrWw"}}, .outsiders = {"Ww"}, .faults = 1));
    expect_kept(NULL, KEPT(.owners = {{"RrWwRr"}}, .outsiders = {"Rr"}, .faults = 1));
    expect_kept(NULL, KEPT(.owners = {{"WwRr"}}, .outsiders = {"Ww"}, .faults = 2));
}

/* One who writes beside one who reads, of one client. */
Test(enumerate_kept, owners_of_a_client_want_both_ends, LONG)
{
    expect_kept(NULL, KEPT(.owners = {{"Ww", "Rr"}}, .outsiders = {"Ww"}, .faults = 1));
    expect_kept(NULL, KEPT(.owners = {{"WwRr", "Ww"}}, .outsiders = {"Rr"}));
    expect_kept(NULL, KEPT(.owners = {{"Ww", "Sr"}}, .outsiders = {"Rr"}, .gives_up = 1));
    expect_kept(NULL, KEPT(.owners = {{"Tw", "Rr"}}, .outsiders = {"Ww"}));
}

Test(enumerate_kept, owner_who_writes_reads_as_well_and_gives_up_writing, LONG)
{
    expect_kept(NULL, KEPT(.owners = {{"WRwr"}}, .outsiders = {"Ww", "Rr"}, .faults = 1));
    expect_kept(NULL, KEPT(.owners = {{"WRwr", "Ww"}}, .faults = 1));
    expect_kept(NULL, KEPT(.owners = {{"WRwr", "Ww"}}, .outsiders = {"Rr"}));
    expect_kept(NULL, KEPT(.owners = {{"RWwr", "Rr"}}, .outsiders = {"Ww"}));
}

/* As by asynchronous calls. */
Test(enumerate_kept, owner_writes_and_reads_at_once, LONG)
{
    expect_kept(NULL, KEPT(.owners = {{"Ww", "Rr"}}, .outsiders = {"Ww"}, .twins = true));
    expect_kept(NULL, KEPT(.owners = {{"Ww", "Rr"}}, .faults = 1, .twins = true));
}

Test(enumerate_kept, owner_ends_inside, LONG)
{
    expect_kept(NULL, KEPT(.owners = {{"Wx", "Rr"}}, .outsiders = {"Ww"}));
    expect_kept(NULL, KEPT(.owners = {{"Rx", "Rr"}}, .outsiders = {"Ww"}));
    expect_kept(NULL, KEPT(.owners = {{"WRx", "Ww"}}, .outsiders = {"Rr"}));
    expect_kept(NULL, KEPT(.owners = {{"WwRr"}}, .outsiders = {"Rx", "Wx"}));
}

Test(enumerate_kept, recalls_are_listened_for_from_the_first_take_on, LONG)
{
    expect_kept(NULL, KEPT(.owners = {{"WwWw", "Rr"}}, .outsiders = {"Rr"}, .unheard = true));
    expect_kept(NULL, KEPT(.owners = {{"WwRr"}}, .outsiders = {"Ww"}, .unheard = true, .faults = 1));
}

Test(enumerate_kept, another_implementations_owners_get_what_is_too_old, LONG)
{
    expect_kept(NULL, KEPT(.owners = {{"WwRr", "Ww"}}, .outsiders = {"Rr"}, .peers = true));
    expect_kept(NULL, KEPT(.owners = {{"WRwr", "Rr"}}, .outsiders = {"RrWw"}, .peers = true));
    expect_kept(NULL, KEPT(.owners = {{"WwRr"}}, .outsiders = {"Ww", "Rr"}, .faults = 1, .peers = true));
}

Test(enumerate_kept, two_clients_keep, LONG)
{
    expect_kept(NULL, KEPT(.owners = {{"Ww"}, {"Rr"}}, .faults = 1));
    expect_kept(NULL, KEPT(.owners = {{"WwRr"}, {"Rr"}}));
}
