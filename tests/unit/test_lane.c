/* SPDX-License-Identifier: MIT */
/* test_lane.c - who reads and writes on a lane, what is repeated, and who goes on with what was given up. On what, see
 * laning.h. */
#include "tests/unit/laning.h"

#include <pthread.h>
#include <sched.h>

TestSuite(lane, .init = set_up, .fini = tear_down, .timeout = 30);

static enum rdl__outcome call(const struct rdl__req_ops *successor, enum rdl__successor_mode mode)
{
    return rdl__lane_call(lane, &mine.req, loop.now + RDL__SEC, successor, mode);
}

static enum rdl__outcome call_for(const char *replies)
{
    coming = replies;
    return call(NULL, RDL__SUCCESSOR_FOLLOWS);
}

/* The server's bytes come while the loop reads. */
static void loop_reads(const char *replies)
{
    struct rdl__conn *conn = &lane->live->conn;

    cr_assert_eq(conn->watch.events & RDL__READABLE, RDL__READABLE, "the loop does not watch");
    coming = replies;
    conn->ops->ready(conn, RDL__READABLE, loop.now);
    fake_loop_tasks(&loop);
}

/* ---- the reader's role ------------------------------------------------------------------------------------------ */

static void another_caller_comes(void)
{
    cr_assert_eq(lane->role, RDL__ROLE_CALLER);
    cr_assert_eq(lane->leader, &mine.req);
    rdl__mutex_lock(&lane->mu);
    rdl__lane_enqueue(lane, &other.req);
    rdl__lane_flush(lane, &other.req, loop.now);
    rdl__mutex_unlock(&lane->mu);
}

static void loop_submits(void)
{
    rdl__lane_submit(lane, &of_loop.req);
    fake_loop_tasks(&loop);
}

/* The other caller's thread is awake and leads. */
static void other_goes_on(const char *replies)
{
    struct rdl__fan fan = {.n = 1, .at = {{.lane = lane, .req = &other.req}}};

    atomic_fetch_add(&the_node.callers, 1);
    coming = replies;
    cr_assert_eq(rdl__fan_wait(&fan, loop.now + RDL__SEC), 0);
    cr_assert(rdl__fan_leave(&fan, 0, &undo, NULL));
}

static void caller_cancels(void)
{
    rdl__parker_post(&mine.req.park, RDL__POST_CANCEL);
}

Test(lane, caller_that_finds_nobody_reading_leads_and_leaves_nobody_reading)
{
    cr_assert_eq(lane->role, RDL__ROLE_NONE);
    cr_assert_eq(call_for(":7\r\n"), RDL__SETTLED);
    cr_assert_eq(mine.got, 7);
    cr_assert_str_eq(sent_since(), "MINE;");
    cr_assert_eq(lane->role, RDL__ROLE_NONE);
    cr_assert_null(lane->leader);
}

Test(lane, leader_reads_the_answers_of_others)
{
    meanwhile = another_caller_comes;
    cr_assert_eq(call_for(":1\r\n:2\r\n"), RDL__SETTLED);
    cr_assert_eq(other.got, 2);
    cr_assert_eq(rdl__parker_peek(&other.req.park), RDL__POST_SETTLED);
    cr_assert_eq(lane->role, RDL__ROLE_NONE);
}

Test(lane, leader_passes_its_role_to_the_caller_that_waits)
{
    meanwhile = another_caller_comes;
    cr_assert_eq(call_for(":1\r\n"), RDL__SETTLED);
    cr_assert_eq(rdl__parker_peek(&other.req.park), RDL__POST_LEAD);
    cr_assert_eq(lane->leader, &other.req);
    other_goes_on(":2\r\n");
    cr_assert_eq(other.got, 2);
    cr_assert_eq(lane->role, RDL__ROLE_NONE);
}

static void leader_has_its_answer(void)
{
    struct rdl__link wake;

    rdl__list_init(&wake);
    rdl__mutex_lock(&lane->mu);
    memcpy(lane->recv, ":2\r\n", 4);
    rdl__lane_leader_received(lane, 4, loop.now, &wake);
    rdl__lane_pass_role(lane);
    rdl__mutex_unlock(&lane->mu);
    rdl__lane_wake(&wake, NULL);
    coming = ":1\r\n";
}

