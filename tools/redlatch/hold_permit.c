/* SPDX-License-Identifier: MIT */
/* hold_permit.c - one permit of a semaphore, with a lease that is renewed here: one that is killed gives it back.
 *
 * The library takes permits with a lease and extends them when asked, but neither renews them nor tells that one is
 * lost. So this does what its watchdog does for locks, with the same rules: extend every third of the lease; the permit
 * is valid until the lease has passed since the last confirmed extension was *asked* for, less the allowance for clocks
 * that run apart; it is lost at that moment, whatever the server does, or when the server says so. The clock counts
 * suspension.
 *
 *   counting --> acquiring --> confirming --> held <--> renewing
 *
 * Counting: the server is told how many permits there are, by everybody who comes; the last one counts, so that the
 * number on the command line means what it says. A server that comes back empty while somebody waits is told again,
 * unless another one has done so: while nobody says how many there are, none is free. Confirming: nobody tells us when
 * an acquire that had to wait was granted, so the permit is extended once before the command may rely on it. */
#include "tools/redlatch/hold.h"

#include "tools/redlatch/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define COUNT_MS 5000   /* between tellings how many there are, while waiting */
#define PARTS 3         /* of a lease, until the next renewal */
#define PARTS_FAILED 10 /* until the next after one that failed */
#define DRIFT_PARTS 100 /* the allowance for clocks, as the library's own: one of so many parts, ... */
#define DRIFT_MS 2      /* ... and this */

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- keeping ---------------------------------------------------------------------------------------------------- */

