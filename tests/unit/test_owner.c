/* SPDX-License-Identifier: MIT */
/* test_owner.c - who the calling thread is in a client, and what becomes of what an owner has when the thread ends, the
 * client closes or the process forks.
 *
 * The client is a real one, and lazy: nobody is there, and nothing is sent.
 */
#include "core/service/owner.h"
#include "tests/support/counting_alloc.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <redlatch/client.h>
#include <redlatch/error.h>
#include <sys/wait.h>
#include <unistd.h>

/* What an owner has. */
struct thing {
    struct rdl__owner_link link;
    int orphaned;
};

struct call {
    struct rdl__underway underway;
    int canceled_with; /* 0: not canceled */
};

static struct counting_alloc counting;
static rdl_client_t *client;
static struct thing things[3];

static rdl_client_t *open_client(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_client_options_t options = {.version = RDL_CLIENT_OPTIONS_VERSION, .lazy = true, .allocator = &hooks};
    rdl_client_t *opened = NULL;

    cr_assert_eq(rdl_client_open("redis://127.0.0.1:1", &options, &opened, NULL), RDL_OK);
    return opened;
}

static void on_orphan(struct rdl__owner_link *link)
{
    ((struct thing *)link)->orphaned++;
}

static void on_cancel(struct rdl__underway *underway, int code)
{
    ((struct call *)underway)->canceled_with = code;
}

static void set_up(void)
{
    client = open_client();
    for (size_t i = 0; i < sizeof things / sizeof things[0]; i++) {
        rdl__list_init(&things[i].link.link);
        things[i].link.orphan = on_orphan;
    }
}

static void tear_down(void)
{
    client = rdl_client_close(client);
}

TestSuite(owner, .init = set_up, .fini = tear_down, .timeout = 30);

static rdl_owner_t *self(void)
{
    rdl_owner_t *owner = NULL;

    cr_assert_eq(rdl__owner_self(client, &owner), RDL_OK);
    return owner;
}

static void *run_self(void *arg)
{
    *(rdl_owner_t **)arg = self();
    return NULL;
}

static void in_a_thread(void *(*run)(void *), void *arg)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, run, arg), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

/* ---- who a thread is -------------------------------------------------------------------------------------------- */

Test(owner, thread_is_the_same_in_every_call_and_another_thread_another)
{
    rdl_owner_t *mine = rdl__owner_ref(self()), *others = NULL;

    cr_assert_eq(self(), mine);
    in_a_thread(run_self, &others);
    cr_assert_neq(others, mine);
    rdl__owner_unref(mine);
}

Test(owner, thread_that_is_bound_is_the_one_that_it_is_bound_to_until_it_is_unbound)
{
    rdl_owner_t *mine = self(), *owner = NULL;

    cr_assert_eq(rdl_owner_new(client, &owner, NULL), RDL_OK);
    cr_assert_eq(rdl_owner_bind(owner, NULL), RDL_OK);
    cr_assert_eq(self(), owner);
    rdl_owner_unbind(client);
    cr_assert_eq(self(), mine);
    rdl_owner_free(owner);
}

Test(owner, thread_has_an_owner_in_each_client)
{
    rdl_client_options_t options = {.version = RDL_CLIENT_OPTIONS_VERSION, .lazy = true};
    rdl_owner_t *mine = self(), *there = NULL;
    rdl_client_t *other = NULL;

    cr_assert_eq(rdl_client_open("redis://127.0.0.1:1", &options, &other, NULL), RDL_OK);
    cr_assert_eq(rdl__owner_self(other, &there), RDL_OK);
    cr_assert_neq(there, mine);
    rdl_client_close(other);
    cr_assert_eq(self(), mine);
}

/* ---- threads that end ------------------------------------------------------------------------------------------- */

static void *run_with_two_things(void *ret_owner)
{
    rdl_owner_t *owner = self();

    for (int i = 0; i < 2; i++)
        cr_assert(rdl__owner_link_add(owner, &things[i].link));
    *(rdl_owner_t **)ret_owner = rdl__owner_ref(owner);
    return NULL;
}

Test(owner, thread_that_ends_orphans_what_it_has_once_and_gets_nothing_more)
{
    rdl_owner_t *owner = NULL;

    in_a_thread(run_with_two_things, &owner);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(things[i].orphaned, 1);
        cr_assert_not(rdl__owner_link_remove(owner, &things[i].link), "it is off the list");
    }
    cr_assert_not(rdl__owner_link_add(owner, &things[2].link));
    cr_assert_eq(things[2].orphaned, 0);
    rdl__owner_unref(owner);
}

static void *run_bound(void *owner)
{
    cr_assert_eq(rdl_owner_bind(owner, NULL), RDL_OK);
    cr_assert(rdl__owner_link_add(self(), &things[0].link));
    return NULL;
}

