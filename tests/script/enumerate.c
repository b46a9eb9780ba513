/* SPDX-License-Identifier: MIT */
/* enumerate.c - see enumerate.h: the world's steps, one request, reply, fault or tick each. */
#include "tests/script/enumerate_impl.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_image(struct state *s, uint32_t image)
{
    memcpy(s->image, &image, sizeof image);
}

/* What the request does to the keyspace. */
static struct effect run_request(const struct world *w, struct state *s, size_t holder, const struct request *r)
{
    static const enum lock_verb VERBS[][LOCK_ENDS] = {[REQUEST_FIRST_TRY] = {LOCK_FIRST_TRY},
                                                      [REQUEST_TAKE] = {LOCK_TAKE, LOCK_READ_TAKE},
                                                      [REQUEST_RELEASE] = {LOCK_RELEASE, LOCK_READ_RELEASE},
                                                      [REQUEST_RENEW] = {LOCK_RENEW, LOCK_READ_RENEW},
                                                      [REQUEST_PEER_RENEW] = {LOCK_PEER_RENEW, LOCK_PEER_RENEW},
                                                      [REQUEST_GIVE] = {LOCK_GIVE},
                                                      [REQUEST_DRAIN] = {LOCK_DRAIN},
                                                      [REQUEST_SET] = {LOCK_SET}};
    struct image_command command = {.verb = VERBS[r->kind][r->end],
                                    .holder = (uint8_t)holder,
                                    .number = r->number,
                                    .mate = r->mate,
                                    .count = r->count,
                                    .sending = r->sending,
                                    .lease = r->lease};
    struct effect effect = image_apply(w->images, image_of(s), &command);

    set_image(s, effect.image);
    if (effect.grant.holder > 0 && effect.grant.holder <= w->owners)
        s->owners[effect.grant.holder - 1].told = effect.grant;
    if ((w->scenario->checks & CHECK_MODEL) != 0)
        s->unlike_model |= effect.unlike_reference;
    return effect;
}

static bool is_take(const struct request *r)
{
    return r->kind == REQUEST_TAKE || r->kind == REQUEST_FIRST_TRY || r->kind == REQUEST_DRAIN;
}

static void send(struct owner *o, struct request r)
{
    size_t at = o->queued;

    if (o->queued++ == QUEUE_MAX)
        die("enumeration: more than %d requests of an owner", QUEUE_MAX);
    for (; at > 0 && o->queue[at - 1].conn > r.conn; at--)
        o->queue[at] = o->queue[at - 1];
    o->queue[at] = r;
}

static struct request unsend(struct owner *o, size_t at)
{
    struct request r = o->queue[at];

    o->queued--;
    memmove(&o->queue[at], &o->queue[at + 1], (o->queued - at) * sizeof r);
    o->queue[o->queued] = (struct request){0};
    return r;
}

static void kill_conn(struct owner *o, unsigned conn)
{
    for (size_t i = o->queued; i-- > 0;)
        if (o->queue[i].conn == conn)
            (void)unsend(o, i);
    o->killed |= (uint8_t)(1u << conn);
}

/* Is it the next that the server runs of its connection? */
static bool is_first(const struct owner *o, size_t at)
{
    return at == 0 || o->queue[at - 1].conn != o->queue[at].conn;
}

/* Wait for the answer to `r`, which goes out on the owner's connection. */
static void ask(struct owner *o, struct request r)
{
    r.conn = o->conn;
    send(o, r);
    o->wait = r;
}

static unsigned program_length(const struct program *p)
{
    unsigned length = 0;

    while (length < PROGRAM_MAX && p->ops[length].kind != OP_END)
        length++;
    return length;
}

