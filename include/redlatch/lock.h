/* SPDX-License-Identifier: MIT */
/* lock.h - lock types and their verbs.
 *
 * A handle is a lock: two handles of one name and type in a client are the same lock, with the same holds. The same
 * name under another type is refused in one client, the two ends of a read-write lock excepted. Handles may be shared
 * among threads; the caller is the calling thread's owner (owner.h).
 *
 * A hold is judged by this process's own clock, pessimistically: it is valid until lease - elapsed since sending -
 * drift allowance. When that moment has passed, the hold is LOST, whether or not the server can be reached; the
 * callback of rdl_on_lost runs once, and every verb on the hold answers RDL_ELOST until it has been unlocked as often
 * as it was locked.
 *
 * Acquires, unlocks and extends of one owner on one lock are carried out one after another. So a blocking one waits for
 * those that were called before it, on another thread or by async.h, however long these wait; the time-out of an unlock
 * or extend counts from its turn, the wait of an acquire from the call. Each verb that asks the server waits for its
 * answer for command_timeout_ms (client.h) at most, where nothing else is said; it may end with RDL_ENOMEM, too, where
 * nothing else is said, and on the client's loop thread, where it would wait for itself, with RDL_EDEADLK.
 */
#ifndef REDLATCH_LOCK_H
#define REDLATCH_LOCK_H

#include <errno.h>
#include <redlatch/client.h>
#include <redlatch/error.h>
#include <redlatch/owner.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdl_lock_handle rdl_lock_t;

/* Lease: the client's watchdog_lease_ms, renewed until unlocked. */
#define RDL_LEASE_AUTO INT64_MIN
/* Wait: for as long as it takes. */
#define RDL_WAIT_FOREVER INT64_MAX
/* Longest lease and longest name. */
#define RDL_LEASE_MAX_MS (INT64_C(1) << 40)
#define RDL_NAME_MAX ((size_t)512 * 1024)

/* Fencing: a number that grows whenever the lock changes hands, to be checked by the resource that the lock guards. */
typedef enum rdl_fencing {
    RDL_FENCING_DEFAULT = 0, /* the type's own: NONE; for the fenced lock COUNTER */
    RDL_FENCING_NONE = 1,
    RDL_FENCING_TIME = 2, /* the server's clock in microseconds when the lock was taken; grows as long as that clock
                             does. The fenced lock: one more than the last, or that clock, whichever is more */
    RDL_FENCING_COUNTER =
        3, /* the fenced lock's own: one more than the last, counted by a key of its own in the server */
} rdl_fencing_t;

/* When to try again without a message. Locks whose unlock is published need no such pause: waiters are woken by
 * messages, and try again when the present lease ends, at least every 5 s. The simple lock is shared with code that
 * publishes nothing, so it also polls. All waiters of a process for one lock poll together, with one request at a time:
 * those of a spin lock by turns, as often as all of them would; other types' as often as one would. */
typedef enum rdl_retry_kind {
    RDL_RETRY_DEFAULT = 0, /* the type's own: NONE; for the simple lock EXPONENTIAL, 25 to 1000 ms, for the spin lock
                              EXPONENTIAL, 1 to 128 ms */
    RDL_RETRY_NONE = 1,    /* messages and the end of the lease only; not for the spin lock */
    RDL_RETRY_FIXED = 2,   /* every min_ms */
    RDL_RETRY_RANDOM = 3,  /* after min_ms to max_ms, evenly spread */
    RDL_RETRY_EXPONENTIAL = 4, /* after 0 to min(max_ms, min_ms * 2^tries), evenly spread ("full jitter") */
} rdl_retry_kind_t;

typedef struct rdl_retry {
    rdl_retry_kind_t kind;
    int64_t min_ms; /* 1 to 3600000; 0: 25 */
    int64_t max_ms; /* min_ms to 3600000; 0: 1000 or min_ms, whichever is more */
} rdl_retry_t;

