/* SPDX-License-Identifier: MIT */
/* test_costs.c - what the verbs of each type cost is what docs/choosing.md says.
 *
 * MONITOR shows what the client sends, which is one command and so one round trip for each verb, and what the server
 * carries out for it. From these counts a row of the document's table is built, and must stand there as it is. The
 * document is read from the folder that tests/run starts programs in, the tree's own. */
#include "tests/live/live.h"

#include <stdio.h>

#define DOCUMENT "docs/choosing.md"
#define NAME "n"
#define LEASE_MS 20000

LIVE_SUITE(costs, 60);

static struct monitor *monitor;
static rdl_owner_t *other;
static rdl_lock_t *lock, *blocker;
static rdl_semaphore_t *pool;
static rdl_permit_semaphore_t *seats;
static rdl_permit_t seat;
static rdl_latch_t *latch;

typedef int64_t verb_fn(void);

static int64_t take_lock(void)
{
    return rdl_try_lock(lock, 0, LEASE_MS, &err);
}

static int64_t release_lock(void)
{
    return rdl_unlock(lock, &err);
}

static int64_t take_blocker(void)
{
    return rdl_try_lock(blocker, 0, LEASE_MS, &err);
}

static int64_t release_blocker(void)
{
    return rdl_unlock(blocker, &err);
}

static int64_t take_permit(void)
{
    return rdl_semaphore_try_acquire(pool, 1, 0, &err);
}

static int64_t release_permit(void)
{
    return rdl_semaphore_release(pool, 1, &err);
}

static int64_t take_seat(void)
{
    return rdl_permit_semaphore_try_acquire(seats, 1, 0, LEASE_MS, &seat, &err);
}

static int64_t refuse_seat(void)
{
    rdl_permit_t none;

    return rdl_permit_semaphore_try_acquire(seats, 1, 0, LEASE_MS, &none, &err);
}

static int64_t release_seat(void)
{
    return rdl_permit_semaphore_release(seats, 1, &seat, &err);
}

static int64_t set_latch(void)
{
    return rdl_latch_try_set_count(latch, 1, &err) - 1; /* 1: done */
}

static int64_t await_latch(void)
{
    return rdl_latch_await(latch, 0, &err);
}

static int64_t count_latch(void)
{
    return rdl_latch_count_down(latch, &err);
}

/* What is measured: `refuse` while `block` has been done by another owner. */
struct verbs {
    verb_fn *take, *refuse, *release;
    verb_fn *block, *unblock;
};

static const struct verbs of_lock = {
    .take = take_lock,
    .refuse = take_lock,
    .release = release_lock,
    .block = take_blocker,
    .unblock = release_blocker,
};
static const struct verbs of_semaphore = {
    .take = take_permit,
    .refuse = take_permit,
    .release = release_permit,
    .block = take_permit,
    .unblock = release_permit,
};
static const struct verbs of_permits = {
    .take = take_seat,
    .refuse = refuse_seat,
    .release = release_seat,
    .block = take_seat,
    .unblock = release_seat,
};
static const struct verbs of_latch = {
    .take = set_latch,
    .refuse = await_latch,
    .release = count_latch,
    .block = set_latch,
    .unblock = count_latch,
};

/* What the server carries out: the client's command, unless it is a script, and what the script calls. */
static size_t cost_of(verb_fn *verb, int64_t expected)
{
    size_t mark = monitor_mark(monitor), sent;

    expect(expected, verb());
    (void)monitor_mark(monitor);
    sent = monitor_count(monitor, mark, "") - 1; /* the mark itself */
    if (sent != 1)
        monitor_print(monitor, mark);
    cr_assert_eq(sent, 1, "a verb costs one round trip");
    return sent - monitor_count(monitor, mark, "\"EVALSHA\"") + monitor_count_lua(monitor, mark, "");
}

static void as_other(verb_fn *verb)
{
    expect(RDL_OK, rdl_owner_bind(other, &err));
    expect(RDL_OK, verb());
    rdl_owner_unbind(st.client);
}

static void warm_up(const struct verbs *v)
{
    expect(RDL_OK, v->take());
    expect(RDL_OK, v->release());
}

static bool document_has(const char *row)
{
    FILE *file = fopen(DOCUMENT, "r");
    char line[1024];
    bool found = false;

    cr_assert_not_null(file, "%s is not here", DOCUMENT);
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = strncmp(line, row, strlen(row)) == 0;
    (void)fclose(file);
    return found;
}

