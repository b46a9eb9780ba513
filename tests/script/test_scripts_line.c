/* SPDX-License-Identifier: MIT */
/* test_scripts_line.c - the clients that stand in line beside a lock, and whom its release wakes (wire.md, Line). */
#include "tests/script/call.h"

#define FIELD(u) u ":1000000000000001"

/* That number of the answer to a try that is refused: the time to live, how it is to listen, when to look. */
static int64_t refusal(struct fixture *f, const char *words, size_t at)
{
    const struct reply *r = run(f, "reentrant_take", words);

    cr_assert(r->kind == REPLY_ARRAY && at < r->count, "%s", words);
    return r->items[at].integer;
}

/* The line (wire.md, Line): who is refused enters, who is granted leaves, a release wakes the first that hears. */
Test(scripts_line, Q7_release_wakes_the_first_in_line_that_hears_it_and_tells_the_second_to_look, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *b = probe_open(f.server), *c = probe_open(f.server), *all = probe_open(f.server);

    (void)probe_ask(b, "SUBSCRIBE ch:{B}");
    (void)probe_ask(c, "SUBSCRIBE ch:{C}");
    (void)probe_ask(all, "SUBSCRIBE ch");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000"), -10);
    (void)run(&f, "reentrant_take", "N ch , " FIELD("dead") " 1 60000 0 again");
    cr_expect_gt(refusal(&f, "N ch , " FIELD("B") " 1 60000 0 again", 0), 0);
    cr_expect_eq(refusal(&f, "N ch , " FIELD("C") " 1 60000 0 again", 2), 1500, "the third of them looks sooner");
    cr_expect_eq(probe_int(f.probe, "HGET ch count"), 3);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0"), 3);
    cr_expect_str_eq(heard(b), "0");
    cr_expect_str_eq(heard(c), "3");
    cr_expect_str_eq(heard(all), "2");
    cr_expect_str_eq(heard(all), "0");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("A") " 1 60000 0 yield"), 100, "it gives way");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again"), -10);
    cr_expect_eq(probe_int(f.probe, "HGET ch count"), 2, "C and A");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("C") " 0 publish leave"), -14);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0 publish leave"), -14);
    cr_expect_eq(probe_int(f.probe, "EXISTS ch"), 0, "nobody stands there");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0"), 1);
    probe_close(all);
    probe_close(c);
    probe_close(b);
    close_fixture(&f);
}

/* The only one in line costs its release no write: it stands there until it tries, and is given way to, and told again.
 */
Test(scripts_line, Q7_the_only_one_in_line_stands_there_until_it_tries, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *b = probe_open(f.server);

    (void)probe_ask(b, "SUBSCRIBE ch:{B}");
    (void)run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000");
    (void)run(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0"), 3);
    cr_expect_str_eq(heard(b), "0");
    cr_expect_eq(probe_int(f.probe, "HGET ch count"), 1);
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("A") " 1 60000 0 yield"), 100, "it gives way");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again"), -10);
    cr_expect_eq(probe_int(f.probe, "HGET ch count"), 1, "A");
    cr_expect_str_eq(probe_text(f.probe, "HGET ch %" PRId64, probe_int(f.probe, "HGET ch head")), "A");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("B") " 2 60000 0 yield"), -11);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0 publish leave"), -14);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0"), 1);
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 yield"), -10, "to nobody");
    probe_close(b);
    close_fixture(&f);
}

/* Who stands in line, hears and never tries is given way to once, and not each time by those that go on without it. */
Test(scripts_line, Q7_who_is_woken_and_never_tries_is_given_way_to_once, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *all = probe_open(f.server);
    int given = 0;

    (void)probe_ask(all, "PSUBSCRIBE ch:*");
    (void)run_integer(&f, "reentrant_take", "N , " FIELD("B") " 1 60000");
    (void)run(&f, "reentrant_take", "N ch , " FIELD("A") " 1 60000 0 again");
    for (int i = 0; i < 4; i++) { /* A alone hears, and never tries; B comes back each time */
        bool yields = run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0") == 3;

        if (run_integer(&f, "reentrant_take",
                        yields ? "N ch , " FIELD("B") " 1 60000 0 yield" : "N , " FIELD("B") " 1 60000") == -10)
            continue;
        given++;
        cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again"), -10);
    }
    cr_expect_eq(given, 1);
    (void)probe_int(f.probe, "DEL N");
    (void)probe_int(f.probe, "DEL ch");
    (void)run_integer(&f, "reentrant_take", "N , " FIELD("B") " 1 60000");
    (void)run(&f, "reentrant_take", "N ch , " FIELD("A") " 1 60000 0 again");
    (void)run(&f, "reentrant_take", "N ch , " FIELD("D") " 1 60000 0 again");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0"), 3, "A, before D, and it never tries");
    (void)probe_int(f.probe, "HDEL ch ear");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("D") " 1 60000 0 again"), -10);
    (void)run(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("D") " 0"), 3);
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again"), -10);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0"), 1);
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("D") " 1 60000 0 yield"), -10, "B has had it");
    probe_close(all);
    close_fixture(&f);
}