/* What rdl_unlock waits for. */
typedef enum rdl_release {
    RDL_RELEASE_DEFAULT = 0,     /* CONFIRMED */
    RDL_RELEASE_CONFIRMED = 1,   /* the server's answer */
    RDL_RELEASE_UNCONFIRMED = 2, /* nothing: the release is handed to the connection (rdl_unlock) */
} rdl_release_t;

/* peer_watchdog_ms: no Java process shares the lock. */
#define RDL_NO_PEER INT64_C(-1)

#define RDL_LOCK_OPTIONS_VERSION 1
#define RDL_UPTIME_ANY (-1)
#define RDL_REPLICAS_NONE (-1)

typedef struct rdl_lock_options {
    uint32_t version;      /* RDL_LOCK_OPTIONS_VERSION */
    rdl_fencing_t fencing; /* see above */
    size_t name_len;       /* the name's bytes when it is not a C string; 0: up to its NUL */
    rdl_retry_t retry;     /* see above */
    bool nonreentrant;     /* fair lock only: a second take by its owner is RDL_EDEADLK */
    /* Fair lock, and read-write lock with prefer_writers: how long a waiter counts as alive after its last sign of
     * life, which it gives every third of that. Later its place is lost, or readers are let in. 100 to 3600000; 0:
     * 15000. */
    int64_t waiter_life_ms;
    int64_t peer_watchdog_ms; /* read-write locks only: see rdl_read_lock. 1 to 86400000; 0: 30000 */
    /* Of rdl_red_lock alone. How long one server's answer is waited for, by each verb, 1 to 3600000, never longer than
     * the lease of an acquire; 0: 50. A release that has too few answers by then is RDL_EUNKNOWN, and goes on. */
    int64_t node_timeout_ms;
    /* And how long a server must have been up to count: the longest lease that anybody who shares the lock asks for
     * (the call's own lease is the least in any case). 0: the first client's watchdog_lease_ms; RDL_UPTIME_ANY where a
     * restarted server has forgotten nothing (appendfsync always). */
    int64_t min_uptime_ms;
    bool prefer_writers; /* read-write locks only: see rdl_read_lock */
    /* How many replicas must confirm a hold: 1 to 255; 0: as the client's options say; RDL_REPLICAS_NONE: none. What
     * that guarantees: docs/replicas.md. Each take, rdl_extend and renewal asks for it in the same round trip, and
     * counts only when as many have confirmed it within replicas_timeout_ms (1 to 1000; 0: 100), or three quarters of
     * what is left of the call's wait; the time for renewals, which are sent in batches, may differ. A take that fewer
     * confirm is RDL_ENOREPLICAS, and undone; so is one where the user may not call WAIT, unless replicas_if_able. */
    int32_t replicas;
    bool replicas_if_able;
    int64_t replicas_timeout_ms;
    rdl_outage_t on_outage; /* what acquires do without a server; RDL_OUTAGE_DEFAULT: as the client's options say */
    /* What rdl_unlock waits for. UNCONFIRMED is refused together with replicas, of the client's options as well, and by
     * multi-locks and red locks, whose unlock waits for the members' answers whatever these have. */
    rdl_release_t release;
    /* Reentrant, non-reentrant, spin, fenced and read-write lock, at one server or behind Sentinel: keep the lock with
     * this client past an unlock, for so long from its grant, so that its threads take it again without asking the
     * server: docs/caching.md. 1 to 60000; 0: never. Somebody else who wants it has it back at once while nobody of
     * this process is inside; a single try elsewhere may be refused beside it, and where the process dies it is not
     * free before its lease ends: 5 s or 4 * cache_ms, whichever is more, and watchdog_lease_ms at most; nor is it
     * where an owner ends inside, however short a lease that one has asked for. A take that asks for a longer lease
     * than is left of that asks the server; while nothing is kept, so does one that asks for more than half of it. Of a
     * read-write lock the end that is used is kept, one at a time, the read end for all readers of the process, and
     * both are made with the same cache_ms; who comes to read while a writer elsewhere wants it waits up to 20 ms
     * before it asks, if it has that time. With tokens of RDL_FENCING_TIME, which a kept read-write lock has not, a
     * pair takes a microsecond at least on average, and some ask the server. Not with `release`, RDL_OUTAGE_LOCAL (also
     * where it is the client's option), nor as a member of a composite. */
    int64_t cache_ms;
} rdl_lock_options_t;