/* The other caller's thread leads, and is in recv. */
static void other_reads(void)
{
    rdl__mutex_lock(&lane->mu);
    rdl__lane_enqueue(lane, &other.req);
    lane->role = RDL__ROLE_CALLER;
    lane->leader = &other.req;
    rdl__lane_flush(lane, &other.req, loop.now);
    lane->reading = true;
    rdl__mutex_unlock(&lane->mu);
}

/* A caller that sleeps all the same sleeps for ever: the clock stands still. */
Test(lane, caller_that_is_made_the_leader_while_it_writes_reads)
{
    other_reads();
    while_sending = leader_has_its_answer;
    cr_assert_eq(call(NULL, RDL__SUCCESSOR_FOLLOWS), RDL__SETTLED);
    cr_assert_eq(mine.got, 1);
    cr_assert_eq(other.got, 2);
    cr_assert_eq(lane->role, RDL__ROLE_NONE);
}

static struct ask detached, late;

/* `other` reads, a second request is under way, and one of those who were woken with the next caller has not come. */
static void other_reads_and_one_is_expected(void)
{
    other_reads();
    detached = make("DETACHED", &nobody_waits);
    rdl__lane_detach(lane, &detached.req);
    lane->expected = 2;
    lane->expected_by = loop.now + RDL__MS;
    cr_assert_str_eq(sent_since(), "OTHER;DETACHED;");
}

/* Another thread than the test's. */
static void *come_back(void *ask)
{
    cr_assert_eq(rdl__lane_call(lane, &((struct ask *)ask)->req, RDL__NEVER, NULL, RDL__SUCCESSOR_FOLLOWS),
                 RDL__SETTLED);
    return NULL;
}

static bool is_last(const struct rdl__link *list, const struct ask *ask)
{
    bool last;

    rdl__mutex_lock(&lane->mu);
    last = list->prev == &ask->req.link;
    rdl__mutex_unlock(&lane->mu);
    return last;
}

Test(lane, callers_who_were_woken_together_are_written_together)
{
    struct ask third = make("THIRD", &callers);
    struct rdl__link wake;
    pthread_t threads[2];

    other_reads_and_one_is_expected();
    cr_assert_eq(pthread_create(&threads[0], NULL, come_back, &mine), 0);
    while (!is_last(&lane->queued, &mine))
        (void)sched_yield();
    cr_assert_eq(sent_len, 0, "it does not wait for the other one");
    cr_assert_eq(pthread_create(&threads[1], NULL, come_back, &third), 0);
    while (!is_last(&lane->sent, &third))
        (void)sched_yield();
    cr_assert_str_eq(sent_since(), "MINE;THIRD;");
    rdl__list_init(&wake);
    rdl__mutex_lock(&lane->mu);
    memcpy(lane->recv, ":1\r\n:2\r\n:3\r\n:4\r\n", 16);
    rdl__lane_leader_received(lane, 16, loop.now, &wake);
    rdl__lane_pass_role(lane);
    rdl__mutex_unlock(&lane->mu);
    rdl__lane_wake(&wake, NULL);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    cr_assert_eq(mine.got, 3);
    cr_assert_eq(third.got, 4);
}

Test(lane, as_many_as_are_under_way_are_written_whoever_else_comes)
{
    struct ask before = make("BEFORE", &nobody_waits);

    other_reads_and_one_is_expected();
    rdl__mutex_lock(&lane->mu);
    rdl__lane_enqueue(lane, &before.req);
    rdl__mutex_unlock(&lane->mu);
    lane->expected = 3;
    while_sending = leader_has_its_answer;
    later = ":3\r\n:4\r\n";
    cr_assert_eq(call(NULL, RDL__SUCCESSOR_FOLLOWS), RDL__SETTLED);
    cr_assert_str_eq(sent_since(), "BEFORE;MINE;");
    cr_assert_eq(mine.got, 4);
}

Test(lane, caller_does_not_wait_for_others_that_are_late)
{
    other_reads_and_one_is_expected();
    lane->expected_by = loop.now;
    while_sending = leader_has_its_answer;
    later = ":3\r\n";
    cr_assert_eq(call(NULL, RDL__SUCCESSOR_FOLLOWS), RDL__SETTLED);
    cr_assert_eq(mine.got, 3);
}

