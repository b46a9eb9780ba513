/* test_red.c - one lock on five servers: a majority is enough, less is nothing, and what is lost is lost. */
#include "tests/live/live.h"

#define N 5
#define LEASE_MS 10000
#define NAME "r"

static struct server *server[N];
static struct probe *probe[N];
static rdl_client_t *client[2][N]; /* ours, the rival's */
static rdl_lock_t *member[2][N];
static rdl_lock_t *red[2];

static void fini(void)
{
    for (int side = 0; side < 2; side++) {
        rdl_lock_free(red[side]);
        for (int i = 0; i < N; i++)
            rdl_lock_free(member[side][i]);
        for (int i = 0; i < N; i++)
            rdl_client_close(client[side][i]);
    }
    for (int i = 0; i < N; i++) {
        probe_close(probe[i]);
        server_stop(server[i]);
    }
}

TestSuite(red, .fini = fini, .timeout = 60);

static void open_with(const rdl_client_options_t *client_options, const rdl_lock_options_t *options)
{
    for (int i = 0; i < N; i++) {
        server[i] = server_start(NULL);
        probe[i] = probe_open(server[i]);
    }
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < N; i++) {
            client[side][i] = client_open(server_uri(server[i]), client_options);
            member[side][i] = reentrant(client[side][i], NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
        }
        expect(RDL_OK, rdl_red_lock(member[side], N, options, &red[side], &err));
    }
}

/* Servers of a test are young; 1 s rather than 50 ms, because the machine may be busy. */
#define TOLERANT LOCK_OPTIONS(.min_uptime_ms = RDL_UPTIME_ANY, .node_timeout_ms = 1000)
#define IMPATIENT LOCK_OPTIONS(.min_uptime_ms = RDL_UPTIME_ANY, .node_timeout_ms = 50)

static int keys(void)
{
    int n = 0;

    for (int i = 0; i < N; i++)
        n += probe[i] != NULL && probe_keys(probe[i]) > 0;
    return n;
}

static void pause_some(int n)
{
    for (int i = 0; i < n; i++)
        server_pause(server[i]);
}

static void resume_some(int n)
{
    for (int i = 0; i < n; i++)
        server_resume(server[i]);
}

/* M9 */
Test(red, majority_grants_and_all_are_released)
{
    int64_t left;

    open_with(NULL, TOLERANT);
    expect(RDL_OK, rdl_try_lock(red[0], 0, LEASE_MS, &err));
    left = rdl_remaining_ms(red[0], &err);
    expect_between(LEASE_MS - 1500, left, LEASE_MS - LEASE_MS / 100 - 2); /* lease - elapsed - drift */
    expect(1, rdl_is_held(red[0], &err));
    cr_assert_gt(rdl_token(red[0], &err), INT64_C(1) << 40);
    cr_assert(WAIT_UNTIL(keys() == N, SOON_MS)); /* the rest joins */
    expect(RDL_ETIMEDOUT, rdl_try_lock(red[1], 0, LEASE_MS, &err));
    expect(1, rdl_is_locked(red[1], &err));
    expect_between(1, rdl_remaining_ms(red[1], &err), LEASE_MS);
    expect(RDL_OK, rdl_try_lock(red[0], 0, LEASE_MS, &err));
    expect(2, rdl_hold_count(red[0], &err));
    expect(RDL_OK, rdl_extend(red[0], 2 * LEASE_MS, &err));
    expect_between(LEASE_MS, rdl_remaining_ms(red[0], &err), 2 * LEASE_MS);
    expect(RDL_OK, rdl_unlock(red[0], &err));
    expect(RDL_OK, rdl_unlock(red[0], &err));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
    expect(0, rdl_is_locked(red[1], &err));
    cr_assert_str_eq(rdl_lock_type(red[0]), "red");
}

/* M8 */
Test(red, hung_minority_costs_nothing)
{
    int64_t start;

    open_with(NULL, IMPATIENT);
    pause_some(2);
    start = now_ms();
    expect(RDL_OK, rdl_try_lock(red[0], 2000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(red[0], &err));
    cr_expect_lt(now_ms() - start, 2000);
    resume_some(2);
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS)); /* on those that did not answer, too */
}

Test(red, hung_majority_is_no_quorum_within_the_node_timeout)
{
    int64_t start;

    open_with(NULL, IMPATIENT);
    pause_some(3);
    start = now_ms();
    expect(RDL_ENOQUORUM, rdl_try_lock(red[0], 0, LEASE_MS, &err));
    expect_between(49, now_ms() - start, 50 + SLACK_MS);
    cr_assert(strstr(err.message, "3 are needed") != NULL, "%s", err.message);
    expect(0, rdl_hold_count(red[0], &err));
    resume_some(3);
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
}

Test(red, killed_minority_does_not_matter_and_killed_majority_is_noticed)
{
    struct losses losses;

    open_with(OPTIONS(.watchdog_lease_ms = 1000), TOLERANT);
    losses_init(&losses);
    expect(RDL_OK, rdl_on_lost(red[0], losses_note, &losses, &err));
    server_kill(server[0]);
    server_kill(server[1]);
    probe_close(probe[0]);
    probe_close(probe[1]);
    probe[0] = probe[1] = NULL;
    expect(RDL_OK, rdl_try_lock(red[0], 20000, RDL_LEASE_AUTO, &err));
    expect(RDL_HELD, rdl_hold_state(red[0], &err));
    server_kill(server[2]);
    probe_close(probe[2]);
    probe[2] = NULL;
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    expect(RDL_ELOST, rdl_hold_count(red[0], &err));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS)); /* what is left of it is given back */
    expect(RDL_ELOST, rdl_unlock(red[0], &err));
    expect(0, rdl_hold_count(red[0], &err));
}

