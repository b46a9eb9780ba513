/* SPDX-License-Identifier: MIT */
/* pools.h - semaphores and latches: what callers do with them, and what they may believe then.
 *
 * A pool is a name under which something is counted: permits that are numbers, permits with leases, or a latch's count.
 * A user is a caller with its handles. A call is one verb of a user's, from its beginning to its answer. Apps, callers
 * and the faults that befall them are those of the locks (apps.h).
 *
 * What is free at the end follows from the calls: what there is, less what was taken. A verb that ended without an
 * answer is undone or goes on, so it counts as if it had been answered so; only of an app that is gone nobody knows,
 * and then both are allowed (doubt).
 */
#ifndef TESTS_SIM_POOLS_H
#define TESTS_SIM_POOLS_H

#include "tests/sim/apps.h"
#include "tests/sim/line.h"

#define MOST_POOLS 2
#define MOST_WISH 3
#define MOST_HELD 24

enum pool_verb {
    POOL_ACQUIRE,
    POOL_GIVE,
    POOL_DRAIN,
    POOL_ADD,
    POOL_SET, /* what there is; again */
    POOL_EXTEND,
    POOL_LOOK,
    POOL_COUNT_DOWN,
    POOL_AWAIT,
    POOL_VERBS,
};

struct pool_call;
struct pool_user;

/* A kind of pool is a row in pools.c. */
struct pool_kind {
    const char *name;
    bool leased;      /* its permits have ids and leases */
    bool counts_down; /* it is a latch */
    unsigned verbs;   /* that it has, a bit each */
    void (*make)(struct pool_user *user, size_t pool);
    void (*unmake)(struct pool_user *user, size_t pool);
    int64_t (*call)(struct pool_call *call, rdl_err_t *err);
    int (*start)(struct pool_call *call, rdl_err_t *err);
};

extern const struct pool_kind pool_kinds[];
extern const size_t pool_kind_count;

struct pool {
    char text[32];
    const struct pool_kind *kind;
    bool fair;
    int64_t total;             /* permits that there are, added ones from the call; or the latch's first count */
    int64_t out;               /* of those that are numbers: taken by answers, less given back by calls */
    int64_t downs;             /* calls to count down */
    int64_t doubt[MOST_APPS];  /* of all this, what was called by each app and not answered for certain; */
    int64_t drains[MOST_APPS]; /* and its drains of that kind, each of which takes what there is when it comes */

    /* the checkers' */
    int64_t seen_at;                   /* what follows, as of which of the server's commands */
    int64_t free, taken;               /* as the keyspace shows */
    int64_t free_since[MOST_WISH + 1]; /* so many, at the least; -1: they are not. [0]: the latch is open */
    const struct app *first;           /* in the queue of a fair one; NULL: nobody */
    int64_t first_since;
    int64_t left_at[MOST_APPS]; /* when somebody of that app last ceased to wait */
    int64_t late[MOST_APPS];    /* permits that its takes have taken that came late, since not long before late_at */
    int64_t late_at[MOST_APPS];
    int64_t idle_since[MOST_APPS]; /* nobody of it waits; -1: somebody does */
    struct line line;
    char granted[64][FIELD_SIZE]; /* the requests that were granted last */
    unsigned granted_count;
};

union pool_handle {
    rdl_semaphore_t *plain;
    rdl_permit_semaphore_t *leased;
    rdl_latch_t *latch;
};

struct held {
    rdl_permit_t permit;
    int64_t until; /* it is believed in, by the app's clock */
};

/* What a user believes to have of one pool. */
struct stake {
    int64_t count; /* permits that are numbers */
    struct held held[MOST_HELD];
    size_t held_count;
};

struct pool_user {
    struct caller *caller;
    union pool_handle handles[MOST_POOLS];
    struct stake stakes[MOST_POOLS];
};

struct pool_call {
    struct rdl__link link; /* among those under way */
    struct pool_user *user;
    size_t pool;
    enum pool_verb verb;
    int64_t amount; /* of permits */
    int64_t wait_ms;
    int64_t lease_ms;
    rdl_permit_t permits[MOST_WISH]; /* taken, to be given back, or to be extended */
    int64_t called, deadline;        /* as of calls on locks */
    bool sure;                       /* the permits are sound, and will be when the server sees the call */
    bool canceled;
    struct fibre *waiter;
    const struct fibre *starter;
    bool done;
    int64_t result;
    rdl_op_t *op;
};

struct pool_sim {
    struct pool pools[MOST_POOLS];
    size_t pool_count;
    struct pool_user users[MOST_CALLERS]; /* as sim's callers */
    struct rdl__link calls;               /* under way */
};

extern struct pool_sim pool_sim;

void pool_sim_begin(void); /* empty, once sim has begun */
struct pool *pool_add(const char *text, const struct pool_kind *kind, bool fair, int64_t total);

struct pool_user *pool_user_join(struct caller *caller);
void pool_user_leave(struct pool_user *user);

/* Those it believes in still, or, of numbers, has. */
int64_t pool_user_has(const struct pool_user *user, size_t pool);

/* Do it and wait for the answer. In a fibre of the user's app. Of permits with leases the first `amount` of the
 * user's are given back, or one is extended. */
int64_t do_pool_call(struct pool_user *user, size_t pool, enum pool_verb verb, int64_t amount, int64_t wait_ms,
                     int64_t lease_ms);

/* Begin it, asynchronously. */
struct pool_call *begin_pool_call(struct pool_user *user, size_t pool, enum pool_verb verb, int64_t amount,
                                  int64_t wait_ms, int64_t lease_ms);
int64_t end_pool_call(struct pool_call *call); /* wait for its answer, and free it */
void cancel_pool_call(struct pool_call *call);

bool pool_call_waits(const struct pool_call *call); /* it is of the kind that may wait */
bool pool_call_canceled(const struct pool_call *call);

#endif
