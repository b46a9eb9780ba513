/* SPDX-License-Identifier: MIT */
/* replay.c - a ring of entries, and a window of repeats.
 *
 * Entries are numbered as they are noted; the ring holds those from `first` up to `next`, and grows by doubling. The
 * oldest are dropped when their time is over or the ring is full. During a repetition the entries from `cursor` up to
 * `last` are still to be repeated, at most WINDOW at a time so that other commands get in between. A second failover
 * during a repetition begins it anew; the lane repeats requests that are under way then.
 */
#include "core/service/replay.h"

#include <string.h>

#define WINDOW 32
#define FIRST_ROOM 64

struct repeat {
    struct rdl__req req;
    struct rdl__replay *replay;
    struct rdl__replay_entry entry;
    struct rdl__link free;
};

struct rdl__replay {
    const struct rdl__mem *mem;
    struct rdl__lane *lane;

    /* any thread, under mu */
    struct rdl__mutex mu;
    struct rdl__replay_entry *ring;
    uint64_t room; /* a power of two; 0: none yet */
    uint64_t first, next;

    /* loop thread only */
    uint64_t cursor, last;
    struct rdl__link free; /* repeats */
    struct repeat repeats[WINDOW];
};

static struct rdl__replay_entry *at(const struct rdl__replay *replay, uint64_t number)
{
    return &replay->ring[number & (replay->room - 1)];
}

static bool has_room(const struct rdl__replay *replay)
{
    return replay->next - replay->first < replay->room;
}

/* Room for one more entry, if memory and RDL__REPLAY_MAX allow.  @locks mu */
static void grow(struct rdl__replay *replay)
{
    uint64_t room = replay->room == 0 ? FIRST_ROOM : 2 * replay->room;
    struct rdl__replay_entry *ring;

    rdl__assert_locked(&replay->mu);
    if (has_room(replay) || room > RDL__REPLAY_MAX || (ring = rdl__alloc(replay->mem, room * sizeof *ring)) == NULL)
        return;
    for (uint64_t i = replay->first; i != replay->next; i++)
        ring[i & (room - 1)] = *at(replay, i);
    rdl__free(replay->mem, replay->ring, replay->room * sizeof *replay->ring);
    replay->ring = ring;
    replay->room = room;
}

/* Take the oldest entry out, if its time is over or its place is needed. False: it stays.  @locks mu */
static bool take_oldest(struct rdl__replay *replay, bool place_wanted, int64_t now, struct rdl__replay_entry *ret)
{
    rdl__assert_locked(&replay->mu);
    if (replay->first == replay->next || (at(replay, replay->first)->until > now && !place_wanted))
        return false;
    *ret = *at(replay, replay->first++);
    return true;
}

void rdl__replay_note(struct rdl__replay *replay, const struct rdl__replay_entry *entry, int64_t now)
{
    struct rdl__replay_entry old;
    bool more = true, noted = false;

    entry->ops->keep(entry);
    while (more) {
        rdl__mutex_lock(&replay->mu);
        if (!noted)
            grow(replay);
        more = take_oldest(replay, !noted && !has_room(replay), now, &old);
        if (!noted && has_room(replay)) {
            *at(replay, replay->next++) = *entry;
            noted = true;
        }
        rdl__mutex_unlock(&replay->mu);
        if (more)
            old.ops->drop(&old);
    }
    if (!noted)
        entry->ops->drop(entry);
}

/* The next entry to be repeated, with a reference. False: none is left. */
static bool next_entry(struct rdl__replay *replay, int64_t now, struct rdl__replay_entry *ret)
{
    bool found = false;

    rdl__mutex_lock(&replay->mu);
    if (replay->cursor < replay->first)
        replay->cursor = replay->first;
    while (!found && replay->cursor < replay->last) {
        *ret = *at(replay, replay->cursor++);
        found = ret->until > now;
    }
    if (found)
        ret->ops->keep(ret);
    rdl__mutex_unlock(&replay->mu);
    return found;
}

static void encode_repeat(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    const struct rdl__replay_entry *entry = &rdl__container(req, struct repeat, req)->entry;

    entry->ops->encode(entry, to, eval);
}

/* The answer does not matter: it was done now or before, or cannot be. */
static void decode_repeat(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    (void)req;
    (void)reply;
    (void)now;
}

static void pump(struct rdl__replay *replay, int64_t now);

static void done_repeat(struct rdl__req *req, int64_t now)
{
    struct repeat *r = rdl__container(req, struct repeat, req);

    r->entry.ops->drop(&r->entry);
    rdl__list_push_back(&r->replay->free, &r->free);
    if (req->rc == RDL_OK)
        pump(r->replay, now);
}

static const struct rdl__req_ops repeat_ops = {.encode = encode_repeat, .decode = decode_repeat, .done = done_repeat};

static void pump(struct rdl__replay *replay, int64_t now)
{
    struct rdl__link *l;
    struct rdl__replay_entry entry;

    while ((l = rdl__list_first(&replay->free)) != NULL && next_entry(replay, now, &entry)) {
        struct repeat *r = rdl__container(l, struct repeat, free);

        rdl__list_remove(l);
        r->entry = entry;
        rdl__req_init(&r->req, &repeat_ops);
        rdl__lane_submit(replay->lane, &r->req);
    }
}

void rdl__replay_repeat(struct rdl__replay *replay, int64_t now)
{
    rdl__mutex_lock(&replay->mu);
    replay->cursor = replay->first;
    replay->last = replay->next;
    rdl__mutex_unlock(&replay->mu);
    pump(replay, now);
}

void rdl__replay_forget(struct rdl__replay *replay)
{
    struct rdl__replay_entry old;
    bool more = true;

    while (more) {
        rdl__mutex_lock(&replay->mu);
        more = take_oldest(replay, true, 0, &old);
        rdl__mutex_unlock(&replay->mu);
        if (more)
            old.ops->drop(&old);
    }
}

struct rdl__replay *rdl__replay_new(const struct rdl__mem *mem, struct rdl__lane *lane)
{
    struct rdl__replay *replay = rdl__zalloc(mem, sizeof *replay);

    if (replay == NULL)
        return NULL;
    if (rdl__mutex_init(&replay->mu) < 0) {
        rdl__free(mem, replay, sizeof *replay);
        return NULL;
    }
    replay->mem = mem;
    replay->lane = lane;
    rdl__list_init(&replay->free);
    for (int i = 0; i < WINDOW; i++) {
        replay->repeats[i].replay = replay;
        rdl__list_push_back(&replay->free, &replay->repeats[i].free);
    }
    return replay;
}

struct rdl__replay *rdl__replay_free(struct rdl__replay *replay)
{
    if (replay == NULL)
        return NULL;
    rdl__replay_forget(replay);
    rdl__free(replay->mem, replay->ring, replay->room * sizeof *replay->ring);
    rdl__mutex_done(&replay->mu);
    rdl__free(replay->mem, replay, sizeof *replay);
    return NULL;
}
