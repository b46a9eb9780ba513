/* SPDX-License-Identifier: MIT */
#include "tools/exporter/census.h"

#include "tools/exporter/exposition.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- kept ------------------------------------------------------------------------------------------------------- */

static void count_kind(struct census *c, const rdl_inspection_t *lock)
{
    size_t i = 0;

    while (i < c->kind_count &&
           (strcmp(c->kinds[i].type, lock->type) != 0 || strcmp(c->kinds[i].state, lock->state) != 0))
        i++;
    if (i == sizeof c->kinds / sizeof *c->kinds)
        return;
    if (i == c->kind_count)
        c->kinds[c->kind_count++] = (struct census_kind){.type = lock->type, .state = lock->state};
    c->kinds[i].count++;
}

static uint64_t hash(const char *text)
{
    uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */

    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return h;
}

static int by_label(const void *a, const void *b)
{
    return strcmp(((const struct census_lock *)a)->label, ((const struct census_lock *)b)->label);
}

/* Since when the holder has been seen with the lock. */
static int64_t seen_since(const struct census_lock *before, uint64_t owner, int64_t now_ms)
{
    for (size_t i = 0; before != NULL && i < before->holder_count; i++)
        if (before->holder[i].owner == owner)
            return before->holder[i].since_ms;
    return now_ms;
}

/* Fill in holders and for how long the oldest of them has held it. False without memory. */
static bool add_holders(struct census_lock *to, const rdl_inspection_t *lock, const struct census *before,
                        int64_t now_ms)
{
    const struct census_lock *same = NULL;

    if (before != NULL && before->count > 0)
        same = bsearch(to, before->locks, before->count, sizeof *to, by_label);
    to->held_ms = -1;
    if (lock->holder_count > 0 && (to->holder = calloc(lock->holder_count, sizeof *to->holder)) == NULL)
        return false;
    for (size_t i = 0; i < lock->holder_count; i++) {
        uint64_t owner = hash(lock->holder[i].owner);
        int64_t since = seen_since(same, owner, now_ms);
        int64_t held = lock->holder[i].since_ms > 0 ? lock->now_ms - lock->holder[i].since_ms : now_ms - since;

        to->holder[to->holder_count++] = (struct census_holder){.owner = owner, .since_ms = since};
        if (held > to->held_ms)
            to->held_ms = held > 0 ? held : 0;
    }
    return true;
}

/* NULL without memory; owned by the caller. */
static char *label_of(const rdl_inspection_t *lock)
{
    char *label = NULL;
    size_t len;
    FILE *to = open_memstream(&label, &len);

    if (to == NULL)
        return NULL;
    exposition_label(to, lock->name, lock->name_len);
    if (fclose(to) == 0)
        return label;
    free(label);
    return NULL;
}

static bool grow(struct census *c)
{
    size_t room = c->room > 0 ? 2 * c->room : 64;
    struct census_lock *locks = c->count < c->room ? c->locks : reallocarray(c->locks, room, sizeof *locks);

    if (locks == NULL)
        return false;
    if (c->count == c->room)
        c->room = room;
    c->locks = locks;
    return true;
}

bool census_add(struct census *c, const rdl_inspection_t *lock, int64_t now_ms)
{
    struct census_lock *to;

    count_kind(c, lock);
    if (c->count >= c->most || lock->name_len > CENSUS_NAME_MAX) {
        c->left_out++;
        return true;
    }
    if (!grow(c))
        return false;
    to = &c->locks[c->count];
    *to = (struct census_lock){
        .label = label_of(lock),
        .type = lock->type,
        .holders = lock->holders,
        .waiters = lock->waiters,
        .ttl_ms = lock->ttl_ms,
    };
    if (to->label == NULL)
        return false;
    c->count++;
    return add_holders(to, lock, c->before, now_ms);
}

void census_end(struct census *c)
{
    c->before = NULL;
    if (c->count > 0)
        qsort(c->locks, c->count, sizeof *c->locks, by_label);
}

void census_done(struct census *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->locks[i].label);
        free(c->locks[i].holder);
    }
    free(c->locks);
}

/* ---- shown ------------------------------------------------------------------------------------------------------ */

static int64_t holders(const struct census_lock *lock)
{
    return lock->holders;
}

static int64_t waiters(const struct census_lock *lock)
{
    return lock->waiters;
}

static int64_t ttl(const struct census_lock *lock)
{
    return lock->ttl_ms;
}

static int64_t held(const struct census_lock *lock)
{
    return lock->held_ms;
}

static const struct metric {
    const char *name, *help;
    int64_t (*value)(const struct census_lock *); /* negative: not known */
    bool is_time;
} metrics[] = {
    {"redlatch_lock_holders", "How many hold the lock.", holders, false},
    {"redlatch_lock_waiters", "How many wait for it.", waiters, false},
    {"redlatch_lock_ttl_seconds", "When its key goes unless it is renewed.", ttl, true},
    {"redlatch_lock_held_seconds", "For how long its oldest holder has had it, or at least has been seen with it.",
     held, true},
};

static void print_metric(FILE *out, const struct census *c, const struct metric *metric)
{
    exposition_head(out, metric->name, metric->help);
    for (size_t i = 0; i < c->count; i++) {
        int64_t value = metric->value(&c->locks[i]);

        if (value < 0)
            continue;
        fprintf(out, "%s{lock=\"%s\",type=\"%s\"} ", metric->name, c->locks[i].label, c->locks[i].type);
        if (metric->is_time)
            exposition_seconds(out, value);
        else
            fprintf(out, "%" PRId64, value);
        fputc('\n', out);
    }
}

void census_print(FILE *out, const struct census *c)
{
    exposition_head(out, "redlatch_locks", "How many locks, semaphores and latches there are.");
    for (size_t i = 0; i < c->kind_count; i++)
        fprintf(out, "redlatch_locks{type=\"%s\",state=\"%s\"} %" PRId64 "\n", c->kinds[i].type, c->kinds[i].state,
                c->kinds[i].count);
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        print_metric(out, c, &metrics[i]);
    exposition_head(out, "redlatch_lock_left_out", "How many of them are told by redlatch_locks alone.");
    fprintf(out, "redlatch_lock_left_out %" PRId64 "\n", c->left_out);
}
