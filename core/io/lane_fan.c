/* SPDX-License-Identifier: MIT */
/* lane_fan.c - a fan: one thread with requests on several lanes, which reads the answers itself.
 *
 * A composite's members may be at different servers. The thread becomes the leader of each of their lanes
 * (lane_callers.c) and polls the sockets together, so that no loop has to be woken. Several of its requests may be on
 * one lane: one of them is the leader there, and reading for it settles the others as well.
 *
 * The thread must not be the leader of a lane that it does not read. So a request joins a fan only on a lane without
 * another reader, and leaves as soon as it is settled; requests that are not settled when the wait ends become the
 * loop's.
 */
#include "core/io/lane_inner.h"

static bool in_fan(const struct rdl__fan *fan, const struct rdl__req *req)
{
    for (unsigned i = 0; i < fan->n; i++)
        if (fan->at[i].req == req)
            return true;
    return false;
}

/* Is the lane up, without a reader outside the fan? Not over TLS, where bytes that are decrypted already do not make
 * the socket readable.  @locks mu */
static bool can_lead(const struct rdl__fan *fan, const struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    return fan->n < RDL__FAN_MAX && !lane->closed && lane->live != NULL && lane->live->conn.tls == NULL &&
           (lane->role == RDL__ROLE_NONE || (lane->role == RDL__ROLE_CALLER && in_fan(fan, lane->leader)));
}

bool rdl__fan_send(struct rdl__fan *fan, struct rdl__lane *lane, struct rdl__req *req)
{
    bool sent;

    rdl__mutex_lock(&lane->mu);
    sent = can_lead(fan, lane);
    if (sent) {
        fan->at[fan->n].lane = lane;
        fan->at[fan->n++].req = req;
        rdl__lane_enqueue(lane, req);
        if (lane->role == RDL__ROLE_NONE)
            rdl__lane_set_role(lane, RDL__ROLE_CALLER, req);
        atomic_fetch_add_explicit(&lane->node->callers, 1, memory_order_relaxed);
    } else if (lane->live == NULL && !lane->closed && !lane->wanted) {
        lane->wanted = true;
        rdl__loop_post(lane->node->loop, &lane->attend);
    }
    rdl__mutex_unlock(&lane->mu);
    return sent;
}

/* rdl__lane_wake, where requests of the fan are the calling thread's own. */
static void wake_others(const struct rdl__fan *fan, struct rdl__link *wake)
{
    struct rdl__link *next;

    for (struct rdl__link *l = wake->next; l != wake; l = next) {
        struct rdl__req *req = rdl__container(l, struct rdl__req, link);

        next = l->next;
        if (!in_fan(fan, req))
            continue;
        rdl__list_remove(l);
        rdl__parker_mark(&req->park, RDL__POST_SETTLED);
    }
    rdl__lane_wake(wake, NULL);
}

/* Receive on the lane that `leader` leads. lane->live stays although the mutex is not held: only the reader takes it
 * away.  @locks none */
static void read_lane(const struct rdl__fan *fan, struct rdl__lane *lane, const struct rdl__req *leader)
{
    int64_t now = rdl__now();
    ssize_t n = rdl__conn_recv(&lane->live->conn, lane->recv, RDL__CONN_RECV, now, now);
    struct rdl__link wake;

    rdl__list_init(&wake);
    rdl__mutex_lock(&lane->mu);
    rdl__lane_leader_received(lane, n, now, &wake);
    if (lane->leader == leader && leader->state == RDL__REQ_SETTLED)
        rdl__lane_pass_role(lane);
    rdl__mutex_unlock(&lane->mu);
    wake_others(fan, &wake);
}

/* The lanes that a fan waits for, each with the request that leads it. */
struct reading {
    unsigned n;
    struct rdl__sock_wait waits[RDL__FAN_MAX];
    struct {
        struct rdl__lane *lane;
        struct rdl__req *leader;
    } of[RDL__FAN_MAX];
};

/* Send the i-th request, and add its lane to `r` if it is the leader there. True: it must leave the fan, since it is
 * settled, or the fan is no longer its lane's reader.  @locks none */
static bool leaves(struct rdl__fan *fan, unsigned i, struct reading *r, int64_t now)
{
    struct rdl__lane *lane = fan->at[i].lane;
    struct rdl__req *req = fan->at[i].req;
    bool led;

    rdl__mutex_lock(&lane->mu);
    if (lane->leader == req && req->state != RDL__REQ_SETTLED)
        rdl__lane_flush(lane, req, now);
    led = req->state != RDL__REQ_SETTLED && lane->leader != NULL && in_fan(fan, lane->leader);
    if (led && lane->leader == req) {
        lane->reading = true;
        r->waits[r->n] = (struct rdl__sock_wait){.sock = &lane->live->conn.sock,
                                                 .writable = rdl__lane_out_pending(lane) && !lane->writing};
        r->of[r->n].lane = lane;
        r->of[r->n++].leader = req;
    }
    rdl__mutex_unlock(&lane->mu);
    return !led;
}

static void stop_reading(const struct reading *r)
{
    for (unsigned i = 0; i < r->n; i++) {
        rdl__mutex_lock(&r->of[i].lane->mu);
        r->of[i].lane->reading = false;
        rdl__mutex_unlock(&r->of[i].lane->mu);
    }
}

int rdl__fan_wait(struct rdl__fan *fan, int64_t until)
{
    for (bool late = false;;) {
        struct reading r = {0};
        int64_t now = rdl__now();
        int leaver = -1;

        for (unsigned i = 0; i < fan->n; i++)
            if (leaves(fan, i, &r, now))
                leaver = (int)i;
        if (leaver >= 0 || late) {
            stop_reading(&r);
            return leaver;
        }
        late = now >= until;
        rdl__sock_wait_any(r.waits, r.n, now, until);
        for (unsigned i = 0; i < r.n; i++)
            if (r.waits[i].ready)
                read_lane(fan, r.of[i].lane, r.of[i].leader);
    }
}

bool rdl__fan_leave(struct rdl__fan *fan, unsigned i, const struct rdl__req_ops *ops, struct rdl__task *task)
{
    struct rdl__lane *lane = fan->at[i].lane;
    struct rdl__req *req = fan->at[i].req;
    bool settled;

    rdl__mutex_lock(&lane->mu);
    settled = req->state == RDL__REQ_SETTLED;
    if (!settled) {
        req->ops = ops;
        lane->loop_count++;
        rdl__loop_post(lane->node->loop, task);
    }
    if (lane->leader == req)
        rdl__lane_pass_role(lane);
    else if (!settled && lane->role == RDL__ROLE_LOOP)
        rdl__loop_post(lane->node->loop, &lane->attend);
    else if (!settled && lane->reading)
        rdl__lane_flush(lane, NULL, rdl__now());
    atomic_fetch_sub_explicit(&lane->node->callers, 1, memory_order_relaxed);
    rdl__mutex_unlock(&lane->mu); /* the loop's request may be freed from here on, and the lane with it */
    if (settled && (rdl__parker_peek(&req->park) & RDL__POST_SETTLED) == 0)
        (void)rdl__park_for(&req->park, RDL__POST_SETTLED, RDL__NEVER);
    fan->at[i] = fan->at[--fan->n];
    return settled;
}