Test(owner, thread_that_ends_orphans_nothing_of_an_owner_that_it_was_bound_to)
{
    rdl_owner_t *owner = NULL;

    cr_assert_eq(rdl_owner_new(client, &owner, NULL), RDL_OK);
    in_a_thread(run_bound, owner);
    cr_assert_eq(things[0].orphaned, 0);
    rdl_owner_free(owner);
    cr_assert_eq(things[0].orphaned, 1);
}

Test(owner, what_was_taken_off_is_not_orphaned)
{
    rdl_owner_t *owner = NULL;

    cr_assert_eq(rdl_owner_new(client, &owner, NULL), RDL_OK);
    cr_assert(rdl__owner_link_add(owner, &things[0].link));
    cr_assert(rdl__owner_link_remove(owner, &things[0].link));
    rdl_owner_free(owner);
    cr_assert_eq(things[0].orphaned, 0);
}

/* ---- clients that close ----------------------------------------------------------------------------------------- */

Test(owner, close_leaves_what_threads_have_and_their_end_finds_nothing)
{
    cr_assert(rdl__owner_link_add(self(), &things[0].link));
    rdl__owners_close(client);
    cr_assert_eq(things[0].orphaned, 0, "the client sees to its holds by itself");
}

static pthread_barrier_t taken, closed;

static void *run_beyond_close(void *arg)
{
    (void)arg;
    (void)self();
    (void)pthread_barrier_wait(&taken);
    (void)pthread_barrier_wait(&closed);
    return NULL;
}

Test(owner, memory_is_given_back_by_whoever_ends_last_client_or_thread)
{
    pthread_t thread;

    (void)self();
    (void)pthread_barrier_init(&taken, NULL, 2);
    (void)pthread_barrier_init(&closed, NULL, 2);
    cr_assert_eq(pthread_create(&thread, NULL, run_beyond_close, NULL), 0);
    (void)pthread_barrier_wait(&taken);
    client = rdl_client_close(client);
    cr_assert_eq(counting_alloc_blocks(&counting), 0, "threads keep nothing of a client that is closed");
    (void)pthread_barrier_wait(&closed);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    client = open_client();
    (void)self();
    client = rdl_client_close(client);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
}

/* ---- forks ------------------------------------------------------------------------------------------------------ */

Test(owner, child_of_a_fork_orphans_nothing_of_its_parents)
{
    rdl_owner_t *mine = self();
    int status = 0;
    pid_t child;

    cr_assert(rdl__owner_link_add(mine, &things[0].link));
    cr_assert_geq(child = fork(), 0);
    if (child == 0) {
        rdl_owner_t *owner = NULL;

        if (rdl_owner_new(client, &owner, NULL) != RDL_EFORK)
            _exit(1);
        rdl_owner_free(mine);
        _exit(things[0].orphaned == 0 ? 0 : 2);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
    cr_assert_eq(self(), mine);
    cr_assert(rdl__owner_link_remove(mine, &things[0].link));
}

/* ---- calls under way -------------------------------------------------------------------------------------------- */

Test(owner, cancel_reaches_the_owners_calls_and_no_others)
{
    struct call mine = {.underway.cancel = on_cancel}, others = mine, over = mine;
    rdl_owner_t *owner = NULL, *other = NULL;

    cr_assert_eq(rdl_owner_new(client, &owner, NULL), RDL_OK);
    cr_assert_eq(rdl_owner_new(client, &other, NULL), RDL_OK);
    rdl__owner_begin(owner, &mine.underway);
    rdl__owner_begin(owner, &over.underway);
    rdl__owner_begin(other, &others.underway);
    rdl__owner_end(owner, &over.underway);
    cr_assert_eq(rdl_owner_cancel(owner), 1);
    cr_assert_eq(mine.canceled_with, RDL_ECANCELED);
    cr_assert_eq(others.canceled_with, 0);
    cr_assert_eq(over.canceled_with, 0);
    cr_assert_eq(rdl__owners_cancel(client, RDL_ECLOSED), 2);
    cr_assert_eq(others.canceled_with, RDL_ECLOSED);
    rdl__owner_end(owner, &mine.underway);
    rdl__owner_end(other, &others.underway);
    rdl_owner_free(owner);
    rdl_owner_free(other);
}

/* ---- memory kept for calls -------------------------------------------------------------------------------------- */

Test(owner, memory_of_a_call_is_kept_for_the_next_and_of_two_only_one)
{
    enum { SIZE = 100 };
    bool fresh = false;
    rdl_owner_t *owner = self();
    void *first = rdl__owner_take_spare(owner, SIZE, &fresh), *second;

    cr_assert(fresh);
    second = rdl__owner_take_spare(owner, SIZE, &fresh);
    cr_assert(fresh && second != first);
    rdl__owner_give_spare(owner, first, SIZE);
    rdl__owner_give_spare(owner, second, SIZE);
    cr_assert_eq(rdl__owner_take_spare(owner, SIZE, &fresh), first);
    cr_assert_not(fresh);
    rdl__owner_give_spare(owner, first, SIZE);
    client = rdl_client_close(client);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
}
