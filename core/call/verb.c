/* SPDX-License-Identifier: MIT */
/* verb.c - what verbs have in common: pieces of commands, and plain answers. */
#include "core/call/verb.h"

#include "core/base/err.h"
#include "core/call/share.h"
#include "core/service/scripts.h"
#include "core/wire/names.h"

#include <string.h>

/* Apart, so that its callers, who seldom come to it, save no registers for it. */
__attribute__((noinline)) void rdl__call_keep_words(struct rdl__call *call, const char *bytes, size_t len, bool error)
{
    const struct rdl__mem *mem = &rdl__call_client(call)->mem;
    char *words = len < UINT32_MAX ? rdl__memdup(mem, bytes, len) : NULL;

    call->refused_words = error;
    rdl__free(mem, call->words, (size_t)call->words_len + 1);
    call->words = words;
    call->words_len = words == NULL ? 0 : (uint32_t)len;
}

void rdl__decode_number(struct rdl__call *call, const struct rdl__reply *reply)
{
    static const char odd[] = "an answer that is not understood";

    if (!rdl__reply_integer(reply, &call->answer))
        rdl__call_keep_words(call, odd, sizeof odd - 1, true);
}

bool rdl__call_refused_in_doubt(const struct rdl__call *call)
{
    struct rdl__reply refusal = {.type = RDL__REPLY_ERROR, .str = call->words, .len = call->words_len};

    return call->req.rc == RDL_OK && call->refused_words &&
           (call->words_len == 0 || !rdl__reply_wrote_nothing(&refusal));
}

const char *rdl__goes_on(int code)
{
    switch (code) {
    case RDL_EUNKNOWN:
        return "the server did not answer in time: it goes on in the background";
    case RDL_ECONN:
        return "no connection to the server: it goes on in the background";
    default:
        return NULL;
    }
}

const char *rdl__done_or_not(int code)
{
    return code == RDL_EUNKNOWN ? "the server did not answer in time: it was done or not" : NULL;
}

const char *rdl__nothing_done(int code)
{
    return code == RDL_EUNKNOWN ? "the server did not answer in time" : NULL;
}

void rdl__call_freed(const struct rdl__call *call)
{
    const struct rdl__name *name = rdl__call_name(call);
    char text[128];

    rdl__share_released(call);
    if (call->answer != RDL__UNTOLD || name->client->sinks.log == NULL)
        return;
    (void)rdl__printable(text, sizeof text, name->bytes, name->node.key_len);
    rdl__log(&name->client->sinks, RDL_LOG_WARN,
             "lock %s at %s: freed, but the server has refused the message to who waits", text,
             rdl__client_label(name->client));
}

int rdl__answer_failed(const struct rdl__call *call)
{
    if (call->req.rc != RDL_OK)
        return call->req.rc;
    return call->refused_words ? RDL_ESERVER : RDL_OK;
}

rdl__step_t rdl__begin_by_asking(struct rdl__call *call, int64_t now)
{
    (void)call;
    (void)now;
    return rdl__send_it();
}

rdl__step_t rdl__answer_is(struct rdl__call *call, int64_t value)
{
    int rc = rdl__answer_failed(call);

    call->answer = value;
    return rc < 0 ? rdl__finish_with(rc) : (rdl__step_t){.what = RDL__DO_FINISH, .rc = RDL_OK};
}

/* The beginning of an argument that is put together from parts: `$len` */
static void put_arg_head(struct rdl__buf *to, size_t len)
{
    char head[32];
    size_t n = rdl__itoa(head + 1, (int64_t)len);

    head[0] = '$';
    head[n + 1] = '\r';
    head[n + 2] = '\n';
    rdl__buf_put(to, head, n + 3);
}

void rdl__channel_name(struct rdl__buf *to, const struct rdl__name *name)
{
    rdl__name_prefix(to, name->ops->channel, name->bytes, name->node.key_len);
}

void rdl__put_channel(struct rdl__buf *to, const struct rdl__name *name)
{
    rdl__put_prefixed(to, name->ops->channel, name);
}

void rdl__own_channel_name(struct rdl__buf *to, const struct rdl__name *name)
{
    rdl__channel_name(to, name);
    rdl__buf_put(to, ":{", 2);
    rdl__buf_put(to, name->client->uuid.text, RDL__UUID_LEN);
    rdl__buf_put(to, "}", 1);
}

