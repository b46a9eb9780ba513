/* SPDX-License-Identifier: MIT */
/* readwrite.c - the read-write lock: many readers or one writer (wire.md, Read and Write).
 *
 * One hash for both: `mode`, and a field of its own for each hold: `U:n` with the read holds of an owner, `U:n:write`
 * with its write holds. Beside it one key with a time to live for each read hold, so that a reader that dies costs no
 * more than its own lease. The two ends are two tables that name each other: an owner has a record, and a number, for
 * each end.
 *
 * A writer may read as well and then give up writing, so that readers come in (a downgrade). A reader may not write: it
 * would wait for itself, and is told so at once, by its own record.
 *
 * Where writers are preferred, one that is refused because of readers leaves a mark of its own beside the lock, with a
 * time to live, and its hint makes it renew that. Readers are not let in beside a mark, unless they hold the lock
 * already. A writer that is granted deletes all marks: then all waiters have the same chance when it leaves. A writer
 * that gives up takes its mark away by its release; if it was the last, the release tells those who wait by a message
 * that only ours understand.
 *
 * A reader never waits behind other calls of this process, because its try may be granted at any time; and a reader
 * that is granted wakes all readers (waiters.c).
 *
 * Where clients keep the lock (option cache_ms) two further tables stand for the ends (cache.h).
 */
#include "core/base/err.h"
#include "core/call/cached.h"
#include "core/service/scripts.h"
#include "locks/hash.h"
#include "locks/types.h"

#include <string.h>

#define CHANNEL "redisson_rwlock"
#define WRITE ":write"

/* ---- holders ---------------------------------------------------------------------------------------------------- */

static size_t write_field(char *to, const struct rdl__name *name, int64_t n)
{
    size_t len = rdl__plain_field(to, name, n);

    memcpy(to + len, WRITE, sizeof WRITE - 1);
    return len + sizeof WRITE - 1;
}

static bool is_writers(const char *field, size_t len)
{
    size_t tail = sizeof WRITE - 1;

    return len > tail && memcmp(field + len - tail, WRITE, tail) == 0;
}

/* Find a writer's hold, or a reader's; but not this one. */
static bool find_holder(const struct rdl__reply *reply, bool writer, const char *but, size_t but_len,
                        const char **ret_field, size_t *ret_len)
{
    const struct rdl__reply *field;

    for (size_t i = 0; (field = rdl__reply_at(reply, i)) != NULL; i++) {
        if (field->type != RDL__REPLY_STRING || strcmp(field->str, "mode") == 0 ||
            is_writers(field->str, field->len) != writer ||
            (field->len == but_len && memcmp(field->str, but, but_len) == 0))
            continue;
        *ret_field = field->str;
        *ret_len = field->len;
        return true;
    }
    return false;
}

static bool decode_reader(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len)
{
    return find_holder(reply, false, "", 0, ret_field, ret_len);
}

static bool decode_writer(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len)
{
    return find_holder(reply, true, "", 0, ret_field, ret_len);
}

/* By the holders, not by `mode`: one owner may hold both ends. What is kept here and idle (call->n) holds nothing. */
static void decode_reader_query(struct rdl__call *call, const struct rdl__reply *reply)
{
    char idle[RDL__FIELD_MAX];
    size_t idle_len = call->n == 0 ? 0 : rdl__plain_field(idle, rdl__call_name(call), call->n), len;
    const char *field;

    call->answer = find_holder(reply, false, idle, idle_len, &field, &len);
}

static void decode_writer_query(struct rdl__call *call, const struct rdl__reply *reply)
{
    const char *field;
    size_t len;

    call->answer = decode_writer(reply, &field, &len);
}

/* Is it to end the one hold that was named? A writer has the whole lock. */
static bool ends_reader_alone(const struct rdl__call *force)
{
    return force->force.named && !is_writers(force->words, force->words_len);
}

/* A forced unlock of the read end evicts all readers that held it when the request was sent, an eviction the one that
 * was named. Owners inside a kept hold lose theirs with that. */
static bool evicts_also(const struct rdl__record *rec, const struct rdl__call *force)
{
    return !rec->inside && !force->req.resent && !ends_reader_alone(force);
}

/* A peer's watchdog may have shortened a shared hold at the server since it was confirmed (protocol.md, 6). */
static int64_t read_trusted_ms(const struct rdl__name *name, int64_t lease_ms)
{
    int64_t most = name->settings.own;

    return most > 0 && most < lease_ms ? most : lease_ms;
}

/* ---- taking ----------------------------------------------------------------------------------------------------- */

/* Put the number that the owner's hold of the other end has at the server into call->hold.own, 0 if it has none, and
 * return its state. */
