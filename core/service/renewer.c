/* SPDX-License-Identifier: MIT */
/* renewer.c - renewals in batches, by server.
 *
 * A renewal that is due moves the hold to the `due` list of its server's renewer, from which batches are made, at most
 * IN_FLIGHT at a time so that other commands slip in between. So a server that does not answer delays its own renewals,
 * not those of other servers, nor the report of a loss.
 *
 * In a cluster the hold's slot says which renewer it is due at; that is looked up each time, so a hold that is not due
 * need not be changed when its slot moves. A script cannot have keys of several slots, so then a batch has one slot. As
 * most batches have one hold then, many are under way at a time (IN_FLIGHT_SPREAD), and the list is searched for holds
 * of the same slot no further than LOOK_AHEAD.
 *
 * Where replicas must confirm (acks.c), an answer counts if enough of them have confirmed it for its hold; otherwise it
 * is treated as no answer, unless it says that the hold is gone. A WAIT is about all that was written before it on the
 * connection, so such a batch has a script for each of its slots and types, and one WAIT behind them, for the most
 * replicas that any of its holds wants. One such batch is under way at a time, so a hold that is due may have to wait
 * for all others' batches. A WAIT for a dead replica takes its whole timeout: for all those batches together that is
 * less than a third of the lease (bound_wait).
 */
#include "core/service/renewer.h"

#include "core/base/err.h"

#include <limits.h>

#define IN_FLIGHT 2
#define IN_FLIGHT_SPREAD 32
#define LOOK_AHEAD 64
#define WAIT_SHARE 4 /* the WAITs of all batches may take a quarter of a lease together */

/* ---- what is due ------------------------------------------------------------------------------------------------ */

struct rdl__renewer *rdl__renewer_of(const struct rdl__watchdog *wd, const struct rdl__hold *hold)
{
    const struct rdl__routes *routes = wd->config.routes;

    return routes == NULL ? wd->home : routes->renewer(routes->arg, hold->hash_slot);
}

/* The list on which it waits for a batch.  @locks mu */
static struct rdl__link *due_list(struct rdl__renewer *at, const struct rdl__hold *hold)
{
    rdl__assert_locked(&at->batches[0].wd->mu);
    return hold->acks.replicas > 0 ? &at->due_acked : &at->due;
}

