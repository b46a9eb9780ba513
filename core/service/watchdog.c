/* watchdog.c - one heap of holds and one timer: what is due now is decided here.
 *
 * When that is, is schedule.c's; renewals are renewer.c's.
 *
 * With many holds one or two are due at any moment, and a command for each would cost the server and the loop ten times
 * what the renewal does. So whoever is due takes along those that will be soon, up to COMPANY in all; more go only
 * where many are due already, because a long command is a long wait for everybody else.
 */
#include "core/service/renewer.h"

#define COMPANY 20 /* renewals that go together, although some of them would have had a little time */

/* Handle the first hold of the heap if its moment has come; *count those that are to be renewed. False: none.
 * @thread loop  @locks none */
static bool step(struct rdl__watchdog *wd, int64_t now, unsigned *count)
{
    rdl_hold_state_t news = RDL_NOT_HELD;
    struct rdl__hold_id id = {0};
    struct rdl__heap_node *first;
    struct rdl__hold *hold;

    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    first = wd->closed ? NULL : rdl__heap_min(&wd->heap);
    if (first == NULL || first->at > now) {
        wd->armed = first == NULL ? RDL__NEVER : first->at;
        rdl__mutex_unlock(&wd->mu);
        return false;
    }
    hold = rdl__container(first, struct rdl__hold, node);
    if (hold->deadline <= now) {
        id = rdl__schedule_lose(wd, hold);
        news = RDL_LOST;
    } else {
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
        rdl__heap_move(&wd->heap, &hold->node, rdl__hold_next_due(hold));
    }
    rdl__mutex_unlock(&wd->mu);
    if (news != RDL_NOT_HELD)
        rdl__schedule_report(wd, hold, &id, news, news == RDL_LOST ? RDL_LOSS_LEASE : RDL_LOSS_RENEWAL, now);
    return true;
}

/* May the hold's next renewal be sent now, with others? A little early: a thirty-second part of the usual time.  @locks
 * mu */
static bool may_go_along(const struct rdl__hold *hold, int64_t now)
{
    return hold->node.at == hold->renew_at && hold->renew_at - now <= hold->lease_ms * RDL__MS / 3 / 32;
}

/* Where there are many holds, one or two are due at any moment. Each command costs everybody a turn of the loop and of
 * the server, so those that are due are sent with the next few.  @thread loop  @locks none */
static void find_company(struct rdl__watchdog *wd, unsigned count, int64_t now)
{
    struct rdl__heap_node *first;

    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    while (count++ < COMPANY && !wd->closed && (first = rdl__heap_min(&wd->heap)) != NULL) {
        struct rdl__hold *hold = rdl__container(first, struct rdl__hold, node);

        if (!may_go_along(hold, now))
            break;
        rdl__renewer_due(rdl__renewer_of(wd, hold), hold);
        rdl__heap_move(&wd->heap, &hold->node, rdl__hold_next_due(hold));
    }
    first = rdl__heap_min(&wd->heap);
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
        find_company(wd, count, now);
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

/* Something is due earlier than the timer goes off. The timer is only ever set earlier here, never put off: a hold that
 * comes and goes between two turns of the loop would otherwise wake it each time. */
static void on_look(struct rdl__task *task, int64_t now)
{
    struct rdl__watchdog *wd = rdl__container(task, struct rdl__watchdog, look);
    int64_t armed;

    (void)now;
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
    rdl__task_init(&wd->look, on_look);
    rdl__list_init(&wd->renewers);
    wd->home = rdl__renewer_new(wd, lane, acked);
    return wd->home != NULL ? wd : rdl__watchdog_free(wd);
}

struct rdl__renewer *rdl__watchdog_home(const struct rdl__watchdog *wd)
{
    return wd->home;
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
