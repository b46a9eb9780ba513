/* SPDX-License-Identifier: MIT */
/* apps.h - applications with a client each, callers with an owner each, and their calls.
 *
 * An app is a process with a client. A caller is a fibre of an app that acts as one owner, by blocking verbs or by
 * asynchronous ones. A call is one verb, from its beginning to its answer. What a caller may believe to hold follows
 * from its calls and from nothing else: a hold begins with the answer and ends with the call of its unlock.
 *
 * Every call, and every change of what is believed, goes through here, so that the checkers see all of it. Random runs
 * (plan.c) and scripted ones (test_directed.c) have all of it in common.
 */
#ifndef TESTS_SIM_APPS_H
#define TESTS_SIM_APPS_H

#include "tests/sim/kinds.h"
#include "tests/sim/line.h"
#include "tests/sim/world.h"

#include <redlatch/redlatch.h>

#define MOST_APPS 4
#define MOST_CALLERS 12
#define MOST_NAMES 3
#define MOST_ENDS (2 * MOST_NAMES)

/* ---- locks ------------------------------------------------------------------------------------------------------ */

/* May somebody come in? */
struct vacancy {
    int64_t since;  /* -1: nobody may */
    bool announced; /* a message told */
};

struct name {
    char text[32];
    const struct kind *kind;
    bool token;          /* with fencing */
    bool by_time;        /* whose tokens are the server's time, not counted */
    rdl_outage_t outage; /* what its takes do without a server */

    /* the checkers' */
    int64_t seen_at; /* what the keyspace shows, and as of when */
    size_t holders, holder_len;
    const char *holder;
    int64_t void_at;            /* when the server last lost what it knew, for reasons outside the promise; -1: never */
    char forced[4][FIELD_SIZE]; /* the holds that were evicted last */
    unsigned forced_count;
    char left[4][FIELD_SIZE]; /* holds that nobody gives back: their owner or their last handle went */
    unsigned left_count;
    struct vacancy vacancy[2]; /* for those who want it alone, and for those who share it */
    int64_t idle_since;        /* kept by a client, and nobody uses it; -1: it is not */
    int64_t stray_since;       /* held for nobody; -1: it is not */
    char stray[FIELD_SIZE];    /* as that */
    int64_t token_best;
    char token_best_of[FIELD_SIZE]; /* which a hold has again when it is the server's again */
    char released[FIELD_SIZE];      /* the hold that was given back last, and when */
    int64_t released_at;
    char freed[8][FIELD_SIZE]; /* those given back last */
    unsigned freed_count;
    int64_t foreign_until;         /* a foreign client holds it until then; 0: none does */
    struct line line;              /* who waits in a queue */
    char granted_last[FIELD_SIZE]; /* by a script that minds the queue */
    int64_t known_until;           /* the end of the longest lease that the server has told anybody of */
};

/* ---- apps ------------------------------------------------------------------------------------------------------- */

struct app {
    struct process process;
    unsigned host;        /* hosts.h */
    rdl_client_t *client; /* NULL: not open */
    char id[40];          /* the client's, also when it is gone; "": it was never open */
    bool ending;          /* it is being closed, or is */
    bool dead;            /* it has crashed */
    int64_t gone_at;      /* when the one or the other began */
    int64_t patience;     /* the most, so far (core/call/call.h) */
    int64_t calm_from;    /* nothing has disturbed it since, or will until then */
    int64_t away_since;   /* it reaches no server; 0: it does */
};

/* ---- callers ---------------------------------------------------------------------------------------------------- */

struct caller;

