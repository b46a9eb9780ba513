/* SPDX-License-Identifier: MIT */
/* verb.h - what a verb is (struct rdl__verb), and a single lock's call (struct rdl__call), which verbs fill in and the
 * engine drives (inner.h).
 *
 * To add a verb: a file like extend.c, which ends in its table, and a line in call.h.
 */
#ifndef REDLATCH_CALL_VERB_H
#define REDLATCH_CALL_VERB_H

#include "core/call/op.h"
#include "core/call/phase.h"
#include "core/call/record.h"
#include "core/call/take.h"

/* Every verb uses the steps of the acquire machine: send and finish; acquires also wait, are delayed and stay. */
typedef struct rdl__take_step rdl__step_t;

/* Undos and releases whose effect is uncertain are repeated for the lease that they are about, but no longer than this:
 * longer than any packet is under way, or a replica behind. */
#define RDL__REPEATS_MOST_MS INT64_C(3600000)

struct rdl__verb {
    bool acquires;   /* may wait, and be canceled by the user */
    bool releases;   /* gives a hold of a lock back: where the lock wants that, nobody waits for it (detached.c) */
    bool on_record;  /* concerns the owner's own hold */
    bool acked;      /* counts only when as many replicas have confirmed it as the lock wants */
    bool prolongs;   /* where it ran, the hold lasts for its lease */
    bool restores;   /* takes for a hold that is there: gives way to the next verb of its record, which cancels it */
    bool listens;    /* joins the waiters as a listener (waiters.h) */
    bool unrecorded; /* while it sleeps among the waiters, nobody looks at its record (record.h) */
    bool uncounted;  /* the client's own: no owner's, for the metrics */
    enum rdl__successor_mode successor_mode;
    bool has_successor;
    rdl__step_t (*begin)(struct rdl__call *call, int64_t now);
    /* Keep the order's arguments that are no numbers for the call, copies of those that the caller may take away once
     * it has begun (false: no memory); and free what that has allocated, which may be nothing. NULL: nothing to do. */
    bool (*keep_arguments)(struct rdl__call *call, const struct rdl__order *order);
    void (*free_arguments)(struct rdl__call *call);
    void (*encode)(struct rdl__call *call, struct rdl__buf *to, bool eval);
    void (*decode)(struct rdl__call *call, const struct rdl__reply *reply);
    rdl__step_t (*answered)(struct rdl__call *call, int64_t now);
    /* The next step of a call that waits and was woken. NULL: send a try. */
    rdl__step_t (*woken)(struct rdl__call *call, int64_t now);
    /* RDL__DO_STAY of a call that its caller's thread drives: sleep until that is over or `until`, and say what is
     * next. Calls of the loop are told by their task (RDL__NEXT_WAITED), and asked what is next by `woken`. NULL:
     * never. */
    rdl__step_t (*stay)(struct rdl__call *call, int64_t until);
    /* The undo's commands; required with has_successor or step.undo. undo_more: how many it writes behind the first
     * (NULL: none). undo_short: has the undo left something, so that it is repeated (NULL: never)? undo_once_more:
     * asked on the loop about an undo that was answered and is not repeated: is it sent again, at once (NULL: never)?
     * Must soon say no. undone: it was answered, and no request of the call can arrive any more (NULL: fine). */
    void (*put_undo)(const struct rdl__call *call, struct rdl__buf *to, bool eval);
    unsigned (*undo_more)(const struct rdl__call *call);
    bool (*undo_short)(const struct rdl__reply *reply);
    bool (*undo_once_more)(const struct rdl__call *call);
    void (*undone)(const struct rdl__call *call, int64_t now);
    void (*ended)(struct rdl__call *call, int rc);           /* before its undo begins, if there is one; may be NULL */
    bool (*lost)(const struct rdl__call *call, int64_t now); /* is what it was granted lost by now? NULL: never */
    const struct rdl__verb *takes_back; /* takes the count back of a grant that was lost; NULL: there is none */
    const struct rdl__verb *kept;       /* what it is of a lock that its client keeps (cached.h). NULL: the same */
    const char *(*texts)(int code);     /* the verb's own text for a code. NULL, or returning NULL: rdl_strerror's */
    int script;                         /* for verbs that share an encode function, which reads it here */
    bool undo_releases;                 /* the undo with undo_count 0 releases the hold, and may leave its line */
};

