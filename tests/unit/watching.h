/* SPDX-License-Identifier: MIT */
/* watching.h - for the Criterion programs of this folder about core/service/watchdog.c: holds, and a lane that keeps
 * what is to be sent until the test answers it, under a fake loop.
 */
#ifndef TESTS_UNIT_WATCHING_H
#define TESTS_UNIT_WATCHING_H

#include "core/service/watchdog.h"
#include "core/wire/ident.h"
#include "scripts/scripts.h"
#include "tests/support/counting_alloc.h"
#include "tests/unit/fake_loop.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a lane ----------------------------------------------------------------------------------------------------- */

enum { REQS_MAX = 8, HOLDS_MAX = 1000, ANSWER_MAX = RDL__BATCH + 2 };

struct rdl__lane {
    struct rdl__req *reqs[REQS_MAX]; /* under way, in order */
    size_t count;
    int submitted;
    int64_t last_at;
};

static struct counting_alloc counting;
static struct rdl__mem mem;
static struct rdl__sinks sinks;
static struct rdl__loop loop;
static struct rdl__lane wire;
static struct rdl__watchdog *wd;
static int64_t server_ahead_us; /* the server's clock minus ours */
static int64_t usual_ttl_ms = 30000;
static int64_t preempted; /* for so long the thread stands still between an answer and what it makes of it */

/* In place of core/base/entropy.c: chance is the same in every run. */
int rdl__entropy(void *to, size_t len)
{
    memset(to, 7, len);
    return RDL_OK;
}

void rdl__lane_submit(struct rdl__lane *lane, struct rdl__req *req)
{
    cr_assert_lt(lane->count, REQS_MAX);
    lane->reqs[lane->count++] = req;
    lane->submitted++;
    lane->last_at = req->sent_at = loop.now;
    req->state = RDL__REQ_SENT;
}

/* Nothing here opens a lane for replicas' confirmation. */
struct rdl__lane *rdl__lane_new(struct rdl__node *node, bool kept_up)
{
    (void)node;
    (void)kept_up;
    return NULL;
}

void rdl__lane_on_event(struct rdl__lane *lane, void (*fn)(void *arg, enum rdl__lane_event news, int64_t now),
                        void *arg)
{
    (void)lane;
    (void)fn;
    (void)arg;
}

struct rdl__lane *rdl__lane_free(struct rdl__lane *lane)
{
    (void)lane;
    return NULL;
}

static inline struct rdl__req *take_req(void)
{
    struct rdl__req *req = wire.reqs[0];

    cr_assert_gt(wire.count, 0);
    wire.count--;
    memmove(wire.reqs, wire.reqs + 1, wire.count * sizeof *wire.reqs);
    return req;
}

/* The command that the oldest request under way is, as words. */
struct command {
    struct rdl__buf text;
    size_t argc;
    char *argv[2 * RDL__BATCH + RDL__BATCH + 3];
};

static inline char *next_line(char **at)
{
    char *line = *at;
    char *end = strstr(line, "\r\n");

    cr_assert_not_null(end);
    *end = '\0';
    *at = end + 2;
    return line;
}

static inline void read_command(struct command *c)
{
    char *at;

    rdl__buf_init(&c->text, &mem);
    cr_assert_gt(wire.count, 0);
    wire.reqs[0]->ops->encode(wire.reqs[0], &c->text, false);
    rdl__buf_put(&c->text, "", 1);
    cr_assert_not(rdl__buf_failed(&c->text));
    at = c->text.data;
    c->argc = strtoul(next_line(&at) + 1, NULL, 10);
    cr_assert_leq(c->argc, sizeof c->argv / sizeof *c->argv);
    for (size_t i = 0; i < c->argc; i++) {
        size_t len = strtoul(next_line(&at) + 1, NULL, 10);

        c->argv[i] = at;
        at[len] = '\0';
        at += len + 2;
    }
}

static inline size_t keys_in(const struct command *c)
{
    return c->argc == 1 ? 0 : strtoul(c->argv[2], NULL, 10);
}

