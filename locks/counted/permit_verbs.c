/* SPDX-License-Identifier: MIT */
/* permit_verbs.c - the verbs of permits with ids and leases: a string, the number of free permits, and a sorted set of
 * those taken, by when they expire (wire.md, Permit-expirable).
 *
 * The ids of a take are made from its number, so that its repeats and its undo name the same ids, and need no guard.
 * They are unique as long as clients' random identities are.
 *
 * Where CLIENT KILL is refused that is not enough. A sending whose connection broke may arrive after its repeat was
 * answered, and after the permits were released: it would take them again, unknown to any client. So the caller gets
 * only ids that were sent once. Each repeat names other ids, the next series of its number; if it turns out only then
 * that the first connection cannot be killed, another repeat follows. A take's request begins with the undo of the
 * series before it, and these undos are repeated after the end of the call for as long as a sending may arrive. That
 * goes for the last EARLIER series only, so that a wait of hours need not remember each connection that broke.
 */
#include "locks/counted/permit_verbs.h"
#include "core/base/err.h"
#include "core/call/share.h"
#include "core/service/scripts.h"
#include "scripts/scripts.h"

#include <string.h>

#define ID_BYTES 16
#define SERIES_SHIFT 48 /* bits of a number; the series is above them */
#define EARLIER 4U

/* What is ours of a call. */
struct fields {
    rdl_permit_t *list;
    int64_t hint_ms;    /* of a refusal, whose answer has this time as well */
    int64_t told_until; /* when the permits expire: kept here, because `req` may be the undo's by then */
    uint16_t series;    /* of takes: which of the ids made from n they name */
    bool unanswered;    /* a request with this series was sent and not answered */
    bool in_doubt;      /* and another one was sent after it: the first may still come, unless it was killed */
    bool told;          /* the caller has this series' ids, until told_until */
};
_Static_assert(sizeof(struct fields) <= sizeof((struct rdl__call *)NULL)->fields, "a call has room for them");

static struct fields *fields(const struct rdl__call *call)
{
    return rdl__call_fields(call);
}

/* ---- ids -------------------------------------------------------------------------------------------------------- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* False: it is no valid id. */
static bool id_bytes(const rdl_permit_t *permit, unsigned char to[ID_BYTES])
{
    for (size_t i = 0; i < ID_BYTES; i++) {
        int high = hex_value(permit->id[2 * i]), low = high < 0 ? -1 : hex_value(permit->id[2 * i + 1]);

        if (low < 0)
            return false;
        to[i] = (unsigned char)(high << 4 | low);
    }
    return permit->id[32] == '\0';
}

bool rdl__permit_is_id(const rdl_permit_t *permit)
{
    unsigned char id[ID_BYTES];

    return id_bytes(permit, id);
}

static void id_text(const unsigned char id[ID_BYTES], rdl_permit_t *to)
{
    static const char hex[] = "0123456789abcdef";

    for (size_t i = 0; i < ID_BYTES; i++) {
        to->id[2 * i] = hex[id[i] >> 4];
        to->id[2 * i + 1] = hex[id[i] & 0xf];
    }
    to->id[32] = '\0';
}

/* The id of permit `n` of this client: the client's random bytes, mixed with n; the mixing is a bijection in n. */
static void id_make(const rdl_client_t *client, uint64_t n, unsigned char to[ID_BYTES])
{
    unsigned char seed[ID_BYTES];
    const char *at = client->uuid.text;
    uint64_t half;

    for (size_t i = 0; i < ID_BYTES; i++) {
        at += *at == '-';
        seed[i] = (unsigned char)((unsigned)hex_value(at[0]) << 4 | (unsigned)hex_value(at[1]));
        at += 2;
    }
    for (size_t i = 0; i < ID_BYTES; i += sizeof half) {
        struct rdl__rand stir;

        memcpy(&half, seed + i, sizeof half);
        stir.state = half + n;
        half = rdl__rand_next(&stir);
        memcpy(to + i, &half, sizeof half);
    }
}