Test(lane, those_whom_the_leader_wakes_are_expected_back)
{
    meanwhile = another_caller_comes;
    cr_assert_eq(call_for(":1\r\n:2\r\n"), RDL__SETTLED);
    cr_assert_eq(lane->expected, 1);
    cr_assert_gt(lane->expected_by, loop.now);
    cr_assert_eq(call_for(":3\r\n"), RDL__SETTLED);
    cr_assert_eq(lane->expected, 0, "somebody has come");
}

/* Most of them do not come back, and the one that does is not left unwritten for so long. */
enum { MANY = 200 };
static struct ask many[MANY];

static void many_callers_come(void)
{
    cr_assert_eq(lane->leader, &mine.req);
    rdl__mutex_lock(&lane->mu);
    for (int i = 0; i < MANY; i++) {
        many[i] = make("M", &callers);
        rdl__lane_enqueue(lane, &many[i].req);
    }
    rdl__lane_flush(lane, &many[MANY - 1].req, loop.now);
    rdl__mutex_unlock(&lane->mu);
}

Test(lane, many_whom_the_leader_wakes_are_not_waited_for_one_by_one)
{
    static char replies[4 * (MANY + 1) + 1];

    for (int i = 0; i <= MANY; i++)
        memcpy(replies + (size_t)4 * (size_t)i, ":1\r\n", 5);
    meanwhile = many_callers_come;
    cr_assert_eq(call_for(replies), RDL__SETTLED);
    cr_assert_eq(lane->expected, MANY);
    cr_assert_leq(lane->expected_by - loop.now, 2 * RDL__MS);
}

/* It would write what it finds, and those who are woken behind it would each write for themselves. */
static uint32_t told;

static void look_whether_the_next_leader_is_told(struct rdl__req *req)
{
    answered(req);
    told = rdl__parker_peek(&other.req.park);
}

static void one_that_nobody_waits_for_and_a_caller_come(void)
{
    rdl__lane_detach(lane, &detached.req);
    another_caller_comes();
}

Test(lane, next_leader_is_told_when_all_others_are_awake)
{
    static const struct rdl__req_ops looks = {
        .encode = encode, .decode = decode, .detached = look_whether_the_next_leader_is_told};

    detached = make("DETACHED", &looks);
    meanwhile = one_that_nobody_waits_for_and_a_caller_come;
    cr_assert_eq(call_for(":1\r\n:2\r\n"), RDL__SETTLED);
    cr_assert_eq(detached.done, 1);
    cr_assert_eq(told, 0);
    cr_assert_eq(rdl__parker_peek(&other.req.park), RDL__POST_LEAD);
    other_goes_on(":3\r\n");
}

static void detach_another(struct rdl__req *req)
{
    answered(req);
    rdl__lane_detach(lane, &late.req);
}

static struct ask unanswered[2];

static void some_that_nobody_waits_for_come(void)
{
    rdl__lane_detach(lane, &detached.req);
    for (int i = 0; i < 2; i++) {
        unanswered[i] = make("UNANSWERED", &nobody_waits);
        rdl__lane_detach(lane, &unanswered[i].req);
    }
}

Test(lane, what_is_detached_while_others_are_woken_is_not_left_to_the_loop)
{
    static const struct rdl__req_ops goes_on = {.encode = encode, .decode = decode, .detached = detach_another};

    detached = make("DETACHED", &goes_on);
    late = make("LATE", &nobody_waits);
    meanwhile = some_that_nobody_waits_for_come;
    cr_assert_eq(call_for(":1\r\n:2\r\n"), RDL__SETTLED);
    cr_assert_str_eq(sent_since(), "MINE;DETACHED;UNANSWERED;UNANSWERED;LATE;");
    cr_assert_eq(lane->role, RDL__ROLE_NONE);
    mine = make("MINE", &callers);
    cr_assert_eq(call_for(":3\r\n:4\r\n:5\r\n:6\r\n"), RDL__SETTLED);
    cr_assert_eq(late.done, 1);
}

Test(lane, leader_passes_its_role_to_the_loop_where_that_waits)
{
    meanwhile = loop_submits;
    cr_assert_eq(call_for(":1\r\n"), RDL__SETTLED);
    cr_assert_eq(lane->role, RDL__ROLE_LOOP);
    fake_loop_tasks(&loop);
    loop_reads(":2\r\n");
    cr_assert_eq(of_loop.got, 2);
    cr_assert_eq(of_loop.done, 1);
    cr_assert_eq(lane->role, RDL__ROLE_NONE, "the loop reads on, although nothing is awaited");
}

