/* SPDX-License-Identifier: MIT */
#include "locks/counted/once.h"

#include "core/service/scripts.h"
#include "scripts/scripts.h"

#include <string.h>

#define GUARD_MS                                                                                                       \
    INT64_C(3600000) /* how long a guard outlasts the last repeat: an undo may have to wait for the server */
#define SETTLED_MOST (sizeof((struct rdl__settled *)0)->n / sizeof((struct rdl__settled *)0)->n[0])

int64_t rdl__guard_ms(const rdl_client_t *client)
{
    return client->outage_timeout_ms + GUARD_MS;
}

/* ---- guards that may go ----------------------------------------------------------------------------------------- */

void rdl__once_number(struct rdl__call *call)
{
    struct rdl__name *name = rdl__call_name(call);

    call->n = rdl__client_number(name->client);
    rdl__mutex_lock(&name->mu);
    if (name->settled == NULL)
        name->settled = rdl__zalloc(&name->client->mem, sizeof *name->settled); /* without it guards expire */
    if (name->settled != NULL && name->settled->count > 0)
        call->guard.settled_n = name->settled->n[--name->settled->count];
    rdl__mutex_unlock(&name->mu);
}

static void sweep(struct rdl__name *name, const struct rdl__settled *settled);

/* Note that the guard may be deleted. When SETTLED_MOST are noted, since many calls were under way at once, a DEL is
 * sent for them instead of waiting for a verb. */
static void settle(struct rdl__name *name, int64_t n)
{
    struct rdl__settled full = {0};

    rdl__mutex_lock(&name->mu);
    if (name->settled != NULL) {
        if (name->settled->count == SETTLED_MOST) {
            full = *name->settled;
            name->settled->count = 0;
        }
        name->settled->n[name->settled->count++] = n;
    }
    rdl__mutex_unlock(&name->mu);
    sweep(name, &full);
}

void rdl__once_settled(const struct rdl__call *call, int64_t now)
{
    (void)now;
    if (!rdl__call_may_come(call))
        settle(rdl__call_name(call), call->n);
}

void rdl__once_ended(struct rdl__call *call, int rc)
{
    if (call->guard.settled_n != 0)
        settle(rdl__call_name(call), call->guard.settled_n);
    if (rc == RDL_EUNKNOWN && !call->verb->has_successor)
        rdl__once_settled(call, 0);
}

/* ---- the replay log ---------------------------------------------------------------------- */

/* A confirmed request, as it was sent. */
struct replay_request {
    struct rdl__name *name;
    _Atomic unsigned refs;
    int script;
    int64_t guard; /* to be deleted when the log drops it; 0: none */
    size_t len;
    char bytes[];
};

static void encode_replay(const struct rdl__replay_entry *entry, struct rdl__buf *to, bool eval)
{
    const struct replay_request *replay = entry->of;

    if (eval)
        rdl__script_with_text(to, replay->script, replay->bytes, replay->len);
    else
        rdl__buf_put(to, replay->bytes, replay->len);
}

static void keep_replay(const struct rdl__replay_entry *entry)
{
    atomic_fetch_add(&((struct replay_request *)entry->of)->refs, 1);
}

static void drop_replay(const struct rdl__replay_entry *entry)
{
    struct replay_request *replay = entry->of;
    struct rdl__name *name = replay->name;

    if (atomic_fetch_sub(&replay->refs, 1) != 1)
        return;
    if (replay->guard != 0)
        settle(name, replay->guard);
    rdl__free(&name->client->mem, replay, sizeof *replay + replay->len);
    rdl__name_unref(name);
}

static const struct rdl__replay_ops replay_ops = {.encode = encode_replay, .keep = keep_replay, .drop = drop_replay};

