/* SPDX-License-Identifier: MIT */
/* watchdog.c - the timer of the agenda of holds: it takes from that what is due.
 *
 * schedule.c decides when that is; renewer.c sends renewals.
 *
 * With many holds one or two are due at any moment, and a request for each would cost the server and the loop ten times
 * what the renewal does. So holds that are nearly due are renewed with those that are, up to TOGETHER in all. Not more,
 * because other commands wait while a long script runs; if more are due already, all of those go.
 */
#include "core/service/renewer.h"

#define TOGETHER 20 /* renewals of one tick, as far as holds are nearly due */

/* Handle the first hold of the agenda, if something is due; add 1 to *count if that is a renewal. False: nothing is
 * due.
 * @thread loop  @locks none */
static bool step(struct rdl__watchdog *wd, int64_t now, unsigned *count)
{
    rdl_hold_state_t news = RDL_NOT_HELD;
    struct rdl__hold_id id = {0};
    struct rdl__heap_node *first;
    struct rdl__hold *hold;
    bool listens = false;

    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    first = wd->closed ? NULL : rdl__agenda_min(&wd->agenda);
    if (first == NULL || first->at > now) {
        wd->armed = first == NULL ? RDL__NEVER : first->at;
        rdl__mutex_unlock(&wd->mu);
        return false;
    }
    hold = rdl__container(first, struct rdl__hold, node);
    if (hold->deadline <= now) {
        id = rdl__schedule_lose(wd, hold);
        news = RDL_LOST;
    } else if (hold->state == RDL_DEGRADED) {
        hold->renew_at = rdl__after_ms(now, RDL__RESTORE_MS);
        hold->ops->pin(hold);
        news = RDL_DEGRADED;
        rdl__agenda_move(&wd->agenda, &hold->node, rdl__hold_next_due(hold));
    } else {
        listens = rdl__hold_wants_listening(wd, hold);
        wd->listens = wd->listens || listens;
        if (hold->renew_at <= now) {
            rdl__renewer_due(rdl__renewer_of(wd, hold), hold);
            (*count)++;
        }
        if (rdl__hold_may_be_at_risk(hold) && rdl__hold_risk_at(hold) <= now) {
            hold->state = RDL_AT_RISK;
            if (!hold->told_risk) {
                hold->told_risk = true;
                id = hold->id;
                hold->ops->pin(hold);
                news = RDL_AT_RISK;
            }
        }
        rdl__agenda_move(&wd->agenda, &hold->node, rdl__hold_next_due(hold));
    }
    rdl__mutex_unlock(&wd->mu);
    if (listens)
        wd->config.listen(wd->config.listen_arg, now);
    if (news == RDL_DEGRADED)
        hold->ops->restore(hold, now);
    else if (news != RDL_NOT_HELD)
        hold->ops->changed(hold, &id, news, news == RDL_LOST ? RDL_LOSS_LEASE : RDL_LOSS_RENEWAL, now);
    return true;
}

/* Is the hold's renewal due within a 32nd of the usual interval? */
static bool nearly_due(const struct rdl__hold *hold, int64_t now)
{
    return hold->state != RDL_DEGRADED && hold->node.at == hold->renew_at &&
           hold->renew_at - now <= hold->lease_ms * RDL__MS / 3 / 32;
}

/* Renew holds that are nearly due as well, up to TOGETHER; and set `armed`.  @thread loop  @locks none */
static void add_nearly_due(struct rdl__watchdog *wd, unsigned count, int64_t now)
{
    struct rdl__heap_node *first;

    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    while (count++ < TOGETHER && !wd->closed && (first = rdl__agenda_min(&wd->agenda)) != NULL) {
        struct rdl__hold *hold = rdl__container(first, struct rdl__hold, node);

        if (!nearly_due(hold, now))
            break;
        rdl__renewer_due(rdl__renewer_of(wd, hold), hold);
        rdl__agenda_move(&wd->agenda, &hold->node, rdl__hold_next_due(hold));
    }
    first = rdl__agenda_min(&wd->agenda);
    wd->armed = first == NULL || wd->closed ? RDL__NEVER : first->at;
    rdl__mutex_unlock(&wd->mu);
}

