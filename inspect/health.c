/* SPDX-License-Identifier: MIT */
/* health.c - whether what locks are made of works: scripts, messages, and answers in time. */
#include "core/base/entropy.h"
#include "core/base/err.h"
#include "inspect/visit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- scripts ---------------------------------------------------------------------------------------------------- */

static void check_limit(struct rdl__visit *v)
{
    char limit[24];
    long long ms, lease = (long long)v->doctor->reach.options.watchdog_lease_ms;

    if (!rdl__visit_config(v, "busy-reply-threshold", limit, sizeof limit) &&
        !rdl__visit_config(v, "lua-time-limit", limit, sizeof limit))
        return;
    ms = strtoll(limit, NULL, 10);
    if (ms <= 0 || ms > lease)
        rdl__tell(v, RDL_SEVERITY_NOTE, "scripts",
                  "While somebody's script hangs the server answers nobody, not even SCRIPT KILL: every lease ends.",
                  "CONFIG SET busy-reply-threshold 5000", "a script is let run for %s",
                  ms <= 0 ? "ever" : "longer than a lease");
}

void rdl__doctor_check_scripts(struct rdl__visit *v)
{
    const struct rdl__reply *reply = rdl__probe_ask(v->probe, "EVAL", "return redis.call('time')[1]", "0", NULL);

    if (reply->type == RDL__REPLY_ERROR && !rdl__reply_is_error(reply, "NOPERM"))
        rdl__tell(v, RDL_SEVERITY_CRITICAL, "scripts", "Every lock is a script.", "", "a script does not run: %s",
                  reply->str);
    else if (reply->type != RDL__REPLY_ERROR)
        rdl__tell(v, RDL_SEVERITY_OK, "scripts", "", "", "they run");
    check_limit(v);
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

#define CHANNELS_MAX 400 /* of a cluster's, until one is this server's */

/* Words of one way of sending messages. */
struct way {
    const char *subscribe, *publish, *message;
};
static const struct way plain = {"SUBSCRIBE", "PUBLISH", "message"};
static const struct way sharded = {"SSUBSCRIBE", "SPUBLISH", "smessage"};

static void draw_channel(const struct rdl__visit *v, char *to, size_t cap)
{
    const char *name = v->doctor->name != NULL ? v->doctor->name : "redlatch-doctor";
    uint64_t random = 0;

    (void)rdl__entropy(&random, sizeof random);
    (void)rdl__line(to, cap,
                    strchr(name, '{') != NULL ? "redisson_lock__channel:%s:%llx" : "redisson_lock__channel:{%s:%llx}",
                    name, (unsigned long long)random);
}

/* The first answer to a subscription; in a cluster, to one for a channel of this server's. */
static const struct rdl__reply *subscribe(const struct rdl__visit *v, struct rdl__probe *sub, const struct way *way,
                                          char *channel, size_t cap)
{
    const struct rdl__reply *reply;
    int left = CHANNELS_MAX;

    do {
        draw_channel(v, channel, cap);
        rdl__probe_send(sub, way->subscribe, channel, NULL);
        reply = rdl__probe_next(sub);
    } while (rdl__reply_is_error(reply, "MOVED") && --left > 0);
    return reply;
}

static bool begins_with(const struct rdl__reply *reply, const char *word)
{
    const struct rdl__reply *first = rdl__reply_at(reply, 0);

    return first != NULL && first->type == RDL__REPLY_STRING && strcmp(first->str, word) == 0;
}

static void refused(struct rdl__visit *v, const struct rdl__reply *reply, const struct way *way)
{
    char change[256];

    (void)rdl__line(change, sizeof change, "ACL SETUSER %s +%s", v->user, way == &plain ? "subscribe" : "ssubscribe");
    if (!rdl__reply_is_error(reply, "NOPERM"))
        rdl__tell(v, RDL_SEVERITY_CRITICAL, "messages", "Who waits for a lock is woken by a message.", "",
                  "%s is refused: %s", way->subscribe, reply->type == RDL__REPLY_ERROR ? reply->str : "another answer");
    else if (strstr(reply->str, "permissions to access") != NULL)
        rdl__tell(v, RDL_SEVERITY_NOTE, "messages", "Whether messages arrive was not tried.",
                  "redlatch doctor --name NAME   # of a lock that the user may take",
                  "the user %s may not listen to a channel of its own", v->user);
    else
        rdl__tell(v, RDL_SEVERITY_CRITICAL, "messages", "Nobody can wait for a lock.", change, "the user %s may not %s",
                  v->user, way->subscribe);
}

/* Is nothing heard because the server is gone? Then nothing is told (rdl__tell). */
static void ask_again(struct rdl__visit *v, const struct rdl__probe *sub)
{
    if (sub->broken)
        (void)rdl__probe_ask(v->probe, "PING", NULL);
}

static void exchange(struct rdl__visit *v, struct rdl__probe *sub, const struct way *way)
{
    char channel[512];
    const struct rdl__reply *reply = subscribe(v, sub, way, channel, sizeof channel);

    ask_again(v, sub);
    if (reply->type != RDL__REPLY_ARRAY) {
        if (!rdl__reply_is_error(reply, "MOVED"))
            refused(v, reply, way);
        return;
    }
    reply = rdl__probe_ask(v->probe, way->publish, channel, "redlatch-doctor", NULL);
    if (reply->type == RDL__REPLY_ERROR) /* which rights tell */
        return;
    reply = rdl__probe_next(sub);
    ask_again(v, sub);
    if (begins_with(reply, way->message))
        rdl__tell(v, RDL_SEVERITY_OK, "messages", "", "", "they arrive%s", way == &sharded ? ", sharded" : "");
    else
        rdl__tell(v, RDL_SEVERITY_CRITICAL, "messages",
                  "Who waits for a lock is woken by a message; without it he asks when the lease ends.", "",
                  "a message did not arrive: what stands between may be a proxy");
}

void rdl__doctor_check_messages(struct rdl__visit *v)
{
    const struct way *way = &plain;
    struct rdl__probe *sub = NULL;
    rdl_err_t err = {0};

    if (rdl__visit_replica(v))
        return;
    if (rdl__visit_cluster(v) && rdl__probe_ask(v->probe, "PUBSUB", "SHARDNUMSUB", NULL)->type != RDL__REPLY_ERROR)
        way = &sharded;
    if (rdl__probe_open(&v->doctor->reach, v->host, v->port, false, &sub, &err) < 0) {
        rdl__doctor_unreachable(v->doctor, &err, RDL_SEVERITY_CRITICAL);
        return;
    }
    exchange(v, sub, way);
    (void)rdl__probe_close(sub);
}

/* ---- round trip ------------------------------------------------------------------------------------------------- */

#define PINGS 100
#define PINGS_MS 1000 /* no more after that */

static int by_length(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

void rdl__doctor_check_round_trip(struct rdl__visit *v)
{
    int64_t took[PINGS], began = rdl__now(), now = began, lease = v->doctor->reach.options.watchdog_lease_ms * RDL__MS;
    int64_t median, most;
    size_t n = 0;
    rdl_severity_t severity;

    while (n < PINGS && now < began + PINGS_MS * RDL__MS && !v->probe->broken) {
        int64_t before = now;

        (void)rdl__probe_ask(v->probe, "PING", NULL);
        now = rdl__now();
        took[n++] = now - before;
    }
    if (n == 0)
        return;
    qsort(took, n, sizeof *took, by_length);
    median = took[n / 2];
    most = took[(n * 99) / 100];
    severity = most > lease / 3 ? RDL_SEVERITY_CRITICAL : most > lease / 30 ? RDL_SEVERITY_WARNING : RDL_SEVERITY_OK;
    rdl__tell(
        v, severity, "round-trip",
        severity == RDL_SEVERITY_OK
            ? ""
            : "A lease is renewed every third of it. When that takes longer, locks are lost while the server is up.",
        severity == RDL_SEVERITY_OK ? "" : "options.watchdog_lease_ms, or --lease: a longer lease",
        "half of %zu took %.2f ms at most, 99 %% %.2f ms; a lease of %lld ms is renewed every %lld ms", n,
        (double)median / (double)RDL__MS, (double)most / (double)RDL__MS, (long long)(lease / RDL__MS),
        (long long)(lease / 3 / RDL__MS));
}