/* Which lane of the shard a request goes on: the loop's, one of the callers', the acks lane. None: an undo that was
 * answered, and is repeated on the loop's lane; takes need not go behind it. */
enum rdl__way { RDL__WAY_NONE, RDL__WAY_LOOP, RDL__WAY_CALLERS, RDL__WAY_ACKED };

/* Fields of one kind of verb, in a union of struct rdl__call. */
struct rdl__hold_fields { /* take and release of a lock */
    int64_t own;          /* free for the lock type's use in a take */
    int64_t token;        /* of the grant; 0: none */
    union {
        int64_t valid_until; /* of a release that is not waited for: when the hold would have ended */
        int64_t alone_at;    /* of a take: when the host's own lock stands in (alone.h); 0: not yet known */
        int64_t clock_us;    /* of a query whether a kept hold is there (kept.c): the server's; 0: not told */
    };
    int32_t undo_count;  /* the count that the undo leaves */
    unsigned char form;  /* free for the lock type's use: which command the try was */
    unsigned char local; /* enum rdl__local (cache.h), with `answer` under the name's mu while it is QUEUED */
};

struct rdl__guard_fields { /* verbs with a guard (locks/counted/once.c) */
    int64_t settled_n;     /* an earlier call whose guard this request deletes; 0: none, or it is deleted */
};

struct rdl__force_fields {
    unsigned char stage; /* FORCE_ASK, then FORCE_EVICT (force.c) */
    bool named;          /* an eviction: the hold that was named, and none that many have beside it */
};

/* The undo, which outlives the call (undo.c). Loop thread only, but where it says so. It has no request, way, task and
 * timer of its own: the call is done with them by the time it needs them, and each owner keeps the memory of a call.
 * How far it has come is no phase, as two threads say that in either order: what was left in the lane may have been
 * answered, on the loop, before the thread that has left it there notes that it has begun (rdl__undo_begins). */
struct rdl__undo {
    bool begun;           /* it is under way, or about to be; set by the thread that drives the call, like the next */
    bool all_answered;    /* when it began, every sending of the call had been answered */
    bool detached;        /* it began as a release that is not waited for (detached.c); immutable once it has begun */
    bool told;            /* and what came of that has been told */
    unsigned char detour; /* enum rdl__detour: of its last request */
    bool failed;          /* it was answered with an error, or fell short */
    bool answered;        /* once at least; until then call->timer is the call's */
    _Atomic unsigned char gate; /* any thread: how often rdl__undo_gate was called */
};

/* An undo that was answered, and is repeated. Loop thread only. */
struct rdl__repeat {
    struct rdl__debt debt; /* queued while the call's timer runs until the next repeat */
    int64_t until;         /* repeat it no longer than that */
    unsigned tries;
};

/* A single lock's call. Its fields belong to the thread that drives it (phase.h), except where they say otherwise. */
struct rdl__call {
    rdl_op_t op;

    /* immutable once made */
    const struct rdl__verb *verb;
    const struct rdl__lock_ops *ops; /* which end of the lock */
    bool one_try;                    /* an acquire that does not wait for the lock: a refusal ends it */

    /* the verb's */
    bool refused_words;    /* `words` are the server's error */
    unsigned char ear_for; /* enum rdl__ear: of a take's refusal */
    unsigned char line;    /* enum rdl__line: of its latest request, also the undo's; under the lane's mu then */
    int32_t look_ms;       /* of a take's refusal: it is to look after so long, whoever holds the lock; 0 */
    struct rdl__take take;
    union {
        int32_t count;  /* of verbs of a hold: its count once they are done: a take wants it, a release leaves it */
        int32_t amount; /* of the others: as struct rdl__order */
    };
    /* NULL: the verb needs none, or there is none. Under the name's mu while `unrecorded`. */
    struct rdl__record *rec;
    int64_t n;      /* by which the server knows it: its hold's number, or its own (protocol.md, 1 and 2), the first of
                       `amount` where each unit has one; drawn once. That of a hold which
                       was taken here is never sent (cache.h) */
    int64_t answer; /* the server's, as a number; a release's undo writes it, too, for rdl__line_left_over */
    union {
        struct rdl__hold_fields hold;
        struct rdl__guard_fields guard;
        struct rdl__force_fields force;
        unsigned char fields[sizeof(struct rdl__hold_fields)]; /* a struct of the verb's file (rdl__call_fields) */
    };
    char *words; /* bytes of the server's answer: an error, or a holder's field; NUL-terminated. NULL: none */
    uint32_t words_len;
    int16_t acks; /* replicas that have confirmed it, or RDL__ACKS_... (acks.h) */