/* Give the whole hold of an end back, and go to the program's end when that is confirmed. */
static struct request last_release(struct owner *o, const struct program *p, uint8_t end, unsigned now)
{
    o->ends[end].deadline = 0;
    o->pc = (uint8_t)(program_length(p) - 1);
    o->flags &= (uint8_t)~IN_CALL;
    return (struct request){
        .kind = REQUEST_RELEASE, .end = end, .number = o->ends[end].number, .lease = 1, .sent = (uint8_t)now};
}

/* ---- labels ----------------------------------------------------------------------------------------------------- */

struct text {
    char at[64];
};

/* A request, if anybody reads it. */
static struct text show(const struct world *w, const struct search *search, size_t owner, const struct request *r)
{
    static const char *const NAMES[] = {"nothing", "first try",    "take", "release", "renew",
                                        "kill",    "peer's renew", "give", "drain",   "set"};
    struct text text;
    char name[LOCK_OWNER_SIZE];

    text.at[0] = '\0';
    if (!search_is_read(search))
        return text;
    holder_name(name, w->scenario->type, (unsigned)owner, (enum lock_end)r->end, r->number);
    (void)snprintf(text.at, sizeof text.at, "%s(%s, count %u, lease %u)", NAMES[r->kind], name, r->count, r->lease);
    return text;
}

static const char *outcome_name(enum lock_outcome outcome)
{
    static const char *const NAMES[] = {
        [LOCK_UNREADABLE] = "an error",
        [LOCK_TAKEN] = "taken",
        [LOCK_HELD_ALREADY] = "held already",
        [LOCK_HOLD_GONE] = "the hold is gone",
        [LOCK_REFUSED] = "refused",
        [LOCK_REFUSED_BLIND] = "refused",
        [LOCK_FREED] = "freed",
        [LOCK_STILL_HELD] = "still held",
        [LOCK_NO_SUCH_HOLD] = "no such hold",
        [LOCK_RENEWED] = "renewed",
    };

    return NAMES[outcome];
}

/* ---- an owner reads a reply ------------------------------------------------------------------------------------- */

/* Is there a verb that undoes a take? A latch is counted down in the end, whoever waits for it. */
static bool undoes(const struct world *w)
{
    return w->scenario->type->scripts[LOCK_RELEASE] != NULL;
}

static bool kills(const struct world *w)
{
    return w->scenario->rules->close != CLOSE_ONLY;
}

/* An end that the owner holds; LOCK_ENDS: none. */
static uint8_t held_end(const struct owner *o)
{
    uint8_t end = 0;

    while (end < LOCK_ENDS && o->ends[end].count == 0)
        end++;
    return end;
}

/* The lock() is over without a hold. A place in a queue is given up. What a try left behind on an old connection may
 * have done is undone, unless that connection was killed. The program ends. */
static void end_call(const struct world *w, struct owner *o, const struct program *p)
{
    o->flags &= (uint8_t)~IN_CALL;
    o->ends[o->end].deadline = 0;
    if (w->scenario->type->waits != NULL || ((o->flags & IN_DOUBT) != 0 && !kills(w)))
        o->pc = PC_UNDO;
    else if (o->ends[LOCK_ENDS - 1 - o->end].count > 0) /* the other one */
        o->pc = (uint8_t)program_length(p);
    else
        o->flags |= DONE;
}

static uint8_t later(unsigned a, unsigned b)
{
    return (uint8_t)(a > b ? a : b);
}

/* Until when a hold is believed in that the request has confirmed. */
static uint8_t confirmed_until(const struct world *w, const struct request *r)
{
    int believed = w->scenario->rules->believed;
    bool less = r->end == LOCK_MANY && believed != 0 && believed < r->lease;

    return (uint8_t)(r->sent + (less ? believed : r->lease));
}

