/* SPDX-License-Identifier: MIT */
/* lane_callers.c - callers that block share a lane: one of them, the leader, writes and reads for all.
 *
 * The reader is a calling thread (CALLER: the leader), the loop (LOOP), or there is none (NONE: no reply is awaited).
 * Only the reader receives, parses, and declares a connection broken.
 *
 *   NONE -> CALLER   a caller with a request finds no reader
 *   CALLER -> CALLER the leader's answer came and other callers wait: RDL__POST_LEAD to the first; by a
 *                    leader that is no fan, when those who have been answered are awake
 *   CALLER -> LOOP   requests of the loop's are unanswered, or the connection broke
 *   CALLER -> NONE   nothing is awaited; detached requests may be unanswered (rdl__lane_detach)
 *   NONE -> LOOP     those were not answered while other callers read (`tended`)
 *   LOOP -> CALLER, NONE   the loop's requests are answered (never on a lane that is kept up)
 *
 * Writing is combined, too. While the leader wakes those whose answers it has read, whoever comes leaves the writing to
 * the next leader, who is woken last. While that one reads, whoever comes leaves it to the last of those who were woken
 * together and are expected back (expect_back, write_or_leave). But nobody leaves to others what keeps the server busy
 * (enough_queued).
 *
 * One thread may be the leader of several lanes, with a request on each (lane_fan.c).
 *
 * A caller may be made leader in the instant in which it times out or is answered. So a caller that has the role passes
 * it on before it returns.
 */
#include "core/io/lane_inner.h"

/* ---- the reader's role ------------------------------------------------------------------------------------------ */

/* @locks mu */
static void give_to_loop(struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    if (lane->role != RDL__ROLE_LOOP)
        rdl__loop_post(lane->node->loop, &lane->attend);
    rdl__lane_set_role(lane, RDL__ROLE_LOOP, NULL);
}

/* The first request on the list that somebody waits for: a thread, if none there is the loop's; or NULL. */
static struct rdl__req *first_caller(const struct rdl__link *list)
{
    for (struct rdl__link *l = list->next; l != list; l = l->next)
        if (!rdl__req_detached(rdl__container(l, struct rdl__req, link)))
            return rdl__container(l, struct rdl__req, link);
    return NULL;
}

/* The next leader, if the role is passed on.  @locks mu */
static struct rdl__req *first_waiting(const struct rdl__lane *lane)
{
    struct rdl__req *first = first_caller(&lane->sent);

    rdl__assert_locked(&lane->mu);
    return first != NULL ? first : first_caller(&lane->queued);
}

void rdl__lane_pass_role(struct rdl__lane *lane)
{
    struct rdl__req *first = first_waiting(lane);

    rdl__assert_locked(&lane->mu);
    if (lane->live == NULL || lane->closed || rdl__lane_loop_reads(lane)) {
        give_to_loop(lane);
    } else if (first != NULL) {
        rdl__lane_set_role(lane, RDL__ROLE_CALLER, first);
        rdl__parker_post(&lane->leader->park, RDL__POST_LEAD);
    } else if (lane->tail_skip == 0 && rdl__list_empty(&lane->queued) && !rdl__lane_out_pending(lane)) {
        rdl__lane_set_role(lane, RDL__ROLE_NONE, NULL);
    } else {
        give_to_loop(lane);
    }
}

/* ---- busy polling ----------------------------------------------------------------------------------------------- */

bool rdl__lane_may_poll(const struct rdl__lane *lane, const struct rdl__req *self)
{
    rdl__assert_locked(&lane->mu);
    return lane->node->config.poll_ns > 0 && atomic_load_explicit(&lane->node->callers, memory_order_relaxed) <= 1 &&
           lane->sent.prev == &self->link && (lane->sent.next == &self->link || first_caller(&lane->sent) == self) &&
           rdl__list_empty(&lane->queued);
}

