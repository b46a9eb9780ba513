/* SPDX-License-Identifier: MIT */
#include "tests/script/kept_client.h"
#include "core/call/cached.h"
#include "core/call/inner.h"
#include "tests/script/numbered.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_MS 1000
#define TRIP_NS (2 * RDL__MS)

static struct client blocks[KEPT_CLIENTS], firsts[KEPT_CLIENTS];
static rdl_client_t shells[KEPT_CLIENTS]; /* what never changes, but for what a block has of it */
static unsigned client_count;
static bool two_are_one; /* the first two actors are one owner */
static struct numbered states;
static struct rdl__mem heap;

struct client *client_at(unsigned i)
{
    return &blocks[i];
}

struct client *client_of(const rdl_client_t *shell)
{
    return &blocks[shell - shells];
}

static unsigned owner_of(unsigned actor)
{
    return two_are_one && actor == 1 ? 0 : actor;
}

static enum lock_end end_of(const struct rdl__lock_ops *ops)
{
    return rdl__news_shares(ops->news) ? LOCK_MANY : LOCK_ONE;
}

struct actor *actor_of(const struct rdl__task *task)
{
    for (unsigned i = 0; i < client_count; i++)
        for (unsigned k = 0; k < KEPT_ACTORS; k++)
            if (task == &blocks[i].actors[k].call.task)
                return &blocks[i].actors[k];
    return NULL;
}

/* ---- what it sends ---------------------------------------------------------------------------------------------- */

static void push(struct actor *a, enum sent_kind kind, uint16_t command)
{
    if (a->queued == KEPT_QUEUE)
        die("enumeration: more than %d requests of an owner", KEPT_QUEUE);
    a->queue[a->queued].kind = (uint8_t)kind;
    a->queue[a->queued++].command = command;
}

static uint16_t number_words(struct rdl__buf *words)
{
    uint16_t number = server_command(words->data, words->len);

    rdl__buf_done(words);
    return number;
}

static void send_call(struct actor *a)
{
    struct rdl__buf words;

    rdl__buf_init(&words, &heap);
    a->call.verb->encode(&a->call, &words, false);
    push(a, SENT_ASKS, number_words(&words));
    a->phase = ACTOR_SENT;
    a->heard = false;
}

uint16_t client_wish(struct client *c, unsigned actor)
{
    struct rdl__call *call = &c->actors[actor].call;
    struct rdl__buf words;

    rdl__buf_init(&words, &heap);
    call->verb->encode(call, &words, false);
    return number_words(&words);
}

static void send_undo(struct actor *a)
{
    struct rdl__buf words;

    rdl__buf_init(&words, &heap);
    a->call.verb->put_undo(&a->call, &words, false);
    push(a, SENT_LEFT, number_words(&words));
}

/* ---- who waits at the server ------------------------------------------------------------------------------------ */

static bool shares(const struct actor *a)
{
    return rdl__news_shares(a->call.ops->news);
}

static void wake_first(struct client *c, bool readers)
{
    struct actor *first = NULL;

    for (unsigned k = 0; k < KEPT_ACTORS; k++) {
        struct actor *a = &c->actors[k];

        if (a->phase == ACTOR_ASLEEP && !a->woken && shares(a) == readers && (!first || a->place < first->place))
            first = a;
    }
    if (first != NULL)
        first->heard = first->woken = true;
}

void client_wake(struct client *c)
{
    for (unsigned k = 0; k < KEPT_ACTORS; k++)
        c->actors[k].heard |= c->actors[k].phase == ACTOR_SENT;
    wake_first(c, false);
    wake_first(c, true);
}

static void join(struct client *c, struct actor *a)
{
    if (a->place != 0)
        return;
    for (unsigned k = 0; k < KEPT_ACTORS; k++)
        a->place = c->actors[k].place > a->place ? c->actors[k].place : a->place;
    a->place++;
    if (rdl__news_counted(a->call.ops->news))
        atomic_fetch_add(&c->name->waiting, 1);
}

