/* SPDX-License-Identifier: MIT */
/* test_standstill.c - N2 and X4: a thread stands still where that hurts others most.
 *
 * The scheduler may stop a thread anywhere for as long as it likes: right behind `send`, while its connection breaks
 * under it, when the server has what was sent, or will have, and nobody else knows that the system call is over; or
 * with a mutex, for ever as far as a child is concerned that another thread makes meanwhile. This program's own `send`
 * and `pthread_mutex_lock` come before the C library's, and stop the one thread that they are told of.
 */
#include "tests/live/live.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "standing"
#define OTHER "elsewhere"
#define LEASE_MS 30000

LIVE_SUITE(standstill, 60);

/* ---- send ------------------------------------------------------------------------------------------------------- */

static _Atomic(const char *) behind; /* who sends bytes that hold this stands still; NULL: nobody does */
static atomic_bool stands;

static void stand_behind(const char *word)
{
    atomic_store(&behind, word);
}

static void let_it_go_on(void)
{
    atomic_store(&behind, NULL);
    atomic_store(&stands, false);
}

static void stand_if_told(const void *bytes, size_t len)
{
    const char *word = atomic_load(&behind);

    if (word == NULL || memmem(bytes, len, word, strlen(word)) == NULL ||
        !atomic_compare_exchange_strong(&behind, &word, NULL))
        return;
    atomic_store(&stands, true);
    while (atomic_load(&stands))
        let_pass_ms(1);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): in place of the C library's */
__attribute__((visibility("default"))) ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    ssize_t n = (ssize_t)syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);

    if (n > 0 && (flags & MSG_DONTWAIT) != 0) /* the library's, not the proxy's that sends the same bytes on */
        stand_if_told(bytes, (size_t)n);
    return n;
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

/* One thread reads for both, and finds the connection broken; the other one still stands behind its take. If its
 * request were repeated without a KILL for what it has sent, the take could run once more after the unlock. */
Test(standstill, N2_what_a_writer_has_sent_is_killed_before_anything_else_is_sent)
{
    struct caller *reader = caller_new(), *writer = caller_new();

    stage_open(&st, .proxied = true,
               .client = OPTIONS(.connections = 1, .command_timeout_ms = 10000, .reconnect_min_ms = 1,
                                 .reconnect_max_ms = 50));
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL), *other = simple(st.client, OTHER, NULL);
        int reply, request, kill;
        unsigned connections;

        expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .contains = OTHER);
        request = proxy_on(st.proxy, .action = PROXY_HOLD, .command = kind->take, .contains = NAME);
        kill = proxy_on(st.proxy, .action = PROXY_WATCH, .part = PROXY_REPLY, .command = "CLIENT", .contains = "KILL");
        caller_try_lock(reader, other, 20000, LEASE_MS);
        cr_assert(proxy_wait(st.proxy, reply, 1, SOON_MS));
        stand_behind(NAME);
        caller_try_lock(writer, lock, 20000, LEASE_MS);
        cr_assert(WAIT_UNTIL(atomic_load(&stands), SOON_MS));
        cr_assert(proxy_wait(st.proxy, request, 1, SOON_MS));

        connections = proxy_accepted(st.proxy);
        proxy_cut_client_side(st.proxy, PROXY_COMMANDERS);
        cr_assert(proxy_wait_accepted(st.proxy, connections + 1, SOON_MS)); /* the loop's own connection */
        cr_expect(!proxy_wait_accepted(st.proxy, connections + 2, 200),
                  "%s: there is a new one before the writer has left", kind->type);
        let_it_go_on();
        expect_result(RDL_OK, writer, SOON_MS);
        expect_result(RDL_OK, reader, SOON_MS);
        cr_expect_geq(proxy_acted(st.proxy, kill), 1, "%s", kind->type);
        caller_unlock(reader, other);
        expect_result(RDL_OK, reader, SOON_MS);
        caller_unlock(writer, lock);
        expect_result(RDL_OK, writer, SOON_MS);
        proxy_let_go(st.proxy, request);
        proxy_let_go(st.proxy, reply);
        let_pass_ms(50);
        cr_assert_eq(lock_keys(st.probe, NAME), 0, "%s: the take has run after its unlock", kind->type);
        rdl_lock_free(other);
        lock_over(st.probe, lock);
    }
    caller_free(writer);
    caller_free(reader);
}

