/* SPDX-License-Identifier: MIT */
/* checks.c - see checks.h.
 *
 * What a client did is read from MONITOR, so that "woken by the message" does not rest on a clock alone: after the
 * release there must be one message and one try of the waiter's, long before the waiter would look by itself. C waiters
 * look again after 5 s at the latest, Java's when the lease ends; WOKEN_MS lies below both.
 */
#include "tests/interop/checks.h"
#include "tests/interop/mixed.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "orders"
#define COUNTER "redisson_lock_token:{" NAME "}" /* of a fenced lock; stays for ever */
#define CHANNEL "redisson_lock__channel:{" NAME "}"
#define WOKEN_MS 3000
#define PATIENT_MS 20000 /* a wait that is not to end before its event */
#define EVENT_BOUND_MS 10000
#define ROUNDS_BOUND_MS 240000
#define MIXED_LEASE_MS                                                                                                 \
    10000 /* how long a waiter of Java sleeps at most that missed its message (wire.md, Messages)                      \
           */

/* Short, so that renewals come soon; still slack enough for a busy machine: two thirds of it between due and late. */
#define SHORT_WATCHDOG_MS 2000

/* ---- what Redis shows ------------------------------------------------------------------------------------------- */

/* A word as MONITOR prints it. To be freed. */
static char *shown(const char *word)
{
    struct bytes out = {0};

    bytes_add(&out, "\"", 1);
    for (const unsigned char *c = (const unsigned char *)word; *c != '\0'; c++) {
        char coded[8];

        if (*c == '"' || *c == '\\')
            snprintf(coded, sizeof coded, "\\%c", *c);
        else
            snprintf(coded, sizeof coded, isprint(*c) ? "%c" : "\\x%02x", *c);
        bytes_add(&out, coded, strlen(coded));
    }
    bytes_add(&out, "\"", 2);
    return out.at;
}

/* How many commands that scripts called after `mark` have both, `key` as a word of its own? */
static size_t script_calls(struct meeting *m, size_t mark, const char *what, const char *key)
{
    char *word = shown(key);
    char *needles = must_format("%s|%s", what, word);
    size_t n;

    (void)monitor_mark(m->monitor);
    n = monitor_count_lua(m->monitor, mark, needles);
    free(needles);
    free(word);
    return n;
}

/* A try to take a lock names the caller's field in one command of its script, be it granted or refused. */
size_t tries_after(struct meeting *m, size_t mark, const struct party *who, const char *name)
{
    return script_calls(m, mark, party_id(who), name);
}

static void assert_nothing_left(struct meeting *m)
{
    int64_t theirs = m->sentinels != NULL; /* they listen to a channel of their own */

    cr_assert(WAIT_UNTIL(probe_keys(m->probe) == probe_int(m->probe, "EXISTS " COUNTER), EVENT_BOUND_MS),
              "keys are left: %s", probe_text(m->probe, "RANDOMKEY"));
    cr_assert(WAIT_UNTIL(probe_channels_of(m->probe, m->cluster != NULL) == theirs, EVENT_BOUND_MS),
              "a subscription is left");
}