/* What a caller believes to hold of one end. */
struct hold {
    int64_t count;   /* what it may believe: takes that were granted, less unlocks that were called; not below 0 */
    int64_t granted; /* by answers alone: takes, less unlocks */
    int64_t leaving; /* unlocks that were called and are not answered */
    bool doubt;      /* its last verb may still be being undone */
    bool forgotten;  /* it was not given back */
    char field[FIELD_SIZE]; /* at the server */
    char id[FIELD_SIZE];    /* as losses name it: the same, unless its client keeps the lock */
    int64_t since;          /* world's time of the answer */
    int64_t called;         /* and of the call */
    int64_t token;          /* 0: none */
    bool renewed;           /* taken for RDL_LEASE_AUTO at least once */
    int64_t longest_ms;     /* lease */
    const char *excuse;     /* why the server need not have it; NULL: it must */
    int64_t gone_at;        /* when the server was first seen not to have it; -1 */
    int64_t lost_at;        /* when it was first seen to be lost; -1 */
    int64_t deadline;       /* its own, when last looked at */
    int64_t looked_at;      /* which was then, by its app's clock */
    bool told;              /* the loss */
    rdl_hold_state_t state; /* likewise */
    bool missed;            /* its deadline was hidden */
    bool hidden;            /* a thread was changing it when it was last looked at: what was seen before counts */
    int64_t believed_until; /* the client is closed: nobody can be asked any more */
    int64_t alone_since;    /* RDL_DEGRADED; 0: it is not */
    int64_t restored_at;    /* 0: never */
    int64_t busy_at;        /* its owner had a verb under way then, that it is alone */
    bool rivalled;          /* since it is alone the server has shown somebody of another app as the holder */
};

struct caller {
    char name[8];
    struct app *app;
    rdl_owner_t *owner;
    bool blocking;
    unsigned threads;             /* that act as it */
    bool crowd;                   /* more than one do: in which order they come is not known */
    rdl_lock_t *locks[MOST_ENDS]; /* NULL: there is no such end */
    struct hold holds[MOST_ENDS];
    unsigned under_way[MOST_ENDS]; /* calls */
    int64_t canceled_at;           /* by cancel_caller; -1: never */
    unsigned canceling;            /* calls of it that have not returned */
    char told[8][FIELD_SIZE];      /* the holds whose losses it was told of last, perhaps before it knew of the grant */
    unsigned told_count;
    struct { /* what was told last of an outage, and its end, perhaps before it knew of the grant */
        char id[FIELD_SIZE];
        rdl_hold_state_t state;
        int64_t at;
    } outage_told[MOST_ENDS];
};

/* ---- calls ------------------------------------------------------------------------------------------------------ */

enum verb { TAKE, RELEASE, EXTEND, FORCE, IS_LOCKED, REMAINING, VERBS };

struct lock_call {
    struct rdl__link link; /* among those under way */
    struct caller *caller;
    size_t end;
    enum verb verb;
    int64_t wait_ms;
    int64_t lease_ms;
    int64_t called;   /* world's time */
    int64_t deadline; /* by the app's clock; RDL__NEVER: none */
    bool queued;      /* behind another of the same caller, or perhaps behind what undoes one */
    bool sure;        /* RELEASE: the hold was sound when it was called */
    bool alone;       /* RELEASE: of a hold of the host's alone */
    bool canceled;
    int64_t canceled_at;         /* for certain; -1: not yet */
    int64_t here;                /* it was last seen then to wait for readers of its own process */
    struct fibre *waiter;        /* for its answer */
    const struct fibre *starter; /* who has not returned from the call; NULL: it has */
    unsigned answers;
    bool done;
    int64_t result;
    rdl_op_t *op;
};

struct sim {
    rdl_client_options_t options;
    bool leaves;      /* blocking unlocks are not waited for */
    bool outages;     /* the clients go on without a server, and have a directory of their host */
    int64_t alone;    /* holds that were told to be the host's alone, by the metrics; */
    int64_t restored; /* and to be held at the server again */
    unsigned sharers; /* of eight calls on a lock with two ends, at the end that many hold */
    struct name names[MOST_NAMES];
    size_t name_count;
    struct app apps[MOST_APPS];
    size_t app_count;
    struct caller callers[MOST_CALLERS];
    size_t caller_count;
    struct rdl__link calls; /* under way */
    int64_t call_count;     /* of all times */
    int64_t void_at;        /* as of names, of all of them; -1: never */
};

extern struct sim sim;

/* An end of a lock, as callers have it: the name's place among the names, and for the end that many hold MOST_NAMES
 * more. */
