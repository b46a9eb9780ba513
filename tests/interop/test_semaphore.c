/* SPDX-License-Identifier: MIT */
/* test_semaphore.c - semaphores, permits with leases, and latches, shared by C and Java: at one server, and in a
 * cluster. */
#include "tests/interop/peer.h"
#include "tests/support/cluster.h"
#include "tests/support/notes.h"
#include "tests/support/stage.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NAME "pool"
#define LEASE_MS 30000
#define ROUNDS 1000

/* ---- the two sides ---------------------------------------------------------------------------------------------- */

static struct stage st;         /* in a cluster: without a server, and the probe is at the name's master */
static struct cluster *cluster; /* NULL: one server */
static struct peer *java;
static rdl_err_t err;

static void introduce_java(const char *uri)
{
    cr_assert_eq(strncmp(peer_ask(java, "main", "open c %s 30000", uri), "ok", 2), 0);
}

static void both_here(void)
{
    java = peer_start();
    stage_open(&st, .server = {.tcp = true});
    introduce_java(server_uri(st.server));
}

static void meet_in_a_cluster(void)
{
    java = peer_start();
    cluster = cluster_start(&(struct cluster_options){.patient = true});
    st = (struct stage){.client = client_open(cluster->uri, NULL), .probe = cluster_probe(cluster, cluster_slot(NAME))};
    introduce_java(cluster->uri);
}

static void part(void)
{
    peer_stop(java);
    java = NULL;
    stage_close(&st);
    cluster_stop(cluster);
    cluster = NULL;
}

TestSuite(shared, .fini = part, .timeout = 120);
TestSuite(shared_in_a_cluster, .fini = part, .timeout = 120);

#define TEST_EACH(what)                                                                                                \
    static void what(void);                                                                                            \
    Test(shared, what)                                                                                                 \
    {                                                                                                                  \
        both_here();                                                                                                   \
        what();                                                                                                        \
    }                                                                                                                  \
    Test(shared_in_a_cluster, what)                                                                                    \
    {                                                                                                                  \
        meet_in_a_cluster();                                                                                           \
        what();                                                                                                        \
    }                                                                                                                  \
    static void what(void)

/* The call returns `expected`. */
#define expect(expected, call)                                                                                         \
    do {                                                                                                               \
        int64_t expect_got_ = (call);                                                                                  \
        cr_assert_eq(expect_got_, (expected), "%s: %lld %s", #call, (long long)expect_got_, err.message);              \
    } while (0)

/* Java answers `text`. */
#define says(text, ...)                                                                                                \
    do {                                                                                                               \
        const char *says_ = peer_ask(java, "main", __VA_ARGS__);                                                       \
        cr_assert_str_eq(says_, text);                                                                                 \
    } while (0)

static bool subscribed(const char *channel)
{
    return WAIT_UNTIL(probe_subscribers_of(st.probe, cluster != NULL, channel) == 1, SOON_MS);
}

/* Both sides at once; each counts how often more than `most` permits were out. */
struct side {
    long most;
    long permits;
    int64_t result;
    long violations;
};

static int64_t probe_add(struct probe *p, long permits)
{
    return probe_int(p, "INCRBY " NAME ":inside %ld", permits);
}

static rdl_semaphore_t *plain;
static rdl_permit_semaphore_t *leased;

static void *run_plain(void *arg)
{
    struct probe *p = probe_open(st.server);
    struct side *side = arg;

    for (int i = 0; i < ROUNDS && side->result == RDL_OK; i++) {
        if ((side->result = rdl_semaphore_try_acquire(plain, side->permits, 20000, NULL)) < 0)
            break;
        side->violations += probe_add(p, side->permits) > side->most;
        (void)probe_add(p, -side->permits);
        side->result = rdl_semaphore_release(plain, side->permits, NULL);
    }
    probe_close(p);
    return NULL;
}

static void *run_leased(void *arg)
{
    struct probe *p = probe_open(st.server);
    struct side *side = arg;
    rdl_permit_t permit;

    for (int i = 0; i < ROUNDS && side->result == RDL_OK; i++) {
        if ((side->result = rdl_permit_semaphore_try_acquire(leased, 1, 20000, LEASE_MS, &permit, NULL)) < 0)
            break;
        side->violations += probe_add(p, 1) > side->most;
        (void)probe_add(p, -1);
        side->result = rdl_permit_semaphore_release(leased, 1, &permit, NULL);
    }
    probe_close(p);
    return NULL;
}

static void run_both(void *(*ours)(void *), struct side sides[2], const char *first, const char *second)
{
    unsigned ids[2];
    pthread_t threads[2];

    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, ours, &sides[i]), 0);
    ids[0] = peer_send(java, "one", "%s", first);
    ids[1] = peer_send(java, "two", "%s", second);
    for (size_t i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        expect(RDL_OK, sides[i].result);
        cr_assert_eq(sides[i].violations, 0);
        cr_assert_str_eq(peer_answer(java, ids[i], 60000), "ok 0");
    }
}