#define RDL_LOCK_OPTIONS_INIT RDL_INIT_(rdl_lock_options_t, RDL_LOCK_OPTIONS_VERSION)

/* ---- types ------------------------------------------------------------------------------------------------------ */

/* Each makes a handle, to be freed with rdl_lock_free; nothing is sent. `name` (1 to RDL_NAME_MAX bytes) and `options`
 * are copied. Options of the first handle of a name hold for all handles of that name; different ones are refused.
 * Errors: RDL_EINVAL (NULL client, name, options; the name is in use under another type or with other options),
 * RDL_ENOMEM, RDL_EFORK, RDL_ECLOSED. */

/* The general-purpose lock. Its owner may take it again; each take wants its unlock. A hash in Redis, understood by
 * Java's RLock (wire.md, reentrant). Waiters are woken by messages. */
RDL_API int rdl_reentrant_lock(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                               rdl_lock_t **ret_lock, rdl_err_t *err);

/* The reentrant lock for code that must not take it twice: a second take by its owner is RDL_EDEADLK at once. On the
 * wire it is the reentrant lock with a count of 1, and excludes it. */
RDL_API int rdl_nonreentrant_lock(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                                  rdl_lock_t **ret_lock, rdl_err_t *err);

/* The reentrant lock for very short holds: a waiter tries again after the pause of the retry policy (RDL_RETRY_NONE is
 * refused) instead of subscribing. Java's RSpinLock. Its unlock wakes ordinary waiters on the same name. */
RDL_API int rdl_spin_lock(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                          rdl_lock_t **ret_lock, rdl_err_t *err);

/* The reentrant lock whose every hold has a fencing token, counted in a key beside the lock that never expires: Java's
 * RFencedLock. rdl_token is the token of the caller's present hold; nested takes keep it. Tokens are always on
 * (RDL_FENCING_NONE is refused); a counter that somebody has set to no number, or below 1, fails every take with
 * RDL_ESERVER. A failover that loses the last increments repeats tokens; RDL_FENCING_TIME does not, as long as the
 * servers' clocks agree, and Java then sees such tokens, too. */
RDL_API int rdl_fenced_lock(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                            rdl_lock_t **ret_lock, rdl_err_t *err);

/* The two ends of a read-write lock: many readers or one writer. Java's RReadWriteLock. Both ends of a name can be had
 * in one client, with the same options; each end has its own holds, and its owner may take either again.
 *
 * The writer may take the read end as well, and then unlock the write end: a downgrade, readers come in at once. A
 * reader cannot take the write end: RDL_EDEADLK at once. While the owner's hold of one end is lost, taking the other is
 * RDL_ELOST. Readers come in whenever no writer holds the lock; a writer that readers overlap without end waits without
 * end. When the last reader or the writer leaves, waiting readers and writers are woken together, and all readers of a
 * process come in with the first.
 *
 * prefer_writers: a writer that waits for readers keeps new readers out, and gets in when the present ones have left.
 * Then all waiters compete again, so that neither side waits without end. An owner that holds either end is
 * let in as without the option, but code that reads must not wait for another owner that is about to read. A writer
 * that dies while it waits keeps readers out for waiter_life_ms. Writers and readers must both set the option: readers
 * of programs without it, and Java's, are not kept out.
 *
 * rdl_is_locked tells of this end; rdl_force_unlock of the read end evicts all readers.
 *
 * The watchdog of a Java reader sets the time to live of the whole lock to its own, 30 s unless configured otherwise,
 * whatever others hold, and ends with its process. So a read hold counts as valid for at most peer_watchdog_ms after
 * the server has confirmed it, and a longer one is confirmed again every third of that. Set it to the shortest watchdog
 * time-out of the Java processes, or to RDL_NO_PEER where none shares the lock. */
