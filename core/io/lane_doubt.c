/* SPDX-License-Identifier: MIT */
/* lane_doubt.c - connections that broke with requests unanswered: these may still run.
 *
 * The server may still read what was sent on a broken connection. So each is kept, severed, until the server has
 * answered a CLIENT KILL for it; the KILLs go before everything else on the next connection, and the unanswered
 * requests are repeated behind them (protocol.md, 3). A KILL names a client by its id and address, which one run of a
 * server never uses again. So an unanswered KILL may arrive late without harm, and the next connection makes a new one.
 */
#include "core/io/lane_inner.h"

#include "core/base/err.h"

#include <string.h>

/* The most that are kept severed of the server's present run, all of which the next connection kills, and of others. */
#define THIS_RUN 32
#define OTHER_RUNS 16

static const struct rdl__req_ops kill_ops;

void rdl__lane_conn_free(struct rdl__lane_conn *lc)
{
    const struct rdl__mem *mem = lc->lane->node->mem;

    rdl__conn_done(&lc->conn);
    rdl__free(mem, lc, sizeof *lc);
}

/* Did the server tell its run and the connection's client id? */
static bool can_be_killed(const struct rdl__lane_conn *lc)
{
    return lc->conn.id != 0 && lc->conn.run_id[0] != '\0';
}

/* ---- CLIENT KILL ------------------------------------------------------------------------------------------------ */

static void encode_kill(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    const struct rdl__lane_conn *lc = rdl__container(req, struct rdl__lane_conn, kill);

    (void)eval;
    rdl__cmd_begin(to, 6);
    rdl__cmd_str(to, "CLIENT");
    rdl__cmd_str(to, "KILL");
    rdl__cmd_str(to, "ID");
    rdl__cmd_int(to, lc->conn.id);
    rdl__cmd_str(to, "ADDR");
    rdl__cmd_str(to, lc->conn.addr);
}

static void decode_kill(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    const struct rdl__lane_conn *lc = rdl__container(req, struct rdl__lane_conn, kill);

    (void)now;
    if (reply->type == RDL__REPLY_ERROR)
        atomic_store(&lc->lane->node->kill_refused, true);
}

/* @locks mu */
static void queue_kill(struct rdl__lane *lane, struct rdl__lane_conn *lc)
{
    rdl__assert_locked(&lane->mu);
    rdl__req_init(&lc->kill, &kill_ops);
    lc->kill.state = RDL__REQ_QUEUED;
    rdl__list_push_front(&lane->queued, &lc->kill.link);
    lane->loop_count++;
}

/* Without memory it is sent again after a pause, before anything else; or made anew on the next connection. */
static void done_kill(struct rdl__req *req, int64_t now)
{
    struct rdl__lane_conn *lc = rdl__container(req, struct rdl__lane_conn, kill);
    struct rdl__lane *lane = lc->lane;
    bool unsent = req->rc == RDL_ENOMEM;

    rdl__mutex_lock(&lane->mu);
    if (!unsent)
        rdl__list_remove(&lc->link);
    else if (lane->live != NULL)
        queue_kill(lane, lc);
    rdl__mutex_unlock(&lane->mu);
    if (unsent)
        rdl__loop_timer(lane->node->loop, &lane->memory_retry, now + RDL__LANE_MEMORY_PAUSE);
    else
        rdl__lane_conn_free(lc);
}

static const struct rdl__req_ops kill_ops = {.encode = encode_kill, .decode = decode_kill, .done = done_kill};

/* Ids of one run mean other clients in another run. But the former master may come back: so those of other runs are
 * kept, the newest OTHER_RUNS of them. A server that does not tell its run may be the same one. The oldest of a run
 * that has answered no KILL on so many connections are given up, as if it had refused. */
void rdl__lane_queue_kills(struct rdl__lane *lane, const struct rdl__lane_conn *fresh)
{
    struct rdl__link *before;
    unsigned own = 0, others = 0;

    rdl__assert_on_loop(lane->node->loop);
    rdl__assert_locked(&lane->mu);
    for (struct rdl__link *l = lane->severed.prev; l != &lane->severed; l = before) {
        struct rdl__lane_conn *lc = rdl__container(l, struct rdl__lane_conn, link);
        bool same = strcmp(lc->conn.run_id, fresh->conn.run_id) == 0;

        before = l->prev;
        if (same && own++ < THIS_RUN) {
            queue_kill(lane, lc);
        } else if (same || ++others > OTHER_RUNS) {
            if (same)
                atomic_store(&lane->node->kill_refused, true);
            rdl__list_remove(l);
            rdl__lane_conn_free(lc);
        }
    }
    if (others > 0 && fresh->conn.run_id[0] == '\0')
        atomic_store(&lane->node->kill_refused, true);
}

void rdl__lane_drop_kills(struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    for (struct rdl__link *l = lane->severed.next; l != &lane->severed; l = l->next) {
        struct rdl__req *kill = &rdl__container(l, struct rdl__lane_conn, link)->kill;

        if (kill->state == RDL__REQ_QUEUED || kill->state == RDL__REQ_SENT) {
            rdl__list_remove(&kill->link);
            kill->state = RDL__REQ_IDLE;
            lane->loop_count--;
        }
    }
}

/* ---- broken connections ----------------------------------------------------------------------------------------- */

void rdl__lane_break(struct rdl__lane *lane, const char *why)
{
    struct rdl__lane_conn *lc = lane->live;
    char server[sizeof lane->node->place];

    rdl__assert_locked(&lane->mu);
    rdl__sock_shutdown(&lc->conn.sock);
    rdl__lane_drop_kills(lane);
    lc->unanswered = rdl__lane_unanswered(lane);
    rdl__list_push_back(&lane->broken, &lc->link);
    lane->live = NULL;
    for (struct rdl__link *l = lane->sent.next; l != &lane->sent; l = l->next) {
        struct rdl__req *req = rdl__container(l, struct rdl__req, link);

        req->skip = 0;
        req->resent = true;
        req->state = RDL__REQ_QUEUED;
    }
    rdl__list_splice_front(&lane->queued, &lane->sent);
    lane->tail_skip = 0;
    if (!lane->writing)
        rdl__lane_empty_out(lane);
    rdl__lane_set_role(lane, RDL__ROLE_LOOP, NULL);
    rdl__node_server(lane->node, server, sizeof server);
    rdl__mutex_lock(&lane->node->mu);
    (void)rdl__err_set(&lane->node->last_error, RDL_ECONN, "%s: connection lost: %s", server, why);
    rdl__err_where(&lane->node->last_error, server, NULL, 0);
    rdl__mutex_unlock(&lane->node->mu);
    rdl__loop_post(lane->node->loop, &lane->attend);
}

void rdl__lane_close_broken(struct rdl__lane *lane, int64_t now)
{
    struct rdl__link *l;

    rdl__assert_on_loop(lane->node->loop);
    rdl__assert_locked(&lane->mu);
    if (lane->writing)
        return; /* the writer posts `attend` when it has left */
    while ((l = rdl__list_pop(&lane->broken)) != NULL) {
        struct rdl__lane_conn *lc = rdl__container(l, struct rdl__lane_conn, link);

        rdl__conn_close(&lc->conn);
        if (!lane->closed)
            rdl__node_broke(lane->node, lc->conn.up_at, lc->refused, now);
        if (lc->unanswered && can_be_killed(lc)) {
            rdl__list_push_back(&lane->severed, &lc->link);
            continue;
        }
        if (lc->unanswered)
            atomic_store(&lane->node->kill_refused, true);
        rdl__lane_conn_free(lc);
    }
}
