/* SPDX-License-Identifier: MIT */
#include "core/io/dial.h"

#include <errno.h>
#include <redlatch/error.h>

#define LONGEST_DELAY (250 * RDL__MS) /* RFC 8305, 5: Connection Attempt Delay */

static void finish(struct rdl__dial *dial, int64_t now)
{
    rdl__dial_stop(dial);
    dial->done(dial, now);
}

static void end_try(struct rdl__dial *dial, struct rdl__dial_try *one)
{
    rdl__watch_set(dial->loop, &one->watch, one->sock.fd, 0);
    rdl__sock_close(&one->sock);
}

static void try_next(struct rdl__dial *dial, int64_t now)
{
    rdl__loop_timer_off(dial->loop, &dial->timer);
    while (dial->next < dial->addrs->count) {
        struct rdl__dial_try *one = &dial->tries[dial->next];
        int rc = rdl__sock_open(&one->sock, &dial->addrs->addr[dial->next++]);

        if (rc < 0) {
            dial->error = -rc;
            continue;
        }
        dial->open++;
        rdl__watch_set(dial->loop, &one->watch, one->sock.fd, RDL__WRITABLE);
        if (dial->next < dial->addrs->count)
            rdl__loop_timer(dial->loop, &dial->timer, now + dial->delay);
        return;
    }
    if (dial->open == 0)
        finish(dial, now);
}

static void on_ready(struct rdl__watch *watch, int events, int64_t now)
{
    struct rdl__dial_try *one = rdl__container(watch, struct rdl__dial_try, watch);
    struct rdl__dial *dial = one->dial;
    int error = rdl__sock_error(&one->sock);

    (void)events;
    rdl__watch_set(dial->loop, &one->watch, one->sock.fd, 0);
    if (error == 0) {
        dial->won = (unsigned)(one - dial->tries);
        dial->sock = one->sock;
        one->sock.fd = -1;
        finish(dial, now);
        return;
    }
    dial->error = error;
    end_try(dial, one);
    dial->open--;
    try_next(dial, now);
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    try_next(rdl__container(timer, struct rdl__dial, timer), now);
}

void rdl__dial_init(struct rdl__dial *dial, struct rdl__loop *loop, void (*done)(struct rdl__dial *dial, int64_t now))
{
    dial->loop = loop;
    dial->done = done;
    rdl__timer_init(&dial->timer, on_timer);
    dial->sock.fd = -1;
    for (unsigned i = 0; i < RDL__ADDRS_MAX; i++) {
        dial->tries[i].dial = dial;
        dial->tries[i].sock.fd = -1;
        rdl__watch_init(&dial->tries[i].watch, on_ready);
    }
}

void rdl__dial_start(struct rdl__dial *dial, const struct rdl__addrs *addrs, int64_t now, int64_t deadline)
{
    rdl__assert_on_loop(dial->loop);
    dial->addrs = addrs;
    dial->next = dial->open = dial->won = 0;
    dial->error = EADDRNOTAVAIL;
    dial->sock.fd = -1;
    dial->delay = (deadline - now) / (addrs->count + 1);
    if (dial->delay > LONGEST_DELAY)
        dial->delay = LONGEST_DELAY;
    try_next(dial, now);
}

void rdl__dial_stop(struct rdl__dial *dial)
{
    rdl__assert_on_loop(dial->loop);
    rdl__loop_timer_off(dial->loop, &dial->timer);
    for (unsigned i = 0; i < RDL__ADDRS_MAX; i++)
        end_try(dial, &dial->tries[i]);
}
