/* SPDX-License-Identifier: MIT */
/* type.c - functions for the tables of ordinary lock types (type.h). */
#include "core/call/verb.h"

#include "core/service/scripts.h"
#include "core/wire/names.h"

#define TOKEN_LEAST (INT64_C(1) << 40) /* an answer above it is a token: no lease is that long */

void rdl__lock_call_back(const rdl_op_t *op, int64_t result, const rdl_err_t *err)
{
    ((rdl_done_fn)op->fn)(op->lock, result, err, op->arg);
}

void rdl__waits_on_channel(struct rdl__buf *to, struct rdl__call *call)
{
    rdl__channel_name(to, rdl__call_name(call));
}

/* ---- locks with one end ----------------------------------------------------------------------------------------- */

size_t rdl__plain_field(char *to, const struct rdl__name *name, int64_t n)
{
    return rdl__field(to, &name->client->uuid, n);
}

int64_t rdl__plain_trusted_ms(const struct rdl__name *name, int64_t lease_ms)
{
    (void)name;
    return lease_ms;
}

int rdl__plain_may_take(struct rdl__call *call, int64_t now)
{
    (void)call;
    (void)now;
    return RDL_OK;
}

bool rdl__evicts_no_other(const struct rdl__record *rec, const struct rdl__call *force)
{
    (void)rec;
    (void)force;
    return false;
}

/* ---- the take --------------------------------------------------------------------------------------------------- */

bool rdl__leaves_no_trace(const struct rdl__call *call)
{
    (void)call;
    return false;
}

bool rdl__granted_by_answer(struct rdl__call *call, int64_t now, int64_t *ret_lease_ms)
{
    (void)call;
    (void)now;
    *ret_lease_ms = 0;
    return false;
}

void rdl__decode_take(struct rdl__call *call, const struct rdl__reply *reply)
{
    const struct rdl__reply *ear = rdl__reply_at(reply, 1), *look = rdl__reply_at(reply, 2);

    call->ear_for = ear != NULL ? (unsigned char)ear->integer : RDL__EAR_NOT;
    call->look_ms = look != NULL ? (int32_t)look->integer : 0;
    rdl__decode_number(call, ear != NULL ? rdl__reply_at(reply, 0) : reply);
    call->hold.token = call->answer > TOKEN_LEAST ? call->answer : 0;
    if (call->hold.token != 0)
        call->answer = RDL__TAKEN;
}

void rdl__put_take_args(const struct rdl__call *call, struct rdl__buf *to, bool more)
{
    bool token = rdl__wants_token(call);

    rdl__put_field(to, call);
    rdl__cmd_int(to, call->count);
    rdl__put_lease(to, call);
    if (token || more)
        rdl__cmd_arg(to, token ? "1" : "0", 1);
}

void rdl__put_take(struct rdl__call *call, struct rdl__buf *to, bool eval, int script, const char *beside,
                   int64_t tokens)
{
    const struct rdl__name *name = rdl__call_name(call);

    bool stands = (call->line = (unsigned char)rdl__line_note_take(call)) != RDL__LINE_NOT;
    bool draws = tokens > 0, among = call->line == RDL__LINE_AMONG;
    unsigned args = rdl__wants_token(call) ? 4 : 3;

    if (stands)
        args = draws ? 7 : 5u + among;
    else if (draws)
        args = 5;
    rdl__script_begin(to, script, eval, 1u + (beside != NULL) + stands, args);
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    if (beside != NULL)
        rdl__put_prefixed(to, beside, name);
    if (stands)
        rdl__put_channel(to, name);
    rdl__put_take_args(call, to, stands || draws);
    if (stands)
        rdl__cmd_str(to, rdl__line_word((enum rdl__line)call->line));
    if (among || (stands && draws))
        rdl__cmd_arg(to, among ? "1" : "0", 1);
    if (draws)
        rdl__cmd_int(to, tokens);
}

/* ---- release, force, query -------------------------------------------------------------------------------------- */

void rdl__put_release(struct rdl__buf *to, const struct rdl__hold_of *hold, bool eval, int64_t count, int script)
{
    const struct rdl__name *name = hold->name;

    rdl__script_begin(to, script, eval, 2, 2 + (hold->line != RDL__LINE_NOT ? 2 : rdl__publish_args(name)));
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    rdl__put_channel(to, name);
    rdl__cmd_field(to, &name->client->uuid, hold->n);
    rdl__cmd_int(to, count);
    if (hold->line == RDL__LINE_NOT) {
        rdl__put_publish_last(to, name);
        return;
    }
    rdl__put_publish(to, name);
    rdl__cmd_str(to, rdl__line_word((enum rdl__line)hold->line));
}

void rdl__put_force(const struct rdl__call *call, struct rdl__buf *to, bool eval, int script)
{
    const struct rdl__name *name = rdl__call_name(call);

    rdl__script_begin(to, script, eval, 2, 1 + rdl__publish_args(name));
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    rdl__put_channel(to, name);
    rdl__cmd_arg(to, call->words, call->words_len);
    rdl__put_publish_last(to, name);
}

void rdl__put_exists(struct rdl__buf *to, const char *name, size_t len)
{
    rdl__cmd_begin(to, 2);
    rdl__cmd_str(to, "EXISTS");
    rdl__cmd_arg(to, name, len);
}