/* M6: the empty server does not count, so the rival has two at most; and a holder that has lost one goes on with three. */
Test(red, server_that_restarts_empty_gives_nobody_a_majority)
{
    open_with(NULL, LOCK_OPTIONS(.node_timeout_ms = 1000, .min_uptime_ms = 3600000));
    rdl_lock_free(red[0]);
    expect(RDL_OK, rdl_red_lock(member[0], N, IMPATIENT, &red[0], &err));
    pause_some(2);
    expect(RDL_OK, rdl_try_lock(red[0], 20000, LEASE_MS, &err));
    let_pass_ms(100); /* the two that hang are given up */
    server_kill(server[4]);
    server_start_again(server[4]);
    probe_close(probe[4]);
    probe[4] = probe_open(server[4]);
    resume_some(2);
    expect(RDL_ENOQUORUM, rdl_try_lock(red[1], 1500, LEASE_MS, &err));
    cr_assert(strstr(err.message, "does not count") != NULL, "%s", err.message);
    expect(1, rdl_is_held(red[0], &err));
}

/* M5: the majority's answers come when the lease is over. */
Test(red, majority_that_comes_too_late_is_given_back)
{
    struct proxy *proxy[N];
    rdl_client_t *slow[N];
    rdl_lock_t *locks[N], *lock = NULL;

    open_with(NULL, TOLERANT);
    for (int i = 0; i < N; i++) {
        proxy[i] = proxy_start(server[i]);
        slow[i] = client_open(proxy_uri(proxy[i]), NULL);
        locks[i] = reentrant(slow[i], NAME, NULL);
        if (i < 3)
            proxy_delay(proxy[i], PROXY_TO_CLIENT, 300);
    }
    expect(RDL_OK, rdl_red_lock(locks, N, TOLERANT, &lock, &err));
    cr_assert_lt(rdl_try_lock(lock, 0, 200, &err), 0);
    expect(0, rdl_hold_count(lock, &err));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
    for (int i = 0; i < N; i++)
        proxy_delay(proxy[i], PROXY_TO_CLIENT, 0);
    expect(RDL_OK, rdl_try_lock(red[1], 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(red[1], &err));
    rdl_lock_free(lock);
    for (int i = 0; i < N; i++) {
        rdl_lock_free(locks[i]);
        rdl_client_close(slow[i]);
        proxy_stop(proxy[i]);
    }
}

Test(red, waiter_gets_it_after_the_holder)
{
    struct actor *actor = actor_new();

    open_with(NULL, TOLERANT);
    expect(RDL_OK, rdl_try_lock(red[0], 0, LEASE_MS, &err));
    actor_try_lock(actor, red[1], 20000, LEASE_MS);
    let_pass_ms(50);
    cr_assert(!actor_idle(actor));
    expect(RDL_OK, rdl_unlock(red[0], &err));
    expect_result(RDL_OK, actor, SOON_MS);
    actor_unlock(actor, red[1]);
    expect_result(RDL_OK, actor, SOON_MS);
    actor_free(actor);
}

/* An owner given explicitly is of one client; in the others one stands for it. */
Test(red, explicit_owner_acts_in_every_client)
{
    struct outcome taken = {0}, released = {0}, stopped = {0};
    rdl_owner_t *owner = NULL;
    rdl_op_t *op = NULL;

    open_with(NULL, TOLERANT);
    expect(RDL_OK, rdl_owner_new(client[0][2], &owner, &err));
    expect(RDL_OK, rdl_lock_async(red[0], owner, RDL_LEASE_AUTO, outcome_note, &taken, NULL, &err));
    expect(RDL_OK, outcome_wait(&taken, SOON_MS));
    expect(RDL_HELD, rdl_owner_hold_state(owner, red[0], &err));
    expect(0, rdl_hold_count(red[0], &err));
    expect(RDL_OK, rdl_lock_async(red[0], NULL, LEASE_MS, outcome_note, &stopped, &op, &err));
    rdl_op_cancel(op);
    expect(RDL_ECANCELED, outcome_wait(&stopped, SOON_MS));
    rdl_op_free(op);
    expect(RDL_OK, rdl_unlock_async(red[0], owner, outcome_note, &released, NULL, &err));
    expect(RDL_OK, outcome_wait(&released, SOON_MS));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
    expect(0, rdl_force_unlock(red[0], &err));
    rdl_owner_free(owner);
}

static _Atomic int inside, overlaps;

static int64_t work(void *arg, rdl_err_t *reterr)
{
    for (int i = 0; i < 100; i++) {
        int64_t rc = rdl_try_lock(arg, 30000, RDL_LEASE_AUTO, reterr);

        if (rc < 0)
            return rc;
        overlaps += atomic_fetch_add(&inside, 1) != 0;
        (void)atomic_fetch_sub(&inside, 1);
        if ((rc = rdl_unlock(arg, reterr)) < 0)
            return rc;
    }
    return RDL_OK;
}

Test(red, rivals_exclude_each_other)
{
    struct actor *actor[4];

    open_with(NULL, TOLERANT);
    for (int i = 0; i < 4; i++)
        actor_call(actor[i] = actor_new(), work, red[i % 2]);
    for (int i = 0; i < 4; i++)
        expect_result(RDL_OK, actor[i], 50000);
    for (int i = 0; i < 4; i++)
        actor_free(actor[i]);
    cr_assert_eq(overlaps, 0);
}