/* NULL: no memory. */
static struct replay_request *replay_make(struct rdl__name *name, const struct rdl__buf *command, int script,
                                          int64_t guard)
{
    struct replay_request *replay =
        rdl__buf_failed(command) ? NULL : rdl__alloc(&name->client->mem, sizeof *replay + command->len);

    if (replay == NULL)
        return NULL;
    rdl__name_ref(name);
    replay->name = name;
    atomic_init(&replay->refs, 1);
    replay->script = script;
    replay->guard = guard;
    replay->len = command->len;
    memcpy(replay->bytes, command->data, command->len);
    return replay;
}

void rdl__once_note(const struct rdl__call *call, int script,
                    void (*put)(const struct rdl__call *call, struct rdl__buf *to, bool eval), bool guard, int64_t now)
{
    const rdl_client_t *client = rdl__call_client(call);
    struct rdl__replay *replay = call->shard->replay;
    struct rdl__replay_entry entry = {.ops = &replay_ops, .until = rdl__after_ms(now, client->outage_timeout_ms)};
    struct rdl__buf command;

    if (replay != NULL) {
        rdl__buf_init(&command, &client->mem);
        put(call, &command, false);
        entry.of =
            replay_make(rdl__call_name(call), &command, script, guard && !rdl__call_may_come(call) ? call->n : 0);
        rdl__buf_done(&command);
    }
    if (entry.of == NULL) {
        if (guard)
            rdl__once_settled(call, now);
        return;
    }
    rdl__replay_note(replay, &entry, now);
    drop_replay(&entry);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static void put_guard(struct rdl__buf *to, const struct rdl__name *name, int64_t n)
{
    char field[RDL__FIELD_MAX];

    rdl__put_tailed(to, "redlatch_guard", name, field, rdl__field(field, &name->client->uuid, n));
}

size_t rdl__guard_keys(const struct rdl__call *call)
{
    return call->guard.settled_n != 0 ? 2 : 1;
}

void rdl__put_guards(const struct rdl__call *call, struct rdl__buf *to)
{
    put_guard(to, rdl__call_name(call), call->n);
    if (call->guard.settled_n != 0)
        put_guard(to, rdl__call_name(call), call->guard.settled_n);
}

void rdl__once_put(const struct rdl__call *call, struct rdl__buf *to, bool eval, const struct rdl__once_form *form)
{
    const struct rdl__name *name = rdl__call_name(call);
    bool queue = form->queue && rdl__in_order(name), forgets = form->forgets && call->guard.settled_n != 0;

    rdl__script_begin(to, form->script, eval, 3 + (queue ? 2U : 0U) + (forgets ? 1U : 0U),
                      queue ? 5 : 2 + rdl__publish_args(name));
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    rdl__put_channel(to, name);
    put_guard(to, name, call->n);
    if (queue)
        rdl__put_queue(to, name);
    if (forgets)
        put_guard(to, name, call->guard.settled_n);
    rdl__cmd_int(to, call->amount);
    rdl__cmd_int(to, rdl__guard_ms(name->client));
    if (!queue) {
        rdl__put_publish_last(to, name);
        return;
    }
    rdl__put_publish(to, name);
    rdl__put_turn(call, to, form->place);
}

void rdl__put_turn(const struct rdl__call *call, struct rdl__buf *to, enum rdl__turn what)
{
    struct rdl__name *name = rdl__call_name(call);

    rdl__cmd_arg(to, name->client->uuid.text, RDL__UUID_LEN);
    if (what ==
        RDL__TURN_GIVEN_UP) { /* before it is read: so either this undo gives the place up, or the last waiter does */
        (void)atomic_fetch_or(&name->waiting, RDL__PLACED);
        rdl__cmd_int(to, !rdl__name_waited_for(name));
        return;
    }
    if (what == RDL__TURN_LET_BE) {
        rdl__cmd_int(to, 0);
        return;
    }
    if (call->op.wait_ms > 0)
        (void)atomic_fetch_or(&name->waiting, RDL__PLACED);
    rdl__cmd_int(to, call->op.wait_ms > 0 ? name->settings.life_ms : 0);
}

void rdl__put_queue(struct rdl__buf *to, const struct rdl__name *name)
{
    rdl__put_prefixed(to, "redlatch_semaphore_queue", name);
    rdl__put_prefixed(to, "redlatch_semaphore_signs", name);
}

/* ---- guards that no verb deletes ------------------------------------------------------------------------------ */

/* A DEL of guards. The client's closing waits until it is sent, if there is a connection. If it fails, the guards
 * expire. */
struct sweep {
    struct rdl__req req;
    struct rdl__task task;
    rdl_client_t *client; /* a reference */
    bool held_up;         /* loop only: counts as a call of the client's, for which closing waits */
    struct rdl__shard *shard;
    size_t len;
    char bytes[];
};

/* It no longer counts as a call. */
static void let_close(struct sweep *sweep)
{
    if (sweep->held_up)
        rdl__client_call_ends(sweep->client);
    sweep->held_up = false;
}

static void on_sent_task(struct rdl__task *task, int64_t now)
{
    (void)now;
    let_close(rdl__container(task, struct sweep, task));
}

static void encode_sweep(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    struct sweep *sweep = rdl__container(req, struct sweep, req);

    (void)eval;
    rdl__buf_put(to, sweep->bytes, sweep->len);
    sweep->task.run = on_sent_task;
    rdl__loop_post(rdl__client_loop(sweep->client), &sweep->task);
}

/* Not worth waiting for a connection: the guards expire. */
static bool sweep_misrouted(const struct rdl__req *req)
{
    (void)req;
    return true;
}

static void decode_sweep(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    (void)req;
    (void)reply;
    (void)now;
}

static void done_sweep(struct rdl__req *req, int64_t now)
{
    struct sweep *sweep = rdl__container(req, struct sweep, req);
    rdl_client_t *client = sweep->client;

    (void)now;
    rdl__loop_unpost(rdl__client_loop(client), &sweep->task);
    let_close(sweep);
    rdl__free(&client->mem, sweep, sizeof *sweep + sweep->len);
    rdl__client_unref(client);
}

static const struct rdl__req_ops sweep_ops = {
    .encode = encode_sweep, .decode = decode_sweep, .done = done_sweep, .misrouted = sweep_misrouted};

static void on_sweep_task(struct rdl__task *task, int64_t now)
{
    struct sweep *sweep = rdl__container(task, struct sweep, task);

    (void)now;
    rdl__lane_submit(sweep->shard->loop_lane, &sweep->req);
}

/* NULL: no memory. */
static struct sweep *sweep_make(const struct rdl__name *name, const struct rdl__settled *settled)
{
    rdl_client_t *client = name->client;
    struct sweep *sweep = NULL;
    struct rdl__buf command;

    rdl__buf_init(&command, &client->mem);
    rdl__cmd_begin(&command, 1 + settled->count);
    rdl__cmd_arg(&command, "DEL", 3);
    for (unsigned i = 0; i < settled->count; i++)
        put_guard(&command, name, settled->n[i]);
    if (!rdl__buf_failed(&command) && (sweep = rdl__alloc(&client->mem, sizeof *sweep + command.len)) != NULL) {
        rdl__req_init(&sweep->req, &sweep_ops);
        rdl__task_init(&sweep->task, on_sweep_task);
        sweep->client = rdl__client_ref(client);
        sweep->held_up = true;
        sweep->shard = rdl__name_shard(name);
        sweep->len = command.len;
        memcpy(sweep->bytes, command.data, command.len);
    }
    rdl__buf_done(&command);
    return sweep;
}

static void sweep(struct rdl__name *name, const struct rdl__settled *settled)
{
    rdl_client_t *client = name->client;
    struct sweep *sweep;

    if (settled->count == 0 || rdl__client_forked(client) ||
        rdl__client_debt_begins(client) < 0) /* a name's last reference may be dropped while the client is closing */
        return;
    if ((sweep = sweep_make(name, settled)) == NULL)
        rdl__client_call_ends(client);
    else
        rdl__loop_post(rdl__client_loop(client), &sweep->task);
}

void rdl__guards_sweep(struct rdl__name *name)
{
    if (name->settled != NULL)
        sweep(name, name->settled);
}

/* ---- whole verbs ------------------------------------------------------------------------------------------------ */

rdl__step_t rdl__once_begin(struct rdl__call *call, int64_t now)
{
    (void)now;
    call->op.lease_ms = rdl__call_client(call)->outage_timeout_ms; /* how long an undo may be repeated */
    rdl__once_number(call);
    return rdl__send_it();
}

void rdl__once_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    rdl__once_put(call, to, eval, &(struct rdl__once_form){.script = call->verb->script, .forgets = true});
}