static void put_id(struct rdl__buf *to, const rdl_permit_t *permit)
{
    unsigned char id[ID_BYTES];

    (void)id_bytes(permit, id); /* it was checked when the call began */
    rdl__cmd_arg(to, id, sizeof id);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* The script and the keys that all scripts of permits begin with. */
static void put_head(const struct rdl__call *call, struct rdl__buf *to, bool eval, int script, size_t more_keys,
                     size_t args)
{
    const struct rdl__name *name = rdl__call_name(call);

    rdl__script_begin(to, script, eval, 3 + more_keys, args);
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    rdl__put_suffixed(to, name, "timeout");
    rdl__put_channel(to, name);
}

/* A take, or what undoes it or a release: all but the ids, of which there are so many. */
static void put_take_head(const struct rdl__call *call, struct rdl__buf *to, bool eval, int script,
                          enum rdl__turn place, size_t ids)
{
    const struct rdl__name *name = rdl__call_name(call);

    put_head(call, to, eval, script, rdl__in_order(name) ? 2 : 0, 4 + ids);
    if (rdl__in_order(name))
        rdl__put_queue(to, name);
    if (call->op.lease_ms == RDL_LEASE_NEVER)
        rdl__cmd_arg(to, "never", 5);
    else
        rdl__cmd_int(to, call->op.lease_ms);
    rdl__put_publish(to, rdl__call_name(call));
    rdl__put_turn(call, to, place);
}

/* The i-th id of a series. */
static void take_id(const struct rdl__call *call, unsigned series, int64_t i, unsigned char to[ID_BYTES])
{
    id_make(rdl__call_client(call), (uint64_t)(call->n + i) + ((uint64_t)series << SERIES_SHIFT), to);
}

static void put_series(const struct rdl__call *call, struct rdl__buf *to, unsigned series)
{
    unsigned char id[ID_BYTES];

    for (int64_t i = 0; i < call->amount; i++) {
        take_id(call, series, i, id);
        rdl__cmd_arg(to, id, sizeof id);
    }
}

/* How many series before the present one are undone. */
static unsigned earlier(const struct rdl__call *call)
{
    return fields(call)->series < EARLIER ? fields(call)->series : EARLIER;
}

/* How many of them a command may name. */
static unsigned most_series(const struct rdl__call *call)
{
    return (unsigned)(RDL_PERMIT_IDS_MAX / call->amount);
}

static unsigned undos_of(const struct rdl__call *call, unsigned series)
{
    return (series + most_series(call) - 1) / most_series(call);
}

/* Undo `count` series before `end`, in so many commands. */
static void put_undos(const struct rdl__call *call, struct rdl__buf *to, bool eval, enum rdl__turn place, unsigned end,
                      unsigned count)
{
    while (count > 0) {
        unsigned some = count < most_series(call) ? count : most_series(call);

        put_take_head(call, to, eval, RDL__SCRIPT_PERMIT_UNDO, place, (size_t)some * (size_t)call->amount);
        for (unsigned i = 0; i < some; i++)
            put_series(call, to, end - count + i);
        count -= some;
    }
}

/* ---- acquiring -------------------------------------------------------------------------------------------------- */

static bool take_keep_arguments(struct rdl__call *call, const struct rdl__order *order)
{
    fields(call)->list = order->list;
    return true;
}

static rdl__step_t take_begin(struct rdl__call *call, int64_t now)
{
    (void)now;
    call->n = rdl__client_numbers(rdl__call_client(call), call->amount);
    return rdl__acquire_begin(call);
}

/* May another sending of this series arrive besides the one that is answered? */
static bool comes_twice(const struct rdl__call *call)
{
    return fields(call)->in_doubt && rdl__call_unkilled(call);
}

static void take_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    fields(call)->in_doubt |= fields(call)->unanswered && call->req.resent;
    if (comes_twice(call)) {
        fields(call)->series++;
        fields(call)->in_doubt = false;
    }
    fields(call)->unanswered = true;
    if (!call->req.asking) { /* ASKING is for one command */
        put_undos(call, to, true, RDL__TURN_LET_BE, fields(call)->series, earlier(call));
        call->req.owed += (unsigned char)undos_of(call, earlier(call));
    }
    put_take_head(call, to, eval, RDL__SCRIPT_PERMIT_TAKE, RDL__TURN_KEPT, (size_t)call->amount);
    put_series(call, to, fields(call)->series);
}

/* The series that the caller was told is not undone. */
static unsigned undo_end(const struct rdl__call *call)
{
    return fields(call)->series + (fields(call)->told ? 0U : 1U);
}

static unsigned undo_count(const struct rdl__call *call)
{
    unsigned count = earlier(call) + (fields(call)->told ? 0U : 1U);

    return call->req.asking && count > most_series(call) ? most_series(call) : count; /* ASKING is for one command */
}

static void take_put_undo(const struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    put_undos(call, to, eval, RDL__TURN_GIVEN_UP, undo_end(call), undo_count(call));
}

static unsigned take_undo_more(const struct rdl__call *call)
{
    return undos_of(call, undo_count(call)) - 1;
}

/* One command; of the last series, if it cannot name all. */
static void take_put_replay(const struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    unsigned count = undo_count(call);

    put_undos(call, to, eval, RDL__TURN_LET_BE, undo_end(call), count < most_series(call) ? count : most_series(call));
}

