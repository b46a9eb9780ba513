/* life.c - how long a client's struct lives, and which calls keep its parts whole. */
#include "core/base/err.h"
#include "core/service/client.h"

rdl_client_t *rdl__client_ref(rdl_client_t *client)
{
    atomic_fetch_add_explicit(&client->refs, 1, memory_order_relaxed);
    return client;
}

static void client_free(rdl_client_t *client)
{
    struct rdl__mem mem = client->mem;

    rdl__table_done(&client->names);
    rdl__mutex_done(&client->owners_mu);
    rdl__mutex_done(&client->names_mu);
    rdl__mutex_done(&client->close_mu);
    rdl__forkmark_done(&client->forkmark);
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
    /* The client may have gone through with closing since the count is down: its loop, not the struct. */
    rdl__mutex_lock(&client->close_mu);
    if (client->loop != NULL)
        rdl__loop_post(client->loop, &client->idle_task);
    rdl__mutex_unlock(&client->close_mu);
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
        return; /* the loop is about to see to that */
    rdl__loop_post(client->loop, &client->sweep_task);
    rdl__client_call_ends(client);
}

void rdl__client_forget_hold(rdl_client_t *client, struct rdl__hold *hold)
{
    rdl__mutex_lock(&client->close_mu);
    if (client->loop != NULL) /* else the loop has done with all holds */
        rdl__watchdog_forget(client->watchdog, hold);
    rdl__mutex_unlock(&client->close_mu);
}
