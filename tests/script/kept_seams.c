/* SPDX-License-Identifier: MIT */
/* kept_seams.c - where the library is led elsewhere, for the enumeration of kept locks (kept_client.h): the linker
 * gives calls of NAME to __wrap_NAME (tests/SConscript). The addresses of a client's loop and subscriber are the
 * client's.
 */
#include "core/call/cached.h"
#include "core/call/verb.h"
#include "tests/script/kept_client.h"
#include "tests/support/wait.h"

int __wrap_rdl__call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err);
int __wrap_rdl_owner_cancel(rdl_owner_t *owner);
void __wrap_rdl__call_tidy(struct rdl__record *rec, int64_t n);
void __wrap_rdl__loop_post(struct rdl__loop *loop, struct rdl__task *task);
void __wrap_rdl__loop_unpost(struct rdl__loop *loop, struct rdl__task *task);
void __wrap_rdl__loop_timer(struct rdl__loop *loop, struct rdl__timer *timer, int64_t at);
void __wrap_rdl__loop_timer_off(struct rdl__loop *loop, struct rdl__timer *timer);
bool __wrap_rdl__loop_here(const struct rdl__loop *loop);
int64_t __wrap_rdl__now(void);
void __wrap_rdl__subscriber_add(struct rdl__subscriber *sub, struct rdl__topic *topic, int64_t now);
void __wrap_rdl__subscriber_drop(struct rdl__subscriber *sub, struct rdl__topic *topic);
void __wrap_rdl__record_tell(struct rdl__record *rec, const struct rdl__hold_id *id, rdl_hold_state_t state,
                             rdl_loss_reason_t reason);
void __wrap_rdl__record_retire_and_unlock(struct rdl__record *rec);
void __wrap_rdl__watchdog_add(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms,
                              bool renewed);
rdl_hold_state_t __wrap_rdl__watchdog_state(struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now,
                                            int64_t *ret_valid_ns);
void __wrap_rdl__watchdog_keep(struct rdl__watchdog *wd, struct rdl__hold *hold);
void __wrap_rdl__watchdog_forget(struct rdl__watchdog *wd, struct rdl__hold *hold);
rdl_hold_state_t __wrap_rdl__watchdog_remove(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t now);
void __wrap_rdl__watchdog_orphan(struct rdl__watchdog *wd, struct rdl__hold *hold);
int64_t __wrap_rdl__watchdog_validity(const struct rdl__watchdog *wd, int64_t sent_at, int64_t lease_ms);
int64_t __wrap_rdl__watchdog_expiry(const struct rdl__watchdog *wd, int64_t granted_at, int64_t lease_ms);

/* The keeper's: its take and its release. */
int __wrap_rdl__call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct client *c = client_of(order->lock->name->client);

    (void)ret_op;
    (void)err;
    client_orders(c, order);
    return RDL_OK;
}

int __wrap_rdl_owner_cancel(rdl_owner_t *owner)
{
    struct actor *a = &client_of(owner->client)->actors[KEEPER];

    if (a->phase != ACTOR_FREE && a->call.verb->acquires)
        a->canceled = true;
    return RDL_OK;
}

void __wrap_rdl__call_tidy(struct rdl__record *rec, int64_t n)
{
    (void)rec;
    (void)n;
    die("enumeration: a lease has ended");
}

/* The cache's own task is `posted` there. */
void __wrap_rdl__loop_post(struct rdl__loop *loop, struct rdl__task *task)
{
    struct actor *a = actor_of(task);

    (void)loop;
    if (a != NULL)
        a->posted = true;
}

void __wrap_rdl__loop_unpost(struct rdl__loop *loop, struct rdl__task *task)
{
    (void)loop;
    actor_of(task)->posted = false;
}

void __wrap_rdl__loop_timer(struct rdl__loop *loop, struct rdl__timer *timer, int64_t at)
{
    (void)timer;
    client_of((const rdl_client_t *)(const void *)loop)->timer_at = at;
}

void __wrap_rdl__loop_timer_off(struct rdl__loop *loop, struct rdl__timer *timer)
{
    (void)timer;
    client_of((const rdl_client_t *)(const void *)loop)->timer_at = 0;
}

bool __wrap_rdl__loop_here(const struct rdl__loop *loop)
{
    (void)loop;
    return true;
}

int64_t __wrap_rdl__now(void)
{
    return CLIENT_NOW;
}

void __wrap_rdl__subscriber_add(struct rdl__subscriber *sub, struct rdl__topic *topic, int64_t now)
{
    struct client *c = client_of((const rdl_client_t *)(const void *)sub);

    (void)topic;
    (void)now;
    c->subscribing = true;
}

void __wrap_rdl__subscriber_drop(struct rdl__subscriber *sub, struct rdl__topic *topic)
{
    struct client *c = client_of((const rdl_client_t *)(const void *)sub);

    (void)topic;
    client_cut(c);
    c->broken = false;
}

void __wrap_rdl__record_tell(struct rdl__record *rec, const struct rdl__hold_id *id, rdl_hold_state_t state,
                             rdl_loss_reason_t reason)
{
    (void)rec;
    (void)id;
    (void)state;
    (void)reason;
}

/* All records stay: those that are not in use are as if they were not there. */
void __wrap_rdl__record_retire_and_unlock(struct rdl__record *rec)
{
    rdl__mutex_unlock(&rec->name->mu);
}

void __wrap_rdl__watchdog_add(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms,
                              bool renewed)
{
    (void)wd;
    (void)sent_at;
    (void)renewed;
    hold->deadline = rdl__after_ms(CLIENT_NOW, lease_ms);
}

/* Time passes, and each hold is renewed: it is as fresh as ever. */
rdl_hold_state_t __wrap_rdl__watchdog_state(struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now,
                                            int64_t *ret_valid_ns)
{
    (void)wd;
    if (ret_valid_ns != NULL)
        *ret_valid_ns = hold->deadline > now ? hold->deadline - now : 0;
    return hold->deadline > now ? RDL_HELD : RDL_LOST;
}

void __wrap_rdl__watchdog_keep(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    (void)wd;
    (void)hold;
}

void __wrap_rdl__watchdog_forget(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    (void)wd;
    hold->deadline = 0;
}

rdl_hold_state_t __wrap_rdl__watchdog_remove(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t now)
{
    rdl_hold_state_t state = __wrap_rdl__watchdog_state(wd, hold, now, NULL);

    hold->deadline = 0;
    return state;
}

void __wrap_rdl__watchdog_orphan(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    struct rdl__record *rec = rdl__container(hold, struct rdl__record, hold);
    struct rdl__hold_id id = hold->id;

    __wrap_rdl__watchdog_forget(wd, hold);
    if (rdl__is_kept(id.n))
        rdl__cache_changed(rec, &id, RDL_LOST, RDL_LOSS_THREAD_EXIT, CLIENT_NOW);
}

int64_t __wrap_rdl__watchdog_validity(const struct rdl__watchdog *wd, int64_t sent_at, int64_t lease_ms)
{
    (void)wd;
    (void)sent_at;
    return rdl__after_ms(CLIENT_NOW, lease_ms);
}

int64_t __wrap_rdl__watchdog_expiry(const struct rdl__watchdog *wd, int64_t granted_at, int64_t lease_ms)
{
    return __wrap_rdl__watchdog_validity(wd, granted_at, lease_ms);
}