/* No connection is made before the writer has left: whoever else wants one hears so in time. */
Test(standstill, N2_deadlines_hold_while_a_writer_keeps_the_connection)
{
    struct caller *reader = caller_new(), *writer = caller_new();
    enum { WRITERS_MS = 2500 }; /* before it stands as well as after */
    rdl_lock_t *lock, *other, *third;
    int64_t begun;
    int reply, rc;

    stage_open(&st, .proxied = true,
               .client = OPTIONS(.connections = 1, .command_timeout_ms = 10000, .reconnect_min_ms = 1,
                                 .reconnect_max_ms = 50));
    lock = reentrant(st.client, NAME, NULL);
    other = reentrant(st.client, OTHER, NULL);
    third = reentrant(st.client, "third", NULL);
    reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .contains = OTHER);
    caller_try_lock(reader, other, 20000, LEASE_MS);
    cr_assert(proxy_wait(st.proxy, reply, 1, SOON_MS));
    stand_behind(NAME);
    caller_try_lock(writer, lock, WRITERS_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(atomic_load(&stands), SOON_MS));
    begun = now_ms();
    proxy_cut(st.proxy, PROXY_COMMANDERS);
    rc = rdl_try_lock(third, 200, LEASE_MS,
                      &err); /* sent before the reader has seen that the connection is broken, or not */
    cr_assert(rc == RDL_ECONN || rc == RDL_EUNKNOWN, "%s", code_name(rc));
    cr_assert(!caller_idle(writer));
    let_pass_ms(begun + WRITERS_MS + 50 - now_ms()); /* whole milliseconds are not exact */
    let_it_go_on();
    expect_result(RDL_EUNKNOWN, writer, SOON_MS); /* its own deadline has passed */
    expect_result(RDL_OK, reader, SOON_MS);
    expect(RDL_OK, rdl_try_lock(third, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(third, &err));
    caller_unlock(reader, other);
    expect_result(RDL_OK, reader, SOON_MS);
    caller_free(writer);
    caller_free(reader);
    rdl_lock_free(third);
    rdl_lock_free(other);
    rdl_lock_free(lock);
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

static int (*take_mutex)(pthread_mutex_t *);
static _Thread_local unsigned mutexes_left; /* this thread stops when it has taken so many more; 0: it goes on */
static sem_t stopped, over;
static bool midway; /* it has stopped, and is not at its end */

__attribute__((constructor)) static void find_the_true_one(void)
{
    *(void **)&take_mutex = dlsym(RTLD_NEXT, "pthread_mutex_lock");
}

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int rc;

    if (take_mutex == NULL)
        find_the_true_one();
    rc = take_mutex(mutex);
    if (mutexes_left > 0 && --mutexes_left == 0) {
        midway = true;
        (void)sem_post(&stopped);
        (void)sem_wait(&over);
    }
    return rc;
}

/* What a thread does while another one forks. What it does it with is made and warmed up before. */
struct task {
    const char *what;
    void (*begin)(struct task *task); /* @thread the one that forks */
    void (*run)(struct task *task);   /* @thread the other */
    void (*end)(struct task *task);   /* @thread the one that forks */
    bool at_exit;                     /* what is looked at is how the thread ends */
    rdl_client_t *client;
    rdl_lock_t *lock;
    rdl_owner_t *owner;
    unsigned stop_at;
};

static void pair(rdl_lock_t *lock)
{
    if (rdl_try_lock(lock, 5000, LEASE_MS, NULL) == RDL_OK)
        (void)rdl_unlock(lock, NULL);
}

/* The forking thread is known to the client, too. */
static void begin_with_client(struct task *task)
{
    task->client = client_open(server_uri(st.server), NULL);
    task->lock = reentrant(task->client, NAME, NULL);
    expect(RDL_OK, rdl_owner_new(task->client, &task->owner, &err));
    pair(task->lock);
}

static void end_with_client(struct task *task)
{
    rdl_lock_free(task->lock);
    rdl_owner_free(task->owner);
    rdl_client_close(task->client);
    task->client = NULL;
}

static void run_pair(struct task *task)
{
    pair(task->lock);
}

static void run_owner(struct task *task)
{
    rdl_owner_t *owner = NULL;

    if (rdl_owner_new(task->client, &owner, NULL) < 0 || rdl_owner_bind(owner, NULL) < 0)
        return;
    pair(task->lock);
    (void)rdl_owner_cancel(owner);
    rdl_owner_unbind(task->client);
    rdl_owner_free(owner);
}

static void run_handles(struct task *task)
{
    rdl_lock_t *made = NULL;

    if (rdl_fair_lock(task->client, OTHER, NULL, &made, NULL) == RDL_OK)
        rdl_lock_free(made);
}

static void run_open(struct task *task)
{
    rdl_client_t *opened = NULL;

    (void)task;
    if (rdl_client_open(server_uri(st.server), NULL, &opened, NULL) == RDL_OK)
        rdl_client_close(opened);
}

/* Handle and owner outlive their client, so the child may use them. */
static void run_close(struct task *task)
{
    rdl_client_close(task->client);
}

static void end_of_closed(struct task *task)
{
    rdl_lock_free(task->lock);
    rdl_owner_free(task->owner);
}

