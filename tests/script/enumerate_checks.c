/* SPDX-License-Identifier: MIT */
/* enumerate_checks.c - what must not be in any state of an enumerated world (enumerate.h). */
#include "tests/script/enumerate_impl.h"

static bool believes(const struct end *end, unsigned now)
{
    return end->deadline > now && end->count > 0;
}

/* Who believes in what. */
struct beliefs {
    uint64_t holds;
    unsigned owners; /* a bit for each that holds */
    int count;
    bool alone; /* one of them thinks that nobody else does */
};

static void believe(struct beliefs *b, unsigned owner, enum lock_end end, unsigned number)
{
    b->holds |= hold_bit(owner, end, number);
    b->owners |= 1u << owner;
    b->count++;
    b->alone |= end == LOCK_ONE;
}

/* Of a lock that counts. */
static int most(const struct world *w)
{
    return w->scenario->type->most > 0 ? w->scenario->type->most : w->scenario->type->stock;
}

static const char *unsafe(const struct world *w, const struct state *s)
{
    unsigned now = now_of(w, s);
    struct beliefs b = {0};

    if (s->rival_deadline > now)
        believe(&b, RIVAL, w->scenario->rival_end, RIVAL_NUMBER);
    for (unsigned i = 0; i < w->owners; i++)
        for (unsigned end = 0; end < LOCK_ENDS; end++)
            if (believes(&s->owners[i].ends[end], now))
                believe(&b, i, (enum lock_end)end, s->owners[i].ends[end].number);
    if ((b.holds & ~image_holds(w->images, image_of(s))) != 0)
        return "GONE";
    if (w->scenario->type->stock > 0)
        return b.count > most(w) ? "OVER" : NULL;
    return b.alone && (b.owners & (b.owners - 1)) != 0 ? "BOTH" : NULL;
}

/* How many the owner has of a lock that counts, less those that it is giving back. */
static int owned(const struct owner *o)
{
    return o->ends[LOCK_ONE].count - (o->wait.kind == REQUEST_GIVE ? o->wait.count : 0);
}

static bool is_quiet(const struct owner *o)
{
    return o->queued == 0 && !is_waiting(o) && (o->flags & IN_CALL) == 0 && o->pc != PC_UNDO;
}

/* Of a lock that counts: what is left, and what the owners have, is what there is. */
static const char *miscounted(const struct world *w, const struct state *s)
{
    unsigned checks = w->scenario->checks;
    int sum = image_left(w->images, image_of(s));
    bool quiet = true;

    for (unsigned i = 0; i < w->owners; i++) {
        sum += owned(&s->owners[i]);
        quiet = quiet && is_quiet(&s->owners[i]);
    }
    if ((checks & CHECK_SAFETY) != 0 && sum > w->scenario->type->stock)
        return "OVER";
    if (w->scenario->type->bare && !image_has_number(w->images, image_of(s)))
        quiet = false; /* nobody has said yet how many there are */
    return (checks & CHECK_ZOMBIE) != 0 && quiet && sum != w->scenario->type->stock ? "LEAK" : NULL;
}

/* Will the owner still give back what it has, or may have, of the end? */
static bool accounts_for(const struct owner *o, unsigned end)
{
    if ((o->flags & DONE) != 0)
        return false;
    return o->ends[end].count > 0 || (is_waiting(o) && o->wait.end == end) ||
           (((o->flags & IN_CALL) != 0 || o->pc == PC_UNDO) && o->end == end);
}

static const char *zombie(const struct world *w, const struct state *s)
{
    uint64_t accounted = hold_bit(RIVAL, w->scenario->rival_end, RIVAL_NUMBER);
    uint64_t known;

    for (unsigned i = 0; i < w->owners; i++)
        for (unsigned end = 0; end < LOCK_ENDS; end++)
            if (accounts_for(&s->owners[i], end))
                accounted |= hold_bit(i, (enum lock_end)end, s->owners[i].ends[end].number);
    known = image_holds(w->images, image_of(s)) | (w->scenario->type->turns ? 0 : image_places(w->images, image_of(s)));
    return (known & ~accounted) != 0 ? "ZOMBIE" : NULL;
}

/* A place that is its owner's, whatever the number. */
static const char *stray_place(const struct world *w, const struct state *s)
{
    uint64_t places = image_places(w->images, image_of(s));

    for (unsigned i = 0; i < w->owners; i++)
        if ((places & hold_bit(i, LOCK_ONE, 1)) != 0 && is_quiet(&s->owners[i]))
            return "ZOMBIE";
    return NULL;
}

const char *wrong(void *arg, const void *bytes)
{
    const struct world *w = arg;
    const struct state *s = bytes;
    unsigned checks = w->scenario->checks;
    const char *verdict = NULL;

    if (counts(w))
        verdict = miscounted(w, s);
    else if ((checks & CHECK_SAFETY) != 0)
        verdict = unsafe(w, s);
    if (verdict == NULL && !counts(w) && (checks & CHECK_ZOMBIE) != 0)
        verdict = zombie(w, s);
    if (verdict == NULL && w->scenario->type->turns && (checks & CHECK_ZOMBIE) != 0)
        verdict = stray_place(w, s);
    if (verdict == NULL && (checks & CHECK_MODEL) != 0 && s->unlike_model)
        verdict = "MODEL";
    return verdict;
}
