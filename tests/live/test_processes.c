/* SPDX-License-Identifier: MIT */
/* test_processes.c - the main job: processes that share nothing but the server exclude each other, whatever becomes of
 * them. */
#include "tests/live/live.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "counter"
#define LEASE_MS 3000
#define WAITER_LIFE_MS 6000

/* Memory that the processes share, to see what they do. `value` is what the lock guards: it is read, and written back
 * later. */
struct shared {
    volatile int64_t value;
    volatile int64_t last_token;
    atomic_int inside;
    atomic_int violations;
    atomic_int done;
    atomic_int holding; /* the pid of a child that holds the lock and waits to be killed */
};

static struct shared *shared;

static void set_up(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(shared, MAP_FAILED);
    st.server = server_start(NULL);
    st.probe = probe_open(st.server);
}

TestSuite(processes, .init = set_up, .fini = live_fini, .timeout = 60);

/* In a child: a client of its own. */
static rdl_lock_t *open_lock(rdl_client_t **ret_client)
{
    *ret_client = client_open(server_uri(st.server), OPTIONS(.watchdog_lease_ms = LEASE_MS));
    return reentrant(*ret_client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
}

static void add_one(rdl_lock_t *lock, bool pause)
{
    int64_t token = rdl_token(lock, NULL);
    int64_t value = shared->value;

    if (atomic_fetch_add(&shared->inside, 1) != 0 || token <= shared->last_token)
        atomic_fetch_add(&shared->violations, 1);
    shared->last_token = token;
    if (pause)
        let_pass_ms(1);
    shared->value = value + 1;
    atomic_fetch_sub(&shared->inside, 1);
}

static pid_t start_adder(int rounds)
{
    pid_t child = fork();
    rdl_client_t *client;
    rdl_lock_t *lock;

    if (child != 0)
        return child;
    lock = open_lock(&client);
    for (int i = 0; i < rounds; i++) {
        if (rdl_lock(lock, RDL_LEASE_AUTO, NULL) != RDL_OK)
            _exit(1);
        add_one(lock, i % 16 == 0);
        if (rdl_unlock(lock, NULL) != RDL_OK)
            _exit(2);
        atomic_fetch_add(&shared->done, 1);
    }
    rdl_lock_free(lock);
    rdl_client_close(client);
    _exit(0);
}

static void expect_exit(pid_t child, int wanted)
{
    int status = -1;

    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, wanted, "status %d", status);
}

Test(processes, eight_processes_lose_no_increment)
{
    enum { PROCESSES = 8, ROUNDS = 100 };
    pid_t children[PROCESSES];

    for (int i = 0; i < PROCESSES; i++)
        children[i] = start_adder(ROUNDS);
    for (int i = 0; i < PROCESSES; i++)
        expect_exit(children[i], 0);
    cr_assert_eq(atomic_load(&shared->violations), 0);
    cr_assert_eq(shared->value, PROCESSES * ROUNDS);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0 && probe_channels(st.probe) == 0, CLEAN_BOUND_MS));
}

/* Holds, says so, and never lets go. */
static pid_t start_holder(void)
{
    pid_t child = fork();
    rdl_client_t *client;
    rdl_lock_t *lock;

    if (child != 0)
        return child;
    lock = open_lock(&client);
    if (rdl_lock(lock, RDL_LEASE_AUTO, NULL) != RDL_OK)
        _exit(1);
    atomic_store(&shared->holding, getpid());
    for (;;)
        pause();
}

Test(processes, killed_holder_is_followed_when_its_lease_ends)
{
    rdl_lock_t *lock;
    int64_t killed_at;
    pid_t holder;

    holder = start_holder();
    cr_assert(WAIT_UNTIL(atomic_load(&shared->holding) == holder, SOON_MS));
    st.client = client_open(server_uri(st.server), OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, LEASE_MS * 5 / 4, RDL_LEASE_AUTO, &err)); /* it lives, and renews */
    kill(holder, SIGKILL);
    expect_exit(holder, SIGKILL);
    killed_at = now_ms();
    expect(RDL_OK, rdl_try_lock(lock, 10000, RDL_LEASE_AUTO, &err));
    expect_between(LEASE_MS / 2, now_ms() - killed_at, LEASE_MS + SLACK_MS);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* Killed anywhere, holding or waiting: the others go on, and what it held is free within its lease. */
