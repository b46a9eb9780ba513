/* test_watchdog.c - leases are renewed in time, in batches, spread; and their loss is noticed, once, and in time.
 *
 * The loop is a fake one, the lane is the one below: it encodes what is submitted at once, as the real one does when it
 * is connected, and the tests answer by hand. */
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

static struct rdl__req *take_req(void)
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

static char *next_line(char **at)
{
    char *line = *at;
    char *end = strstr(line, "\r\n");

    cr_assert_not_null(end);
    *end = '\0';
    *at = end + 2;
    return line;
}

static void read_command(struct command *c)
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

static size_t keys_in(const struct command *c)
{
    return c->argc == 1 ? 0 : strtoul(c->argv[2], NULL, 10);
}

static int key_in(const struct command *c, size_t i)
{
    return atoi(c->argv[3 + i] + strlen("lock:"));
}

static void settle(const struct rdl__reply *reply)
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
static size_t answer_command(struct command *c, int gone)
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

static size_t answer_but(int gone)
{
    struct command c;

    read_command(&c);
    return answer_command(&c, gone);
}

static size_t answer(void)
{
    return answer_but(NONE);
}

/* Answer the oldest request with something else than what was asked for. */
static void answer_with(const struct rdl__reply *reply)
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
    int script;
    int at_risk, lost, pins;
    rdl_loss_reason_t reason;
    int64_t reported_at;
};

static struct thing things[HOLDS_MAX];
static struct rdl__uuid uuid = {.text = "8e03978e-40d5-43e8-bc93-6894a57f9324"};
static int64_t metrics[RDL_METRIC_COUNT];
static char last_line[256];

static struct thing *thing_of(const struct rdl__hold *hold)
{
    return rdl__container(hold, struct thing, hold);
}

static void thing_key(const struct rdl__hold *hold, const char **ret_key, size_t *ret_len)
{
    *ret_key = thing_of(hold)->key;
    *ret_len = strlen(*ret_key);
}

static size_t thing_field(const struct rdl__hold *hold, char *to)
{
    return rdl__field(to, &uuid, thing_of(hold) - things);
}

static int64_t thing_number(const struct rdl__hold *hold)
{
    return 1 + (thing_of(hold) - things);
}

static struct rdl__hold_id thing_pin(struct rdl__hold *hold)
{
    return (struct rdl__hold_id){.n = ++thing_of(hold)->pins, .token = 1 + (thing_of(hold) - things)};
}

static void thing_changed(struct rdl__hold *hold, const struct rdl__hold_id *id, rdl_hold_state_t state,
                          rdl_loss_reason_t reason, int64_t now)
{
    struct thing *t = thing_of(hold);

    cr_assert_eq(t->pins, t->at_risk + t->lost + 1); /* pinned before, once for each report */
    cr_assert_eq(id->n, t->pins);
    cr_assert_eq(id->token, 1 + (t - things));
    t->at_risk += state == RDL_AT_RISK;
    t->lost += state == RDL_LOST;
    t->reason = reason;
    t->reported_at = now;
}

static int thing_script(const struct rdl__hold *hold)
{
    return thing_of(hold)->script;
}

static const struct rdl__hold_ops thing_ops = {
    .script = thing_script,
    .key = thing_key,
    .field = thing_field,
    .number = thing_number,
    .pin = thing_pin,
    .changed = thing_changed,
};

static void on_metric(rdl_metric_t metric, int64_t value, void *arg)
{
    (void)arg;
    metrics[metric] += value;
}

static void on_log(rdl_log_level_t level, const char *line, void *arg)
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
static void open_watchdog(int32_t drift_ppm, int64_t drift_ms)
{
    const struct rdl__watchdog_config config = {.drift_ppm = drift_ppm, .drift_ms = drift_ms, .lease_ms = LEASE_MS};

    wd = rdl__watchdog_new(&mem, &sinks, &loop, &wire, &config);
    cr_assert_not_null(wd);
}