void rdl__put_suffixed(struct rdl__buf *to, const struct rdl__name *name, const char *suffix)
{
    size_t braces = memchr(name->bytes, '{', name->node.key_len) == NULL ? 2 : 0;

    put_arg_head(to, name->node.key_len + braces + 1 + strlen(suffix));
    rdl__name_suffix(to, name->bytes, name->node.key_len, suffix);
    rdl__buf_put(to, "\r\n", 2);
}

void rdl__put_prefixed(struct rdl__buf *to, const char *prefix, const struct rdl__name *name)
{
    rdl__cmd_prefixed(to, prefix, name->bytes, name->node.key_len);
}

void rdl__put_tailed(struct rdl__buf *to, const char *prefix, const struct rdl__name *name, const char *tail,
                     size_t tail_len)
{
    put_arg_head(to, rdl__name_prefix_len(prefix, name->bytes, name->node.key_len) + 1 + tail_len);
    rdl__name_prefix(to, prefix, name->bytes, name->node.key_len);
    rdl__buf_put(to, ":", 1);
    rdl__buf_put(to, tail, tail_len);
    rdl__buf_put(to, "\r\n", 2);
}

void rdl__put_publish(struct rdl__buf *to, const struct rdl__name *name)
{
    rdl__cmd_str(to, rdl__client_sharded(name->client) ? "spublish" : "publish");
}

void rdl__put_publish_last(struct rdl__buf *to, const struct rdl__name *name)
{
    if (rdl__publish_args(name) > 0)
        rdl__put_publish(to, name);
}

void rdl__put_field(struct rdl__buf *to, const struct rdl__call *call)
{
    char *field = rdl__cmd_open(to, RDL__FIELD_MAX);

    if (field != NULL)
        rdl__cmd_close(to, call->ops->field_of(field, rdl__call_name(call), call->n));
}

size_t rdl__place(char *to, const struct rdl__call *call)
{
    return rdl__field(to, &rdl__call_client(call)->uuid, call->op.owner->index);
}

void rdl__put_place(struct rdl__buf *to, const struct rdl__call *call)
{
    rdl__cmd_field(to, &rdl__call_client(call)->uuid, call->op.owner->index);
}

/* Of the hold that the call is about. */
static void put_release(const struct rdl__call *call, struct rdl__buf *to, bool eval, int64_t count,
                        enum rdl__line line)
{
    const struct rdl__hold_of hold = {
        .name = rdl__call_name(call), .n = call->n, .k = call->op.owner->index, .line = line};

    call->ops->put_release(to, &hold, eval, count);
}

void rdl__release_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    call->line = (unsigned char)rdl__line_note_release(call);
    put_release(call, to, eval, call->count, (enum rdl__line)call->line);
}

void rdl__put_undo(const struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    put_release(call, to, eval, call->hold.undo_count, (enum rdl__line)call->line);
}

/* ---- releases that another server may not have seen ------------------------------------------------------------- */

static void encode_replay(const struct rdl__replay_entry *entry, struct rdl__buf *to, bool eval)
{
    const struct rdl__lock_ops *ops = entry->as;
    const struct rdl__hold_of hold = {.name = entry->of, .n = entry->n, .k = entry->k};

    ops->put_release(to, &hold, eval, 0);
}

static void keep_replay(const struct rdl__replay_entry *entry)
{
    rdl__name_ref(entry->of);
}

static void drop_replay(const struct rdl__replay_entry *entry)
{
    rdl__name_unref(entry->of);
}

static const struct rdl__replay_ops replay_release = {
    .encode = encode_replay, .keep = keep_replay, .drop = drop_replay};

void rdl__note_release(const struct rdl__call *call, int64_t now)
{
    struct rdl__replay *replay = call->shard->replay;
    int64_t lease_ms = rdl__call_lease_ms(call);
    struct rdl__replay_entry entry;

    if (replay == NULL)
        return;
    entry = (struct rdl__replay_entry){
        .ops = &replay_release, .of = rdl__call_name(call), .as = call->ops, .n = call->n, .k = call->op.owner->index};
    entry.until = rdl__after_ms(now, lease_ms < RDL__REPEATS_MOST_MS ? lease_ms : RDL__REPEATS_MOST_MS);
    rdl__replay_note(replay, &entry, now);
}