RDL_API int rdl_read_lock(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                          rdl_lock_t **ret_lock, rdl_err_t *err);
RDL_API int rdl_write_lock(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                           rdl_lock_t **ret_lock, rdl_err_t *err);

/* The lock of many scripts: SET name value NX PX lease, deleted if the value is still the caller's. The cheapest; not
 * re-entrant (RDL_EDEADLK). Waiters find unlocks by other software by polling (the retry policy). */
RDL_API int rdl_simple_lock(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                            rdl_lock_t **ret_lock, rdl_err_t *err);

/* First come, first served, across threads, processes and languages: Java's RFairLock. Waiters are in a queue at the
 * server, and each unlock passes the lock on to the first of them. A waiter keeps its place as long as it gives signs
 * of life; giving up (time-out, cancel) leaves the queue at once; one that has died is skipped after waiter_life_ms. A
 * try with wait_ms 0 does not queue, and does not overtake waiters. Costs the server a few times a reentrant lock's
 * work, however many wait. Java's own dead waiters are skipped when their place ends by Java's rules, after minutes. */
RDL_API int rdl_fair_lock(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                          rdl_lock_t **ret_lock, rdl_err_t *err);

/* Those types, and the two ends of the read-write lock: X(type, constructor, fencing, reentrant). type is what
 * rdl_lock_type calls it; fencing what its tokens are made of, if they are wanted, RDL_FENCING_NONE: a hold that many
 * share has none worth checking; reentrant: who holds it may take it again. For programs that let users choose. */
#define RDL_LOCK_TYPES(X)                                                                                              \
    X(reentrant, rdl_reentrant_lock, RDL_FENCING_TIME, true)                                                           \
    X(nonreentrant, rdl_nonreentrant_lock, RDL_FENCING_TIME, false)                                                    \
    X(simple, rdl_simple_lock, RDL_FENCING_TIME, false)                                                                \
    X(spin, rdl_spin_lock, RDL_FENCING_TIME, true)                                                                     \
    X(fenced, rdl_fenced_lock, RDL_FENCING_COUNTER, true)                                                              \
    X(fair, rdl_fair_lock, RDL_FENCING_TIME, true)
#define RDL_LOCK_ENDS(X)                                                                                               \
    X(read, rdl_read_lock, RDL_FENCING_NONE, true)                                                                     \
    X(write, rdl_write_lock, RDL_FENCING_TIME, true)

/* ---- several locks as one --------------------------------------------------------------------------------------- */

/* A composite is made from 1 to 256 handles of single locks, `members`, which may be freed: it has handles of its own.
 * Every function of this header and of async.h works on composites, too, as on one lock. Each member is taken, renewed
 * and released as any lock of its type is, so whoever takes a member alone, or with other members, in this process or
 * in Java, excludes and is excluded.
 *
 * Its owner in each member's client is the one that the calling thread has there, or is bound to, at the outermost
 * acquire. An `owner` given to an asynchronous verb must be of one of the members' clients; in the others an owner is
 * made that stands in for it. An owner's own holds of a member are counted apart: the composite releases only what it
 * has taken. When its owner in the first member's client ends, members that were taken elsewhere under owners that are
 * still there are released. Callbacks run, and timers go off, in the client of the first of `members`; when that is
 * closed the composite is, too.
 *
 * rdl_on_lost tells each loss by member (rdl_loss_t.member), where the callbacks of that member's client run. `state`
 * is the whole's: RDL_LOST, or RDL_AT_RISK while it is still held. rdl_unlock names lost members in its error.
 * rdl_lock_name is the members' names with `+` between them. rdl_lock_free does not release: members that are still
 * held and have other handles stay held.
 *
 * rdl_is_locked: are so many members held, by anybody, that it cannot be taken? rdl_remaining_ms, when the caller does
 * not hold it: the longest time until it can be taken.  rdl_force_unlock: 1 when any member was freed.
 *
 * Options: retry, and what says so; the others belong to the members. Errors: RDL_EINVAL (no or too many members; a
 * NULL one; a composite; the same lock twice, or both ends of one, be it by two clients of one server; of a red lock: a
 * read lock, two of one server; options), RDL_ENOMEM, RDL_EFORK, RDL_ECLOSED. */