    struct rdl__undo undo;

    /* driving */
    unsigned char detour;  /* enum rdl__detour */
    unsigned char detours; /* redirections in a row (request.c) */
    bool sent_before;      /* a sending before the redirection lost its connection: it may have run at that server, */
    bool may_come;         /* and may still arrive there, because it refuses CLIENT KILL */
    bool resent_once;      /* an earlier request of the call was sent anew after its connection had broken */
    bool unrecorded;       /* asleep without a record (call.c); set by the loop under the name's mu */
    unsigned char way;     /* enum rdl__way: of the request, then of the undo */
    unsigned char lane;    /* RDL__WAY_CALLERS: which lane; the owner's, unless undos of the name are on another */
    unsigned char next;    /* enum rdl__next: set before `task` is posted */
    _Atomic unsigned char phase; /* enum rdl__phase (phase.h) */
    bool counted;                /* in name->waiting */
    uint32_t loop_sleep;         /* RDL__LINE_STOOD: the loop's (rdl__loop_sleep) as it was about to find its place */
    int64_t deadline;            /* of the whole call */
    struct rdl__shard *shard;    /* where its last request was sent, or its undo; `home` before the first */
    struct rdl__shard *sent_to;  /* where its last request was sent, the undo not counted; NULL before the first */
    struct rdl__req req;         /* the verb's; then its undo's */
    int64_t detours_until;       /* when redirections in a row are given up */
    struct rdl__shard *ask;      /* RDL__DETOUR_ASK: send it there, this once */

    union {
        struct rdl__waiter waiter; /* loop thread only */
        struct rdl__repeat repeat; /* of the undo */
    };

    /* Set up once for the life of the memory (rdl__owner_take_spare), as they are on no list between two calls. */
    struct rdl__timer timer; /* loop thread only; of the call, then of its undo */
    struct rdl__task task;   /* posted by any thread, run by the loop: of the call, then of its undo */
    struct rdl__task cancel_task;
};

static inline struct rdl__name *rdl__call_name(const struct rdl__call *call)
{
    return call->op.lock->name;
}

static inline rdl_client_t *rdl__call_client(const struct rdl__call *call)
{
    return call->op.lock->name->client;
}

static inline void *rdl__call_fields(const struct rdl__call *call)
{
    return (void *)(uintptr_t)call->fields;
}

static inline int64_t rdl__call_lease_ms(const struct rdl__call *call)
{
    return rdl__op_lease_ms(&call->op, rdl__call_client(call));
}

/* It as an argument. */
static inline void rdl__put_lease(struct rdl__buf *to, const struct rdl__call *call)
{
    if (call->op.lease_ms == RDL_LEASE_AUTO)
        rdl__buf_put(to, rdl__call_client(call)->lease_arg, rdl__call_client(call)->lease_arg_len);
    else
        rdl__cmd_int(to, call->op.lease_ms);
}

/* What its retry policy draws from: others' draw otherwise. */
static inline uint16_t rdl__call_seed(const struct rdl__call *call)
{
    return (uint16_t)(rdl__call_client(call)->serial ^ (uint64_t)call->op.started_at);
}

static inline rdl__step_t rdl__finish_with(int rc)
{
    return (rdl__step_t){.what = RDL__DO_FINISH, .rc = rc};
}

static inline rdl__step_t rdl__send_it(void)
{
    return (rdl__step_t){.what = RDL__DO_SEND};
}

/* ---- verb.c: what verbs have in common -------------------------------------------------------------------------- */