static void tick(struct rdl__watchdog *wd, int64_t now)
{
    unsigned count = 0;
    int64_t armed;

    while (step(wd, now, &count))
        ;
    if (count > 0)
        add_nearly_due(wd, count, now);
    rdl__renewers_pump(wd);
    rdl__mutex_lock(&wd->mu);
    armed = wd->closed ? RDL__NEVER : wd->armed;
    rdl__mutex_unlock(&wd->mu);
    if (armed != RDL__NEVER)
        rdl__loop_timer(wd->loop, &wd->timer, armed);
    else
        rdl__loop_timer_off(wd->loop, &wd->timer);
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    tick(rdl__container(timer, struct rdl__watchdog, timer), now);
}

/* Something is due before the timer goes off. The timer is only set earlier here, never later: otherwise each hold that
 * is added and removed between two turns of the loop would wake it. */
static void on_rearm(struct rdl__task *task, int64_t now)
{
    struct rdl__watchdog *wd = rdl__container(task, struct rdl__watchdog, rearm);
    int64_t armed;

    if (wd->config.began != NULL)
        wd->config.began(wd->config.began_arg, now);
    rdl__mutex_lock(&wd->mu);
    armed = wd->closed ? RDL__NEVER : wd->armed;
    rdl__mutex_unlock(&wd->mu);
    if (armed != RDL__NEVER)
        rdl__loop_timer(wd->loop, &wd->timer, armed);
}

/* ---- watchdog.h ------------------------------------------------------------------------------------------------- */

struct rdl__watchdog *rdl__watchdog_new(const struct rdl__mem *mem, const struct rdl__sinks *sinks,
                                        struct rdl__loop *loop, struct rdl__lane *lane,
                                        const struct rdl__acks_lane *acked, const struct rdl__watchdog_config *config)
{
    struct rdl__watchdog *wd = rdl__zalloc(mem, sizeof *wd);

    if (wd == NULL)
        return NULL;
    if (rdl__mutex_init(&wd->mu) < 0) {
        rdl__free(mem, wd, sizeof *wd);
        return NULL;
    }
    wd->mem = mem;
    wd->sinks = sinks;
    wd->loop = loop;
    wd->config = *config;
    wd->armed = RDL__NEVER;
    (void)rdl__entropy(&wd->rand.state, sizeof wd->rand.state);
    rdl__timer_init(&wd->timer, on_timer);
    rdl__task_init(&wd->rearm, on_rearm);
    rdl__list_init(&wd->renewers);
    wd->home = rdl__renewer_new(wd, lane, acked);
    return wd->home != NULL ? wd : rdl__watchdog_free(wd);
}

struct rdl__renewer *rdl__watchdog_home(const struct rdl__watchdog *wd)
{
    return wd->home;
}

bool rdl__watchdog_holds(struct rdl__watchdog *wd)
{
    bool holds;

    rdl__mutex_lock(&wd->mu);
    holds = rdl__agenda_min(&wd->agenda) != NULL;
    rdl__mutex_unlock(&wd->mu);
    return holds;
}

void rdl__watchdog_close(struct rdl__watchdog *wd)
{
    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    wd->closed = true;
    rdl__mutex_unlock(&wd->mu);
    rdl__loop_timer_off(wd->loop, &wd->timer);
}

struct rdl__watchdog *rdl__watchdog_free(struct rdl__watchdog *wd)
{
    struct rdl__link *l;

    if (wd == NULL)
        return NULL;
    while ((l = rdl__list_pop(&wd->renewers)) != NULL) {
        struct rdl__renewer *at = rdl__container(l, struct rdl__renewer, link);

        rdl__free(wd->mem, at, sizeof *at + at->count * sizeof at->batches[0]);
    }
    rdl__mutex_done(&wd->mu);
    rdl__free(wd->mem, wd, sizeof *wd);
    return NULL;
}
