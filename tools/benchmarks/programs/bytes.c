/* SPDX-License-Identifier: MIT */
/* bytes.c - memory of redlatch's own, counted by its allocator hooks: an idle handle, a hold, a waiter. */
#include "tools/benchmarks/programs/ours.h"

#include <semaphore.h>
#include <stdlib.h>

static _Atomic int64_t bytes;

static void *take(size_t size, void *arg)
{
    (void)arg;
    atomic_fetch_add(&bytes, (int64_t)size);
    return malloc(size);
}

static void give(void *block, size_t size, void *arg)
{
    (void)arg;
    atomic_fetch_sub(&bytes, (int64_t)size);
    free(block);
}

/* What has been added since `before`, for each of n. */
static void answer_since(const char *name, int64_t before, int64_t n)
{
    answer_number(name, (double)(atomic_load(&bytes) - before) / (double)n);
}

static void on_end(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *ended)
{
    (void)lock;
    (void)result; /* held, or closed */
    (void)err;
    (void)sem_post(ended);
}

/* Every owner waits for the lock, which is held. Returns when all have been refused: a blocking call that came after
 * them has given up. */
static void wait_all(rdl_lock_t *lock, rdl_owner_t **owners, int64_t n, sem_t *ended)
{
    rdl_err_t err;

    for (int64_t i = 0; i < n; i++)
        ours_check(rdl_lock_async(lock, owners[i], RDL_LEASE_AUTO, on_end, ended, NULL, &err), &err);
    (void)rdl_try_lock(lock, 1000, RDL_LEASE_AUTO, &err);
}

void measure_bytes(const struct run *run)
{
    enum { WARM = 8 };
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_allocator_t hooks = {.alloc = take, .free = give};
    int64_t n = run->holds;
    rdl_lock_t **locks = allocate((size_t)n, sizeof(rdl_lock_t *));
    rdl_owner_t **owners = allocate((size_t)run->owners, sizeof(rdl_owner_t *));
    rdl_client_t *client;
    rdl_owner_t *holder;
    int64_t before;
    sem_t ended;

    options.allocator = &hooks;
    client = ours_open(run->server, &options);
    holder = ours_owner(client);
    for (int64_t i = 0; i < WARM; i++) { /* connections, buffers and spare parts exist before anything is counted */
        char *name = format("bench:warm:%lld", (long long)i);
        rdl_lock_t *lock = ours_lock(client, "redlatch", name);
        rdl_err_t err;

        ours_hold_all(&lock, 1, holder, RDL_LEASE_AUTO);
        ours_check(rdl_owner_bind(holder, &err), &err);
        ours_check(rdl_unlock(lock, &err), &err);
        rdl_owner_unbind(client);
        (void)rdl_lock_free(lock);
        free(name);
    }
    before = atomic_load(&bytes);
    answer_number("client", (double)before);
    for (int64_t i = 0; i < n; i++) {
        char *name = format("bench:%010lld", (long long)i);

        locks[i] = ours_lock(client, "redlatch", name);
        free(name);
    }
    answer_since("handle", before, n);
    before = atomic_load(&bytes);
    ours_hold_all(locks, n, holder, RDL_LEASE_AUTO);
    answer_since("hold", before, n);
    for (int64_t i = 0; i < run->owners; i++)
        owners[i] = ours_owner(client);
    (void)sem_init(&ended, 0, 0);
    before = atomic_load(&bytes);
    wait_all(locks[0], owners, run->owners, &ended);
    answer_since("waiter", before, run->owners);
    answer_end();
    (void)rdl_client_close(client);
    for (int64_t i = 0; i < run->owners; i++)
        (void)rdl_owner_free(owners[i]);
    for (int64_t i = 0; i < n; i++)
        (void)rdl_lock_free(locks[i]);
    free(owners);
    free(locks);
}