void rdl__once_put_again(const struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    rdl__once_put(call, to, eval, &(struct rdl__once_form){.script = call->verb->script});
}

void rdl__once_put_undo(const struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    rdl__once_put(
        call, to, eval,
        &(struct rdl__once_form){.script = RDL__SCRIPT_SEMAPHORE_UNDO, .queue = true, .place = RDL__TURN_GIVEN_UP});
}

rdl__step_t rdl__once_answered(struct rdl__call *call, int64_t now)
{
    rdl__step_t step = rdl__answer_is(call, call->answer);

    if (step.rc < 0)
        return rdl__once_failed(call, step.rc);
    call->guard.settled_n = 0;
    rdl__once_settled(call, now);
    return step;
}

/* Is the error not a script's? Our scripts undo their writes when one of their commands is refused. Another error, of a
 * proxy say, does not tell what was done. */
static bool is_foreign(const struct rdl__call *call)
{
    return rdl__call_refused_in_doubt(call) && (call->words_len == 0 || strstr(call->words, "script") == NULL);
}

rdl__step_t rdl__once_failed(const struct rdl__call *call, int rc)
{
    bool unknown = (call->req.resent && rc != RDL_ECLOSED) || is_foreign(call);

    return (rdl__step_t){
        .what = RDL__DO_FINISH, .rc = unknown ? RDL_EUNKNOWN : rc, .undo = unknown && call->verb->has_successor};
}

