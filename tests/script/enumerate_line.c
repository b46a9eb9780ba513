/* SPDX-License-Identifier: MIT */
/* enumerate_line.c - see enumerate_line.h: what can happen, one step each, and what must not be. */
#include "tests/script/enumerate_line.h"

#include "core/call/line.h"
#include "core/call/name.h"
#include "tests/support/wait.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define DESCRIPTION 2000

/* ---- states ----------------------------------------------------------------------------------------------------- */

enum java_phase { JAVA_IDLE, JAVA_REFUSED, JAVA_ASLEEP, JAVA_HOLDS };

/* Compared as bytes: what is unused is 0. Only as many clients as there are. */
struct state {
    uint32_t image;
    uint16_t slept_ms; /* beside a free lock */
    uint8_t time_outs, cuts, breaks, given_up, deaths;
    uint8_t java_pc, java_phase;
    uint8_t java_heard;
    uint8_t unused[2];
    struct line_client clients[LINE_CLIENTS];
};

_Static_assert(sizeof(struct line_client) == 20 + LINE_THREADS * 18 + LINE_LANES * LINE_QUEUE * 12 + LINE_MESSAGES,
               "no byte of a state is undefined");

struct world {
    const struct line_scenario *scenario;
    unsigned clients;
    size_t state_size;
    uint16_t java_take, java_release;
    struct state first;
};

/* ---- what can happen -------------------------------------------------------------------------------------------- */

enum event_kind {
    BEGINS, /* a thread's next verb */
    RUNS,   /* the server runs what is first on a connection, */
    RUNS_LATE,
    READS, /* whose answer is read */
    JOINS,
    SUBSCRIBES,
    LISTENS,
    HEARS,
    TIMER,
    JAVA_TAKES,
    JAVA_RELEASES,
    TIMES_OUT, /* faults, from here */
    BREAKS,
    CUT,
    GIVES_UP,
    GIVES_UP_UNSENT,
    DIES,
    DIES_UNSENT,
    LINGERS_NO_MORE, /* when nothing else happens, like the next */
    TIME_PASSES,
    EVENTS,
};

static const char *const event_names[EVENTS] = {
    [BEGINS] = "begins",
    [RUNS] = "the server runs",
    [RUNS_LATE] = "the server runs a moment later",
    [READS] = "reads its answer",
    [JOINS] = "goes to its loop",
    [SUBSCRIBES] = "subscribes to its own channel",
    [LISTENS] = "subscribes to the lock's",
    [HEARS] = "hears",
    [TIMER] = "looks",
    [JAVA_TAKES] = "takes",
    [JAVA_RELEASES] = "gives back",
    [TIMES_OUT] = "gives up waiting",
    [BREAKS] = "sends again what was on a connection that breaks",
    [CUT] = "loses its subscriptions",
    [GIVES_UP] = "gives up its release",
    [GIVES_UP_UNSENT] = "gives up its release, which had no connection",
    [DIES] = "dies",
    [DIES_UNSENT] = "dies with what it has sent",
    [LINGERS_NO_MORE] = "frees its channel",
    [TIME_PASSES] = "time passes",
};

struct event {
    enum event_kind kind;
    unsigned client;
    unsigned part; /* a thread, or a connection */
};

static char verb_at(const char *program, uint8_t pc)
{
    return program == NULL || pc >= strlen(program) ? '\0' : program[pc];
}

static bool takes(char verb)
{
    return verb == 'W' || verb == 'T' || verb == 'K';
}

static unsigned listeners(const struct world *w, const struct state *s)
{
    unsigned all = s->java_phase == JAVA_REFUSED || s->java_phase == JAVA_ASLEEP ? LISTENS_ALL(LINE_JAVA) : 0;

    for (unsigned i = 0; i < w->clients; i++)
        all |= line_listeners(&s->clients[i], i);
    return all;
}

