/* SPDX-License-Identifier: MIT */
/* inspect.h - what holds a lock, who waits, which locks there are: for people and their tools.
 *
 * All of this asks the server and changes nothing there. Each call blocks its caller's thread, for at most
 * command_timeout_ms (rdl_client_options_t) for each answer; not on the client's loop thread (RDL_EDEADLK). What it
 * says is how things stood at one moment of the server's: by the time it is read they may be otherwise. The rights that
 * a user needs are in docs/acl.md, Inspection.
 *
 * Holders of any program are found, Java's Redisson's too, as far as keys tell. The reentrant, non-reentrant and spin
 * lock are the same there, and so is a fair lock that nobody waits for and that was never waited for.
 *
 * Errors of all: RDL_EINVAL (arguments; what has the name is no lock), RDL_ESERVER (refused: the user may not, with the
 * server's words), RDL_ECONN, RDL_EUNKNOWN (no answer in time), RDL_EDEADLK, RDL_ENOMEM, RDL_EFORK, RDL_ECLOSED.
 */
#ifndef REDLATCH_INSPECT_H
#define REDLATCH_INSPECT_H

#include <redlatch/client.h>
#include <redlatch/error.h>
#include <redlatch/lock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for a client's id, and for an owner: the field `U:n` or `U:n:write` of a hash (wire.md, Identity), the value of
 * a simple lock, the 32 hex digits of a permit. NUL-terminated; unprintable bytes are \xHH, and a longer one is cut. */
#define RDL_CLIENT_ID_ROOM 37
#define RDL_OWNER_ROOM 132

/* How many holders and waiters are listed at most, however many there are. */
#define RDL_INSPECT_MAX 1000

/* What a client says of itself (wire.md, Descriptions); "" and 0 where it does not. Printable and cut, as an owner is.
 */
typedef struct rdl_description {
    bool known; /* false: it has left none, as Java's, or it is gone */
    char host[72];
    char program[72];
    char version[24]; /* of the library */
    char label[136];  /* the user's, like the next */
    char info[1032];
    int64_t pid;
    int64_t start_ms; /* when the client was opened: ms since 1970, by its host's clock */
} rdl_description_t;

typedef enum rdl_end {
    RDL_END_NONE = 0, /* the lock has no ends */
    RDL_END_READ = 1,
    RDL_END_WRITE = 2,
} rdl_end_t;

typedef struct rdl_holder {
    char owner[RDL_OWNER_ROOM];      /* as it stands on the wire */
    char client[RDL_CLIENT_ID_ROOM]; /* its U; "" when the owner tells of none, as a permit */
    rdl_end_t end;                   /* of a read-write lock */
    int64_t count;                   /* how often it has taken the lock */
    int64_t left_ms;                 /* until its lease ends; -1: it has no end */
    int64_t token;                   /* its fencing token, of a fenced lock; 0: none is on the wire */
    int64_t since_ms;                /* it has held it since then: ms since 1970, by the server's clock; 0: unknown */
    rdl_description_t by;
} rdl_holder_t;

typedef struct rdl_waiter {
    char owner[RDL_OWNER_ROOM];      /* its place: `U:k` in a fair lock's queue, U in a fair semaphore's */
    char client[RDL_CLIENT_ID_ROOM]; /* its U */
    int64_t since_ms;                /* it came then, by the server's clock; 0: unknown */
    rdl_description_t by;
} rdl_waiter_t;

/* Everything about one name. */
typedef struct rdl_inspection {
    const char *name; /* NUL-terminated */
    size_t name_len;
    /* "lock" (reentrant, non-reentrant, spin), "fenced", "fair", "read-write", "simple", "semaphore",
     * "permit-semaphore", "latch"; "counter": a semaphore or a latch that nobody waits for, or any other number;
     * "none": nothing has that name. Static. */
    const char *type;
    /* "free", "held", "read", "write"; of semaphores "free" while permits are, else "taken"; of a latch "closed".
     * Static. */
    const char *state;
    int64_t ttl_ms;  /* of the key; -1: it has none, or there is no key */
    int64_t now_ms;  /* the server's clock, ms since 1970 */
    int64_t holders; /* how many hold it; of semaphores how many permits with ids are taken */
    int64_t number;  /* free permits, or a latch's count; -1: the type has none */
    int64_t waiters; /* of a queue: how many stand in it; else how many clients listen for a release, which does not
                        count the threads of each, nor who polls, and counts for a moment those that have stopped; -1:
                        the user may not ask */
    int64_t token;   /* the last that a fenced lock has given; 0: none */
    bool in_order;   /* there is a queue: the list of waiters is in its order */
    size_t holder_count, waiter_count; /* how many are listed, RDL_INSPECT_MAX at most */
    const rdl_holder_t *holder;
    const rdl_waiter_t *waiter;
} rdl_inspection_t;

