/* SPDX-License-Identifier: MIT */
/* test_directed_kept.c - schedules that are known to break what clients keep (protocol.md, 11): tokens of the server's
 * time, and who waits beside kept readers.
 */
#include "tests/sim/schedules.h"

/* A round trip is 2000 us, and so many tokens at least come of asking. */
#define TOKENS_OF_A_TRIP 1990

static void check_each_timed(void (*fn)(void))
{
    static const char *const timed[] = {"kept fenced", "kept reentrant", "kept nonreentrant"};

    for (size_t i = 0; i < sizeof timed / sizeof timed[0]; i++)
        check_schedule(&(struct schedule){.kind = timed[i], .steps = fn});
}

/* Takes and releases, one after another, by a's own thread: no time passes but for what is asked. Until the hold at the
 * server is another, at most. */
static void take_turns(void *arg)
{
    const int64_t *count = arg;
    char field[FIELD_SIZE] = "";

    for (int64_t i = 0; i < *count; i++) {
        must_answer(call_and_wait(a, N, TAKE, 1000, RDL_LEASE_AUTO), RDL_OK, "the take");
        if (i > 0 && strcmp(field, a->holds[N].field) != 0)
            i = *count;
        (void)snprintf(field, sizeof field, "%s", a->holds[N].field);
        must_answer(call_and_wait(a, N, RELEASE, 0, 0), RDL_OK, "the release");
    }
}

static void turns(int64_t count)
{
    a->blocking = true;
    fibre_join(fibre_start(&p->process, take_turns, &count));
}

static bool is_kept_by(const struct app *app)
{
    const char *field;
    size_t len;

    return shown(&sim.names[N], &field, &len) && strncmp(field, app->id, strlen(app->id)) == 0 &&
           field[strlen(app->id) + 1] == '-';
}

static bool is_kept(void)
{
    return is_kept_by(p);
}

static void make_idle(void)
{
    for (int i = 0; i < 20 && !is_kept(); i++) {
        turns(1);
        pass_ms(5); /* until recalls are listened for */
    }
    must(is_kept(), "the lock is kept");
}

static void next_one(void)
{
    must_answer(do_it(b, TAKE, 1000, RDL_LEASE_AUTO), RDL_OK, "the next one's take");
    must_answer(do_it(b, RELEASE, 0, 0), RDL_OK, "its release");
}

/* ---- asked first, and not more often ----------------------------------------------------------------------------- */

static void asked_first(void)
{
    int64_t asked;

    make_idle();
    asked = scripts_ran;
    turns(1);
    must(scripts_ran == asked + 1, "the server is asked for tokens");
    for (int i = 0; i < 3; i++) {
        asked = scripts_ran;
        turns(TOKENS_OF_A_TRIP);
        must(scripts_ran <= asked + 1, "it is asked once for as many as microseconds went by");
        for (int more = 0; more < 10 && scripts_ran <= asked + 1; more++)
            turns(TOKENS_OF_A_TRIP / 2);
    }
    next_one();
}

Test(directed, T1_tokens_of_time_are_asked_for_first_and_last_for_as_many_as_microseconds_went_by)
{
    check_each_timed(asked_first);
}

/* ---- evicted unawares ------------------------------------------------------------------------------------------- */

/* The keys are gone and the client does not know. It draws all that it can, and whoever takes the lock next draws a
 * higher one: the checkers see to that. The take that is kept is on its way for longer than its answer is, so that who
 * reckons the server's time from its own is ahead of it. */
static void evicted_unawares(void)
{
    turns(1);
    pass_ms(5);
    net_hold(net_last(&p->process), UP, world_now() + 6 * RDL__MS);
    net_hold(net_nth(&p->process, LOOP_LANE), UP, world_now() + 6 * RDL__MS);
    turns(1);
    must(is_kept(), "the lock is kept");
    turns(1);
    server_flush_keys();
    excuse_all("the keys were flushed");
    turns(TOKENS_OF_A_TRIP * 5 / 4); /* more than time has passed until the next one's take arrives */
    fibre_sleep(RDL__US);            /* for the checkers, who excuse what was asked for before */
    next_one();
}

Test(directed, T2_a_hold_that_was_evicted_unawares_has_no_token_above_its_successors)
{
    check_each_timed(evicted_unawares);
}

/* ---- the next hold ---------------------------------------------------------------------------------------------- */

static void given_back_with_tokens_left(void)
{
    int64_t asked;

    for (int i = 0; i < 2; i++) {
        make_idle();
        asked = scripts_ran;
        turns(2);
        must(scripts_ran == asked + 1, "the server is asked for tokens");
        next_one();
        pass_ms(20);
    }
}

Test(directed, T3_tokens_that_a_hold_has_not_given_are_not_the_next_ones)
{
    check_each_timed(given_back_with_tokens_left);
}

/* ---- a writer beside kept readers ------------------------------------------------------------------------------- */

#define READS (N + MOST_NAMES)

static void write_and_leave(void *arg)
{
    (void)arg;
    must_answer(call_and_wait(b, N, TAKE, 4000, RDL_LEASE_AUTO), RDL_OK, "the writer");
    must_answer(call_and_wait(b, N, RELEASE, 0, 0), RDL_OK, "its release");
}

