/* SPDX-License-Identifier: MIT */
#include "tests/sim/pct.h"

#include <limits.h>
#include <string.h>

#define MOST_CHANGES 6
#define MOST_LINES 4096
#define WALKS_OF 8        /* one run of so many is a walk */
#define FREEZE_DOUBLES 18 /* of 1 us */

enum change { DEMOTE, FREEZE, FAULT, FAULT_AND_FREEZE };

/* Points, counted: all, outer ones, and those that nobody has met before. */
enum count { ALL, OUTER, FIRST, COUNTS };

#define POINTS_FOR_OUTER 9 /* of so many points one is an outer one */
#define LINES_MET 160      /* in a run, long or short */

static struct {
    const struct pct_hooks *hooks;
    bool armed;
    unsigned met[COUNTS];
    unsigned walk; /* 0, or at one point of so many the thread's urgency is drawn anew */
    int64_t point_ns;
    struct {
        unsigned at;
        enum count of;
        enum change what;
        int64_t ns;
    } changes[MOST_CHANGES];
    unsigned count;
    int64_t demoted;
} pct;

/* Where threads have been in this run. */
static struct {
    uint64_t run;
    struct {
        uint64_t run;
        const char *file;
        int line;
    } at[MOST_LINES];
} lines;

/* Has nobody been there before? */
static bool is_first(const struct point *at)
{
    size_t i = (size_t)at->line % MOST_LINES;

    while (lines.at[i].run == lines.run) {
        if (lines.at[i].line == at->line && strcmp(lines.at[i].file, at->file) == 0)
            return false;
        i = (i + 1) % MOST_LINES;
    }
    lines.at[i].run = lines.run;
    lines.at[i].file = at->file;
    lines.at[i].line = at->line;
    return true;
}

static const char *const names[] = {"becomes the least urgent", "stands still", "sees a fault",
                                    "sees a fault and stands still"};

static void demote(struct fibre *f)
{
    thread_urgency(f, MOST_CHANGES - ++pct.demoted);
}

static void stand_still(int64_t ns)
{
    pct.hooks->freezes(process_here(), ns);
    thread_freeze(ns);
}

static void change(unsigned i, const struct point *at)
{
    enum change change = pct.changes[i].what;
    int64_t ns = pct.changes[i].ns;

    say("thread %u %s (%.3f ms) at point %u: %s, %s:%d", thread_number(thread_here()), names[change],
        (double)ns / (double)RDL__MS, pct.met[ALL], at->what, at->file, at->line);
    pct.changes[i].at = UINT_MAX;
    if (change == DEMOTE)
        demote(thread_here());
    if (change == FAULT || change == FAULT_AND_FREEZE)
        pct.hooks->fault();
    if (change == FREEZE || change == FAULT_AND_FREEZE)
        stand_still(ns);
}

static void at_point(const struct point *at)
{
    if (!pct.armed)
        return;
    pct.met[ALL]++;
    pct.met[OUTER] += at->outer;
    pct.met[FIRST] += is_first(at);
    world_pass(pct.point_ns);
    if (pct.walk > 0 && chance(1, pct.walk))
        thread_urgency(thread_here(), MOST_CHANGES + draw_from(0, INT32_MAX));
    for (unsigned i = 0; i < pct.count; i++)
        if (pct.met[pct.changes[i].of] >= pct.changes[i].at)
            change(i, at);
    if (!thread_is_pressed())
        return;
    say("thread %u gives way at point %u: %s, %s:%d", thread_number(thread_here()), pct.met[ALL], at->what, at->file,
        at->line);
    thread_give_way();
}

static void draw_changes(unsigned points)
{
    const unsigned most[COUNTS] = {[ALL] = points, [OUTER] = points / POINTS_FOR_OUTER, [FIRST] = LINES_MET};
    static const enum change whats[] = {DEMOTE, FREEZE, FREEZE,           FREEZE,
                                        FREEZE, FAULT,  FAULT_AND_FREEZE, FAULT_AND_FREEZE};

    pct.count = 1 + (unsigned)draw(MOST_CHANGES);
    for (unsigned i = 0; i < pct.count; i++) {
        int64_t least = RDL__US << draw(FREEZE_DOUBLES);

        pct.changes[i].ns = draw_from(least, 2 * least);
        pct.changes[i].of = (enum count)draw(COUNTS);
        pct.changes[i].at = 1 + (unsigned)draw(most[pct.changes[i].of]);
        pct.changes[i].what = whats[draw(sizeof whats / sizeof whats[0])];
    }
}

void pct_begin(unsigned points, const struct pct_hooks *hooks)
{
    static const int64_t costs_ns[] = {20, 200, 1000};

    pct = (typeof(pct)){.hooks = hooks};
    lines.run++;
    pct.point_ns = costs_ns[draw(3)];
    if (chance(1, WALKS_OF))
        pct.walk = 2U << draw(7);
    draw_changes(points);
    world_on_point(at_point);
}

void pct_arm(bool on)
{
    pct.armed = on;
}

unsigned pct_points(void)
{
    return pct.met[ALL];
}
