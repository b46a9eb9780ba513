/* SPDX-License-Identifier: MIT */
/* life.c - a client's references, its calls under way, and its closing.
 *
 * Closing: no new call begins; calls under way are canceled with RDL_ECLOSED; undos, releases that nobody waits for,
 * and those of composites that took members here, get close_timeout_ms; then lanes and subscribers close, the last
 * callers leave, the loop stops. Holds are left to their leases. What remains, a struct without a thread, is freed with
 * its last reference.
 */
#include "core/service/life.h"

#include "core/base/err.h"
#include "core/service/routing.h"

/* ---- who keeps it ----------------------------------------------------------------------------------------------- */

rdl_client_t *rdl__client_ref(rdl_client_t *client)
{
    atomic_fetch_add_explicit(&client->refs, 1, memory_order_relaxed);
    return client;
}

static void client_free(rdl_client_t *client)
{
    struct rdl__mem mem = client->mem;

    rdl__hostlock_leave(client->local_dir);
    rdl__table_done(&client->names);
    rdl__mutex_done(&client->owners_mu);
    rdl__mutex_done(&client->names_mu);
    rdl__mutex_done(&client->close_mu);
    rdl__forkmark_done(&client->forkmark);
    (void)rdl_metrics_free(client->sinks.counters);
    rdl__free(&mem, client, sizeof *client);
}

void rdl__client_unref(rdl_client_t *client)
{
    if (atomic_fetch_sub_explicit(&client->refs, 1, memory_order_acq_rel) == 1)
        client_free(client);
}

int rdl__client_refuses(const rdl_client_t *client, rdl_err_t *err)
{
    return rdl__err_set(err, rdl__client_forked(client) ? RDL_EFORK : RDL_ECLOSED, NULL);
}

void rdl__client_ended_closing(rdl_client_t *client)
{
    /* Closing may have finished since the count was lowered: the loop may be gone, the struct is not. */
    rdl__mutex_lock(&client->close_mu);
    if (client->loop != NULL)
        rdl__loop_post(client->loop, &client->idle_task);
    rdl__mutex_unlock(&client->close_mu);
}

int rdl__client_may_block(const rdl_client_t *client, rdl_err_t *err)
{
    if (!rdl__loop_here(rdl__client_loop(client)))
        return RDL_OK;
    return rdl__err_set(err, RDL_EDEADLK, "a blocking call on the client's loop thread would wait for itself");
}

int rdl__client_blocking_visit_begins(rdl_client_t *client, rdl_err_t *err)
{
    int rc;

    if ((rc = rdl__client_check(client, err)) < 0)
        return rc;
    if ((rc = rdl__client_visit_begins(client)) < 0)
        return rdl__err_set(err, rc, NULL);
    if ((rc = rdl__client_may_block(client, err)) < 0)
        rdl__client_visit_ends(client);
    return rc;
}

int rdl__client_debt_begins(rdl_client_t *client)
{
    bool closed;

    rdl__mutex_lock(&client->close_mu);
    closed = client->lanes_closed;
    if (!closed)
        atomic_fetch_add(&client->calls, 1);
    rdl__mutex_unlock(&client->close_mu);
    return closed ? RDL_ECLOSED : RDL_OK;
}

void rdl__client_sweep(rdl_client_t *client)
{
    if (rdl__client_call_begins(client) < 0)
        return; /* the loop will do that */
    rdl__loop_post(client->loop, &client->sweep_task);
    rdl__client_call_ends(client);
}

void rdl__client_retry_waiters(rdl_client_t *client)
{
    if (rdl__client_call_begins(client) < 0)
        return;
    rdl__loop_post(client->loop, &client->retry_task);
    rdl__client_call_ends(client);
}

void rdl__client_forget_hold(rdl_client_t *client, struct rdl__hold *hold)
{
    rdl__mutex_lock(&client->close_mu);
    if (client->loop != NULL) /* else there is no watchdog any more */
        rdl__watchdog_forget(client->watchdog, hold);
    rdl__mutex_unlock(&client->close_mu);
}

/* ---- closing ---------------------------------------------------------------------------------------------------- */

static bool shards_quiet(rdl_client_t *client)
{
    for (unsigned i = 0; rdl__routing_shard(client, i) != NULL; i++)
        if (!rdl__shard_quiet(rdl__routing_shard(client, i)))
            return false;
    return true;
}

/* Refuse further calls, also those of rdl__client_debt_begins: if `late`, or no call is under way and nothing may have
 * to be released. False: not yet. `owing` is raised during a call, so calls are read first.  @thread loop */
