/* SPDX-License-Identifier: MIT */
/* writer.c - how long a writer waits behind readers whose clients keep the lock: --threads in each of --processes.
 *
 * The readers come in, stay for a moment, leave and come back at once, so somebody always reads; the lock prefers
 * writers. The writer alone is behind a proxy that delays so long each way: its request, the message of the last
 * reader's release, its request again and the answer are four hops, and in between the readers who are inside end. A
 * hop is half of a PING through the same proxy. What a wait is held against is the longest of the sections that ended
 * during it. */
#include "tools/benchmarks/programs/ours.h"
#include "tools/benchmarks/programs/processes.h"
#include "tools/benchmarks/programs/traffic.h"

#include "tests/support/proxy.h"

#include <stdlib.h>
#include <string.h>

#define LOCK "bench:read"
#define CACHE_MS 10000
#define SECTION_NS (2 * MS)
#define BETWEEN_NS (50 * MS) /* writers: long enough for the readers' clients to keep it again */

/* Shared by all. */
struct hall {
    const struct run *run;
    _Atomic int64_t connected;
    _Atomic int64_t longest; /* section that ended since this was set to 0 */
    _Atomic bool over;
};

struct reader {
    struct hall *hall;
    rdl_lock_t *lock;
};

typedef int make_fn(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                    rdl_err_t *err);

static rdl_lock_t *make(make_fn *maker, rdl_client_t *client)
{
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    rdl_lock_t *lock = NULL;
    rdl_err_t err;

    options.cache_ms = CACHE_MS;
    options.prefer_writers = true;
    ours_check(maker(client, LOCK, &options, &lock, &err), &err);
    return lock;
}

static void *read_on(void *arg)
{
    const struct reader *reader = arg;
    rdl_err_t err;

    while (!atomic_load(&reader->hall->over)) {
        int64_t began;

        ours_check(rdl_lock(reader->lock, RDL_LEASE_AUTO, &err), &err);
        began = now_ns();
        pause_ns(SECTION_NS);
        raise_to(&reader->hall->longest, now_ns() - began);
        ours_check(rdl_unlock(reader->lock, &err), &err);
    }
    return NULL;
}

static void be_readers(void *arg)
{
    struct hall *hall = arg;
    rdl_client_t *client = ours_open(hall->run->server, NULL);
    rdl_lock_t *lock = make(rdl_read_lock, client);
    struct reader *readers = allocate((size_t)hall->run->threads, sizeof *readers);

    for (int64_t i = 0; i < hall->run->threads; i++)
        readers[i] = (struct reader){.hall = hall, .lock = lock};
    atomic_fetch_add(&hall->connected, 1);
    run_threads(hall->run->threads, read_on, readers, sizeof *readers);
    (void)rdl_lock_free(lock);
    (void)rdl_client_close(client);
    free(readers);
}

/* The waits, and what of each is not the longest section. */
static void write_now_and_then(struct hall *hall, const char *server, struct samples *waits, struct samples *beyond,
                               struct samples *sections)
{
    rdl_client_t *client = ours_open(server, NULL);
    rdl_lock_t *lock = make(rdl_write_lock, client);
    struct phase phase = phase_from_now(hall->run);
    int64_t asked_at, longest;
    rdl_err_t err;

    do {
        pause_ns(BETWEEN_NS);
        atomic_store(&hall->longest, 0);
        asked_at = now_ns();
        ours_check(rdl_lock(lock, RDL_LEASE_AUTO, &err), &err);
        if (asked_at >= phase.start) {
            longest = atomic_load(&hall->longest);
            samples_add(waits, now_ns() - asked_at);
            samples_add(sections, longest);
            samples_add(beyond, now_ns() - asked_at - longest);
        }
        ours_check(rdl_unlock(lock, &err), &err);
    } while (now_ns() < phase.end);
    (void)rdl_lock_free(lock);
    (void)rdl_client_close(client);
}

void measure_writer(const struct run *run)
{
    struct hall *hall = share(sizeof *hall);
    pid_t *pids = allocate((size_t)run->processes, sizeof *pids);
    struct samples waits = {0}, beyond = {0}, sections = {0}, round_trips = {0};
    const char *port = strrchr(run->server, ':');
    struct proxy *proxy;
    char *far_away;

    hall->run = run;
    for (int64_t i = 0; i < run->processes; i++)
        pids[i] = spawn(be_readers, hall);
    while (atomic_load(&hall->connected) < run->processes)
        pause_ns(MS);
    proxy = proxy_start_blind(port == NULL ? 0 : atoi(port + 1));
    proxy_delay(proxy, PROXY_BOTH_WAYS, run->far_ms);
    far_away = format("redis://127.0.0.1:%d", proxy_port(proxy));
    ping(far_away, &round_trips);
    write_now_and_then(hall, far_away, &waits, &beyond, &sections);
    atomic_store(&hall->over, true);
    for (int64_t i = 0; i < run->processes; i++)
        reap(pids[i]);
    answer_samples("", &waits);
    answer_samples("beyond_", &beyond);
    answer_samples("section_", &sections);
    answer_samples("ping_", &round_trips);
    answer_end();
    proxy_stop(proxy);
    samples_done(&waits);
    samples_done(&beyond);
    samples_done(&sections);
    samples_done(&round_trips);
    free(far_away);
    free(pids);
}