/* All of the members, or none; of any types and clients. Free members cost one round trip together, in one write where
 * they are of one client. A member that is taken is waited for like a single lock; meanwhile only members that come
 * before it by name are held, so multi-locks never wait for each other in a circle; and
 * those only for a time that `retry` gives (250 to 500 ms, a third of the lease at most), since other programs may take
 * them in another order. The hold is valid until the first member's end. No member's time to live is ever above the
 * lease. Lost with the first member that is lost; the others stay held until unlocked. A member's error is the error of
 * the whole, and names that member. RDL_EDEADLK: two members are one lock, at one server by two clients, which was not
 * known when the multi-lock was made. Of several concurrent tries with wait_ms 0 all may be refused, each by a member
 * that another one had for a moment. rdl_token: RDL_EINVAL, the members have theirs. */
RDL_API int rdl_multi_lock(rdl_lock_t *const *members, size_t n, const rdl_lock_options_t *options,
                           rdl_lock_t **ret_lock, rdl_err_t *err);

/* The RedLock algorithm: one lock on n independent servers, held while a majority, n / 2 + 1, grants it. Members are
 * exclusive locks, usually of one name, each of a client of its own. All servers are asked at once, each for at most
 * node_timeout_ms; without a majority everything is given back, on all of them, and tried again when members' releases
 * that are heard of make a majority possible, after a pause that `retry` gives (exponential, 25 to 400 ms) at the
 * latest, until wait_ms is over: RDL_ETIMEDOUT (others hold too many), RDL_ENOQUORUM (too few have answered, or have
 * been up for long enough: min_uptime_ms). The hold is valid until the majority's first end: lease - elapsed - drift.
 * When the majority is lost, the hold is lost for good and the rest is given back; renewal never takes a member anew, a
 * nested acquire may. rdl_token: the largest of the members', which must all be made with RDL_FENCING_TIME (else
 * RDL_EINVAL); it grows as long as their servers' clocks differ by less than the time between two holds. */
RDL_API int rdl_red_lock(rdl_lock_t *const *members, size_t n, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                         rdl_err_t *err);

/* Free a handle; NULL is fine; returns NULL. Not while a call on this handle is under way. The last handle of a name
 * still held does not release it: the hold is no longer renewed and ends with its lease. */
RDL_API rdl_lock_t *rdl_lock_free(rdl_lock_t *lock);

/* ---- acquiring -------------------------------------------------------------------------------------------------- */

/* Take the lock, waiting for it at most wait_ms.
 *
 * wait_ms   0: ask once (the answer is waited for command_timeout_ms); RDL_WAIT_FOREVER: no limit. Otherwise the call
 *           has returned when wait_ms is over, whatever the server does; but the answer to the first try is waited for
 *           at least 20 ms, or four recent round trips if they take longer (command_timeout_ms at most), so that the
 *           shortest wait gets a free lock as 0 does.
 * lease_ms  1 to RDL_LEASE_MAX_MS: the hold ends by itself after that time unless extended; RDL_LEASE_AUTO: it is
 *           renewed until unlocked. Of nested holds the longest lease asked for counts.
 *
 * RDL_OK: held. Errors: RDL_ETIMEDOUT (somebody else has it); RDL_EDEADLK (held by the caller already, and the type is
 * not re-entrant); RDL_ELOST (the caller's present hold is lost: unlock it first; or what was granted was over before
 * the call could return, and is given back; or the hold before was, as its RDL_RELEASE_UNCONFIRMED has found);
 * RDL_EUNKNOWN (sent, not answered in time; what it may have done is being undone); RDL_ECONN (never sent; or there is
 * no connection when the wait ends, so it is unknown who has it); RDL_ENOREPLICAS (too few replicas have it: the option
 * `replicas`); RDL_EHOST (with RDL_OUTAGE_LOCAL: the host's lock file cannot be used, so nothing was sent);
 * RDL_ECANCELED; RDL_ESERVER (OOM, READONLY, WRONGTYPE ...: not held; what it may have done is being
 * undone); RDL_EINVAL; RDL_ENOMEM; RDL_EFORK; RDL_ECLOSED. */