static void read_take_reply(const struct world *w, struct owner *o, const struct program *p, const struct request *r,
                            const struct effect *effect)
{
    struct end *end = &o->ends[r->end];

    switch (effect->outcome) {
    case LOCK_TAKEN:
    case LOCK_HELD_ALREADY:
        o->flags &= (uint8_t)~IN_CALL;
        end->count = (uint8_t)(counts(w) ? end->count + effect->taken : r->count);
        end->deadline = later(r->count > 1 ? end->deadline : 0, confirmed_until(w, r));
        o->pc++;
        break;
    case LOCK_REFUSED:
    case LOCK_REFUSED_BLIND:
        if (o->tries > 0)
            o->tries--; /* the call goes on, with the same n */
        else
            end_call(w, o, p);
        break;
    default:
        end_call(w, o, p);
        break;
    }
}

static void read_reply(const struct world *w, struct owner *o, const struct program *p, const struct request *r,
                       const struct effect *effect)
{
    struct end *end = &o->ends[r->end];

    o->wait = (struct request){0};
    switch (r->kind) {
    case REQUEST_FIRST_TRY:
    case REQUEST_TAKE:
    case REQUEST_DRAIN:
        read_take_reply(w, o, p, r, effect);
        break;
    case REQUEST_SET:
        o->pc++;
        break;
    case REQUEST_RELEASE:
        end->count = r->count;
        o->pc++;
        if (r->count == 0)
            end->deadline = 0;
        break;
    case REQUEST_GIVE:
        end->count = (uint8_t)(end->count - r->count);
        o->pc++;
        break;
    default:
        end->deadline = effect->outcome == LOCK_RENEWED ? later(end->deadline, confirmed_until(w, r)) : 0;
        o->pc++;
        break;
    }
}

/* ---- what can happen -------------------------------------------------------------------------------------------- */

static void expand_tick(struct world *w, const struct state *s, struct search *search)
{
    unsigned now = now_of(w, s);
    struct state t = *s;

    if (now >= (unsigned)w->scenario->ticks)
        return;
    set_image(&t, image_after_tick(w->images, image_of(s)));
    if (t.rival_deadline <= now + 1)
        t.rival_deadline = 0;
    search_reach(search, &t, "tick");
}

static uint8_t draw_number(const struct world *w, struct owner *o)
{
    o->drawn = w->scenario->rules->same_number ? 1 : (uint8_t)(o->drawn + 1);
    if (o->drawn >= NUMBERS_MAX)
        die("enumeration: more than %d numbers in a program", NUMBERS_MAX - 1);
    return o->drawn;
}

/* The request for the next operation of the program. */
static struct request next_request(const struct world *w, struct owner *o, const struct op *op, unsigned now)
{
    const struct end *end = &o->ends[op->end];
    struct request r = {.end = (uint8_t)op->end,
                        .number = end->number,
                        .count = end->count,
                        .lease = (uint8_t)op->lease,
                        .sent = (uint8_t)now};

    if ((op->kind == OP_LOCK || op->kind == OP_NEST) && op->end == LOCK_MANY && o->ends[LOCK_ONE].count > 0)
        r.mate = o->ends[LOCK_ONE].number;

    switch (op->kind) {
    case OP_LOCK:
        /* The cheap command is for a call's very first try. */
        r.kind = w->scenario->type->has_first_try && o->tries == TRIES_AFTER_REFUSAL && (o->flags & IN_DOUBT) == 0
                     ? REQUEST_FIRST_TRY
                     : REQUEST_TAKE;
        r.count = counts(w) ? (uint8_t)op->amount : 1;
        break;
    case OP_NEST:
        r.kind = REQUEST_TAKE;
        r.count++;
        break;
    case OP_UNLOCK:
        r.kind = w->scenario->type->scripts[LOCK_GIVE] != NULL ? REQUEST_GIVE : REQUEST_RELEASE;
        if (r.kind == REQUEST_RELEASE)
            r.count--;
        if (counts(w)) {
            r.number = draw_number(w, o);
            r.count = op->amount > 0 ? (uint8_t)op->amount : end->count;
        }
        break;
    case OP_DRAIN:
        r.kind = REQUEST_DRAIN;
        r.count = 0;
        break;
    case OP_SET:
        r.kind = REQUEST_SET;
        r.number = draw_number(w, o);
        r.count = (uint8_t)op->amount;
        break;
    default:
        r.kind = REQUEST_RENEW;
        break;
    }
    return r;
}

