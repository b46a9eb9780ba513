/* verb.h - a verb under way, from inside: what call.c drives and the verbs fill in.
 *
 * A verb is four functions and a few facts. To add one: a file like extend.c, a line in call.h.
 */
#ifndef REDLATCH_LOCKS_VERB_H
#define REDLATCH_LOCKS_VERB_H

#include "locks/call.h"
#include "locks/record.h"
#include "locks/take.h"

/* Acquire's steps serve every verb: send, (wait,) finish. */
typedef struct rdl__take_step rdl__step_t;

struct rdl__verb {
    bool acquires;  /* may wait, may be canceled */
    bool on_record; /* concerns the owner's own hold */
    enum rdl__heir_mode heir_mode;
    bool has_heir;
    rdl__step_t (*begin)(rdl_op_t *op, int64_t now);
    void (*encode)(rdl_op_t *op, struct rdl__buf *to, bool eval);
    void (*decode)(rdl_op_t *op, const struct rdl__reply *reply);
    rdl__step_t (*answered)(rdl_op_t *op, int64_t now);
    void (*put_undo)(const rdl_op_t *op, struct rdl__buf *to, bool eval); /* wanted where there is an heir, or step.undo */
    const char *(*texts)(int code); /* what a code means here; NULL, or answering NULL: the usual */
    int script;                     /* of those whose encode takes it from here */
    bool copies_permits;            /* the order's list of permits is the caller's only until the call has begun */

    /* A call that is not driven by call.c (joint.c): its last reference is given back. All the rest is NULL. */
    void (*gone)(rdl_op_t *op);
};

/* A call. Whoever drives it, its caller's thread or the loop, may touch all but the fields that say otherwise. */
struct rdl_op {
    /* immutable once made */
    const struct rdl__verb *verb;
    rdl_lock_t *lock;
    const struct rdl__lock_ops *ops; /* which end of it */
    rdl_owner_t *owner;
    rdl__callback_fn *fn;
    void *arg;
    int64_t started_at;
    int64_t wait_ms;
    int64_t lease_ms;
    bool once;   /* an acquire that asks once, however long it may wait for the answer */
    bool direct; /* fn runs on the loop as the call ends, whatever the client's dispatch */
    bool blocking;

    /* the verb's */
    unsigned char stage;     /* of verbs with several requests */
    bool was_queued;         /* behind another verb of its record */
    bool first_form;         /* the try was sent as ops->encode_first */
    bool refused_words;      /* `words` are an error */
    struct rdl__record *rec; /* NULL: the verb needs none, or there is none */
    struct rdl__take take;
    struct rdl__rand rand;
    int64_t n;
    int64_t partner_n; /* of the owner's hold of the other end; 0: it has none */
    int64_t settled_n; /* of an earlier call whose guard may go (guarded.c); 0: none */
    int64_t count;     /* wanted, or to be left; of permits */
    rdl_permit_t *permits;
    int64_t hint_ms;    /* of a refusal that has other words as well */
    int64_t undo_count; /* to be left by the undo */
    int64_t answer;     /* the server's, as a number */
    char *words;        /* the server's error, or a field that it named */
    size_t words_size, words_len;
    int64_t result;

    /* driving */
    int64_t deadline; /* of the whole call */
    struct rdl__req req;
    struct rdl__req undo;
    struct rdl__parker done; /* a blocked caller, while the loop drives */
    bool undoing;            /* an undo is under way, or about to be */

    /* loop thread only */
    bool looped;      /* the loop drives it and it has not ended */
    bool waiting;     /* counted in the name's `waiting` */
    bool undo_failed; /* the undo was answered with an error */
    unsigned undo_tries;
    int64_t undo_until; /* repeat it no longer than that; set before the undo may begin */
    struct rdl__waiter waiter;

    /* any thread */
    _Atomic unsigned refs;
    _Atomic int cancel_code; /* RDL_OK: nobody asked */
    _Atomic int undo_gate;   /* call concluded, undo settled: whoever comes second ends both */

    /* What is on no list between two calls, and so ready for the next: made once (rdl__owner_take_spare). */
    struct rdl__timer timer;       /* loop thread only */
    struct rdl__timer undo_timer;  /* loop thread only */
    struct rdl__underway underway; /* under the owner's mu */
    struct rdl__link pending;      /* on the record's queue, under the name's mu */
    struct rdl__task task;
    struct rdl__task cancel_task;
    struct rdl__task undo_task;
    struct rdl__callback callback;
};

static inline struct rdl__name *rdl__op_name(const rdl_op_t *op)
{
    return op->lock->name;
}

static inline rdl_client_t *rdl__op_client(const rdl_op_t *op)
{
    return op->lock->name->client;
}

static inline int64_t rdl__op_lease_ms(const rdl_op_t *op)
{
    return op->lease_ms == RDL_LEASE_AUTO ? rdl__op_client(op)->watchdog_lease_ms : op->lease_ms;
}

static inline rdl__step_t rdl__finish_with(int rc)
{
    return (rdl__step_t){.what = RDL__DO_FINISH, .rc = rc};
}

static inline rdl__step_t rdl__send_it(void)
{
    return (rdl__step_t){.what = RDL__DO_SEND};
}

/* ---- verb.c: what verbs have in common ----------------------------------------------------------------------------------- */

/* Keep bytes of the server's; nothing is kept when memory is short. `error`: they are its refusal.  @locks the lane's */
void rdl__op_keep_words(rdl_op_t *op, const char *bytes, size_t len, bool error);

/* Into op->answer; words of refusal when the reply is no number. */
void rdl__decode_number(rdl_op_t *op, const struct rdl__reply *reply);

/* What every verb makes of an answer that is none. RDL_OK: it is one. */
int rdl__answer_failed(const rdl_op_t *op);

/* Begin without asking oneself anything; finish with `value` as the result, unless the answer failed. */
rdl__step_t rdl__begin_by_asking(rdl_op_t *op, int64_t now);
rdl__step_t rdl__answer_is(rdl_op_t *op, int64_t value);

/* prefix(p, N), as a word of a command. */
void rdl__put_prefixed(struct rdl__buf *to, const char *prefix, const struct rdl__name *name);
/* The same with `:tail`, and suffix(N, s). */
void rdl__put_tailed(struct rdl__buf *to, const char *prefix, const struct rdl__name *name, const char *tail,
                     size_t tail_len);
void rdl__put_suffixed(struct rdl__buf *to, const struct rdl__name *name, const char *suffix);
/* The channel, likewise. */
void rdl__put_channel(struct rdl__buf *to, const struct rdl__name *name);
/* What a script needs to free the lock or to hand it on: name, channel, and the queue if there is one. */
size_t rdl__key_count(const struct rdl__name *name);
void rdl__put_keys(struct rdl__buf *to, const struct rdl__name *name);
void rdl__put_field(struct rdl__buf *to, const rdl_op_t *op); /* of op->n */
void rdl__put_release(struct rdl__buf *to, const rdl_op_t *op, bool eval, int64_t left);
void rdl__put_undo(const rdl_op_t *op, struct rdl__buf *to, bool eval); /* of a lock's take or release */

/* The channel on which the lock's waiters listen. */
void rdl__channel_name(struct rdl__buf *to, const struct rdl__name *name);

#endif