static void stop_waiting(struct client *c, struct actor *a, int rc)
{
    uint8_t place = a->place;

    if (place == 0)
        return;
    if (rdl__news_counted(a->call.ops->news))
        atomic_fetch_sub(&c->name->waiting, 1);
    a->place = 0;
    for (unsigned k = 0; k < KEPT_ACTORS; k++)
        c->actors[k].place = (uint8_t)(c->actors[k].place - (c->actors[k].place > place));
    a->phase = ACTOR_FREE;
    for (unsigned k = 0; k < KEPT_ACTORS && rc == RDL_OK && shares(a); k++)
        wake_first(c, true);
    if (rc != RDL_OK && a->woken) {
        wake_first(c, false);
        wake_first(c, true);
    }
}

/* ---- a call, driven --------------------------------------------------------------------------------------------- */

static void finish(struct client *c, struct actor *a, int rc, bool undo)
{
    void (*fn)(rdl_lock_t *, int64_t, const rdl_err_t *, void *) =
        (void (*)(rdl_lock_t *, int64_t, const rdl_err_t *, void *))a->fn;
    rdl_lock_t *lock = a->call.op.lock;
    void *arg = a->arg;

    stop_waiting(c, a, rc);
    if (a->call.verb->ended != NULL)
        a->call.verb->ended(&a->call, rc);
    if (undo)
        send_undo(a);
    a->call.rec->active = NULL;
    memset(&a->call, 0, sizeof a->call);
    a->fn = NULL;
    a->arg = NULL;
    a->phase = ACTOR_FREE;
    a->posted = a->heard = a->woken = a->answered = a->canceled = false;
    if (a != &c->actors[KEEPER])
        a->pc++;
    if (fn != NULL)
        fn(lock, rc, NULL, arg);
}

static void drive(struct client *c, struct actor *a, rdl__step_t step)
{
    while (step.what == RDL__DO_WAIT) {
        join(c, a);
        a->phase = ACTOR_ASLEEP;
        a->woken = a->heard;
        if (!a->heard)
            return;
        a->heard = false;
        step = a->call.verb->woken(&a->call, CLIENT_NOW);
    }
    if (step.what == RDL__DO_SEND)
        send_call(a);
    else if (step.what == RDL__DO_STAY)
        a->phase = ACTOR_STAYS;
    else if (step.what == RDL__DO_FINISH)
        finish(c, a, step.rc, step.undo);
    else
        die("enumeration: a step that no verb here has");
}

static void begin(struct client *c, struct actor *a, const struct rdl__order *order)
{
    struct rdl__call *call = &a->call;

    if (a->phase != ACTOR_FREE)
        die("enumeration: a verb begins inside the last one");
    call->verb = order->verb;
    call->ops = order->ops;
    call->one_try = order->wait_ms == 0;
    call->op.lock = order->lock;
    call->op.owner = order->owner;
    call->op.wait_ms = order->wait_ms;
    call->op.lease_ms = order->lease_ms;
    call->n = order->n;
    call->deadline = RDL__NEVER;
    call->shard = call->sent_to = &c->name->client->home;
    atomic_store(&call->phase, RDL__ASLEEP);
    rdl__list_init(&call->waiter.link);
    rdl__task_init(&call->task, NULL);
    rdl__req_init(&call->req, &rdl__loop_ops);
    call->rec = c->records[owner_of((unsigned)(a - c->actors))][end_of(order->ops)];
    if (call->rec->active != NULL)
        die("enumeration: two verbs of one owner at one end");
    call->rec->active = call;
    a->fn = order->fn;
    a->arg = order->arg;
    drive(c, a, call->verb->begin(call, CLIENT_NOW));
}

void client_orders(struct client *c, const struct rdl__order *order)
{
    begin(c, &c->actors[KEEPER], order);
}