Test(processes, processes_killed_at_any_moment_stop_nobody_for_longer_than_a_lease)
{
    enum { ROUNDS = 12, OTHERS = 3 };
    pid_t others[OTHERS];

    for (int i = 0; i < OTHERS; i++)
        others[i] = start_adder(150);
    for (int i = 0; i < ROUNDS; i++) {
        pid_t victim = start_adder(1000000);
        int before;

        let_pass_ms(20 + i * 5);
        kill(victim, SIGKILL);
        cr_assert_eq(waitpid(victim, NULL, 0), victim);
        atomic_store(&shared->inside, 0); /* it may have died in there */
        before = atomic_load(&shared->done);
        cr_assert(WAIT_UNTIL(atomic_load(&shared->done) > before || atomic_load(&shared->done) >= OTHERS * 150,
                             LEASE_MS + SOON_MS));
    }
    for (int i = 0; i < OTHERS; i++)
        expect_exit(others[i], 0);
    cr_assert(stage_lines_end(&st), "who was killed as it waited stands in line for ever");
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0 && probe_channels(st.probe) == 0, LEASE_MS + CLEAN_BOUND_MS));
}

/* ---- fair semaphores -------------------------------------------------------------------------------------------- */

#define SEMAPHORE "permits"
#define PERMITS 3
#define TAKERS 8

/* What each taker has at the moment, and how often it has had something. What a dead one had is taken off when it is
 * known to be dead; its leases end later, so that is strict. */
static struct use {
    atomic_int taken[TAKERS];
    atomic_int rounds[TAKERS];
    atomic_int overbooked;
} * use;

static int permits_taken(void)
{
    int sum = 0;

    for (int i = 0; i < TAKERS; i++)
        sum += atomic_load(&use->taken[i]);
    return sum;
}

/* Takes one to three permits, in turn with the others, for as long as it lives. */
static pid_t start_taker(int taker)
{
    rdl_semaphore_options_t options = RDL_SEMAPHORE_OPTIONS_INIT;
    rdl_permit_semaphore_t *semaphore = NULL;
    rdl_permit_t permits[PERMITS];
    pid_t child = fork();
    int64_t want = 1 + taker % PERMITS;

    if (child != 0)
        return child;
    options.fair = true;
    options.waiter_life_ms = WAITER_LIFE_MS;
    if (rdl_permit_semaphore(client_open(server_uri(st.server), NULL), SEMAPHORE, &options, &semaphore, NULL) < 0)
        _exit(1);
    for (;;) {
        if (rdl_permit_semaphore_acquire(semaphore, want, LEASE_MS, permits, NULL) < 0)
            _exit(2);
        atomic_store(&use->taken[taker], (int)want);
        if (permits_taken() > PERMITS)
            atomic_fetch_add(&use->overbooked, 1);
        atomic_store(&use->taken[taker], 0);
        atomic_fetch_add(&use->rounds[taker], 1);
        if (rdl_permit_semaphore_release(semaphore, want, permits, NULL) < 0)
            _exit(3);
    }
}

/* Half of them die at any moment: with permits, in front of the queue, or in it. The others get their turns again when
 * the dead ones' leases and signs of life are over, which end together and not one after another. */
Test(processes, takers_killed_at_any_moment_stop_a_fair_semaphore_for_one_life, .timeout = 90)
{
    enum { DYING = TAKERS / 2 };
    rdl_semaphore_options_t options = {.version = 1, .fair = true, .waiter_life_ms = WAITER_LIFE_MS};
    rdl_permit_semaphore_t *semaphore = NULL;
    int before[TAKERS];
    pid_t takers[TAKERS];

    use = mmap(NULL, sizeof *use, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(use, MAP_FAILED);
    left_behind = true; /* a semaphore stays */
    for (int i = 0; i < TAKERS; i++)
        takers[i] = start_taker(i);
    st.client = client_open(server_uri(st.server), NULL);
    expect(RDL_OK, rdl_permit_semaphore(st.client, SEMAPHORE, &options, &semaphore, &err));
    expect(1, rdl_permit_semaphore_try_set_permits(semaphore, PERMITS, &err));
    for (int i = 0; i < TAKERS; i++)
        cr_assert(WAIT_UNTIL(atomic_load(&use->rounds[i]) > 20, SOON_MS), "taker %d", i);
    for (int i = 0; i < DYING; i++) {
        let_pass_ms(3 + i * 7);
        kill(takers[i], SIGKILL);
        expect_exit(takers[i], SIGKILL);
        atomic_store(&use->taken[i], 0);
    }
    for (int i = DYING; i < TAKERS; i++)
        before[i] = atomic_load(&use->rounds[i]);
    for (int i = DYING; i < TAKERS; i++)
        cr_assert(
            WAIT_UNTIL(atomic_load(&use->rounds[i]) > before[i] + 20, WAITER_LIFE_MS * 4 / 3 + LEASE_MS + SOON_MS),
            "taker %d", i);
    cr_assert_eq(atomic_load(&use->overbooked), 0);
    for (int i = DYING; i < TAKERS; i++) {
        kill(takers[i], SIGKILL);
        expect_exit(takers[i], SIGKILL);
    }
    cr_assert(
        WAIT_UNTIL(rdl_permit_semaphore_available(semaphore, &err) == PERMITS, LEASE_MS + SLACK_MS)); /* none is lost */
    rdl_permit_semaphore_free(semaphore);
}