Test(lane, loop_hears_of_its_answer_that_a_leader_has_read)
{
    meanwhile = loop_submits;
    cr_assert_eq(call_for(":1\r\n:2\r\n"), RDL__SETTLED);
    cr_assert_eq(of_loop.done, 0);
    fake_loop_tasks(&loop);
    cr_assert_eq(of_loop.done, 1);
}

Test(lane, loop_stays_the_reader_of_a_lane_that_is_kept_up)
{
    lane = end(lane);
    lane = connected(true);
    rdl__lane_submit(lane, &of_loop.req);
    fake_loop_tasks(&loop);
    loop_reads(":3\r\n");
    cr_assert_eq(of_loop.got, 3);
    cr_assert_eq(lane->role, RDL__ROLE_LOOP);
}

Test(lane, leader_goes_on_with_what_did_not_fit_into_the_socket)
{
    room = 5;
    later = ":1\r\n";
    cr_assert_eq(call_for(""), RDL__SETTLED);
    cr_assert_str_eq(sent_since(), "MINE;");
    cr_assert_eq(lane->out.len, 0);
}

/* At once, and not when somebody looks whether it was answered. */
Test(lane, what_nobody_waits_for_and_did_not_fit_into_the_socket_is_the_loops)
{
    struct rdl__conn *conn = &lane->live->conn;

    detached = make("DETACHED", &nobody_waits);
    room = 5;
    rdl__lane_detach(lane, &detached.req);
    cr_assert_eq(lane->role, RDL__ROLE_LOOP);
    fake_loop_tasks(&loop);
    cr_assert_eq(conn->watch.events & RDL__WRITABLE, RDL__WRITABLE);
    room = sizeof sent;
    conn->ops->ready(conn, RDL__WRITABLE, loop.now);
    fake_loop_tasks(&loop);
    cr_assert_str_eq(sent_since(), "DETACHED;");
    cr_assert_eq(call_for(":1\r\n:2\r\n"), RDL__SETTLED);
    cr_assert_eq(detached.done, 1);
}

/* The server answers, but is always behind. */
Test(lane, what_is_sent_makes_room_though_there_is_always_more)
{
    static char name[1000];
    static struct ask asks[400];

    memset(name, 'x', sizeof name - 1);
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        asks[i] = make(name, &nobody_waits);
        room = i == 0 ? 5 : strlen("*1\r\n$999\r\n\r\n") + strlen(name);
        rdl__lane_detach(lane, &asks[i].req);
        cr_assert_eq(room, 0);
        cr_assert(rdl__lane_out_pending(lane));
        sent_len = 0;
    }
    cr_assert_lt(lane->out.cap, 8192);
}

/* ---- giving up -------------------------------------------------------------------------------------------------- */

Test(lane, answer_to_what_was_given_up_is_passed_over)
{
    cr_assert_eq(call_for(""), RDL__UNSURE);
    cr_assert_eq(lane->role, RDL__ROLE_LOOP, "the reply that is to come has no reader");
    rdl__lane_submit(lane, &of_loop.req);
    fake_loop_tasks(&loop);
    loop_reads(":1\r\n:2\r\n");
    cr_assert_eq(of_loop.got, 2);
    cr_assert_eq(mine.got, -1);
    cr_assert_eq(lane->role, RDL__ROLE_NONE);
}

Test(lane, successor_follows_what_was_sent)
{
    coming = "";
    cr_assert_eq(call(&undo, RDL__SUCCESSOR_FOLLOWS), RDL__UNSURE);
    fake_loop_tasks(&loop);
    cr_assert_str_eq(sent_since(), "MINE;UNDO MINE;");
    loop_reads(":1\r\n:2\r\n");
    cr_assert_eq(mine.got, 2);
    cr_assert_eq(mine.done, 1);
}

Test(lane, successor_replaces_what_was_sent)
{
    coming = "";
    cr_assert_eq(call(&undo, RDL__SUCCESSOR_REPLACES), RDL__UNSURE);
    fake_loop_tasks(&loop);
    cr_assert_str_eq(sent_since(), "MINE;");
    loop_reads(":1\r\n");
    cr_assert_eq(mine.got, 1);
    cr_assert_eq(mine.done, 1);
}

