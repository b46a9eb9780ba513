/* SPDX-License-Identifier: MIT */
#include "tests/script/search.h"
#include "tests/script/keyspace.h"
#include "tests/support/wait.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 4096 /* a power of two */

/* How a state was first reached. */
struct node {
    uint32_t parent;
    uint32_t way; /* which call of search_reach in the parent's expansion */
};

/* The states of one level, one after the other, and the nodes that they belong to. */
struct level {
    struct bytes states;
    struct bytes nodes; /* uint32_t each */
};

/* A state that was reached and is not looked at yet. */
struct reached {
    uint64_t print;
    struct node node;
    void *state;
};

/* So many wait, while the memory is fetched in which each will be looked up. */
#define REACHED_MAX 16

struct search {
    const struct search_model *model;
    size_t limit;
    uint64_t *slots; /* fingerprints; 0 is an empty slot */
    size_t slot_count;
    struct node *nodes;
    size_t node_count;
    size_t node_cap;
    struct level next;
    uint32_t parent; /* being expanded, */
    uint32_t way;    /* and how many ways it has shown */
    struct reached reached[REACHED_MAX];
    size_t reached_first; /* counts on; the next to be looked at, */
    size_t reached_end;   /* and where the next goes */
    const char *verdict;

    /* Walking again: of the state being expanded only the way `wanted` counts. */
    bool walking;
    uint32_t wanted;
    void *walked;
    struct bytes schedule;
};

static uint64_t fingerprint(const struct search *s, const void *state)
{
    uint64_t print = ks_hash(state, s->model->state_size);

    return print != 0 ? print : 1;
}

static size_t home_of(const struct search *s, uint64_t print)
{
    return (size_t)(print ^ print >> 32) & (s->slot_count - 1);
}

static uint64_t *slot_of(const struct search *s, uint64_t print)
{
    size_t at = home_of(s, print);

    while (s->slots[at] != 0 && s->slots[at] != print)
        at = (at + 1) & (s->slot_count - 1);
    return &s->slots[at];
}

static void grow_slots(struct search *s)
{
    uint64_t *old = s->slots;
    size_t old_count = s->slot_count;

    s->slot_count *= 2;
    s->slots = must_alloc(s->slot_count * sizeof *s->slots);
    for (size_t i = 0; i < old_count; i++)
        if (old[i] != 0)
            *slot_of(s, old[i]) = old[i];
    free(old);
}

/* False: it has been seen before. */
static bool note_state(struct search *s, const struct reached *reached)
{
    uint64_t *slot = slot_of(s, reached->print);

    if (*slot != 0)
        return false;
    *slot = reached->print;
    if (s->node_count == s->node_cap) {
        s->node_cap = s->node_cap == 0 ? FIRST_SLOTS : s->node_cap * 2;
        s->nodes = must_realloc(s->nodes, s->node_cap * sizeof *s->nodes);
    }
    s->nodes[s->node_count++] = reached->node;
    if (s->node_count * 3 > s->slot_count * 2)
        grow_slots(s);
    return true;
}

/* A state not seen before is looked at, and expanded in its turn. */
static void look_at_first(struct search *s)
{
    const struct reached *reached = &s->reached[s->reached_first++ % REACHED_MAX];
    uint32_t node;

    if (s->verdict != NULL || !note_state(s, reached))
        return;
    node = (uint32_t)(s->node_count - 1);
    if ((s->verdict = s->model->wrong(s->model->world, reached->state)) != NULL)
        return;
    if (s->node_count >= s->limit) {
        s->verdict = SEARCH_LIMIT;
        return;
    }
    bytes_add(&s->next.states, reached->state, s->model->state_size);
    bytes_add(&s->next.nodes, &node, sizeof node);
}

static void look_at_all(struct search *s)
{
    while (s->reached_first < s->reached_end)
        look_at_first(s);
}

