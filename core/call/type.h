/* type.h - what a lock type is to the engine: one const table. The types themselves are in locks/ (locks/types.h). */
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
/* A counted token t is answered as RDL__COUNTED - t: below all of these. One of the server's time is answered as it is:
 * no lease is that long. */
#define RDL__COUNTED (-1000)

/* What goes into a try. */
struct rdl__try {
    const char *name;
    size_t name_len;
    const char *field; /* U:n */
    size_t field_len;
    int64_t count;
    int64_t lease_ms;
    bool token;
};

#define RDL__QUEUE_KEYS 3
/* A callback of the type's own kind, to be called by ops->call_back alone. */
typedef void rdl__callback_fn(void);

struct rdl__name;
struct rdl__handle_ops;

struct rdl__lock_ops {
    const struct rdl__handle_ops *handle; /* what a handle of such a lock does (handle.h) */
    const char *name;
    const char *thing; /* what its users call it; NULL: a lock */
    const char *busy;  /* why an acquire has timed out; NULL: somebody else holds it */
    bool nests;        /* false: a second take by the owner is RDL_EDEADLK */
    bool shares;       /* many hold it at a time; so a try is always worth it, and who is let in lets others in */
    const struct rdl__lock_ops *partner; /* the other end of the same lock, which has records of its own; NULL: none */
    const char *ending;                  /* of its fields: U:n and this. NULL: nothing */
    bool polls;                          /* waiters look again by the retry policy alone, and subscribe to nothing */
    const char *channel;                 /* prefix of the channel's name: prefix(channel, N), */
    bool channel_wraps;                  /* or always channel{N} */
    enum rdl__news news;                 /* what messages on it mean */
    const char
        *counter; /* of a key that counts tokens, the take script's KEYS[2]: prefix(counter, N). NULL: there is none */
    /* Prefixes of the keys of a queue, which take, release and force are given behind name and channel. Then a refused
     * take leaves a place there, to be given up by a release; each owner that waits listens to a channel of its own,
     * prefix(channel, N):place (`news` is RDL__NEWS_OWN), and may be told there that the lock is its. NULL: there is no
     * queue. */
    const char *queue[RDL__QUEUE_KEYS];
    /* Prefix of the key in which those who wait to have the lock alone leave a mark, if the settings give them a life:
     * a refused take leaves one, to be given up by a release, and whoever wants to share the lock is not let in beside
     * a living one. Take and release are given the key behind the others. NULL: there are no marks. */
    const char *marks;
    int take; /* scripts */
    int release;
    int renew;
    int force;
    rdl_retry_t retry;                                                           /* what RDL_RETRY_DEFAULT means */
    void (*call_back)(const rdl_op_t *op, int64_t result, const rdl_err_t *err); /* op->fn is not NULL. NULL: a
                                                                                     lock's */

    /* A first try that is cheaper than the script, and its answer in the script's numbers. NULL: the script. */
    void (*encode_first)(struct rdl__buf *to, const struct rdl__try *t);
    bool (*decode_first)(const struct rdl__reply *reply, int64_t *ret);

    void (*unused)(struct rdl__name *name); /* nobody uses the name any more. May be NULL  @locks none */

    /* Ask who holds the lock, and find the holder's field in the answer; false: nobody. */
    void (*encode_holder)(struct rdl__buf *to, const char *name, size_t len);
    bool (*decode_holder)(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len);
};

static inline bool rdl__queues(const struct rdl__lock_ops *ops)
{
    return ops->queue[0] != NULL;
}

static inline const char *rdl__thing(const struct rdl__lock_ops *ops)
{
    return ops->thing == NULL ? "lock" : ops->thing;
}

#endif
