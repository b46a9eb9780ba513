/* SPDX-License-Identifier: MIT */
/* waiting.h - for the Criterion programs of this folder about core/service/waiters.c: some who wait, at a subscriber
 * that only remembers what is subscribed, under a fake loop. Tests acknowledge and publish by hand.
 */
#ifndef TESTS_UNIT_WAITING_H
#define TESTS_UNIT_WAITING_H

#include "core/service/waiters.h"
#include "tests/support/counting_alloc.h"
#include "tests/unit/fake_loop.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- a subscriber ----------------------------------------------------------------------------------------------- */

enum { TOPICS_MAX = 10000 };

struct rdl__subscriber {
    struct rdl__topic *topics[TOPICS_MAX];
    size_t count;
};

void rdl__subscriber_add(struct rdl__subscriber *sub, struct rdl__topic *topic, int64_t now)
{
    (void)now;
    cr_assert_lt(sub->count, TOPICS_MAX);
    topic->confirmed = false;
    sub->topics[sub->count++] = topic;
}

void rdl__subscriber_drop(struct rdl__subscriber *sub, struct rdl__topic *topic)
{
    size_t i = 0;

    while (i < sub->count && sub->topics[i] != topic)
        i++;
    cr_assert_lt(i, sub->count);
    sub->topics[i] = sub->topics[--sub->count];
}

/* ---- who waits -------------------------------------------------------------------------------------------------- */

enum { SLEEPERS = 8, T0 = 1000000 };

/* What a sleeper does when it is told to go. */
enum reaction { TRIES, LEAVES, LEAVES_USED, LISTENS };

struct sleeper {
    struct rdl__waiter waiter;
    enum reaction reaction;
    int64_t went_at;
    int goes;
};

static struct counting_alloc counting;
static struct rdl__mem mem;
static struct rdl__loop loop;
static struct rdl__subscriber sub;
static struct rdl__waiters waiters;
static struct sleeper sleepers[SLEEPERS];
static char trail[64]; /* who was told to go, in order, as letters */

static inline void on_go(struct rdl__waiter *waiter, int64_t now)
{
    struct sleeper *a = rdl__container(waiter, struct sleeper, waiter);
    char letter[2] = {(char)('a' + (a - sleepers)), '\0'};

    strncat(trail, letter, sizeof trail - strlen(trail) - 1);
    a->goes++;
    a->went_at = now;
    if (a->reaction == LEAVES || a->reaction == LEAVES_USED) {
        rdl__waiter_leave(waiter, a->reaction == LEAVES_USED, now);
        return;
    }
    rdl__waiter_sent(waiter);
    if (a->reaction == LISTENS)
        cr_assert(rdl__waiter_refused(waiter, -1, now));
}

static bool comes; /* is somebody about to join where nobody waits? */
static int unheard;

static inline bool on_unheard(struct rdl__waiters *ws, const char *channel, size_t len)
{
    (void)ws;
    (void)channel;
    (void)len;
    unheard++;
    return !comes;
}

static int64_t passes_ns; /* for so long the clients of all let others try */
static char asked[64];    /* what was free when one was asked that, in order: a digit each */

static inline int64_t on_release(struct rdl__waiter *waiter, int64_t freed, int64_t now)
{
    size_t len = strlen(asked);

    (void)waiter;
    (void)now;
    cr_assert_lt(len + 1, sizeof asked);
    asked[len] = (char)('0' + freed);
    asked[len + 1] = '\0'; /* of an earlier run of it more is left, maybe */
    return passes_ns;
}

static const struct rdl__waiter_ops sleeper_ops = {.go = on_go, .lets_pass = on_release, .unheard = on_unheard};

static inline void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);

    rdl__mem_init(&mem, &hooks);
    fake_loop_init(&loop, T0);
    cr_assert_eq(rdl__waiters_init(&waiters, &mem, &loop, &sub), RDL_OK);
    for (int i = 0; i < SLEEPERS; i++)
        rdl__waiter_init(&sleepers[i].waiter, &sleeper_ops);
}

/* Everybody goes home; then no channel, subscription, timer or memory may be left. */
static inline void tear_down(void)
{
    for (int i = 0; i < SLEEPERS; i++)
        rdl__waiter_leave(&sleepers[i].waiter, true, loop.now);
    rdl__waiters_sweep(&waiters);
    cr_assert_eq(waiters.channels.count, 0);
    cr_assert_eq(sub.count, 0);
    cr_assert_null(rdl__heap_min(&loop.timers));
    rdl__waiters_done(&waiters);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

static inline struct rdl__waiter *waiter(char letter)
{
    return &sleepers[letter - 'a'].waiter;
}

/* The end of the loop's turn: whoever was woken goes. */
static inline bool turn(void)
{
    return fake_loop_tasks(&loop);
}

static bool turns_end_by_chance; /* else with each thing that happens */

static inline void end_turn(void)
{
    if (!turns_end_by_chance)
        (void)turn();
}

static inline void go_away(char letter, bool used)
{
    rdl__waiter_leave(waiter(letter), used, loop.now);
    end_turn();
}

static inline void join_hint(char letter, int64_t hint_ms)
{
    cr_assert_eq(rdl__waiter_join(&waiters, waiter(letter), "ch", 2, hint_ms, loop.now), RDL_OK);
}

static inline void join(const char *letters)
{
    for (; *letters != '\0'; letters++)
        join_hint(*letters, -1);
}

static inline void acknowledge(void)
{
    cr_assert_eq(sub.count, 1);
    sub.topics[0]->ops->subscribed(sub.topics[0], loop.now);
    end_turn();
}

static inline void publish(const char *payload, size_t len)
{
    cr_assert_eq(sub.count, 1);
    sub.topics[0]->ops->message(sub.topics[0], payload, len, loop.now);
    end_turn();
}

static inline void message(const char *payload)
{
    publish(payload, strlen(payload));
}

/* Asleep on the acknowledged channel, in this order, with nothing on the trail. */
static inline void all_asleep(const char *letters)
{
    join(letters);
    acknowledge();
    cr_assert(rdl__waiter_refused(waiter(letters[0]), -1, loop.now));
    trail[0] = '\0';
}

static inline bool refused(char letter)
{
    bool asleep = rdl__waiter_refused(waiter(letter), -1, loop.now);

    end_turn();
    return asleep;
}

/* ---- wishes: a semaphore's channel ------------------------------------------------------------------------------ */

/* What the messages and answers are about: so much is free. */
static inline void wish(const char *letters, uint32_t much, enum rdl__news news, bool in_order)
{
    for (; *letters != '\0'; letters++) {
        waiter(*letters)->wish = much;
        waiter(*letters)->news = (unsigned char)news;
        waiter(*letters)->in_order = in_order;
    }
}

#endif
