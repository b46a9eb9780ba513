/* SPDX-License-Identifier: MIT */
/* enumerate_kept.c - see enumerate_kept.h: what can happen, one step each, and what must not be. */
#include "tests/script/enumerate_kept.h"
#include "scripts/scripts.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <string.h>

#define MOST_NUMBERS 30 /* more than any of these programs wants */

/* ---- states ----------------------------------------------------------------------------------------------------- */

/* Compared as bytes: what is unused is 0. */
struct outsider {
    uint8_t pc;
    uint8_t asleep;
    uint8_t heard;            /* a message since its try */
    uint8_t drawn;            /* the last n */
    uint8_t holds[LOCK_ENDS]; /* n; 0: none */
    uint8_t dead[LOCK_ENDS];
};

struct state {
    uint32_t image;
    uint32_t clients[KEPT_CLIENTS];
    struct outsider outsiders[OUTSIDERS];
    uint8_t faults;
    uint8_t gives_up;
    uint8_t lost_recall; /* one was, so somebody may sleep until what is kept is too old */
    uint8_t unused;
};

struct world {
    const struct kept_scenario *scenario;
    unsigned clients;
    struct state first;
    char shas[2][LOCK_ENDS][KS_SHA_SIZE]; /* of outsiders' scripts: a release's, a take's */
};

/* What happens, and to whom: a client's actor, or an outsider. */
enum event_kind {
    OWNER_BEGINS,
    SERVER_RUNS,
    LATE_RUNS,
    ACTOR_READS,
    ACTOR_GOES,
    ACTOR_CANCELED, /* by its client */
    OWNER_GIVES_UP,
    SENT_AGAIN, /* faults */
    GIVEN_UP,
    LOOP_RUNS, /* of a client, like the next */
    TIMER_FIRES,
    TIME_PASSES,
    SUBSCRIBES,
    HEARS,
    NOTICES,
    CLOSES,
    CUT, /* faults */
    RECALL_LOST,
    RECALL_TWICE,
    OUTSIDER_BEGINS, /* and the server runs that */
    OUTSIDER_LOOKS,
    LEASES_END,
    EVENTS,
};

struct event {
    enum event_kind kind;
    unsigned client; /* or outsider */
    unsigned actor;
};

static void load(const struct world *w, const struct state *s)
{
    for (unsigned i = 0; i < w->clients; i++)
        client_load(i, s->clients[i]);
}

