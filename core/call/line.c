/* SPDX-License-Identifier: MIT */
#include "core/call/line.h"

#include "core/call/cached.h"
#include "core/call/verb.h"
#include "core/wire/names.h"

#include <string.h>

#define OVERTAKEN_TRIES 16 /* more than it takes to give way once */
#define AT_ONCE_MS 10      /* who comes back so soon after its last grant is likely to do it again */

/* Not in a cluster without sharded channels, whose servers do not know how many hear a message. */
static bool has_line(const struct rdl__call *call)
{
    const rdl_client_t *client = rdl__call_client(call);

    return call->ops->news == RDL__NEWS_NAMED && (client->map == NULL || rdl__client_sharded(client));
}

const char *rdl__line_word(enum rdl__line line)
{
    static const char *const words[] = {
        [RDL__LINE_AGAIN] = "again",  [RDL__LINE_AMONG] = "again", [RDL__LINE_YIELDS] = "yield",
        [RDL__LINE_TURN] = "turn",    [RDL__LINE_STAYS] = "stay",  [RDL__LINE_READS] = "read",
        [RDL__LINE_LEAVES] = "leave", [RDL__LINE_BACK] = "back"};

    return words[line];
}

static void note(struct rdl__name *name, uint32_t bits)
{
    (void)atomic_fetch_or(&name->waiting, bits);
}

/* Those that were set are taken away. */
static uint32_t take_note(struct rdl__name *name, uint32_t bits)
{
    return (atomic_load(&name->waiting) & bits) == 0 ? 0 : atomic_fetch_and(&name->waiting, ~bits) & bits;
}

/* Who waits and is overtaken by others again and again, such as give way to nobody, is owed as many turns. Those are
 * its client's: another call of it that has only begun to wait takes none of them away. */
static void count_turns(const struct rdl__call *call)
{
    _Atomic uint16_t *turns = &rdl__call_name(call)->turns;
    uint16_t owed = atomic_load(turns), tries = call->take.tries;

    while (tries >= OVERTAKEN_TRIES && tries > owed)
        if (atomic_compare_exchange_weak(turns, &owed, tries))
            return;
}

/* Others have heard the release: a turn that the client is owed is used up. False: none is, so it gives way. */
static bool spend_turn(const struct rdl__call *call)
{
    _Atomic uint16_t *turns = &rdl__call_name(call)->turns;
    uint16_t left = atomic_load(turns);

    while (left != 0)
        if (atomic_compare_exchange_weak(turns, &left, (uint16_t)(left - 1)))
            return true;
    return false;
}

enum rdl__line rdl__line_note_take(const struct rdl__call *call)
{
    enum rdl__line line = RDL__LINE_NOT;
    uint32_t last; /* how its client's last release went */

    if (call->count > 1 || call->take.one_try || call->verb->restores || !has_line(call))
        return line;
    if (call->waiter.channel != NULL) {
        count_turns(call);
        line = rdl__name_waiting(rdl__call_name(call)) > 1 ? RDL__LINE_AMONG : RDL__LINE_AGAIN;
    } else if (call->line == RDL__LINE_YIELDS || call->line == RDL__LINE_TURN) {
        line = (enum rdl__line)call->line; /* it is sent again, and may have entered the line */
    } else if ((last = take_note(rdl__call_name(call), RDL__YIELDS | RDL__OTHERS)) != 0) {
        line = (last & RDL__YIELDS) != 0 ? RDL__LINE_YIELDS : RDL__LINE_TURN;
    }
    if (line != RDL__LINE_NOT)
        note(rdl__call_name(call), RDL__PLACED);
    return line;
}

/* The place ahead, for a call that waits from now on: a release of another one leaves it the place. */
static bool claim_place(struct rdl__name *name)
{
    uint32_t notes = atomic_load(&name->waiting);

    while ((notes & RDL__AHEAD) != 0)
        if (atomic_compare_exchange_weak(&name->waiting, &notes, (notes & ~RDL__AHEAD) + 1))
            return true;
    return false;
}

bool rdl__line_take_place(struct rdl__call *call, int64_t now)
{
    uint32_t notes = atomic_load(&rdl__call_name(call)->waiting);

    if ((notes & (RDL__YIELDS | RDL__AHEAD)) == 0 && (notes & RDL__COMES) != 0)
        (void)take_note(rdl__call_name(call), RDL__COMES); /* nobody else has wanted it */
    if ((notes & (RDL__YIELDS | RDL__AHEAD)) == 0 || call->one_try || !has_line(call))
        return false;
    if (now < rdl__after_ms(call->rec->held_since, AT_ONCE_MS))
        note(rdl__call_name(call), RDL__COMES);
    else
        (void)take_note(rdl__call_name(call), RDL__COMES);
    call->loop_sleep = rdl__loop_sleep(rdl__client_loop(rdl__call_client(call)));
    if (!(call->counted = claim_place(rdl__call_name(call))))
        return false;
    call->line = RDL__LINE_STOOD;
    return true;
}