static void begin_call(const struct world *w, struct owner *o, uint8_t end)
{
    o->end = end;
    o->ends[end] = (struct end){.number = draw_number(w, o), .count = counts(w) ? o->ends[end].count : 0};
    o->flags = (o->flags | IN_CALL) & (uint8_t)~IN_DOUBT;
    o->sendings = o->last_sent = 0;
}

/* A take that may wait in a queue says which sending it is. */
static void count_sending(const struct world *w, struct owner *o, struct request *r)
{
    if (w->scenario->type->waits == NULL || r->kind != REQUEST_TAKE || r->count > 1)
        return;
    r->sending = ++o->sendings;
    o->last_sent = r->sent;
}

/* The program's next verb goes out. Nobody waits for a renewal. */
static void send_next(const struct world *w, struct state *t, size_t i, const struct op *op, struct search *search)
{
    struct owner *o = &t->owners[i];
    struct request r = next_request(w, o, op, now_of(w, t));
    unsigned conn = op->kind == OP_RENEW ? RENEWALS : o->conn;

    if (op->kind == OP_RENEW) {
        r.conn = RENEWALS;
        send(o, r);
        o->pc++;
    } else {
        if (op->kind == OP_UNLOCK && !counts(w) && o->ends[op->end].count == 1)
            o->ends[op->end].deadline = 0; /* given up from now on, whatever is answered */
        count_sending(w, o, &r);
        ask(o, r);
    }
    search_reach(search, t, "%c sends %s on c%u", (char)('A' + i), show(w, search, i, &r).at, conn);
}

static bool begins_call(const struct op *op)
{
    return op->kind == OP_LOCK || op->kind == OP_DRAIN;
}

static bool needs_hold(const struct op *op)
{
    return !begins_call(op) && op->kind != OP_SET && op->kind != OP_END;
}

/* The end whose hold has run out when the operation needs it; LOCK_ENDS: none. Others need what is held of any. */
static uint8_t lapsed_end(const struct owner *o, const struct op *op, unsigned now)
{
    uint8_t end = needs_hold(op) ? (uint8_t)op->end : held_end(o);

    return end != LOCK_ENDS && o->ends[end].deadline <= now ? end : LOCK_ENDS;
}

/* The program is over: what is still held is given back, then the owner is done. */
static void expand_end(const struct world *w, struct state *t, size_t i, struct search *search)
{
    struct owner *o = &t->owners[i];
    uint8_t end = held_end(o);

    if (end == LOCK_ENDS || !undoes(w)) {
        o->flags |= DONE;
        search_reach(search, t, "%c is done", (char)('A' + i));
    } else {
        ask(o, last_release(o, w->scenario->owners[i], end, now_of(w, t)));
        search_reach(search, t, "%c gives back %s on c%u", (char)('A' + i), show(w, search, i, &o->wait).at, o->conn);
    }
}

/* The owner waits for nothing: what it does next. */
static void expand_program(struct world *w, const struct state *s, size_t i, struct search *search)
{
    char who = (char)('A' + i);
    const struct program *p = w->scenario->owners[i];
    unsigned now = now_of(w, s);
    struct state t = *s;
    struct owner *o = &t.owners[i];
    const struct op *op = &p->ops[o->pc == PC_UNDO ? 0 : o->pc];
    uint8_t lapsed = lapsed_end(o, op, now);

    if (o->pc == PC_UNDO) {
        ask(o, last_release(o, p, o->end, now));
        search_reach(search, &t, "%c gives up, undoes its take on c%u", who, o->conn);
    } else if (op->kind == OP_END || (needs_hold(op) && o->ends[op->end].count == 0)) {
        expand_end(w, &t, i, search);
    } else if (lapsed != LOCK_ENDS) {
        ask(o, last_release(o, p, lapsed, now));
        search_reach(search, &t, "%c has lost its hold, tidies up on c%u", who, o->conn);
    } else {
        if (begins_call(op) && (o->flags & IN_CALL) == 0)
            begin_call(w, o, (uint8_t)op->end);
        send_next(w, &t, i, op, search);
    }
}