/* Who holds the lock, of whatever end. Returns how many do; the first `room` of them are written to ret_holders, which
 * may be NULL when room is 0. 0: it is free. A hold that was lost but is still in the server counts. RDL_EINVAL also
 * for a multi-lock or a red lock: ask its members. */
RDL_API int64_t rdl_holders(rdl_lock_t *lock, rdl_holder_t *ret_holders, size_t room, rdl_err_t *err);

/* How many wait for the lock (rdl_inspection_t.waiters). Those of a fair lock's queue are written to ret_waiters in the
 * order in which they will have it, the first `room` of them; of other locks nobody is, and *ret_listed is 0. Either
 * may be NULL. RDL_ESERVER where the user may not ask. */
RDL_API int64_t rdl_waiters(rdl_lock_t *lock, rdl_waiter_t *ret_waiters, size_t room, size_t *ret_listed,
                            rdl_err_t *err);

/* Everything about whatever has that name (name_len 0: up to its NUL), found out from the keys. Nothing there is a free
 * lock. To be freed with rdl_inspection_free, before the client is closed. RDL_EINVAL: what is there is no lock. */
RDL_API int rdl_inspect(rdl_client_t *client, const char *name, size_t name_len, rdl_inspection_t **ret_inspection,
                        rdl_err_t *err);

/* NULL is fine; returns NULL. */
RDL_API rdl_inspection_t *rdl_inspection_free(rdl_inspection_t *inspection);

/* ---- which locks there are -------------------------------------------------------------------------------------- */

typedef struct rdl_list_progress {
    int64_t keys;       /* that were gone through, about */
    int64_t keys_total; /* that there are, about */
    int64_t locks;      /* that were found, the present one among them */
} rdl_list_progress_t;

/* Is called for each lock, and with found NULL after each step. found is the library's and gone afterwards; of very
 * many holders or waiters it lists 16. Anything but 0 stops the list. Runs on the thread that lists, under no lock of
 * ours; must not close the client. */
typedef int (*rdl_list_fn)(const rdl_inspection_t *found, const rdl_list_progress_t *progress, void *arg);

/* Find all that is a lock, a semaphore or a latch, is there now, and has a name that matches `pattern` (as in Redis: *,
 * ?, [a-z], [^a], backslash; NULL: all of them). Keys beside locks are none. A number is listed where something says
 * that it is a semaphore or a latch: permits, a queue, somebody who waits, or the trace of a recent verb of ours.
 * Nothing is listed twice; what comes or goes meanwhile may be listed or not. What the user may not read is left out.
 *
 * Goes through the keys of every master by SCAN, in small steps: the server does not stand still however many keys it
 * has. Takes as long as it takes; each answer may take command_timeout_ms. Returns how many were found, also when it
 * was stopped. */
RDL_API int64_t rdl_list(rdl_client_t *client, const char *pattern, rdl_list_fn fn, void *arg, rdl_err_t *err);

typedef struct rdl_name {
    const char *bytes; /* the caller's */
    size_t len;        /* 1 to RDL_NAME_MAX */
} rdl_name_t;

/* The same for names that are known already, which costs the server a look at each and not one at all that it has: fn
 * is called for each of them, in any order, also for those that are free by now (type "none"). Left out is what is no
 * lock any more, and a name whose slot of a cluster has moved since the last answer; fn is never called with NULL.
 * Returns how many were told of. RDL_EINVAL also for a name without bytes or with too many. */
RDL_API int64_t rdl_list_names(rdl_client_t *client, const rdl_name_t *names, size_t count, rdl_list_fn fn, void *arg,
                               rdl_err_t *err);

/* ---- which servers there are ------------------------------------------------------------------------------------- */

/* A master, as it was when it was asked. */
typedef struct rdl_master {
    char server[128];      /* its address, as in rdl_err_t */
    int rc;                /* RDL_OK, or why there is no answer; the rest is not known then */
    int64_t keys;          /* that it has, of whatever kind; -1: not known */
    int64_t now_ms;        /* its clock, ms since 1970; 0: not known */
    int64_t round_trip_us; /* from the question to the answer; -1: not known */
} rdl_master_t;

/* The master, of a cluster those that have slots. Returns how many there are; the first `room` of them are written to
 * ret_masters, which may be NULL when room is 0. An error where none of them answers, as the first has it, and of the
 * arguments. */
RDL_API int rdl_masters(rdl_client_t *client, rdl_master_t *ret_masters, size_t room, rdl_err_t *err);

#ifdef __cplusplus
}
#endif
#endif