bool rdl__line_waits_first(const struct rdl__name *name)
{
    return (atomic_load(&name->waiting) & (RDL__YIELDS | RDL__OTHERS | RDL__AHEAD)) != 0;
}

void rdl__line_refused(const struct rdl__call *call)
{
    if (call->line != RDL__LINE_NOT)
        note(rdl__call_name(call), RDL__PLACED);
}

void rdl__line_granted(const struct rdl__call *call)
{
    if (call->line == RDL__LINE_AMONG)
        note(rdl__call_name(call), RDL__MAYBE_EAR);
    if (call->line != RDL__LINE_NOT)
        (void)take_note(rdl__call_name(call), RDL__AHEAD); /* it has left the line */
}

/* Does the request say that the client stays, as other calls of it wait? Noted before those are counted: so either this
 * request takes the client away, or the last of them does. */
static bool stays(const struct rdl__call *call)
{
    note(rdl__call_name(call), RDL__PLACED);
    return rdl__name_waited_for(rdl__call_name(call));
}

/* Not where the next take may be sent before the answer, or has the host's lock to ask first; nor from a kept hold,
 * behind which its client stands back. */
static bool comes_back(const struct rdl__call *call)
{
    const struct rdl__name *name = rdl__call_name(call);

    return (atomic_load(&name->waiting) & RDL__COMES) != 0 && !rdl__is_kept(call->n) && !name->settings.detaches &&
           name->settings.on_outage != RDL_OUTAGE_LOCAL;
}

/* What a release says of calls that wait; or, if none does, of an ear that its client may be. */
static enum rdl__line note_freeing(const struct rdl__call *call)
{
    struct rdl__name *name = rdl__call_name(call);
    bool reads = take_note(name, RDL__MAYBE_EAR) != 0 || call->line == RDL__LINE_READS;

    if (rdl__name_waited_for(name)) {
        uint32_t left = take_note(name, RDL__LEFT);

        if (stays(call))
            return RDL__LINE_STAYS;
        note(name, left); /* the last of them has left meanwhile */
    }
    return reads ? RDL__LINE_READS : RDL__LINE_NOT;
}

enum rdl__line rdl__line_note_release(const struct rdl__call *call)
{
    enum rdl__line before = (enum rdl__line)call->line; /* RDL__LINE_NOT, or it is sent again, and may have been done */
    enum rdl__line line;

    if (call->count > 0 || (before == RDL__LINE_NOT && atomic_load(&rdl__call_name(call)->waiting) == 0) ||
        !has_line(call))
        return RDL__LINE_NOT;
    if ((line = note_freeing(call)) == RDL__LINE_STAYS)
        return line;
    if (before == RDL__LINE_STAYS || before == RDL__LINE_BACK)
        return before;
    return line == RDL__LINE_NOT && comes_back(call) ? RDL__LINE_BACK : line;
}

/* May the client stand in the line by what the undo is of? By a take that could wait; by a release that said so, or by
 * its undo. */
static bool may_stand(const struct rdl__call *call)
{
    if (call->verb->acquires)
        return call->op.wait_ms > 0;
    return call->line == RDL__LINE_STAYS || call->line == RDL__LINE_BACK || call->line == RDL__LINE_LEAVES;
}

enum rdl__line rdl__line_note_undo(const struct rdl__call *call)
{
    if (call->hold.undo_count > 0 || !has_line(call))
        return RDL__LINE_NOT;
    if (!may_stand(call))
        return call->verb->acquires ? RDL__LINE_NOT : note_freeing(call); /* of a release that may not have been sent */
    note(rdl__call_name(call), RDL__LEFT);
    if (stays(call))
        return RDL__LINE_STAYS;
    (void)take_note(rdl__call_name(call), RDL__PLACED | RDL__AHEAD);
    return RDL__LINE_LEAVES;
}

/* Its release has entered it. False: its turn has been heard, and came to nobody, before the answer was read. */
static bool stands_ahead(const struct rdl__call *call)
{
    note(rdl__call_name(call), RDL__AHEAD | RDL__PLACED);
    return (atomic_load(&rdl__call_name(call)->waiting) & RDL__COMES) != 0 ||
           take_note(rdl__call_name(call), RDL__AHEAD) == 0;
}

