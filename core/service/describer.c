/* SPDX-License-Identifier: MIT */
/* describer.c - one request on the loop's lane now and then.
 *
 * A description is written FIRST_MS after the client's first hold, or its first wait if that comes earlier, and from
 * then on every interval, to be kept for KEPT intervals. So a program that takes a lock for a moment and ends costs the
 * server nothing, and neither does one that only has a connection. Who is connected anew, to a server that may have
 * lost it, writes it at once.
 *
 * In a cluster it is at the master of its key's slot, looked up for each request. Where it is refused for want of a
 * right, the next connection brings the next attempt; after any other failure the next interval does. The log has one
 * line until it succeeds again.
 */
#include "core/service/describer.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/service/refusals.h"
#include "core/service/routing.h"
#include "core/wire/names.h"

#include <errno.h>
#include <redlatch/version.h>
#include <string.h>
#include <unistd.h>

#define FIRST_MS 100
#define KEPT 3
#define DETOUR_MS 100 /* until it is written again that was sent elsewhere */

static rdl_client_t *client_of(const struct rdl__describer *d)
{
    return rdl__container(d, rdl_client_t, describer);
}

/* Where the key is now. */
static struct rdl__lane *lane_now(const struct rdl__describer *d)
{
    rdl_client_t *client = client_of(d);
    const char *u = client->uuid.text;

