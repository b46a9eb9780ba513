/* SPDX-License-Identifier: MIT */
/* enumerate_impl.h - the states of an enumerated world, for enumerate.c, where they change, and enumerate_checks.c,
 * where they are judged.
 */
#ifndef TESTS_SCRIPT_ENUMERATE_IMPL_H
#define TESTS_SCRIPT_ENUMERATE_IMPL_H

#include "tests/script/enumerate.h"
#include "tests/script/images.h"

#include <string.h>

#define FAULTS_MAX 2
#define RENEWALS 0 /* the connection for renewals; there is one more after each fault */
#define FIRST_CONN 1
#define QUEUE_MAX 8      /* requests of an owner that were not run */
#define RIVAL OWNERS_MAX /* the rival's place among the owners */
#define RIVAL_LEASE 2
#define RIVAL_NUMBER 1
#define TRIES_AFTER_REFUSAL 1
#define TICKS_MAX 9

/* ---- states ----------------------------------------------------------------------------------------------------- */

/* All members are bytes, so that there is no padding, and what is unused is 0: states are compared as bytes. */

enum request_kind {
    REQUEST_NONE,
    REQUEST_FIRST_TRY,
    REQUEST_TAKE,
    REQUEST_RELEASE,
    REQUEST_RENEW,
    REQUEST_KILL, /* of the connection `number` */
    REQUEST_PEER_RENEW,
    REQUEST_GIVE,
    REQUEST_DRAIN,
    REQUEST_SET,
};

struct request {
    uint8_t kind;
    uint8_t end;
    uint8_t conn;    /* that it is sent on */
    uint8_t number;  /* n */
    uint8_t mate;    /* n of the owner's hold of the other end, which lets it in; 0: none */
    uint8_t count;   /* wanted, or to be left */
    uint8_t lease;   /* in ticks */
    uint8_t sent;    /* at which tick */
    uint8_t sending; /* of a take that may wait in a queue: which of its call */
};

enum {
    IN_CALL = 1,    /* a lock() is under way: n is drawn */
    IN_DOUBT = 2,   /* one of its tries was left on another connection */
    REPLY_LOST = 4, /* to the request waited for */
    DONE = 8,
};

/* Instead of a place in the program: undo a take that may have happened. */
#define PC_UNDO 99

struct end {
    uint8_t number;
    uint8_t count;    /* confirmed */
    uint8_t deadline; /* the hold is valid until this tick by the owner's own clock; 0: no hold */
};

struct owner {
    uint8_t pc;
    uint8_t flags;
    uint8_t conn;
    uint8_t tries;  /* left after a refusal */
    uint8_t killed; /* connections, a bit each */
    uint8_t drawn;  /* the last n */
    uint8_t end;    /* at which the last lock() is, or was */
    struct end ends[LOCK_ENDS];
    uint8_t sendings; /* of the call's takes, and the tick of the last */
    uint8_t last_sent;
    struct grant told; /* a message that was not read yet; only number and sending */
    struct request wait;
    uint8_t queued;
    struct request queue[QUEUE_MAX]; /* by connection, and in the order of each */
};

struct state {
    uint8_t image[4]; /* the keyspace's, see images.h */
    uint8_t faults;
    uint8_t rival_deadline; /* 0: the rival does not hold */
    uint8_t rival_turns;
    uint8_t unlike_model;            /* a command was not answered as the reference does */
    struct owner owners[OWNERS_MAX]; /* as many as the scenario has */
};

struct world {
    const struct scenario *scenario;
    size_t owners;
    struct images *images;
};

/* ---- reading and changing states -------------------------------------------------------------------------------- */

static inline uint32_t image_of(const struct state *s)
{
    uint32_t image;

    memcpy(&image, s->image, sizeof image);
    return image;
}

static inline unsigned now_of(const struct world *w, const struct state *s)
{
    return image_tick(w->images, image_of(s));
}

static inline bool counts(const struct world *w)
{
    return w->scenario->type->holds == NULL;
}

static inline bool is_waiting(const struct owner *o)
{
    return o->wait.kind != REQUEST_NONE;
}

/* What is wrong with the state, NULL: nothing; for struct search_model. */
const char *wrong(void *arg, const void *bytes);

#endif