static inline int key_in(const struct command *c, size_t i)
{
    return atoi(c->argv[3 + i] + strlen("lock:"));
}

static inline void settle(const struct rdl__reply *reply)
{
    struct rdl__req *req = take_req();
    int64_t came = loop.now;

    req->rc = RDL_OK;
    req->ops->decode(req, reply, came);
    loop.now += preempted;
    req->ops->done(req, came);
}

enum { NONE = -1 };

/* What the server says to the command: the time left of each lock, which was usual_ttl_ms; but `gone` (NONE: none) is
 * gone. Frees the command. Returns how many holds it renewed. */
static inline size_t answer_command(struct command *c, int gone)
{
    static struct rdl__reply numbers[ANSWER_MAX];
    static struct rdl__reply *elements[ANSWER_MAX];
    struct rdl__reply reply = {.type = RDL__REPLY_ARRAY, .len = keys_in(c) + 2, .elem = elements};
    struct rdl__reply pong = {.type = RDL__REPLY_STRING, .str = "PONG", .len = 4};
    int64_t server_us = loop.now / RDL__US + server_ahead_us;

    for (size_t i = 0; i < reply.len; i++) {
        bool is_gone = i >= 2 && key_in(c, i - 2) == gone;

        numbers[i] = (struct rdl__reply){.type = RDL__REPLY_INT, .integer = is_gone ? -14 : usual_ttl_ms};
        elements[i] = &numbers[i];
    }
    numbers[0].integer = server_us / 1000000;
    numbers[1].integer = server_us % 1000000;
    rdl__buf_done(&c->text);
    settle(c->argc == 1 ? &pong : &reply);
    return reply.len - 2;
}

static inline size_t answer_but(int gone)
{
    struct command c;

    read_command(&c);
    return answer_command(&c, gone);
}

static inline size_t answer(void)
{
    return answer_but(NONE);
}

/* Answer the oldest request with something else than what was asked for. */
static inline void answer_with(const struct rdl__reply *reply)
{
    struct command c;

    read_command(&c);
    rdl__buf_done(&c.text);
    settle(reply);
}

/* ---- holds ------------------------------------------------------------------------------------------------------ */

struct thing {
    struct rdl__hold hold;
    char key[24];
    struct rdl__renews renews;
    int at_risk, lost, pins, restores;
    rdl_loss_reason_t reason;
    int64_t reported_at;
};

static struct thing things[HOLDS_MAX];
static struct rdl__uuid uuid = {.text = "8e03978e-40d5-43e8-bc93-6894a57f9324"};
static int64_t metrics[RDL_METRIC_COUNT];
static char last_line[256];

static inline struct thing *thing_of(const struct rdl__hold *hold)
{
    return rdl__container(hold, struct thing, hold);
}

static inline void thing_key(const struct rdl__hold *hold, const char **ret_key, size_t *ret_len)
{
    *ret_key = thing_of(hold)->key;
    *ret_len = strlen(*ret_key);
}

static inline size_t thing_field(const struct rdl__hold *hold, char *to)
{
    return rdl__field(to, &uuid, thing_of(hold) - things);
}

static inline struct rdl__renews thing_renews(const struct rdl__hold *hold)
{
    return thing_of(hold)->renews;
}

static inline void thing_pin(struct rdl__hold *hold)
{
    thing_of(hold)->pins++;
}

static inline void thing_changed(struct rdl__hold *hold, const struct rdl__hold_id *id, rdl_hold_state_t state,
                                 rdl_loss_reason_t reason, int64_t now)
{
    struct thing *t = thing_of(hold);

    cr_assert_eq(t->pins, t->at_risk + t->lost + t->restores + 1); /* pinned before, once for each report */
    cr_assert_eq(id->n, 1 + (t - things));
    cr_assert_eq(id->token, 7 + (t - things));
    t->at_risk += state == RDL_AT_RISK;
    t->lost += state == RDL_LOST;
    t->reason = reason;
    t->reported_at = now;
}

static inline void thing_restore(struct rdl__hold *hold, int64_t now)
{
    (void)now;
    thing_of(hold)->restores++;
    cr_assert_eq(thing_of(hold)->pins, thing_of(hold)->restores + thing_of(hold)->at_risk);
}

