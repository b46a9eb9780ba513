/* SPDX-License-Identifier: MIT */
/* test_scripts_counted.c - the Lua files of semaphores and of the latch, on a real server: what their headers promise.
 */
#include "tests/script/call.h"

/* ---- semaphores ------------------------------------------------------------------------------------------------- */

#define SEMAPHORE "N ch g , "
#define MINUTE "60000"

static int64_t free_permits(struct fixture *f)
{
    return atoll(probe_text(f->probe, "GET N"));
}

Test(scripts_semaphore, bad_arguments_are_refused_before_anything_is_written, .timeout = 60)
{
    static const char *const GUARDED[] = {"semaphore_take",    "semaphore_undo", "semaphore_add",   "semaphore_drain",
                                          "semaphore_try_set", "latch_try_set",  "latch_count_down"};
    struct fixture f = open_fixture();

    for (size_t i = 0; i < sizeof GUARDED / sizeof GUARDED[0]; i++) {
        clear(&f);
        expect_refused(&f, GUARDED[i], SEMAPHORE "2 $", LEASE_TOO_LONG, 0);
        if (strcmp(GUARDED[i], "semaphore_drain") != 0)
            cr_expect(run_fails(&f, GUARDED[i], SEMAPHORE "2 60000 flushall", WAYS_TO_PUBLISH), "%s", GUARDED[i]);
        (void)probe_ask(f.probe, "SET N words");
        cr_expect(run_fails(&f, GUARDED[i], SEMAPHORE "2 60000", "ERR redlatch: what is stored"), "%s", GUARDED[i]);
        cr_expect_eq(probe_keys(f.probe), 1, "%s", GUARDED[i]);
        (void)probe_ask(f.probe, "DEL N");
        (void)probe_ask(f.probe, "HSET N A 1");
        cr_expect(run_fails(&f, GUARDED[i], SEMAPHORE "2 60000", "WRONGTYPE "), "%s", GUARDED[i]);
        cr_expect_eq(probe_keys(f.probe), 1, "%s", GUARDED[i]);
    }
    clear(&f);
    expect_refused(&f, "semaphore_take", SEMAPHORE "$ 60000", COUNT_TOO_HIGH, 0);
    expect_refused(&f, "latch_try_set", SEMAPHORE "$ 60000", COUNT_TOO_HIGH, 0);
    cr_expect(run_fails(&f, "semaphore_add", SEMAPHORE "0 60000", "ERR redlatch: permits"));
    cr_expect(run_fails(&f, "semaphore_add", SEMAPHORE "1.5 60000", "ERR redlatch: permits"));
    cr_expect(run_fails(&f, "semaphore_add", SEMAPHORE "-2147483648 60000", "ERR redlatch: permits"));
    cr_expect(run_fails(&f, "semaphore_try_set", SEMAPHORE "-1 60000", "ERR redlatch: permits"));
    cr_expect_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

/* A peer may have stored more than one's own verbs let through; what is beyond 2^53 no script counts exactly. */
Test(scripts_semaphore, N11_sums_and_counts_at_their_limits_are_refused_and_never_wrap, .timeout = 60)
{
    static const char *const TOO_FAR[] = {"9007199254740992", "-9007199254740992", "99999999999999999999"};
    static const char *const COUNTED[] = {"semaphore_take",    "semaphore_undo", "semaphore_add",   "semaphore_drain",
                                          "semaphore_try_set", "latch_try_set",  "latch_count_down"};
    struct fixture f = open_fixture();

    (void)probe_ask(f.probe, "SET N 2147483646");
    cr_expect(run_fails(&f, "semaphore_add", "N ch g1 , 2 " MINUTE, "ERR redlatch: a semaphore has"));
    cr_expect_eq(probe_keys(f.probe), 1, "and nothing is written");
    cr_expect_eq(run_integer(&f, "semaphore_add", "N ch g1 , 1 " MINUTE), 0);
    cr_expect(run_fails(&f, "semaphore_add", "N ch g2 , 1 " MINUTE, "ERR redlatch: a semaphore has"));
    cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g3 , 2147483647 " MINUTE), 0);
    (void)probe_ask(f.probe, "SET N 10");
    cr_expect_eq(run_integer(&f, "semaphore_undo", "N ch g3 , 0 " MINUTE), INT32_MAX - 10, "an undo fills it up");
    cr_expect_eq(free_permits(&f), INT32_MAX);
    (void)probe_ask(f.probe, "SET N -2147483647");
    cr_expect(run_fails(&f, "semaphore_add", "N ch g4 , -1 " MINUTE, "ERR redlatch: a semaphore has"));
    cr_expect_eq(free_permits(&f), -INT32_MAX);

    (void)probe_ask(f.probe, "SET N 3000000000");
    cr_expect(run_fails(&f, "semaphore_add", "N ch g5 , 1 " MINUTE, "ERR redlatch: a semaphore has"));
    cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g6 , 1 " MINUTE), INT64_C(2999999999));
    cr_expect_eq(run_integer(&f, "semaphore_add", "N ch g7 , -1 " MINUTE), 0, "fewer may be made of too many");
    cr_expect_eq(run_integer(&f, "semaphore_drain", "N ch g8 , 0 " MINUTE), INT32_MAX,
                 "no more than may be given back");
    cr_expect_eq(free_permits(&f), INT64_C(2999999998) - INT32_MAX);
    for (size_t i = 0; i < sizeof TOO_FAR / sizeof TOO_FAR[0]; i++) {
        (void)probe_ask(f.probe, "SET N %s", TOO_FAR[i]);
        for (size_t k = 0; k < sizeof COUNTED / sizeof COUNTED[0]; k++)
            cr_expect(run_fails(&f, COUNTED[k], "N ch g9 , 1 " MINUTE, "ERR redlatch: what is stored"), "%s",
                      COUNTED[k]);
        cr_expect_str_eq(probe_text(f.probe, "GET N"), TOO_FAR[i]);
    }
    (void)probe_ask(f.probe, "SET N 9007199254740991");
    cr_expect_eq(run_integer(&f, "latch_count_down", "N ch g10 , 0 " MINUTE), INT64_C(9007199254740990));
    close_fixture(&f);
}

Test(scripts_semaphore, each_request_is_carried_out_once_however_often_it_comes, .timeout = 60)
{
    struct fixture f = open_fixture();

    cr_expect_eq(run_integer(&f, "semaphore_try_set", "N ch g1 , 5 " MINUTE), 1);
    cr_expect_eq(run_integer(&f, "semaphore_try_set", "N ch g2 , 9 " MINUTE), 0);
    cr_expect_eq(run_integer(&f, "semaphore_try_set", "N ch g1 , 5 " MINUTE), 1, "the answer is kept");
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g3 , 3 " MINUTE), 2);
    cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g4 , 3 " MINUTE), -1 - 2);
    cr_expect_eq(probe_int(f.probe, "EXISTS g4"), 0, "a refusal may be asked again");
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "semaphore_add", "N ch g5 , 1 " MINUTE), 0);
    cr_expect_eq(free_permits(&f), 3);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "semaphore_drain", "N ch g6 , 0 " MINUTE), 3);
    cr_expect_eq(free_permits(&f), 0);
    cr_expect_eq(run_integer(&f, "semaphore_undo", "N ch g6 , 0 " MINUTE), 3);
    cr_expect_eq(run_integer(&f, "semaphore_undo", "N ch g6 , 0 " MINUTE), 0);
    cr_expect_eq(run_integer(&f, "semaphore_drain", "N ch g6 , 0 " MINUTE), 0, "undone: it comes too late");
    cr_expect_eq(run_integer(&f, "semaphore_undo", "N ch g7 , 0 " MINUTE), 0);
    cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g7 , 1 " MINUTE), 3, "the same");
    cr_expect_eq(free_permits(&f), 3);
    close_fixture(&f);
}