RDL_API int rdl_try_lock(rdl_lock_t *lock, int64_t wait_ms, int64_t lease_ms, rdl_err_t *err);

/* rdl_try_lock with RDL_WAIT_FOREVER. Without any connection it gives up after outage_timeout_ms (RDL_ECONN), as any
 * longer wait does: counted from when the connection was lost, or from the call if that came later. A red lock goes on
 * asking, and so does a lock with RDL_OUTAGE_WAIT. */
RDL_API int rdl_lock(rdl_lock_t *lock, int64_t lease_ms, rdl_err_t *err);

/* ---- releasing -------------------------------------------------------------------------------------------------- */

/* Undo one acquire of the caller's; the last one frees the lock and wakes a waiter. The hold counts as released from
 * the moment of the call, whatever it returns but RDL_ENOMEM; a release that is not confirmed is repeated in the
 * background. RDL_OK also where the server has freed it and refused to send the message: that is logged, and waiters
 * try again by themselves, for example when the lease would have ended. Errors: RDL_ENOTOWNER (the caller does not hold
 * it); RDL_ELOST (the hold was lost before); RDL_EUNKNOWN; RDL_ECONN; RDL_ESERVER; RDL_EINVAL; RDL_ENOMEM (it is held
 * as before; never of an owner without another call that is under way or being undone); RDL_EFORK; RDL_ECLOSED.
 * Blocks for at most command_timeout_ms, from its turn on; that of a red lock for node_timeout_ms, if that is less.
 *
 * With RDL_RELEASE_UNCONFIRMED the release is sent, and the call returns RDL_OK, or what can be said without the
 * server: RDL_ENOTOWNER, RDL_ELOST, RDL_EINVAL, RDL_EFORK, RDL_ECLOSED. (Only behind another verb of this owner on this
 * lock, which is under way on another thread, it waits for its turn and its answer.) Takes of this client that begin
 * afterwards come after it at the server. What comes of it is told: a hold that was gone when the release was sent by
 * rdl_on_lost; that, and a release that the server has refused, by the log and, once, by this owner's next acquire of
 * this lock, which takes nothing: RDL_ELOST, RDL_ESERVER. It is repeated as any release is when its connection breaks
 * or it is refused. RDL_ENOMEM does not occur for an outermost hold: its take has reserved the memory. The handle may
 * be freed, and the thread or the owner end, at once. rdl_client_close waits for the answer, for close_timeout_ms at
 * most; a process that ends without it has usually sent it, and if not the lease ends the hold. */
RDL_API int rdl_unlock(rdl_lock_t *lock, rdl_err_t *err);

/* Free the lock whoever holds it, and wake a waiter. For manual repair: the holder learns of it by RDL_ELOST. Only the
 * holder that was seen is evicted, never one that came since. Returns 1 when freed, 0 when nobody held it. Its client
 * is told at once if it has had a hold for a second or more, and within that second otherwise (the server may forbid
 * that: docs/acl.md). A client that is not told, an older one, say, hears by its next renewal, which is at most a third
 * of the lease later; a hold with an explicit lease, which is not renewed, then passes for valid until its end or the
 * next verb that asks the server (rdl_extend, rdl_unlock). Errors: RDL_ECONN, RDL_EUNKNOWN, RDL_ESERVER, RDL_EINVAL,
 * RDL_EFORK, RDL_ECLOSED. */
RDL_API int rdl_force_unlock(rdl_lock_t *lock, rdl_err_t *err);

/* End the hold of `owner` and no other: "U:n", as rdl_loss_t and <redlatch/inspect.h> show it, of a writer "U:n:write".
 * Of a read-write lock either end will do as the handle: one reader of several is ended alone, and a writer with what
 * it reads. Who waits is woken, and the holder learns of it, as by rdl_force_unlock. Returns 1 when ended, 0 when that
 * hold is gone already: then nothing was done, whoever has the lock now. Errors: those of rdl_force_unlock; RDL_EINVAL
 * also for a multi-lock or a red lock, whose members have owners. */
