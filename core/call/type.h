/* SPDX-License-Identifier: MIT */
/* type.h - what a lock type is to the engine: one const table of functions. The types themselves are in locks/
 * (locks/types.h); docs/adding-a-lock-type.md builds one.
 *
 * A lock with two ends has a table for each. Types share functions for what they do alike: the
 * ordinary ones are here (type.c), those of types that live in the same hash in locks/hash.h. So every lock type fills
 * in every function but those that say NULL, and the engine does not test for others. Types that
 * have no holds leave the functions of holds out.
 */
#ifndef REDLATCH_CALL_TYPE_H
#define REDLATCH_CALL_TYPE_H

#include "core/call/line.h"
#include "core/service/waiters.h"
#include "core/wire/buf.h"
#include "core/wire/reply.h"

#include <redlatch/async.h>
#include <redlatch/lock.h>
#include <stdbool.h>

/* The server's answers (wire.md, Scripts). To a take one of the first three, or for how many ms the holder's lease
 * still runs, -1: unknown. The fourth to what is asked about a hold that is not there. */
#define RDL__TAKEN (-10)
#define RDL__HELD_ALREADY (-11)
#define RDL__GONE (-12)
#define RDL__NO_HOLD (-14)
/* A release or force was done, but the server has refused to publish it; or it has woken the first client in line. */
#define RDL__UNTOLD 2
#define RDL__WOKE_ANOTHER 3
#define RDL__TOLD_OTHERS 4 /* nobody stood in line, and somebody has heard it */
#define RDL__STANDS 5      /* it has woken the first in line, and the client stands there itself */
#define RDL__OUTSIDE 6     /* other calls of the client wait, and to enter the line was refused */
#define RDL__HEARD_BY 16   /* above it: of what is raced for, so many more than that have heard it (share.h) */

/* A callback of the type's own signature: ops->call_back casts it back and calls it. */
typedef void rdl__callback_fn(void);

struct rdl__call;
struct rdl__name;
struct rdl__handle_ops;
struct rdl__record;
struct rdl__settings;

/* Hold n of one end of a lock, by the client's owner k. */
struct rdl__hold_of {
    const struct rdl__name *name;
    int64_t n;
    unsigned k;
    enum rdl__line line; /* what its release says of the client's place */
};

struct rdl__lock_ops {
    const struct rdl__handle_ops *handle;  /* handle.h */
    const struct rdl__lock_ops *kept;      /* the same where its client keeps it (cached.h); NULL: it never does */
    const struct rdl__lock_ops *other_end; /* of a lock with two ends; NULL: it has one */

    /* names */
    const char *name;
    const char *kind;  /* the same for both ends of one lock */
    const char *thing; /* what it is called in messages; NULL: "lock" */
    const char *busy;  /* why an acquire has timed out, in messages; NULL: "somebody else holds it" */
    void (*call_back)(const rdl_op_t *op, int64_t result, const rdl_err_t *err); /* op->fn is not NULL */
    void (*unused)(struct rdl__name *name); /* the name's last reference is gone; may be NULL  @locks none */

    /* How its calls wait. */
    const char *channel; /* prefix of the channel's name: prefix(channel, N); `p{`: always p{N} */
    enum rdl__news news; /* what messages on the channel mean */
    /* Append the name of the channel on which the call waits, and set what is the type's own in call->waiter. */
    void (*waits_on)(struct rdl__buf *to, struct rdl__call *call);

    /* The rest is for types that are held by an owner, for a lease. */
    bool nests;        /* false: a second take by the owner is RDL_EDEADLK */
    bool alone;        /* RDL_OUTAGE_LOCAL may be wanted: one owner at a time has it, in no particular order */
    rdl_retry_t retry; /* what RDL_RETRY_DEFAULT means */
    int renew;         /* the renewal's script, which takes many locks at a time */

    /* Write the field of hold n, and return its length; not NUL-terminated, `to` has room for RDL__FIELD_MAX. */
    size_t (*field_of)(char *to, const struct rdl__name *name, int64_t n);
    /* How long a hold that was confirmed for lease_ms counts as held without a further confirmation. */
    int64_t (*trusted_ms)(const struct rdl__name *name, int64_t lease_ms);

    /* A take of number call->n and count call->count.
     * may_take: before the first try and after each refusal: RDL_OK, or what the call ends with.
     * decode_take: puts one of the answers above into call->answer, and a grant's token into call->hold.token.
     * leaves_trace: does a refused try leave something at the server, which a release takes away?
     * granted: the call was woken: has the message granted the lock, for *ret_lease_ms from its last sending? If so its
     * token is in call->hold.token. */
    int (*may_take)(struct rdl__call *call, int64_t now);
    void (*put_take)(struct rdl__call *call, struct rdl__buf *to, bool eval);
    void (*decode_take)(struct rdl__call *call, const struct rdl__reply *reply);
    bool (*leaves_trace)(const struct rdl__call *call);
    bool (*granted)(struct rdl__call *call, int64_t now, int64_t *ret_lease_ms);