ssize_t rdl__lane_poll(struct rdl__lane *lane, struct rdl__lane_conn *lc, struct rdl__busypoll *account, int64_t now,
                       int64_t deadline)
{
    struct rdl__node *node = lane->node;
    int64_t most = node->config.poll_ns, began = now, idle = 0;
    ssize_t n = rdl__conn_recv(&lc->conn, lane->recv, RDL__CONN_RECV, now, now);

    if (n != 0) /* it was there already, perhaps because the server ran on this core: polling gained nothing */
        return n;
    if (most > deadline - now)
        most = deadline - now;
    if (most <= 0 || atomic_exchange_explicit(&node->polling, true, memory_order_acquire))
        return 0;
    n = rdl__conn_poll(&lc->conn, lane->recv, RDL__CONN_RECV, &now, most, &idle);
    if (n == 0 || atomic_load_explicit(&node->callers, memory_order_relaxed) > 1)
        rdl__busypoll_wasted(account, now - began);
    else
        rdl__busypoll_found(account, now - began);
    if (idle > 0)
        rdl__busypoll_kept(account, idle);
    atomic_store_explicit(&node->polling, false, memory_order_release);
    return n;
}

/* A lone caller has slept for its answer: the account of polling needs that time.  @thread the reader  @locks none */
static void note_sleep(struct rdl__lane *lane, int64_t took)
{
    struct rdl__node *node = lane->node;

    if (!rdl__busypoll_notes(&node->caller_poll) ||
        atomic_exchange_explicit(&node->polling, true, memory_order_acquire))
        return;
    rdl__busypoll_slept(&node->caller_poll, took);
    atomic_store_explicit(&node->polling, false, memory_order_release);
}

/* ---- leading ---------------------------------------------------------------------------------------------------- */

/* How long it takes each caller that is woken to come back with another request, where they have one processor; and how
 * long others' requests are left unwritten for those at most, as many of them may not come back. */
#define COMES_BACK_NS (40 * RDL__US)
#define COME_BACK_MOST_NS (2 * RDL__MS)

enum { ENOUGH = 8 }; /* requests that are written whoever comes */

/* Those on `wake` are about to be woken, one after the other: how many may come back with another request, and until
 * when that is waited for.  @locks mu */
static void expect_back(struct rdl__lane *lane, const struct rdl__link *wake, const struct rdl__req *self, int64_t now)
{
    int64_t wait_ns;

    rdl__assert_locked(&lane->mu);
    lane->expected = 0;
    for (const struct rdl__link *l = wake->next; l != wake; l = l->next)
        lane->expected += l != &self->link && !rdl__req_detached(rdl__container(l, struct rdl__req, link));
    wait_ns = (int64_t)lane->expected * COMES_BACK_NS;
    lane->expected_by = now + (wait_ns < COME_BACK_MOST_NS ? wait_ns : COME_BACK_MOST_NS);
}

static bool waited_enough(const struct rdl__req *req, int64_t now, int64_t deadline)
{
    return now >= deadline || (rdl__parker_peek(&req->park) & RDL__POST_CANCEL) != 0;
}

void rdl__lane_leader_received(struct rdl__lane *lane, ssize_t n, int64_t at, struct rdl__link *wake)
{
    const char *wrong;

    rdl__assert_locked(&lane->mu);
    lane->reading = false;
    if ((wrong = rdl__lane_received(lane, n, at, wake)) != NULL)
        rdl__lane_break(lane, wrong);
}

/* Write and read for all callers until `self` is settled, or a receive that began when it had waited long enough has
 * brought no answer. The role is still this thread's on return, or the loop's if the connection broke. It is passed on
 * when all who have been answered are awake: what these ask for next is then written together (write_or_leave), the
 * rest of it by the next leader, who is woken last. While they are woken the role may be taken away, and come back with
 * another connection.
 * @thread the leader  @locks mu, released while sending, receiving and waking */