static void save(const struct world *w, struct state *s)
{
    for (unsigned i = 0; i < w->clients; i++)
        s->clients[i] = client_save(i);
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

static char verb_at(const char *program, unsigned pc)
{
    return program == NULL || pc >= strlen(program) ? '\0' : program[pc];
}

static char next_verb(const struct world *w, unsigned i, unsigned owner)
{
    return owner == KEEPER ? '\0' : verb_at(w->scenario->owners[i][owner], client_at(i)->actors[owner].pc);
}

static bool is_through(const struct world *w, unsigned i)
{
    for (unsigned k = 0; k < KEPT_OWNERS; k++)
        if (next_verb(w, i, k) != '\0' || client_at(i)->actors[k].phase != ACTOR_FREE)
            return false;
    return true;
}

/* ---- the server ------------------------------------------------------------------------------------------------- */

/* A message on the lock's channel. An outsider is alone there. */
static void wake_all(const struct world *w, struct state *s)
{
    for (unsigned i = 0; i < w->clients; i++)
        client_wake(client_at(i));
    for (unsigned o = 0; o < OUTSIDERS; o++)
        s->outsiders[o].heard |= s->outsiders[o].asleep;
}

/* Run a command, and say what it says. */
static int64_t run(const struct world *w, struct state *s, uint16_t command)
{
    struct server_effect effect = server_run(s->image, command);

    s->image = effect.image;
    if (effect.woke)
        wake_all(w, s);
    for (unsigned r = 0; r < effect.recalls; r++) {
        struct client *c = client_at((unsigned)(effect.recall[r].client - 'a'));

        if (!c->subscribed || (c->said_count > 0 && c->said[c->said_count - 1] == effect.recall[r].n))
            continue; /* said twice in a row is said once */
        if (c->said_count == KEPT_SAID)
            die("enumeration: more than %d messages for a client", KEPT_SAID);
        c->said[c->said_count++] = effect.recall[r].n;
    }
    return effect.answer;
}

/* The next request of an actor. An owner reads the answer at once. */
static void server_runs(const struct world *w, struct state *s, unsigned i, unsigned k)
{
    struct client *c = client_at(i);
    struct actor *a = &c->actors[k];
    uint8_t kind = a->queue[0].kind;
    uint16_t command = a->queue[0].command;
    int64_t answer;

    a->queued--;
    memmove(&a->queue[0], &a->queue[1], sizeof a->queue - sizeof a->queue[0]);
    memset(&a->queue[KEPT_QUEUE - 1], 0, sizeof a->queue[0]);
    if (kind == SENT_KILL) {
        a->late = 0;
        return;
    }
    answer = run(w, s, command);
    if (kind != SENT_ASKS)
        return;
    a->answered = true;
    a->answer = answer;
    if (k != KEEPER)
        client_read(c, k);
}

/* ---- outsiders -------------------------------------------------------------------------------------------------- */

static bool reads(char verb)
{
    return strchr("RrS", verb) != NULL;
}

static bool is_grant(int64_t answer)
{
    return answer == RDL__TAKEN || answer == RDL__HELD_ALREADY;
}

static void outsider_field(char ret[KEPT_FIELD], unsigned o, bool reader, unsigned n)
{
    (void)snprintf(ret, KEPT_FIELD, "%c:%u%s", (char)('e' + o), n, reader ? "" : ":write");
}

static uint16_t outsider_words(const struct world *w, unsigned o, bool reader, bool takes, unsigned n)
{
    const char *words[8];
    struct bytes frame = {0};
    char field[KEPT_FIELD], lease[8];
    size_t count = 0;
    uint16_t number;

    outsider_field(field, o, reader, n);
    (void)snprintf(lease, sizeof lease, "%d", KEPT_LEASE_MS);
    words[count++] = "EVALSHA";
    words[count++] = w->shas[takes][reader];
    words[count++] = takes ? "1" : "2";
    words[count++] = KEPT_NAME;
    if (!takes)
        words[count++] = "redisson_rwlock:{" KEPT_NAME "}";
    words[count++] = field;
    words[count++] = takes ? "1" : "0";
    if (takes)
        words[count++] = lease;
    resp_request(&frame, count, words, NULL);
    number = server_command(frame.at, frame.len);
    bytes_done(&frame);
    return number;
}

/* Its try, and the answer. */
static void outsider_tries(const struct world *w, struct state *s, unsigned o, char verb)
{
    struct outsider *out = &s->outsiders[o];
    int64_t answer = run(w, s, outsider_words(w, o, reads(verb), true, out->drawn));
    bool granted = is_grant(answer);

    out->asleep = !granted && strchr("TS", verb) == NULL;
    out->heard = 0;
    if (granted)
        out->holds[reads(verb)] = out->drawn;
    if (!out->asleep)
        out->pc++;
}

static void outsider_begins(const struct world *w, struct state *s, unsigned o)
{
    struct outsider *out = &s->outsiders[o];
    char verb = verb_at(w->scenario->outsiders[o], out->pc);
    uint8_t n = out->holds[reads(verb)];

    if (verb == 'x') {
        memcpy(out->dead, out->holds, sizeof out->dead);
        memset(out->holds, 0, sizeof out->holds);
        out->pc++;
    } else if (strchr("rw", verb) == NULL) {
        out->drawn++;
        outsider_tries(w, s, o, verb);
    } else {
        out->pc++;
        out->holds[reads(verb)] = 0;
        if (n != 0)
            (void)run(w, s, outsider_words(w, o, reads(verb), false, n));
    }
}

/* ---- those who have ended inside -------------------------------------------------------------------------------- */

/* Is that hold of a client's renewed, or given back, by the client? */
static bool is_kept_still(const struct client *c, int n)
{
    return n < 0 && c->cache->kept_rec != NULL && c->cache->keep.n == n;
}

/* The holds of the dead that nobody renews; and nobody is dead any more who had one, if `bury`. */
static size_t dead_holds(const struct world *w, struct state *s, char dead[][KEPT_FIELD], bool bury)
{
    size_t count = 0;

    for (unsigned i = 0; i < w->clients; i++)
        for (unsigned k = 0; k < KEPT_OWNERS; k++)
            for (unsigned end = 0; end < LOCK_ENDS; end++) {
                int8_t *n = &client_at(i)->actors[k].dead[end];

                if (*n == 0 || is_kept_still(client_at(i), *n))
                    continue;
                client_field(dead[count++], i, (enum lock_end)end, *n);
                *n = bury ? 0 : *n;
            }
    for (unsigned o = 0; o < OUTSIDERS; o++)
        for (unsigned end = 0; end < LOCK_ENDS; end++) {
            uint8_t *n = &s->outsiders[o].dead[end];

            if (*n == 0)
                continue;
            outsider_field(dead[count++], o, end == LOCK_MANY, *n);
            *n = bury ? 0 : *n;
        }
    return count;
}

#define DEAD_MAX ((KEPT_CLIENTS * KEPT_OWNERS + OUTSIDERS) * LOCK_ENDS)

/* Who sleeps looks when a lease is over, one after the other. */
static void leases_end(const struct world *w, struct state *s)
{
    char dead[DEAD_MAX][KEPT_FIELD];
    size_t count = dead_holds(w, s, dead, true);

    s->image = server_leases_end(s->image, (const char(*)[KEPT_FIELD])dead, count);
    for (unsigned k = 0; k < KEPT_ACTORS; k++)
        wake_all(w, s);
}

/* ---- what can happen -------------------------------------------------------------------------------------------- */

static bool is_fault(enum event_kind kind)
{
    return kind == SENT_AGAIN || kind == GIVEN_UP || kind == CUT || kind == RECALL_LOST || kind == RECALL_TWICE;
}

static bool actor_can(const struct world *w, const struct state *s, const struct event *e)
{
    const struct client *c = client_at(e->client);
    const struct actor *a = &c->actors[e->actor];
    char verb;

    switch (e->kind) {
    case OWNER_BEGINS:
        verb = next_verb(w, e->client, e->actor);
        return a->phase == ACTOR_FREE && verb != '\0' && (verb != '=' || c->actors[!e->actor].pc > 0);
    case SERVER_RUNS:
        return a->queued > 0;
    case LATE_RUNS:
        return a->late != 0;
    case ACTOR_READS:
        return a->answered;
    case ACTOR_GOES:
        return a->posted || (a->heard && a->phase == ACTOR_ASLEEP);
    case ACTOR_CANCELED:
        return a->canceled;
    case OWNER_GIVES_UP:
        return s->gives_up > 0 && e->actor != KEEPER && a->phase != ACTOR_FREE && a->call.verb->acquires;
    case SENT_AGAIN:
    case GIVEN_UP:
        return s->faults > 0 && client_may_lose(c, e->actor);
    default:
        return false;
    }
}

static bool client_can(const struct world *w, const struct state *s, const struct event *e)
{
    const struct client *c = client_at(e->client);

    switch (e->kind) {
    case LOOP_RUNS:
        return c->cache->posted;
    case TIMER_FIRES:
        return c->timer_at != 0 && c->timer_at <= CLIENT_NOW;
    case TIME_PASSES:
        return client_next_moment(c) != 0;
    case SUBSCRIBES:
        return c->subscribing;
    case HEARS:
        return c->said_count > 0;
    case NOTICES:
        return c->broken;
    case CLOSES:
        return !c->closed && is_through(w, e->client);
    case CUT:
        return s->faults > 0 && (c->subscribed || c->subscribing);
    case RECALL_LOST:
    case RECALL_TWICE:
        return s->faults > 0 && c->said_count > 0 && c->said[0] != 0;
    default:
        return false;
    }
}

static bool outsider_can(const struct world *w, const struct state *s, const struct event *e)
{
    const struct outsider *out = &s->outsiders[e->client];

    if (e->kind == OUTSIDER_LOOKS)
        return out->asleep && out->heard;
    return !out->asleep && verb_at(w->scenario->outsiders[e->client], out->pc) != '\0';
}

static bool can(const struct world *w, struct state *s, const struct event *e)
{
    char dead[DEAD_MAX][KEPT_FIELD];

    if (e->kind == LEASES_END)
        return dead_holds(w, s, dead, false) > 0;
    if (e->kind >= OUTSIDER_BEGINS)
        return outsider_can(w, s, e);
    return e->kind < LOOP_RUNS ? actor_can(w, s, e) : client_can(w, s, e);
}

static void happens_to_actor(const struct world *w, struct state *s, const struct event *e)
{
    struct client *c = client_at(e->client);
    struct actor *a = &c->actors[e->actor];
    uint16_t late = a->late;

    switch (e->kind) {
    case OWNER_BEGINS:
        client_begin(c, e->actor, next_verb(w, e->client, e->actor));
        break;
    case SERVER_RUNS:
        server_runs(w, s, e->client, e->actor);
        break;
    case LATE_RUNS:
        a->late = 0;
        (void)run(w, s, (uint16_t)(late - 1));
        break;
    case ACTOR_READS:
        client_read(c, e->actor);
        break;
    case ACTOR_GOES:
        client_go(c, e->actor);
        break;
    case OWNER_GIVES_UP:
        s->gives_up--;
        client_cancel(c, e->actor);
        break;
    case ACTOR_CANCELED:
        client_cancel(c, e->actor);
        break;
    default:
        client_lose(c, e->actor, e->kind == GIVEN_UP, !w->scenario->no_kill);
        break;
    }
}

static void happens_to_client(struct state *s, const struct event *e)
{
    struct client *c = client_at(e->client);

    switch (e->kind) {
    case LOOP_RUNS:
        client_on_loop(c);
        break;
    case TIMER_FIRES:
        client_on_timer(c);
        break;
    case TIME_PASSES:
        client_pass(c);
        break;
    case SUBSCRIBES:
        client_confirm(c);
        break;
    case HEARS:
        client_told(c);
        break;
    case NOTICES:
        client_notice(c);
        break;
    case CLOSES:
        client_end(c);
        break;
    case CUT:
        client_cut(c);
        break;
    default:
        client_told_wrongly(c, e->kind == RECALL_TWICE);
        s->lost_recall = s->lost_recall || e->kind == RECALL_LOST;
        break;
    }
}

static void happens(const struct world *w, struct state *s, const struct event *e)
{
    s->faults -= is_fault(e->kind);
    if (e->kind == LEASES_END)
        leases_end(w, s);
    else if (e->kind == OUTSIDER_LOOKS)
        outsider_tries(w, s, e->client, verb_at(w->scenario->outsiders[e->client], s->outsiders[e->client].pc));
    else if (e->kind == OUTSIDER_BEGINS)
        outsider_begins(w, s, e->client);
    else if (e->kind < LOOP_RUNS)
        happens_to_actor(w, s, e);
    else
        happens_to_client(s, e);
}

/* How many there may be of those to whom this happens. */
static unsigned those(const struct world *w, enum event_kind kind)
{
    return kind == LEASES_END ? 1 : kind >= OUTSIDER_BEGINS ? OUTSIDERS : w->clients;
}

/* The next event that can happen; at first its kind is 0, and all else. False: there are no more. */
static bool next_event(const struct world *w, struct state *s, struct event *e, bool *first)
{
    for (;;) {
        if (*first)
            *first = false;
        else if (e->kind < LOOP_RUNS && e->actor + 1 < KEPT_ACTORS)
            e->actor++;
        else if (e->client + 1 < those(w, e->kind))
            *e = (struct event){.kind = e->kind, .client = e->client + 1};
        else if (e->kind + 1 < EVENTS)
            *e = (struct event){.kind = e->kind + 1};
        else
            return false;
        if (can(w, s, e))
            return true;
    }
}

/* ---- labels ----------------------------------------------------------------------------------------------------- */

static void describe(const struct world *w, const struct state *s, const struct event *e, char *ret, size_t size)
{
    static const char *const actors[] = {"begins",
                                         "sends, and the server runs that",
                                         "'s late request runs",
                                         "reads the answer",
                                         "goes on",
                                         "is canceled",
                                         "gives up",
                                         "'s connection breaks; sent again",
                                         "'s connection breaks; given up"};
    static const char *const clients[] = {"'s loop runs its task",
                                          "'s timer fires",
                                          "'s time passes",
                                          "'s subscription arrives",
                                          " hears what the server has said",
                                          " notices that its subscription is broken",
                                          " closes",
                                          "'s subscription breaks",
                                          "'s last recall is lost",
                                          "'s last recall comes twice"};
    const struct client *c = client_at(e->client);
    char verb;

    if (e->kind == LEASES_END) {
        (void)snprintf(ret, size, "the leases of the dead end");
    } else if (e->kind >= OUTSIDER_BEGINS) {
        verb = verb_at(w->scenario->outsiders[e->client], s->outsiders[e->client].pc);
        (void)snprintf(ret, size, "outsider %u: %c", e->client, verb);
    } else if (e->kind >= LOOP_RUNS) {
        (void)snprintf(ret, size, "%c%s (%d)", (char)('P' + e->client), clients[e->kind - LOOP_RUNS], c->said[0]);
    } else {
        verb = e->actor == KEEPER ? '-' : next_verb(w, e->client, e->actor);
        (void)snprintf(ret, size, "%c%u %s: %c", (char)('P' + e->client), e->actor, actors[e->kind], verb);
    }
}

static void expand(void *arg, const void *bytes, struct search *search)
{
    const struct world *w = arg;
    struct state s, t;
    struct event e = {0};
    bool first = true;
    char label[96] = "";

    memcpy(&s, bytes, sizeof s);
    load(w, &s);
    while (next_event(w, &s, &e, &first)) {
        t = s;
        if (search_is_read(search))
            describe(w, &s, &e, label, sizeof label);
        happens(w, &t, &e);
        save(w, &t);
        search_reach(search, &t, "%-48s %s", label, server_text(t.image));
        load(w, &s);
    }
}

/* ---- what must not be ------------------------------------------------------------------------------------------- */

/* How many believe to hold, and does one of them write? An owner counts once. */
struct beliefs {
    unsigned owners;
    bool write;
};

static void believe(struct beliefs *b, bool writes, bool also_reads)
{
    b->owners += writes || also_reads;
    b->write = b->write || writes;
}

static const char *unsafe_client(const struct state *s, unsigned i, struct beliefs *b)
{
    struct client *c = client_at(i);
    char field[KEPT_FIELD];

    for (unsigned k = 0; k < KEPT_OWNERS; k++) {
        bool has[LOCK_ENDS];

        for (unsigned end = 0; end < LOCK_ENDS; end++) {
            const struct rdl__record *rec = c->records[k][end];

            has[end] = client_believes(c, k, (enum lock_end)end);
            if (!has[end])
                continue;
            client_field(field, i, (enum lock_end)end, rdl__cache_is_local(rec) ? c->cache->keep.n : rec->hold.id.n);
            if (!server_has(s->image, field))
                return "GONE";
        }
        believe(b, has[LOCK_ONE] || c->actors[k].dead[LOCK_ONE] != 0,
                has[LOCK_MANY] || c->actors[k].dead[LOCK_MANY] != 0);
    }
    return NULL;
}

static const char *unsafe(const struct world *w, const struct state *s)
{
    struct beliefs b = {0};
    const char *verdict = NULL;

    for (unsigned i = 0; i < w->clients && verdict == NULL; i++)
        verdict = unsafe_client(s, i, &b);
    for (unsigned o = 0; o < OUTSIDERS; o++) {
        const struct outsider *out = &s->outsiders[o];

        believe(&b, out->holds[LOCK_ONE] != 0 || out->dead[LOCK_ONE] != 0,
                out->holds[LOCK_MANY] != 0 || out->dead[LOCK_MANY] != 0);
    }
    return verdict != NULL ? verdict : b.write && b.owners > 1 ? "BOTH" : NULL;
}

/* Is nothing under way? */
static bool is_quiet(const struct world *w, const struct state *s)
{
    for (unsigned i = 0; i < w->clients; i++) {
        const struct client *c = client_at(i);

        if (c->cache->posted || c->subscribing || c->broken || c->said_count > 0)
            return false;
        for (unsigned k = 0; k < KEPT_ACTORS; k++) {
            const struct actor *a = &c->actors[k];

            if (a->queued > 0 || a->answered || a->posted || a->canceled || (a->heard && a->phase == ACTOR_ASLEEP))
                return false;
        }
    }
    for (unsigned o = 0; o < OUTSIDERS; o++)
        if (s->outsiders[o].heard)
            return false;
    return true;
}

/* Does what that client keeps keep those out who want that end? */
static bool bars(const struct client *c, bool reader)
{
    return !reader || !c->cache->keep.shared;
}

static bool sleeps_beside(const struct world *w, const struct state *s, const struct client *c)
{
    for (unsigned i = 0; i < w->clients; i++)
        for (unsigned k = 0; k < KEPT_ACTORS; k++) {
            const struct actor *a = &client_at(i)->actors[k];

            if ((a->phase == ACTOR_ASLEEP && bars(c, rdl__news_shares(a->call.ops->news))) ||
                (a->phase == ACTOR_STAYS && client_at(i) == c))
                return true;
        }
    for (unsigned o = 0; o < OUTSIDERS; o++)
        if (s->outsiders[o].asleep && !w->scenario->peers &&
            bars(c, reads(verb_at(w->scenario->outsiders[o], s->outsiders[o].pc))))
            return true;
    return false;
}

/* Does somebody sleep whom the server would let in? */
static bool sleeps_beside_nothing(const struct world *w, const struct state *s)
{
    for (unsigned i = 0; i < w->clients; i++)
        for (unsigned k = 0; k < KEPT_ACTORS; k++)
            if (client_at(i)->actors[k].phase == ACTOR_ASLEEP &&
                is_grant(server_run(s->image, client_wish(client_at(i), k)).answer))
                return true;
    for (unsigned o = 0; o < OUTSIDERS; o++) {
        const struct outsider *out = &s->outsiders[o];
        bool reader = reads(verb_at(w->scenario->outsiders[o], out->pc));

        if (out->asleep && is_grant(server_run(s->image, outsider_words(w, o, reader, true, out->drawn)).answer))
            return true;
    }
    return false;
}

/* With nothing under way, does somebody sleep beside a free lock, or because of what is kept with nobody inside? */
static bool is_asleep_in_vain(const struct world *w, const struct state *s)
{
    if (!is_quiet(w, s))
        return false;
    if (sleeps_beside_nothing(w, s))
        return true;
    for (unsigned i = 0; i < w->clients && !s->lost_recall; i++) {
        const struct client *c = client_at(i);

        if (c->cache->keep.state == RDL__KEEP_HELD && c->cache->inside == 0 && sleeps_beside(w, s, c))
            return true;
    }
    return false;
}

static bool all_through(const struct world *w, const struct state *s)
{
    bool through = true;

    for (unsigned i = 0; i < w->clients; i++) {
        through = through && is_through(w, i) && client_at(i)->closed;
        through = through && client_at(i)->actors[KEEPER].phase == ACTOR_FREE;
    }
    for (unsigned o = 0; o < OUTSIDERS; o++)
        through = through && verb_at(w->scenario->outsiders[o], s->outsiders[o].pc) == '\0';
    return through;
}

/* Can anything happen but a fault, or that somebody gives up? */
static bool goes_on(const struct world *w, struct state *s)
{
    struct event e = {0};
    bool first = true;

    while (next_event(w, s, &e, &first))
        if (!is_fault(e.kind) && e.kind != OWNER_GIVES_UP)
            return true;
    return false;
}

static const char *wrong(void *arg, const void *bytes)
{
    const struct world *w = arg;
    const char *verdict;
    struct state s;

    memcpy(&s, bytes, sizeof s);
    load(w, &s);
    if ((verdict = unsafe(w, &s)) != NULL)
        return verdict;
    for (unsigned i = 0; i < w->clients; i++)
        if (client_at(i)->next_n > MOST_NUMBERS)
            return "LIVELOCK";
    if (is_asleep_in_vain(w, &s))
        return "ASLEEP";
    if (goes_on(w, &s))
        return NULL;
    return !all_through(w, &s) ? "STUCK" : server_is_empty(s.image) ? NULL : "LEFT";
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static void first_state(void *arg, void *ret)
{
    const struct world *w = arg;

    memcpy(ret, &w->first, sizeof w->first);
}

/* What outsiders say. */
static void load_scripts(struct world *w)
{
    static const enum rdl__script_id ours[2][LOCK_ENDS] = {{RDL__SCRIPT_WRITE_RELEASE, RDL__SCRIPT_READ_RELEASE},
                                                           {RDL__SCRIPT_WRITE_TAKE, RDL__SCRIPT_READ_TAKE}};
    static const char *const peers[2][LOCK_ENDS] = {{"peer_write_release", "peer_read_release"},
                                                    {"peer_write_take", "peer_read_take"}};

    for (int takes = 0; takes < 2; takes++)
        for (int end = 0; end < LOCK_ENDS; end++)
            if (w->scenario->peers)
                server_load(peers[takes][end], w->shas[takes][end]);
            else
                memcpy(w->shas[takes][end], rdl__scripts[ours[takes][end]].sha, KS_SHA_SIZE);
}

struct search_result enumerate_kept(const struct kept_scenario *scenario, size_t limit)
{
    struct world w = {.scenario = scenario, .clients = scenario->owners[1][0] == NULL ? 1 : 2};
    struct search_model model = {
        .state_size = sizeof(struct state), .world = &w, .first = first_state, .expand = expand, .wrong = wrong};
    struct search_result result;

    server_open();
    load_scripts(&w);
    clients_open(w.clients, !scenario->unheard, scenario->twins);
    w.first.faults = (uint8_t)scenario->faults;
    w.first.gives_up = (uint8_t)scenario->gives_up;
    save(&w, &w.first);
    result = search_run(&model, limit);
    clients_close();
    server_close();
    return result;
}
