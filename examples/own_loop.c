/* SPDX-License-Identifier: MIT */
/* own_loop.c - redlatch in a program that has an event loop: nothing blocks, and callbacks run where the loop runs.
 *
 * The client is one descriptor to watch. When it is readable, rdl_client_dispatch runs what is due. poll(2) stands for
 * any loop here: epoll, libev, libuv and GLib watch a descriptor alike.
 *
 * A program of this kind is many activities on one thread, so the lock's owner is named and is not the thread. */
#include <poll.h>
#include <redlatch/redlatch.h>
#include <stdbool.h>
#include <stdio.h>

struct job {
    rdl_owner_t *owner;
    bool done;
    int status;
};

static void end(struct job *job, const rdl_err_t *err)
{
    if (err != NULL)
        fprintf(stderr, "%s\n", err->message);
    job->status = err != NULL;
    job->done = true;
}

static void unlocked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)lock;
    (void)result;
    end(arg, err);
}

static void locked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct job *job = arg;
    rdl_err_t refused;

    if (result < 0) {
        end(job, err);
        return;
    }
    puts("nobody else is in here, on no machine");
    if (rdl_unlock_async(lock, job->owner, unlocked, job, NULL, &refused) < 0)
        end(job, &refused); /* a call that failed never calls back */
}

int main(int argc, char **argv)
{
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_client_t *client = NULL;
    rdl_lock_t *lock = NULL;
    struct job job = {.owner = NULL};
    rdl_err_t err;

    options.dispatch = RDL_DISPATCH_FD;
    if (rdl_client_open(argc > 1 ? argv[1] : "redis://127.0.0.1:6379", &options, &client, &err) < 0 ||
        rdl_reentrant_lock(client, "orders:42", NULL, &lock, &err) < 0 || rdl_owner_new(client, &job.owner, &err) < 0 ||
        rdl_try_lock_async(lock, job.owner, 3000, RDL_LEASE_AUTO, locked, &job, NULL, &err) < 0)
        end(&job, &err);

    while (!job.done) {
        struct pollfd watched = {.fd = rdl_client_fd(client), .events = POLLIN};

        poll(&watched, 1, -1);
        rdl_client_dispatch(client);
    }
    rdl_owner_free(job.owner);
    rdl_lock_free(lock);
    rdl_client_close(client);
    return job.status;
}
