/* type.h - what a lock type is to the engine: one const table of functions. The types themselves are in locks/
 * (locks/types.h); docs/adding-a-lock-type.md builds one.
 *
 * A lock that may be held by each of its two ends in its own way has two tables. What many types do alike is a function
 * that they share: here what is nothing special, in locks/hash.h what those do that live in the same hash. So whatever
 * is held fills in every function of its part, and the engine asks for none whether it is there.
 */
#ifndef REDLATCH_CALL_TYPE_H
#define REDLATCH_CALL_TYPE_H

#include "core/service/waiters.h"
#include "core/wire/buf.h"
#include "core/wire/reply.h"

#include <redlatch/async.h>
#include <redlatch/lock.h>
#include <stdbool.h>

/* What the server answers to a take, in numbers (wire.md, Scripts). */
#define RDL__TAKEN (-10)
#define RDL__HELD (-11)
#define RDL__GONE (-12)
#define RDL__NO_HOLD (-14)
/* And to a release or a force: done, but the server has refused the message to who waits. */
#define RDL__UNTOLD 2

/* A callback of the type's own kind, to be called by ops->call_back alone. */
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
};

struct rdl__lock_ops {
    const struct rdl__handle_ops *handle; /* what a handle of such a lock does (handle.h) */

    /* What it is. */
    const char *name;
    const char *kind;  /* the ends of one lock have the same */
    const char *thing; /* what its users call it; NULL: a lock */
    const char *busy;  /* why an acquire has timed out; NULL: somebody else holds it */
    void (*call_back)(const rdl_op_t *op, int64_t result, const rdl_err_t *err); /* op->fn is not NULL */
    void (*unused)(struct rdl__name *name); /* nobody uses the name any more. NULL: fine  @locks none */

    /* How its calls wait. */
    const char *channel; /* prefix of the channel's name: prefix(channel, N); `p{`: always p{N} */
    enum rdl__news news; /* what messages mean where its calls wait */
    bool shares;         /* many have it at a time */
    bool in_line;        /* who waits is counted, and no call of this process asks before those that wait already */
    bool tells_all;      /* whoever listens on the channel hears of each release */
    /* Where a call waits: the channel, or, answering false, the name of a meeting place that nobody subscribes to. */
    bool (*meet)(struct rdl__buf *to, const struct rdl__call *call);

    /* The rest is of what is held, by an owner, for a lease. */
    bool nests;        /* false: a second take by the owner is RDL_EDEADLK */
    rdl_retry_t retry; /* what RDL_RETRY_DEFAULT means */
    int renew;         /* script: those of many locks are renewed by one request */

    /* The field of its hold n; not NUL-terminated, `to` has room for RDL__FIELD_MAX. */
    size_t (*field_of)(char *to, const struct rdl__name *name, int64_t n);
    /* How long after a confirmation for lease_ms a hold may be believed in. */
    int64_t (*believed_ms)(const struct rdl__name *name, int64_t lease_ms);

    /* A take, of call->n, with call->count. Before the first try, and after each that was refused, the owner is asked
     * whether it may have it at all: RDL_OK, or what the call ends with. decode_take leaves one of the numbers above,
     * or the holder's time left, in call->answer, and a grant's token in call->hold.token. A refused try may have left
     * something at the server, which a release gives up. A call that is woken may have been granted it by the message,
     * for *ret_lease_ms from when its last try was sent; then its token is in call->hold.token. */
    int (*may_take)(struct rdl__call *call, int64_t now);
    void (*put_take)(struct rdl__call *call, struct rdl__buf *to, bool eval);
    void (*decode_take)(struct rdl__call *call, const struct rdl__reply *reply);
    bool (*leaves_trace)(const struct rdl__call *call);
    bool (*granted)(struct rdl__call *call, int64_t now, int64_t *ret_lease_ms);

    /* A release, which leaves a count of `left`; with 0 also the undo of whatever a take may have got or left. */
    void (*put_release)(struct rdl__buf *to, const struct rdl__hold_of *hold, bool eval, int64_t left);

    /* Is it held? */
    void (*put_query)(struct rdl__buf *to, const char *name, size_t len);
    void (*decode_query)(struct rdl__call *call, const struct rdl__reply *reply); /* call->answer */

    /* Ask who holds it, and find the holder's field in the answer, false: nobody; then evict that holder, which was
     * kept as call->words. Does the record's hold go with it, another than the one that was named?  @locks the name's
     */
    void (*put_holder)(struct rdl__buf *to, const char *name, size_t len);
    bool (*decode_holder)(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len);
    void (*put_force)(const struct rdl__call *call, struct rdl__buf *to, bool eval);
    bool (*goes_with)(const struct rdl__record *rec, const struct rdl__call *force);
};

static inline const char *rdl__thing(const struct rdl__lock_ops *ops)
{
    return ops->thing == NULL ? "lock" : ops->thing;
}

/* ---- type.c: what is nothing special ---------------------------------------------------------------------------- */

void rdl__lock_call_back(const rdl_op_t *op, int64_t result, const rdl_err_t *err); /* an rdl_done_fn */
bool rdl__meet_on_channel(struct rdl__buf *to, const struct rdl__call *call);

/* Of a lock with one end: its field is U:n, it is believed in for its lease, and one has it at a time. */
size_t rdl__plain_field(char *to, const struct rdl__name *name, int64_t n);
int64_t rdl__plain_believed_ms(const struct rdl__name *name, int64_t lease_ms);
int rdl__plain_may_take(struct rdl__call *call, int64_t now);
bool rdl__goes_alone(const struct rdl__record *rec, const struct rdl__call *force);
#define RDL__ONE_END                                                                                                   \
    .field_of = rdl__plain_field, .believed_ms = rdl__plain_believed_ms, .may_take = rdl__plain_may_take,              \
    .goes_with = rdl__goes_alone

/* A refused take leaves nothing, and only an answer grants. */
bool rdl__leaves_no_trace(const struct rdl__call *call);
bool rdl__granted_by_answer(struct rdl__call *call, int64_t now, int64_t *ret_lease_ms);

/* The answer is a number: as above, or a token of the server's time, which is higher than any lease is long. */
void rdl__decode_take(struct rdl__call *call, const struct rdl__reply *reply);

/* KEYS the lock and, unless `beside` is NULL, prefix(beside, N); ARGV field, count, lease, and `1` if a token is
 * wanted. */
void rdl__put_take(const struct rdl__call *call, struct rdl__buf *to, bool eval, int script, const char *beside);
/* KEYS the lock, its channel; ARGV field, count. */
void rdl__put_release(struct rdl__buf *to, const struct rdl__hold_of *hold, bool eval, int64_t left, int script);
/* KEYS the lock, its channel; ARGV the holder's field. */
void rdl__put_force(const struct rdl__call *call, struct rdl__buf *to, bool eval, int script);

/* It is held while the key is there. */
void rdl__put_exists(struct rdl__buf *to, const char *name, size_t len);

#endif