/* detached.c. A take begins that wants another hold, of a lock that detaches: is there memory for its release? In the
 * way: may it have been refused because a release of its owner's came behind it, and is gone by now, or is still to
 * come?  @locks takes the name's */
bool rdl__detached_reserve(struct rdl__record *rec);
bool rdl__detached_in_the_way(struct rdl__call *call, bool *ret_gone);

/* The next request is sent after a pause (request.c). */
void rdl__call_pauses(struct rdl__call *call, int64_t now);

/* Can a request that the call sent on a connection that broke still arrive? Where CLIENT KILL is refused (protocol.md,
 * 3).
 */
static inline bool rdl__call_unkilled(const struct rdl__call *call)
{
    return call->may_come || atomic_load(&call->shard->node.kill_refused);
}

/* Can an earlier sending of the request still arrive, after the answer to its repeat? */
static inline bool rdl__call_may_come(const struct rdl__call *call)
{
    return (call->req.resent || call->resent_once) && rdl__call_unkilled(call);
}

/* Keep bytes of the server's answer in call->words; empty when memory is short. `error`: they are an error. By who
 * reads the answer, or drives the call while no request of it is in a lane. */
void rdl__call_keep_words(struct rdl__call *call, const char *bytes, size_t len, bool error);

/* Into call->answer; an error in call->words when the reply is no number. */
void rdl__decode_number(struct rdl__call *call, const struct rdl__reply *reply);

/* acked.c: must replicas confirm it, and can they be asked? */
enum rdl__asking rdl__call_asks_replicas(const struct rdl__call *call);
static inline enum rdl__asking rdl__call_asks(const struct rdl__call *call)
{
    return rdl__call_name(call)->settings.replicas == 0 || !call->verb->acked ? RDL__ASKS_NOBODY
                                                                              : rdl__call_asks_replicas(call);
}

/* Have as many replicas confirmed it as the lock wants? */
bool rdl__call_acked(const struct rdl__call *call);

/* Is the answer an error that does not prove that nothing was written? Then the request is undone as if it had not been
 * answered. */
bool rdl__call_refused_in_doubt(const struct rdl__call *call);

/* A lock was freed: note how many have heard it (share.h), or log that the server refused to publish it, for want of
 * rights maybe. Waiters then try again by their own timers. */
void rdl__call_freed(const struct rdl__call *call);

/* The code of a request that failed or was answered with an error; RDL_OK: it was answered. */
int rdl__answer_failed(const struct rdl__call *call);

/* A `begin` that just sends; an `answered` that ends with `value` as the result, unless the answer failed. */
rdl__step_t rdl__begin_by_asking(struct rdl__call *call, int64_t now);
rdl__step_t rdl__answer_is(struct rdl__call *call, int64_t value);

/* prefix(p, N), as a word of a command. */
void rdl__put_prefixed(struct rdl__buf *to, const char *prefix, const struct rdl__name *name);
/* The same with `:tail`, and suffix(N, s). */
void rdl__put_tailed(struct rdl__buf *to, const char *prefix, const struct rdl__name *name, const char *tail,
                     size_t tail_len);
void rdl__put_suffixed(struct rdl__buf *to, const struct rdl__name *name, const char *suffix);
/* The channel, likewise. */
void rdl__put_channel(struct rdl__buf *to, const struct rdl__name *name);
/* The client's own, `channel:{U}`: RDL__OWN_TAIL longer. */
#define RDL__OWN_TAIL (RDL__UUID_LEN + 3)
void rdl__own_channel_name(struct rdl__buf *to, const struct rdl__name *name);
void rdl__put_field(struct rdl__buf *to, const struct rdl__call *call); /* of call->n */
/* The owner's entry in a queue at the server: `U:k`, the same for all its waits; `to` has room for RDL__FIELD_MAX. */
size_t rdl__place(char *to, const struct rdl__call *call);
void rdl__put_place(struct rdl__buf *to, const struct rdl__call *call);
/* The first arguments of a take's script: field, count, lease, and, if a token is wanted or `more` arguments follow,
 * whether one is. */