static bool shut(rdl_client_t *client, bool late)
{
    bool shuts;

    rdl__assert_on_loop(client->loop);
    rdl__mutex_lock(&client->close_mu);
    shuts = late || (atomic_load(&client->calls) == 0 && atomic_load(&client->owing) == 0);
    client->lanes_closed = shuts;
    rdl__mutex_unlock(&client->close_mu);
    return shuts;
}

/* What is still held is left to its lease: all debts are paid. */
static void close_lanes(rdl_client_t *client, int64_t now)
{
    rdl__describer_close(&client->describer, rdl__watchdog_holds(client->watchdog), now);
    rdl__watchdog_close(client->watchdog);
    rdl__mutex_lock(&client->names_mu);
    client->acks_closed = true;
    rdl__mutex_unlock(&client->names_mu);
    rdl__waiters_close(&client->waiters);
    rdl__evictions_close(&client->evictions);
    for (unsigned i = 0; rdl__routing_shard(client, i) != NULL; i++)
        rdl__shard_close(rdl__routing_shard(client, i), now);
    rdl__sentinels_close(client->sentinels);
    rdl__cluster_close(client->cluster);
}

/* Entries of the replay log keep names, which keep guards at a server: drop them while it is connected. The guards'
 * DELs count as calls.  @thread loop */
static void forget_replay(rdl_client_t *client)
{
    rdl__assert_on_loop(client->loop);
    for (unsigned i = 0; rdl__routing_shard(client, i) != NULL; i++)
        if (rdl__routing_shard(client, i)->replay != NULL && rdl__lane_up(rdl__routing_shard(client, i)->loop_lane))
            rdl__replay_forget(rdl__routing_shard(client, i)->replay);
}

/* No debt is added any more, since `closing` is set.  @thread loop */
static void pay_debts(rdl_client_t *client)
{
    struct rdl__link *l;

    rdl__assert_on_loop(client->loop);
    while ((l = rdl__list_pop(&client->debts)) != NULL) {
        struct rdl__debt *debt = rdl__container(l, struct rdl__debt, link);

        debt->pay(debt);
    }
}

/* The next step of closing, if it is due. Calls that are refused count for a moment; after close_told that does not
 * matter.
 * @thread loop */
static void close_further(rdl_client_t *client, int64_t now)
{
    if (client->close_told)
        return;
    rdl__assert_on_loop(client->loop);
    pay_debts(client);
    if (!client->lanes_closed && atomic_load(&client->calls) == 0)
        forget_replay(client);
    if (!client->lanes_closed && shut(client, false))
        close_lanes(client, now);
    if (client->lanes_closed && atomic_load(&client->calls) == 0 && shards_quiet(client)) {
        rdl__loop_timer_off(rdl__client_loop(client), &client->close_timer);
        client->close_told = true;
        rdl__parker_post(&client->parker, RDL__POST_CLOSED);
    } else if (client->lanes_closed) { /* a caller is about to leave a lane */
        rdl__loop_timer(rdl__client_loop(client), &client->close_timer, now + RDL__MS);
    }
}

static void on_close(struct rdl__task *task, int64_t now)
{
    rdl_client_t *client = rdl__container(task, rdl_client_t, close_task);

    if (!client->close_told) { /* else the end of a call has done it already */
        rdl__loop_timer(rdl__client_loop(client), &client->close_timer, rdl__after_ms(now, client->close_timeout_ms));
        pay_debts(client);
        for (unsigned i = 0; rdl__routing_shard(client, i) != NULL; i++)
            rdl__shard_tend(rdl__routing_shard(client, i), now);
    }
    close_further(client, now);
}

static void on_idle(struct rdl__task *task, int64_t now)
{
    close_further(rdl__container(task, rdl_client_t, idle_task), now);
}

static void on_close_timer(struct rdl__timer *timer, int64_t now)
{
    rdl_client_t *client = rdl__container(timer, rdl_client_t, close_timer);

    if (!client->lanes_closed && shut(client, true))
        close_lanes(client, now);
    close_further(client, now);
}

static void stop_loop(rdl_client_t *client)
{
    struct rdl__loop *loop;

    rdl__mutex_lock(&client->close_mu);
    loop = client->loop;
    client->loop = NULL;
    rdl__mutex_unlock(&client->close_mu);
    (void)rdl__loop_stop(loop);
}

void rdl__life_init(rdl_client_t *client)
{
    atomic_init(&client->refs, 1);
    rdl__list_init(&client->debts);
    rdl__list_init(&client->cached);
    rdl__task_init(&client->close_task, on_close);
    rdl__task_init(&client->idle_task, on_idle);
    rdl__timer_init(&client->close_timer, on_close_timer);
}

void rdl__life_close(rdl_client_t *client)
{
    rdl__loop_post(client->loop, &client->close_task);
    (void)rdl__park_for(&client->parker, RDL__POST_CLOSED, RDL__NEVER);
    stop_loop(client);
}