static void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);

    rdl__mem_init(&mem, &hooks);
    sinks = (struct rdl__sinks){.log = on_log, .level = RDL_LOG_WARN, .metrics = on_metric};
    fake_loop_init(&loop, T0);
    for (int i = 0; i < HOLDS_MAX; i++) {
        things[i].hold.ops = &thing_ops;
        things[i].script = RDL__SCRIPT_REENTRANT_RENEW;
        snprintf(things[i].key, sizeof things[i].key, "lock:%d", i);
    }
    open_watchdog(0, 0);
}

static void tear_down(void)
{
    rdl__watchdog_close(wd);
    cr_assert_null(rdl__heap_min(&loop.timers));
    wd = rdl__watchdog_free(wd);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

TestSuite(watchdog, .init = set_up, .fini = tear_down, .timeout = 60);

static struct rdl__hold *hold(int i)
{
    return &things[i].hold;
}

static void add(int i)
{
    rdl__watchdog_add(wd, hold(i), loop.now, LEASE_MS, true);
}

/* Taken so long ago that its renewal is due at once. */
static void add_due(int i)
{
    rdl__watchdog_add(wd, hold(i), loop.now - LEASE / 3, LEASE_MS, true);
}

static void add_many(int count)
{
    for (int i = 0; i < count; i++)
        add(i);
}

static rdl_hold_state_t state(int i)
{
    return rdl__watchdog_state(wd, hold(i), loop.now, NULL);
}

static void run_for(int64_t ns)
{
    fake_loop_run(&loop, loop.now + ns);
}

/* Let time pass in small steps up to `until`; every request is answered `delay` after it was sent. */
static void run_answering(int64_t until, int64_t delay)
{
    while (loop.now < until) {
        run_for(10 * RDL__MS);
        while (wire.count > 0 && wire.reqs[0]->sent_at + delay <= loop.now)
            (void)answer();
    }
}

static void run_until_sent(int submitted)
{
    for (int64_t end = loop.now + LEASE; wire.submitted < submitted && loop.now < end;)
        run_for(RDL__MS);
    cr_assert_eq(wire.submitted, submitted);
}

/* ---- validity --------------------------------------------------------------------------------------------------- */

Test(watchdog, validity_is_the_lease_less_the_allowance_for_drift)
{
    rdl__watchdog_close(wd);
    wd = rdl__watchdog_free(wd);
    open_watchdog(10000, 2);
    cr_assert_eq(rdl__watchdog_validity(wd, T0, 30000), T0 + 30000 * RDL__MS - 300 * RDL__MS - 2 * RDL__MS);
    cr_assert_eq(rdl__watchdog_validity(wd, T0, 1), T0 + RDL__MS - 10 * RDL__US - 2 * RDL__MS);
    cr_assert_gt(rdl__watchdog_validity(wd, T0, RDL_LEASE_MAX_MS), T0 + RDL_LEASE_MAX_MS / 100 * 98 * RDL__MS);
}

/* Whoever believes in a hold stops early; whoever minds what the server still has goes on for longer. */
Test(watchdog, expiry_is_the_lease_and_the_allowance_for_drift)
{
    rdl__watchdog_close(wd);
    wd = rdl__watchdog_free(wd);
    open_watchdog(10000, 2);
    cr_assert_eq(rdl__watchdog_expiry(wd, T0, 30000), T0 + 30000 * RDL__MS + 300 * RDL__MS + 2 * RDL__MS);
    cr_assert_gt(rdl__watchdog_expiry(wd, T0, RDL_LEASE_MAX_MS), T0 + RDL_LEASE_MAX_MS * RDL__MS);
}

Test(watchdog, time_left_counts_from_the_sending_and_ends_in_lost)
{
    int64_t left;

    rdl__watchdog_add(wd, hold(0), T0 - 100 * RDL__MS, 1000, false);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), T0, &left), RDL_HELD);
    cr_assert_eq(left, 900 * RDL__MS);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), T0 + 900 * RDL__MS - 1, &left), RDL_HELD);
    cr_assert_eq(left, 1);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), T0 + 900 * RDL__MS, &left),
                 RDL_LOST); /* before anybody has noticed */
    cr_assert_eq(left, 0);
    cr_assert_eq(things[0].lost, 0);
}