    /* Where its client keeps it and tokens are times: is hold call->n there? Answered {s, us, ttl or RDL__NO_HOLD} as a
     * renewal; no token that is drawn later, by anybody, is below that time. NULL: it has no such tokens. */
    void (*put_confirm)(struct rdl__call *call, struct rdl__buf *to, bool eval);

    /* A release that lowers the count to `count`. With 0 it also undoes whatever a take has got, or left in a queue. */
    void (*put_release)(struct rdl__buf *to, const struct rdl__hold_of *hold, bool eval, int64_t count);

    /* Is it held? */
    void (*put_query)(struct rdl__buf *to, const char *name, size_t len);
    void (*decode_query)(struct rdl__call *call, const struct rdl__reply *reply); /* call->answer */

    /* A forced unlock: put_holder asks who holds it, decode_holder finds the holder's field in the answer (false:
     * nobody), put_force evicts that holder, which is in call->words. evicts_also: has that evicted the record's hold,
     * too, although it is not the one that was named?  @locks the name's */
    void (*put_holder)(struct rdl__buf *to, const char *name, size_t len);
    bool (*decode_holder)(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len);
    void (*put_force)(const struct rdl__call *call, struct rdl__buf *to, bool eval);
    bool (*evicts_also)(const struct rdl__record *rec, const struct rdl__call *force);
};

static inline const char *rdl__thing(const struct rdl__lock_ops *ops)
{
    return ops->thing == NULL ? "lock" : ops->thing;
}

/* ---- type.c: functions for ordinary types ----------------------------------------------------------------------- */

void rdl__lock_call_back(const rdl_op_t *op, int64_t result, const rdl_err_t *err); /* an rdl_done_fn */
void rdl__waits_on_channel(struct rdl__buf *to, struct rdl__call *call);
void rdl__waits_in_line(struct rdl__buf *to, struct rdl__call *call); /* line.c: on the client's own channel */

/* For a lock with one end: its field is U:n, a hold is trusted for its lease, and there is one holder at a time. */
size_t rdl__plain_field(char *to, const struct rdl__name *name, int64_t n);
int64_t rdl__plain_trusted_ms(const struct rdl__name *name, int64_t lease_ms);
int rdl__plain_may_take(struct rdl__call *call, int64_t now);
bool rdl__evicts_no_other(const struct rdl__record *rec, const struct rdl__call *force);
#define RDL__ONE_END                                                                                                   \
    .field_of = rdl__plain_field, .trusted_ms = rdl__plain_trusted_ms, .may_take = rdl__plain_may_take,                \
    .evicts_also = rdl__evicts_no_other

/* A refused take leaves nothing at the server, and only an answer grants. */
bool rdl__leaves_no_trace(const struct rdl__call *call);
bool rdl__granted_by_answer(struct rdl__call *call, int64_t now, int64_t *ret_lease_ms);

/* The answer is a number: one of those above, or a token of the server's time, which is greater than any lease. To who
 * waits it may be {number, enum rdl__ear} or {number, enum rdl__ear, look_ms}: call->ear_for, call->look_ms. */
void rdl__decode_take(struct rdl__call *call, const struct rdl__reply *reply);

/* KEYS the lock and, unless `beside` is NULL, prefix(beside, N); ARGV field, count, lease, and `1` if a token is
 * wanted. If the take says something of the client's place in line (rdl__line_note_take): KEYS the lock's channel, too;
 * ARGV whether a token is wanted in any case, what it says, and `1` if other calls of the client wait (`0`: not). Last,
 * in ARGV, how many `tokens` are to be drawn from a counter, as a script that has one takes it; 0: no such argument. */
void rdl__put_take(struct rdl__call *call, struct rdl__buf *to, bool eval, int script, const char *beside,
                   int64_t tokens);
/* KEYS the lock, its channel; ARGV field, count, `spublish` where that is used. If the release says something of the
 * client's place in line (hold->line): ARGV field, count, `publish` or `spublish`, and what it says. */
void rdl__put_release(struct rdl__buf *to, const struct rdl__hold_of *hold, bool eval, int64_t count, int script);
/* KEYS the lock, its channel; ARGV the holder's field. */
void rdl__put_force(const struct rdl__call *call, struct rdl__buf *to, bool eval, int script);

/* EXISTS: it is held while the key is there. */
void rdl__put_exists(struct rdl__buf *to, const char *name, size_t len);

#endif
