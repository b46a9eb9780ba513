/* SPDX-License-Identifier: MIT */
#include "tests/script/enumerate_multi.h"

#include "core/base/clock.h"
#include "locks/composite/plan.h"
#include "tests/script/images.h"
#include "tests/support/wait.h"

#include <string.h>

#define QUEUE_MAX 4
#define LEASE 9

/* All members are bytes, and what is unused is 0: states are compared as bytes. */

enum { NOTHING, TAKE, RELEASE };

struct command {
    uint8_t kind;
    uint8_t number;
};

enum { AWAKE, WAITS, SLEEPS }; /* refused, it answers; it goes to sleep; it has */

struct part {
    uint8_t state; /* as struct rdl__member has it, like the next */
    uint8_t given_up;
    uint8_t number;
    uint8_t rest;
    uint8_t canceled;
    uint8_t lost; /* its lease has ended, and it has not been asked for since */
    uint8_t queued;
    struct command queue[QUEUE_MAX];
};

struct party {
    uint8_t begun;
    uint8_t ended; /* it has given everything back, or was told to stop */
    uint8_t phase; /* as struct rdl__plan has it, like the next three */
    uint8_t out;
    uint8_t at;
    uint8_t failed;
    uint8_t pauses; /* its timer is set */
    uint8_t drawn;  /* the last n */
    struct part parts[MULTI_NAMES];
};

struct state {
    uint8_t image[MULTI_NAMES][4];
    uint8_t stops;
    uint8_t faults;
    struct party parties[MULTI_PARTIES];
};

struct world {
    const struct multi_scenario *scenario;
    struct images *images;
};

/* ---- names ------------------------------------------------------------------------------------------------------ */

static unsigned parts_of(const struct world *w, size_t i)
{
    return (unsigned)strlen(w->scenario->parties[i]);
}

static size_t name_of(const struct world *w, size_t i, size_t part)
{
    return (size_t)(w->scenario->parties[i][part] - 'x');
}

static uint32_t image_of(const struct state *s, size_t name)
{
    uint32_t image;

    memcpy(&image, s->image[name], sizeof image);
    return image;
}

static bool is_held(const struct world *w, const struct state *s, size_t i, size_t part)
{
    return (image_holds(w->images, image_of(s, name_of(w, i, part))) &
            hold_bit((unsigned)i, LOCK_ONE, s->parties[i].parts[part].number)) != 0;
}

static bool is_free(const struct world *w, const struct state *s, size_t name)
{
    return image_holds(w->images, image_of(s, name)) == 0;
}

static enum lock_outcome run(const struct world *w, struct state *s, size_t i, size_t part, struct command c)
{
    size_t name = name_of(w, i, part);
    struct image_command command = {.verb = c.kind == TAKE ? LOCK_TAKE : LOCK_RELEASE,
                                    .holder = (uint8_t)i,
                                    .number = c.number,
                                    .count = c.kind == TAKE,
                                    .lease = LEASE};
    struct effect effect = image_apply(w->images, image_of(s, name), &command);

    memcpy(s->image[name], &effect.image, sizeof effect.image);
    return effect.outcome;
}

/* ---- the product's machine -------------------------------------------------------------------------------------- */

static void send(struct part *part, uint8_t kind, uint8_t number)
{
    if (part->queued == QUEUE_MAX)
        die("enumeration: more than %d requests for a part", QUEUE_MAX);
    part->queue[part->queued++] = (struct command){.kind = kind, .number = number};
}

static void carry_out(struct party *p, struct part *part, unsigned order)
{
    switch (order) {
    case RDL__MEMBER_TRY:
    case RDL__MEMBER_WAIT:
        part->number = ++p->drawn;
        part->rest = order == RDL__MEMBER_WAIT ? WAITS : AWAKE;
        part->canceled = 0;
        part->lost = 0;
        send(part, TAKE, part->number);
        break;
    case RDL__MEMBER_RELEASE:
        send(part, RELEASE, part->number);
        break;
    case RDL__MEMBER_CANCEL:
        part->canceled = 1;
        break;
    default:
        break;
    }
}

/* Does it know that it has lost a part of what it has taken? */
static bool has_lost(const struct world *w, const struct party *p)
{
    bool lost = false;

    for (size_t k = 0; k < MULTI_NAMES; k++)
        lost = lost || (p->parts[k].lost && p->parts[k].state == RDL__MEMBER_TAKEN);
    return lost && !w->scenario->blind;
}