/* ---- the count -------------------------------------------------------------------------------------------------- */

void rdl__count_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    (void)eval;
    rdl__cmd_begin(to, 2);
    rdl__cmd_arg(to, "GET", 3);
    rdl__cmd_arg(to, rdl__call_name(call)->bytes, rdl__call_name(call)->node.key_len);
}

void rdl__count_decode(struct rdl__call *call, const struct rdl__reply *reply)
{
    static const char odd[] = "ERR redlatch: what is stored under the name is no count";

    call->answer = 0;
    if (reply->type != RDL__REPLY_NIL && !rdl__reply_integer(reply, &call->answer))
        rdl__call_keep_words(call, odd, sizeof odd - 1, true);
}

static rdl__step_t count_answered(struct rdl__call *call, int64_t now)
{
    (void)now;
    return rdl__answer_is(call, call->answer < 0 ? 0 : call->answer);
}

const struct rdl__verb rdl__verb_count = {
    .begin = rdl__begin_by_asking,
    .encode = rdl__count_encode,
    .decode = rdl__count_decode,
    .answered = count_answered,
    .texts = rdl__nothing_done,
};

/* ---- acquiring -------------------------------------------------------------------------------------------------- */

rdl__step_t rdl__acquire_begin(struct rdl__call *call)
{
    static const rdl_retry_t no_retry = {.kind = RDL_RETRY_NONE};
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__take_event ev = {
        .kind = RDL__EV_START,
        .others_wait = rdl__in_order(name) && rdl__name_waited_for(name),
    };

    rdl__take_init(&call->take, call->op.wait_ms == 0, &no_retry, rdl__call_seed(call));
    if (ev.others_wait && call->op.wait_ms == 0)
        return rdl__finish_with(RDL_ETIMEDOUT); /* it could overtake them, if their place has expired for the moment */
    return rdl__take_on(&call->take, &ev);
}