/* ---- renewing --------------------------------------------------------------------------------------------------- */

Test(watchdog, waits_until_due_then_renews)
{
    struct command c;

    add(0);
    run_for(LEASE / 4 - RDL__MS);
    cr_assert_eq(wire.submitted, 0);
    run_until_sent(1);
    cr_assert_leq(loop.now, T0 + LEASE / 3 + RDL__MS);
    read_command(&c);
    cr_assert_eq(c.argc, 6);
    cr_assert_str_eq(c.argv[0], "EVALSHA");
    cr_assert_str_eq(c.argv[1], rdl__scripts[RDL__SCRIPT_REENTRANT_RENEW].sha);
    cr_assert_str_eq(c.argv[2], "1");
    cr_assert_str_eq(c.argv[3], "lock:0");
    cr_assert_str_eq(c.argv[4], "8e03978e-40d5-43e8-bc93-6894a57f9324:0");
    cr_assert_str_eq(c.argv[5], "30000");
    rdl__buf_done(&c.text);
    rdl__watchdog_remove(wd, hold(0), loop.now);
}

Test(watchdog, keeps_a_hold_alive_for_as_long_as_it_is_confirmed)
{
    add(0);
    run_answering(T0 + 100 * LEASE, 20 * RDL__MS);
    cr_assert_eq(state(0), RDL_HELD);
    cr_assert_eq(things[0].at_risk + things[0].lost, 0);
    cr_assert(metrics[RDL_M_RENEWED] >= 299 && metrics[RDL_M_RENEWED] <= 405, "%d", (int)metrics[RDL_M_RENEWED]);
    cr_assert_eq(metrics[RDL_M_RENEWED], wire.submitted);
}

Test(watchdog, an_explicit_lease_is_not_renewed)
{
    rdl__watchdog_add(wd, hold(0), T0, LEASE_MS, false);
    run_for(LEASE - 1);
    cr_assert_eq(wire.submitted, 0);
    cr_assert_eq(things[0].at_risk + things[0].lost, 0);
    run_for(1);
    cr_assert_eq(things[0].lost, 1);
}

Test(watchdog, a_confirmation_counts_from_its_sending)
{
    int64_t left, sent_at;

    add(0);
    run_until_sent(1);
    sent_at = wire.last_at;
    run_for(5 * RDL__SEC);
    cr_assert_eq(answer(), 1);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), loop.now, &left), RDL_HELD);
    cr_assert_eq(loop.now + left, sent_at + LEASE);
}

Test(watchdog, hold_that_was_granted_for_less_is_renewed_in_time_and_then_for_the_usual_lease)
{
    enum { LESS_MS = LEASE_MS / 2 };
    struct command c;
    int64_t left;

    rdl__watchdog_add(wd, hold(0), T0, LESS_MS, true);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), loop.now, &left), RDL_HELD);
    cr_assert_eq(left, LESS_MS * RDL__MS);
    run_until_sent(1);
    cr_assert_leq(loop.now, T0 + LESS_MS * RDL__MS / 3);
    cr_assert_eq(things[0].at_risk, 0);
    read_command(&c);
    cr_assert_str_eq(c.argv[c.argc - 1], "30000");
    cr_assert_eq(answer_command(&c, NONE), 1);
    (void)rdl__watchdog_state(wd, hold(0), loop.now, &left);
    cr_assert_eq(loop.now + left, wire.last_at + LEASE);
    run_for(LEASE / 4 - RDL__MS);
    cr_assert_eq(wire.submitted, 1);
    run_until_sent(2);
    read_command(&c);
    cr_assert_str_eq(c.argv[c.argc - 1], "30000");
    cr_assert_eq(answer_command(&c, NONE), 1);
    (void)rdl__watchdog_remove(wd, hold(0), loop.now);
}