Test(scripts_semaphore, guard_of_an_answer_that_was_read_goes_with_the_next_request, .timeout = 60)
{
    struct fixture f = open_fixture();

    (void)probe_ask(f.probe, "SET N 3");
    (void)run_integer(&f, "semaphore_take", "N ch g1 , 1 " MINUTE);
    cr_expect(is_near(probe_int(f.probe, "PTTL g1"), LEASE));
    cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g2 g1 , 1 " MINUTE), 1);
    cr_expect_eq(probe_int(f.probe, "EXISTS g1"), 0);
    cr_expect_eq(probe_keys(f.probe), 2);
    close_fixture(&f);
}

#define PERMITS "N t ch , "
#define PERMITS_GUARDED "N t ch g , "
#define ID1 "aaaaaaaaaaaaaaaa"
#define ID2 "bbbbbbbbbbbbbbbb"
#define ID3 "cccccccccccccccc"

Test(scripts_permits, bad_arguments_are_refused_before_anything_is_written, .timeout = 60)
{
    struct fixture f = open_fixture();

    expect_refused(&f, "permit_take", PERMITS "$ publish p 0 " ID1, LEASE_TOO_LONG, 0);
    expect_refused(&f, "permit_set", PERMITS_GUARDED "publish 1 $", LEASE_TOO_LONG, 0);
    cr_expect(run_fails(&f, "permit_take", PERMITS "60000 publish p 0 short", "ERR redlatch: the id"));
    cr_expect(run_fails(&f, "permit_take", PERMITS "60000 publish p 0", "ERR redlatch: 1 to 1000"));
    cr_expect(run_fails(&f, "permit_undo", PERMITS "0 publish p 0 short", "ERR redlatch: the id"));
    cr_expect(run_fails(&f, "permit_release", PERMITS "publish short", "ERR redlatch: the id"));
    cr_expect(run_fails(&f, "permit_extend", PERMITS "publish -1 " ID1, "ERR redlatch: lease"));
    cr_expect(run_fails(&f, "permit_set", PERMITS_GUARDED "publish -1 " MINUTE, "ERR redlatch: permits"));
    cr_expect(run_fails(&f, "permit_set", PERMITS_GUARDED "publish 2147483648 " MINUTE, "ERR redlatch: permits"));
    cr_expect(run_fails(&f, "permit_look", PERMITS "flushall", WAYS_TO_PUBLISH));
    cr_expect(run_fails(&f, "permit_set", PERMITS_GUARDED "flushall 1 " MINUTE, WAYS_TO_PUBLISH));
    cr_expect_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_permits, N11_sums_and_counts_at_their_limits_are_refused_and_never_wrap, .timeout = 60)
{
    static const char *const WORDS[][2] = {{"permit_take", PERMITS "60000 publish p 0 " ID3},
                                           {"permit_undo", PERMITS "0 publish p 0 " ID3},
                                           {"permit_release", PERMITS "publish " ID3},
                                           {"permit_extend", PERMITS "publish 0 " ID3},
                                           {"permit_look", PERMITS "publish"},
                                           {"permit_set", "N t ch g2 , publish 1 " MINUTE}};
    struct fixture f = open_fixture();

    (void)probe_ask(f.probe, "SET N 2");
    cr_expect_eq(run_integer(&f, "permit_take", PERMITS "60000 publish p 0 " ID1 " " ID2), 0);
    (void)probe_ask(f.probe, "SET N 2147483646");
    cr_expect(run_fails(&f, "permit_release", PERMITS "publish " ID1 " " ID2, "ERR redlatch: a semaphore has"));
    cr_expect_eq(probe_int(f.probe, "ZCARD t"), 2, "all or none");
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID1), 1);
    cr_expect_eq(run_integer(&f, "permit_undo", PERMITS "0 publish p 0 " ID2), 1);
    cr_expect_eq(free_permits(&f), INT32_MAX, "an undo fills it up");
    (void)probe_ask(f.probe, "ZADD t 1 %s", ID1);
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID1), 0);
    cr_expect_eq(free_permits(&f), INT32_MAX, "so do those that expire");
    cr_expect_eq(run_integer(&f, "permit_set", PERMITS_GUARDED "publish 2147483647 " MINUTE), 0);
    cr_expect_eq(free_permits(&f), INT32_MAX);
    (void)probe_ask(f.probe, "SET N 9007199254740992");
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        cr_expect(run_fails(&f, WORDS[i][0], WORDS[i][1], "ERR redlatch: what is stored"), "%s", WORDS[i][0]);
    cr_expect_str_eq(probe_text(f.probe, "GET N"), "9007199254740992");
    close_fixture(&f);
}