/* Beside somebody who is not of the line each so many releases let those come first. */
Test(scripts_line, Q7_others_than_those_in_line_have_their_turns, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *b = probe_open(f.server), *c = probe_open(f.server), *old[2];
    int turns[2] = {0};

    (void)probe_ask(b, "SUBSCRIBE ch:{B}");
    (void)probe_ask(c, "SUBSCRIBE ch:{C}");
    for (int i = 0; i < 2; i++) {
        old[i] = probe_open(f.server);
        (void)probe_ask(old[i], "SUBSCRIBE ch");
    }
    /* One turn of three is the others', and the server's clock says which: the line, which is the same each time, not.
     */
    for (int tries = 0; turns[0] == 0 || turns[1] == 0; tries++) {
        const char *told;

        cr_assert_lt(tries, 1000, "%d and %d", turns[0], turns[1]);
        (void)probe_int(f.probe, "DEL N ch");
        cr_expect_eq(run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000"), -10);
        (void)run(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again");
        (void)run(&f, "reentrant_take", "N ch , " FIELD("C") " 1 60000 0 again");
        cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0"), 3, "one of them is of the line");
        told = heard(b);
        cr_assert(strcmp(told, "0") == 0 || strcmp(told, "4") == 0);
        turns[told[0] == '4']++;
        cr_expect_str_eq(heard(c), "3");
    }
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again"), -10);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0"), 1, "it need not give way to two");
    (void)heard(c);
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("C") " 1 60000 0 again"), -10);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("C") " 0"), 4, "nobody stands in line");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("C") " 1 60000 0 turn"), 4, "so it gives way");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("C") " 1 60000 0 again"), -10);
    for (int i = 0; i < 2; i++)
        probe_close(old[i]);
    probe_close(c);
    probe_close(b);
    close_fixture(&f);
}

