/* SPDX-License-Identifier: MIT */
/* test_growth.c - names that are used once, very many of them, of every type: what the client and the server have
 * afterwards is what they had before.
 *
 *     REDLATCH_TEST_NAMES=1000000 REDLATCH_TEST_TYPE=fair build/release/tests/live/test_growth
 *
 * REDLATCH_TEST_NAMES  so many of each type; without it few enough for every day
 * REDLATCH_TEST_TYPE   of this type alone, as docs/proof.md calls it; without it of all
 *
 * What it took is said on stderr when the number was given.
 */
#include "tests/live/live.h"
#include "tests/support/counting_alloc.h"

#include <stdatomic.h>
#include <stdio.h>

LIVE_SUITE(growth, 0);

#define FIRST 500 /* of which tables and buffers may grow to the size at which they stay, */
#define SLACK_BLOCKS 8
#define SLACK_BYTES 65536 /* or nearly: a buffer is as large as the most that was under way at once */

static int64_t name_count(void)
{
    const char *said = getenv("REDLATCH_TEST_NAMES");

    return said != NULL ? atoll(said) : 2000;
}

/* One name of the type: made, used, freed. */
typedef void use_fn(const char *name, const struct kind *kind);

static void use_lock(const char *name, const struct kind *kind)
{
    rdl_lock_t *lock = kind->make(st.client, name, NULL);

    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

static void use_semaphore(const char *name, const struct kind *kind)
{
    rdl_semaphore_t *s = NULL;

    (void)kind;
    expect(RDL_OK, rdl_semaphore(st.client, name, NULL, &s, &err));
    expect(1, rdl_semaphore_try_set_permits(s, 2, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(s, 1, 0, &err));
    expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
    rdl_semaphore_free(s);
}

static void use_permits(const char *name, const struct kind *kind)
{
    rdl_permit_semaphore_t *s = NULL;
    rdl_permit_t permit;

    (void)kind;
    expect(RDL_OK, rdl_permit_semaphore(st.client, name, NULL, &s, &err));
    expect(RDL_OK, rdl_permit_semaphore_set_permits(s, 2, &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 1, 0, 30000, &permit, &err));
    expect(RDL_OK, rdl_permit_semaphore_release(s, 1, &permit, &err));
    rdl_permit_semaphore_free(s);
}

static void use_latch(const char *name, const struct kind *kind)
{
    rdl_latch_t *latch = NULL;

    (void)kind;
    expect(RDL_OK, rdl_latch(st.client, name, NULL, &latch, &err));
    expect(1, rdl_latch_try_set_count(latch, 1, &err));
    expect(0, rdl_latch_count_down(latch, &err));
    rdl_latch_free(latch);
}

static const struct {
    const char *type;
    use_fn *use;
} counted[] = {{"semaphore", use_semaphore}, {"permit semaphore", use_permits}, {"latch", use_latch}};

static void use_names(use_fn *use, const struct kind *kind, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "short:%" PRId64, i);
        use(name, kind);
    }
}

/* What stays by promise: the count of a semaphore, and the counter of a fenced lock. */
static void drop_counts(void)
{
    (void)probe_ask(st.probe, "EVAL 'for _, k in ipairs(redis.call(\"keys\", \"*short:*\")) do "
                              "if redis.call(\"pttl\", k) == -1 and redis.call(\"type\", k).ok == \"string\" then "
                              "redis.call(\"unlink\", k) end end' 0");
}

static bool wanted(const char *type)
{
    const char *only = getenv("REDLATCH_TEST_TYPE");

    return only == NULL || strcmp(only, type) == 0;
}

static void report(const char *type, int64_t total, int64_t began)
{
    if (getenv("REDLATCH_TEST_NAMES") != NULL)
        (void)fprintf(stderr, "%s: %" PRId64 " names in %" PRId64 " s\n", type, total, (now_ms() - began) / 1000);
}

static void expect_no_growth(const char *type, use_fn *use, const struct kind *kind)
{
    int64_t began = now_ms();
    struct counting_alloc counting;
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_client_t *before = st.client;
    int64_t blocks, bytes, total = name_count();

    st.client = client_open(stage_uri(&st), OPTIONS(.allocator = &hooks));
    use_names(use, kind, 0, FIRST);
    drop_counts();
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS), "%s: %" PRId64 " keys", type, probe_keys(st.probe));
    blocks = counting_alloc_blocks(&counting);
    bytes = counting_alloc_bytes(&counting);
    for (int64_t at = FIRST; at < total + FIRST; at += 50000) {
        use_names(use, kind, at, at + 50000 < total + FIRST ? at + 50000 : total + FIRST);
        drop_counts();
    }
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS), "%s: %" PRId64 " keys", type, probe_keys(st.probe));
    cr_assert(WAIT_UNTIL(counting_alloc_blocks(&counting) <= blocks + SLACK_BLOCKS &&
                             counting_alloc_bytes(&counting) <= bytes + SLACK_BYTES,
                         SOON_MS),
              "%s: %" PRId64 " blocks more, %" PRId64 " bytes", type, counting_alloc_blocks(&counting) - blocks,
              counting_alloc_bytes(&counting) - bytes);
    rdl_client_close(st.client);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
    st.client = before;
    report(type, total, began);
}

Test(growth, names_that_are_used_once_leave_neither_memory_nor_keys)
{
    stage_open(&st);
    FOR_EACH_KIND(kind)
    {
        if (wanted(kind->type))
            expect_no_growth(kind->type, use_lock, kind);
    }
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        if (wanted(counted[i].type))
            expect_no_growth(counted[i].type, counted[i].use, NULL);
}

static void count_answer(rdl_lock_t *lock, int64_t result, const rdl_err_t *e, void *answers)
{
    (void)lock;
    (void)e;
    cr_assert_eq(result, 0);
    atomic_fetch_add((atomic_size_t *)answers, 1);
}

/* All at once: nothing is answered before everything has been asked. */
static void ask_so_often(rdl_lock_t *lock, size_t questions)
{
    atomic_size_t answers = 0;

    server_pause(st.server);
    for (size_t i = 0; i < questions; i++)
        expect(RDL_OK, rdl_is_locked_async(lock, NULL, count_answer, (void *)&answers, NULL, &err));
    server_resume(st.server);
    cr_assert(WAIT_UNTIL(atomic_load(&answers) == questions, 6 * SOON_MS));
}

/* Buffers are as large as what was under way together, while it is. */
Test(growth, what_very_many_need_together_is_given_back)
{
    struct counting_alloc counting;
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_client_t *client;
    rdl_lock_t *lock;
    int64_t bytes;

    stage_open(&st);
    client = client_open(stage_uri(&st), OPTIONS(.allocator = &hooks, .command_timeout_ms = 60000));
    lock = reentrant(client, "short:", NULL);
    ask_so_often(lock, 10);
    bytes = counting_alloc_bytes(&counting);
    ask_so_often(lock, 50000);
    cr_assert(WAIT_UNTIL(counting_alloc_bytes(&counting) <= bytes + 2 * SLACK_BYTES, SOON_MS), "%" PRId64 " bytes more",
              counting_alloc_bytes(&counting) - bytes);
    rdl_lock_free(lock);
    rdl_client_close(client);
    counting_alloc_done(&counting);
}
