/* SPDX-License-Identifier: MIT */
/* lock_model.h - what a lock is to the enumeration: its state, its verbs and its answers, apart from how Redis holds
 * them.
 *
 * A lock type is one file that ends in one struct lock_type: how a verb becomes a command, how a reply is read, and
 * what the keyspace says the state is. Its law is the reference, a function written from protocol.md and not from the
 * Lua: every command that the enumeration runs is answered by both, and answers and states must agree.
 *
 * To add a type that is a mutex: a file like lock_simple.c. To add another kind of lock: its own reference as well, as
 * in lock_readwrite.c.
 */
#ifndef TESTS_SCRIPT_LOCK_MODEL_H
#define TESTS_SCRIPT_LOCK_MODEL_H

#include "tests/script/keyspace.h"

#include <stdbool.h>
#include <stdint.h>

#define LOCK_NAME "N"
#define LOCK_CHANNEL "ch"
#define LOCK_OWNER_SIZE 16 /* "A:1" */
#define LOCK_SAID_SIZE 24  /* "1:1:0" */

enum lock_verb {
    LOCK_FIRST_TRY, /* take, by the cheapest command there is; the type may have one */
    LOCK_TAKE,
    LOCK_RELEASE,
    LOCK_RENEW,     /* and extend */
    LOCK_GIVE,      /* give back, where that is not to undo a take: LOCK_RELEASE */
    LOCK_DRAIN,     /* of locks that count: take all that there are */
    LOCK_SET,       /* and say how many there are, of which `count` is told */
    LOCK_READ_TAKE, /* the same at the end that many hold at a time, */
    LOCK_READ_RELEASE,
    LOCK_READ_RENEW,
    LOCK_PEER_RENEW, /* and what another implementation's watchdog does there: always planted */
    LOCK_VERBS,
};

/* A lock has an end that one holds at a time, and may have another that many hold. */
enum lock_end { LOCK_ONE, LOCK_MANY, LOCK_ENDS };

static inline enum lock_end lock_end(enum lock_verb verb)
{
    return verb >= LOCK_READ_TAKE ? LOCK_MANY : LOCK_ONE;
}

struct lock_call {
    enum lock_verb verb;
    char owner[LOCK_OWNER_SIZE];
    char mate[LOCK_OWNER_SIZE]; /* LOCK_READ_TAKE: the owner's hold of the other end, or "" */
    int64_t count;              /* wanted, or to be left */
    int64_t lease_ms;           /* LOCK_RELEASE: only a naive script looks at it */
    int64_t sending;            /* LOCK_TAKE of types with a queue: which of those with this n */
};

enum lock_outcome {
    LOCK_UNREADABLE, /* an error, or no answer of that verb */
    LOCK_TAKEN,      /* ms: its token, when the type counts them */
    LOCK_HELD_ALREADY,
    LOCK_HOLD_GONE,     /* a nested take found no hold */
    LOCK_REFUSED,       /* ms: time to live of the holder, or -1 */
    LOCK_REFUSED_BLIND, /* to a first try, which learns no more */
    LOCK_FREED,
    LOCK_STILL_HELD,
    LOCK_NO_SUCH_HOLD,
    LOCK_RENEWED, /* ms: time to live before, or -1 */
};

struct lock_answer {
    enum lock_outcome outcome;
    int64_t ms;
    char woken[LOCK_OWNER_SIZE]; /* whom a message on a channel of its own names, or "", and what it says: `0`, or of a
                                    hold that was granted `n:sending:token` */
    char said[LOCK_SAID_SIZE];
    char told[LOCK_SAID_SIZE]; /* of types that tell: what a message on the lock's channel says, or "" */
};

#define NEVER INT64_C(-1)

#define LOCK_QUEUE_MAX 16

struct lock_waiter {
    char owner[LOCK_OWNER_SIZE];
    int64_t alive_until_ms;
    int64_t lease_ms; /* wanted, by its last sending */
    int64_t sending;
};

#define LOCK_HOLDS_MAX 16

struct lock_hold {
    char owner[LOCK_OWNER_SIZE];
    int64_t count;
    int64_t until_ms; /* of those that may outlive each other; 0: its time is over, or it has none of its own */
};

/* In order of their names. */
struct lock_holds {
    size_t count;
    struct lock_hold at[LOCK_HOLDS_MAX];
};

struct lock_state {
    bool held;
    char owner[LOCK_OWNER_SIZE];
    int64_t count;
    int64_t expire_ms; /* NEVER: no time to live */
    int64_t token;     /* of the last hold, when the type counts them; stays when the hold goes */
    size_t waiting;    /* of types whose refusals leave a place in a queue, or a mark */
    struct lock_waiter queue[LOCK_QUEUE_MAX];
    bool writing;   /* of locks with two ends, which have no `owner` and `count`: LOCK_ONE is held, */
    size_t holders; /* and all who hold an end, in order of their names */
    struct lock_hold holds[LOCK_HOLDS_MAX];
    bool turns;               /* of locks that count: they are taken by turns, in the order of the queue */
    struct lock_holds guards; /* the requests that were carried out, and their answers */
};

/* The law of a lock that one owner holds at a time: the answer, and *state as it is afterwards. It knows no queue. */
struct lock_answer mutex_reference(struct lock_state *state, const struct lock_call *call, int64_t now_ms);

#define LOCK_WORDS 16

/* One command, laid out. */
struct lock_words {
    size_t count;
    const char *at[LOCK_WORDS];
    char numbers[3][24];         /* what count, lease and sending look like */
    char id[32];                 /* and the owner, where its name alone will not do, */
    char place[LOCK_OWNER_SIZE]; /* and its place in a queue */
};

