/* SPDX-License-Identifier: MIT */
#include "job.h"

#include <stdio.h>

enum { JOBS = 3 };

/* Many activities on one thread: so each has an owner of its own, and none is the thread. */
struct job {
    rdl_owner_t *owner;
    int number;
};

static rdl_client_t *client;
static rdl_lock_t *lock;
static struct job jobs[JOBS];
static int under_way, failed;

static void end(const rdl_err_t *err)
{
    if (err != NULL) {
        fprintf(stderr, "%s\n", err->message);
        failed = 1;
    }
    under_way--;
}

static void unlocked(rdl_lock_t *its, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)its;
    (void)result;
    (void)arg;
    end(err);
}

static void locked(rdl_lock_t *its, int64_t result, const rdl_err_t *err, void *arg)
{
    struct job *job = arg;
    rdl_err_t refused;

    if (result < 0) {
        end(err);
        return;
    }
    printf("job %d has the lock\n", job->number);
    if (rdl_unlock_async(its, job->owner, unlocked, job, NULL, &refused) < 0)
        end(&refused); /* a call that failed never calls back */
}

static int begin(struct job *job, int number, rdl_err_t *err)
{
    int rc = rdl_owner_new(client, &job->owner, err);

    job->number = number;
    if (rc == RDL_OK)
        rc = rdl_try_lock_async(lock, job->owner, 10000, RDL_LEASE_AUTO, locked, job, NULL, err);
    under_way += rc == RDL_OK;
    return rc;
}

int jobs_begin(const char *uri)
{
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_err_t err;
    int rc;

    options.dispatch = RDL_DISPATCH_FD;
    rc = rdl_client_open(uri, &options, &client, &err);
    if (rc == RDL_OK)
        rc = rdl_fair_lock(client, "jobs", NULL, &lock, &err);
    for (int i = 0; i < JOBS && rc == RDL_OK; i++)
        rc = begin(&jobs[i], i + 1, &err);
    if (rc == RDL_OK)
        return rdl_client_fd(client);
    fprintf(stderr, "%s\n", err.message);
    failed = 1;
    return -1;
}

bool jobs_go_on(void)
{
    rdl_client_dispatch(client);
    return under_way > 0;
}

int jobs_end(void)
{
    rdl_client_close(client); /* calls still under way call back from inside this */
    for (int i = 0; i < JOBS; i++)
        rdl_owner_free(jobs[i].owner);
    rdl_lock_free(lock);
    return failed;
}
