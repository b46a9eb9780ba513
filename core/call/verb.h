/* verb.h - a verb under way, from inside: what the engine drives (inner.h) and the verbs fill in.
 *
 * A verb is four functions and a few facts. To add one: a file like extend.c, a line in call.h.
 */
#ifndef REDLATCH_CALL_VERB_H
#define REDLATCH_CALL_VERB_H

#include "core/call/op.h"
#include "core/call/phase.h"
#include "core/call/record.h"
#include "core/call/take.h"

/* Acquire's steps serve every verb: send, (wait,) finish. */
typedef struct rdl__take_step rdl__step_t;

/* What is repeated for want of certainty ends after the lease that it is about, or after so long: longer than any
 * packet is on its way, or a replica behind. */
#define RDL__REPEATS_MOST_MS INT64_C(3600000)

struct rdl__verb {
    bool acquires;  /* may wait, may be canceled */
    bool on_record; /* concerns the owner's own hold */
    bool acked;     /* counts only when as many replicas have it as the lock wants */
    bool prolongs;  /* where it ran, the hold lasts for its lease */
    bool listens;   /* among the waiters, but takes nobody's turn */
    enum rdl__successor_mode successor_mode;
    bool has_successor;
    rdl__step_t (*begin)(struct rdl__call *call, int64_t now);
    void (*encode)(struct rdl__call *call, struct rdl__buf *to, bool eval);
    void (*decode)(struct rdl__call *call, const struct rdl__reply *reply);
    rdl__step_t (*answered)(struct rdl__call *call, int64_t now);
    rdl__step_t (*woken)(struct rdl__call *call,
                         int64_t now); /* while it waits, by whatever it may have heard. NULL: it tries again */
    void (*put_undo)(const struct rdl__call *call, struct rdl__buf *to,
                     bool eval); /* wanted where there is a successor, or step.undo */
    void (*undone)(const struct rdl__call *call,
                   int64_t now); /* the undo was answered, and nothing of the call may come any more; may be NULL */
    void (*ended)(const struct rdl__call *call, int rc); /* and its undo may be about to begin; may be NULL */
    unsigned (*undo_more)(
        const struct rdl__call *call);                  /* commands that put_undo writes behind the first; NULL: none */
    bool (*undo_short)(const struct rdl__reply *reply); /* is something left to be done after an undo? NULL: never */
    bool (*lost)(const struct rdl__call *call,
                 int64_t now);      /* what was granted is over by now, as its caller is told of it. NULL: never */
    const char *(*texts)(int code); /* what a code means here; NULL, or answering NULL: the usual */
    int script;                     /* of those whose encode takes it from here */
    bool copies_permits;            /* the order's list of permits is the caller's only until the call has begun */
    bool undo_releases;             /* the undo of an outermost hold is its release */
};

/* On which connection a request goes: the loop's; a lane of callers; that of what replicas confirm. None: it is an undo
 * that was answered, and goes on by the loop's without anybody behind it. */
enum rdl__way { RDL__WAY_NONE, RDL__WAY_LOOP, RDL__WAY_CALLERS, RDL__WAY_ACKED };

/* What a verb keeps of its own. */
struct rdl__hold_part { /* take and release of a lock */
    int64_t own;        /* the type's, of this take */
    int64_t token;      /* of what was granted; 0: none */
    int32_t undo_count; /* to be left by the undo */
    unsigned char form; /* of the try, the type's own */
};

struct rdl__permit_part { /* permits with ids (permit_semaphore.c) */
    rdl_permit_t *list;
    int64_t hint_ms;    /* of a refusal that has other words as well */
    int64_t told_until; /* for so long: kept here, because `req` may be the undo's as soon as it is told */
    uint16_t series;    /* of takes: which ids of this n they name */
    bool unanswered;    /* a sending of this series has not been answered, */
    bool in_doubt;      /* and another one followed: it may come yet, unless it was killed */
    bool told;          /* the series is the caller's, until told_until */
};

struct rdl__guard_part { /* what guards make repeatable (once.c) */
    int64_t settled_n;   /* of an earlier call whose guard this one takes away; 0: none, or it has */
};

struct rdl__force_part {
    unsigned char stage;
};

/* What is left to be undone at the server, which outlives the call (undo.c). Loop thread only, but where it says so. */
struct rdl__undo {
    bool begun;           /* it is under way, or about to be: by whoever drives the call */
    bool all_answered;    /* when it began, nothing that the call had sent could come any more: likewise */
    unsigned char detour; /* enum rdl__detour: of its last request */
    bool failed;          /* it was answered with an error, or fell short */
    unsigned tries;
    _Atomic int gate;      /* any thread. Call concluded, undo settled: whoever comes second ends both */
    int64_t until;         /* repeat it no longer than that; 0: it has not been answered yet */
    struct rdl__debt debt; /* until the call's timer repeats it */
};

/* A single lock's call. Whoever drives it, its caller's thread or the loop, may touch all but the fields that say
 * otherwise. */
struct rdl__call {
    rdl_op_t op;

    /* immutable once made */
    const struct rdl__verb *verb;
    const struct rdl__lock_ops *ops; /* which end of the lock */
    bool once;                       /* an acquire that asks once, however long it may wait for the answer */

    /* the verb's */
    bool refused_words;      /* `words` are an error */
    int32_t acks;            /* what they say: replicas that have it, or RDL__ACKS_... (acks.h) */
    struct rdl__record *rec; /* NULL: the verb needs none, or there is none */
    struct rdl__take take;
    int32_t count; /* wanted, or to be left; of permits */
    struct rdl__rand rand;
    int64_t n;
    int64_t answer; /* the server's, as a number */
    char *words;    /* the server's error, or a field that it named */
    uint32_t words_size, words_len;
    union {
        struct rdl__hold_part hold;
        struct rdl__permit_part permit;
        struct rdl__guard_part guard;
        struct rdl__force_part force;
    };

