/* SPDX-License-Identifier: MIT */
/* once.h - guards, by which verbs that change a count take effect exactly once; and other code that semaphores and
 * latches share.
 *
 * A count has no fields by which a repeat could be recognized, so each such request carries a number, and its script
 * stores the answer in a key of that number, the guard (protocol.md, 2). The guard outlives every repeat of the
 * request, and its undo. When the answer has been read, the next verb on the same name deletes it, or the freeing of
 * the name's last handle does; so there are about as many guards as calls under way. If more calls than SETTLED_MOST
 * have ended, a DEL is sent for their guards. A guard that is never deleted expires.
 */
#ifndef REDLATCH_COUNTED_ONCE_H
#define REDLATCH_COUNTED_ONCE_H

#include "core/call/verb.h"

/* Is it a fair semaphore's? Its waiters have places in a queue at the server, and none passes an earlier one, however
 * many permits each wants. */
static inline bool rdl__in_order(const struct rdl__name *name)
{
    return name->settings.life_ms > 0;
}

/* Draw call->n, and choose a guard to delete (call->guard.settled_n). */
void rdl__once_number(struct rdl__call *call);

/* The call's guard may be deleted, unless an earlier sending may still arrive. Also once the call's undo, or its repeat
 * in the background, is settled.  @locks none */
void rdl__once_settled(const struct rdl__call *call, int64_t now);

/* The call ends: a guard that it should have deleted, and may not have, is left to another call. So is its own, if
 * nothing goes on in the background.  @locks none */
void rdl__once_ended(struct rdl__call *call, int rc);

/* The server has confirmed the request that `put` writes with `script`, which is safe to repeat, by itself or by its
 * guard: note it in the replay log, for a new master that may not have seen it. `guard`: the call's guard may be
 * deleted only when the log has dropped the request; this is called instead of rdl__once_settled.  @locks none */
void rdl__once_note(const struct rdl__call *call, int script,
                    void (*put)(const struct rdl__call *call, struct rdl__buf *to, bool eval), bool guard, int64_t now);

/* The name's last reference is gone: delete the guards that may be deleted.  @locks none */
void rdl__guards_sweep(struct rdl__name *name);

/* How long a guard is kept, in ms. */
int64_t rdl__guard_ms(const rdl_client_t *client);

/* The process' place in the queue of a fair semaphore. KEPT: a take that waits renews it if it is refused. GIVEN_UP:
 * an undo does that, if no other call of this process waits. LET_BE: it is not changed. */
enum rdl__turn { RDL__TURN_KEPT, RDL__TURN_GIVEN_UP, RDL__TURN_LET_BE };
void rdl__put_turn(const struct rdl__call *call, struct rdl__buf *to, enum rdl__turn what);

struct rdl__once_form {
    int script; /* KEYS begin with N, channel, guard; ARGV with call->amount and the guard's time to live */
    bool queue; /* it has the keys of a fair semaphore's queue, and does this with the process' place: */
    enum rdl__turn place;
    bool forgets; /* it deletes the guard of call->guard.settled_n */
};

void rdl__once_put(const struct rdl__call *call, struct rdl__buf *to, bool eval, const struct rdl__once_form *form);

/* The keys of guards, for a script of another form: this request's, and the one to be deleted, if there is one. */
size_t rdl__guard_keys(const struct rdl__call *call);
void rdl__put_guards(const struct rdl__call *call, struct rdl__buf *to);

/* The two keys of the queue of a fair semaphore. */
void rdl__put_queue(struct rdl__buf *to, const struct rdl__name *name);

/* Verbs that consist of one request, verb->script; call->answer is the result. */
rdl__step_t rdl__once_begin(struct rdl__call *call, int64_t now);
void rdl__once_encode(struct rdl__call *call, struct rdl__buf *to, bool eval);
rdl__step_t rdl__once_answered(struct rdl__call *call, int64_t now);

/* The request failed. If an earlier sending may have run, or this one, as the error is not a script's, the outcome is
 * unknown: it is treated as not answered. */
rdl__step_t rdl__once_failed(const struct rdl__call *call, int rc);

/* Undo: give back what was taken; or, for what must go on, the same once more. */
void rdl__once_put_undo(const struct rdl__call *call, struct rdl__buf *to, bool eval);
void rdl__once_put_again(const struct rdl__call *call, struct rdl__buf *to, bool eval);

/* The count itself, no less than 0. */
void rdl__count_encode(struct rdl__call *call, struct rdl__buf *to, bool eval);
void rdl__count_decode(struct rdl__call *call, const struct rdl__reply *reply);
extern const struct rdl__verb rdl__verb_count;

/* Begin a verb that may wait: the machine's first step. */
rdl__step_t rdl__acquire_begin(struct rdl__call *call);

#endif