/* Place of the first request there that the server has not run; LINE_QUEUE: none. */
static unsigned first_unrun(const struct line_client *c, unsigned lane)
{
    for (unsigned i = 0; i < LINE_QUEUE && c->sent[lane][i].kind != 0; i++)
        if (!c->sent[lane][i].ran)
            return i;
    return LINE_QUEUE;
}

static bool thread_can(const struct world *w, const struct state *s, const struct event *e)
{
    const struct line_client *c = &s->clients[e->client];
    const struct line_thread *t = &c->threads[e->part];
    char verb = verb_at(w->scenario->threads[e->client][e->part], t->pc);

    if (c->dead)
        return false;
    switch (e->kind) {
    case BEGINS:
        return t->phase == LINE_IDLE ? takes(verb) : t->phase == LINE_HOLDS && !line_holds_idle(t);
    case JOINS:
        return t->phase == LINE_HANDED;
    case TIMES_OUT:
        return s->time_outs > 0 && t->phase >= LINE_TRIES && t->phase <= LINE_ASLEEP && !t->single;
    case GIVES_UP:
        return s->given_up > 0 && t->phase == LINE_RELEASES;
    case GIVES_UP_UNSENT:
        return s->given_up > 0 && t->phase == LINE_HOLDS && !line_holds_idle(t);
    default:
        return false;
    }
}

static bool lane_can(const struct world *w, const struct state *s, const struct event *e)
{
    const struct line_client *c = &s->clients[e->client];
    const struct line_sent *first = &c->sent[e->part][0];
    unsigned unrun = first_unrun(c, e->part);

    switch (e->kind) {
    case RUNS:
        return unrun < LINE_QUEUE;
    case RUNS_LATE: /* it matters to a release, if somebody listens */
        return unrun < LINE_QUEUE && w->scenario->java != NULL && listeners(w, s) >> LINE_CLIENTS != 0 &&
               c->sent[e->part][unrun].kind != LINE_TRY;
    case READS:
        return !c->dead && first->kind != 0 && first->ran;
    case BREAKS:
        return !c->dead && s->breaks > 0 && first->kind != 0;
    default:
        return false;
    }
}

static bool is_through(const struct world *w, const struct state *s, unsigned i)
{
    const struct line_client *c = &s->clients[i];

    for (unsigned k = 0; !c->dead && k < LINE_THREADS; k++)
        if (c->threads[k].phase != LINE_IDLE || verb_at(w->scenario->threads[i][k], c->threads[k].pc) != '\0')
            return false;
    return true;
}

static bool is_handed(const struct line_client *c)
{
    for (unsigned k = 0; k < LINE_THREADS; k++)
        if (c->threads[k].phase == LINE_HANDED)
            return true;
    return false;
}

/* Does its own channel stay only for a while? */
static bool lingers(const struct line_client *c)
{
    return !c->dead && c->own != TOPIC_OFF && line_waiters(c) == 0 && !is_handed(c);
}

static bool client_can(const struct world *w, const struct state *s, const struct event *e)
{
    const struct line_client *c = &s->clients[e->client];

    if (c->dead)
        return false;
    switch (e->kind) {
    case SUBSCRIBES:
        return c->own == TOPIC_ASKED;
    case LISTENS:
        return c->all == TOPIC_ASKED;
    case HEARS:
        return c->said[0] != 0;
    case TIMER:
        return line_waiters(c) > 0 && (c->look_due || c->hint_due);
    case CUT:
        return s->cuts > 0 && c->own >= TOPIC_SUBSCRIBED;
    case DIES:
    case DIES_UNSENT:
        return s->deaths > 0 && !is_through(w, s, e->client);
    case LINGERS_NO_MORE:
        return lingers(c) || (c->own == TOPIC_OFF && is_through(w, s, e->client) && (c->notes & RDL__AHEAD) != 0);
    default:
        return false;
    }
}

