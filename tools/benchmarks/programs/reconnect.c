/* SPDX-License-Identifier: MIT */
/* reconnect.c - the server dies and comes back as it was: how long until everything works again?
 *
 * The program's own server saves its data, is killed, stays away for --outage-ms, and is started again. --holds locks
 * are held and renewed; --owners others, held by another client, are waited for, each by an owner of its own. From the
 * first answer of the server on: until every channel is subscribed to again, and until a blocking call that began while
 * the server was away has the lock. No hold may be lost. */
#include "tools/benchmarks/programs/ours.h"

#include "tests/support/probe.h"
#include "tests/support/server.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

struct caller {
    rdl_lock_t *lock;
    int64_t locked_at;
};

static rdl_lock_t **locks_named(rdl_client_t *client, const char *prefix, int64_t n)
{
    rdl_lock_t **locks = allocate((size_t)n, sizeof(rdl_lock_t *));

    for (int64_t i = 0; i < n; i++) {
        char *name = format("%s:%lld", prefix, (long long)i);

        locks[i] = ours_lock(client, "redlatch", name);
        free(name);
    }
    return locks;
}

static void free_locks(rdl_lock_t **locks, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        (void)rdl_lock_free(locks[i]);
    free(locks);
}

static void on_end(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)lock;
    (void)err;
    (void)arg;
    if (result != RDL_ECLOSED)
        fail("a waiter got a lock that another holds");
}

static void *lock_once(void *arg)
{
    struct caller *caller = arg;
    rdl_err_t err;

    ours_check(rdl_lock(caller->lock, RDL_LEASE_AUTO, &err), &err);
    caller->locked_at = now_ns();
    ours_check(rdl_unlock(caller->lock, &err), &err);
    return NULL;
}

static double lost(const rdl_metrics_t *metrics)
{
    rdl_metric_value_t value;

    rdl_metrics_get(metrics, RDL_M_LOST, &value);
    return (double)value.sum;
}

void measure_reconnect(const struct run *run)
{
    struct server *server = server_start(NULL);
    rdl_metrics_t *metrics = NULL;
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_client_t *client;
    rdl_client_t *other = ours_open(server_uri(server), NULL);
    rdl_owner_t **owners = allocate((size_t)run->owners, sizeof(rdl_owner_t *));
    rdl_lock_t **held, **waited, **wanted;
    struct caller caller = {0};
    struct probe *probe = probe_open(server);
    pthread_t thread;
    int64_t back_at, subscribed_at;
    rdl_owner_t *holder, *other_holder = ours_owner(other);
    rdl_err_t err;

    if (rdl_metrics_new(NULL, &metrics, NULL) < 0)
        fail("no memory");
    options.metrics = metrics;
    client = ours_open(server_uri(server), &options);
    holder = ours_owner(client);
    held = locks_named(client, "bench:held", run->holds);
    ours_hold_all(held, run->holds, holder, RDL_LEASE_AUTO);
    waited = locks_named(other, "bench:waited", run->owners);
    ours_hold_all(waited, run->owners, other_holder, 10 * 60 * 1000);
    wanted = locks_named(client, "bench:waited", run->owners);
    for (int64_t i = 0; i < run->owners; i++) {
        owners[i] = ours_owner(client);
        ours_check(rdl_lock_async(wanted[i], owners[i], RDL_LEASE_AUTO, on_end, NULL, NULL, &err), &err);
    }
    while (probe_channels(probe) < run->owners)
        pause_ns(MS);
    (void)rdl_client_close(other);
    (void)probe_ask(probe, "save");
    probe_close(probe);

    server_kill(server);
    caller.lock = ours_lock(client, "redlatch", "bench:free");
    if (pthread_create(&thread, NULL, lock_once, &caller) != 0)
        fail("cannot start a thread");
    pause_ns(run->outage_ms * MS + 1);
    server_start_again(server);
    back_at = now_ns();
    probe = probe_open(server);
    while (probe_channels(probe) < run->owners)
        pause_ns(MS / 5);
    subscribed_at = now_ns();
    (void)pthread_join(thread, NULL);
    answer_number("subscribed_ms", (double)(subscribed_at - back_at) / (double)MS);
    answer_number("locked_ms", (double)(caller.locked_at - back_at) / (double)MS);
    answer_number("all_ms", (double)((subscribed_at > caller.locked_at ? subscribed_at : caller.locked_at) - back_at) /
                                (double)MS);
    answer_number("lost", lost(metrics));
    answer_end();
    probe_close(probe);
    (void)rdl_client_close(client);
    (void)rdl_lock_free(caller.lock);
    for (int64_t i = 0; i < run->owners; i++)
        (void)rdl_owner_free(owners[i]);
    free_locks(held, run->holds);
    free_locks(waited, run->owners);
    free_locks(wanted, run->owners);
    (void)rdl_owner_free(holder);
    (void)rdl_owner_free(other_holder);
    (void)rdl_metrics_free(metrics);
    server_stop(server);
    free(owners);
}