/* Be woken for what comes next. */
static void set_timer(const struct hold_permit *p)
{
    int64_t at = p->waiting ? p->count_ms : p->renew_ms < p->valid_until_ms ? p->renew_ms : p->valid_until_ms;
    struct itimerspec when = {0};

    if (p->held || p->waiting)
        when.it_value = (struct timespec){.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000};
    timerfd_settime(p->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void lose(struct hold *h, const char *why)
{
    h->permit.held = false;
    set_timer(&h->permit);
    h->events->lost(h->arg, why);
}

static void confirmed(struct hold_permit *p, int64_t lease_ms)
{
    p->valid_until_ms = p->asked_ms + lease_ms - lease_ms / DRIFT_PARTS - DRIFT_MS;
    p->renew_ms = p->asked_ms + lease_ms / PARTS;
}

static void on_renewed(rdl_permit_semaphore_t *semaphore, int64_t result, const rdl_err_t *err, void *arg)
{
    struct hold *h = arg;
    struct hold_permit *p = &h->permit;
    int64_t lease_ms = hold_lease_ms(h->options);

    (void)semaphore;
    if (!p->held)
        return;
    if (result == RDL_ELOST) {
        lose(h, "the server no longer has it");
        return;
    }
    if (result == RDL_OK)
        confirmed(p, lease_ms);
    else
        p->renew_ms = now_ms() + lease_ms / PARTS_FAILED;
    if (result != RDL_OK && h->options->verbose)
        text_say("cannot renew the permit: %s", err->message);
    set_timer(p);
}

static int extend(struct hold *h, rdl_permit_semaphore_fn fn, rdl_err_t *err)
{
    h->permit.asked_ms = now_ms();
    h->permit.renew_ms = HOLD_NEVER;
    return rdl_permit_semaphore_extend_async(h->permit.semaphore, NULL, &h->permit.id, hold_lease_ms(h->options), fn, h,
                                             NULL, err);
}

/* Be woken to tell the server again how many there are. */
static void count_later(struct hold_permit *p, int64_t now)
{
    p->count_ms = now + COUNT_MS;
    set_timer(p);
}

static void permit_tick(struct hold *h)
{
    struct hold_permit *p = &h->permit;
    int64_t permits = h->options->permits;
    int64_t now = now_ms();
    rdl_err_t err = {0};
    int rc;

    if (p->waiting && now >= p->count_ms) {
        (void)rdl_permit_semaphore_try_set_permits_async(p->semaphore, NULL, permits, NULL, NULL, NULL, NULL);
        count_later(p, now);
    }
    if (!p->held)
        return;
    if (now >= p->valid_until_ms) {
        lose(h, "its lease ran out and could not be renewed");
    } else if (now >= p->renew_ms) {
        if ((rc = extend(h, on_renewed, &err)) < 0)
            on_renewed(p->semaphore, rc, &err, h);
        else
            set_timer(p);
    }
}

/* ---- taking ----------------------------------------------------------------------------------------------------- */

/* The handle goes whenever nothing is wanted of the semaphore: so what it has left beside the permits goes as well. */
static int make_semaphore(struct hold *h, rdl_err_t *err)
{
    struct hold_permit *p = &h->permit;

    return p->semaphore != NULL ? RDL_OK
                                : rdl_permit_semaphore(h->clients[0], h->options->names[0], NULL, &p->semaphore, err);
}

/* What was acquired and could not be confirmed goes back as well as can be. */
static void not_confirmed(struct hold *h, int code, const rdl_err_t *err)
{
    (void)rdl_permit_semaphore_release_async(h->permit.semaphore, NULL, 1, &h->permit.id, NULL, NULL, NULL, NULL);
    h->events->taken(h->arg, code, err);
}

static void on_confirmed(rdl_permit_semaphore_t *semaphore, int64_t result, const rdl_err_t *err, void *arg)
{
    struct hold *h = arg;
    struct hold_permit *p = &h->permit;

    (void)semaphore;
    if (result < 0) {
        not_confirmed(h, (int)result, err);
        return;
    }
    p->held = true;
    confirmed(p, hold_lease_ms(h->options));
    set_timer(p);
    h->events->taken(h->arg, RDL_OK, NULL);
}

static void on_acquired(rdl_permit_semaphore_t *semaphore, int64_t result, const rdl_err_t *err, void *arg)
{
    struct hold *h = arg;
    rdl_err_t why = {0};
    int rc;

    h->permit.waiting = false;
    set_timer(&h->permit);
    if (result < 0) {
        h->permit.semaphore = rdl_permit_semaphore_free(semaphore);
        h->events->taken(h->arg, (int)result, err);
    } else if ((rc = extend(h, on_confirmed, &why)) < 0) {
        not_confirmed(h, rc, &why);
    }
}

static int acquire(struct hold *h, rdl_err_t *err)
{
    struct hold_permit *p = &h->permit;
    int64_t lease_ms = hold_lease_ms(h->options);
    int rc = rdl_permit_semaphore_try_acquire_async(p->semaphore, NULL, 1, p->wait_ms, lease_ms, &p->id, on_acquired, h,
                                                    &h->taking, err);

    p->waiting = rc == RDL_OK && p->wait_ms > 0;
    if (p->waiting)
        count_later(p, now_ms());
    return rc;
}

static void on_counted(rdl_permit_semaphore_t *semaphore, int64_t result, const rdl_err_t *err, void *arg)
{
    struct hold *h = arg;
    rdl_err_t why = {0};
    int rc = (int)result;

    (void)semaphore;
    if (rc >= 0) {
        h->permit.counted = true;
        rc = h->permit.canceled ? RDL_ECANCELED : acquire(h, &why);
        err = &why;
    }
    if (rc < 0)
        h->events->taken(h->arg, rc, err);
}

static int permit_take(struct hold *h, int64_t wait_ms, rdl_err_t *err)
{
    struct hold_permit *p = &h->permit;
    int rc = make_semaphore(h, err);

    if (rc < 0)
        return rc;
    p->wait_ms = wait_ms;
    if (p->counted)
        return acquire(h, err);
    return rdl_permit_semaphore_set_permits_async(p->semaphore, NULL, h->options->permits, on_counted, h, NULL, err);
}

static void on_answered(rdl_permit_semaphore_t *semaphore, int64_t result, const rdl_err_t *err, void *arg)
{
    struct hold *h = arg;

    (void)semaphore;
    h->events->answered(h->arg, result < 0 ? (int)result : RDL_OK, err);
}

static int permit_ask(struct hold *h, rdl_err_t *err)
{
    int rc = make_semaphore(h, err);

    return rc < 0 ? rc : rdl_permit_semaphore_available_async(h->permit.semaphore, NULL, on_answered, h, NULL, err);
}

/* ---- releasing -------------------------------------------------------------------------------------------------- */

static void on_released(rdl_permit_semaphore_t *semaphore, int64_t result, const rdl_err_t *err, void *arg)
{
    struct hold *h = arg;

    if (result == RDL_OK)
        h->permit.semaphore = rdl_permit_semaphore_free(semaphore);
    h->events->released(h->arg, (int)result, err);
}

static int permit_release(struct hold *h, rdl_err_t *err)
{
    struct hold_permit *p = &h->permit;

    p->held = false;
    set_timer(p);
    return rdl_permit_semaphore_release_async(p->semaphore, NULL, 1, &p->id, on_released, h, NULL, err);
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

static int permit_make(struct hold *h, rdl_err_t *err)
{
    struct hold_permit *p = &h->permit;

    p->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (p->timer_fd < 0) {
        err->code = RDL_ENOMEM;
        snprintf(err->message, sizeof err->message, "%s", strerror(errno));
        return RDL_ENOMEM;
    }
    return make_semaphore(h, err);
}

static void permit_free(struct hold *h)
{
    struct hold_permit *p = &h->permit;

    p->held = p->waiting = false;
    p->semaphore = rdl_permit_semaphore_free(p->semaphore);
    if (p->timer_fd >= 0)
        close(p->timer_fd);
    p->timer_fd = -1;
}

const struct hold_ops hold_permit_ops = {
    .make = permit_make,
    .take = permit_take,
    .ask = permit_ask,
    .release = permit_release,
    .token = NULL, /* permits have no order */
    .tick = permit_tick,
    .free = permit_free,
};