RDL_API int rdl_evict(rdl_lock_t *lock, const char *owner, rdl_err_t *err);

/* ---- the present hold ------------------------------------------------------------------------------------------- */

/* Extend the caller's hold to at least lease_ms from now; never shortens it. A hold with an explicit lease keeps
 * one; one of RDL_LEASE_AUTO goes on being renewed. Errors: RDL_ENOTOWNER, RDL_ELOST, RDL_EUNKNOWN, RDL_ENOREPLICAS
 * (held as long as before), RDL_ECONN, RDL_ESERVER, RDL_EINVAL (lease), RDL_EFORK, RDL_ECLOSED. */
RDL_API int rdl_extend(rdl_lock_t *lock, int64_t lease_ms, rdl_err_t *err);

/* Ask the server whether anybody holds the lock: 1 or 0. Errors: RDL_ECONN, RDL_EUNKNOWN, RDL_ESERVER, RDL_EINVAL,
 * RDL_EFORK, RDL_ECLOSED. */
RDL_API int rdl_is_locked(rdl_lock_t *lock, rdl_err_t *err);

/* Does the caller hold the lock, by local judgement? 1 or 0, or RDL_ELOST. Nothing is sent. RDL_EINVAL, RDL_EFORK,
 * RDL_ECLOSED. */
RDL_API int rdl_is_held(rdl_lock_t *lock, rdl_err_t *err);

/* How often the caller has taken the lock and not yet unlocked it; 0 when not held. Nothing is sent. Errors: RDL_ELOST,
 * RDL_EINVAL, RDL_EFORK, RDL_ECLOSED. */
RDL_API int64_t rdl_hold_count(rdl_lock_t *lock, rdl_err_t *err);

/* How long the lock is still held. When the caller holds it: how long its hold is valid by local judgement, nothing is
 * sent. Otherwise the server is asked: time to live of the present holder's lease, 0 when free.
 * Errors: RDL_ELOST, RDL_ECONN, RDL_EUNKNOWN, RDL_ESERVER, RDL_EINVAL, RDL_EFORK, RDL_ECLOSED. */
RDL_API int64_t rdl_remaining_ms(rdl_lock_t *lock, rdl_err_t *err);

/* The fencing token of the caller's hold, above 0. Nothing is sent. Errors: RDL_ENOTOWNER, RDL_ELOST, RDL_EINVAL (the
 * lock was made without fencing), RDL_ECONN (the hold is RDL_DEGRADED: it has a token when the server is back),
 * RDL_EFORK, RDL_ECLOSED. */
RDL_API int64_t rdl_token(rdl_lock_t *lock, rdl_err_t *err);

typedef enum rdl_hold_state {
    RDL_NOT_HELD = 0,
    RDL_HELD = 1,
    RDL_AT_RISK = 2,  /* still held, for less than a third of the lease: two renewals in a row were not confirmed */
    RDL_LOST = 3,     /* no longer held, not yet unlocked */
    RDL_DEGRADED = 4, /* held on this host alone, while there is no server: RDL_OUTAGE_LOCAL */
} rdl_hold_state_t;

/* The state of the caller's hold, by local judgement; nothing is sent. RDL_EINVAL, RDL_EFORK, RDL_ECLOSED. */
RDL_API int rdl_hold_state(rdl_lock_t *lock, rdl_err_t *err);

/* ---- loss ------------------------------------------------------------------------------------------------------- */