static bool java_can(const struct world *w, const struct state *s, enum event_kind kind)
{
    char verb = verb_at(w->scenario->java, s->java_pc);

    if (kind == JAVA_RELEASES)
        return s->java_phase == JAVA_HOLDS;
    if (s->java_phase == JAVA_IDLE)
        return takes(verb);
    return s->java_phase == JAVA_REFUSED || (s->java_phase == JAVA_ASLEEP && s->java_heard > 0);
}

static unsigned parts_of(enum event_kind kind)
{
    switch (kind) {
    case BEGINS:
    case JOINS:
    case TIMES_OUT:
    case GIVES_UP:
    case GIVES_UP_UNSENT:
        return LINE_THREADS;
    case RUNS:
    case RUNS_LATE:
    case READS:
    case BREAKS:
        return LINE_LANES;
    default:
        return 1;
    }
}

static bool is_javas(enum event_kind kind)
{
    return kind == JAVA_TAKES || kind == JAVA_RELEASES || kind == TIME_PASSES;
}

static bool can(const struct world *w, const struct state *s, const struct event *e)
{
    if (is_javas(e->kind))
        return e->kind != TIME_PASSES && java_can(w, s, e->kind);
    if (parts_of(e->kind) == LINE_THREADS)
        return thread_can(w, s, e);
    return parts_of(e->kind) == LINE_LANES ? lane_can(w, s, e) : client_can(w, s, e);
}

/* The event behind *e that can happen; of every kind but that time passes. */
static bool next_event(const struct world *w, const struct state *s, struct event *e, bool *first)
{
    while (e->kind < TIME_PASSES) {
        if (*first) {
            *first = false;
        } else if (++e->part >= parts_of(e->kind)) {
            e->part = 0;
            if (++e->client >= (is_javas(e->kind) ? 1 : w->clients)) {
                e->client = 0;
                e->kind++;
            }
        }
        if (e->kind < TIME_PASSES && can(w, s, e))
            return true;
    }
    return false;
}

/* Does it happen by itself and soon? Somebody who does not want the lock yet may do so much later. */
static bool is_soon(const struct state *s, const struct event *e)
{
    if (e->kind == JAVA_TAKES)
        return s->java_phase != JAVA_IDLE;
    if (e->kind == BEGINS)
        return s->clients[e->client].threads[e->part].phase == LINE_HOLDS;
    return e->kind < TIMES_OUT;
}