Test(watchdog, holds_taken_together_are_not_renewed_together)
{
    enum { TENTHS = 10 };
    int renewed[TENTHS] = {0};
    int64_t third = LEASE / 3;

    add_many(HOLDS_MAX);
    run_for(third * 3 / 4 - 1);
    cr_assert_eq(wire.submitted, 0);
    for (int tenth = 0; tenth < TENTHS; tenth++) {
        int64_t end = T0 + third * 3 / 4 + third / 4 / TENTHS * (tenth + 1);

        while (loop.now < end) {
            fake_loop_run(&loop, loop.now + 5 * RDL__MS);
            while (wire.count > 0)
                renewed[tenth] += (int)answer();
        }
    }
    for (int tenth = 0; tenth < TENTHS; tenth++)
        cr_assert(renewed[tenth] > 50 && renewed[tenth] < 170, "tenth %d: %d of 1000", tenth, renewed[tenth]);
    run_answering(T0 + 20 * LEASE, 0);
    for (int i = 0; i < HOLDS_MAX; i++)
        cr_assert_eq(things[i].at_risk + things[i].lost, 0);
}

Test(watchdog, what_is_due_together_travels_in_batches_of_at_most_100_two_at_a_time)
{
    add_many(250);
    run_for(LEASE / 3 + RDL__MS); /* all are due; the first batches were small and are not answered yet */
    cr_assert_eq(wire.count, 2);
    while (wire.count > 0) {
        size_t under_way = wire.count;

        cr_assert_leq(under_way, 2);
        cr_assert_leq(answer(), RDL__BATCH);
    }
    cr_assert_eq(metrics[RDL_M_RENEWED], 250);
    cr_assert_leq(wire.submitted, 2 + 3);
}

/* One or two are due at any moment. */
Test(watchdog, those_that_are_nearly_due_go_along)
{
    add_many(HOLDS_MAX);
    run_answering(T0 + LEASE / 3, RDL__MS);
    cr_assert_geq(metrics[RDL_M_RENEWED], HOLDS_MAX);
    cr_assert_leq(wire.submitted, metrics[RDL_M_RENEWED] / 16, "%d commands", wire.submitted);
}

Test(watchdog, nobody_goes_along_long_before_its_time)
{
    add(0);
    run_for(LEASE / 6); /* twice as much as chance could bring them together by */
    add(1);
    run_until_sent(1);
    cr_assert_eq(answer(), 1);
}

Test(watchdog, each_script_has_its_own_batches)
{
    struct command c;
    int of_simple = 0;

    for (int i = 0; i < 10; i += 2)
        things[i].script = RDL__SCRIPT_SIMPLE_RENEW;
    add(10); /* due some time; occupies the lane together with the next */
    run_until_sent(1);
    for (int i = 0; i < 10; i++)
        add_due(i);
    run_for(0);
    while (wire.count > 0) {
        bool simple;

        read_command(&c);
        simple = strcmp(c.argv[1], rdl__scripts[RDL__SCRIPT_SIMPLE_RENEW].sha) == 0;
        for (size_t k = 0; k < keys_in(&c); k++) {
            int i = key_in(&c, k);

            cr_assert_eq(simple, i < 10 && i % 2 == 0);
            of_simple += simple;
        }
        (void)answer_command(&c, NONE);
    }
    cr_assert_eq(of_simple, 5);
    cr_assert_eq(metrics[RDL_M_RENEWED], 11);
}

/* ---- trouble ---------------------------------------------------------------------------------------------------- */

Test(watchdog, a_hold_whose_renewals_stay_unanswered_is_at_risk_and_then_lost_once_and_in_time)
{
    add(0);
    run_for(LEASE * 2 / 3 - 1);
    cr_assert_eq(state(0), RDL_HELD);
    run_for(1);
    cr_assert_eq(state(0), RDL_AT_RISK);
    cr_assert_eq(things[0].at_risk, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_RENEWAL);
    run_for(LEASE / 3 - 1);
    cr_assert_eq(things[0].lost, 0);
    run_for(1);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_LEASE);
    cr_assert_eq(things[0].reported_at, T0 + LEASE);
    run_for(10 * LEASE);
    cr_assert_eq(things[0].at_risk, 1);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(metrics[RDL_M_AT_RISK], 1);
    cr_assert_eq(metrics[RDL_M_LOST], 1);
    cr_assert_eq(rdl__watchdog_remove(wd, hold(0), loop.now), RDL_LOST);
    cr_assert_eq(things[0].lost, 1);
}