static rdl_hold_state_t see_other_end(struct rdl__call *call, int64_t now)
{
    struct rdl__name *name = rdl__call_name(call);
    rdl_hold_state_t state = RDL_NOT_HELD;
    struct rdl__record *rec;

    call->hold.own = 0;
    rdl__mutex_lock(&name->mu);
    if ((rec = rdl__record_find(name, call->op.owner, call->ops->other_end)) != NULL && rec->count > 0) {
        if (!rdl__is_kept(rec->hold.id.n)) {
            state = rdl__watchdog_state(name->client->watchdog, &rec->hold, now, NULL);
            call->hold.own = rec->hold.id.n;
        } else {
            state = rdl__cache_valid_for(rec, now) > 0 ? RDL_HELD : RDL_LOST;
            call->hold.own = rdl__cache_beside(rec);
        }
    }
    rdl__mutex_unlock(&name->mu);
    return state;
}

static int read_may_take(struct rdl__call *call, int64_t now)
{
    return see_other_end(call, now) == RDL_LOST ? RDL_ELOST : RDL_OK;
}

/* A reader cannot take the write end. Also checked after a refusal: the owner may have taken the read end meanwhile. */
static int write_may_take(struct rdl__call *call, int64_t now)
{
    rdl_hold_state_t state = see_other_end(call, now);

    if (state == RDL_LOST)
        return RDL_ELOST;
    return state != RDL_NOT_HELD && call->rec->count == 0 ? RDL_EDEADLK : RDL_OK;
}

/* Do waiting writers leave marks (prefer_writers)? */
static bool marks(const struct rdl__name *name)
{
    return name->settings.life_ms > 0;
}

static void put_marks(struct rdl__buf *to, const struct rdl__name *name)
{
    if (marks(name))
        rdl__put_prefixed(to, "redlatch_rwlock_writers", name);
}

static bool leaves_mark(const struct rdl__call *call)
{
    return marks(rdl__call_name(call)) && !call->take.one_try && call->count == 1;
}

static size_t take_args(const struct rdl__call *call)
{
    return rdl__wants_token(call) ? 4 : 3;
}

/* It is told of the owner's write hold, if there is one. */
static void put_read_take(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = rdl__call_name(call);
    bool writes = call->hold.own != 0;
    char field[RDL__FIELD_MAX];

    rdl__script_begin(to, RDL__SCRIPT_READ_TAKE, eval, marks(name) ? 2 : 1, writes ? 5 : take_args(call));
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    put_marks(to, name);
    rdl__put_take_args(call, to, writes);
    if (writes)
        rdl__cmd_arg(to, field, write_field(field, name, call->hold.own));
}

/* A writer that is granted deletes the marks, and publishes that. */
static void put_write_take(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = rdl__call_name(call);
    bool marked = marks(name);

    rdl__script_begin(to, RDL__SCRIPT_WRITE_TAKE, eval, marked ? 3 : 1,
                      marked ? 5 + rdl__publish_args(name) : take_args(call));
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    if (!marked) {
        rdl__put_take_args(call, to, false);
        return;
    }
    put_marks(to, name);
    rdl__put_channel(to, name);
    rdl__put_take_args(call, to, true);
    rdl__cmd_int(to, leaves_mark(call) ? name->settings.life_ms : 0);
    rdl__put_publish_last(to, name);
}

/* ---- giving back ------------------------------------------------------------------------------------------------ */

/* How many keys a script needs to free the lock. */
static size_t key_count(const struct rdl__name *name)
{
    return marks(name) ? 3 : 2;
}

static void put_keys(struct rdl__buf *to, const struct rdl__name *name)
{
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    rdl__put_channel(to, name);
    put_marks(to, name);
}

static void put_release_of(struct rdl__buf *to, const struct rdl__name *name, bool eval, int64_t count, int script,
                           const char *field, size_t len)
{
    rdl__script_begin(to, script, eval, key_count(name), 2 + rdl__publish_args(name));
    put_keys(to, name);
    rdl__cmd_arg(to, field, len);
    rdl__cmd_int(to, count);
    rdl__put_publish_last(to, name);
}

static void put_read_release(struct rdl__buf *to, const struct rdl__hold_of *hold, bool eval, int64_t count)
{
    char field[RDL__FIELD_MAX];

    put_release_of(to, hold->name, eval, count, RDL__SCRIPT_READ_RELEASE, field,
                   rdl__plain_field(field, hold->name, hold->n));
}

static void put_write_release(struct rdl__buf *to, const struct rdl__hold_of *hold, bool eval, int64_t count)
{
    char field[RDL__FIELD_MAX];

    put_release_of(to, hold->name, eval, count, RDL__SCRIPT_WRITE_RELEASE, field,
                   write_field(field, hold->name, hold->n));
}

