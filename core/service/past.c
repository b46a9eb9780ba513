/* past.c - a ring of deeds, and a window of repeats.
 *
 * Deeds are numbered as they are noted; the ring holds those from `first` up to `next`, and grows by doubling. They go at the
 * front when their time is over or the ring is full. A repetition is a number, `cursor`: everything from there up to `last` is
 * still to be repeated, at most WINDOW at a time so that other commands slip in between. A second failover during a repetition
 * begins it anew; what is on its way then is repeated by the lane.
 */
#include "core/service/past.h"

#include <string.h>

#define WINDOW 32
#define FIRST_ROOM 64

struct repeat {
    struct rdl__req req;
    struct rdl__past *past;
    struct rdl__deed deed;
    struct rdl__link free;
};

struct rdl__past {
    const struct rdl__mem *mem;
    struct rdl__lane *lane;

    /* any thread, under mu */
    struct rdl__mutex mu;
    struct rdl__deed *ring;
    uint64_t room; /* a power of two; 0: none yet */
    uint64_t first, next;

    /* loop thread only */
    uint64_t cursor, last;
    struct rdl__link free; /* repeats */
    struct repeat repeats[WINDOW];
};

static struct rdl__deed *at(const struct rdl__past *past, uint64_t number)
{
    return &past->ring[number & (past->room - 1)];
}

static bool has_room(const struct rdl__past *past)
{
    return past->next - past->first < past->room;
}

/* Room for one more deed, if memory and RDL__PAST_MAX allow.  @locks mu */
static void grow(struct rdl__past *past)
{
    uint64_t room = past->room == 0 ? FIRST_ROOM : 2 * past->room;
    struct rdl__deed *ring;

    rdl__assert_locked(&past->mu);
    if (has_room(past) || room > RDL__PAST_MAX || (ring = rdl__alloc(past->mem, room * sizeof *ring)) == NULL)
        return;
    for (uint64_t i = past->first; i != past->next; i++)
        ring[i & (room - 1)] = *at(past, i);
    rdl__free(past->mem, past->ring, past->room * sizeof *past->ring);
    past->ring = ring;
    past->room = room;
}

/* Take the oldest deed out, if its time is over or its place is wanted. False: it stays.  @locks mu */
static bool take_oldest(struct rdl__past *past, bool place_wanted, int64_t now, struct rdl__deed *ret)
{
    rdl__assert_locked(&past->mu);
    if (past->first == past->next || (at(past, past->first)->until > now && !place_wanted))
        return false;
    *ret = *at(past, past->first++);
    return true;
}

void rdl__past_note(struct rdl__past *past, const struct rdl__deed *deed, int64_t now)
{
    struct rdl__deed old;
    bool more = true, noted = false;

    deed->ops->keep(deed);
    while (more) {
        rdl__mutex_lock(&past->mu);
        if (!noted)
            grow(past);
        more = take_oldest(past, !noted && !has_room(past), now, &old);
        if (!noted && has_room(past)) {
            *at(past, past->next++) = *deed;
            noted = true;
        }
        rdl__mutex_unlock(&past->mu);
        if (more)
            old.ops->drop(&old);
    }
    if (!noted)
        deed->ops->drop(deed);
}

/* The next deed to be repeated, kept for that. False: none is left.  @thread loop */
static bool next_deed(struct rdl__past *past, int64_t now, struct rdl__deed *ret)
{
    bool found = false;

    rdl__mutex_lock(&past->mu);
    if (past->cursor < past->first)
        past->cursor = past->first;
    while (!found && past->cursor < past->last) {
        *ret = *at(past, past->cursor++);
        found = ret->until > now;
    }
    if (found)
        ret->ops->keep(ret);
    rdl__mutex_unlock(&past->mu);
    return found;
}

static void encode_repeat(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    const struct rdl__deed *deed = &rdl__container(req, struct repeat, req)->deed;

    deed->ops->encode(deed, to, eval);
}

/* Whatever the answer: it is done, was done before, or could not be. */
static void decode_repeat(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    (void)req;
    (void)reply;
    (void)now;
}

static void pump(struct rdl__past *past, int64_t now);

static void done_repeat(struct rdl__req *req, int64_t now)
{
    struct repeat *r = rdl__container(req, struct repeat, req);

    r->deed.ops->drop(&r->deed);
    rdl__list_push_back(&r->past->free, &r->free);
    if (req->rc == RDL_OK)
        pump(r->past, now);
}

static const struct rdl__req_ops repeat_ops = {.encode = encode_repeat, .decode = decode_repeat, .done = done_repeat};

static void pump(struct rdl__past *past, int64_t now)
{
    struct rdl__link *l;
    struct rdl__deed deed;

    while ((l = rdl__list_first(&past->free)) != NULL && next_deed(past, now, &deed)) {
        struct repeat *r = rdl__container(l, struct repeat, free);

        rdl__list_remove(l);
        r->deed = deed;
        rdl__req_init(&r->req, &repeat_ops);
        rdl__lane_submit(past->lane, &r->req);
    }
}

void rdl__past_repeat(struct rdl__past *past, int64_t now)
{
    rdl__mutex_lock(&past->mu);
    past->cursor = past->first;
    past->last = past->next;
    rdl__mutex_unlock(&past->mu);
    pump(past, now);
}

void rdl__past_forget(struct rdl__past *past)
{
    struct rdl__deed old;
    bool more = true;

    while (more) {
        rdl__mutex_lock(&past->mu);
        more = take_oldest(past, true, 0, &old);
        rdl__mutex_unlock(&past->mu);
        if (more)
            old.ops->drop(&old);
    }
}

struct rdl__past *rdl__past_new(const struct rdl__mem *mem, struct rdl__lane *lane)
{
    struct rdl__past *past = rdl__zalloc(mem, sizeof *past);

    if (past == NULL)
        return NULL;
    if (rdl__mutex_init(&past->mu) < 0) {
        rdl__free(mem, past, sizeof *past);
        return NULL;
    }
    past->mem = mem;
    past->lane = lane;
    rdl__list_init(&past->free);
    for (int i = 0; i < WINDOW; i++) {
        past->repeats[i].past = past;
        rdl__list_push_back(&past->free, &past->repeats[i].free);
    }
    return past;
}

struct rdl__past *rdl__past_free(struct rdl__past *past)
{
    if (past == NULL)
        return NULL;
    rdl__past_forget(past);
    rdl__free(past->mem, past->ring, past->room * sizeof *past->ring);
    rdl__mutex_done(&past->mu);
    rdl__free(past->mem, past, sizeof *past);
    return NULL;
}