static void take_undone(const struct rdl__call *call, int64_t now)
{
    rdl__once_note(call, RDL__SCRIPT_PERMIT_UNDO, take_put_replay, false, now);
}

/* The number left; or {free, ms}: -1 - free goes to call->answer, ms to fields(call)->hint_ms. Overwrites the answers
 * of undos before it. */
static void take_decode(struct rdl__call *call, const struct rdl__reply *reply)
{
    const struct rdl__reply *free = rdl__reply_at(reply, 0), *ms = rdl__reply_at(reply, 1);

    fields(call)->hint_ms = -1;
    rdl__decode_number(call, free != NULL ? free : reply);
    if (free == NULL || call->refused_words)
        return;
    call->answer = -1 - call->answer;
    if (ms == NULL || !rdl__reply_integer(ms, &fields(call)->hint_ms))
        fields(call)->hint_ms = -1;
}

/* When the permits that the answered request has granted expire. */
static int64_t grant_ends(const struct rdl__call *call)
{
    return call->op.lease_ms == RDL_LEASE_NEVER
               ? RDL__NEVER
               : rdl__watchdog_validity(rdl__call_client(call)->watchdog, call->req.sent_at, call->op.lease_ms);
}

static bool take_lost(const struct rdl__call *call, int64_t now)
{
    return now >= fields(call)->told_until;
}

static rdl__step_t take_answered(struct rdl__call *call, int64_t now)
{
    int64_t until = grant_ends(call);
    bool valid = now < until;
    unsigned char id[ID_BYTES];
    rdl__step_t step;

    if (call->req.rc == RDL_OK)
        fields(call)->unanswered = false;
    fields(call)->told = rdl__answer_failed(call) == RDL_OK && call->answer >= 0 && valid;
    if (fields(call)->told && comes_twice(call)) {
        fields(call)->told = false;
        return rdl__send_it();
    }
    for (int64_t i = 0; fields(call)->told && i < call->amount; i++) {
        take_id(call, fields(call)->series, i, id);
        id_text(id, &fields(call)->list[i]);
    }
    fields(call)->told_until = until;
    step = rdl__permits_answered(call, valid, fields(call)->hint_ms);
    step.undo |= fields(call)->told && fields(call)->series > 0;
    return step;
}

const struct rdl__verb rdl__permit_take = {
    .acquires = true,
    .has_successor = true,
    .successor_mode = RDL__SUCCESSOR_FOLLOWS,
    .keep_arguments = take_keep_arguments,
    .begin = take_begin,
    .encode = take_encode,
    .decode = take_decode,
    .answered = take_answered,
    .put_undo = take_put_undo,
    .undo_more = take_undo_more,
    .undone = take_undone,
    .lost = take_lost,
};

/* ---- verbs of permits that the caller names ---------------------------------------------------------------------- */

static bool keep_copy(struct rdl__call *call, const struct rdl__order *order)
{
    size_t size = (size_t)order->amount * sizeof *fields(call)->list;

    if ((fields(call)->list = rdl__alloc(&rdl__call_client(call)->mem, size)) != NULL)
        memcpy(fields(call)->list, order->list, size);
    return fields(call)->list != NULL;
}

static void free_copy(struct rdl__call *call)
{
    rdl__free(&rdl__call_client(call)->mem, fields(call)->list, (size_t)call->amount * sizeof *fields(call)->list);
}

/* ---- giving back ------------------------------------------------------------------------------------------------ */

static void put_ids(const struct rdl__call *call, struct rdl__buf *to)
{
    for (int64_t i = 0; i < call->amount; i++)
        put_id(to, &fields(call)->list[i]);
}

static void release_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    put_head(call, to, eval, RDL__SCRIPT_PERMIT_RELEASE, 0, 1 + (size_t)call->amount);
    rdl__put_publish(to, rdl__call_name(call));
    put_ids(call, to);
}

/* A release that goes on in the background releases all permits that are still taken, even if one of them has expired:
 * no caller is left to be told, and to release the others. */
static void release_put_undo(const struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    put_take_head(call, to, eval, RDL__SCRIPT_PERMIT_UNDO, RDL__TURN_LET_BE, (size_t)call->amount);
    put_ids(call, to);
}

static void released(const struct rdl__call *call, int64_t now)
{
    rdl__once_note(call, RDL__SCRIPT_PERMIT_UNDO, release_put_undo, false, now);
}

/* It may stand in for the release itself, which gives back all or none. */
static bool release_short(const struct rdl__reply *reply)
{
    int64_t answer;

    return rdl__reply_integer(reply, &answer) && answer == RDL__NO_HOLD;
}

/* A repeat that finds none of the permits: an earlier sending has released them. One that finds some: a permit had
 * expired. */