/* A renewal's reply counts for the hold that it was sent for. */
static void read_renewal(const struct world *w, struct owner *o, const struct request *r, enum lock_outcome outcome,
                         unsigned now)
{
    struct end *end = &o->ends[r->end];

    if (outcome == LOCK_RENEWED && end->deadline > now && end->number == r->number)
        end->deadline = later(end->deadline, confirmed_until(w, r));
}

/* The server runs the first request of a connection, the owner's at-th. */
static void expand_server(struct world *w, const struct state *s, size_t i, size_t at, struct search *search)
{
    char who = (char)('A' + i);
    struct state t = *s;
    struct owner *o = &t.owners[i];
    struct request r = unsend(o, at);
    unsigned conn = r.conn;
    struct effect effect;
    bool waited_for;

    if (r.kind == REQUEST_KILL) {
        kill_conn(o, r.number);
        search_reach(search, &t, "server: %c's c%u: kill c%u", who, conn, r.number);
        return;
    }
    effect = run_request(w, &t, i, &r);
    waited_for = conn == o->conn && (o->flags & REPLY_LOST) == 0 && memcmp(&o->wait, &r, sizeof r) == 0;
    if (conn == RENEWALS) {
        read_renewal(w, o, &r, effect.outcome, now_of(w, s));
    } else if (waited_for) {
        if (t.faults > 0) {
            struct state lost = t;

            lost.owners[i].flags |= REPLY_LOST;
            search_reach(search, &lost, "server: %c's c%u: %s -> %s; the reply is lost", who, conn,
                         show(w, search, i, &r).at, outcome_name(effect.outcome));
        }
        read_reply(w, o, w->scenario->owners[i], &r, &effect);
    }
    search_reach(search, &t, "server: %c's c%u: %s -> %s%s", who, conn, show(w, search, i, &r).at,
                 outcome_name(effect.outcome), waited_for ? ", read" : "");
}

/* A new connection, which begins by killing what the rules want killed. */
static void reconnect(const struct world *w, struct owner *o)
{
    unsigned left = o->conn++;
    enum close_rule close = w->scenario->rules->close;
    unsigned first = close == CLOSE_KILLS_ALL ? FIRST_CONN : close == CLOSE_KILLS_LAST ? left : o->conn;

    o->flags &= (uint8_t)~REPLY_LOST;
    if (is_take(&o->wait))
        o->flags |= IN_DOUBT;
    for (unsigned conn = first; conn < o->conn; conn++)
        send(o, (struct request){.kind = REQUEST_KILL, .conn = o->conn, .number = (uint8_t)conn});
}

/* Give a nested take up: back to the confirmed count, and on with the program after it. */
static struct request back_to_confirmed(const struct owner *o, unsigned now)
{
    const struct end *end = &o->ends[o->wait.end];

    return (struct request){.kind = REQUEST_RELEASE,
                            .end = o->wait.end,
                            .number = end->number,
                            .count = end->count,
                            .lease = 1,
                            .sent = (uint8_t)now};
}

/* The owner no longer waits: it releases what the take it waits for may have done. */
static void give_up(const struct world *w, struct owner *o, const struct program *p, unsigned now)
{
    ask(o, o->wait.count > 1 && !counts(w) ? back_to_confirmed(o, now) : last_release(o, p, o->wait.end, now));
}

