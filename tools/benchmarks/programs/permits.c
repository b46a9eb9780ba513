/* SPDX-License-Identifier: MIT */
/* permits.c - redlatch's semaphores as kinds: a pair takes one permit and gives it back, and there are always more. */
#include "tools/benchmarks/programs/kind.h"
#include "tools/benchmarks/programs/ours.h"
#include "tools/benchmarks/programs/traffic.h"

#include <stdlib.h>

static void *start(const struct run *run, const char *server)
{
    (void)run;
    return ours_open(server, NULL);
}

static void stop(void *client)
{
    (void)rdl_client_close(client);
}

/* ---- permits that are numbers ----------------------------------------------------------------------------------- */

static void *join(void *client, const char *name)
{
    rdl_semaphore_t *semaphore = NULL;
    rdl_err_t err;

    ours_check(rdl_semaphore(client, name, NULL, &semaphore, &err), &err);
    ours_check(rdl_semaphore_try_set_permits(semaphore, PERMITS, &err), &err);
    return semaphore;
}

static void part(void *semaphore)
{
    (void)rdl_semaphore_free(semaphore);
}

static void take(void *semaphore)
{
    rdl_err_t err;

    ours_check(rdl_semaphore_acquire(semaphore, 1, &err), &err);
}

static void release(void *semaphore)
{
    rdl_err_t err;

    ours_check(rdl_semaphore_release(semaphore, 1, &err), &err);
}

const struct kind_ops semaphore_ops = {
    .start = start,
    .stop = stop,
    .join = join,
    .part = part,
    .take = take,
    .release = release,
};

/* ---- permits with ids and leases -------------------------------------------------------------------------------- */

struct leased {
    rdl_permit_semaphore_t *semaphore;
    rdl_permit_t permit;
};

static void *leased_join(void *client, const char *name)
{
    struct leased *leased = allocate(1, sizeof *leased);
    rdl_err_t err;

    ours_check(rdl_permit_semaphore(client, name, NULL, &leased->semaphore, &err), &err);
    ours_check(rdl_permit_semaphore_try_set_permits(leased->semaphore, PERMITS, &err), &err);
    return leased;
}

static void leased_part(void *arg)
{
    struct leased *leased = arg;

    (void)rdl_permit_semaphore_free(leased->semaphore);
    free(leased);
}

static void leased_take(void *arg)
{
    struct leased *leased = arg;
    rdl_err_t err;

    ours_check(rdl_permit_semaphore_acquire(leased->semaphore, 1, LEASE_MS, &leased->permit, &err), &err);
}

static void leased_release(void *arg)
{
    const struct leased *leased = arg;
    rdl_err_t err;

    ours_check(rdl_permit_semaphore_release(leased->semaphore, 1, &leased->permit, &err), &err);
}

const struct kind_ops permit_ops = {
    .start = start,
    .stop = stop,
    .join = leased_join,
    .part = leased_part,
    .take = leased_take,
    .release = leased_release,
};
