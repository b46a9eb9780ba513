/* SPDX-License-Identifier: MIT */
/* ours.c - redlatch as one of the kinds, and see ours.h. */
#include "tools/benchmarks/programs/ours.h"

#include "tools/benchmarks/programs/kind.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

/* ---- ours.h ----------------------------------------------------------------------------------------------------- */

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

/* NAME:a to NAME:c. */
static int multi(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                 rdl_err_t *err)
{
    enum { MEMBERS = 3 };
    rdl_lock_t *member[MEMBERS];
    int rc;

    for (int i = 0; i < MEMBERS; i++) {
        char *one = format("%s:%c", name, 'a' + i);

        ours_check(rdl_reentrant_lock(client, one, options, &member[i], err), err);
        free(one);
    }
    rc = rdl_multi_lock(member, MEMBERS, options, ret_lock, err);
    for (int i = 0; i < MEMBERS; i++)
        (void)rdl_lock_free(member[i]);
    return rc;
}

rdl_lock_t *ours_lock(rdl_client_t *client, const char *kind, const char *name)
{
    static const struct {
        const char *kind;
        int (*make)(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                    rdl_err_t *err);
    } makers[] = {{"redlatch", rdl_reentrant_lock},
                  {"redlatch-metered", rdl_reentrant_lock},
                  {"redlatch-unconfirmed", rdl_reentrant_lock},
                  {"redlatch-nonreentrant", rdl_nonreentrant_lock},
                  {"redlatch-simple", rdl_simple_lock},
                  {"redlatch-spin", rdl_spin_lock},
                  {"redlatch-fenced", rdl_fenced_lock},
                  {"redlatch-timed", rdl_fenced_lock},
                  {"redlatch-fair", rdl_fair_lock},
                  {"redlatch-read", rdl_read_lock},
                  {"redlatch-write", rdl_write_lock},
                  {"redlatch-multi", multi}};
    static const char kept[] = "-kept"; /* a kind with that behind it: the client keeps it */
    size_t len = strlen(kind), tail = sizeof kept - 1;
    bool keeps = len > tail && strcmp(kind + len - tail, kept) == 0;
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    rdl_lock_t *lock = NULL;
    rdl_err_t err;

    if (strcmp(kind, "redlatch-unconfirmed") == 0)
        options.release = RDL_RELEASE_UNCONFIRMED;
    options.cache_ms = keeps ? 10000 : 0;
    options.fencing = strcmp(kind, "redlatch-timed-kept") == 0 ? RDL_FENCING_TIME : options.fencing;
    len -= keeps ? tail : 0;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (strlen(makers[i].kind) == len && strncmp(makers[i].kind, kind, len) == 0) {
            ours_check(makers[i].make(client, name, &options, &lock, &err), &err);
            return lock;
        }
    }
    fail("no kind of ours: %s", kind);
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

/* ---- the kind --------------------------------------------------------------------------------------------------- */

struct common {
    rdl_client_t *client;
    rdl_metrics_t *metrics;
    int64_t lease_ms;
    const char *kind;
};

struct party {
    rdl_lock_t *lock;
    int64_t lease_ms;
};

static void *start(const struct run *run, const char *server)
{
    struct common *common = allocate(1, sizeof *common);
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;

    if (strcmp(run->kind, "redlatch-metered") == 0 && rdl_metrics_new(NULL, &options.metrics, NULL) < 0)
        fail("no memory");
    *common = (struct common){.client = ours_open(server, &options),
                              .metrics = options.metrics,
                              .lease_ms = ours_lease(run),
                              .kind = run->kind};
    return common;
}

static void stop(void *arg)
{
    struct common *common = arg;

    (void)rdl_client_close(common->client);
    (void)rdl_metrics_free(common->metrics);
    free(common);
}

static void *join(void *arg, const char *name)
{
    const struct common *common = arg;
    struct party *party = allocate(1, sizeof *party);

    *party = (struct party){.lock = ours_lock(common->client, common->kind, name), .lease_ms = common->lease_ms};
    return party;
}

void ours_part(void *arg)
{
    struct party *party = arg;

    (void)rdl_lock_free(party->lock);
    free(party);
}

void ours_take(void *arg)
{
    const struct party *party = arg;
    rdl_err_t err;

    ours_check(rdl_lock(party->lock, party->lease_ms, &err), &err);
}

void ours_release(void *arg)
{
    const struct party *party = arg;
    rdl_err_t err;

    ours_check(rdl_unlock(party->lock, &err), &err);
}

const struct kind_ops ours_ops = {
    .start = start,
    .stop = stop,
    .join = join,
    .part = ours_part,
    .take = ours_take,
    .release = ours_release,
};