static bool is_quiet(const struct world *w, const struct state *s)
{
    struct event e = {0};
    bool first = true;

    while (next_event(w, s, &e, &first)) {
        if (e.kind >= TIMES_OUT)
            break;
        if (is_soon(s, &e))
            return false;
    }
    return true;
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

static bool is_idle_kept(const struct state *s, unsigned client, unsigned thread)
{
    return !s->clients[client].dead && line_holds_idle(&s->clients[client].threads[thread]);
}

/* Is the lock free, or kept with nobody inside? */
static bool is_to_be_had(const struct world *w, const struct state *s)
{
    struct line_facts facts = line_facts(s->image);

    if (facts.holder == LINE_NOBODY)
        return true;
    for (unsigned k = 0; facts.holder < w->clients && k < LINE_THREADS; k++)
        if (is_idle_kept(s, facts.holder, k))
            return true;
    return false;
}

static bool somebody_sleeps(const struct world *w, const struct state *s)
{
    bool sleeps = s->java_phase == JAVA_ASLEEP;

    for (unsigned i = 0; i < w->clients; i++)
        for (unsigned k = 0; k < LINE_THREADS; k++)
            sleeps |= !s->clients[i].dead && s->clients[i].threads[k].phase == LINE_ASLEEP;
    return sleeps;
}

static bool somebody_waits(const struct world *w, const struct state *s)
{
    bool waits = s->java_phase == JAVA_REFUSED || s->java_phase == JAVA_ASLEEP;

    for (unsigned i = 0; i < w->clients; i++)
        for (unsigned k = 0; k < LINE_THREADS; k++) {
            const struct line_thread *t = &s->clients[i].threads[k];

            waits |= !s->clients[i].dead && t->phase >= LINE_TRIES && t->phase <= LINE_ASLEEP;
        }
    return waits;
}

static bool is_dead_ones(const struct world *w, const struct state *s)
{
    struct line_facts facts = line_facts(s->image);

    return facts.holder < w->clients && s->clients[facts.holder].dead;
}

static unsigned due_in(const struct line_client *c)
{
    return c->dead ? 0 : lingers(c) ? RDL__CLIENT_LINGER_MS : line_due_in(c);
}

/* In how many ms is somebody due next? 0: nobody is. */
static unsigned next_due(const struct world *w, const struct state *s)
{
    unsigned ms = s->java_phase == JAVA_ASLEEP || is_dead_ones(w, s) ? LINE_LONG_MS : 0;

    for (unsigned i = 0; i < w->clients; i++) {
        unsigned due = due_in(&s->clients[i]);

        if (due != 0 && (ms == 0 || due < ms))
            ms = due;
        for (unsigned k = 0; k < LINE_THREADS; k++)
            if (ms == 0 && is_idle_kept(s, i, k))
                ms = LINE_LONG_MS;
    }
    return ms;
}

static void long_time_passes(const struct world *w, struct state *s)
{
    if (is_dead_ones(w, s))
        s->image = line_lease_ends(s->image);
    if (s->java_phase == JAVA_ASLEEP)
        s->java_phase = JAVA_REFUSED;
    for (unsigned i = 0; i < w->clients; i++) {
        s->clients[i].ear_heard = false;
        for (unsigned k = 0; k < LINE_THREADS; k++)
            if (is_idle_kept(s, i, k))
                s->clients[i].threads[k].recalled = true;
    }
}

/* Of short times only those are told apart that are due first. */
static bool passes_for(uint16_t *timer, unsigned ms)
{
    bool due = *timer != 0 && *timer <= ms;

    if (!due && *timer != 0 && ms >= RDL__CLIENT_LINGER_MS)
        *timer = (uint16_t)(*timer - ms);
    return due;
}

static void time_passes_for(unsigned i, struct line_client *c, unsigned ms)
{
    bool ends = lingers(c) && ms >= RDL__CLIENT_LINGER_MS;

    if (!c->dead && line_waiters(c) > 0) {
        c->look_due |= passes_for(&c->look, ms);
        c->hint_due |= passes_for(&c->hint, ms);
    } else if (ends) {
        line_load(i, c);
        line_linger_ends();
        line_unload();
    }
}

static void time_passes(const struct world *w, struct state *s)
{
    unsigned ms = next_due(w, s), slept = s->slept_ms + ms;

    if (is_to_be_had(w, s) && somebody_sleeps(w, s))
        s->slept_ms = slept > UINT16_MAX ? UINT16_MAX : (uint16_t)slept;
    for (unsigned i = 0; i < w->clients; i++)
        time_passes_for(i, &s->clients[i], ms);
    if (ms >= LINE_LONG_MS)
        long_time_passes(w, s);
}

/* ---- what it does ----------------------------------------------------------------------------------------------- */

static void say(struct line_client *c, uint8_t what)
{
    for (unsigned i = 0; i < LINE_MESSAGES; i++)
        if (c->said[i] == 0) {
            c->said[i] = what;
            return;
        }
    die("enumeration: more than %d messages are unread", LINE_MESSAGES);
}

static void tell(const struct world *w, struct state *s, const struct line_effect *effect)
{
    for (unsigned m = 0; m < effect->tells; m++) {
        struct line_tell told = effect->tell[m];

        if (told.to == LINE_NOBODY && told.what == SAID_ALL_0 && s->java_phase >= JAVA_REFUSED &&
            s->java_phase <= JAVA_ASLEEP && s->java_heard < 2)
            s->java_heard++;
        for (unsigned i = 0; i < w->clients; i++) {
            struct line_client *c = &s->clients[i];
            bool hears = told.to == LINE_NOBODY ? c->all >= TOPIC_SUBSCRIBED : told.to == i;

            if (hears && !c->dead)
                say(c, told.what);
        }
    }
}

static void server_runs(const struct world *w, struct state *s, const struct event *e)
{
    struct line_client *c = &s->clients[e->client];
    unsigned at = first_unrun(c, e->part);
    struct line_sent *sent = &c->sent[e->part][at];
    struct line_effect effect = line_run(s->image, sent->command, listeners(w, s), e->kind == RUNS_LATE);

    s->image = effect.image;
    sent->ran = true;
    sent->answer = effect.answer;
    sent->ear = effect.ear;
    sent->look = effect.look;
    tell(w, s, &effect);
    if (c->dead) { /* nobody reads that */
        memmove(sent, sent + 1, (LINE_QUEUE - 1 - at) * sizeof *sent);
        memset(&c->sent[e->part][LINE_QUEUE - 1], 0, sizeof *sent);
    }
}

/* Redisson subscribes when it was refused, and tries again then, and at each message. */
static void java_takes(const struct world *w, struct state *s)
{
    struct line_effect effect = line_run(s->image, w->java_take, listeners(w, s), false);

    s->image = effect.image;
    if (effect.answer == LINE_GRANTED) {
        s->java_phase = JAVA_HOLDS;
        s->java_heard = 0;
        s->java_pc++;
        return;
    }
    if (s->java_phase == JAVA_ASLEEP)
        s->java_heard--;
    s->java_phase = s->java_phase == JAVA_IDLE ? JAVA_REFUSED : JAVA_ASLEEP;
}

static void java_releases(const struct world *w, struct state *s)
{
    struct line_effect effect = line_run(s->image, w->java_release, listeners(w, s), false);

    s->image = effect.image;
    s->java_phase = JAVA_IDLE;
    s->java_pc++;
    tell(w, s, &effect);
}

static void thread_begins(const struct world *w, const struct state *s, const struct event *e)
{
    const struct line_thread *t = &s->clients[e->client].threads[e->part];
    char verb = verb_at(w->scenario->threads[e->client][e->part], t->pc);

    if (t->phase == LINE_HOLDS)
        line_release(e->part);
    else
        line_take(e->part, verb != 'T', verb == 'K');
}

static void client_does(const struct world *w, struct state *s, const struct event *e)
{
    switch (e->kind) {
    case BEGINS:
        thread_begins(w, s, e);
        break;
    case READS:
        line_read(e->part);
        break;
    case JOINS:
        line_join(e->part);
        break;
    case SUBSCRIBES:
    case LISTENS:
        line_subscribe(e->kind == SUBSCRIBES);
        break;
    case HEARS:
        line_hear();
        break;
    case TIMER:
        line_timer();
        break;
    case TIMES_OUT:
        s->time_outs--;
        line_time_out(e->part);
        break;
    case BREAKS:
        s->breaks--;
        line_break(e->part);
        break;
    case CUT:
        s->cuts--;
        line_cut();
        break;
    case GIVES_UP:
        s->given_up--;
        line_give_up_release(e->part);
        break;
    case GIVES_UP_UNSENT:
        s->given_up--;
        line_give_up_unsent(e->part);
        break;
    case DIES:
    case DIES_UNSENT:
        s->deaths--;
        line_die(e->kind == DIES_UNSENT);
        break;
    default:
        line_linger_ends();
    }
}

/* How long somebody has slept counts until somebody has the lock, whoever has tried in vain meanwhile. */
static void happen(const struct world *w, struct state *s, const struct event *e)
{
    uint8_t had = line_facts(s->image).holder;

    if (e->kind == JAVA_TAKES) {
        java_takes(w, s);
    } else if (e->kind == JAVA_RELEASES) {
        java_releases(w, s);
    } else if (e->kind == RUNS || e->kind == RUNS_LATE) {
        server_runs(w, s, e);
    } else if (e->kind == TIME_PASSES) {
        time_passes(w, s);
    } else {
        line_load(e->client, &s->clients[e->client]);
        client_does(w, s, e);
        line_unload();
    }
    if (line_facts(s->image).holder != had || !somebody_waits(w, s))
        s->slept_ms = 0;
}

/* ---- for people ------------------------------------------------------------------------------------------------- */

static const char *said_name(uint8_t what)
{
    static const char *const names[] = {"",
                                        "that it is subscribed to its own",
                                        "that it is subscribed to the lock's",
                                        "0",
                                        "3",
                                        "4",
                                        "0 on the lock's",
                                        "2 on the lock's"};

    return what >= SAID_RECALL ? "a recall" : names[what];
}

/* What all names and ids have alike is left out: of a client's id its letter stays. */
static void shorten(char *text)
{
    static const struct line_plant words[] = {{LINE_CHANNEL, "line"}, {"100000000000000", ""}, {" ttl 60000", ""}};
    char *to = text;

    for (const char *from = text; *from != '\0';) {
        size_t cut = 0;

        for (size_t i = 0; i < sizeof words / sizeof words[0] && cut == 0; i++)
            if (strncmp(from, words[i].part, strlen(words[i].part)) == 0) {
                cut = strlen(words[i].part);
                memcpy(to, words[i].by, strlen(words[i].by));
                to += strlen(words[i].by);
            }
        if (cut == 0 && from[0] >= 'a' && from[0] <= 'f' && strncmp(from + 8, "-", 1) == 0 && from[13] == '-') {
            cut = LINE_UUID;
            *to++ = (char)(from[0] - 'a' + 'A');
        }
        if (cut == 0)
            *to++ = *from == '\n' ? ';' : *from == '\t' ? ' ' : *from;
        from += cut == 0 ? 1 : cut;
    }
    *to = '\0';
}

static const char *what_of(const struct state *s, const struct event *e)
{
    const struct line_client *c = &s->clients[e->client];

    if (e->kind == RUNS || e->kind == RUNS_LATE)
        return line_command_text(c->sent[e->part][first_unrun(c, e->part)].command);
    if (e->kind == READS)
        return line_command_text(c->sent[e->part][0].command);
    return e->kind == HEARS ? said_name(c->said[0]) : "";
}

static void describe(const struct state *s, const struct state *next, const struct event *e, char ret[DESCRIPTION])
{
    bool thread = parts_of(e->kind) == LINE_THREADS, runs = next->image != s->image;
    char who[8] = "Java";

    if (!is_javas(e->kind))
        (void)snprintf(who, sizeof who, "%c%s", 'A' + (int)e->client, !thread ? "" : e->part == 0 ? "1" : "2");
    (void)snprintf(ret, DESCRIPTION, "%s %s %s%s%s", e->kind == TIME_PASSES ? "" : who, event_names[e->kind],
                   what_of(s, e), runs ? ": " : "", runs ? line_text(next->image) : "");
    shorten(ret);
}

/* ---- searching -------------------------------------------------------------------------------------------------- */

static void reach(const struct world *w, const struct state *s, const struct event *e, struct search *search)
{
    struct state next;
    char text[DESCRIPTION] = "";

    memcpy(&next, s, w->state_size);
    happen(w, &next, e);
    if (search_is_read(search))
        describe(s, &next, e, text);
    search_reach(search, &next, "%s", text);
}

static void expand(void *arg, const void *bytes, struct search *search)
{
    const struct world *w = arg;
    struct event e = {0};
    struct state s;
    bool first = true, quiet;

    memcpy(&s, bytes, w->state_size);
    quiet = is_quiet(w, &s);
    while (next_event(w, &s, &e, &first))
        if (e.kind != LINGERS_NO_MORE || quiet)
            reach(w, &s, &e, search);
    e = (struct event){.kind = TIME_PASSES};
    if (quiet && next_due(w, &s) != 0)
        reach(w, &s, &e, search);
}

static const char *unsafe(const struct world *w, const struct state *s)
{
    struct line_facts facts = line_facts(s->image);
    unsigned holding = s->java_phase == JAVA_HOLDS;

    if (holding > 0 && facts.holder != LINE_JAVA)
        return "GONE";
    for (unsigned i = 0; i < w->clients; i++)
        for (unsigned k = 0; !s->clients[i].dead && k < LINE_THREADS; k++) {
            const struct line_thread *t = &s->clients[i].threads[k];

            if (t->phase != LINE_HOLDS)
                continue;
            if (++holding > 1)
                return "BOTH";
            if (facts.holder != i || facts.n != t->n)
                return "GONE";
        }
    return NULL;
}

static const char *wrong(void *arg, const void *bytes)
{
    const struct world *w = arg;
    const char *verdict;
    struct event e = {0};
    struct state s;
    bool first = true, through;

    memcpy(&s, bytes, w->state_size);
    if ((verdict = unsafe(w, &s)) != NULL)
        return verdict;
    if (s.slept_ms > w->scenario->sleeps_ms)
        return "ASLEEP";
    while (next_event(w, &s, &e, &first))
        if (e.kind < TIMES_OUT || e.kind == LINGERS_NO_MORE)
            return NULL;
    if (next_due(w, &s) != 0)
        return NULL;
    through = s.java_phase == JAVA_IDLE;
    for (unsigned i = 0; i < w->clients; i++)
        through = through && is_through(w, &s, i);
    if (!through)
        return "STUCK";
    if (line_facts(s.image).holder != LINE_NOBODY)
        return "LEFT";
    return line_facts(s.image).line && !w->scenario->line_stays ? "LINE" : NULL;
}

static void first_state(void *arg, void *ret)
{
    const struct world *w = arg;

    memcpy(ret, &w->first, w->state_size);
}

static uint16_t java_command(const char *before, const char *behind)
{
    char words[160], uuid[LINE_UUID + 1];

    line_uuid(uuid, LINE_JAVA);
    (void)snprintf(words, sizeof words, "%s %s:8%s", before, uuid, behind);
    return line_command(words);
}

struct search_result enumerate_line(const struct line_scenario *scenario, size_t limit)
{
    struct world w = {.scenario = scenario};
    struct search_model model = {.world = &w, .first = first_state, .expand = expand, .wrong = wrong};
    struct search_result result;

    while (w.clients < LINE_CLIENTS && scenario->threads[w.clients][0] != NULL)
        w.clients++;
    w.state_size = model.state_size = offsetof(struct state, clients) + w.clients * sizeof(struct line_client);
    line_server_open(scenario->plant);
    line_clients_open(scenario->returns != 0, &scenario->without);
    w.java_take = java_command("java_take 1 " LINE_NAME, " 60000");
    w.java_release = java_command("java_release 2 " LINE_NAME " " LINE_CHANNEL, "");
    for (unsigned i = 0; i < w.clients; i++)
        if ((scenario->returns & 1u << i) != 0) {
            w.first.clients[i].notes = RDL__YIELDS;
            w.first.clients[i].own = TOPIC_CONFIRMED;
            w.first.clients[i].left = true;
        }
    w.first.time_outs = scenario->time_outs;
    w.first.cuts = scenario->cuts;
    w.first.breaks = scenario->breaks;
    w.first.given_up = scenario->given_up;
    w.first.deaths = scenario->deaths;
    result = search_run(&model, limit);
    line_server_close();
    return result;
}
