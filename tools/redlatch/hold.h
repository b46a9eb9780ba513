/* SPDX-License-Identifier: MIT */
/* hold.h - what the command holds while it runs: a lock, a multi-lock, a red lock or a permit, with the same functions.
 *
 * The session (session.c) makes one request at a time, and an event tells its outcome; it does not know which kind it
 * has. A kind is a table of its own (struct hold_ops): hold_lock.c has what the library calls a lock, hold_permit.c the
 * permits of a semaphore. hold.c has the clients, which they share, and picks the kind.
 *
 * One thread, the session's: all functions are called there, and all events come there. Only hold_open waits. */
#ifndef REDLATCH_TOOL_HOLD_H
#define REDLATCH_TOOL_HOLD_H

#include "tools/redlatch/run_options.h"

#include <poll.h>
#include <redlatch/redlatch.h>

/* Descriptors that hold_poll fills in at most: the clients' and a timer's. */
#define HOLD_FDS_MAX (REDLOCK_MAX + 1)

#define MEMBERS_MAX (NAMES_MAX > REDLOCK_MAX ? NAMES_MAX : REDLOCK_MAX)

struct hold;

/* What a kind does. */
struct hold_ops {
    int (*make)(struct hold *h, rdl_err_t *err);                      /* the handles; nothing is sent */
    int (*take)(struct hold *h, int64_t wait_ms, rdl_err_t *err);     /* RDL_OK: `taken` will come */
    int (*ask)(struct hold *h, rdl_err_t *err);                       /* RDL_OK: `answered` will come */
    int (*release)(struct hold *h, rdl_err_t *err);                   /* RDL_OK: `released` will come */
    int (*token)(struct hold *h, int64_t *ret_token, rdl_err_t *err); /* NULL: it has none */
    void (*tick)(struct hold *h);                                     /* look at the clock; NULL: it keeps no time */
    void (*free)(struct hold *h);                                     /* the handles, which may be NULL */
};

/* Events for the session. Never from inside hold_take, hold_ask or hold_release. */
struct hold_events {
    void (*taken)(void *arg, int code, const rdl_err_t *err);    /* RDL_OK: it is held */
    void (*answered)(void *arg, int code, const rdl_err_t *err); /* RDL_OK or RDL_ESERVER: the server has answered */
    void (*released)(void *arg, int code, const rdl_err_t *err); /* it is no longer held, whatever the code */
    void (*lost)(void *arg, const char *why);                    /* it is lost, and still has to be released */
    void (*degraded)(void *arg, bool degraded);                  /* held on this host alone; or by the server again */
};

struct hold {
    const struct hold_ops *ops;
    const struct run_options *options;
    const struct hold_events *events;
    void *arg;
    rdl_client_t *clients[REDLOCK_MAX];
    size_t client_count;
    rdl_op_t *taking; /* the last call of a take */

    struct hold_locks { /* hold_lock.c */
        rdl_lock_t *lock;
        rdl_lock_t *members[MEMBERS_MAX]; /* of one that is several; none when it is not */
        size_t member_count;
    } locks;

    struct hold_permit { /* hold_permit.c; times are those of CLOCK_BOOTTIME */
        rdl_permit_semaphore_t *semaphore;
        rdl_permit_t id;
        int timer_fd;           /* -1: none */
        int64_t wait_ms;        /* of the take under way */
        int64_t count_ms;       /* when to tell the server again how many permits there are */
        int64_t asked_ms;       /* when the present renewal was asked for */
        int64_t renew_ms;       /* when to ask for the next; HOLD_NEVER: one is under way */
        int64_t valid_until_ms; /* what the server has confirmed, judged pessimistically */
        bool counted;           /* the server has been told how many permits there are */
        bool waiting;           /* for a permit, not only asking once */
        bool canceled;
        bool held;
    } permit;
};

#define HOLD_NEVER INT64_MAX

/* What the command line says of the way to the servers, into a client's options; they point to `tls`. */
void hold_access(const struct run_options *o, rdl_client_options_t *options, rdl_tls_options_t *tls);

/* Connect to the servers (one, or those of --redlock), and make what the options ask for. `h` is zeroed. On an error
 * hold_close is to be called all the same; RDL_EINVAL: the address uris[h->client_count] is wrong. */
int hold_open(struct hold *h, const struct run_options *options, const char *const *uris, size_t count, rdl_err_t *err);

/* Tell `arg` by `events` from now on. */
int hold_begin(struct hold *h, const struct hold_events *events, void *arg, rdl_err_t *err);

/* Free everything; NULL and half-built parts are fine. What is held is left to its lease. Events may still come. */
void hold_close(struct hold *h);

/* As rdl_try_lock_async, rdl_op_cancel and rdl_unlock_async. hold_ask: does the server, or a majority of several,
 * answer? */
int hold_take(struct hold *h, int64_t wait_ms, rdl_err_t *err);
int hold_ask(struct hold *h, rdl_err_t *err);
void hold_cancel(struct hold *h);
int hold_release(struct hold *h, rdl_err_t *err);

/* The fencing token of what is held. RDL_OK and 0: it has none. */
int hold_token(struct hold *h, int64_t *ret_token, rdl_err_t *err);

/* Fill in what to poll; returns how many. And run the events that are due, never waiting. */
size_t hold_poll(const struct hold *h, struct pollfd fds[HOLD_FDS_MAX]);
void hold_dispatch(struct hold *h);

/* How long a server may be away during a wait without a bound. */
#define HOLD_OUTAGE_MS 60000

/* How long reaching a server may take when the user waits that long. */
int64_t hold_connect_ms(int64_t wait_ms);

/* The lease: --lease, or the default. */
int64_t hold_lease_ms(const struct run_options *options);

extern const struct hold_ops hold_lock_ops;
extern const struct hold_ops hold_permit_ops;

#endif