/* ---- semaphore -------------------------------------------------------------------------------------------------- */

TEST_EACH(permits_taken_on_one_side_are_missing_on_the_other)
{
    expect(RDL_OK, rdl_semaphore(st.client, NAME, NULL, &plain, &err));
    expect(1, rdl_semaphore_try_set_permits(plain, 3, &err));
    says("ok false", "semset c " NAME " 9");
    says("ok true", "semtake c " NAME " 2 0");
    expect(RDL_ETIMEDOUT, rdl_semaphore_try_acquire(plain, 2, 0, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(plain, 1, 0, &err));
    says("ok false", "semtake c " NAME " 1 0");
    says("ok", "semgive c " NAME " 3");
    expect(3, rdl_semaphore_drain(plain, &err));
    says("ok 0", "semfree c " NAME);
    rdl_semaphore_free(plain);
}

static void note(rdl_semaphore_t *s, int64_t result, const rdl_err_t *e, void *outcome)
{
    (void)s;
    outcome_note(NULL, result, e, outcome);
}

TEST_EACH(waiters_are_woken_both_ways)
{
    struct outcome o = {0};
    unsigned id;

    expect(RDL_OK, rdl_semaphore(st.client, NAME, NULL, &plain, &err));
    expect(1, rdl_semaphore_try_set_permits(plain, 0, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire_async(plain, NULL, 2, 20000, note, &o, NULL, &err));
    cr_assert(subscribed("redisson_sc:{" NAME "}"));
    says("ok", "semgive c " NAME " 2");
    expect(RDL_OK, outcome_wait(&o, 1000));
    cr_assert(WAIT_UNTIL(probe_channels_of(st.probe, cluster != NULL) == 0, SOON_MS));
    id = peer_send(java, "one", "semtake c " NAME " 2 20000");
    cr_assert(subscribed("redisson_sc:{" NAME "}"));
    expect(RDL_OK, rdl_semaphore_release(plain, 2, &err));
    cr_assert_str_eq(peer_answer(java, id, 2000), "ok true");
    rdl_semaphore_free(plain);
}

Test(shared, thousands_of_rounds_never_have_more_permits_out_than_there_are)
{
    struct side sides[2] = {{.most = 3, .permits = 1}, {.most = 3, .permits = 2}};

    both_here();
    expect(RDL_OK, rdl_semaphore(st.client, NAME, NULL, &plain, &err));
    expect(1, rdl_semaphore_try_set_permits(plain, 3, &err));
    (void)probe_ask(st.probe, "SET " NAME ":inside 0");
    run_both(run_plain, sides, "semrounds c " NAME " 1 1000 3", "semrounds c " NAME " 2 1000 3");
    expect(3, rdl_semaphore_available(plain, &err));
    rdl_semaphore_free(plain);
}

/* ---- permits with leases ---------------------------------------------------------------------------------------- */

TEST_EACH(permits_of_one_side_are_known_to_the_other)
{
    const char *answer;
    rdl_permit_t ours, theirs;

    expect(RDL_OK, rdl_permit_semaphore(st.client, NAME, NULL, &leased, &err));
    says("ok true", "idset c " NAME " 2");
    answer = peer_ask(java, "main", "idtake c " NAME " 0 30000");
    cr_assert_eq(strlen(answer), 3 + 32, "%s", answer);
    memcpy(theirs.id, answer + 3, 33);
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(leased, 1, 0, LEASE_MS, &ours, &err));
    says("ok null", "idtake c " NAME " 0 30000");
    expect(2, rdl_permit_semaphore_acquired(leased, &err));
    says("ok true", "idextend c " NAME " %s 90000", ours.id);
    cr_assert_gt(rdl_permit_semaphore_remaining_ms(leased, &ours, &err), 80000);
    expect(RDL_OK, rdl_permit_semaphore_extend(leased, &theirs, 60000, &err));
    says("ok true", "idgive c " NAME " %s", ours.id);
    expect(RDL_ELOST, rdl_permit_semaphore_release(leased, 1, &ours, &err));
    expect(RDL_OK, rdl_permit_semaphore_release(leased, 1, &theirs, &err));
    says("ok 2", "idfree c " NAME);
    rdl_permit_semaphore_free(leased);
}

TEST_EACH(expired_permits_of_one_side_let_the_other_in)
{
    rdl_permit_t p;

    expect(RDL_OK, rdl_permit_semaphore(st.client, NAME, NULL, &leased, &err));
    says("ok true", "idset c " NAME " 1");
    cr_assert_neq(strcmp(peer_ask(java, "main", "idtake c " NAME " 0 300"), "ok null"), 0);
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(leased, 1, 5000, 300, &p, &err));
    cr_assert_neq(strcmp(peer_ask(java, "main", "idtake c " NAME " 5000 30000"), "ok null"), 0);
    expect(RDL_ETIMEDOUT, rdl_permit_semaphore_try_acquire(leased, 1, 0, 300, &p, &err));
    rdl_permit_semaphore_free(leased);
}