static void put_force(const struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = rdl__call_name(call);

    rdl__script_begin(to, ends_reader_alone(call) ? RDL__SCRIPT_READ_FORCE : RDL__SCRIPT_READWRITE_FORCE, eval,
                      key_count(name), 1 + rdl__publish_args(name));
    put_keys(to, name);
    rdl__cmd_arg(to, call->words, call->words_len);
    rdl__put_publish_last(to, name);
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

#define PEER_WATCHDOG_MS 30000 /* Redisson's default */
#define PEER_WATCHDOG_MAX_MS 86400000
#define DAY_BITS 0x7ffffff /* settings->own: the value is known to fit */

/* The option peer_watchdog_ms, into settings->own. */
static int options_peer(const rdl_lock_options_t *o, struct rdl__settings *settings, rdl_err_t *err)
{
    int64_t peer_ms = o->peer_watchdog_ms == 0 ? PEER_WATCHDOG_MS : o->peer_watchdog_ms;

    if (peer_ms != RDL_NO_PEER && (peer_ms < 0 || peer_ms > PEER_WATCHDOG_MAX_MS))
        return rdl__err_set(err, RDL_EINVAL,
                            "lock option peer_watchdog_ms is %lld: it must be 1 to 86400000, or RDL_NO_PEER",
                            (long long)peer_ms);
    settings->own = peer_ms == RDL_NO_PEER ? 0 : (uint32_t)peer_ms & DAY_BITS;
    return RDL_OK;
}

static int options(const struct rdl__lock_ops *ops, rdl_lock_options_t *o, struct rdl__settings *settings,
                   rdl_err_t *err)
{
    int rc;

    if ((rc = rdl__options_fencing(ops, false, o, err)) < 0)
        return rc;
    if (!o->prefer_writers || o->nonreentrant)
        rc = rdl__options_unqueued(o, err);
    else
        rc = rdl__options_life(o, err);
    return rc < 0 ? rc : options_peer(o, settings, err);
}

#define READS                                                                                                          \
    .name = "read", .kind = "read-write", .call_back = rdl__lock_call_back, .channel = CHANNEL,                        \
    .news = RDL__NEWS_SHARED, .waits_on = rdl__waits_on_channel, .nests = true, .retry = {.kind = RDL_RETRY_NONE},     \
    .renew = RDL__SCRIPT_READ_RENEW, .field_of = rdl__plain_field, .trusted_ms = read_trusted_ms,                      \
    .may_take = read_may_take, .put_take = put_read_take, .decode_take = rdl__decode_take,                             \
    .leaves_trace = rdl__leaves_no_trace, .granted = rdl__granted_by_answer, .put_release = put_read_release,          \
    .put_query = rdl__hash_put_holder, .put_holder = rdl__hash_put_holder, .decode_holder = decode_reader,             \
    .decode_query = decode_reader_query, .put_force = put_force, .evicts_also = evicts_also

static const struct rdl__lock_ops kept_write;
static const struct rdl__lock_ops kept_read = {
    RDL__CACHED,
    READS,
    .other_end = &kept_write,
};

const struct rdl__lock_ops rdl__read_ops = {
    .handle = &rdl__single_handle,
    READS,
    .kept = &kept_read,
    .other_end = &rdl__write_ops,
};

RDL__CONSTRUCTOR(rdl_read_lock, rdl__read_ops, options)

/* Its renewal is that of the reentrant lock: its hold is a field of the hash and nothing else. */
#define WRITES                                                                                                         \
    .name = "write", .kind = "read-write", .call_back = rdl__lock_call_back, .channel = CHANNEL,                       \
    .news = RDL__NEWS_ALONE, .waits_on = rdl__waits_on_channel, .nests = true, .retry = {.kind = RDL_RETRY_NONE},      \
    .renew = RDL__SCRIPT_REENTRANT_RENEW, .field_of = write_field, .trusted_ms = rdl__plain_trusted_ms,                \
    .may_take = write_may_take, .put_take = put_write_take, .decode_take = rdl__decode_take,                           \
    .leaves_trace = leaves_mark, .granted = rdl__granted_by_answer, .put_release = put_write_release,                  \
    .put_query = rdl__hash_put_holder, .decode_query = decode_writer_query, .put_holder = rdl__hash_put_holder,        \
    .decode_holder = decode_writer, .put_force = put_force, .evicts_also = evicts_also

static const struct rdl__lock_ops kept_write = {
    RDL__CACHED,
    WRITES,
    .other_end = &kept_read,
};

const struct rdl__lock_ops rdl__write_ops = {
    .handle = &rdl__single_handle,
    WRITES,
    .kept = &kept_write,
    .other_end = &rdl__read_ops,
};

RDL__CONSTRUCTOR(rdl_write_lock, rdl__write_ops, options)