Test(watchdog, the_loss_of_many_is_reported_although_the_lane_is_full)
{
    add_many(HOLDS_MAX);
    run_for(LEASE);
    cr_assert_eq(wire.submitted, 2);
    for (int i = 0; i < HOLDS_MAX; i++) {
        cr_assert_eq(things[i].lost, 1);
        cr_assert_eq(things[i].reported_at, T0 + LEASE);
    }
}

Test(watchdog, a_late_confirmation_revives_nothing)
{
    add(0);
    run_for(LEASE);
    cr_assert_eq(things[0].lost, 1);
    (void)answer();
    cr_assert_eq(state(0), RDL_LOST);
    run_for(LEASE);
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_not(rdl__watchdog_raise(wd, hold(0), loop.now, LEASE_MS, true));
}

/* Meanwhile another thread may have asked, and been told that it is lost. */
Test(watchdog, a_confirmation_that_came_in_time_and_is_noted_late_revives_nothing)
{
    add(0);
    run_for(LEASE / 2);
    cr_assert_eq(wire.count, 1);
    preempted = LEASE / 2;
    (void)answer();
    cr_assert_eq(state(0), RDL_LOST);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_LEASE);
    cr_assert_eq(metrics[RDL_M_RENEWED], 0);
    rdl__watchdog_add(wd, hold(1), loop.now, LEASE_MS, true);
    loop.now += LEASE;
    cr_assert_not(rdl__watchdog_raise(wd, hold(1), loop.now - 1, LEASE_MS, true));
    cr_assert_eq(state(1), RDL_LOST);
}

Test(watchdog, a_confirmation_in_time_ends_the_risk)
{
    add(0);
    run_for(LEASE * 5 / 6);
    cr_assert_eq(state(0), RDL_AT_RISK);
    (void)answer(); /* sent long ago: valid until a lease after that */
    run_answering(loop.now + LEASE, 0);
    cr_assert_eq(state(0), RDL_HELD);
    cr_assert_eq(things[0].lost, 0);
}

Test(watchdog, a_hold_that_the_server_does_not_know_is_lost_at_once_and_its_neighbours_are_not)
{
    for (int i = 0; i < 3; i++)
        add_due(i);
    run_for(0);
    cr_assert_eq(wire.count, 1);
    cr_assert_eq(answer_but(1), 3);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(things[i].lost, i == 1);
    cr_assert_eq(things[1].reason, RDL_LOSS_GONE);
    cr_assert_eq(metrics[RDL_M_RENEWED], 2);
    cr_assert_eq(state(1), RDL_LOST);
}

Test(watchdog, a_lock_that_had_no_time_to_live_is_confirmed_like_any_other)
{
    usual_ttl_ms = -1;
    add_due(0);
    run_for(0);
    cr_assert_eq(answer(), 1);
    cr_assert_eq(metrics[RDL_M_RENEWED], 1);
    cr_assert_eq(state(0), RDL_HELD);
}

Test(watchdog, an_error_or_nonsense_for_an_answer_is_no_confirmation_and_is_tried_again_soon)
{
    static struct rdl__reply one = {.type = RDL__REPLY_INT, .integer = 1};
    static struct rdl__reply word = {.type = RDL__REPLY_STRING, .str = "x", .len = 1};
    static struct rdl__reply *few[] = {&one, &one}, *wrong[] = {&one, &one, &word};
    const struct rdl__reply answers[] = {
        {.type = RDL__REPLY_ERROR, .str = "READONLY no", .len = 11},
        {.type = RDL__REPLY_NIL},
        {.type = RDL__REPLY_ARRAY, .len = 2, .elem = few},
        {.type = RDL__REPLY_ARRAY, .len = 3, .elem = wrong},
    };

    add(0);
    for (int i = 0; i < 4; i++) {
        int64_t before;

        run_until_sent(i + 1);
        before = loop.now;
        answer_with(&answers[i]);
        run_until_sent(i + 2);
        cr_assert_leq(loop.now - before, LEASE / 10);
    }
    cr_assert_eq(metrics[RDL_M_RENEWED], 0);
    cr_assert_eq(answer(), 1);
    cr_assert_eq(metrics[RDL_M_RENEWED], 1);
}