/* Whoever may not read the line is told so, by a refusal and by the release of a client that goes on to wait. */
Test(scripts_line, Q7_who_may_not_enter_the_line_is_told_to_listen_to_every_release_and_to_try, .timeout = 60)
{
    struct fixture f = open_fixture(), limited = f;

    limited.probe = probe_open(f.server);
    (void)probe_ask(f.probe, "ACL SETUSER l on nopass ~* &* +@all -hmget");
    (void)probe_ask(limited.probe, "AUTH l x");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000"), -10);
    cr_expect_eq(refusal(&limited, "N ch , " FIELD("B") " 1 60000 0 again", 1), 3);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0"), 1);
    cr_expect_eq(run_integer(&limited, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again"), -10);
    cr_expect_eq(run_integer(&limited, "reentrant_release", "N ch , " FIELD("B") " 0 publish stay"), 6);
    probe_close(limited.probe);
    close_fixture(&f);
}

/* Where several stand, and nobody listens beside them. Who stands there so looks by itself. */
Test(scripts_line, Q7_who_is_likely_to_come_back_at_once_enters_with_its_release, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *a = probe_open(f.server), *b = probe_open(f.server), *c = probe_open(f.server), *all;
    int64_t place;

    (void)probe_ask(a, "SUBSCRIBE ch:{A}");
    (void)probe_ask(b, "SUBSCRIBE ch:{B}");
    (void)probe_ask(c, "SUBSCRIBE ch:{C}");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000"), -10);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0 publish back"), 1, "nobody waits");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0 publish back"), -14);
    cr_expect_eq(probe_int(f.probe, "EXISTS ch"), 0);
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000"), -10);
    (void)run(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0 publish back"), 3, "one waits");
    cr_expect_str_eq(heard(b), "0");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000"), -10);
    (void)run(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again");
    (void)run(&f, "reentrant_take", "N ch , " FIELD("C") " 1 60000 0 again");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0 publish back"), 5, "two do");
    cr_expect_eq(probe_int(f.probe, "HGET ch count"), 2, "C and A");
    cr_expect_str_eq(heard(b), "0");
    place = probe_int(f.probe, "HGET ch A");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000"), -10, "another thread of A's");
    (void)run(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0 publish back"), 5);
    cr_expect_eq(probe_int(f.probe, "HGET ch A"), place, "it stands there already");
    cr_expect_eq(probe_int(f.probe, "HGET ch count"), 2);
    cr_expect_str_eq(heard(b), "0");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again"), -10);
    all = probe_open(f.server);
    (void)probe_ask(all, "SUBSCRIBE ch");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0 publish back"), 3,
                 "others may be slower");
    cr_expect_str_neq(heard(c), "3", "it was not told to look before");
    cr_expect_str_eq(heard(a), "3");
    cr_expect_eq(probe_int(f.probe, "HGET ch count"), 1, "A");
    probe_close(all);
    probe_close(c);
    probe_close(b);
    probe_close(a);
    close_fixture(&f);
}

Test(scripts_line, Q7_who_is_woken_and_refused_stands_before_all_others, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *b = probe_open(f.server), *c = probe_open(f.server);

    (void)probe_ask(b, "SUBSCRIBE ch:{B}");
    (void)probe_ask(c, "SUBSCRIBE ch:{C}");
    (void)run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000");
    (void)run(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again");
    (void)run(&f, "reentrant_take", "N ch , " FIELD("C") " 1 60000 0 again");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0"), 3);
    cr_expect_str_eq(heard(b), "0");
    cr_expect_str_eq(heard(c), "3");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , " FIELD("D") " 1 60000"), -10);
    cr_expect_gt(refusal(&f, "N ch , " FIELD("B") " 1 60000 0 again", 0), 0);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("D") " 0"), 3);
    cr_expect_str_eq(heard(b), "0");
    probe_close(c);
    probe_close(b);
    close_fixture(&f);
}

/* Who is woken stands there no more, though its fields are there until it tries; or another is woken after it. */
Test(scripts_line, Q7_who_is_woken_leaves_no_field_when_it_tries_or_never_does, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *all = probe_open(f.server);

    (void)probe_ask(all, "PSUBSCRIBE ch:*");
    for (int tries = 0; tries < 2; tries++) {
        (void)run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000");
        (void)run(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again");
        (void)run(&f, "reentrant_take", "N ch , " FIELD("C") " 1 60000 0 again");
        for (int i = 0; i < 2; i++) { /* B is woken, and before it tries, another has had the lock, and C is woken */
            (void)run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000");
            (void)run(&f, "reentrant_take", "N ch , " FIELD("D") " 1 60000 0 again");
            cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0"), 3);
        }
        if (tries > 0)
            cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("C") " 1 60000 0 again"), -10);
        cr_expect_eq(probe_int(f.probe, "HEXISTS ch C"), tries == 0);
        cr_expect_eq(probe_int(f.probe, "HLEN ch"), tries == 0 ? 8 : 5,
                     "head, tail, count; place and client of D; and woken, place and client of C, until it tries");
        cr_expect_eq(probe_int(f.probe, "HGET ch count"), 1);
        (void)probe_int(f.probe, "DEL N");
        (void)probe_int(f.probe, "DEL ch");
    }
    probe_close(all);
    close_fixture(&f);
}

/* Java's release tells nobody in line, so who is refused by Java listens on the lock's channel; and who leaves beside
 * it, or beside a free lock, wakes the next one. */