static void ends_inside(struct client *c, unsigned owner)
{
    struct actor *a = &c->actors[owner];

    for (int end = 0; end < LOCK_ENDS; end++) {
        struct rdl__record *rec = c->records[owner][end];

        if (!client_believes(c, owner, (enum lock_end)end))
            continue;
        a->dead[end] = (int8_t)(rdl__cache_is_local(rec) ? c->cache->keep.n : rec->hold.id.n);
        rec->orphaned = true;
        if (rdl__cache_is_local(rec))
            rdl__cache_abandon(rec, false);
        rec->count = 0;
    }
    a->pc++;
}

void client_begin(struct client *c, unsigned actor, char verb)
{
    unsigned owner = owner_of(actor);
    enum lock_end end = strchr("RrS", verb) != NULL ? LOCK_MANY : LOCK_ONE;
    struct rdl__order order = {
        .lock = c->handles[end],
        .ops = c->handles[end]->ops,
        .owner = c->owners[owner],
        .lease_ms = RDL_LEASE_AUTO,
        .wait_ms = strchr("TS", verb) != NULL ? 0 : RDL_WAIT_FOREVER,
        .verb = strchr("rw", verb) != NULL ? &rdl__cached_release : &rdl__cached_take,
    };

    if (verb == 'x')
        ends_inside(c, owner);
    else if (verb == '=')
        c->actors[actor].pc++;
    else if (order.verb == &rdl__cached_release && c->records[owner][end]->count == 0)
        c->actors[actor].pc++; /* the take has failed */
    else
        begin(c, &c->actors[actor], &order);
}

void client_read(struct client *c, unsigned actor)
{
    struct actor *a = &c->actors[actor];
    const struct rdl__reply reply = {.type = RDL__REPLY_INT, .integer = a->answer};

    a->answered = false;
    a->answer = 0;
    a->call.verb->decode(&a->call, &reply);
    drive(c, a, a->call.verb->answered(&a->call, CLIENT_NOW));
}

void client_go(struct client *c, unsigned actor)
{
    struct actor *a = &c->actors[actor];

    a->posted = a->heard = false;
    drive(c, a, a->call.verb->woken(&a->call, CLIENT_NOW));
}

/* A try that is under way becomes its undo, which goes behind it on its connection. */
void client_cancel(struct client *c, unsigned actor)
{
    struct actor *a = &c->actors[actor];
    struct rdl__take_event ev = {.kind = RDL__EV_STOPPED, .code = RDL_ECANCELED};
    rdl__step_t step;

    a->canceled = false;
    if (a->phase == ACTOR_SENT) {
        ev.unsure = true;
        if (!a->answered)
            a->queue[a->queued - 1].kind = SENT_LEFT;
        send_undo(a);
    }
    step = rdl__take_on(&a->call.take, &ev);
    finish(c, a, step.rc, step.undo);
}

/* All that it has sent is that one request, and nothing else is late. */
bool client_may_lose(const struct client *c, unsigned actor)
{
    const struct actor *a = &c->actors[actor];

    return a->phase == ACTOR_SENT && a->late == 0 && a->queued == !a->answered;
}

void client_lose(struct client *c, unsigned actor, bool gives_up, bool kills)
{
    struct actor *a = &c->actors[actor];
    struct rdl__buf words;

    if (a->queued > 0) {
        a->late = (uint16_t)(a->queue[0].command + 1);
        memset(a->queue, 0, sizeof a->queue);
        a->queued = 0;
        if (kills)
            push(a, SENT_KILL, 0);
    }
    a->answered = false;
    a->answer = 0;
    a->call.req.resent = true;
    if (gives_up) {
        a->call.req.rc = RDL_EUNKNOWN;
        drive(c, a, a->call.verb->answered(&a->call, CLIENT_NOW));
        return;
    }
    rdl__buf_init(&words, &heap);
    a->call.verb->encode(&a->call, &words, false);
    push(a, SENT_ASKS, number_words(&words));
}