Test(watchdog, a_request_that_could_not_be_made_is_tried_again)
{
    struct rdl__req *req;

    add(0);
    run_until_sent(1);
    req = take_req();
    req->rc = RDL_ENOMEM;
    req->ops->done(req, loop.now);
    run_until_sent(2);
    cr_assert_eq(answer(), 1);
    cr_assert_eq(state(0), RDL_HELD);
}

Test(watchdog, a_jump_of_the_servers_clock_is_said)
{
    add(0);
    run_until_sent(1);
    (void)answer();
    cr_assert_str_empty(last_line);
    server_ahead_us = 20 * 1000000;
    run_until_sent(2);
    (void)answer();
    cr_assert_not_null(strstr(last_line, "+20000 ms"), "%s", last_line);
    last_line[0] = '\0';
    run_until_sent(3);
    (void)answer();
    cr_assert_str_empty(last_line);
    server_ahead_us = -80 * 1000000;
    run_until_sent(4);
    (void)answer();
    cr_assert_not_null(strstr(last_line, "-100000 ms"), "%s", last_line);
}

Test(watchdog, a_lease_that_somebody_shortened_is_said_and_renewed_like_any_other)
{
    int64_t left;

    usual_ttl_ms = 5000;
    add(0);
    run_until_sent(1);
    cr_assert_eq(answer(), 1);
    cr_assert_not_null(strstr(last_line, "shortened"), "%s", last_line);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), loop.now, &left), RDL_HELD);
    cr_assert_eq(loop.now + left, wire.last_at + LEASE);
}

Test(watchdog, a_lease_that_lasts_as_long_as_it_should_is_not_called_shortened)
{
    add(0);
    run_until_sent(1);
    usual_ttl_ms = (T0 + LEASE - loop.now) / RDL__MS;
    run_for(20 * RDL__MS);
    cr_assert_eq(answer(), 1);
    cr_assert_str_empty(last_line);
}

/* ---- leaving ---------------------------------------------------------------------------------------------------- */

Test(watchdog, nothing_is_renewed_once_it_has_left)
{
    add(0);
    run_for(LEASE / 5);
    cr_assert_eq(rdl__watchdog_remove(wd, hold(0), loop.now), RDL_HELD);
    run_for(5 * LEASE);
    cr_assert_eq(wire.submitted, 0);
    cr_assert_eq(things[0].at_risk + things[0].lost, 0);
}

Test(watchdog, a_hold_that_left_is_not_in_a_batch_that_is_encoded_later)
{
    struct command c;

    for (int i = 0; i < 3; i++)
        add_due(i);
    run_for(0);
    cr_assert_eq(wire.count, 1);
    rdl__watchdog_remove(wd, hold(1), loop.now);
    memset(&things[1], 0xa5, sizeof things[1]); /* its memory is the owner's again */
    read_command(&c);
    cr_assert_eq(keys_in(&c), 2);
    cr_assert_eq(key_in(&c, 0) + key_in(&c, 1), 0 + 2);
    cr_assert_eq(answer_command(&c, NONE), 2);
    cr_assert_eq(metrics[RDL_M_RENEWED], 2);
}

Test(watchdog, a_hold_that_left_after_it_was_encoded_is_not_touched_by_the_answer)
{
    struct command c;

    for (int i = 0; i < 3; i++)
        add_due(i);
    run_for(0);
    read_command(&c);
    cr_assert_eq(rdl__watchdog_remove(wd, hold(0), loop.now), RDL_HELD);
    memset(&things[0], 0xa5, sizeof things[0]);
    cr_assert_eq(answer_command(&c, 1), 3);
    cr_assert_eq(things[1].lost, 1);
    cr_assert_eq(things[2].lost, 0);
    cr_assert_eq(metrics[RDL_M_RENEWED], 1);
}