static void *do_task(void *arg)
{
    struct task *task = arg;

    mutexes_left = task->at_exit ? 0 : task->stop_at;
    task->run(task);
    mutexes_left = task->at_exit ? task->stop_at : 0;
    return NULL;
}

static void leave(void)
{
    _exit(0);
}

/* Only this thread is left here, and whatever mutex the other one has is taken for ever. */
_Noreturn static void be_the_child(struct task *task)
{
    rdl_client_t *own;
    rdl_lock_t *lock;

    alarm(20);
    if (rdl_try_lock(task->lock, 1000, 1000, NULL) != RDL_EFORK || rdl_unlock(task->lock, NULL) != RDL_EFORK ||
        rdl_is_held(task->lock, NULL) != RDL_EFORK || rdl_owner_bind(task->owner, NULL) != RDL_EFORK ||
        rdl_owner_cancel(task->owner) != RDL_EFORK || rdl_owner_hold_state(task->owner, task->lock, NULL) != RDL_EFORK)
        _exit(1);
    (void)rdl_lock_free(task->lock);
    (void)rdl_owner_free(task->owner);
    own = client_open(server_uri(st.server), NULL);
    lock = reentrant(own, NAME "-child", NULL);
    if (rdl_try_lock(lock, 5000, RDL_LEASE_AUTO, NULL) != RDL_OK || rdl_unlock(lock, NULL) != RDL_OK)
        _exit(2);
    rdl_lock_free(lock);
    rdl_client_close(own);
    (void)atexit(leave); /* before Criterion's */
    pthread_exit(NULL);  /* what the thread leaves behind is looked through */
}

/* The task is done once more, and stopped behind its next mutex, until it comes to its end. */
static void expect_children_never_hang(struct task *task)
{
    midway = true;
    for (task->stop_at = 1; midway; task->stop_at++) {
        pthread_t doer;
        pid_t child;
        int status = -1;

        midway = false;
        task->begin(task);
        cr_assert_eq(pthread_create(&doer, NULL, do_task, task), 0);
        while (sem_trywait(&stopped) != 0 && pthread_tryjoin_np(doer, NULL) != 0)
            let_pass_ms(1);
        if (midway) {
            if ((child = fork()) == 0)
                be_the_child(task);
            cr_assert_eq(waitpid(child, &status, 0), child);
            cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s, mutex %u: the child's status is %d",
                      task->what, task->stop_at, status);
            (void)sem_post(&over);
            cr_assert_eq(pthread_join(doer, NULL), 0);
        }
        task->end(task);
    }
    cr_assert_gt(task->stop_at, 2, "%s takes no mutex", task->what);
}

Test(standstill, X4_child_of_a_thread_never_waits_for_what_another_one_of_its_parents_had)
{
    struct task tasks[] = {
        {.what = "lock and unlock", .run = run_pair, .end = end_with_client},
        {.what = "an owner", .run = run_owner, .end = end_with_client},
        {.what = "a handle", .run = run_handles, .end = end_with_client},
        {.what = "open and close", .run = run_open, .end = end_with_client},
        {.what = "close", .run = run_close, .end = end_of_closed},
        {.what = "the end of a thread", .run = run_pair, .end = end_with_client, .at_exit = true},
    };

    stage_open(&st);
    (void)sem_init(&stopped, 0, 0);
    (void)sem_init(&over, 0, 0);
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        tasks[i].begin = begin_with_client;
        expect_children_never_hang(&tasks[i]);
    }
}

/* ---- the whole process ------------------------------------------------------------------------------------------- */

/* This process stands still, from soon on. */
static pid_t stand_still(int64_t for_ms)
{
    pid_t test = getpid(), other = fork();

    if (other == 0) {
        let_pass_ms(50);
        (void)kill(test, SIGSTOP);
        let_pass_ms(for_ms);
        (void)kill(test, SIGCONT);
        _exit(0);
    }
    return other;
}

/* The answers come after 200 ms, their time is up after 400, and nobody runs until 700. */
Test(standstill, answers_that_came_while_the_process_stood_still_are_read_before_their_time_is_up)
{
    enum { CALLS = 8 };
    struct outcome asked[CALLS] = {0};
    rdl_lock_t *lock;
    pid_t other;

    stage_open(&st, .client = OPTIONS(.command_timeout_ms = 400, .connections = 1));
    lock = reentrant(st.client, NAME, NULL);
    (void)probe_text(st.probe, "CLIENT PAUSE 200 ALL");
    for (int i = 0; i < CALLS; i++)
        expect(RDL_OK, rdl_is_locked_async(lock, NULL, outcome_note, &asked[i], NULL, &err));
    other = stand_still(650);
    for (int i = 0; i < CALLS; i++)
        expect(0, outcome_wait(&asked[i], SOON_MS));
    cr_assert_eq(waitpid(other, NULL, 0), other);
    rdl_lock_free(lock);
}
