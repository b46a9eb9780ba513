/* once.h - verbs that change a count, each exactly once; and what semaphores and latches have in common beside them.
 *
 * A count has no fields by which a repeat would be known, so each such request carries a number, and its script stores
 * the answer under it, in the guard (protocol.md, 2). The guard outlives every repeat of the request, and its undo.
 * When the answer has been read, the next verb on the same name takes it away, or who frees the name's last handle; so
 * there are about as many as calls under way. Where more have ended at once they go by themselves, a DEL for each
 * SETTLED_MOST; and one that is forgotten goes when its time is over.
 */
#ifndef REDLATCH_COUNTED_ONCE_H
#define REDLATCH_COUNTED_ONCE_H

#include "core/call/verb.h"

/* Draw call->n, and find a guard to take away. */
void rdl__once_number(struct rdl__call *call);

/* The guard will not be wanted any more, unless a first sending may still come. Also when the call was undone, or went
 * on, and that is settled.  @locks none */
void rdl__once_settled(const struct rdl__call *call, int64_t now);

/* The call ends: a guard that it was to take away and that may be there is another call's to take. So is its own, if
 * nobody will ask how it went.  @locks none */
void rdl__once_ended(const struct rdl__call *call, int rc);

/* The server has confirmed what `put` asks for with `script`, which bears repeating at any time, by itself or under its
 * guard. Another server that takes over may not have seen it, and is told again. `guard`: it is the call's own, and may
 * go only when the request is remembered no more; this stands in for rdl__once_settled.  @locks none */
void rdl__once_note(const struct rdl__call *call, int script,
                    void (*put)(const struct rdl__call *call, struct rdl__buf *to, bool eval), bool guard, int64_t now);

/* Nobody uses the name any more: take the guards away that may go.  @locks none */
void rdl__guards_sweep(struct rdl__name *name);

/* How long a guard is kept, in ms. */
int64_t rdl__guard_ms(const rdl_client_t *client);

/* Of a take: the place of this process in the queue of a fair semaphore, and whether it is kept when the take is
 * refused. Of its undo: the same place, and whether it is left, as nobody else of this process waits. Others let it be.
 */
enum rdl__turn { RDL__TURN_KEPT, RDL__TURN_LEFT, RDL__TURN_LET_BE };
void rdl__put_turn(const struct rdl__call *call, struct rdl__buf *to, enum rdl__turn what);

struct rdl__once_form {
    int script; /* its keys begin with N, channel, guard; its arguments with call->count and the guard's time */
    bool queue; /* it knows the queue of a fair semaphore, and does this with the place in it: */
    enum rdl__turn place;
    bool forgets; /* it takes call->guard.settled_n's guard away */
};

void rdl__once_put(const struct rdl__call *call, struct rdl__buf *to, bool eval, const struct rdl__once_form *form);

/* Keys of guards, for a script of another form: this request's, and the one that goes, if there is one. */
size_t rdl__guard_keys(const struct rdl__call *call);
void rdl__put_guards(const struct rdl__call *call, struct rdl__buf *to);

/* The two keys of the queue of a fair semaphore. */
void rdl__put_queue(struct rdl__buf *to, const struct rdl__name *name);

/* Verbs that consist of one request, verb->script; call->answer is the result. */
rdl__step_t rdl__once_begin(struct rdl__call *call, int64_t now);
void rdl__once_encode(struct rdl__call *call, struct rdl__buf *to, bool eval);
rdl__step_t rdl__once_answered(struct rdl__call *call, int64_t now);

/* An error. An earlier sending may have run all the same, or this one where the words are not the script's: then nobody
 * knows, and it is seen to as if there were no answer. */
rdl__step_t rdl__once_failed(const struct rdl__call *call, int rc);

/* Undo: give back what was taken; or, for what must go on, the same once more. */
void rdl__once_put_undo(const struct rdl__call *call, struct rdl__buf *to, bool eval);
void rdl__once_put_again(const struct rdl__call *call, struct rdl__buf *to, bool eval);

/* What RDL_EUNKNOWN means where nothing is undone; and RDL_ECONN, where the request waits for a connection all the
 * same. */
const char *rdl__goes_on(int code);
const char *rdl__done_or_not(int code);

const char *rdl__nothing_done(int code); /* of questions */

/* The count itself, no less than 0. */
void rdl__count_encode(struct rdl__call *call, struct rdl__buf *to, bool eval);
void rdl__count_decode(struct rdl__call *call, const struct rdl__reply *reply);
extern const struct rdl__verb rdl__verb_count;

/* Begin a verb that may wait: the machine's first step. */
rdl__step_t rdl__acquire_begin(struct rdl__call *call);

#endif
