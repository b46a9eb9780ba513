/* SPDX-License-Identifier: MIT */
/* test_herd.c - processes that wait for one lock, very many of them each once, and few that come back at once: what a
 * change of owner costs the server, and for how long the lock is free beside those who wait (protocol.md, 5, wake one).
 */
#include "core/base/heap.h"
#include "tests/sim/net.h"
#include "tests/sim/server.h"
#include "tests/sim/world.h"

#include <criterion/criterion.h>
#include <redlatch/redlatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE_WAY (RDL__MS / 10)
#define HELD_NS (RDL__MS / 2)

#ifdef REDLATCH_ASSERTS
enum { MANY = 300 };
#else
enum { MANY = 10000 };
#endif
enum { FEW = 8, ROUNDS = 20 };

struct waiting {
    struct process process;
    struct event leaves;
    rdl_client_t *client;
    rdl_owner_t *owner;
    rdl_lock_t *lock, *alike;
    unsigned more; /* how often it comes back */
};

static struct waiting *waiting;
static size_t count;
static const char *lock_name = "N", *alike; /* NULL; or a name of which each client has a handle besides */
static struct {
    size_t waits, changes;
    int64_t commands, freed_at, longest_idle;
    bool counts, inside;
} seen;

static void on_ran(const struct ran *ran)
{
    if (!seen.counts || ran->client == NULL)
        return;
    seen.commands++;
    if (ran->script == NULL || ran->reply->kind != REPLY_INTEGER)
        return;
    if (strcmp(ran->script, "reentrant_release") == 0 && ran->reply->integer > 0)
        seen.freed_at = world_now();
    if (strcmp(ran->script, "reentrant_take") == 0 && ran->reply->integer == -10 && seen.freed_at > 0 &&
        world_now() - seen.freed_at > seen.longest_idle)
        seen.longest_idle = world_now() - seen.freed_at;
}

static void come(struct waiting *w);

static void on_left(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct waiting *w = arg;

    (void)lock;
    (void)err;
    cr_assert_eq(result, RDL_OK);
    if (w->more == 0)
        return;
    w->more--;
    come(w);
}

static void leave(struct event *event)
{
    struct waiting *w = rdl__container(event, struct waiting, leaves);

    seen.inside = false;
    cr_assert_eq(rdl_unlock_async(w->lock, w->owner, on_left, w, NULL, NULL), RDL_OK);
}

static void on_in(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct waiting *w = arg;

    (void)lock;
    cr_assert_eq(result, RDL_OK, "%s", err == NULL ? "" : err->message);
    cr_assert(!seen.inside, "two are in");
    seen.inside = true;
    seen.changes++;
    if (seen.counts) /* else it is the first, who stays in until all the others wait */
        event_at(&w->leaves, world_now() + HELD_NS);
}

static void come(struct waiting *w)
{
    cr_assert_eq(rdl_lock_async(w->lock, w->owner, 600000, on_in, w, NULL, NULL), RDL_OK);
}

static void begin(void *arg)
{
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    struct waiting *w = arg;

    options.anonymous = true;
    options.connections = 1;
    options.ping_interval_ms = 600000;
    cr_assert_eq(rdl_client_open("redis://127.0.0.1:6379", &options, &w->client, NULL), RDL_OK);
    cr_assert_eq(rdl_reentrant_lock(w->client, lock_name, NULL, &w->lock, NULL), RDL_OK);
    if (alike != NULL)
        cr_assert_eq(rdl_reentrant_lock(w->client, alike, NULL, &w->alike, NULL), RDL_OK);
    cr_assert_eq(rdl_owner_new(w->client, &w->owner, NULL), RDL_OK);
    come(w);
}

static void end(void *arg)
{
    struct waiting *w = arg;

    rdl_owner_free(w->owner);
    rdl_lock_free(w->alike);
    rdl_lock_free(w->lock);
    rdl_client_close(w->client);
}