static void take_state(struct search *s, const void *state)
{
    struct reached *reached = &s->reached[s->reached_end % REACHED_MAX];

    if (s->reached_end - s->reached_first == REACHED_MAX)
        look_at_first(s);
    reached->print = fingerprint(s, state);
    reached->node = (struct node){.parent = s->parent, .way = s->way};
    memcpy(reached->state, state, s->model->state_size);
    __builtin_prefetch(&s->slots[home_of(s, reached->print)]);
    s->reached_end++;
}

static void __attribute__((format(printf, 3, 0)))
walk_on(struct search *s, const void *next, const char *format, va_list args)
{
    char line[256];
    int len = vsnprintf(line, sizeof line - 1, format, args);

    if (len > (int)sizeof line - 2)
        len = (int)sizeof line - 2;
    line[len++] = '\n';
    bytes_add(&s->schedule, line, (size_t)len);
    memcpy(s->walked, next, s->model->state_size);
}

bool search_is_read(const struct search *s)
{
    return s->walking && s->way == s->wanted;
}

void search_reach(struct search *s, const void *next, const char *format, ...)
{
    if (!s->walking) {
        take_state(s, next);
    } else if (search_is_read(s)) {
        va_list args;

        va_start(args, format);
        walk_on(s, next, format, args);
        va_end(args);
    }
    s->way++;
}

static void expand_level(struct search *s, const struct level *level)
{
    size_t count = level->nodes.len / sizeof(uint32_t);
    void *state = must_alloc(s->model->state_size);

    for (size_t i = 0; i < count && s->verdict == NULL; i++) {
        memcpy(&s->parent, level->nodes.at + i * sizeof(uint32_t), sizeof(uint32_t));
        memcpy(state, level->states.at + i * s->model->state_size, s->model->state_size);
        s->way = 0;
        s->model->expand(s->model->world, state, s);
    }
    look_at_all(s);
    free(state);
}

static void search_levels(struct search *s)
{
    struct level level = {0};

    while (s->verdict == NULL && s->next.nodes.len > 0) {
        struct level done = level;

        level = s->next;
        s->next = done;
        s->next.states.len = s->next.nodes.len = 0;
        expand_level(s, &level);
    }
    bytes_done(&level.states);
    bytes_done(&level.nodes);
}

/* From the first state to the last one noted, step by step. */
static size_t write_schedule(struct search *s)
{
    uint32_t *ways = must_alloc(s->node_count * sizeof *ways);
    void *state = must_alloc(s->model->state_size);
    size_t steps = 0;

    for (uint32_t node = (uint32_t)s->node_count - 1; node != 0; node = s->nodes[node].parent)
        ways[steps++] = s->nodes[node].way;
    s->walking = true;
    s->walked = must_alloc(s->model->state_size);
    s->model->first(s->model->world, state);
    for (size_t i = steps; i > 0; i--) {
        s->wanted = ways[i - 1];
        s->way = 0;
        s->model->expand(s->model->world, state, s);
        memcpy(state, s->walked, s->model->state_size);
    }
    bytes_add(&s->schedule, "", 1);
    free(s->walked);
    free(state);
    free(ways);
    return steps;
}

struct search_result search_run(const struct search_model *model, size_t limit)
{
    struct search s = {.model = model, .limit = limit, .slot_count = FIRST_SLOTS};
    struct search_result result = {0};
    void *first = must_alloc(model->state_size);

    s.slots = must_alloc(s.slot_count * sizeof *s.slots);
    for (size_t i = 0; i < REACHED_MAX; i++)
        s.reached[i].state = must_alloc(model->state_size);
    model->first(model->world, first);
    take_state(&s, first);
    look_at_all(&s);
    search_levels(&s);
    for (size_t i = 0; i < REACHED_MAX; i++)
        free(s.reached[i].state);
    result.verdict = s.verdict;
    result.states = s.node_count;
    if (s.verdict != NULL && strcmp(s.verdict, SEARCH_LIMIT) != 0) {
        result.steps = write_schedule(&s);
        result.schedule = s.schedule.at;
    }
    bytes_done(&s.next.states);
    bytes_done(&s.next.nodes);
    free(s.slots);
    free(s.nodes);
    free(first);
    return result;
}

void search_done(struct search_result *result)
{
    free(result->schedule);
    *result = (struct search_result){0};
}