Test(lane, what_was_never_sent_has_no_successor_that_follows)
{
    lane = end(lane);
    lane = rdl__lane_new(&the_node, false);
    caller_cancels();
    cr_assert_eq(call(&undo, RDL__SUCCESSOR_FOLLOWS), RDL__UNSENT);
    fake_loop_tasks(&loop);
    cr_assert_null(fresh, "a connection is made for nothing");
    cr_assert_eq(mine.done, 0);
}

Test(lane, script_that_the_server_does_not_know_is_sent_with_its_text)
{
    later = ":1\r\n";
    cr_assert_eq(call_for("-NOSCRIPT no\r\n"), RDL__SETTLED);
    cr_assert_str_eq(sent_since(), "MINE;EVAL MINE;");
    cr_assert_eq(mine.got, 1);
}

/* ---- doubts ----------------------------------------------------------------------------------------------------- */

/* The leader finds the connection broken, and its caller wants to wait no longer. */
static void break_under_a_caller(void)
{
    coming = NULL;
    meanwhile = caller_cancels;
    cr_assert_eq(call(&undo, RDL__SUCCESSOR_REPLACES), RDL__UNSURE);
    cr_assert_eq(lane->role, RDL__ROLE_LOOP);
    cr_assert_null(lane->live);
    coming = "";
    fake_loop_tasks(&loop);
    cr_assert_str_eq(sent_since(), "MINE;");
}

Test(lane, what_was_in_doubt_is_repeated_behind_the_kill)
{
    break_under_a_caller();
    connect_now();
    cr_assert_str_eq(sent_since(), "CLIENT KILL ID 1 ADDR a:1;UNDO MINE;");
    cr_assert(mine.req.resent);
    loop_reads(":1\r\n:2\r\n");
    cr_assert_eq(mine.got, 2);
    cr_assert_eq(lane->role, RDL__ROLE_NONE);
    cr_assert(rdl__list_empty(&lane->severed));
}

Test(lane, kill_that_is_in_doubt_itself_is_made_anew)
{
    break_under_a_caller();
    connect_now();
    (void)sent_since();
    loop_reads(NULL);
    coming = "";
    connect_now();
    cr_assert_str_eq(sent_since(), "CLIENT KILL ID 1 ADDR a:1;CLIENT KILL ID 2 ADDR a:1;UNDO MINE;");
    loop_reads(":1\r\n:1\r\n:2\r\n");
    cr_assert_eq(mine.done, 1);
    cr_assert(rdl__list_empty(&lane->severed));
}

/* The oldest of them are left to what a server without KILL has: undos are repeated. */
Test(lane, kills_that_nobody_answers_do_not_pile_up)
{
    const char *said = "";
    int kills = 0;

    break_under_a_caller();
    for (int i = 0; i < 40; i++) {
        cr_assert_eq(atomic_load(&lane->node->kill_refused), i > 32);
        room = sizeof sent;
        connect_now();
        said = sent_since();
        loop_reads(NULL);
        coming = "";
    }
    while ((said = strstr(said, "KILL")) != NULL) {
        kills++;
        said++;
    }
    cr_assert_eq(kills, 32);
}

/* Failed over and back: an id means another client in each run, and what the first run was sent may still come there.
 */
Test(lane, what_a_former_run_was_sent_is_killed_when_that_run_is_back)
{
    static const char successor[] = "successor";

    break_under_a_caller();
    run_id = successor;
    connect_now();
    cr_assert_str_eq(sent_since(), "UNDO MINE;");
    loop_reads(":2\r\n");
    rdl__lane_submit(lane, &of_loop.req);
    fake_loop_tasks(&loop);
    loop_reads(NULL);
    coming = "";
    (void)sent_since();
    run_id = RUN_ID;
    connect_now();
    cr_assert_str_eq(sent_since(), "CLIENT KILL ID 1 ADDR a:1;LOOPS;");
    loop_reads(":1\r\n:3\r\n");
    cr_assert_eq(of_loop.done, 1);
    cr_assert_eq(rdl__list_empty(&lane->severed), false); /* the successor's */
}

Test(lane, connection_that_broke_with_nothing_unanswered_is_not_killed)
{
    cr_assert_eq(call_for(":1\r\n"), RDL__SETTLED);
    rdl__lane_on_demand(lane, true, loop.now);
    cr_assert_null(lane->live);
    rdl__lane_submit(lane, &of_loop.req);
    fake_loop_tasks(&loop);
    (void)sent_since();
    connect_now();
    cr_assert_str_eq(sent_since(), "LOOPS;");
}

