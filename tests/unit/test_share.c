/* SPDX-License-Identifier: MIT */
/* test_share.c - how many releases a client lets pass since it has had what all race for (protocol.md, 5, rule 21).
 *
 * The client is a real one, and lazy: nobody is there, and nothing is sent. The tests do what a server's answers do.
 */
#include "core/call/share.h"
#include "core/call/verb.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>

#define NOW RDL__SEC

static rdl_client_t *client;
static rdl_lock_t *lock;
static struct rdl__call call;

static struct question {
    struct rdl__task task;
    int64_t free, now, ns;
    sem_t answered;
} question;

static void of(int (*constructor)(rdl_client_t *, const char *, const rdl_lock_options_t *, rdl_lock_t **, rdl_err_t *))
{
    cr_assert_eq(constructor(client, "N", NULL, &lock, NULL), RDL_OK);
    call = (struct rdl__call){.verb = &rdl__verb_release, .ops = lock->ops};
    call.op.lock = lock;
    call.deadline = RDL__NEVER;
}

static void set_up(void)
{
    rdl_client_options_t options = {.version = RDL_CLIENT_OPTIONS_VERSION, .lazy = true, .close_timeout_ms = 50};

    cr_assert_eq(sem_init(&question.answered, 0, 0), 0);
    cr_assert_eq(rdl_client_open("redis://127.0.0.1:1", &options, &client, NULL), RDL_OK);
}

static void tear_down(void)
{
    rdl_lock_free(lock);
    client = rdl_client_close(client);
}

TestSuite(share, .init = set_up, .fini = tear_down, .timeout = 60);

/* It is given back, which so many hear; and had again. */
static void has_had_it(int heard)
{
    call.answer = heard == 0 ? 1 : RDL__HEARD_BY + heard;
    rdl__share_released(&call);
    rdl__share_taken(&call);
}

static void ask(struct rdl__task *task, int64_t now)
{
    struct question *q = rdl__container(task, struct question, task);

    (void)now;
    q->ns = rdl__share_pass(&call, q->free, q->now);
    cr_assert_eq(sem_post(&q->answered), 0);
}

/* For how long are others let pass? The client's thread asks, which has heard that so many are free. */
static int64_t pass_ns(int64_t free, int64_t now)
{
    question.free = free;
    question.now = now;
    rdl__task_init(&question.task, ask);
    rdl__loop_post(rdl__client_loop(client), &question.task);
    while (sem_wait(&question.answered) != 0)
        cr_assert_eq(errno, EINTR);
    return question.ns;
}

/* How many releases are let pass, until it is its turn? */
static int passed(void)
{
    int n = 0;

    while (pass_ns(1, NOW) > 0)
        cr_assert_lt(n++, 1000);
    return n;
}

Test(share, as_many_are_let_pass_as_others_have_heard_the_last_release_and_a_quarter)
{
    static const int heard[][2] = {{0, 0}, {1, 0}, {2, 0}, {3, 1}, {4, 3}, {16, 18}, {32, 38}, {100000, 38}};

    of(rdl_write_lock);
    cr_assert_eq(passed(), 0, "it has not had it yet");
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++) {
        has_had_it(heard[i][0]);
        cr_assert_eq(passed(), heard[i][1], "%d", heard[i][0]);
        cr_assert_eq(passed(), 0, "%d", heard[i][0]);
    }
}

Test(share, nobody_is_let_pass_by_who_has_not_had_it_since)
{
    of(rdl_simple_lock);
    call.answer = RDL__HEARD_BY + 16;
    rdl__share_released(&call);
    cr_assert_eq(passed(), 0);
    rdl__share_taken(&call);
    cr_assert_eq(passed(), 19);
}

/* What is sent twice finds nothing to give back, and who may not publish tells nobody. */
Test(share, answer_that_does_not_say_who_has_heard_changes_nothing)
{
    of(rdl_write_lock);
    has_had_it(16);
    for (int i = 0; i < 2; i++) {
        call.answer = i == 0 ? RDL__NO_HOLD : RDL__UNTOLD;
        rdl__share_released(&call);
        rdl__share_taken(&call);
        cr_assert_eq(passed(), 18);
    }
    call.answer = 0;
    call.req.resent = true;
    rdl__share_released(&call);
    rdl__share_taken(&call);
    cr_assert_eq(passed(), 18);
}

/* Others of its process wait for it, and not for as long, maybe. */
Test(share, who_takes_a_hold_to_be_kept_lets_nobody_pass)
{
    of(rdl_write_lock);
    has_had_it(16);
    call.n = -1;
    cr_assert_eq(passed(), 0);
}

/* It does not listen when it has released it, as its channel does not linger. */
Test(share, of_what_its_client_listens_to_only_while_it_waits_one_more_is_let_pass)
{
    of(rdl_simple_lock);
    has_had_it(2);
    cr_assert_eq(passed(), 1);
    rdl_lock_free(lock);
    of(rdl_write_lock);
    has_had_it(2);
    cr_assert_eq(passed(), 0);
}

Test(share, others_have_the_longer_time_the_more_are_owed_but_a_bounded_one)
{
    of(rdl_write_lock);
    has_had_it(100000);
    for (int64_t owed = 38; owed > 0; owed--) {
        int64_t most = (owed < 13 ? owed : 13) * 300 * RDL__US, ns = pass_ns(1, NOW + owed * owed);

        cr_assert(ns >= most / 2 && ns < most, "%d: %d us", (int)owed, (int)(ns / RDL__US));
    }
}

Test(share, who_waits_lets_nobody_pass_for_more_than_half_of_its_time)
{
    of(rdl_write_lock);
    has_had_it(32);
    call.deadline = NOW + 2 * RDL__MS;
    cr_assert_eq(pass_ns(1, NOW), RDL__MS);
    call.deadline = NOW + 1;
    cr_assert_eq(pass_ns(1, NOW), 0);
}

Test(share, many_that_are_free_at_once_are_as_many_releases)
{
    of(rdl_write_lock);
    has_had_it(16);
    cr_assert_gt(pass_ns(10, NOW), 0);
    cr_assert_eq(passed(), 8);
}

Test(share, nobody_is_let_pass_where_enough_is_free_for_all)
{
    of(rdl_write_lock);
    has_had_it(8);
    cr_assert_eq(pass_ns(9, NOW), 0);
    has_had_it(8);
    cr_assert_gt(pass_ns(8, NOW), 0);
}

Test(share, who_is_woken_by_name_or_let_in_beside_others_lets_nobody_pass)
{
    of(rdl_reentrant_lock);
    has_had_it(16);
    cr_assert_eq(passed(), 0);
    cr_assert_eq(atomic_load(&lock->name->turns), 0);
    rdl_lock_free(lock);
    of(rdl_read_lock);
    has_had_it(16);
    cr_assert_eq(passed(), 0);
}
