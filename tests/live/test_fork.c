/* SPDX-License-Identifier: MIT */
/* test_fork.c - X4: a child made by fork gets errors from what it inherited, and harms nothing of its parent's. */
#include "tests/live/child.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "family"
#define LEASE_MS 6000

LIVE_SUITE(fork, 60);

/* Everything that a child could call, on a lock that it inherited. */
static void use_inherited_lock(rdl_lock_t *lock, rdl_owner_t *owner)
{
    CHECK_IN_CHILD(rdl_try_lock(lock, 1000, 1000, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_lock(lock, 1000, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_unlock(lock, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_force_unlock(lock, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_extend(lock, 1000, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_is_locked(lock, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_is_held(lock, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_hold_count(lock, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_hold_state(lock, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_remaining_ms(lock, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_token(lock, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_on_lost(lock, NULL, NULL, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_try_lock_async(lock, NULL, 0, 1000, NULL, NULL, NULL, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_unlock_async(lock, owner, NULL, NULL, NULL, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_owner_hold_state(owner, lock, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_lock_free(lock) == NULL);
}

/* And the rest. */
static void use_inherited(rdl_lock_t *lock, rdl_owner_t *owner, rdl_op_t *op)
{
    rdl_lock_t *made = NULL;
    rdl_owner_t *new_owner = NULL;

    use_inherited_lock(lock, owner);
    CHECK_IN_CHILD(rdl_reentrant_lock(st.client, "other", NULL, &made, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_simple_lock(st.client, "other", NULL, &made, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_owner_new(st.client, &new_owner, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_owner_bind(owner, NULL) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_owner_cancel(owner) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_client_fd(st.client) == RDL_EFORK);
    CHECK_IN_CHILD(rdl_client_dispatch(st.client) == RDL_EFORK);
    rdl_owner_unbind(st.client);
    rdl_op_cancel(op);
    CHECK_IN_CHILD(rdl_op_free(op) == NULL);
    CHECK_IN_CHILD(rdl_owner_free(owner) == NULL);
    CHECK_IN_CHILD(rdl_client_close(st.client) == NULL);
}

/* A client of the child's own works, whatever was inherited. */
static void use_own(void)
{
    rdl_client_t *client = client_open(server_uri(st.server), NULL);
    rdl_lock_t *lock = reentrant(client, NAME "-child", NULL);

    CHECK_IN_CHILD(rdl_try_lock(lock, SOON_MS, RDL_LEASE_AUTO, NULL) == RDL_OK);
    CHECK_IN_CHILD(rdl_unlock(lock, NULL) == RDL_OK);
    rdl_lock_free(lock);
    rdl_client_close(client);
}

Test(fork, child_gets_errors_and_the_parents_holds_go_on)
{
    struct losses losses;
    struct outcome o = {0};
    struct caller *waiter = caller_new();
    rdl_owner_t *owner = NULL;
    rdl_op_t *op = NULL;
    rdl_lock_t *lock;
    pid_t child;

    losses_init(&losses);
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_lock_async(lock, owner, RDL_LEASE_AUTO, outcome_note, &o, &op, &err));
    caller_try_lock(waiter, lock, 20000, RDL_LEASE_AUTO);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    for (int i = 0; i < 5; i++) {
        if ((child = fork()) == 0) {
            use_inherited(lock, owner, op);
            use_own();
            _exit(0);
        }
        expect_child_succeeds(child);
    }
    let_pass_ms(LEASE_MS * 5 / 4);
    expect(1, rdl_is_held(lock, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST) + losses_count(&losses, RDL_AT_RISK), 0);
    cr_assert_eq(atomic_load(&o.calls), 0);
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(atomic_load(&o.calls) == 1 || caller_idle(waiter), WOKEN_MS));
    if (atomic_load(&o.calls) == 1) {
        expect(RDL_OK, outcome_wait(&o, 0));
        expect(RDL_OK, rdl_unlock_async(lock, owner, NULL, NULL, NULL, &err));
        expect_result(RDL_OK, waiter, WOKEN_MS);
        caller_unlock(waiter, lock);
        expect_result(RDL_OK, waiter, SOON_MS);
    } else {
        expect_result(RDL_OK, waiter, 0);
        caller_unlock(waiter, lock);
        expect_result(RDL_OK, waiter, SOON_MS);
        expect(RDL_OK, outcome_wait(&o, WOKEN_MS));
        expect(RDL_OK, rdl_unlock_async(lock, owner, NULL, NULL, NULL, &err));
    }
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    rdl_op_free(op);
    rdl_owner_free(owner);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* All types held at once, each under a name of its own. */
Test(fork, X4_holds_of_every_type_go_on_whatever_the_child_does_with_them)
{
    rdl_lock_t **locks = must_alloc(kind_count * sizeof *locks);
    rdl_owner_t *owner = NULL;
    struct losses losses;
    pid_t child;

    losses_init(&losses);
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    FOR_EACH_KIND(kind)
    {
        char *name = must_format("a-%s", kind->type);
        rdl_lock_t *lock = locks[kind - kinds] = kind->make(st.client, name, NULL);

        expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
        expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
        free(name);
    }
    if ((child = fork()) == 0) {
        for (size_t i = 0; i < kind_count; i++)
            use_inherited_lock(locks[i], owner);
        CHECK_IN_CHILD(rdl_client_close(st.client) == NULL);
        _exit(0);
    }
    expect_child_succeeds(child);
    let_pass_ms(LEASE_MS * 5 / 4);
    cr_assert_eq(losses_count(&losses, RDL_LOST) + losses_count(&losses, RDL_AT_RISK), 0);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = locks[kind - kinds];

        expect(1, rdl_is_held(lock, &err));
        expect(1, rdl_is_locked(lock, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        lock_over(st.probe, lock);
    }
    free(locks);
    rdl_owner_free(owner);
}

static atomic_bool stop_working;

static int64_t work(void *arg, rdl_err_t *reterr)
{
    rdl_lock_t *lock = arg;
    int64_t rc = RDL_OK;

    while (!atomic_load(&stop_working) && rc == RDL_OK) {
        if ((rc = rdl_lock(lock, RDL_LEASE_AUTO, reterr)) == RDL_OK)
            rc = rdl_unlock(lock, reterr);
    }
    return rc;
}

/* fork catches the client's mutexes in any state; the child must not hang on them, nor the parent be disturbed. */
Test(fork, child_of_a_busy_parent_does_not_hang)
{
    enum { CALLERS = 3, FORKS = 30 };
    struct caller *callers[CALLERS];
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = caller_new();
        caller_call(callers[i], work, lock);
    }
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();

        if (child == 0) {
            alarm(10);
            CHECK_IN_CHILD(rdl_try_lock(lock, 1000, 1000, NULL) == RDL_EFORK);
            CHECK_IN_CHILD(rdl_unlock(lock, NULL) == RDL_EFORK);
            CHECK_IN_CHILD(rdl_lock_free(lock) == NULL);
            CHECK_IN_CHILD(rdl_client_close(st.client) == NULL);
            _exit(0);
        }
        expect_child_succeeds(child);
    }
    atomic_store(&stop_working, true);
    for (int i = 0; i < CALLERS; i++) {
        expect_result(RDL_OK, callers[i], SOON_MS);
        caller_free(callers[i]);
    }
    rdl_lock_free(lock);
}

/* The child lives on after its parent has closed: the server must see the parent's connections go. */
Test(fork, child_that_does_nothing_keeps_no_connection_of_its_parent_alive)
{
    int hold[2];
    char byte;
    rdl_lock_t *lock;
    pid_t child;

    stage_open(&st, .client = OPTIONS(.client_name = "parent"));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(pipe(hold), 0);
    if ((child = fork()) == 0) {
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(hold[0]);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    st.client = rdl_client_close(st.client);
    cr_assert(WAIT_UNTIL(probe_clients(st.probe, "parent") == 0, SOON_MS));
    close(hold[1]);
    expect_child_succeeds(child);
}
