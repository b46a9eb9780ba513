/* SPDX-License-Identifier: MIT */
/* enumerate.h - every order in which the verbs of a few owners, their connections and time can meet, up to a depth.
 *
 * A scenario says which lock, by which rules its clients act, what each owner does, and what may go wrong. All that can
 * happen is searched, breadth first, with the product's own Lua (or a planted, naive one) on the keyspace, and the
 * shortest bad schedule is what comes out. What a client does is written here from protocol.md, 1 to 3; the product's
 * own machines are the simulator's business.
 *
 * The world:
 *   - An owner runs its program, one verb at a time. Each verb is a request on the owner's connection; the server
 *     runs the requests of one connection in order, those of different ones in any order. Renewals go on a
 *     connection of their own and are waited for by nobody. A reply is read as soon as it is there, or a fault
 *     strikes.
 *   - Faults are counted, over all owners: the owner gives the connection up, whether or not its request has run,
 *     and on a new one repeats the verb, or gives up a take by releasing it. What was sent on the old one may still
 *     run at any later time, unless a CLIENT KILL came before it. Which connections the new one kills is a rule;
 *     with `gives_up_live`, the owner no longer waits for a take, and releases it on the same connection.
 *   - A message tells an owner that it was granted the lock: it is read at any later time when the owner waits for
 *     no reply, or never. Other messages need not be: who waits may look whenever it likes.
 *   - Time passes in ticks, at any moment. A rival takes the lock and gives it back, at any moment, without faults.
 *     One that reads may be another implementation's, whose watchdog speaks a planted script, and which dies
 *     without giving back.
 *   - At the end of its program, and when a verb finds its hold lost, an owner gives back all that it still has.
 *
 * What must not be (one or more of these is asked for):
 *   - GONE: an owner's own clock says that it holds, and the server does not know its hold
 *   - BOTH: two owners hold, each by its own clock, and not both of them at the end that many may hold
 *   - ZOMBIE: the server knows a hold, or a place in a queue, of an owner that has none and owes nothing (no request it
 *     waits for, nothing to undo)
 *   - OVER: of a lock that counts, owners have more, or are about to be given more, than there are
 *   - LEAK: of such a lock some are missing, or too many, when nothing is under way
 *   - MODEL: a command was answered otherwise than the reference does, or left another state
 */
#ifndef TESTS_SCRIPT_ENUMERATE_H
#define TESTS_SCRIPT_ENUMERATE_H

#include "tests/script/lock_model.h"
#include "tests/script/search.h"

#include <stdbool.h>
#include <stddef.h>

#define OWNERS_MAX 3
#define PROGRAM_MAX 8

enum close_rule {
    CLOSE_ONLY,       /* a connection is left and forgotten */
    CLOSE_KILLS_LAST, /* the new one begins by killing the one just left, */
    CLOSE_KILLS_ALL,  /* or all that were left */
};

/* What an owner makes of the message that the lock is its. */
enum grant_rule {
    GRANT_FROM_SENDING,    /* valid from the sending that it rests on, if that is the last, for the lease or a life */
    GRANT_FROM_READING,    /* from when it is read, */
    GRANT_OF_ANY_SENDING,  /* or from the last sending, whichever it rests on, */
    GRANT_FOR_WHOLE_LEASE, /* or for the lease, whatever the life */
};

struct rules {
    const char *planted[LOCK_VERBS]; /* scripts of tests/script/naive in place of the product's */
    bool same_number;                /* n is 1 for every hold, instead of a new one */
    enum close_rule close;
    bool gives_up_live;
    enum grant_rule grant;
    int believed; /* how many ticks after its confirmation a hold of LOCK_MANY is believed in; 0: its lease */
};

enum op_kind {
    OP_END,
    OP_LOCK,
    OP_NEST,
    OP_UNLOCK, /* its lease is for naive scripts */
    OP_EXTEND,
    OP_RENEW, /* on the connection for renewals */
    OP_DRAIN, /* of locks that count: take all that are free, */
    OP_SET,   /* or say how many there are */
};

struct op {
    enum op_kind kind;
    int lease; /* in ticks */
    enum lock_end end;
    int amount; /* of locks that count: how many are taken, given back (0: all) or said to be */
};

struct program {
    const char *name;
    struct op ops[PROGRAM_MAX]; /* the rest is OP_END */
};

enum check {
    CHECK_SAFETY = 1, /* GONE, BOTH, OVER */
    CHECK_ZOMBIE = 2, /* LEAK as well */
    CHECK_MODEL = 4,
    CHECK_ALL = 7,
};

struct scenario {
    const struct lock_type *type;
    const struct rules *rules;
    const struct program *owners[OWNERS_MAX]; /* NULL: nobody */
    int rival_turns;                          /* how often the rival takes the lock, or renews its hold */
    enum lock_end rival_end;                  /* at this end; LOCK_MANY: it may die, and renews if there is a script */
    int faults;                               /* at most 2 */
    int ticks;                                /* at most 9 */
    unsigned checks;
};

/* `ret_outcomes`, unless NULL, gets a bit for each lock_outcome that occurred. */
struct search_result enumerate(const struct scenario *scenario, size_t limit, unsigned *ret_outcomes);

#endif