Test(scripts_line, Q7_who_leaves_hands_on_what_nobody_else_will, .timeout = 60)
{
    static const struct {
        const char *holder;
        bool handed_on;
    } cases[] = {{NULL, true}, {"J:7", true}, {FIELD("A"), false}};
    struct fixture f = open_fixture();
    struct probe *c = probe_open(f.server);

    (void)probe_ask(c, "SUBSCRIBE ch:{C}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct reply *refusal;

        (void)probe_int(f.probe, "HSET N J:7 1");
        refusal = run(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again");
        cr_expect(refusal->kind == REPLY_ARRAY && refusal->count == 2, "it is to listen on the lock's channel");
        (void)run(&f, "reentrant_take", "N ch , " FIELD("C") " 1 60000 0 again");
        (void)probe_int(f.probe, "DEL N");
        if (cases[i].holder != NULL)
            (void)probe_int(f.probe, "HSET N %s 1", cases[i].holder);
        cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0 publish leave"), -14);
        cr_expect_eq(probe_int(f.probe, "HEXISTS N " FIELD("A") ":wanted"), !cases[i].handed_on);
        if (cases[i].handed_on)
            cr_expect_str_eq(heard(c), "0");
        (void)probe_int(f.probe, "DEL N");
        (void)probe_int(f.probe, "DEL ch");
    }
    probe_close(c);
    close_fixture(&f);
}

/* Who frees the lock and reads no line, as Java's forced unlock, is heard by one of them: the first that stands there
 * still after a while. Who takes its place looks. */
Test(scripts_line, Q7_one_in_line_listens_for_all, .timeout = 60)
{
    static const char AGAIN[] = "N ch , " FIELD("B") " 1 60000 0 again";
    struct fixture f = open_fixture();
    struct probe *c = probe_open(f.server);

    (void)probe_ask(c, "SUBSCRIBE ch:{C}");
    (void)run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000");
    cr_expect_eq(refusal(&f, AGAIN, 2), 100, "it is to look");
    cr_expect_eq(refusal(&f, "N ch , " FIELD("C") " 1 60000 0 again", 2), 0, "one is to");
    cr_expect_eq(refusal(&f, AGAIN, 1), 2);
    cr_expect_eq(refusal(&f, "N ch , " FIELD("C") " 1 60000 0 again", 1), 0);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0 publish leave"), -14);
    cr_expect_str_eq(heard(c), "3");
    cr_expect_eq(refusal(&f, "N ch , " FIELD("C") " 1 60000 0 again", 1), 2);
    cr_expect_eq(refusal(&f, AGAIN, 1), 0, "and nobody else");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0"), 3);
    cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("C") " 1 60000 0 again"), -10);
    cr_expect_eq(probe_int(f.probe, "HEXISTS ch ear"), 0);
    probe_close(c);
    close_fixture(&f);
}

/* The one that listens for all does so while it has the lock, too, if other calls of it wait: it is none of the others
 * whose turns a release counts. */
Test(scripts_line, Q7_who_listens_for_all_stays_that_with_the_lock_and_is_none_of_the_others, .timeout = 60)
{
    static const char AGAIN[] = "N ch , " FIELD("B") " 1 60000 0 again";
    static const char AMONG[] = "N ch , " FIELD("B") " 1 60000 0 again 1";
    struct fixture f = open_fixture();
    struct probe *b = probe_open(f.server), *ear = probe_open(f.server);

    (void)probe_ask(b, "SUBSCRIBE ch:{B}");
    (void)probe_ask(ear, "SUBSCRIBE ch");
    (void)run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000");
    cr_expect_eq(refusal(&f, AGAIN, 1), 0);
    cr_expect_eq(refusal(&f, AGAIN, 1), 2, "it is the one");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0"), 3);
    cr_expect_str_eq(heard(b), "0");
    for (int i = 0; i < 20; i++) { /* with another that listens, each second one says `4`, by the server's clock */
        cr_expect_eq(run_integer(&f, "reentrant_take", AMONG), -10);
        cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0 publish stay"), 3);
        cr_expect_str_eq(heard(b), "0", "nobody else listens");
    }
    cr_expect_eq(run_integer(&f, "reentrant_take", AGAIN), -10);
    cr_expect_eq(probe_int(f.probe, "EXISTS ch"), 0, "the last of its calls has the lock");
    (void)run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0");
    (void)run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000");
    (void)run(&f, "reentrant_take", AGAIN);
    (void)run(&f, "reentrant_take", AGAIN);
    (void)run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0");
    cr_expect_eq(run_integer(&f, "reentrant_take", AMONG), -10);
    (void)refusal(&f, "N ch , " FIELD("C") " 1 60000 0 again", 0);
    (void)run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0");
    cr_expect_eq(probe_int(f.probe, "HEXISTS ch ear"), 0, "its calls have given up meanwhile");
    probe_close(ear);
    probe_close(b);
    close_fixture(&f);
}

/* Those that waited beside its grant have given up, and its release knows that. One that has come since stands there
 * still. */
Test(scripts_line, Q7_release_takes_away_the_ear_that_nobody_needs_and_no_place, .timeout = 60)
{
    static const char AGAIN[] = "N ch , " FIELD("B") " 1 60000 0 again";
    struct fixture f = open_fixture();
    struct probe *b = probe_open(f.server);

    (void)probe_ask(b, "SUBSCRIBE ch:{B}");
    for (int since = 0; since < 2; since++) {
        (void)run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000");
        (void)run(&f, "reentrant_take", AGAIN);
        cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0"), 3);
        cr_expect_str_eq(heard(b), "0");
        cr_expect_eq(run_integer(&f, "reentrant_take", "N ch , " FIELD("B") " 1 60000 0 again 1"), -10);
        cr_expect_str_eq(probe_text(f.probe, "HGET ch ear"), "B");
        if (since > 0)
            (void)run(&f, "reentrant_take", "N ch , B:1000000000000002 1 60000 0 again");
        cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0 publish read"), since > 0 ? 3 : 1);
        cr_expect_eq(probe_int(f.probe, "HEXISTS ch ear"), since);
    }
    cr_expect_str_eq(heard(b), "0");
    cr_expect_str_eq(probe_text(f.probe, "HGET ch count"), "1");
    probe_close(b);
    close_fixture(&f);
}