Test(scripts_permits, repeats_find_their_work_done, .timeout = 60)
{
    struct fixture f = open_fixture();

    cr_expect_eq(run_integer(&f, "permit_set", PERMITS_GUARDED "publish 9 " MINUTE), 0);
    cr_expect_eq(run_integer(&f, "permit_set", "N t ch g2 , publish 3 " MINUTE), 0);
    cr_expect_eq(run_integer(&f, "permit_set", PERMITS_GUARDED "publish 9 " MINUTE), 0);
    cr_expect_eq(free_permits(&f), 3, "a repeat does not set again what was set by others since");
    cr_expect_eq(run_integer(&f, "permit_set", "N t ch g3 g , publish 3 " MINUTE), 0);
    cr_expect_eq(probe_int(f.probe, "EXISTS g"), 0, "done with");
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "permit_take", PERMITS "60000 publish p 0 " ID1 " " ID2), 1);
    cr_expect_eq(probe_int(f.probe, "ZCARD t"), 2);
    cr_expect_eq(run_integer(&f, "permit_take", PERMITS "90000 publish p 0 " ID1 " " ID2), 1);
    cr_expect_gt(run_integer(&f, "permit_extend", PERMITS "publish 0 " ID2), LEASE,
                 "its caller counts from the repeat");
    cr_expect(run_fails(&f, "permit_take", PERMITS "60000 publish p 0 " ID2 " " ID3, "ERR redlatch: some"));
    cr_expect(run_fails(&f, "permit_take", PERMITS "60000 publish p 0 " ID3 " " ID2, "ERR redlatch: some"));
    cr_expect_eq(free_permits(&f), 1, "a block that overlaps another's takes nothing");
    cr_expect(is_near(run_integer(&f, "permit_extend", PERMITS "publish 120000 " ID1), LONGER));
    cr_expect(is_near(run_integer(&f, "permit_extend", PERMITS "publish 60000 " ID1), LONGER),
              "its end only moves away");
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID1), 1);
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID1), 0);
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID1 " " ID2), NO_SUCH_HOLD, "all or none");
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID2 " " ID2), NO_SUCH_HOLD, "none twice");
    cr_expect_eq(free_permits(&f), 2);
    cr_expect_eq(run_integer(&f, "permit_undo", PERMITS "0 publish p 0 " ID2 " " ID2), 1,
                 "one that is named twice comes back once");
    cr_expect_eq(run_integer(&f, "permit_undo", PERMITS "0 publish p 0 " ID1 " " ID2), 0);
    cr_expect_eq(free_permits(&f), 3);
    cr_expect_eq(run_integer(&f, "permit_extend", PERMITS "publish 60000 " ID1), NO_SUCH_HOLD);
    close_fixture(&f);
}