Test(shared, thousands_of_rounds_never_have_more_leased_permits_out_than_there_are)
{
    struct side sides[2] = {{.most = 2}, {.most = 2}};

    both_here();
    expect(RDL_OK, rdl_permit_semaphore(st.client, NAME, NULL, &leased, &err));
    expect(1, rdl_permit_semaphore_try_set_permits(leased, 2, &err));
    (void)probe_ask(st.probe, "SET " NAME ":inside 0");
    run_both(run_leased, sides, "idrounds c " NAME " 1000 2", "idrounds c " NAME " 1000 2");
    expect(2, rdl_permit_semaphore_available(leased, &err));
    rdl_permit_semaphore_free(leased);
}

/* ---- latch ------------------------------------------------------------------------------------------------------ */

static void note_latch(rdl_latch_t *latch, int64_t result, const rdl_err_t *e, void *outcome)
{
    (void)latch;
    outcome_note(NULL, result, e, outcome);
}

TEST_EACH(latch_counted_down_by_both_opens_for_both)
{
    rdl_latch_t *latch = NULL;

    expect(RDL_OK, rdl_latch(st.client, NAME, NULL, &latch, &err));
    for (int round = 0; round < 100; round++) {
        struct outcome o = {0};
        unsigned id;

        if (round % 2 == 0)
            expect(1, rdl_latch_try_set_count(latch, 2, &err));
        else
            says("ok true", "latchset c " NAME " 2");
        id = peer_send(java, "one", "latchwait c " NAME " 20000");
        expect(RDL_OK, rdl_latch_await_async(latch, NULL, 20000, note_latch, &o, NULL, &err));
        if (round % 4 < 2) {
            expect(1, rdl_latch_count_down(latch, &err));
            says("ok", "latchdown c " NAME);
        } else {
            says("ok", "latchdown c " NAME);
            expect(0, rdl_latch_count_down(latch, &err));
        }
        expect(RDL_OK, outcome_wait(&o, 2000));
        cr_assert_str_eq(peer_answer(java, id, 2000), "ok true");
    }
    rdl_latch_free(latch);
}