Test(watchdog, a_repeated_batch_is_encoded_without_those_that_left_meanwhile)
{
    struct command c;

    for (int i = 0; i < 3; i++)
        add_due(i);
    run_for(0);
    read_command(&c);
    cr_assert_eq(keys_in(&c), 3);
    rdl__buf_done(&c.text); /* the connection breaks */
    rdl__watchdog_remove(wd, hold(2), loop.now);
    read_command(&c);
    cr_assert_eq(keys_in(&c), 2);
    cr_assert_eq(answer_command(&c, 1), 2);
    cr_assert_eq(things[0].lost, 0);
    cr_assert_eq(things[1].lost, 1);
}

Test(watchdog, a_batch_whose_holds_have_all_left_is_a_harmless_command)
{
    struct command c;

    add_due(0);
    run_for(0);
    rdl__watchdog_remove(wd, hold(0), loop.now);
    read_command(&c);
    cr_assert_eq(c.argc, 1);
    cr_assert_str_eq(c.argv[0], "PING");
    rdl__buf_done(&c.text);
    cr_assert_eq(answer(), 0);
    add(1);
    run_until_sent(2); /* the batch is free again */
}

Test(watchdog, leaving_tells_of_a_loss_that_nobody_had_noticed)
{
    rdl__watchdog_add(wd, hold(0), T0, 1000, false);
    cr_assert_eq(rdl__watchdog_remove(wd, hold(0), T0 + 1000 * RDL__MS), RDL_LOST);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_LEASE);
    run_for(10 * RDL__SEC);
    cr_assert_eq(things[0].lost, 1);
}

Test(watchdog, who_says_gone_or_orphan_is_believed_once)
{
    add_many(2);
    rdl__watchdog_gone(wd, hold(0), 1);
    rdl__watchdog_gone(wd, hold(0), 1);
    rdl__watchdog_orphan(wd, hold(0));
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_GONE);
    rdl__watchdog_orphan(wd, hold(1));
    cr_assert_eq(things[1].reason, RDL_LOSS_THREAD_EXIT);
    run_for(2 * LEASE);
    cr_assert_eq(things[0].lost + things[1].lost, 2);
    cr_assert_eq(wire.submitted, 0);
}

/* Somebody evicts a hold while its owner gives it back, and has the next one by the time that is told. */
Test(watchdog, only_the_hold_that_is_gone_is_lost_and_only_while_it_is_looked_after)
{
    add_many(2);
    rdl__watchdog_gone(wd, hold(0), 2);
    cr_assert_eq(rdl__watchdog_remove(wd, hold(1), T0), RDL_HELD);
    rdl__watchdog_gone(wd, hold(1), 2);
    rdl__watchdog_orphan(wd, hold(1));
    cr_assert_eq(things[0].lost + things[1].lost, 0);
    rdl__watchdog_gone(wd, hold(0), 1);
    cr_assert_eq(things[0].lost, 1);
}

/* ---- raising ---------------------------------------------------------------------------------------------------- */

Test(watchdog, raising_lengthens_and_never_shortens)
{
    int64_t left;

    rdl__watchdog_add(wd, hold(0), T0, 5000, false);
    cr_assert(rdl__watchdog_raise(wd, hold(0), T0, 8000, false));
    cr_assert(rdl__watchdog_raise(wd, hold(0), T0, 2000, false));
    (void)rdl__watchdog_state(wd, hold(0), T0, &left);
    cr_assert_eq(left, 8 * RDL__SEC);
    fake_loop_run(&loop, T0 + 8 * RDL__SEC - 1);
    cr_assert_eq(things[0].lost, 0);
    fake_loop_run(&loop, T0 + 8 * RDL__SEC);
    cr_assert_eq(things[0].lost, 1);
}

