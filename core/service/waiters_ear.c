/* SPDX-License-Identifier: MIT */
/* waiters_ear.c - the ear of a client's own channel (waiters.h): a waiter on the lock's channel that wants no lock.
 * It is there as the last waiter that was refused has been told (enum rdl__ear).
 *
 * An ear that has heard nobody for long is closed when the present holder's release reads the line: a release counts
 * who listens. An ear for all is one that was opened as such; another one stays what it was, for its own client.
 */
#include "core/service/waiters_inner.h"

/* The lock was freed by somebody who does not know the line, or its channel was subscribed to. */
static void on_ear(struct rdl__waiter *ear, int64_t now)
{
    struct rdl__channel *c = rdl__container(ear, struct rdl__channel, ear.waiter);

    rdl__waiter_sleep(ear);
    c->epoch++;
    c->ear.heard++;
    c->heard_at = c->news_at = c->ear.heard_at = now;
    rdl__channel_wake_first(c);
}

static const struct rdl__waiter_ops ear_ops = {.go = on_ear};

void rdl__channel_close_ear(struct rdl__channel *c)
{
    struct rdl__channel *shared = c->ear.waiter.channel;

    if (shared == NULL)
        return;
    rdl__waiter_off(&c->ear.waiter);
    c->ear.waiter.channel = NULL;
    shared->hearing--;
    if (--shared->waiters == 0)
        rdl__channel_drop(shared);
}

void rdl__channel_set_ear(struct rdl__channel *c, const struct rdl__waiter *w, int64_t now)
{
    if (w->own_tail == 0 || !w->entered)
        return;
    if (w->ear_for == RDL__EAR_NOT &&
        (c->ear.reason == RDL__EAR_FOR_ALL || now >= rdl__after_ms(c->ear.heard_at, RDL__QUIET_EAR_MS)))
        rdl__channel_close_ear(c);
    if (w->ear_for != RDL__EAR_FOR_ALL || c->ear.waiter.channel == NULL)
        c->ear.reason = w->ear_for;
    else if (c->ear.reason != RDL__EAR_FOR_ALL)
        c->ear.reason = RDL__EAR_PEER;
    if (w->ear_for == RDL__EAR_PEER && c->ear.heard >= RDL__STALE_EAR_HEARD)
        rdl__channel_close_ear(c);
    if (w->ear_for == RDL__EAR_NOT || c->ear.waiter.channel != NULL)
        return;
    c->ear.heard = 0;
    rdl__waiter_init(&c->ear.waiter, &ear_ops);
    c->ear.waiter.is_ear = true;
    if (rdl__channel_join(c->ws, &c->ear.waiter, c->name, c->node.key_len - w->own_tail, -1, now) == 1) {
        rdl__waiter_sleep(&c->ear.waiter);
        rdl__waiter_wake(&c->ear.waiter);
    }
}