bool rdl__line_released(const struct rdl__call *call)
{
    if (call->answer == RDL__NO_HOLD && call->line == RDL__LINE_BACK)
        return true; /* sent before, and not answered: that may have entered the client */
    if (call->answer == RDL__OUTSIDE)
        return true; /* it has not: who waits tries when the undo is answered */
    if (!has_line(call))
        return false;
    if (call->answer == RDL__STANDS)
        return !stands_ahead(call);
    if (call->answer == RDL__WOKE_ANOTHER)
        note(rdl__call_name(call), RDL__YIELDS);
    else if (call->answer == RDL__TOLD_OTHERS && !spend_turn(call))
        note(rdl__call_name(call), RDL__OTHERS);
    return call->line == RDL__LINE_STAYS && !rdl__name_waited_for(rdl__call_name(call)) &&
           (atomic_load(&rdl__call_name(call)->waiting) & RDL__LEFT) != 0;
}

bool rdl__line_left_over(const struct rdl__call *call)
{
    if (call->hold.undo_count > 0 || !has_line(call))
        return false;
    if (call->verb->releases && call->answer == RDL__STANDS)
        return true;
    return call->line == RDL__LINE_STAYS && !rdl__name_waited_for(rdl__call_name(call));
}

void rdl__line_undone(const struct rdl__call *call, int64_t now)
{
    rdl_client_t *client = rdl__call_client(call);
    struct rdl__buf channel;

    rdl__assert_on_loop(rdl__client_loop(client));
    if (!has_line(call))
        return;
    rdl__buf_init(&channel, &client->mem);
    rdl__own_channel_name(&channel, rdl__call_name(call));
    if (!rdl__buf_failed(&channel))
        rdl__waiters_retry(&client->waiters, channel.data, channel.len, now);
    rdl__buf_done(&channel);
}

/* The lock of that name, with a reference; NULL: it has no handle any more. */
static struct rdl__name *name_of(rdl_client_t *client, const char *bytes, size_t len)
{
    struct rdl__table_node *node;

    rdl__mutex_lock(&client->names_mu);
    if ((node = rdl__table_find(&client->names, bytes, len)) != NULL)
        rdl__name_ref(rdl__container(node, struct rdl__name, node));
    rdl__mutex_unlock(&client->names_mu);
    return node == NULL ? NULL : rdl__container(node, struct rdl__name, node);
}

/* The locks whose own channel of this client that is, each with a reference or NULL: of `a` and `{a}` it is the same.
 */
static void names_of_channel(rdl_client_t *client, const char *channel, size_t len, struct rdl__name *ret_names[2])
{
    const char *from = memchr(channel, ':', len);
    size_t size;

    ret_names[0] = ret_names[1] = NULL;
    if (from == NULL)
        return;
    size = (size_t)(channel + len - ++from) - RDL__OWN_TAIL;
    ret_names[0] = name_of(client, from, size);
    if (rdl__name_may_be_wrapped(from, size))
        ret_names[1] = name_of(client, from + 1, size - 2);
}

void rdl__line_dropped(struct rdl__name *name)
{
    if (take_note(name, RDL__AHEAD) != 0 && !rdl__call_leave_line(name))
        note(name, RDL__AHEAD); /* it stands there yet: its turn will be heard */
}

/* Its turn came to nobody. False: the place is not known to be nobody's, or it cannot leave it.  @thread loop  @locks
 * none */
static bool leaves_unheard(struct rdl__name *name)
{
    bool stands = (take_note(name, RDL__AHEAD | RDL__COMES) & RDL__AHEAD) != 0;

    rdl__assert_on_loop(rdl__client_loop(name->client));
    return stands && rdl__call_leave_line(name);
}

bool rdl__line_unheard(rdl_client_t *client, const char *channel, size_t len)
{
    struct rdl__name *names[2];
    bool leaves = false;

    rdl__assert_on_loop(rdl__client_loop(client));
    names_of_channel(client, channel, len, names);
    if (names[0] == NULL && names[1] == NULL)
        return true;
    for (int i = 0; i < 2; i++) {
        if (names[i] == NULL)
            continue;
        leaves |= leaves_unheard(names[i]);
        rdl__name_unref(names[i]);
    }
    return leaves;
}

void rdl__waits_in_line(struct rdl__buf *to, struct rdl__call *call)
{
    if (call->verb->listens || !has_line(call)) {
        rdl__waits_on_channel(to, call);
        call->waiter.news = RDL__NEWS_WAKE;
        return;
    }
    rdl__own_channel_name(to, rdl__call_name(call));
    call->waiter.own_tail = RDL__OWN_TAIL;
}