static void broken_while_writing(void)
{
    lane->writing = true; /* another thread is in the writing loop */
}

Test(lane, no_connection_is_begun_while_a_thread_may_still_write_to_the_broken_one)
{
    coming = NULL;
    meanwhile = broken_while_writing;
    caller_cancels();
    cr_assert_eq(call(&undo, RDL__SUCCESSOR_REPLACES), RDL__UNSURE);
    fake_loop_tasks(&loop);
    cr_assert_null(fresh);
    lane->writing = false;
    rdl__loop_post(&loop, &lane->attend);
    coming = "";
    fake_loop_tasks(&loop);
    connect_now();
}

Test(lane, server_that_is_silent_for_twice_the_command_timeout_is_given_up)
{
    rdl__lane_submit(lane, &of_loop.req);
    fake_loop_run(&loop, loop.now + 5999 * RDL__MS);
    cr_assert_not_null(lane->live);
    fake_loop_run(&loop, loop.now + RDL__MS);
    cr_assert_null(lane->live);
    cr_assert_eq(of_loop.req.state, RDL__REQ_QUEUED);
}

Test(lane, server_that_answers_others_is_not_silent)
{
    static struct ask second;

    second = make("SECOND", &loops);
    rdl__lane_submit(lane, &of_loop.req);
    rdl__lane_submit(lane, &second.req);
    fake_loop_run(&loop, loop.now + 4000 * RDL__MS);
    loop_reads(":1\r\n");
    fake_loop_run(&loop, loop.now + 5999 * RDL__MS);
    cr_assert_not_null(lane->live);
    fake_loop_run(&loop, loop.now + RDL__MS);
    cr_assert_null(lane->live);
    cr_assert_eq(second.req.state, RDL__REQ_QUEUED);
}

Test(lane, server_that_waits_for_its_replicas_may_be_silent_for_longer)
{
    static const struct rdl__req_ops waits = {.encode = encode, .decode = decode, .done = done, .more = 1};
    static struct ask ask;

    ask = make("WAITS", &waits);
    rdl__lane_submit(lane, &ask.req);
    fake_loop_run(&loop, loop.now + 7199 * RDL__MS);
    cr_assert_not_null(lane->live);
    fake_loop_run(&loop, loop.now + RDL__MS);
    cr_assert_null(lane->live);
}

/* Who has asked first has given up meanwhile, and what was asked since has not waited for as long. */
Test(lane, server_that_has_not_answered_what_was_given_up_is_silent)
{
    int64_t began = loop.now;

    meanwhile = caller_cancels;
    cr_assert_eq(call(NULL, RDL__SUCCESSOR_FOLLOWS), RDL__UNSURE);
    fake_loop_run(&loop, began + 3000 * RDL__MS);
    rdl__lane_submit(lane, &of_loop.req);
    fake_loop_run(&loop, began + 5999 * RDL__MS);
    cr_assert_not_null(lane->live);
    fake_loop_run(&loop, began + 6000 * RDL__MS);
    cr_assert_null(lane->live);
    cr_assert_eq(of_loop.req.state, RDL__REQ_QUEUED);
}

/* The loop has stood in a callback, and its clock is from before that. */
Test(lane, request_that_is_sent_behind_a_long_callback_has_its_time)
{
    int64_t before = loop.now;

    loop.now += 10 * RDL__SEC;
    rdl__lane_submit(lane, &of_loop.req);
    rdl__lane_reroute(lane, before);
    fake_loop_run(&loop, loop.now + 5999 * RDL__MS);
    cr_assert_not_null(lane->live);
    fake_loop_run(&loop, loop.now + RDL__MS);
    cr_assert_null(lane->live);
}

/* What is asked next is answered behind the WAIT. */
Test(lane, server_that_waits_for_what_was_given_up_may_be_silent_for_longer)
{
    static const struct rdl__req_ops waits = {.encode = encode, .decode = decode, .more = 1};
    int64_t began = loop.now;

    mine = make("WAITS", &waits);
    meanwhile = caller_cancels;
    cr_assert_eq(call(NULL, RDL__SUCCESSOR_FOLLOWS), RDL__UNSURE);
    rdl__lane_submit(lane, &of_loop.req);
    fake_loop_tasks(&loop);
    cr_assert_gt(of_loop.req.skip, 0);
    fake_loop_run(&loop, began + 7199 * RDL__MS);
    cr_assert_not_null(lane->live);
    fake_loop_run(&loop, began + 7200 * RDL__MS);
    cr_assert_null(lane->live);
}