static void expect_documented(const char *what, const struct verbs *v)
{
    size_t take, refuse, release;
    char *row;

    warm_up(v);
    take = cost_of(v->take, RDL_OK);
    release = cost_of(v->release, RDL_OK);
    as_other(v->block);
    refuse = cost_of(v->refuse, RDL_ETIMEDOUT);
    as_other(v->unblock);
    row = must_format("| %s | %zu | %zu | %zu |", what, take, refuse, release);
    cr_expect(document_has(row), "%s has no row '%s'", DOCUMENT, row);
    free(row);
}

static void open_all(void)
{
    stage_open(&st);
    left_behind = true; /* counters and guards */
    monitor = monitor_start(st.server);
    expect(RDL_OK, rdl_owner_new(st.client, &other, &err));
}

static void close_all(void)
{
    rdl_owner_free(other);
    monitor_stop(monitor);
}

static void expect_lock_documented(const char *what, rdl_lock_t *subject, rdl_lock_t *in_its_way)
{
    lock = subject;
    blocker = in_its_way != NULL ? in_its_way : subject;
    expect_documented(what, &of_lock);
    rdl_lock_free(in_its_way);
    rdl_lock_free(subject);
}

Test(costs, of_locks_are_those_of_the_document)
{
    open_all();
    expect_lock_documented("reentrant", reentrant(st.client, "a reentrant", NULL), NULL);
    expect_lock_documented("reentrant, with tokens",
                           reentrant(st.client, "t", LOCK_OPTIONS(.fencing = RDL_FENCING_TIME)), NULL);
    expect_lock_documented("non-reentrant", nonreentrant(st.client, "a nonreentrant", NULL), NULL);
    expect_lock_documented("simple", simple(st.client, "a simple", NULL), NULL);
    expect_lock_documented("spin", spin(st.client, "a spin", NULL), NULL);
    expect_lock_documented("fenced", fenced(st.client, "a fenced", NULL), NULL);
    expect_lock_documented("fair, nobody waits", fair(st.client, "a fair", NULL), NULL);
    expect_lock_documented("write", write_end(st.client, "a write", NULL), NULL);
    expect_lock_documented("read", read_end(st.client, "a read", NULL), write_end(st.client, "a read", NULL));
    close_all();
}

/* Each further reader is looked at when one leaves. */
Test(costs, of_reading_beside_others_are_those_of_the_document)
{
    char *row;
    size_t take, release;

    open_all();
    lock = blocker = read_end(st.client, NAME, NULL);
    as_other(take_lock);
    warm_up(&of_lock);
    take = cost_of(take_lock, RDL_OK);
    release = cost_of(release_lock, RDL_OK);
    row = must_format("| read, beside one other reader | %zu | | %zu |", take, release);
    cr_expect(document_has(row), "%s has no row '%s'", DOCUMENT, row);
    free(row);
    as_other(release_lock);
    rdl_lock_free(lock);
    close_all();
}

/* However deep they are nested; the last one, too, looks at none of those that were given back. */
Test(costs, of_nested_reads_are_each_the_same)
{
    enum { DEPTH = 200 };
    size_t take, release;

    open_all();
    lock = blocker = read_end(st.client, NAME, NULL);
    expect(RDL_OK, take_lock());
    take = cost_of(take_lock, RDL_OK);
    release = cost_of(release_lock, RDL_OK);
    for (int i = 1; i < DEPTH; i++)
        expect(RDL_OK, take_lock());
    cr_expect_leq(cost_of(take_lock, RDL_OK), take + 1); /* in a later millisecond the lock lives longer */
    cr_expect_eq(cost_of(release_lock, RDL_OK), release);
    for (int i = 2; i < DEPTH; i++)
        expect(RDL_OK, release_lock());
    cr_expect_eq(cost_of(release_lock, RDL_OK), release);
    cr_expect_leq(cost_of(release_lock, RDL_OK), release + 4);
    rdl_lock_free(lock);
    close_all();
}

Test(costs, of_permits_and_latches_are_those_of_the_document)
{
    open_all();
    expect(RDL_OK, rdl_semaphore(st.client, "semaphore", NULL, &pool, &err));
    expect(RDL_OK, rdl_permit_semaphore(st.client, "permits", NULL, &seats, &err));
    expect(RDL_OK, rdl_latch(st.client, "latch", NULL, &latch, &err));
    expect(1, rdl_semaphore_try_set_permits(pool, 1, &err));
    expect(1, rdl_permit_semaphore_try_set_permits(seats, 1, &err));
    expect_documented("semaphore", &of_semaphore);
    expect_documented("permit semaphore", &of_permits);
    expect_documented("latch: set, await, count down", &of_latch);
    rdl_latch_free(latch);
    rdl_permit_semaphore_free(seats);
    rdl_semaphore_free(pool);
    close_all();
}