    return rdl__client_shard(client, client->map == NULL ? 0 : rdl__slot(u, RDL__UUID_LEN))->loop_lane;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void encode_description(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    const struct rdl__describer *d = rdl__container(req, struct rdl__describer, req);

    rdl__describe_put(to, client_of(d)->uuid.text, &d->what, KEPT * d->interval_ms, eval);
}

static void decode_description(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__describer *d = rdl__container(req, struct rdl__describer, req);
    struct rdl__shard *ask = NULL;

    (void)now;
    if (reply->type != RDL__REPLY_ERROR) {
        d->outcome = RDL__DESCRIBED;
    } else if (client_of(d)->map != NULL && rdl__client_detour(client_of(d), reply, &ask) != RDL__DETOUR_NONE) {
        d->outcome = RDL__DESCRIBE_DETOURED;
    } else {
        d->outcome = rdl__refusal_of_rights(reply->str) ? RDL__DESCRIBE_REFUSED : RDL__DESCRIBE_FAILED;
        (void)rdl__refusal_text(d->refusal, sizeof d->refusal, reply->str);
    }
}

static bool misrouted(const struct rdl__req *req)
{
    const struct rdl__describer *d = rdl__container(req, const struct rdl__describer, req);

    return d->lane != lane_now(d);
}

static void done_description(struct rdl__req *req, int64_t now);

static const struct rdl__req_ops description_ops = {
    .encode = encode_description, .decode = decode_description, .done = done_description, .misrouted = misrouted};

/* @thread loop */
static void write_now(struct rdl__describer *d)
{
    rdl__assert_on_loop(client_of(d)->loop);
    if (d->closed || d->refused)
        return;
    d->again = d->req.state != RDL__REQ_IDLE;
    if (d->again)
        return;
    d->written = true;
    d->lane = lane_now(d);
    rdl__req_init(&d->req, &description_ops);
    rdl__lane_submit(d->lane, &d->req);
}

static void tell_failure(struct rdl__describer *d)
{
    if (!d->told)
        rdl__log(&client_of(d)->sinks, RDL_LOG_INFO,
                 "this client is not described at the server, which does not matter to locks: %s", d->refusal);
    d->told = true;
}

/* What the answer says. How long until it is written again.  @thread loop */
static int64_t judge(struct rdl__describer *d)
{
    rdl__assert_on_loop(client_of(d)->loop);
    switch (d->outcome) {
    case RDL__DESCRIBED:
        d->told = false;
        return d->interval_ms;
    case RDL__DESCRIBE_DETOURED:
        return DETOUR_MS;
    case RDL__DESCRIBE_REFUSED:
        d->refused = true;
        d->written = false;
        break;
    case RDL__DESCRIBE_FAILED:
        break;
    }
    tell_failure(d);
    return d->interval_ms;
}

static void done_description(struct rdl__req *req, int64_t now)
{
    struct rdl__describer *d = rdl__container(req, struct rdl__describer, req);
    int64_t pause_ms = req->rc == RDL_OK ? judge(d) : d->interval_ms;

    req->state = RDL__REQ_IDLE;
    if (d->closed || d->refused || req->rc == RDL_ECLOSED)
        return;
    if (d->again || req->rc == RDL__MISROUTED)
        write_now(d);
    rdl__loop_timer(client_of(d)->loop, &d->timer, rdl__after_ms(now, pause_ms));
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    (void)now;
    write_now(rdl__container(timer, struct rdl__describer, timer));
}

/* ---- taking away ------------------------------------------------------------------------------------------------ */

static void encode_farewell(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    const struct rdl__describer *d = rdl__container(req, struct rdl__describer, farewell);

    (void)eval;
    rdl__describe_drop(to, client_of(d)->uuid.text);
}

static void decode_farewell(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    (void)req;
    (void)reply;
    (void)now;
}

static void done_farewell(struct rdl__req *req, int64_t now)
{
    (void)req;
    (void)now;
}

static const struct rdl__req_ops farewell_ops = {
    .encode = encode_farewell, .decode = decode_farewell, .done = done_farewell};

/* ---- describer.h ------------------------------------------------------------------------------------------------ */

static void copy(char *to, size_t cap, const char *from)
{
    (void)stpncpy(to, from != NULL ? from : "", cap - 1);
    to[cap - 1] = '\0';
}

void rdl__describer_init(struct rdl__describer *d, const rdl_client_options_t *o)
{
    d->anonymous = o->anonymous;
    d->interval_ms = o->describe_interval_ms;
    rdl__timer_init(&d->timer, on_timer);
    rdl__req_init(&d->req, &description_ops);
    rdl__req_init(&d->farewell, &farewell_ops);
    if (d->anonymous)
        return;
    if (gethostname(d->what.host, sizeof d->what.host - 1) < 0)
        d->what.host[0] = '\0';
    d->what.pid = getpid();
    d->what.start_ms = rdl__wall_ms();
    copy(d->what.program, sizeof d->what.program, program_invocation_short_name);
    copy(d->what.version, sizeof d->what.version, RDL_VERSION);
    copy(d->what.label, sizeof d->what.label, o->label);
    copy(d->what.info, sizeof d->what.info, o->info);
}

void rdl__describer_name(const struct rdl__describer *d, char to[RDL__CLIENT_NAME_MAX])
{
    const char *who = d->what.label[0] != '\0' ? d->what.label : d->what.program;

    if (d->anonymous)
        (void)rdl__line(to, RDL__CLIENT_NAME_MAX, "redlatch");
    else
        (void)rdl__line(to, RDL__CLIENT_NAME_MAX, "redlatch:%s:%lld:%.64s", d->what.host, (long long)d->what.pid, who);
    for (char *at = to; *at != '\0'; at++)
        if (*at < '!' || *at > '~')
            *at = '_';
}

void rdl__describer_begin(struct rdl__describer *d, int64_t now)
{
    rdl__assert_on_loop(client_of(d)->loop);
    if (d->closed)
        return;
    d->began = true;
    rdl__loop_timer(client_of(d)->loop, &d->timer,
                    rdl__after_ms(now, d->interval_ms < FIRST_MS ? d->interval_ms : FIRST_MS));
}

void rdl__describer_up(struct rdl__describer *d, const struct rdl__lane *lane, bool anew, int64_t now)
{
    bool was_refused = d->refused;

    (void)now;
    rdl__assert_on_loop(client_of(d)->loop);
    if (lane != lane_now(d))
        return;
    d->refused = false;
    if ((anew && d->written) || was_refused)
        write_now(d);
}

void rdl__describer_close(struct rdl__describer *d, bool holds, int64_t now)
{
    struct rdl__lane *lane;

    rdl__assert_on_loop(client_of(d)->loop);
    if (d->closed)
        return;
    d->closed = true;
    rdl__loop_timer_off(client_of(d)->loop, &d->timer);
    if (!d->written || holds || !rdl__lane_up(lane = lane_now(d)))
        return;
    rdl__lane_submit(lane, &d->farewell);
    rdl__lane_open(lane, now); /* it is sent at once: the lane may be closed before the loop sleeps */
}
