/* SPDX-License-Identifier: MIT */
/* renewal.c - many holds that are renewed: what that costs the server, and everybody else.
 *
 *   redlatch    --holds locks of one client, renewed by it every third of --lease-ms, observed for --seconds
 *   reentrant   the same renewals one by one, by a program of plain hiredis
 *
 * Before there are holds, and then while they are renewed: another lock is taken and released all the time; and by
 * itself, since everything here shares one core, a second connection asks for a PING every 200 us. How long the longest
 * took is how long the server did not look at anybody. What the longest command took is the server's own word
 * (SLOWLOG); it counts the time in which somebody else had the server's core, so there is one of an idle server as
 * well. */
#include "tools/benchmarks/programs/ours.h"
#include "tools/benchmarks/programs/tally.h"
#include "tools/benchmarks/programs/traffic.h"

#include <stdlib.h>
#include <string.h>

#define PROBE_NS (200 * US)

static char *hold_name(int64_t i)
{
    return format("bench:hold:%lld", (long long)i);
}

/* ---- others who want the server --------------------------------------------------------------------------------- */

static void probe(const struct run *run, const char *prefix)
{
    redisContext *c = connect_to(run->server);
    int64_t end = now_ns() + (int64_t)(run->seconds * (double)SEC);
    struct samples samples = {0};
    struct request ping = {0};

    request_add(&ping, "PING");
    for (int64_t before; (before = now_ns()) < end; pause_ns(PROBE_NS)) {
        tell(c, &ping);
        samples_add(&samples, now_ns() - before);
    }
    answer_samples(prefix, &samples);
    samples_done(&samples);
    redisFree(c);
}

/* From now on the server remembers commands that take 100 us, and no earlier ones. */
static void watch_commands(redisContext *c)
{
    static const char *const settings[][2] = {{"slowlog-log-slower-than", "100"}, {"slowlog-max-len", "100000"}};
    struct request reset = {0};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct request set = {0};

        request_add(&set, "CONFIG");
        request_add(&set, "SET");
        request_add(&set, settings[i][0]);
        request_add(&set, settings[i][1]);
        tell(c, &set);
    }
    request_add(&reset, "SLOWLOG");
    request_add(&reset, "RESET");
    tell(c, &reset);
}

static void answer_longest_command(const char *key, redisContext *c)
{
    struct request get = {0};
    redisReply *reply;
    long long longest = 0;

    request_add(&get, "SLOWLOG");
    request_add(&get, "GET");
    request_add(&get, "-1");
    reply = ask(c, &get);
    for (size_t i = 0; i < reply->elements; i++) /* each: number, time, duration, ... */
        if (reply->element[i]->element[2]->integer > longest)
            longest = reply->element[i]->element[2]->integer;
    answer_number(key, (double)longest);
    freeReplyObject(reply);
}

/* ---- redlatch --------------------------------------------------------------------------------------------------- */

static void pairs_for(const struct run *run, rdl_lock_t *lock, const char *prefix)
{
    int64_t end = now_ns() + (int64_t)(run->seconds * (double)SEC);
    struct samples samples = {0};
    rdl_err_t err;

    for (int64_t before = now_ns(); before < end;) {
        int64_t after;

        ours_check(rdl_lock(lock, RDL_LEASE_AUTO, &err), &err);
        ours_check(rdl_unlock(lock, &err), &err);
        after = now_ns();
        samples_add(&samples, after - before);
        before = after;
    }
    answer_samples(prefix, &samples);
    samples_done(&samples);
}

static double renewed(const rdl_metrics_t *metrics)
{
    rdl_metric_value_t value;

    rdl_metrics_get(metrics, RDL_M_RENEWED, &value);
    return (double)value.sum;
}

/* Quiet time, in which the server does nothing but renew: from it the cost of a renewal. */
static void answer_cost(const struct run *run, redisContext *second, const rdl_metrics_t *metrics)
{
    struct tally from = tally_read(second, NULL);
    struct tally to;
    double count = -renewed(metrics);

    pause_ns((int64_t)(run->seconds * (double)SEC));
    to = tally_read(second, NULL);
    count += renewed(metrics);
    if (count == 0)
        fail("nothing was renewed in %.1f s", run->seconds);
    answer_number("count", count);
    tally_answer(&from, &to, count);
}

static void ours(const struct run *run, redisContext *second)
{
    rdl_metrics_t *metrics = NULL;
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_lock_t **locks = allocate((size_t)run->holds, sizeof(rdl_lock_t *));
    rdl_client_t *client;
    rdl_owner_t *owner;
    rdl_lock_t *other;

    options.watchdog_lease_ms = run->lease_ms;
    if (rdl_metrics_new(NULL, &metrics, NULL) < 0)
        fail("no memory");
    options.metrics = metrics;
    client = ours_open(run->server, &options);
    owner = ours_owner(client);
    other = ours_lock(client, "redlatch", "bench:other");
    watch_commands(second);
    pairs_for(run, other, "idle_lock_");
    probe(run, "idle_probe_");
    answer_longest_command("idle_longest_command_us", second);
    for (int64_t i = 0; i < run->holds; i++) {
        char *name = hold_name(i);

        locks[i] = ours_lock(client, "redlatch", name);
        free(name);
    }
    ours_hold_all(locks, run->holds, owner, RDL_LEASE_AUTO);
    answer_cost(run, second, metrics);
    pairs_for(run, other, "lock_");
    watch_commands(second);
    probe(run, "probe_");
    answer_longest_command("longest_command_us", second);
    (void)rdl_client_close(client); /* the holds end with their leases */
    for (int64_t i = 0; i < run->holds; i++)
        (void)rdl_lock_free(locks[i]);
    (void)rdl_lock_free(other);
    (void)rdl_metrics_free(metrics);
    free(locks);
}

/* ---- one by one ------------------------------------------------------------------------------------------------- */

static void one_by_one(const struct run *run, redisContext *second)
{
    redisContext *c = connect_to(run->server);
    char *digest = load_script(c, run->tree, "scripts/reentrant_renew");
    char *lease = format("%lld", (long long)run->lease_ms);
    struct traffic *traffic = allocate((size_t)run->holds, sizeof *traffic);
    struct tally from;
    struct tally to;

    for (int64_t i = 0; i < run->holds; i++) {
        char *name = hold_name(i);

        traffic_init(&traffic[i], run, c, "reentrant", name);
        tell(c, &traffic[i].take);
        free(name);
    }
    from = tally_read(second, NULL);
    for (int64_t i = 0; i < run->holds; i++) {
        struct request renew = {0};

        request_add(&renew, "EVALSHA");
        request_add(&renew, digest);
        request_add(&renew, "1");
        request_add(&renew, traffic[i].take.argv[3]);
        request_add(&renew, traffic[i].take.argv[4]);
        request_add(&renew, lease);
        tell(c, &renew);
    }
    to = tally_read(second, NULL);
    answer_number("count", (double)run->holds);
    tally_answer(&from, &to, (double)run->holds);
    redisFree(c);
    free(traffic);
    free(digest);
    free(lease);
}

void measure_renewal(const struct run *run)
{
    redisContext *second = connect_to(run->server);

    if (strcmp(run->kind, "redlatch") == 0)
        ours(run, second);
    else if (strcmp(run->kind, "reentrant") == 0)
        one_by_one(run, second);
    else
        fail("nothing renews as %s", run->kind);
    answer_end();
    redisFree(second);
}