struct lock_type {
    const char *name;
    bool reentrant;
    bool has_first_try; /* LOCK_FIRST_TRY is another command than LOCK_TAKE */
    int stock;   /* how many there are to take: with owners, who may hold so many at a time, or just a number. 0: one */
    int most;    /* how many LOCK_SET may make of them; 0: no more */
    bool bare;   /* they are not there before somebody sets them */
    int life;    /* of types with a queue: for how many ticks a waiter is alive after a try */
    int tick_ms; /* how long a tick is; 0: a second */
    bool turns;  /* its places in a queue are owners', whatever the number n */
    bool tells;  /* who sleeps learns from messages on the lock's channel what there is */
    const char *ending; /* of a lock with two ends: what the names of owners of LOCK_ONE end in. NULL: it has one end */
    /* Name of the verb's script, in scripts/ and for planted ones in tests/script/naive/; NULL: it needs none. */
    const char *scripts[LOCK_VERBS];
    /* The command of a call. `sha` is that of the verb's script. */
    void (*lay_out)(const struct lock_call *call, const char *sha, struct lock_words *ret);
    struct lock_answer (*read)(enum lock_verb verb, const struct reply *reply);
    /* What the keyspace says. False: nothing that the lock can be. */
    bool (*look)(struct keyspace *ks, struct lock_state *ret);
    /* Does the keyspace have a hold of that owner? Naive scripts may leave several. NULL: it counts, and
     * knows no owners; each request then has a number of its own. */
    bool (*holds)(struct keyspace *ks, const char *owner);
    /* Does it have a place of that owner in a queue, or a mark? Then a take that is given up owes a release. NULL:
     * there is no queue. */
    bool (*waits)(struct keyspace *ks, const char *owner);
    struct lock_answer (*reference)(struct lock_state *state, const struct lock_call *call, int64_t now_ms);
};

extern const struct lock_type reentrant_type;
extern const struct lock_type simple_type;
extern const struct lock_type fenced_type;
extern const struct lock_type fair_type;
extern const struct lock_type readwrite_type;
extern const struct lock_type preferring_type; /* the same, with writers preferred */
extern const struct lock_type semaphore_type;
extern const struct lock_type fair_semaphore_type;
extern const struct lock_type bare_semaphore_type;
extern const struct lock_type latch_type;
extern const struct lock_type permit_type;
extern const struct lock_type fair_permit_type;

/* ---- for the types ---------------------------------------------------------------------------------------------- */

/* The take, release and renew scripts of mutexes have the same words and answers. */
void mutex_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret);
/* As if the call's verb were `verb`. */
void mutex_lay_out_as(enum lock_verb verb, const struct lock_call *call, const char *sha, struct lock_words *ret);
struct lock_answer mutex_read(enum lock_verb verb, const struct reply *reply);

void word_add(struct lock_words *w, const char *word);

/* Guards: a request's is a key of its name, with what it was answered. The reference's: */
const struct lock_hold *guard_of(const struct lock_state *s, const char *request);
void guard_set(struct lock_state *s, const char *request, int64_t answer, int64_t now_ms);
/* and the keyspace's: its time to live as text, and all that there are. False: one makes no sense. */
extern const char guard_keep[];
bool guards_look(struct keyspace *ks, struct lock_state *ret);

/* Turns: the queue of those who do not overtake. The reference's: drop the dead in front; is it the caller's turn? */
struct turn {
    bool mine;
    bool dropped; /* who takes nothing owes the next a word */
};
struct turn turn_of(struct lock_state *s, const char *owner, int64_t now_ms);
void turn_stand(struct lock_state *s, const char *owner, int64_t now_ms);
bool turn_leave(struct lock_state *s, const char *owner); /* true: somebody is left */
/* and the keyspace's: keys, and words of a call, whose place must be in ret->place already. */
void turn_keys(const struct lock_call *call, struct lock_words *ret);
void turn_words(struct lock_words *ret, bool takes);
bool turns_look(struct keyspace *ks, struct lock_state *ret);
bool turns_waits(struct keyspace *ks, const char *owner);

/* Marks of those who wait, by name, each until a moment. The reference's: put one, or put it off; take one away, if it
 * is there. And the keyspace's: those that live; the dead may still be there. False: one makes no sense. */
#define MARKS "m"
#define MARK_LIFE_MS 2000
#define MARK_LIFE "2000"
void mark_put(struct lock_state *s, const char *mark, int64_t until_ms);
bool mark_drop(struct lock_state *s, const char *mark);
bool marks_look(struct keyspace *ks, struct lock_state *ret);
bool marks_waits(struct keyspace *ks, const char *mark); /* does that one live? */

/* Of types that tell: `count` is said if there are any. */
void tell_free(struct lock_answer *answer, int64_t count);

/* "A" of "A:1" */
void place_name(char ret[LOCK_OWNER_SIZE], const char *owner);

/* A hash of the holder's field and its count. */
bool hash_look(struct keyspace *ks, struct lock_state *ret);
bool hash_holds(struct keyspace *ks, const char *owner);

/* One command and its answer as a number, or `otherwise`. */
int64_t ask_integer(struct keyspace *ks, int64_t otherwise, const char *verb, const char *word);
/* Its answer as text, at most an owner's; false: nil, an error, or too long. */
bool ask_text(struct keyspace *ks, char ret[LOCK_OWNER_SIZE], const char *verb, const char *word);
/* Moment at which the lock's key ends, or NEVER. */
int64_t ask_expiry(struct keyspace *ks);

#endif