/* The owner gives the connection up while it waits. */
static void expand_drop(struct world *w, const struct state *s, size_t i, struct search *search)
{
    char who = (char)('A' + i);
    unsigned now = now_of(w, s);
    struct state t = *s;
    struct owner *o = &t.owners[i];
    struct request again = o->wait;

    t.faults--;
    reconnect(w, o);
    if (is_take(&again) && undoes(w) && (again.count == 1 || w->scenario->rules->gives_up_live)) {
        struct state u = t;

        give_up(w, &u.owners[i], w->scenario->owners[i], now);
        search_reach(search, &u, "%c drops c%u, gives up, releases on c%u", who, o->conn - 1, o->conn);
    }
    again.sent = (uint8_t)now;
    if (again.kind == REQUEST_FIRST_TRY)
        again.kind = REQUEST_TAKE;
    count_sending(w, o, &again);
    ask(o, again);
    search_reach(search, &t, "%c drops c%u, repeats %s on c%u", who, o->conn - 1, show(w, search, i, &again).at,
                 o->conn);
}

/* The connection lives, and the reply takes too long. */
static void expand_late(struct world *w, const struct state *s, size_t i, struct search *search)
{
    struct state t = *s;
    struct owner *o = &t.owners[i];
    unsigned now = now_of(w, s);

    t.faults--;
    if (is_take(&o->wait) && undoes(w)) {
        give_up(w, o, w->scenario->owners[i], now);
        search_reach(search, &t, "%c waits no longer, gives up, releases on c%u", (char)('A' + i), o->conn);
    } else if (o->wait.kind == REQUEST_RENEW) {
        o->wait = (struct request){0};
        o->pc++;
        search_reach(search, &t, "%c waits no longer for its extension", (char)('A' + i));
    }
}

/* Until when the hold is valid that the message tells of; 0: the message is about something else. */
static unsigned granted_until(const struct world *w, const struct owner *o, unsigned lease, unsigned now)
{
    enum grant_rule rule = w->scenario->rules->grant;
    unsigned life = (unsigned)w->scenario->type->life;
    unsigned sure = lease < life || rule == GRANT_FOR_WHOLE_LEASE ? lease : life;

    if (o->told.number != o->ends[o->end].number || (o->told.sending != o->sendings && rule != GRANT_OF_ANY_SENDING))
        return 0;
    return (rule == GRANT_FROM_READING ? now : o->last_sent) + sure;
}

/* The owner reads that it was granted the lock. */
static void expand_told(struct world *w, const struct state *s, size_t i, struct search *search)
{
    struct state t = *s;
    struct owner *o = &t.owners[i];
    unsigned now = now_of(w, s), until = 0;

    if ((o->flags & IN_CALL) != 0 && o->pc != PC_UNDO)
        until = granted_until(w, o, (unsigned)w->scenario->owners[i]->ops[o->pc].lease, now);
    o->told = (struct grant){0};
    if (until > now) {
        o->flags &= (uint8_t)~IN_CALL;
        o->ends[o->end].count = 1;
        o->ends[o->end].deadline = (uint8_t)until;
        o->pc++;
    }
    search_reach(search, &t, "%c reads that the lock is its%s", (char)('A' + i), until > now ? "" : ", to no use");
}

static void expand_owner(struct world *w, const struct state *s, size_t i, struct search *search)
{
    const struct owner *o = &s->owners[i];

    if ((o->flags & DONE) == 0 && !is_waiting(o))
        expand_program(w, s, i, search);
    if (o->told.number > 0 && !is_waiting(o))
        expand_told(w, s, i, search);
    for (size_t at = 0; at < o->queued; at++)
        if (is_first(o, at))
            expand_server(w, s, i, at, search);
    if (!is_waiting(o) || s->faults == 0)
        return;
    expand_drop(w, s, i, search);
    if (w->scenario->rules->gives_up_live && (o->flags & REPLY_LOST) == 0)
        expand_late(w, s, i, search);
}

