/* cast.h - who plays: applications with a client each, actors with an owner each, and what they do.
 *
 * An app is a process with a client. An actor is a fibre of an app that acts as one owner, by blocking verbs or by
 * asynchronous ones. A deed is one verb, from its call to its answer. What an actor may believe to hold follows from its
 * deeds and from nothing else: a hold begins with the answer and ends with the call of its unlock.
 *
 * Every deed, and every change of what is believed, goes through here, so that the checkers see all of it. Random runs
 * (plan.c) and scripted ones (test_directed.c) use the same cast.
 */
#ifndef TESTS_SIM_CAST_H
#define TESTS_SIM_CAST_H

#include "tests/sim/kinds.h"
#include "tests/sim/world.h"

#include <redlatch/redlatch.h>

#define MOST_APPS 4
#define MOST_ACTORS 12
#define MOST_NAMES 3
#define FIELD_SIZE 64
#define MOST_PLACES 256

/* ---- locks -------------------------------------------------------------------------------------------------------------- */

/* A waiter in a queue at the server, as the commands show it. */
struct place {
    char field[FIELD_SIZE];
    int64_t alive_until_ms; /* by the server's clock */
    bool vague;             /* it may or may not have been dropped */
};

struct name {
    char text[32];
    const struct kind *kind;
    bool token; /* with fencing */

    /* the checkers' */
    int64_t seen_at; /* what the keyspace shows, and as of when */
    size_t holders, holder_len;
    const char *holder;
    int64_t void_at;            /* when the server last lost what it knew, for reasons outside the promise; -1: never */
    char forced[4][FIELD_SIZE]; /* the holds that were evicted last */
    unsigned forced_count;
    char left[4][FIELD_SIZE]; /* holds that nobody gives back: their owner or their last handle went */
    unsigned left_count;
    int64_t free_since;  /* -1: it is taken */
    bool announced;      /* a message told that it is free */
    int64_t stray_since; /* held for nobody; -1: it is not */
    int64_t token_best;
    char released[FIELD_SIZE]; /* the hold that was given back last, and when */
    int64_t released_at;
    int64_t foreign_until; /* a foreign client holds it until then; 0: none does */
    struct place places[MOST_PLACES];
    size_t place_count;
    int64_t places_void_at;        /* void_at, when it was last looked at */
    char granted_last[FIELD_SIZE]; /* by a script that minds the queue */
};

/* ---- apps --------------------------------------------------------------------------------------------------------------- */

struct app {
    struct process process;
    rdl_client_t *client; /* NULL: not open */
    bool ending;          /* it is being closed, or is */
    bool dead;            /* it has crashed */
    int64_t calm_from;    /* nothing has disturbed it since, or will until then */
};

/* ---- actors ------------------------------------------------------------------------------------------------------------- */

struct actor;

/* What an actor believes to hold of one name. */
struct hold {
    int64_t count;   /* what it may believe: takes that were granted, less unlocks that were called; not below 0 */
    int64_t granted; /* by answers alone: takes, less unlocks */
    int64_t leaving; /* unlocks that were called and are not answered */
    bool doubt;      /* its last verb may still be being undone */
    char field[FIELD_SIZE];
    int64_t since;          /* world's time of the answer */
    int64_t called;         /* and of the call */
    int64_t token;          /* 0: none */
    bool renewed;           /* taken for RDL_LEASE_AUTO at least once */
    int64_t longest_ms;     /* lease */
    const char *excuse;     /* why the server need not have it; NULL: it must */
    int64_t gone_at;        /* when the server was first seen not to have it; -1 */
    int64_t lost_at;        /* when it was first seen to be lost; -1 */
    int64_t deadline;       /* its own, when last looked at */
    bool told;              /* the loss */
    int64_t believed_until; /* the client is closed: nobody can be asked any more */
};

struct actor {
    char name[8];
    struct app *app;
    rdl_owner_t *owner;
    bool blocking;
    rdl_lock_t *locks[MOST_NAMES];
    bool shares[MOST_NAMES]; /* it has the end that many hold */
    struct hold holds[MOST_NAMES];
    unsigned under_way[MOST_NAMES]; /* deeds */
    struct fibre *waiter;           /* the fibre that waits for an answer */
};

/* ---- deeds -------------------------------------------------------------------------------------------------------------- */

enum verb { TAKE, RELEASE, EXTEND, FORCE, IS_LOCKED, REMAINING, VERBS };

struct deed {
    struct rdl__link link; /* among those under way */
    struct actor *actor;
    size_t name;
    enum verb verb;
    int64_t wait_ms;
    int64_t lease_ms;
    int64_t called;   /* world's time */
    int64_t deadline; /* by the app's clock; RDL__NEVER: none */
    bool queued;      /* behind another of the same actor, or perhaps behind what undoes one */
    bool sure;        /* RELEASE: the hold was sound when it was called */
    bool canceled;
    bool starting; /* the call has not returned */
    unsigned answers;
    bool done;
    int64_t result;
    rdl_op_t *op;
};

struct cast {
    rdl_client_options_t options;
    unsigned sharers; /* of eight actors, who want a lock that can be shared to share it */
    struct name names[MOST_NAMES];
    size_t name_count;
    struct app apps[MOST_APPS];
    size_t app_count;
    struct actor actors[MOST_ACTORS];
    size_t actor_count;
    struct rdl__link deeds; /* under way */
    int64_t deed_count;     /* of all times */
};

extern struct cast cast;

void cast_begin(void);
void cast_end(void);

struct name *cast_name(const char *text, const struct kind *kind, bool token);
struct app *cast_app(int64_t clock_ppm);

/* Open the app's client, trying again while the server cannot be reached. In a fibre of the app. */
void app_open(struct app *app);
void app_close(struct app *app);
void app_crash(struct app *app);                      /* at once, without cleaning up; its memory is freed by app_bury */
void app_bury(struct app *app);                       /* its fibres come to their ends */
void app_disturb(struct app *app, int64_t settle_ns); /* NULL: every one; from now until then nothing is promised in time */

struct actor *actor_join(struct app *app, bool blocking);
void actor_leave(struct actor *actor);
void actor_forget(struct actor *actor, size_t name); /* the actor goes without giving back what it holds */

/* Do it and wait for the answer. In a fibre of the actor's app. */
int64_t act(struct actor *actor, size_t name, enum verb verb, int64_t wait_ms, int64_t lease_ms);

/* Begin it, asynchronously. A deed that could not begin is answered at once. */
struct deed *begin_deed(struct actor *actor, size_t name, enum verb verb, int64_t wait_ms, int64_t lease_ms);
int64_t end_deed(struct deed *deed); /* wait for its answer, and free it */
void cancel_deed(struct deed *deed);
void cancel_actor(struct actor *actor); /* rdl_owner_cancel */

/* Does the actor believe to hold it, by its own client's judgement? */
bool believes(struct actor *actor, size_t name);
rdl_hold_state_t hold_state(struct actor *actor, size_t name);
int64_t hold_deadline(const struct actor *actor, size_t name); /* by its app's clock */
bool app_calm(const struct app *app, int64_t since);           /* nothing has disturbed it since then */
bool was_forced(const struct name *name, const char *field);
void excuse(struct hold *hold, const char *why);
void excuse_all(const char *why); /* the server has lost what it knew */

int64_t cast_blocks(void); /* of memory, that clients have */

#endif