static void lead(struct rdl__lane *lane, struct rdl__req *self, int64_t deadline)
{
    struct rdl__link wake;
    int64_t began = 0;

    rdl__assert_locked(&lane->mu);
    rdl__list_init(&wake);
    while (lane->leader == self && self->state != RDL__REQ_SETTLED &&
           (began == 0 || !waited_enough(self, began, deadline))) {
        struct rdl__lane_conn *lc = lane->live;
        bool full, lone, polls;
        ssize_t n = 0;
        int64_t now, until;

        began = now = rdl__now();
        rdl__lane_flush(lane, self, now);
        if (self->state == RDL__REQ_SETTLED)
            break;
        if ((until = rdl__lane_stalls_at(lane)) > deadline) /* no receive outlasts the silence that is allowed */
            until = deadline;
        full = rdl__lane_out_pending(lane) && !lane->writing;
        lone = !full && rdl__lane_may_poll(lane, self);
        polls = lone && rdl__busypoll_due(&lane->node->caller_poll);
        lane->reading = true;
        rdl__mutex_unlock(&lane->mu);
        if (full)
            rdl__sock_wait(&lc->conn.sock, true, now, until);
        else if (polls)
            n = rdl__lane_poll(lane, lc, &lane->node->caller_poll, now, until);
        if (n == 0)
            n = rdl__conn_recv(&lc->conn, lane->recv, RDL__CONN_RECV, now, full ? now : until);
        now = rdl__now();
        if (lone && !polls && n > 0)
            note_sleep(lane, now - began);
        rdl__mutex_lock(&lane->mu);
        rdl__lane_leader_received(lane, n, n != 0 ? now : began, &wake);
        if (wake.next == &self->link && wake.prev == &self->link) { /* as usual: only the leader's own answer came */
            rdl__list_remove(&self->link);
            rdl__parker_mark(&self->park, RDL__POST_SETTLED);
        } else if (!rdl__list_empty(&wake)) {
            expect_back(lane, &wake, self, now);
            rdl__mutex_unlock(&lane->mu);
            rdl__lane_wake(&wake, self);
            rdl__mutex_lock(&lane->mu);
            if (lane->leader == self && first_waiting(lane) == NULL)
                rdl__lane_flush(lane, self, 0); /* what was detached meanwhile: no leader comes that would write it */
        }
    }
}

/* ---- blocking --------------------------------------------------------------------------------------------------- */

/* Is what is queued worth writing, although others will add to it? It is if it is as many requests as are sent and
 * unanswered, or ENOUGH. So the server has work while the callers wake up, and the callers while it works.  @locks mu
 */
static bool enough_queued(const struct rdl__lane *lane)
{
    const struct rdl__link *queued = lane->queued.next, *sent = lane->sent.next;

    rdl__assert_locked(&lane->mu);
    for (int n = 0; n < ENOUGH && sent != &lane->sent; n++) {
        if (queued == &lane->queued)
            return false;
        queued = queued->next;
        sent = sent->next;
    }
    return true;
}

/* Write what is queued if it is enough, or if nobody else is about to. Otherwise `req` is left to the leader, who does
 * not read yet, or to the last of the callers that are expected back: writing costs as much as two switches between
 * threads, and the server reads as often. Returns until when `req`'s thread sleeps, and then calls this again: the
 * first in the queue until those who are expected should have come, others until `deadline`.  @locks mu */
static int64_t write_or_leave(struct rdl__lane *lane, const struct rdl__req *req, int64_t deadline)
{
    rdl__assert_locked(&lane->mu);
    if (lane->role != RDL__ROLE_LOOP && !enough_queued(lane)) {
        if (!lane->reading)
            return deadline;
        if (lane->expected > 0 && rdl__now() < lane->expected_by)
            return lane->queued.next == &req->link && lane->expected_by < deadline ? lane->expected_by : deadline;
    }
    rdl__lane_flush(lane, req, 0);
    return deadline;
}