bool client_believes(const struct client *c, unsigned owner, enum lock_end end)
{
    const struct rdl__record *rec = c->records[owner][end];

    return rec->count > 0 && (!rdl__cache_is_local(rec) || (rec->inside && rec->hold.id.n < c->cache->ended_n));
}

void client_field(char ret[KEPT_FIELD], unsigned i, enum lock_end end, int64_t n)
{
    (void)snprintf(ret, KEPT_FIELD, "%s:%d%s", shells[i].uuid.text, (int)n, end == LOCK_ONE ? ":write" : "");
}

/* ---- its loop, its clock and its subscription ------------------------------------------------------------------- */

void client_on_loop(struct client *c)
{
    c->cache->task.run(&c->cache->task, CLIENT_NOW);
}

void client_on_timer(struct client *c)
{
    c->timer_at = 0;
    c->cache->timer.fire(&c->cache->timer, CLIENT_NOW);
}

static void sooner(int64_t *at, int64_t other)
{
    if (other > CLIENT_NOW && (*at == 0 || other < *at))
        *at = other;
}

int64_t client_next_moment(const struct client *c)
{
    const struct rdl__keep *keep = &c->cache->keep;
    int64_t at = 0;

    sooner(&at, c->timer_at);
    if (keep->state == RDL__KEEP_HELD && keep->wanted)
        sooner(&at, rdl__after_ms(keep->wanted_since, RDL__PASSES_MS));
    return at;
}

/* A time is so much nearer, or further in the past; beyond `past` nobody asks how far. */
static void bring(int64_t *at, int64_t by, int64_t past)
{
    if (*at == 0)
        return;
    *at -= by;
    if (*at < CLIENT_NOW - past)
        *at = CLIENT_NOW - past;
}

void client_pass(struct client *c)
{
    int64_t by = client_next_moment(c) - CLIENT_NOW;

    bring(&c->timer_at, by, 0);
    bring(&c->cache->keep.until, by, 0);
    bring(&c->cache->keep.wanted_since, by, RDL__PASSES_MS * RDL__MS);
    bring(&c->cache->used_at, by, CACHE_MS * RDL__MS);
}

void client_confirm(struct client *c)
{
    c->subscribing = false;
    c->subscribed = true;
    c->said[c->said_count++] = 0;
}

static void shift(struct client *c)
{
    c->said_count--;
    memmove(&c->said[0], &c->said[1], sizeof c->said - sizeof c->said[0]);
    c->said[KEPT_SAID - 1] = 0;
}

static void tell(struct client *c, int n)
{
    char text[16];

    if (n == 0) {
        c->cache->topic.ops->subscribed(&c->cache->topic, CLIENT_NOW);
        return;
    }
    (void)snprintf(text, sizeof text, "%d", -n);
    c->cache->topic.ops->message(&c->cache->topic, text, strlen(text), CLIENT_NOW);
}

void client_told(struct client *c)
{
    int n = c->said[0];

    shift(c);
    tell(c, n);
}

void client_told_wrongly(struct client *c, bool twice)
{
    if (twice)
        tell(c, c->said[0]);
    else
        shift(c);
}

void client_cut(struct client *c)
{
    c->subscribing = c->subscribed = false;
    c->said_count = 0;
    memset(c->said, 0, sizeof c->said);
    c->broken = true;
}

void client_notice(struct client *c)
{
    c->broken = false;
    c->subscribing = true;
    c->cache->topic.ops->interrupted(&c->cache->topic, CLIENT_NOW);
}

void client_end(struct client *c)
{
    struct rdl__debt *debt = &c->cache->debt;

    struct actor *keeper = &c->actors[KEEPER];

    c->closed = true;
    atomic_store(&c->name->client->closing, true);
    if (keeper->phase != ACTOR_FREE && keeper->call.verb->acquires)
        keeper->canceled = true;
    if (!rdl__link_on(&debt->link))
        return;
    rdl__list_remove(&debt->link);
    debt->pay(debt);
}

