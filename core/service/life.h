/* SPDX-License-Identifier: MIT */
/* life.h - a client's references, its calls under way, and its closing (life.c). */
#ifndef REDLATCH_SERVICE_LIFE_H
#define REDLATCH_SERVICE_LIFE_H

#include "core/service/client.h"

rdl_client_t *rdl__client_ref(rdl_client_t *client);
void rdl__client_unref(rdl_client_t *client);

/* RDL_OK, RDL_EFORK or RDL_ECLOSED. */
int rdl__client_refuses(const rdl_client_t *client, rdl_err_t *err);
static inline int rdl__client_check(const rdl_client_t *client, rdl_err_t *err)
{
    if (!rdl__client_forked(client) && !atomic_load_explicit(&client->closing, memory_order_acquire))
        return RDL_OK;
    return rdl__client_refuses(client, err);
}

void rdl__client_ended_closing(rdl_client_t *client); /* the rest of rdl__client_call_ends, while the client closes */

/* A call ends, its undo included. Begins: RDL_OK; or RDL_ECLOSED, and nothing was done. */
static inline void rdl__client_call_ends(rdl_client_t *client)
{
    atomic_fetch_sub(&client->calls, 1);
    if (atomic_load(&client->closing))
        rdl__client_ended_closing(client);
}

static inline int rdl__client_call_begins(rdl_client_t *client)
{
    atomic_fetch_add(&client->calls, 1);
    if (!atomic_load(&client->closing))
        return RDL_OK;
    rdl__client_call_ends(client);
    return RDL_ECLOSED;
}

/* The same for a call that has neither handle nor owner, which would keep the struct until it has ended. */
static inline int rdl__client_visit_begins(rdl_client_t *client)
{
    int rc = rdl__client_call_begins(client);

    return rc < 0 ? rc : (rdl__client_ref(client), RDL_OK);
}

/* The same for one that blocks. RDL_OK, RDL_EFORK, RDL_ECLOSED, or RDL_EDEADLK on the loop's thread.  @thread any */
int rdl__client_blocking_visit_begins(rdl_client_t *client, rdl_err_t *err);

/* May the calling thread wait for the loop? RDL_OK, or RDL_EDEADLK: it is the loop's. During a call, as the loop may be
 * gone after it. */
int rdl__client_may_block(const rdl_client_t *client, rdl_err_t *err);

static inline void rdl__client_visit_ends(rdl_client_t *client)
{
    rdl__client_call_ends(client);
    rdl__client_unref(client);
}

/* The same for a call that releases what an earlier one took: it may also begin while the client closes, as long as
 * there are connections. RDL_ECLOSED: there are none any more. It ends as any call.  @thread any  @locks takes close_mu
 */
int rdl__client_debt_begins(rdl_client_t *client);

/* A composite has taken a member of this client, and may have to release it: closing keeps the connections for that,
 * within close_timeout_ms. Begins during a call of the client's; ends after the release has begun, or when none is
 * needed. */
static inline void rdl__client_owing_begins(rdl_client_t *client)
{
    atomic_fetch_add(&client->owing, 1);
}

static inline void rdl__client_owing_ends(rdl_client_t *client)
{
    atomic_fetch_sub(&client->owing, 1);
    if (atomic_load(&client->closing))
        rdl__client_ended_closing(client);
}

/* Remove a hold from the watchdog of a client that is closing, if the watchdog is still there. */
void rdl__client_forget_hold(rdl_client_t *client, struct rdl__hold *hold);

/* Free the channels that linger (waiters.h).  @thread any */
void rdl__client_sweep(rdl_client_t *client);

/* A hold was lost: who waits for a lock in line tries again, since its client may not stand there.  @thread any */
void rdl__client_retry_waiters(rdl_client_t *client);

/* Set up the fields of this; the mutexes are there already. */
void rdl__life_init(rdl_client_t *client);

/* Stop all parts in order, and the loop: nothing runs any more when this returns.  @thread any but the loop */
void rdl__life_close(rdl_client_t *client);

#endif