/* Of A and B, who wait, A has died. What C does then: a try that queues, a single one, and an undo that leaves nothing.
 */
Test(scripts_permits, who_finds_a_dead_place_in_front_of_a_fair_queue_tells_the_next, .timeout = 60)
{
    static const struct {
        const char *script, *words;
    } FINDS[] = {
        {"semaphore_take", "N ch g q s , 1 " MINUTE " publish C 15000"},
        {"semaphore_take", "N ch g q s , 1 " MINUTE " publish C 0"},
        {"semaphore_undo", "N ch g q s , 1 " MINUTE " publish C 0"},
        {"permit_take", "N t ch q s , 60000 publish C 15000 " ID1},
        {"permit_take", "N t ch q s , 60000 publish C 0 " ID1},
        {"permit_undo", "N t ch q s , 60000 publish C 0 " ID1},
    };
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for (size_t i = 0; i < sizeof FINDS / sizeof FINDS[0]; i++) {
        (void)probe_ask(f.probe, "DEL q s");
        (void)probe_ask(f.probe, "SET N 1");
        (void)probe_ask(f.probe, "ZADD q 1 A 2 B");
        (void)probe_ask(f.probe, "HSET s A 0 B 9999999999999");
        (void)run(&f, FINDS[i].script, FINDS[i].words);
        cr_expect_str_eq(heard(listener), "1", "%s", FINDS[i].words);
        cr_expect_eq(probe_int(f.probe, "ZRANK q B"), 0);
    }
    cr_expect(nothing_heard(&f, listener), "once is enough");
    probe_close(listener);
    close_fixture(&f);
}