static void stand_or_leave(struct fixture *f, const char *client, bool leaves)
{
    char *words = must_format("N ch , %s:1000000000000001 %s", client, leaves ? "0 publish leave" : "1 60000 0 again");

    (void)run(f, leaves ? "reentrant_release" : "reentrant_take", words);
    free(words);
}

/* While one stands, others may come and go for ever: what a release has to pass over stays short, and the order. */
Test(scripts_line, Q7_those_who_come_and_go_leave_no_long_gap_behind_one_who_stands, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *b = probe_open(f.server), *c = probe_open(f.server);

    (void)probe_ask(b, "SUBSCRIBE ch:{B}");
    (void)probe_ask(c, "SUBSCRIBE ch:{C}");
    (void)run_integer(&f, "reentrant_take", "N , " FIELD("A") " 1 60000");
    stand_or_leave(&f, "B", false);
    for (int i = 0; i < 300; i++) { /* one more has always come before the last one goes */
        stand_or_leave(&f, i % 2 ? "odd" : "even", false);
        if (i == 60)
            stand_or_leave(&f, "C", false);
        if (i > 0)
            stand_or_leave(&f, i % 2 ? "even" : "odd", true);
    }
    cr_expect_eq(probe_int(f.probe, "HLEN ch"), 10,
                 "head, tail, count, ear, and of each of three a place and a client");
    cr_expect_leq(probe_int(f.probe, "HGET ch tail") - probe_int(f.probe, "HGET ch head"), 80);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0"), 3);
    cr_expect_str_eq(heard(b), "0");
    cr_expect_str_eq(heard(c), "3");
    probe_close(c);
    probe_close(b);
    close_fixture(&f);
}

static void expect_wanted(struct fixture *f, const char *field, bool wanted)
{
    cr_expect_eq(probe_int(f->probe, "HEXISTS N %s:wanted", field), wanted, "%s", field);
}

/* A release reads the line if the hold is marked: by a try that is refused because of it, and by a grant that leaves
 * others in line. The mark goes with its own hold. */
Test(scripts_line, Q7_hold_that_others_stand_in_line_for_is_marked, .timeout = 60)
{
    static const char *const TAKES[][2] = {{"reentrant_take", "N"}, {"fenced_take", "N token"}};

    for (size_t i = 0; i < 2; i++) {
        struct fixture f = open_fixture();
        struct probe *b = probe_open(f.server), *c = probe_open(f.server);
        char *first = must_format("%s , " FIELD("A") " 1 60000", TAKES[i][1]);
        char *again[] = {must_format("%s ch , " FIELD("B") " 1 60000 0 again", TAKES[i][1]),
                         must_format("%s ch , " FIELD("C") " 1 60000 0 again", TAKES[i][1])};

        (void)probe_ask(b, "SUBSCRIBE ch:{B}");
        (void)probe_ask(c, "SUBSCRIBE ch:{C}");
        cr_expect_lt(run_integer(&f, TAKES[i][0], first), 0);
        expect_wanted(&f, FIELD("A"), false);
        cr_expect_gt(run(&f, TAKES[i][0], again[0])->items[0].integer, 0);
        cr_expect_gt(run(&f, TAKES[i][0], again[1])->items[0].integer, 0);
        expect_wanted(&f, FIELD("A"), true);
        cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("D") " 0"), -14);
        expect_wanted(&f, FIELD("A"), true);
        cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("A") " 0"), 3);
        cr_expect_eq(probe_int(f.probe, "EXISTS N"), 0);
        cr_expect_str_eq(heard(b), "0");
        cr_expect_str_eq(heard(c), "3");
        cr_expect_lt(run_integer(&f, TAKES[i][0], again[0]), 0);
        expect_wanted(&f, FIELD("B"), true);
        cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("B") " 0"), 3);
        cr_expect_str_eq(heard(c), "0");
        cr_expect_lt(run_integer(&f, TAKES[i][0], again[1]), 0);
        expect_wanted(&f, FIELD("C"), false);
        cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , " FIELD("C") " 0"), 1);
        cr_expect_eq(probe_int(f.probe, "EXISTS N ch"), 0);
        free(first);
        free(again[0]);
        free(again[1]);
        probe_close(c);
        probe_close(b);
        close_fixture(&f);
    }
}