static inline struct name *name_at(size_t end)
{
    return &sim.names[end % MOST_NAMES];
}

static inline bool shares(size_t end)
{
    return end >= MOST_NAMES;
}

static inline size_t other_end(size_t end)
{
    return (end + MOST_NAMES) % MOST_ENDS;
}

void sim_begin(void);
void sim_end(void);

struct name *sim_name(const char *text, const struct kind *kind, bool token);
struct app *sim_app(int64_t clock_ppm);

/* Open the app's client, trying again while the server cannot be reached. In a fibre of the app. */
void app_open(struct app *app);
void app_close(struct app *app);
void app_crash(struct app *app); /* at once, without cleaning up; its memory is freed by app_bury */
void app_bury(struct app *app);  /* its fibres come to their ends */
void app_disturb(struct app *app,
                 int64_t settle_ns); /* NULL: every one; from now until then nothing is promised in time */

struct app *app_that_owns(const struct process *process);
void app_cut(const struct process *process); /* it has lost a connection, and will soon be as it was */

/* How long after a connection was lost everything is as it was, the server being there; and when somebody has to find
 * out first that nothing comes any more. */
int64_t sim_settle_ns(void);
int64_t sim_find_out_ns(void);

struct caller *caller_join(struct app *app, bool blocking);
struct caller *caller_shared(struct caller *caller);   /* by one more thread, which leaves it like any */
void caller_leave(struct caller *caller);              /* the last of its threads frees what it has */
void caller_forget(struct caller *caller, size_t end); /* the caller goes without giving back what it holds */

/* What calls.c tells of a call, for what its caller believes. */
void believe_granted(struct lock_call *call);
void believe_unlock_called(struct lock_call *call);
void believe_unlock_answered(struct lock_call *call);
void believe_record(struct caller *caller, size_t end);

/* Do it and wait for the answer. In a fibre of the caller's app. */
int64_t call_and_wait(struct caller *caller, size_t end, enum verb verb, int64_t wait_ms, int64_t lease_ms);

/* Begin it, asynchronously. A call that could not begin is answered at once. */
struct lock_call *begin_call(struct caller *caller, size_t end, enum verb verb, int64_t wait_ms, int64_t lease_ms);
int64_t end_call(struct lock_call *call); /* wait for its answer, and free it */
void cancel_call(struct lock_call *call);
void cancel_caller(struct caller *caller); /* rdl_owner_cancel */

/* Make a blocking call as the caller: all fibres are one thread to the library, which knows of one binding a thread, so
 * only for as long as the call lasts. RDL_ECLOSED if its client is gone. */
int64_t call_as(const struct caller *caller, int64_t (*call)(void *what), void *what);

/* How late a call is, by its app's clock. A process that was stopped meanwhile is given the time from when it went on;
 * a verb without a wait of its own may have begun only then. */
void note_patience(void); /* after each event */
int64_t how_late(const struct app *app, int64_t called, int64_t deadline, bool own_wait);

/* Does the caller believe to hold it, by its own client's judgement? */
bool believes(struct caller *caller, size_t end);
/* May its host alone know of it? */
static inline bool is_local(size_t end)
{
    return name_at(end)->outage == RDL_OUTAGE_LOCAL;
}
void hold_restored(struct caller *caller, size_t end); /* the server has it now, perhaps by another number */
rdl_hold_state_t hold_state(struct caller *caller, size_t end);
int64_t hold_deadline(const struct caller *caller, size_t end); /* by its app's clock */
bool app_calm(const struct app *app, int64_t since);            /* nothing has disturbed it since then */
bool was_forced(const struct name *name, const char *field);
void excuse(struct hold *hold, const char *why);
void excuse_both(struct caller *caller, size_t end, const char *why); /* the holds of both ends of a lock */
void excuse_all(const char *why);                                     /* the server has lost what it knew */

int64_t sim_blocks(void);    /* of memory, that clients have */
int64_t sim_linger_ns(void); /* how long channels stay when nobody waits any more */

#endif