static void give_back(const struct world *w, struct party *p, size_t i)
{
    for (size_t k = 0; k < parts_of(w, i); k++) {
        p->parts[k].state = RDL__MEMBER_FREE;
        send(&p->parts[k], RELEASE, p->parts[k].number);
    }
}

static void feed(const struct world *w, struct state *t, size_t i, struct rdl__plan_event ev)
{
    struct party *p = &t->parties[i];
    struct rdl__member parts[MULTI_NAMES] = {{0}};
    struct rdl__plan plan = {
        .member = parts,
        .n = parts_of(w, i),
        .quorum = parts_of(w, i),
        .renewed = true,
        .deadline = RDL__NEVER,
        .most_hold_ms = 1000,
        .retry = {.kind = RDL_RETRY_FIXED, .min_ms = 1, .max_ms = 1},
        .phase = (enum rdl__plan_phase)p->phase,
        .out = p->out,
        .at = p->at,
        .wake_at = p->pauses ? 1 : RDL__NEVER,
    };

    for (size_t k = 0; k < plan.n; k++)
        parts[k] = (struct rdl__member){
            .state = p->parts[k].state, .given_up = p->parts[k].given_up != 0, .until = RDL__NEVER};
    rdl__multi_ops.on(&plan, &ev);
    p->phase = (uint8_t)plan.phase;
    p->out = (uint8_t)plan.out;
    p->at = plan.phase == RDL__PLAN_WAIT ? (uint8_t)plan.at : 0;
    p->pauses = plan.wake_at != RDL__NEVER;
    p->failed = plan.phase == RDL__PLAN_DONE && (p->failed || plan.rc < 0);
    for (size_t k = 0; k < plan.n; k++) {
        p->parts[k].state = parts[k].state;
        p->parts[k].given_up = parts[k].given_up;
        carry_out(p, &p->parts[k], parts[k].order);
    }
    if (p->phase == RDL__PLAN_DONE && !p->failed && has_lost(w, p)) { /* composite/take.c, still_held */
        p->failed = 1;
        give_back(w, p, i);
    }
}

static void answer(const struct world *w, struct state *t, size_t i, size_t part, int code)
{
    t->parties[i].parts[part].rest = AWAKE;
    t->parties[i].parts[part].canceled = 0;
    feed(w, t, i,
         (struct rdl__plan_event){.kind = RDL__PLAN_ANSWER,
                                  .member = (unsigned)part,
                                  .code = code,
                                  .until = code == RDL_OK ? RDL__NEVER : 0});
}

static void shift(struct part *part)
{
    part->queued--;
    memmove(&part->queue[0], &part->queue[1], part->queued * sizeof part->queue[0]);
    part->queue[part->queued] = (struct command){0};
}

/* The call for a part ends, and nobody knows with what: its undo is next. */
static void leave_unknown(const struct world *w, struct state *t, size_t i, size_t k)
{
    struct part *part = &t->parties[i].parts[k];

    if (!w->scenario->no_undo)
        send(part, RELEASE, part->number);
    answer(w, t, i, k, RDL_EUNKNOWN);
}

/* ---- what can happen -------------------------------------------------------------------------------------------- */

/* The server runs the next request for the part. */
static void expand_server(const struct world *w, const struct state *s, size_t i, size_t k, struct search *search)
{
    struct state t = *s;
    struct part *part = &t.parties[i].parts[k];
    struct command c = part->queue[0];
    enum lock_outcome outcome;

    shift(part);
    outcome = run(w, &t, i, k, c);
    if (c.kind == TAKE && (outcome == LOCK_TAKEN || outcome == LOCK_HELD_ALREADY))
        answer(w, &t, i, k, RDL_OK);
    else if (c.kind == TAKE && part->rest == WAITS)
        part->rest = SLEEPS;
    else if (c.kind == TAKE)
        answer(w, &t, i, k, RDL_ETIMEDOUT);
    search_reach(search, &t, "server %c: %s of %c, %s", w->scenario->parties[i][k], c.kind == TAKE ? "take" : "release",
                 (char)('A' + i), outcome == LOCK_REFUSED || outcome == LOCK_NO_SUCH_HOLD ? "no" : "done");
}