void wait_asleep(struct meeting *m, size_t mark, const struct party *waiter, const char *name, const char *channel)
{
    cr_assert(WAIT_UNTIL(probe_subscribers_of(m->probe, m->cluster != NULL, channel) > 0, EVENT_BOUND_MS),
              "no subscription to %s", channel);
    cr_assert(WAIT_UNTIL(tries_after(m, mark, waiter, name) >= 2, EVENT_BOUND_MS), "no second try for %s", name);
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

/* Let the waiter wait for NAME, and go on when it sleeps. */
static void put_to_sleep(struct meeting *m, struct party *waiter, const char *name, const char *channel)
{
    size_t mark = monitor_mark(m->monitor);

    party_start_try(waiter, PATIENT_MS, LONG_MS);
    wait_asleep(m, mark, waiter, name, channel);
}

void check_hand_over(struct meeting *m, struct party *holder, struct party *waiter, const char *name,
                     const char *channel)
{
    size_t mark;
    int64_t released;

    cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_OK);
    put_to_sleep(m, waiter, name, channel);
    mark = monitor_mark(m->monitor);
    released = now_ms();
    cr_assert_eq(party_unlock(holder), RDL_OK);
    cr_assert_eq(party_result(waiter, PATIENT_MS), RDL_OK);
    cr_assert_lt(now_ms() - released, WOKEN_MS);
    cr_assert_leq(tries_after(m, mark, waiter, name), 2); /* who starts to listen to a peer tries once more */
    cr_assert_eq(script_calls(m, mark, m->cluster != NULL ? "\"spublish\"|\"0\"" : "\"publish\"|\"0\"", channel), 1);
    cr_assert_eq(party_unlock(waiter), RDL_OK);
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

void check_exclusion(const char *type, enum party_kind holder_kind, enum party_kind other_kind)
{
    struct meeting m;
    struct party *holder;
    struct party *other;
    int64_t left;

    meeting_open(&m, type, 0);
    holder = party_on(&m, holder_kind, NAME);
    other = party_on(&m, other_kind, NAME);

    cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_OK);
    cr_assert_eq(party_try(other, 0, LONG_MS), RDL_ETIMEDOUT);
    cr_assert_eq(party_try(other, 300, LONG_MS), RDL_ETIMEDOUT);
    cr_assert_eq(party_unlock(other), RDL_ENOTOWNER);
    cr_assert_eq(party_is_locked(other), 1);
    cr_assert_eq(party_hold_count(other), 0);
    left = party_remaining_ms(other);
    cr_assert(left > 0 && left <= LONG_MS);
    cr_assert_eq(party_hold_count(holder), 1);
    cr_assert_eq(party_unlock(holder), RDL_OK);

    cr_assert_eq(party_is_locked(other), 0);
    cr_assert_eq(party_try(other, 0, LONG_MS), RDL_OK);
    cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_ETIMEDOUT);
    cr_assert_eq(party_unlock(other), RDL_OK);
    assert_nothing_left(&m);
    meeting_close(&m);
}

void check_release_wakes(const char *type, enum party_kind holder_kind, enum party_kind waiter_kind)
{
    struct meeting m;
    struct party *holder;
    struct party *waiter;

    meeting_open(&m, type, 0);
    holder = party_on(&m, holder_kind, NAME);
    waiter = party_on(&m, waiter_kind, NAME);
    check_hand_over(&m, holder, waiter, NAME, CHANNEL);
    assert_nothing_left(&m);
    meeting_close(&m);
}

void check_renewal_holds(const char *type, enum party_kind holder_kind, enum party_kind other_kind)
{
    struct meeting m;
    struct party *holder;
    struct party *other;
    size_t mark;

    meeting_open(&m, type, SHORT_WATCHDOG_MS);
    holder = party_on(&m, holder_kind, NAME);
    other = party_on(&m, other_kind, NAME);

    cr_assert_eq(party_try(holder, 0, RDL_LEASE_AUTO), RDL_OK);
    mark = monitor_mark(m.monitor);
    /* One every third of the lease: the fourth comes when the first lease is over. */
    cr_assert(WAIT_UNTIL(script_calls(&m, mark, "pexpire", NAME) >= 4, 5 * SHORT_WATCHDOG_MS), "it is not renewed");
    cr_assert_eq(party_try(other, 0, LONG_MS), RDL_ETIMEDOUT);
    cr_assert_eq(party_hold_count(holder), 1);
    cr_assert_leq(probe_int(m.probe, "PTTL %s", NAME), SHORT_WATCHDOG_MS);
    cr_assert_eq(party_unlock(holder), RDL_OK);
    cr_assert_eq(party_try(other, 0, LONG_MS), RDL_OK);
    meeting_close(&m);
}

void check_force_unlock(const char *type, enum party_kind holder_kind, enum party_kind other_kind)
{
    struct meeting m;
    struct party *holder;
    struct party *waiter;
    struct party *other;
    int64_t forced;

    meeting_open(&m, type, 0);
    holder = party_on(&m, holder_kind, NAME);
    waiter = party_on(&m, holder_kind, NAME);
    other = party_on(&m, other_kind, NAME);

    cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_OK);
    put_to_sleep(&m, waiter, NAME, CHANNEL);
    forced = now_ms();
    cr_assert_eq(party_force_unlock(other), 1);
    cr_assert_eq(party_result(waiter, PATIENT_MS), RDL_OK);
    cr_assert_lt(now_ms() - forced, WOKEN_MS);

    /* Redisson has one answer for what was lost and what was never held. */
    cr_assert_eq(party_unlock(holder), holder_kind == PARTY_JAVA ? RDL_ENOTOWNER : RDL_ELOST);
    cr_assert_eq(party_hold_count(waiter), 1);
    cr_assert_eq(party_try(other, 0, LONG_MS), RDL_ETIMEDOUT);
    cr_assert_eq(party_unlock(waiter), RDL_OK);
    cr_assert_eq(party_force_unlock(other), 0);
    assert_nothing_left(&m);
    meeting_close(&m);
}

