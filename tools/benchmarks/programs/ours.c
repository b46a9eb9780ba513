/* ours.c - redlatch as one of the kinds, and see ours.h. */
#include "tools/benchmarks/programs/ours.h"

#include "tools/benchmarks/programs/kind.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

/* ---- ours.h ---------------------------------------------------------------------------------------------------------- */

void ours_check(int64_t result, const rdl_err_t *err)
{
    if (result < 0)
        fail("redlatch: %s", err->message);
}

rdl_client_t *ours_open(const char *server, const rdl_client_options_t *options)
{
    rdl_client_t *client = NULL;
    rdl_err_t err;

    ours_check(rdl_client_open(server, options, &client, &err), &err);
    return client;
}

rdl_lock_t *ours_lock(rdl_client_t *client, bool simple, const char *name)
{
    rdl_lock_t *lock = NULL;
    rdl_err_t err;

    ours_check((simple ? rdl_simple_lock : rdl_reentrant_lock)(client, name, NULL, &lock, &err), &err);
    return lock;
}

rdl_owner_t *ours_owner(rdl_client_t *client)
{
    rdl_owner_t *owner = NULL;
    rdl_err_t err;

    ours_check(rdl_owner_new(client, &owner, &err), &err);
    return owner;
}

int64_t ours_lease(const struct run *run)
{
    return run->lease_ms > 0 ? run->lease_ms : RDL_LEASE_AUTO;
}

static void on_held(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *room)
{
    (void)lock;
    ours_check(result, err);
    (void)sem_post(room);
}

void ours_hold_all(rdl_lock_t *const *locks, int64_t n, rdl_owner_t *owner, int64_t lease_ms)
{
    enum { WIDTH = 256 };
    sem_t room;
    rdl_err_t err;

    (void)sem_init(&room, 0, WIDTH);
    for (int64_t i = 0; i < n; i++) {
        (void)sem_wait(&room);
        ours_check(rdl_lock_async(locks[i], owner, lease_ms, on_held, &room, NULL, &err), &err);
    }
    for (int i = 0; i < WIDTH; i++)
        (void)sem_wait(&room);
    (void)sem_destroy(&room);
}

/* ---- the kind -------------------------------------------------------------------------------------------------------- */

struct common {
    rdl_client_t *client;
    int64_t lease_ms;
    bool simple;
};

struct party {
    rdl_lock_t *lock;
    int64_t lease_ms;
};

static void *start(const struct run *run, const char *server)
{
    struct common *common = allocate(1, sizeof *common);

    *common = (struct common){
        .client = ours_open(server, NULL), .lease_ms = ours_lease(run), .simple = strcmp(run->kind, "redlatch-simple") == 0};
    return common;
}

static void stop(void *arg)
{
    struct common *common = arg;

    (void)rdl_client_close(common->client);
    free(common);
}

static void *join(void *arg, const char *name)
{
    const struct common *common = arg;
    struct party *party = allocate(1, sizeof *party);

    *party = (struct party){.lock = ours_lock(common->client, common->simple, name), .lease_ms = common->lease_ms};
    return party;
}

static void part(void *arg)
{
    struct party *party = arg;

    (void)rdl_lock_free(party->lock);
    free(party);
}

static void take(void *arg)
{
    const struct party *party = arg;
    rdl_err_t err;

    ours_check(rdl_lock(party->lock, party->lease_ms, &err), &err);
}

static void release(void *arg)
{
    const struct party *party = arg;
    rdl_err_t err;

    ours_check(rdl_unlock(party->lock, &err), &err);
}

const struct kind_ops ours_ops = {
    .start = start,
    .stop = stop,
    .join = join,
    .part = part,
    .take = take,
    .release = release,
};