/* ---- states ----------------------------------------------------------------------------------------------------- */

/* What makes no difference any more is as at first. */
static void settle(struct client *c)
{
    struct rdl__cache *cache = c->cache;
    struct rdl__keep *keep = &cache->keep;
    bool local = false;

    for (unsigned k = 0; k < KEPT_ACTORS; k++) {
        for (int end = 0; end < LOCK_ENDS; end++) {
            struct rdl__record *rec = c->records[k][end];

            local = local || rdl__cache_is_local(rec);
            if (rec->count > 0 || rec->inside)
                continue;
            rec->hold.id = (struct rdl__hold_id){0};
            rec->hold.deadline = rec->held_since = 0;
            rdl__record_set_ends_by(rec, 0);
            rec->renewed = rec->may_come = rec->risk_told = false;
        }
    }
    if (!local) {
        cache->local_n = RDL__LOCAL_NUMBERS - 1;
        cache->ended_n = 0;
    }
    if (keep->state == RDL__KEEP_NONE) {
        keep->until = keep->wanted_since = 0;
        keep->end = 0;
        keep->passes = keep->local = 0;
        keep->stretched = keep->sound = keep->begun = false;
        keep->recalled = 0;
    }
    if (cache->engaged && keep->state != RDL__KEEP_NONE)
        cache->used_at = CLIENT_NOW;
    keep->doublings = cache->doublings = 0;
    keep->takes = cache->takes = 2;
    c->next_n = atomic_load(&c->name->client->next_n);
    c->cached_names = atomic_load(&c->name->client->cached_names);
}

#define WORD sizeof(uint64_t)
#define CHUNK (16 * WORD)

static size_t live_words(unsigned i)
{
    return (offsetof(struct client, arena) + firsts[i].used) / WORD;
}

/* The words in which a block differs from the first, each with its place. */
uint32_t client_save(unsigned i)
{
    static char packed[sizeof(struct client) * 2];
    const char *at = (const char *)&blocks[i], *first = (const char *)&firsts[i];
    size_t len = 0, words = live_words(i);

    settle(&blocks[i]);
    for (size_t word = 0; word < words; word++) {
        uint16_t place = (uint16_t)word;

        if (word * WORD % CHUNK == 0 && memcmp(at + word * WORD, first + word * WORD, CHUNK) == 0) {
            word += CHUNK / WORD - 1;
            continue;
        }
        if (memcmp(at + word * WORD, first + word * WORD, WORD) == 0)
            continue;
        memcpy(packed + len, &place, sizeof place);
        memcpy(packed + len + sizeof place, at + word * WORD, WORD);
        len += sizeof place + WORD;
    }
    return numbered_add(&states, packed, len);
}