/* They come one by one, and all wait when the first one leaves. */
static void whole_run(void *arg)
{
    const struct net_config net = {.delay_ns = ONE_WAY, .room = 1 << 20};
    static const struct server_traits traits = {.old = false};
    const size_t *changes = arg;
    char line[64];

    (void)snprintf(line, sizeof line, lock_name[0] == '{' ? "redisson_lock__channel:%s" : "redisson_lock__channel:{%s}",
                   lock_name);
    server_begin(&traits, 0);
    net_begin(&net);
    server_on_ran(on_ran);
    for (size_t i = 0; i < count; i++) {
        struct waiting *w = &waiting[i];
        char name[24];

        (void)snprintf(name, sizeof name, "P%zu", i);
        process_init(&w->process, name, RDL__SEC, 0);
        event_init(&w->leaves, leave, &w->process);
        fibre_join(fibre_start(&w->process, begin, w));
        while (!seen.inside)
            fibre_sleep(RDL__MS);
    }
    fibre_sleep(RDL__SEC);
    seen.counts = true;
    event_at(&waiting[0].leaves, world_now());
    while (seen.changes < *changes)
        fibre_sleep(RDL__MS);
    seen.counts = false;
    fibre_sleep(RDL__SEC);
    cr_expect_eq(server_do("EXISTS", line)->integer, 0, "nobody stands in line for nobody");
    for (size_t i = 0; i < count; i++)
        fibre_join(fibre_start(&waiting[i].process, end, &waiting[i]));
}

/* `many` processes, the i-th of which comes back i * rounds times. */
static void run_herd(size_t many, unsigned rounds)
{
    size_t changes = many;
    bool over;

    waiting = calloc(many, sizeof *waiting);
    cr_assert_not_null(waiting);
    count = many;
    for (size_t i = 0; i < many; i++)
        changes += waiting[i].more = (unsigned)i * rounds;
    world_trace(TRACE_OFF);
    world_begin(1);
    world_limit(100 * 3600 * RDL__SEC);
    over = world_run(whole_run, &changes);
    cr_assert(over && world_violation() == NULL);
    printf("%zu processes: %.2f commands a change, longest idle %.2f ms\n", many,
           (double)seen.commands / (double)(changes - 1), (double)seen.longest_idle / (double)RDL__MS);
    server_end();
    net_end();
    world_end();
    free(waiting);
}

Test(herd, Q7_ten_thousand_processes_are_let_in_one_by_one_for_at_most_four_commands_each, .timeout = 600)
{
    run_herd(MANY, 0);
    cr_expect_leq(seen.commands, 4 * (MANY - 1));
    cr_expect_leq(seen.longest_idle, 2 * ONE_WAY + RDL__MS / 10, "the message, and the try that it makes");
}

/* Their releases have them stand in line, so a change costs no try that is refused. Those of who has come for the last
 * time do so, too, and its client leaves as soon as it is woken: two messages, and what it sends between them. */
Test(herd, Q7_those_who_come_back_at_once_stand_in_line_and_leave_it_at_once_when_they_do_not, .timeout = 120)
{
    run_herd(FEW, ROUNDS);
    cr_expect_leq(10 * seen.commands, 23 * (FEW + ROUNDS * FEW * (FEW - 1) / 2));
    cr_expect_leq(seen.longest_idle, 4 * ONE_WAY + RDL__MS / 10);
}

static void run_beside(const char *name, const char *beside)
{
    lock_name = name;
    alike = beside;
    run_herd(FEW, ROUNDS);
    cr_expect_leq(10 * seen.commands, 23 * (FEW + ROUNDS * FEW * (FEW - 1) / 2));
    cr_expect_leq(seen.longest_idle, 4 * ONE_WAY + RDL__MS / 10);
}

Test(herd, Q7_channel_of_a_name_with_braces_in_it_is_not_taken_for_another_locks, .timeout = 120)
{
    run_beside("{N}b", "N}"); /* asserts */
}

Test(herd, Q7_two_locks_with_one_channel_both_leave_the_line, .timeout = 120)
{
    run_beside("{N}", "N"); /* asserts */
}