/* rdl__lane_call, but for counting the caller.  @thread any but the loop */
static enum rdl__outcome send_and_wait(struct rdl__lane *lane, struct rdl__req *req, int64_t deadline,
                                       const struct rdl__req_ops *successor, enum rdl__successor_mode mode)
{
    enum rdl__outcome outcome = RDL__SETTLED;

    rdl__mutex_lock(&lane->mu);
    if (lane->closed) {
        rdl__mutex_unlock(&lane->mu);
        req->state = RDL__REQ_SETTLED;
        req->rc = RDL_ECLOSED;
        return RDL__SETTLED;
    }
    rdl__lane_enqueue(lane, req);
    if (lane->expected > 0)
        lane->expected--;
    if (lane->live == NULL)
        rdl__loop_post(lane->node->loop, &lane->attend);
    while (outcome == RDL__SETTLED && req->state != RDL__REQ_SETTLED) {
        if (lane->role == RDL__ROLE_NONE || lane->leader == req) {
            rdl__lane_set_role(lane, RDL__ROLE_CALLER, req);
            lead(lane, req, deadline);
        } else {
            int64_t until;
            uint32_t bits;

            /* the bit may be from a role that was taken away since; the flush may bring it anew */
            rdl__parker_unmark(&req->park, RDL__POST_LEAD);
            until = write_or_leave(lane, req, deadline);
            rdl__mutex_unlock(&lane->mu);
            bits = rdl__park(&req->park, until);
            if ((bits & (RDL__POST_SETTLED | RDL__POST_LEAD)) == RDL__POST_SETTLED)
                return RDL__SETTLED; /* not the leader: nothing to pass on */
            rdl__mutex_lock(&lane->mu);
        }
        if (req->state != RDL__REQ_SETTLED && waited_enough(req, rdl__now(), deadline))
            outcome = rdl__lane_drop(lane, req, successor, mode);
        if (lane->leader == req && (outcome != RDL__SETTLED || req->state == RDL__REQ_SETTLED))
            rdl__lane_pass_role(lane);
    }
    if (outcome != RDL__SETTLED && lane->role == RDL__ROLE_LOOP)
        rdl__loop_post(lane->node->loop, &lane->attend);
    else if (outcome != RDL__SETTLED && lane->reading)
        rdl__lane_flush(lane, NULL, rdl__now()); /* the successor */
    rdl__mutex_unlock(&lane->mu);
    if (outcome == RDL__SETTLED && (rdl__parker_peek(&req->park) & RDL__POST_SETTLED) == 0)
        (void)rdl__park_for(&req->park, RDL__POST_SETTLED, RDL__NEVER);
    return outcome;
}

enum rdl__outcome rdl__lane_call(struct rdl__lane *lane, struct rdl__req *req, int64_t deadline,
                                 const struct rdl__req_ops *successor, enum rdl__successor_mode mode)
{
    enum rdl__outcome outcome;

    atomic_fetch_add_explicit(&lane->node->callers, 1, memory_order_relaxed);
    outcome = send_and_wait(lane, req, deadline, successor, mode);
    atomic_fetch_sub_explicit(&lane->node->callers, 1, memory_order_relaxed);
    return outcome;
}

/* ---- detached requests ------------------------------------------------------------------------------------------ */

/* A leader that is not reading is about to write; what is enough does not wait for that. */
void rdl__lane_detach(struct rdl__lane *lane, struct rdl__req *req)
{
    bool watch;

    rdl__mutex_lock(&lane->mu);
    if (lane->closed) {
        rdl__mutex_unlock(&lane->mu);
        req->state = RDL__REQ_SETTLED;
        req->rc = RDL_ECLOSED;
        req->ops->detached(req);
        return;
    }
    rdl__lane_enqueue(lane, req);
    watch = !lane->tend_set;
    lane->tend_set = true;
    if (watch)
        rdl__loop_post(lane->node->loop, &lane->set_tend);
    if (lane->live == NULL)
        rdl__loop_post(lane->node->loop, &lane->attend);
    else if (lane->role != RDL__ROLE_CALLER || lane->reading || enough_queued(lane))
        rdl__lane_flush(lane, NULL, rdl__now());
    if (lane->role == RDL__ROLE_NONE && !lane->writing && rdl__lane_out_pending(lane))
        rdl__lane_pass_role(lane); /* the socket is full: to the loop, which waits until it has room */
    rdl__mutex_unlock(&lane->mu);
}