void rdl__renewer_due(struct rdl__renewer *at, struct rdl__hold *hold)
{
    rdl__assert_locked(&at->batches[0].wd->mu);
    hold->renew_at = RDL__NEVER;
    hold->renewal = RDL__RENEWAL_DUE;
    rdl__list_push_back(due_list(at, hold), &hold->due);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

/* May the hold go into this batch, in a script of its own if need be?  @locks mu */
static bool fits(const struct rdl__batch *batch, const struct rdl__hold *hold)
{
    rdl__assert_locked(&batch->wd->mu);
    return batch->count == 0 ||
           (!hold->by_itself && !batch->hold[0]->by_itself && hold->acks.if_able == batch->acks.if_able);
}

static bool shares_script(const struct rdl__hold *first, const struct rdl__hold *hold)
{
    return hold->hash_slot == first->hash_slot && hold->script == first->script;
}

/* @locks mu */
static void take_along(struct rdl__batch *batch, struct rdl__hold *hold)
{
    rdl__assert_locked(&batch->wd->mu);
    batch->acks = batch->count == 0 ? hold->acks : rdl__acks_most(batch->acks, hold->acks);
    rdl__list_remove(&hold->due);
    hold->renewal = RDL__RENEWAL_SENT;
    hold->place = &batch->hold[batch->count];
    batch->script_of[batch->count] = (unsigned char)batch->scripts;
    batch->hold[batch->count++] = hold;
}

/* Add a script: for the first hold of the list that fits the batch, and others that may share its script. False: none
 * fits.
 * @locks mu */
static bool add_script(struct rdl__batch *batch, const struct rdl__link *due)
{
    unsigned left = batch->wd->config.routes == NULL ? UINT_MAX : LOOK_AHEAD;
    const struct rdl__hold *first = NULL;
    struct rdl__link *next;

    rdl__assert_locked(&batch->wd->mu);
    for (struct rdl__link *l = due->next; l != due && batch->count < RDL__BATCH && left-- > 0; l = next) {
        struct rdl__hold *hold = rdl__container(l, struct rdl__hold, due);

        next = l->next;
        if ((first != NULL && !shares_script(first, hold)) || !fits(batch, hold))
            continue;
        if (first == NULL)
            first = hold;
        take_along(batch, hold);
    }
    batch->scripts += first != NULL ? 1 : 0;
    return first != NULL;
}

/* Bound the WAIT, so that dead replicas do not delay the other batches for too long. A hold that is due waits at most
 * for the batch under way, the full batches of all others, one that is not full, and its own.  @locks mu */
static void bound_wait(struct rdl__batch *batch)
{
    int64_t most = INT64_MAX;

    rdl__assert_locked(&batch->wd->mu);
    for (unsigned i = 0; i < batch->count; i++)
        if (batch->hold[i]->lease_ms < most)
            most = batch->hold[i]->lease_ms;
    most /= (int64_t)WAIT_SHARE * (3 + batch->wd->acked_holds / RDL__BATCH);
    rdl__acks_bound(&batch->acks, most);
}

/* Fill the batch from that list.  @locks mu */
static void fill(struct rdl__batch *batch, const struct rdl__link *due)
{
    rdl__assert_locked(&batch->wd->mu);
    batch->count = batch->scripts = 0;
    while (add_script(batch, due) && batch->acks.replicas > 0)
        ;
    if (batch->acks.replicas > 0)
        bound_wait(batch);
    batch->at->acks_under_way |= batch->acks.replicas > 0;
}

/* The list to fill a batch from; NULL: none. One batch with a WAIT at a time, so the others always find a free one.
 * @locks mu */
static const struct rdl__link *next_due_list(const struct rdl__renewer *at)
{
    rdl__assert_locked(&at->batches[0].wd->mu);
    if (!rdl__list_empty(&at->due_acked) && !at->acks_under_way)
        return &at->due_acked;
    return rdl__list_empty(&at->due) ? NULL : &at->due;
}

void rdl__renewer_pump(struct rdl__watchdog *wd, struct rdl__renewer *at)
{
    rdl__assert_on_loop(wd->loop);
    for (;;) {
        struct rdl__batch *batch = NULL;
        const struct rdl__link *due;

        rdl__mutex_lock(&wd->mu);
        due = next_due_list(at);
        if (due != NULL && !rdl__list_empty(&at->free) && !wd->closed) {
            batch = rdl__container(rdl__list_pop(&at->free), struct rdl__batch, free);
            fill(batch, due);
        }
        rdl__mutex_unlock(&wd->mu);
        if (batch == NULL)
            return;
        rdl__renewal_send(batch);
    }
}

void rdl__renewers_pump(struct rdl__watchdog *wd)
{
    rdl__assert_on_loop(wd->loop);
    for (struct rdl__link *l = wd->renewers.next; l != &wd->renewers; l = l->next)
        rdl__renewer_pump(wd, rdl__container(l, struct rdl__renewer, link));
}

/* ---- watchdog.h: renewers --------------------------------------------------------------------------------------- */

struct rdl__renewer *rdl__renewer_new(struct rdl__watchdog *wd, struct rdl__lane *lane,
                                      const struct rdl__acks_lane *acked)
{
    unsigned count = wd->config.routes == NULL ? IN_FLIGHT : IN_FLIGHT_SPREAD;
    struct rdl__renewer *at = rdl__zalloc(wd->mem, sizeof *at + count * sizeof at->batches[0]);

    if (wd->home != NULL)
        rdl__assert_on_loop(wd->loop);
    if (at == NULL)
        return NULL;
    at->lane = lane;
    at->acked = acked;
    at->count = count;
    rdl__list_init(&at->due);
    rdl__list_init(&at->due_acked);
    rdl__list_init(&at->free);
    for (unsigned i = 0; i < count; i++) {
        at->batches[i].wd = wd;
        at->batches[i].at = at;
        rdl__list_push_back(&at->free, &at->batches[i].free);
    }
    rdl__list_push_back(&wd->renewers, &at->link);
    return at;
}

/* Not holds of a batch that is under way: the lane repeats that on the new connection. */
void rdl__watchdog_examine(struct rdl__watchdog *wd, struct rdl__renewer *at)
{
    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    for (struct rdl__heap_node *n = NULL; (n = rdl__agenda_next(&wd->agenda, n)) != NULL;) {
        struct rdl__hold *hold = rdl__container(n, struct rdl__hold, node);

        if (!rdl__hold_under_way(hold) && hold->state != RDL_DEGRADED && rdl__renewer_of(wd, hold) == at)
            rdl__renewer_due(at, hold);
    }
    rdl__mutex_unlock(&wd->mu);
    rdl__renewer_pump(wd, at);
}

void rdl__watchdog_verify(struct rdl__watchdog *wd, int64_t n)
{
    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    for (struct rdl__heap_node *node = NULL; (node = rdl__agenda_next(&wd->agenda, node)) != NULL;) {
        struct rdl__hold *hold = rdl__container(node, struct rdl__hold, node);

        if ((n != 0 && hold->id.n != n) || hold->state == RDL_DEGRADED)
            continue;
        if (!rdl__hold_under_way(hold))
            rdl__renewer_due(rdl__renewer_of(wd, hold), hold);
        else if (hold->renewal == RDL__RENEWAL_SENT)
            hold->again = true;
    }
    rdl__mutex_unlock(&wd->mu);
    rdl__renewers_pump(wd);
}

/* Move the holds of a list that have another renewer by now.  @locks mu */
static void reroute(struct rdl__watchdog *wd, const struct rdl__renewer *at, const struct rdl__link *due)
{
    struct rdl__link *next;

    rdl__assert_locked(&wd->mu);
    for (struct rdl__link *l = due->next; l != due; l = next) {
        struct rdl__hold *hold = rdl__container(l, struct rdl__hold, due);

        next = l->next;
        if (rdl__renewer_of(wd, hold) == at)
            continue;
        rdl__list_remove(l);
        rdl__list_push_back(due_list(rdl__renewer_of(wd, hold), hold), l);
    }
}

void rdl__watchdog_reroute(struct rdl__watchdog *wd)
{
    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    for (struct rdl__link *l = wd->renewers.next; l != &wd->renewers; l = l->next) {
        const struct rdl__renewer *at = rdl__container(l, struct rdl__renewer, link);

        reroute(wd, at, &at->due);
        reroute(wd, at, &at->due_acked);
    }
    rdl__mutex_unlock(&wd->mu);
    rdl__renewers_pump(wd);
}