/* The next request for the part, or its answer, is lost. */
static void expand_loss(const struct world *w, const struct state *s, size_t i, size_t k, struct search *search)
{
    struct command c = s->parties[i].parts[k].queue[0];
    const char *what = c.kind == TAKE ? "take" : "release";
    struct state t = *s;

    t.faults--;
    (void)run(w, &t, i, k, c);
    search_reach(search, &t, "server %c: %s of %c; the answer is lost, it is sent again", w->scenario->parties[i][k],
                 what, (char)('A' + i));
    if (c.kind != TAKE || s->parties[i].parts[k].queued > 1) /* one call for a part at a time */
        return;
    shift(&t.parties[i].parts[k]);
    leave_unknown(w, &t, i, k);
    search_reach(search, &t, "server %c: take of %c; the answer is lost, and nobody asks again",
                 w->scenario->parties[i][k], (char)('A' + i));
    t = *s;
    t.faults--;
    shift(&t.parties[i].parts[k]);
    leave_unknown(w, &t, i, k);
    search_reach(search, &t, "server %c: take of %c is lost, and nobody asks again", w->scenario->parties[i][k],
                 (char)('A' + i));
}

/* The lease of a part ends: no renewal came through. */
static void expand_lease(const struct world *w, const struct state *s, size_t i, size_t k, struct search *search)
{
    struct state t = *s;
    struct part *part = &t.parties[i].parts[k];

    if (part->state != RDL__MEMBER_TAKEN || part->lost || !is_held(w, s, i, k))
        return;
    t.faults--;
    part->lost = 1;
    (void)run(w, &t, i, k, (struct command){.kind = RELEASE, .number = part->number});
    search_reach(search, &t, "%c's lease of %c ends", (char)('A' + i), w->scenario->parties[i][k]);
}

/* Who sleeps is canceled, or looks when the part is free. */
static void expand_sleeper(const struct world *w, const struct state *s, size_t i, size_t k, struct search *search)
{
    struct state t = *s;
    const struct part *part = &s->parties[i].parts[k];

    if (part->canceled) {
        answer(w, &t, i, k, RDL_ECANCELED);
        search_reach(search, &t, "%c waits for %c no longer", (char)('A' + i), w->scenario->parties[i][k]);
    } else if (is_free(w, s, name_of(w, i, k))) {
        (void)run(w, &t, i, k, (struct command){.kind = TAKE, .number = part->number});
        if (s->faults > 0) {
            struct state u = t;

            u.faults--;
            leave_unknown(w, &u, i, k);
            search_reach(search, &u, "%c is woken and takes %c; the answer is lost, and nobody asks again",
                         (char)('A' + i), w->scenario->parties[i][k]);
        }
        answer(w, &t, i, k, RDL_OK);
        search_reach(search, &t, "%c is woken and takes %c", (char)('A' + i), w->scenario->parties[i][k]);
    }
}

static bool has_all(const struct party *p)
{
    return p->begun && !p->ended && p->phase == RDL__PLAN_DONE && !p->failed;
}

static bool is_under_way(const struct party *p)
{
    return p->begun && !p->ended && p->phase != RDL__PLAN_DONE;
}

static void expand_party(const struct world *w, const struct state *s, size_t i, struct search *search)
{
    const struct party *p = &s->parties[i];
    struct state t = *s;

    if (!p->begun) {
        t.parties[i].begun = 1;
        feed(w, &t, i, (struct rdl__plan_event){.kind = RDL__PLAN_START});
        search_reach(search, &t, "%c begins", (char)('A' + i));
    } else if (has_all(p)) {
        t.parties[i].ended = 1;
        give_back(w, &t.parties[i], i);
        search_reach(search, &t, "%c gives back", (char)('A' + i));
    } else if (is_under_way(p) && s->stops > 0) {
        t.stops--;
        feed(w, &t, i, (struct rdl__plan_event){.kind = RDL__PLAN_STOP, .code = RDL_ECANCELED});
        t.parties[i].ended = 1;
        search_reach(search, &t, "%c is told to stop", (char)('A' + i));
    }
    if (is_under_way(p) && p->pauses && w->scenario->pauses_end) {
        t = *s;
        feed(w, &t, i, (struct rdl__plan_event){.kind = RDL__PLAN_TIMER});
        search_reach(search, &t, "%c has held for long enough", (char)('A' + i));
    }
}