static const struct rdl__hold_ops thing_ops = {
    .key = thing_key,
    .field = thing_field,
    .renews = thing_renews,
    .pin = thing_pin,
    .changed = thing_changed,
    .restore = thing_restore,
};

static inline void on_metric(rdl_metric_t metric, int64_t value, void *arg)
{
    (void)arg;
    metrics[metric] += value;
}

static inline void on_log(rdl_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    cr_assert_geq(level, RDL_LOG_WARN);
    snprintf(last_line, sizeof last_line, "%s", line);
}

/* ---- a watchdog ------------------------------------------------------------------------------------------------- */

#define T0 (1000 * RDL__SEC)
#define LEASE_MS 30000
#define LEASE (LEASE_MS * RDL__MS)

/* Without an allowance for drift times come out round; the tests about drift make another watchdog. */
static inline void open_watchdog(int32_t drift_ppm, int64_t drift_ms)
{
    const struct rdl__watchdog_config config = {.drift_ppm = drift_ppm, .drift_ms = drift_ms, .lease_ms = LEASE_MS};

    wd = rdl__watchdog_new(&mem, &sinks, &loop, &wire, NULL, &config);
    cr_assert_not_null(wd);
}

/* With a lane for batches that replicas are to confirm, which the others do without. */
static inline void open_watchdog_acked(const struct rdl__acks_lane *acked)
{
    const struct rdl__watchdog_config config = {.lease_ms = LEASE_MS};

    wd = rdl__watchdog_new(&mem, &sinks, &loop, &wire, acked, &config);
    cr_assert_not_null(wd);
}

static inline void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);

    rdl__mem_init(&mem, &hooks);
    sinks = (struct rdl__sinks){.log = on_log, .level = RDL_LOG_WARN, .metering = RDL__TOLD, .metrics = on_metric};
    fake_loop_init(&loop, T0);
    for (int i = 0; i < HOLDS_MAX; i++) {
        things[i].hold.ops = &thing_ops;
        things[i].renews.script = RDL__SCRIPT_REENTRANT_RENEW;
        things[i].hold.id = (struct rdl__hold_id){.n = 1 + i, .token = 7 + i};
        snprintf(things[i].key, sizeof things[i].key, "lock:%d", i);
    }
    open_watchdog(0, 0);
}

static inline void tear_down(void)
{
    rdl__watchdog_close(wd);
    cr_assert_null(rdl__heap_min(&loop.timers));
    wd = rdl__watchdog_free(wd);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

static inline struct rdl__hold *hold(int i)
{
    return &things[i].hold;
}

static inline void wants_acks(int i, struct rdl__acks acks)
{
    things[i].renews.acks = acks;
    things[i].hold.acked = acks.replicas > 0;
}

static inline void add(int i)
{
    rdl__watchdog_add(wd, hold(i), loop.now, LEASE_MS, true);
}

/* Taken so long ago that its renewal is due at once. */
static inline void add_due(int i)
{
    rdl__watchdog_add(wd, hold(i), loop.now - LEASE / 3, LEASE_MS, true);
}

static inline void add_many(int count)
{
    for (int i = 0; i < count; i++)
        add(i);
}

static inline rdl_hold_state_t state(int i)
{
    return rdl__watchdog_state(wd, hold(i), loop.now, NULL);
}

static inline void run_for(int64_t ns)
{
    fake_loop_run(&loop, loop.now + ns);
}

/* Let time pass in small steps up to `until`; every request is answered `delay` after it was sent. */
static inline void run_answering(int64_t until, int64_t delay)
{
    while (loop.now < until) {
        run_for(10 * RDL__MS);
        while (wire.count > 0 && wire.reqs[0]->sent_at + delay <= loop.now)
            (void)answer();
    }
}

static inline void run_until_sent(int submitted)
{
    for (int64_t end = loop.now + LEASE; wire.submitted < submitted && loop.now < end;)
        run_for(RDL__MS);
    cr_assert_eq(wire.submitted, submitted);
}

#endif