void check_reentry(const char *type, enum party_kind holder_kind, enum party_kind other_kind)
{
    enum { DEPTH = 3 };
    struct meeting m;
    struct party *holder;
    struct party *other;

    meeting_open(&m, type, 0);
    holder = party_on(&m, holder_kind, NAME);
    other = party_on(&m, other_kind, NAME);

    for (int i = 1; i <= DEPTH; i++) {
        cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_OK);
        cr_assert_eq(party_hold_count(holder), i);
    }
    for (int i = DEPTH - 1; i >= 0; i--) {
        cr_assert_eq(party_try(other, 0, LONG_MS), RDL_ETIMEDOUT);
        cr_assert_eq(party_unlock(holder), RDL_OK);
        cr_assert_eq(party_hold_count(holder), i);
    }
    cr_assert_eq(party_try(other, 0, LONG_MS), RDL_OK);
    cr_assert_eq(party_unlock(other), RDL_OK);
    assert_nothing_left(&m);
    meeting_close(&m);
}

void check_death(const char *type, enum party_kind holder_kind, enum party_kind waiter_kind)
{
    struct meeting m;
    struct party *holder;
    struct party *waiter;
    size_t mark;
    int64_t killed;
    int64_t left;
    int64_t took;

    meeting_open(&m, type, SHORT_WATCHDOG_MS);
    holder = party_on(&m, holder_kind, NAME);
    waiter = party_on(&m, waiter_kind, NAME);

    cr_assert_eq(party_try(holder, 0, RDL_LEASE_AUTO), RDL_OK);
    mark = monitor_mark(m.monitor);
    put_to_sleep(&m, waiter, NAME, CHANNEL);
    cr_assert(WAIT_UNTIL(script_calls(&m, mark, "pexpire", NAME) >= 1, 5 * SHORT_WATCHDOG_MS), "it is not renewed");
    party_kill(holder);
    killed = now_ms();
    left = probe_int(m.probe, "PTTL %s", NAME);
    cr_assert_eq(party_result(waiter, PATIENT_MS), RDL_OK);
    took = now_ms() - killed;
    cr_assert_geq(took, left, "taken over after %ld ms, with %ld ms left", (long)took, (long)left);
    cr_assert_lt(took, left + WOKEN_MS, "taken over after %ld ms, with %ld ms left", (long)took, (long)left);
    meeting_close(&m);
}

void check_takeover(const char *type, enum party_kind holder_kind, enum party_kind waiter_kind)
{
    enum { LEASE_MS = 3000, SLEEPS_MS = 200 };
    struct meeting m;
    struct party *holder, *waiter;
    int64_t began = 0, held, taken;

    meeting_open(&m, type, 0);
    holder = party_on(&m, holder_kind, NAME);
    waiter = party_on(&m, waiter_kind, NAME);
    began = now_ms();
    cr_assert_eq(party_try(holder, 0, LEASE_MS), RDL_OK);
    held = now_ms();
    party_start_try(waiter, PATIENT_MS, LONG_MS);
    cr_assert(!party_finished(waiter, SLEEPS_MS));
    party_kill(holder);
    cr_assert_eq(party_result(waiter, PATIENT_MS), RDL_OK);
    taken = now_ms();
    cr_assert_geq(taken - began, LEASE_MS, "taken over %ld ms after it was asked for", (long)(taken - began));
    cr_assert_lt(taken - held, LEASE_MS + WOKEN_MS, "taken over %ld ms after it was had", (long)(taken - held));
    cr_assert_eq(party_unlock(waiter), RDL_OK);
    meeting_close(&m);
}

static const enum party_kind crowd[] = {PARTY_PROCESS, PARTY_THREAD, PARTY_THREAD, PARTY_JAVA, PARTY_JAVA};