/* A round draws a number for each part; without enough of them the search does not go on. */
static bool is_at_its_end(const struct party *p)
{
    return p->drawn + MULTI_NAMES >= NUMBERS_MAX;
}

static void expand(void *arg, const void *bytes, struct search *search)
{
    const struct world *w = arg;
    struct state s;

    memcpy(&s, bytes, sizeof s);
    for (size_t i = 0; i < MULTI_PARTIES; i++)
        if (w->scenario->parties[i] != NULL && is_at_its_end(&s.parties[i]))
            return;
    for (size_t i = 0; i < MULTI_PARTIES && w->scenario->parties[i] != NULL; i++) {
        expand_party(w, &s, i, search);
        for (size_t k = 0; k < parts_of(w, i); k++) {
            if (s.parties[i].parts[k].queued > 0)
                expand_server(w, &s, i, k, search);
            else if (s.parties[i].parts[k].rest == SLEEPS)
                expand_sleeper(w, &s, i, k, search);
            if (s.faults > 0 && s.parties[i].parts[k].queued > 0)
                expand_loss(w, &s, i, k, search);
            else if (s.faults > 0)
                expand_lease(w, &s, i, k, search);
        }
    }
}

/* ---- what must not be ------------------------------------------------------------------------------------------- */

/* Nobody has anything on its way, and nothing that is waited for is free. */
static bool can_step(const struct world *w, const struct state *s, size_t i)
{
    const struct party *p = &s->parties[i];

    if (!p->begun || has_all(p) || (is_under_way(p) && p->pauses && w->scenario->pauses_end))
        return true;
    for (size_t k = 0; k < parts_of(w, i); k++)
        if (p->parts[k].queued > 0 ||
            (p->parts[k].rest == SLEEPS && (p->parts[k].canceled || is_free(w, s, name_of(w, i, k)))))
            return true;
    return false;
}

static const char *wrong_of(const struct world *w, const struct state *s, size_t i, unsigned *taken)
{
    const struct party *p = &s->parties[i];
    unsigned mine = 0;

    for (size_t k = 0; k < parts_of(w, i); k++) {
        const struct part *part = &p->parts[k];

        mine |= 1u << name_of(w, i, k);
        if (has_all(p) && !has_lost(w, p) && !is_held(w, s, i, k))
            return "GONE";
        if (part->state != RDL__MEMBER_TAKEN && part->queued == 0 && part->rest == AWAKE && part->number > 0 &&
            is_held(w, s, i, k))
            return "ZOMBIE";
    }
    if (!has_all(p) || has_lost(w, p))
        return NULL;
    if ((*taken & mine) != 0)
        return "BOTH";
    *taken |= mine;
    return NULL;
}

static const char *wrong(void *arg, const void *bytes)
{
    const struct world *w = arg;
    struct state s;
    unsigned taken = 0;
    bool steps = false, wanted = false;
    const char *verdict = NULL;

    memcpy(&s, bytes, sizeof s);
    for (size_t i = 0; i < MULTI_PARTIES && w->scenario->parties[i] != NULL && verdict == NULL; i++) {
        verdict = wrong_of(w, &s, i, &taken);
        steps = steps || can_step(w, &s, i);
        wanted = wanted || is_under_way(&s.parties[i]);
    }
    return verdict != NULL ? verdict : wanted && !steps ? "STUCK" : NULL;
}

static void first_state(void *arg, void *ret)
{
    const struct world *w = arg;
    struct state s = {.stops = (uint8_t)w->scenario->stops, .faults = (uint8_t)w->scenario->faults};

    memcpy(ret, &s, sizeof s);
}

struct search_result enumerate_multi(const struct multi_scenario *scenario, size_t limit)
{
    static const char *const as_it_is[LOCK_VERBS] = {NULL};
    struct world w = {.scenario = scenario, .images = images_open(&reentrant_type, as_it_is)};
    struct search_model model = {
        .state_size = sizeof(struct state), .world = &w, .first = first_state, .expand = expand, .wrong = wrong};
    struct search_result result = search_run(&model, limit);

    images_close(w.images);
    return result;
}