static void look(void *arg)
{
    (void)arg;
    (void)call_and_wait(b, N, IS_LOCKED, 0, 0);
}

static void read_at_once(struct caller *who)
{
    must_answer(end(begin_at(who, READS, TAKE, 1000, RDL_LEASE_AUTO)), RDL_OK, "a read");
    must_answer(end(begin_at(who, READS, RELEASE, 0, 0)), RDL_OK, "its release");
}

/* A writer was refused by another's write, and is told of that only when a reader of its client has been woken and let
 * in beside a hold that a third client keeps: that one's next user publishes nothing. */
static void refused_long_ago(void)
{
    struct conn *callers;
    struct fibre *writer;
    struct lock_call *reader;
    int64_t began;

    read_at_once(a);
    pass_ms(10);
    b->blocking = true;
    fibre_join(fibre_start(&q->process, look, NULL));
    callers = net_last(&q->process);
    must_answer(do_it(a, TAKE, 1000, 20000), RDL_OK, "the write");
    reader = begin_at(c, READS, TAKE, 3000, RDL_LEASE_AUTO);
    pass_ms(20);
    net_hold(callers, DOWN, world_now() + 14 * RDL__MS);
    writer = fibre_start(&q->process, write_and_leave, NULL);
    fibre_sleep(3 * RDL__MS / 2);
    began = world_now();
    net_hold(net_nth(&q->process, LOOP_LANE), UP, began + 5 * RDL__MS);
    net_hold(net_nth(&q->process, LOOP_LANE), DOWN, began + 16 * RDL__MS);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the write's release");
    read_at_once(a);
    must_answer(end(reader), RDL_OK, "the reader");
    must_answer(end(begin_at(c, READS, RELEASE, 0, 0)), RDL_OK, "its release");
    fibre_join(writer);
    must(world_now() - began < 60 * RDL__MS, "the writer does not sleep beside an idle lock");
}

Test(directed, Q7_writer_that_joins_readers_looks_whether_others_keep_the_lock)
{
    check_schedule(&(struct schedule){.kind = "kept read-write", .steps = refused_long_ago, .unfenced = true});
}

/* b reads what q keeps, a wants to write, and c of q wants to read when the recall has come. */
static struct lock_call *come_to_read_behind_a_recall(int64_t wait_ms, struct lock_call **ret_writer)
{
    for (int i = 0; i < 20 && !is_kept_by(q); i++) {
        read_at_once(b);
        pass_ms(5);
    }
    must_answer(end(begin_at(b, READS, TAKE, 1000, RDL_LEASE_AUTO)), RDL_OK, "a read");
    *ret_writer = begin(a, TAKE, 1000, RDL_LEASE_AUTO);
    pass_ms(3);
    return begin_at(c, READS, TAKE, wait_ms, RDL_LEASE_AUTO);
}

static void reader_leaves(struct caller *who)
{
    must_answer(end(begin_at(who, READS, RELEASE, 0, 0)), RDL_OK, "a reader's release");
}

static void writer_comes_and_leaves(struct lock_call *writer)
{
    must_answer(end(writer), RDL_OK, "the writer");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "its release");
}

static void readers_leave_soon(void)
{
    int64_t asked, left;
    struct lock_call *writer, *newcomer = come_to_read_behind_a_recall(1000, &writer);

    asked = scripts_ran;
    pass_ms(2);
    must(scripts_ran == asked, "the newcomer asks nobody");
    left = world_now();
    reader_leaves(b);
    must_answer(end(writer), RDL_OK, "the writer");
    must(world_now() - left < 5 * RDL__MS, "it has the lock before the newcomer");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "its release");
    must_answer(end(newcomer), RDL_OK, "the newcomer");
    reader_leaves(c);
}

static void reader_stays(void)
{
    struct lock_call *writer, *newcomer = come_to_read_behind_a_recall(1000, &writer);
    int64_t waits = world_now();

    must_answer(end(newcomer), RDL_OK, "the newcomer");
    must(world_now() - waits < 12 * RDL__MS, "it asks when the one who is inside does not leave");
    reader_leaves(c);
    reader_leaves(b);
    writer_comes_and_leaves(writer);
}

/* Nobody who writes has the lock: whoever cannot wait for so long asks at once, and is let in. */
static void newcomers_have_little_time(void)
{
    static const int64_t waits_ms[] = {0, 5, 15};

    for (size_t i = 0; i < sizeof waits_ms / sizeof waits_ms[0]; i++) {
        struct lock_call *writer, *newcomer = come_to_read_behind_a_recall(waits_ms[i], &writer);

        must_answer(end(newcomer), RDL_OK, "the newcomer");
        reader_leaves(c);
        reader_leaves(b);
        writer_comes_and_leaves(writer);
        pass_ms(20);
    }
}

Test(directed, Q8_newcomers_wait_for_readers_who_leave_soon_and_not_for_one_who_stays)
{
    check_schedule(&(struct schedule){.kind = "kept read-write", .steps = readers_leave_soon, .unfenced = true});
    check_schedule(&(struct schedule){.kind = "kept read-write", .steps = reader_stays, .unfenced = true});
}

Test(directed, Q8_newcomer_with_little_time_is_let_in_beside_those_who_read)
{
    check_schedule(
        &(struct schedule){.kind = "kept read-write", .steps = newcomers_have_little_time, .unfenced = true});
}