    /* driving */
    int64_t deadline;            /* of the whole call */
    struct rdl__shard *shard;    /* where its last request was sent; the first while it has sent none */
    struct rdl__shard *sent_to;  /* the same, of the call without its undo; NULL while it has sent none */
    struct rdl__req req;         /* the verb's; then its undo's */
    unsigned char next;          /* enum rdl__next: set before `task` is posted, by whoever does */
    _Atomic unsigned char phase; /* enum rdl__phase (phase.h) */
    /* Where the server sent the last request elsewhere (request.c, detours). */
    unsigned char detour;   /* enum rdl__detour */
    bool sent_before;       /* an earlier sending of the request may have run, at the server that it went to then, */
    bool may_come;          /* and may yet come, because that one refuses CLIENT KILL */
    bool resent_once;       /* an earlier request of the call was sent anew after its connection had broken */
    unsigned char way;      /* enum rdl__way: of the request, or of the undo; once that is sent, done_undo's */
    unsigned char lane;     /* RDL__WAY_CALLERS: which of them; the owner's, unless there are undos on another */
    unsigned detours;       /* in a row */
    int64_t detours_until;  /* no longer than that */
    struct rdl__shard *ask; /* RDL__DETOUR_ASK: there, this once */

    struct rdl__waiter waiter; /* loop thread only */

    struct rdl__undo undo;

    /* What is on no list between two calls, and so ready for the next: made once (rdl__owner_take_spare). */
    struct rdl__timer timer;  /* loop thread only; of the call, then of its undo */
    struct rdl__link pending; /* on the record's queue, under the name's mu */
    struct rdl__task task;    /* posted by any thread, run by the loop: of the call, then of its undo */
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

static inline int64_t rdl__call_lease_ms(const struct rdl__call *call)
{
    return rdl__op_lease_ms(&call->op, rdl__call_client(call));
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

/* May what the call has sent on a connection that broke still come? Where CLIENT KILL is refused (protocol.md, 3). */
static inline bool rdl__call_unkilled(const struct rdl__call *call)
{
    return call->may_come || atomic_load(&call->shard->node.kill_refused);
}

/* May an earlier sending of the request still come, after its answer? */
static inline bool rdl__call_may_come(const struct rdl__call *call)
{
    return (call->req.resent || call->resent_once) && rdl__call_unkilled(call);
}

/* Keep bytes of the server's; nothing is kept when memory is short. `error`: they are its refusal.  @locks the lane's
 */
void rdl__call_keep_words(struct rdl__call *call, const char *bytes, size_t len, bool error);

/* Into call->answer; words of refusal when the reply is no number. */
void rdl__decode_number(struct rdl__call *call, const struct rdl__reply *reply);

/* Is it to be confirmed by replicas? */
enum rdl__asking rdl__call_asks_replicas(const struct rdl__call *call);
static inline enum rdl__asking rdl__call_asks(const struct rdl__call *call)
{
    return rdl__call_name(call)->settings.replicas == 0 || !call->verb->acked ? RDL__ASKS_NOBODY
                                                                              : rdl__call_asks_replicas(call);
}

/* Have as many confirmed it as the lock wants? */
bool rdl__call_acked(const struct rdl__call *call);

/* Has the server refused the request with words that do not prove that nothing was written? Then it is undone as if
 * there had been no answer. */
bool rdl__call_refused_in_doubt(const struct rdl__call *call);

/* A lock was freed; if nobody could be told, say so to whoever cares for the rights. Waiters look again by themselves.
 */
void rdl__call_freed(const struct rdl__call *call);

/* What every verb makes of an answer that is none. RDL_OK: it is one. */
int rdl__answer_failed(const struct rdl__call *call);

/* Begin without asking oneself anything; finish with `value` as the result, unless the answer failed. */
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
void rdl__put_field(struct rdl__buf *to, const struct rdl__call *call); /* of call->n */
/* Where the owner stands in a queue: `U:k`, the same for all its waits; `to` has room for RDL__FIELD_MAX. */
size_t rdl__place(char *to, const struct rdl__call *call);
void rdl__put_place(struct rdl__buf *to, const struct rdl__call *call);
/* What a take's script is told first: field, count, lease, and, if a token is wanted or `more` follows, whether it is.
 */
void rdl__put_wish(const struct rdl__call *call, struct rdl__buf *to, bool more);
static inline bool rdl__wants_token(const struct rdl__call *call)
{
    return rdl__call_name(call)->settings.fencing == RDL_FENCING_TIME;
}

/* The server has confirmed that the hold is given up for good: another server that takes over may not know. */
void rdl__note_release(const struct rdl__call *call, int64_t now);
void rdl__release_encode(struct rdl__call *call, struct rdl__buf *to, bool eval);
void rdl__put_undo(const struct rdl__call *call, struct rdl__buf *to, bool eval); /* of a lock's take or release */

/* The word by which scripts send messages (scripts/publishes.inc). Scripts for which it may be absent are told it as
 * their last argument, only where it is not the usual one: so many arguments more. */
void rdl__put_publish(struct rdl__buf *to, const struct rdl__name *name);
void rdl__put_publish_last(struct rdl__buf *to, const struct rdl__name *name);
static inline size_t rdl__publish_args(const struct rdl__name *name)
{
    return rdl__client_sharded(name->client) ? 1 : 0;
}

/* The channel on which the lock's waiters listen. */
void rdl__channel_name(struct rdl__buf *to, const struct rdl__name *name);

#endif