static rdl__step_t release_answered(struct rdl__call *call, int64_t now)
{
    int rc = rdl__answer_failed(call);

    if (rc < 0)
        return rdl__once_failed(call, rc);
    if (call->answer == RDL__NO_HOLD || (call->answer == 0 && !call->req.resent))
        return rdl__finish_with(RDL_ELOST);
    rdl__share_released(call);
    released(call, now);
    return rdl__answer_is(call, RDL_OK);
}

static const char *release_texts(int code)
{
    return code == RDL_ELOST ? "a permit has expired or is not taken: none was released" : rdl__goes_on(code);
}

const struct rdl__verb rdl__permit_release = {
    .keep_arguments = keep_copy,
    .free_arguments = free_copy,
    .has_successor = true,
    .successor_mode = RDL__SUCCESSOR_REPLACES,
    .begin = rdl__begin_by_asking,
    .encode = release_encode,
    .decode = rdl__decode_number,
    .answered = release_answered,
    .put_undo = release_put_undo,
    .undone = released,
    .undo_short = release_short,
    .texts = release_texts,
};

/* ---- one permit ------------------------------------------------------------------------------------------------- */

static void extend_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    put_head(call, to, eval, RDL__SCRIPT_PERMIT_EXTEND, 0, 3);
    rdl__put_publish(to, rdl__call_name(call));
    rdl__cmd_int(to, call->op.lease_ms);
    put_id(to, fields(call)->list);
}

static rdl__step_t remaining_answered(struct rdl__call *call, int64_t now)
{
    (void)now;
    return call->answer == RDL__NO_HOLD && rdl__answer_failed(call) == RDL_OK ? rdl__finish_with(RDL_ELOST)
                                                                              : rdl__answer_is(call, call->answer);
}

static rdl__step_t extend_answered(struct rdl__call *call, int64_t now)
{
    rdl__step_t step = remaining_answered(call, now);

    call->answer = RDL_OK;
    return step;
}

static const char *permit_texts(int code)
{
    return code == RDL_ELOST ? "the permit has expired or is not taken" : rdl__done_or_not(code);
}

const struct rdl__verb rdl__permit_extend = {
    .keep_arguments = keep_copy,
    .free_arguments = free_copy,
    .begin = rdl__begin_by_asking,
    .encode = extend_encode,
    .decode = rdl__decode_number,
    .answered = extend_answered,
    .texts = permit_texts,
};

const struct rdl__verb rdl__permit_remaining = {
    .keep_arguments = keep_copy,
    .free_arguments = free_copy,
    .begin = rdl__begin_by_asking,
    .encode = extend_encode,
    .decode = rdl__decode_number,
    .answered = remaining_answered,
    .texts = permit_texts,
};

/* ---- how many --------------------------------------------------------------------------------------------------- */

static void look_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    put_head(call, to, eval, RDL__SCRIPT_PERMIT_LOOK, 0, 1);
    rdl__put_publish(to, rdl__call_name(call));
}

/* Element i of what the script answers. */
static void decode_look(struct rdl__call *call, const struct rdl__reply *reply, size_t i)
{
    const struct rdl__reply *number = rdl__reply_at(reply, i);

    rdl__decode_number(call, number != NULL ? number : reply);
}

static void decode_free(struct rdl__call *call, const struct rdl__reply *reply)
{
    decode_look(call, reply, 0);
}

static void decode_taken(struct rdl__call *call, const struct rdl__reply *reply)
{
    decode_look(call, reply, 1);
}

static rdl__step_t look_answered(struct rdl__call *call, int64_t now)
{
    (void)now;
    return rdl__answer_is(call, call->answer < 0 ? 0 : call->answer);
}

const struct rdl__verb rdl__permit_available = {
    .begin = rdl__begin_by_asking,
    .encode = look_encode,
    .decode = decode_free,
    .answered = look_answered,
    .texts = rdl__nothing_done,
};

const struct rdl__verb rdl__permit_acquired = {
    .begin = rdl__begin_by_asking,
    .encode = look_encode,
    .decode = decode_taken,
    .answered = look_answered,
    .texts = rdl__nothing_done,
};

static void set_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    put_head(call, to, eval, RDL__SCRIPT_PERMIT_SET, rdl__guard_keys(call), 3);
    rdl__put_guards(call, to);
    rdl__put_publish(to, rdl__call_name(call));
    rdl__cmd_int(to, call->amount);
    rdl__cmd_int(to, rdl__guard_ms(rdl__call_client(call)));
}

const struct rdl__verb rdl__permit_set = {
    .begin = rdl__once_begin,
    .encode = set_encode,
    .decode = rdl__decode_number,
    .answered = rdl__once_answered,
    .ended = rdl__once_ended,
    .texts = rdl__done_or_not,
};
