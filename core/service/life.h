/* life.h - how long a client lives, and what keeps it (life.c). */
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

void rdl__client_ended_closing(rdl_client_t *client); /* the rest of what follows, while it closes */

/* A call begins (RDL_OK, or RDL_ECLOSED and nothing done) and ends, its undo included. */
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

/* The same for a call that pays what an earlier one owes: it may begin while the client closes, for as long as there
 * are connections. RDL_ECLOSED: there are none any more. It ends as any call.  @thread any  @locks takes close_mu */
int rdl__client_debt_begins(rdl_client_t *client);

/* Something was taken that may have to be given back: a client that closes keeps its connections for that, as long as
 * it may. It begins during a call of the client's, and ends behind the debt that comes of it, if one does. */
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

/* Take a hold out of the watchdog of a client that is closing, if that still runs. */
void rdl__client_forget_hold(rdl_client_t *client, struct rdl__hold *hold);

/* No channel lingers any more (waiters.h): what they were kept for may be gone.  @thread any */
void rdl__client_sweep(rdl_client_t *client);

/* Ready for all of this; the mutexes are made already. */
void rdl__life_init(rdl_client_t *client);

/* The parts stop in order, and the loop with them: nothing runs any more when this returns.  @thread any but the loop
 */
void rdl__life_close(rdl_client_t *client);

#endif