#define CROWD (sizeof crowd / sizeof crowd[0])

/* A meeting of so much that nobody could read what its monitor saw. */
static void open_for_rounds(struct meeting *m, const char *type)
{
    meeting_open(m, type, 0);
    monitor_stop(m->monitor);
    m->monitor = NULL;
}

/* All of them take part until the end; what came of it all in all. */
static struct rounds_done have_rounds(struct party *const *parties, size_t count, const struct rounds_plan *plan,
                                      void (*start)(struct party *who, const struct rounds_plan *plan))
{
    struct rounds_done sum = {0};

    for (size_t i = 0; i < count; i++)
        start(parties[i], plan);
    for (size_t i = 0; i < count; i++) {
        struct rounds_done done = party_rounds(parties[i], ROUNDS_BOUND_MS);

        cr_log_info("%zu, of %s: %ld rounds, %ld crossings", i, party_id(parties[i]), (long)done.rounds,
                    (long)done.crossings);
        sum.rounds += done.rounds;
        sum.overlaps += done.overlaps;
        sum.crossings += done.crossings;
    }
    cr_assert_eq(sum.overlaps, 0);
    return sum;
}

static void gather_crowd(struct meeting *m, struct party **parties)
{
    rounds_prepare(m->probe, NAME);
    for (size_t i = 0; i < CROWD; i++)
        parties[i] = party_on(m, crowd[i], NAME);
}

/* Each side leaves off after five in a row, or a few more by those who had asked already. */
#define STREAK 5
#define LEAST_CROSSINGS(rounds) ((rounds) / 20)

void check_rounds(const char *type, int64_t goal)
{
    const struct rounds_plan plan = {
        .goal = goal, .streak = STREAK, .lease_ms = RDL_LEASE_AUTO, .bound_ms = PATIENT_MS};
    struct meeting m;
    struct party *parties[CROWD];
    struct rounds_done sum;

    open_for_rounds(&m, type);
    gather_crowd(&m, parties);
    sum = have_rounds(parties, CROWD, &plan, party_start_rounds);
    cr_assert_eq(sum.rounds, goal);
    cr_assert_eq(rounds_count(m.probe, NAME), goal, "updates were lost");
    cr_assert_gt(sum.crossings, LEAST_CROSSINGS(goal));
    meeting_close(&m);
}

#define PAIRS 16

void check_rounds_of_pairs(const char *type, int64_t goal)
{
    const struct rounds_plan plan = {
        .goal = goal / PAIRS, .streak = STREAK, .lease_ms = RDL_LEASE_AUTO, .bound_ms = PATIENT_MS};
    struct meeting m;
    char *names[PAIRS];
    struct party *parties[2 * PAIRS];
    struct rounds_done sum;

    open_for_rounds(&m, type);
    for (size_t i = 0; i < PAIRS; i++) {
        names[i] = must_format(NAME "%zu", i);
        rounds_prepare(m.probe, names[i]);
        parties[2 * i] = party_on(&m, PARTY_JAVA, names[i]);
        parties[2 * i + 1] = party_on(&m, PARTY_THREAD, names[i]);
    }
    sum = have_rounds(parties, 2 * PAIRS, &plan, party_start_rounds);
    cr_assert_eq(sum.rounds, PAIRS * plan.goal);
    cr_assert_gt(sum.crossings, LEAST_CROSSINGS(goal));
    for (size_t i = 0; i < PAIRS; i++) {
        cr_assert_eq(rounds_count(m.probe, names[i]), plan.goal, "updates were lost");
        free(names[i]);
    }
    meeting_close(&m);
}

void check_mixed(const char *type, int64_t goal)
{
    const struct rounds_plan plan = {.goal = goal, .streak = 20, .lease_ms = MIXED_LEASE_MS, .bound_ms = PATIENT_MS};
    struct meeting m;
    struct party *parties[CROWD];
    struct rounds_done sum;

    open_for_rounds(&m, type);
    gather_crowd(&m, parties);
    sum = have_rounds(parties, CROWD, &plan, party_start_mixed);
    cr_assert_geq(sum.rounds, goal);
    cr_assert_gt(mixed_writes(m.probe, NAME), goal / 4, "updates were lost");
    cr_assert_gt(sum.crossings, LEAST_CROSSINGS(goal));
    meeting_close(&m);
}