Test(lane, answer_that_came_while_the_loop_stood_still_is_read)
{
    rdl__lane_submit(lane, &of_loop.req);
    fake_loop_tasks(&loop);
    coming = ":1\r\n";
    fake_loop_run(&loop, loop.now + 6000 * RDL__MS);
    cr_assert_eq(of_loop.got, 1);
    cr_assert_not_null(lane->live);
}

Test(lane, answer_that_came_while_the_leader_stood_still_is_read)
{
    coming = "";
    later = ":1\r\n";
    cr_assert_eq(rdl__lane_call(lane, &mine.req, loop.now + 60 * RDL__SEC, NULL, RDL__SUCCESSOR_FOLLOWS), RDL__SETTLED);
    cr_assert_eq(mine.got, 1);
    cr_assert_not_null(lane->live);
}

Test(lane, answer_that_came_while_the_leader_stood_still_past_its_time_is_read)
{
    coming = "";
    later = ":1\r\n";
    cr_assert_eq(call(&undo, RDL__SUCCESSOR_FOLLOWS), RDL__SETTLED);
    cr_assert_eq(mine.got, 1);
}

static bool down(void)
{
    bool down;

    rdl__mutex_lock(&lane->mu);
    down = lane->live == NULL;
    rdl__mutex_unlock(&lane->mu);
    return down;
}

Test(lane, leader_gives_up_a_server_that_is_silent_for_as_long)
{
    int64_t began = loop.now;
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, come_back, &mine), 0);
    while (!down())
        (void)sched_yield();
    cr_assert_eq(loop.now - began, 6 * RDL__SEC);
    fake_loop_tasks(&loop);
    connect_now();
    loop_reads(":1\r\n:2\r\n");
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(mine.got, 2, "it is repeated behind the KILL");
}

/* ---- fans ------------------------------------------------------------------------------------------------------- */

static void on_left(struct rdl__task *task, int64_t now)
{
    (void)task, (void)now;
}

Test(lane, fan_leads_each_of_its_lanes_until_all_have_left)
{
    struct rdl__fan fan = {0};

    other_lane = connected(false);
    cr_assert(rdl__fan_send(&fan, lane, &mine.req));
    cr_assert(rdl__fan_send(&fan, other_lane, &other.req));
    coming = ":1\r\n";
    while (fan.n > 0) {
        int i = rdl__fan_wait(&fan, loop.now + RDL__SEC);

        cr_assert_geq(i, 0);
        cr_assert(rdl__fan_leave(&fan, (unsigned)i, &undo, NULL));
        coming = ":1\r\n";
    }
    cr_assert_eq(mine.got, 1);
    cr_assert_eq(other.got, 1);
    cr_assert_eq(lane->role, RDL__ROLE_NONE);
    cr_assert_eq(other_lane->role, RDL__ROLE_NONE);
}

Test(lane, fan_does_not_send_where_the_loop_reads)
{
    struct rdl__fan fan = {0};

    rdl__lane_submit(lane, &of_loop.req);
    fake_loop_tasks(&loop);
    cr_assert_not(rdl__fan_send(&fan, lane, &mine.req));
    cr_assert_eq(fan.n, 0);
    loop_reads(":1\r\n");
    cr_assert(rdl__fan_send(&fan, lane, &mine.req));
    coming = ":1\r\n";
    cr_assert_eq(rdl__fan_wait(&fan, loop.now + RDL__SEC), 0);
    cr_assert(rdl__fan_leave(&fan, 0, &undo, NULL));
}

Test(lane, what_a_fan_leaves_unanswered_is_the_loops)
{
    struct rdl__fan fan = {0};
    struct rdl__task task;

    rdl__task_init(&task, on_left);
    cr_assert(rdl__fan_send(&fan, lane, &mine.req));
    coming = "";
    cr_assert_eq(rdl__fan_wait(&fan, loop.now + RDL__SEC), -1);
    cr_assert_not(rdl__fan_leave(&fan, 0, &loops, &task));
    cr_assert_eq(lane->role, RDL__ROLE_LOOP);
    fake_loop_tasks(&loop);
    loop_reads(":4\r\n");
    cr_assert_eq(mine.got, 4);
    cr_assert_eq(mine.done, 1);
}