void client_load(unsigned i, uint32_t number)
{
    struct client *c = &blocks[i];
    rdl_client_t *shell = &shells[i];
    size_t len;
    const char *packed = numbered_get(&states, number, &len);
    uint16_t word;

    memcpy(c, &firsts[i], live_words(i) * WORD);
    for (size_t at = 0; at < len; at += sizeof word + WORD) {
        memcpy(&word, packed + at, sizeof word);
        memcpy((char *)c + word * WORD, packed + at + sizeof word, WORD);
    }
    atomic_store(&shell->next_n, c->next_n);
    atomic_store(&shell->cached_names, c->cached_names);
    atomic_store(&shell->closing, c->closed);
    rdl__list_init(&shell->debts);
    rdl__list_init(&shell->cached);
    if (!c->cache->engaged)
        return;
    shell->cached.next = shell->cached.prev = &c->cache->room;
    if (rdl__link_on(&c->cache->debt.link))
        shell->debts.next = shell->debts.prev = &c->cache->debt.link;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static void *arena_alloc(size_t size, void *arg)
{
    struct client *c = arg;
    size_t at = (c->used + 15) / 16 * 16;

    if (at + size > sizeof c->arena)
        die("enumeration: a client wants more than %zu bytes", sizeof c->arena);
    c->used = (at + size + 15) / 16 * 16;
    return c->arena + at;
}

static void arena_free(void *block, size_t size, void *arg)
{
    (void)block;
    (void)size;
    (void)arg;
}

static void open_shell(struct client *c, rdl_client_t *shell, char letter)
{
    rdl_allocator_t hooks = {.alloc = arena_alloc, .free = arena_free, .arg = c};

    memset(shell, 0, sizeof *shell);
    rdl__mem_init(&shell->mem, &hooks);
    memset(shell->uuid.text, letter, RDL__UUID_LEN);
    for (int dash = 8; dash < 24; dash += 5)
        shell->uuid.text[dash] = '-';
    shell->forkmark.page = (const volatile unsigned char *)"\1";
    rdl__client_renews_for(shell, KEPT_LEASE_MS);
    shell->command_timeout_ms = 3000;
    shell->cache_names = 1000;
    shell->home.client = shell;
    shell->home.lane_count = 1;
    shell->home.node.loop = (struct rdl__loop *)(void *)shell;
    shell->home.sub = (struct rdl__subscriber *)(void *)shell;
    atomic_store(&shell->home.node.round_trip, TRIP_NS);
    atomic_store(&shell->refs, 1000);
    atomic_store(&shell->next_n, 1);
    rdl__list_init(&shell->debts);
    rdl__list_init(&shell->cached);
    rdl__list_init(&shell->owners);
    if (rdl__mutex_init(&shell->close_mu) < 0 || rdl__mutex_init(&shell->names_mu) < 0 ||
        rdl__mutex_init(&shell->owners_mu) < 0 || rdl__table_init(&shell->names, &shell->mem) < 0)
        die("enumeration: no client");
}

static void make_records(struct client *c)
{
    c->owners[KEEPER] = c->cache->keeper;
    for (unsigned k = 0; k < KEPT_ACTORS; k++) {
        if (k != KEEPER && rdl_owner_new(c->name->client, &c->owners[k], NULL) < 0)
            die("enumeration: no owner");
        for (int end = 0; end < LOCK_ENDS; end++) {
            rdl__mutex_lock(&c->name->mu);
            if (rdl__record_make(c->name, c->owners[k], c->handles[end]->ops, &c->records[k][end]) < 0)
                die("enumeration: no record");
            rdl__mutex_unlock(&c->name->mu);
            atomic_store(&c->records[k][end]->refs, 1000);
        }
    }
}

static void open_client(unsigned i, bool heard)
{
    struct client *c = &blocks[i];
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;

    memset(c, 0, sizeof *c);
    open_shell(c, &shells[i], (char)('a' + i));
    options.cache_ms = CACHE_MS;
    if (rdl_write_lock(&shells[i], KEPT_NAME, &options, &c->handles[LOCK_ONE], NULL) < 0 ||
        rdl_read_lock(&shells[i], KEPT_NAME, &options, &c->handles[LOCK_MANY], NULL) < 0)
        die("enumeration: no lock");
    c->name = c->handles[LOCK_ONE]->name;
    c->cache = c->name->cache;
    make_records(c);
    c->cache->used_at = CLIENT_NOW;
    if (heard) {
        rdl__mutex_lock(&c->name->mu);
        c->cache->to_engage = true;
        rdl__cache_post(c->cache);
        rdl__mutex_unlock(&c->name->mu);
        client_on_loop(c);
        client_confirm(c);
        client_told(c);
    }
    settle(c);
    memcpy(&firsts[i], c, sizeof *c);
}

void clients_open(unsigned count, bool heard, bool twins)
{
    rdl__mem_init(&heap, NULL);
    client_count = count;
    two_are_one = twins;
    for (unsigned i = 0; i < count; i++)
        open_client(i, heard);
}

void clients_close(void)
{
    numbered_done(&states);
}