/* A rival that reads may die, and its watchdog renews if there is a script for it. */
static void expand_peer(struct world *w, const struct state *s, const struct request *take, struct search *search)
{
    struct request renew = *take;
    struct state t = *s;

    renew.kind = REQUEST_PEER_RENEW;
    if (s->rival_turns > 0 && w->scenario->rules->planted[LOCK_PEER_RENEW] != NULL) {
        (void)run_request(w, &t, RIVAL, &renew);
        t.rival_deadline = (uint8_t)(now_of(w, s) + RIVAL_LEASE);
        t.rival_turns--;
        search_reach(search, &t, "the rival's watchdog renews");
    }
    t = *s;
    t.rival_deadline = t.rival_turns = 0;
    search_reach(search, &t, "the rival dies");
}

/* The rival's take and release are sent, run and answered in one step. */
static void expand_rival(struct world *w, const struct state *s, struct search *search)
{
    uint8_t end = (uint8_t)w->scenario->rival_end;
    struct request take = {.kind = REQUEST_TAKE, .end = end, .number = RIVAL_NUMBER, .count = 1, .lease = RIVAL_LEASE};
    struct request release = {.kind = REQUEST_RELEASE, .end = end, .number = RIVAL_NUMBER, .lease = 1};
    struct state t = *s;

    if (s->rival_deadline > 0) {
        (void)run_request(w, &t, RIVAL, &release);
        t.rival_deadline = 0;
        search_reach(search, &t, "the rival releases");
        if (end == LOCK_MANY)
            expand_peer(w, s, &take, search);
    } else if (s->rival_turns > 0) {
        struct effect effect = run_request(w, &t, RIVAL, &take);

        if (effect.outcome != LOCK_TAKEN && effect.outcome != LOCK_HELD_ALREADY)
            return;
        t.rival_deadline = (uint8_t)(now_of(w, s) + RIVAL_LEASE);
        t.rival_turns--;
        search_reach(search, &t, "the rival takes the lock");
    }
}

static void expand(void *arg, const void *bytes, struct search *search)
{
    struct world *w = arg;
    struct state s = {0};

    memcpy(&s, bytes, offsetof(struct state, owners) + w->owners * sizeof(struct owner));
    expand_tick(w, &s, search);
    for (size_t i = 0; i < w->owners; i++)
        expand_owner(w, &s, i, search);
    expand_rival(w, &s, search);
}

/* ---- the world's life ------------------------------------------------------------------------------------------- */

static void first_state(void *arg, void *ret)
{
    struct world *w = arg;
    struct state s = {.faults = (uint8_t)w->scenario->faults, .rival_turns = (uint8_t)w->scenario->rival_turns};

    for (size_t i = 0; i < w->owners; i++)
        s.owners[i] = (struct owner){.conn = FIRST_CONN, .tries = TRIES_AFTER_REFUSAL};
    memcpy(ret, &s, offsetof(struct state, owners) + w->owners * sizeof(struct owner));
}

struct search_result enumerate(const struct scenario *scenario, size_t limit, unsigned *ret_outcomes)
{
    struct world w = {.scenario = scenario};
    struct search_model model = {.world = &w, .first = first_state, .expand = expand, .wrong = wrong};
    struct search_result result;

    if (scenario->faults > FAULTS_MAX || scenario->ticks > TICKS_MAX)
        die("enumeration: more than %d faults or %d ticks", FAULTS_MAX, TICKS_MAX);
    while (w.owners < OWNERS_MAX && scenario->owners[w.owners] != NULL)
        w.owners++;
    w.images = images_open(scenario->type, scenario->rules->planted);
    model.state_size = offsetof(struct state, owners) + w.owners * sizeof(struct owner);
    result = search_run(&model, limit);
    if (ret_outcomes != NULL)
        *ret_outcomes = images_outcomes(w.images);
    images_close(w.images);
    return result;
}