Test(watchdog, raising_after_the_end_is_refused)
{
    rdl__watchdog_add(wd, hold(0), T0, 5000, false);
    loop.now = T0 + 5 * RDL__SEC;
    cr_assert_not(rdl__watchdog_raise(wd, hold(0), T0, 60000, false));
    cr_assert_eq(rdl__watchdog_remove(wd, hold(0), loop.now), RDL_LOST);
}

Test(watchdog, raising_may_start_renewal)
{
    rdl__watchdog_add(wd, hold(0), T0, 60000, false);
    cr_assert(rdl__watchdog_raise(wd, hold(0), T0, LEASE_MS, true));
    run_answering(T0 + 5 * LEASE, 0);
    cr_assert_geq(wire.submitted, 14);
    cr_assert_eq(state(0), RDL_HELD);
}

/* ---- closing ---------------------------------------------------------------------------------------------------- */

Test(watchdog, closed_it_renews_and_reports_nothing)
{
    add_many(10);
    run_for(LEASE / 5);
    rdl__watchdog_close(wd);
    run_for(5 * LEASE);
    cr_assert_eq(wire.submitted, 0);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(things[i].at_risk + things[i].lost, 0);
        cr_assert_eq(state(i), RDL_LOST); /* whoever asks is told */
    }
}

Test(watchdog, cannot_be_made_without_memory)
{
    const struct rdl__watchdog_config config = {.drift_ms = 2};

    counting_alloc_fail_at(&counting, 1);
    cr_assert_null(rdl__watchdog_new(&mem, &sinks, &loop, &wire, &config));
    cr_assert_null(rdl__watchdog_free(NULL));
}

/* ---- a server that may have forgotten --------------------------------------------------------------------------- */

Test(watchdog, examining_asks_at_once_about_every_hold_renewed_or_not)
{
    add(0);
    rdl__watchdog_add(wd, hold(1), loop.now, LEASE_MS, false);
    add(2);
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(answer_but(1), 3);
    cr_assert_eq(things[1].lost, 1);
    cr_assert_eq(things[1].reason, RDL_LOSS_GONE);
    cr_assert_eq(things[0].lost + things[2].lost, 0);
    cr_assert_eq(wire.count, 0);
}

Test(watchdog, a_lease_with_an_end_that_stood_the_examination_is_not_renewed_after_it)
{
    rdl__watchdog_add(wd, hold(0), T0, LEASE_MS, false);
    run_for(LEASE / 2);
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    cr_assert_eq(answer(), 1);
    run_for(LEASE / 2 - 1);
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(things[0].lost, 0);
    run_for(1);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_LEASE);
}

Test(watchdog, an_examination_that_was_not_answered_is_made_again)
{
    static const struct rdl__reply refusal = {.type = RDL__REPLY_ERROR, .str = "LOADING", .len = 7};

    rdl__watchdog_add(wd, hold(0), T0, LEASE_MS, false);
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    answer_with(&refusal);
    run_until_sent(2);
    cr_assert_leq(loop.now, T0 + LEASE / 10);
    cr_assert_eq(answer_but(0), 1);
    cr_assert_eq(things[0].lost, 1);
}

Test(watchdog, holds_whose_renewal_is_under_way_are_not_asked_about_twice)
{
    add_due(0);
    run_for(0);
    cr_assert_eq(wire.submitted, 1);
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(answer(), 1);
}

/* What lies in a batch, or waits for one, must not be scheduled a second time: a batch would remember a hold that is
 * gone. */
Test(watchdog, a_lease_that_is_made_to_last_while_it_is_examined_is_not_asked_about_twice)
{
    rdl__watchdog_add(wd, hold(0), T0, 4 * LEASE_MS, false);
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    cr_assert_eq(wire.submitted, 1);
    cr_assert(rdl__watchdog_raise(wd, hold(0), loop.now, LEASE_MS, true));
    run_for(LEASE);
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(answer(), 1);
    run_until_sent(2);
    cr_assert_eq(answer(), 1);
    cr_assert_eq(things[0].lost, 0);
}
