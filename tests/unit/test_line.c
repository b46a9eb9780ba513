/* SPDX-License-Identifier: MIT */
/* test_line.c - a client's place in the line beside a lock, by what is noted of it: which lock a channel is of, what
 * becomes of a place without memory, and how many turns are owed.
 *
 * The client is a real one, and lazy: nobody is there, and nothing is sent. The tests do what a server's answers do.
 */
#include "core/call/line.h"
#include "core/call/verb.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>

#define SOON_MS 10000

static struct counting_alloc counting;
static rdl_client_t *client;

static void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_client_options_t options = {
        .version = RDL_CLIENT_OPTIONS_VERSION, .lazy = true, .allocator = &hooks, .close_timeout_ms = 50};

    cr_assert_eq(rdl_client_open("redis://127.0.0.1:1", &options, &client, NULL), RDL_OK);
}

static void tear_down(void)
{
    client = rdl_client_close(client);
    cr_assert_eq(counting_alloc_blocks(&counting), 0, "%d blocks are left", (int)counting_alloc_blocks(&counting));
    counting_alloc_done(&counting);
}

TestSuite(line, .init = set_up, .fini = tear_down, .timeout = 60);

static rdl_lock_t *lock_of(const char *name)
{
    rdl_lock_t *lock = NULL;

    cr_assert_eq(rdl_reentrant_lock(client, name, NULL, &lock, NULL), RDL_OK);
    return lock;
}

/* Its last release has entered the client in the line, and no call of it waits yet. */
static rdl_lock_t *lock_ahead(const char *name)
{
    rdl_lock_t *lock = lock_of(name);

    (void)atomic_fetch_or(&lock->name->waiting, RDL__AHEAD | RDL__PLACED);
    return lock;
}

static bool is_ahead(const rdl_lock_t *lock)
{
    return (atomic_load(&lock->name->waiting) & RDL__AHEAD) != 0;
}

/* ---- its turn comes to nobody ----------------------------------------------------------------------------------- */

/* On the loop: its own channel of that lock is told that it is its turn. */
static struct turn {
    struct rdl__task task;
    const rdl_lock_t *lock;
    bool no_memory;
    bool left; /* what it was answered */
    _Atomic bool over;
} turn;

static void tell_turn(struct rdl__task *task, int64_t now)
{
    struct turn *t = rdl__container(task, struct turn, task);
    struct rdl__buf channel;

    (void)now;
    rdl__buf_init(&channel, &client->mem);
    rdl__own_channel_name(&channel, t->lock->name);
    counting_alloc_fail_from(&counting, t->no_memory ? 1 : 0);
    t->left = rdl__line_unheard(client, channel.data, channel.len);
    counting_alloc_fail_from(&counting, 0);
    rdl__buf_done(&channel);
    atomic_store(&t->over, true);
}

/* Is the place known to be nobody's, and left? */
static bool leaves_at_turn_of(const rdl_lock_t *lock, bool no_memory)
{
    turn = (struct turn){.lock = lock, .no_memory = no_memory};
    rdl__task_init(&turn.task, tell_turn);
    rdl__loop_post(rdl__client_loop(client), &turn.task);
    cr_assert(WAIT_UNTIL(atomic_load(&turn.over), SOON_MS));
    return turn.left;
}

Test(line, place_is_given_up_at_the_turn_of_nobody)
{
    rdl_lock_t *lock = lock_ahead("ab");

    cr_assert(leaves_at_turn_of(lock, false));
    cr_assert(!is_ahead(lock));
    cr_assert(!leaves_at_turn_of(lock, false), "its next call may be about to join");
    rdl_lock_free(lock);
}

/* Braces are put around a name without them, and taken off where they may have been. */
Test(line, turn_is_that_of_the_lock_whose_channel_it_is_whatever_braces_its_name_has)
{
    static const char *const names[][2] = {{"{a}b", "a}"}, {"{a}b}", "a}b"}, {"{ab}", "ab"}, {"ab", "{ab}"}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        rdl_lock_t *lock = lock_ahead(names[i][0]), *alike = lock_of(names[i][1]);

        cr_assert(leaves_at_turn_of(lock, false), "%s beside %s", names[i][0], names[i][1]);
        cr_assert(!is_ahead(lock), "%s beside %s", names[i][0], names[i][1]);
        cr_assert(!leaves_at_turn_of(lock, false));
        rdl_lock_free(alike);
        rdl_lock_free(lock);
    }
}

/* Who joins next tries at once, and does not sleep on the word of a place whose turn is over. */
Test(line, place_that_cannot_be_given_up_without_memory_is_not_waited_at)
{
    rdl_lock_t *lock = lock_ahead("ab");

    cr_assert(!leaves_at_turn_of(lock, true));
    cr_assert(!is_ahead(lock));
    rdl_lock_free(lock);
}

/* The client stands there yet, and its turn will be heard. */
Test(line, place_that_a_freed_handle_cannot_give_up_without_memory_is_kept)
{
    rdl_lock_t *first = lock_ahead("ab"), *second = lock_of("ab");

    counting_alloc_fail_from(&counting, 1);
    rdl_lock_free(first);
    counting_alloc_fail_from(&counting, 0);
    cr_assert(is_ahead(second));
    rdl_lock_free(second);
}

/* ---- turns ------------------------------------------------------------------------------------------------------ */

/* A call that waits sends a try, after so many that were refused. */
static void try_after(rdl_lock_t *lock, uint16_t refused)
{
    struct rdl__call call = {.verb = &rdl__verb_take, .ops = lock->ops, .count = 1};

    call.op.lock = lock;
    call.waiter.channel = (struct rdl__channel *)(void *)&call;
    call.take.tries = refused;
    (void)rdl__line_note_take(&call);
}

Test(line, turns_that_a_client_is_owed_are_not_taken_away_by_another_call_of_it)
{
    rdl_lock_t *lock = lock_of("ab");

    try_after(lock, 15);
    cr_assert_eq(atomic_load(&lock->name->turns), 0);
    try_after(lock, 16);
    cr_assert_eq(atomic_load(&lock->name->turns), 16);
    try_after(lock, 20);
    cr_assert_eq(atomic_load(&lock->name->turns), 20);
    try_after(lock, 1);
    cr_assert_eq(atomic_load(&lock->name->turns), 20);
    try_after(lock, 17);
    cr_assert_eq(atomic_load(&lock->name->turns), 20);
    rdl_lock_free(lock);
}