typedef enum rdl_loss_reason {
    RDL_LOSS_LEASE = 1,       /* the lease ran out, or could not be renewed in time */
    RDL_LOSS_GONE = 2,        /* the server no longer knows the hold: evicted, flushed, failed over */
    RDL_LOSS_THREAD_EXIT = 3, /* its thread ended, or its owner was freed; the lease is running out */
    RDL_LOSS_RENEWAL = 4,     /* AT_RISK only: renewal is overdue */
    RDL_LOSS_OUTAGE = 5,      /* DEGRADED only: there is no server */
    RDL_LOSS_TAKEN = 6,       /* it was DEGRADED, the server is back, and somebody else has the lock there */
    RDL_LOSS_NONE = 0,        /* HELD only: it was DEGRADED, and is held at the server now */
} rdl_loss_reason_t;

typedef struct rdl_loss {
    rdl_hold_state_t state; /* RDL_AT_RISK or RDL_LOST; with RDL_OUTAGE_LOCAL also RDL_DEGRADED or RDL_HELD */
    rdl_loss_reason_t reason;
    const char *owner;    /* the hold's owner on the wire, "U:n"; with cache_ms a number that is this hold's alone */
    int64_t token;        /* its fencing token, or 0 */
    int64_t remaining_ms; /* RDL_AT_RISK: how long the hold is still valid; else 0 */
    rdl_lock_t *member;   /* of a composite: whose loss or risk it is, valid during the call; else NULL */
} rdl_loss_t;

/* Called where the client's callbacks run; `loss` is valid during the call. `lock` is the handle that was given to
 * rdl_on_lost. */
typedef void (*rdl_lost_fn)(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg);

/* Set the function that is told of holds of this lock, of any owner of this client, that are at risk or lost: once for
 * each hold and state. With RDL_OUTAGE_LOCAL also that a hold is RDL_DEGRADED, and that it is RDL_HELD again, as often
 * as that happens; of these two only the latest is told where both are due. That the server no longer knows a hold is
 * noticed when it is evicted by this library, or by its renewals: at the latest a third of the lease later for
 * RDL_LEASE_AUTO, and for read locks shared with Java. A hold with an explicit lease is not renewed, and so not asked
 * about until it ends, except after such an eviction, after a reconnect to another server or to one that was restarted,
 * and by the verbs that ask anyway. One function a handle; NULL removes it. After rdl_on_lost or rdl_lock_free has
 * returned on the thread where callbacks run, the former function is not called again; on other threads it may still be
 * running. Errors, which leave the former one: RDL_EINVAL, RDL_ENOMEM, RDL_EFORK, RDL_ECLOSED. */
RDL_API int rdl_on_lost(rdl_lock_t *lock, rdl_lost_fn fn, void *arg, rdl_err_t *err);

#if defined(__GNUC__)
/* In C, unlock `lock`, which the caller has taken, when the scope is left, by whatever way:
 *
 *     if (rdl_try_lock(lock, 1000, RDL_LEASE_AUTO, &err) == RDL_OK) {
 *         RDL_GUARD(lock);
 *         ...
 *     }
 *
 * What the unlock returns is not seen: a hold that was lost is told by rdl_on_lost. errno stays as it is, for whoever
 * sees what was returned. An extension of gcc and clang; C++ has std::lock_guard (redlatch.hpp). */
#define RDL_GUARD(lock)                                                                                                \
    rdl_lock_t *RDL_GUARD_NAME_(rdl_guard_, __LINE__) __attribute__((cleanup(rdl_guard_end_), unused)) = (lock)
#define RDL_GUARD_NAME_(prefix, line) RDL_GUARD_PASTE_(prefix, line)
#define RDL_GUARD_PASTE_(prefix, line) prefix##line
static inline __attribute__((unused)) void rdl_guard_end_(rdl_lock_t **lock)
{
    int before = errno;
    rdl_err_t err;

    rdl_unlock(*lock, &err);
    errno = before;
}
#endif

/* The lock's name and its length; valid while the handle is. */
RDL_API const char *rdl_lock_name(const rdl_lock_t *lock, size_t *ret_len);

/* The type's name: "reentrant", "nonreentrant", "simple", "spin", "fenced", "fair", "read", "write", "multi", "red".
 * Static. */
RDL_API const char *rdl_lock_type(const rdl_lock_t *lock);

#ifdef __cplusplus
}
#endif
#endif