void rdl__put_take_args(const struct rdl__call *call, struct rdl__buf *to, bool more);
static inline bool rdl__wants_token(const struct rdl__call *call)
{
    return rdl__call_name(call)->settings.fencing == RDL_FENCING_TIME;
}

/* The server has confirmed the release of the outermost hold: note it in the replay log, for a new master that may not
 * have seen it. */
void rdl__note_release(const struct rdl__call *call, int64_t now);
void rdl__release_encode(struct rdl__call *call, struct rdl__buf *to, bool eval);
void rdl__put_undo(const struct rdl__call *call, struct rdl__buf *to, bool eval); /* of a lock's take or release */

/* Texts: what RDL_EUNKNOWN means where nothing is undone; and RDL_ECONN, where the request waits for a connection all
 * the same. */
const char *rdl__goes_on(int code);
const char *rdl__done_or_not(int code);
const char *rdl__nothing_done(int code); /* of queries */

/* The tokens that a kept hold has of a counter (cache.h): its take reserves so many. */
#define RDL__TOKENS_KEPT 4096

/* What each take of a lock has in its table, and each release, whatever else they do. */
#define RDL__UNDONE_BY_RELEASE .has_successor = true, .put_undo = rdl__put_undo, .undo_releases = true
#define RDL__TAKES                                                                                                     \
    .acquires = true, .on_record = true, .acked = true, .prolongs = true, .successor_mode = RDL__SUCCESSOR_FOLLOWS,    \
    RDL__UNDONE_BY_RELEASE
#define RDL__RELEASES                                                                                                  \
    .releases = true, .on_record = true, .successor_mode = RDL__SUCCESSOR_REPLACES, RDL__UNDONE_BY_RELEASE,            \
    .encode = rdl__release_encode, .decode = rdl__decode_number, .texts = rdl__goes_on

/* The functions of the usual verbs, for those of kept locks, and of a host's (alone.c). */
void rdl__take_encode(struct rdl__call *call, struct rdl__buf *to, bool eval);
void rdl__take_decode(struct rdl__call *call, const struct rdl__reply *reply);
rdl__step_t rdl__take_answered(struct rdl__call *call, int64_t now);
rdl__step_t rdl__take_woken(struct rdl__call *call, int64_t now);
rdl__step_t rdl__release_begin(struct rdl__call *call, int64_t now);
rdl__step_t rdl__release_answered(struct rdl__call *call, int64_t now);
rdl__step_t rdl__extend_begin(struct rdl__call *call, int64_t now);
void rdl__extend_encode(struct rdl__call *call, struct rdl__buf *to, bool eval);
void rdl__extend_decode(struct rdl__call *call, const struct rdl__reply *reply);
rdl__step_t rdl__extend_answered(struct rdl__call *call, int64_t now);
void rdl__is_locked_encode(struct rdl__call *call, struct rdl__buf *to, bool eval);
void rdl__is_locked_decode(struct rdl__call *call, const struct rdl__reply *reply);
rdl__step_t rdl__is_locked_answered(struct rdl__call *call, int64_t now);
rdl__step_t rdl__remaining_begin(struct rdl__call *call, int64_t now);
void rdl__remaining_encode(struct rdl__call *call, struct rdl__buf *to, bool eval);
rdl__step_t rdl__remaining_answered(struct rdl__call *call, int64_t now);
rdl__step_t rdl__take_begin(struct rdl__call *call, int64_t now);
/* Do others of its process wait, who may be in its way when it comes to ask the server? */
bool rdl__take_others_wait(const struct rdl__call *call);

/* The command with which scripts publish, `publish` or `spublish` (scripts/arguments.inc). For scripts where it is
 * optional it is their last argument, present only if it is `spublish`: rdl__publish_args more arguments. */
void rdl__put_publish(struct rdl__buf *to, const struct rdl__name *name);
void rdl__put_publish_last(struct rdl__buf *to, const struct rdl__name *name);
static inline size_t rdl__publish_args(const struct rdl__name *name)
{
    return rdl__client_sharded(name->client) ? 1 : 0;
}

/* The channel on which the lock's waiters listen. */
void rdl__channel_name(struct rdl__buf *to, const struct rdl__name *name);

#endif