/* ---- the latch -------------------------------------------------------------------------------------------------- */

Test(scripts_latch, counts_once_for_each_request_and_opens_once, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "latch_try_set", "N ch g1 , 2 " MINUTE), 1);
    cr_expect_str_eq(heard(listener), "1");
    cr_expect_eq(run_integer(&f, "latch_try_set", "N ch g2 , 7 " MINUTE), 0);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "latch_count_down", "N ch g3 , 1 " MINUTE), 1);
    cr_expect(nothing_heard(&f, listener));
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "latch_count_down", "N ch g4 , 1 " MINUTE), 0);
    cr_expect_str_eq(heard(listener), "0");
    cr_expect_eq(run_integer(&f, "latch_count_down", "N ch g5 , 1 " MINUTE), 0, "one too many changes nothing");
    cr_expect_eq(run_integer(&f, "latch_count_down", "N ch g3 , 1 " MINUTE), 1, "late: the answer is kept");
    cr_expect_eq(probe_int(f.probe, "EXISTS N"), 0);
    cr_expect(nothing_heard(&f, listener));
    probe_close(listener);
    close_fixture(&f);
}

/* ---- what is raced for ------------------------------------------------------------------------------------------ */

/* protocol.md, 5, rule 21: by that its client knows how many releases it is to let pass. */
Test(scripts, releases_of_what_is_raced_for_say_how_many_have_heard, .timeout = 60)
{
    static const char *const GIVEN[][4] = {
        {"SET N A", "simple_release", "N ch , A 0", "1"},
        {"HSET N mode write A:write 1", "write_release", "N ch , A:write 0", "1"},
        {"SET N 0", "semaphore_add", "N ch g , 1 " MINUTE, "0"},
        {"ZADD t 9999999999999 " ID1, "permit_release", PERMITS "publish " ID1, "1"},
    };
    struct fixture f = open_fixture();

    for (size_t i = 0; i < sizeof GIVEN / sizeof *GIVEN; i++) {
        struct probe *listeners[3];

        (void)probe_ask(f.probe, "%s", GIVEN[i][0]);
        cr_expect_eq(run_integer(&f, GIVEN[i][1], GIVEN[i][2]), atoi(GIVEN[i][3]), "%s: nobody", GIVEN[i][1]);
        (void)probe_ask(f.probe, "FLUSHALL");
        (void)probe_ask(f.probe, "%s", GIVEN[i][0]);
        for (int k = 0; k < 3; k++)
            listeners[k] = listen_to(&f, "SUBSCRIBE");
        cr_expect_eq(run_integer(&f, GIVEN[i][1], GIVEN[i][2]), 16 + 3, "%s", GIVEN[i][1]);
        for (int k = 0; k < 3; k++)
            probe_close(listeners[k]);
        (void)probe_ask(f.probe, "FLUSHALL");
    }
    close_fixture(&f);
}
