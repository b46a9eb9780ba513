/* SPDX-License-Identifier: MIT */
/* kept_client.h - a client that keeps a read-write lock, for the enumeration of kept locks (enumerate_kept.h).
 *
 * It is the product's: who is let in, waits here or asks (cache.c, keep.c), the client's own hold (kept.c), recalls,
 * timer and the loop's task (recall.c), the verbs and their words (cache_verbs.c, acquire.c, take.c, release.c,
 * readwrite.c). All that it knows is in one block of memory at one place, so a state is a copy of the block, and is put
 * back by copying. Leading the library elsewhere is the linker's work (--wrap), where it would reach for its loop, its
 * connections, its subscriber, its watchdog or a clock. Instead of those:
 *
 *   - A call is driven here as by_loop.c drives it. What it sends stands in its owner's queue, which the server runs in
 *     order.
 *   - Who waits at the server is woken as waiters.c wakes: each message on the lock's channel wakes the first writer
 *     and the first reader; a try that was refused is sent again if a message has come since; who was woken and leaves
 *     passes that on; a reader that is let in wakes all readers. Messages on that channel are not late.
 *   - Every hold is renewed in time, as long as its owner lives.
 *   - Time passes for each client by itself, from one moment to the next at which something is due. Times are kept from
 *     a present that stands still.
 *   - Each take is to be kept: when it is worth it is test_keep.c's business.
 */
#ifndef TESTS_SCRIPT_KEPT_CLIENT_H
#define TESTS_SCRIPT_KEPT_CLIENT_H

#include "core/call/cache.h"
#include "tests/script/kept_server.h"
#include "tests/script/lock_model.h"

#include <stdalign.h>

#define KEPT_CLIENTS 2
#define KEPT_OWNERS 3
#define KEEPER KEPT_OWNERS /* the client's own hold is its */
#define KEPT_ACTORS (KEPT_OWNERS + 1)
#define KEPT_QUEUE 6
#define KEPT_SAID 6

enum actor_phase {
    ACTOR_FREE,
    ACTOR_SENT,   /* its request is in its queue, or was answered */
    ACTOR_ASLEEP, /* at the server */
    ACTOR_STAYS,  /* in the cache's queue */
};

enum sent_kind {
    SENT_ASKS, /* the request that is waited for */
    SENT_LEFT, /* one that nobody waits for, an undo or one that was given up */
    SENT_KILL, /* of the connection on which `late` is */
};

struct sent {
    uint8_t kind;
    uint16_t command;
};

struct actor {
    struct rdl__call call; /* zeroed but while a verb is under way */
    rdl__callback_fn *fn;  /* of the keeper's order */
    void *arg;
    int64_t answer;
    uint16_t late; /* a command on a connection that was left, and one; 0: none */
    uint8_t phase; /* enum actor_phase */
    bool posted;   /* what it stayed for has come, */
    bool heard;    /* or a message on the lock's channel has: asleep, it was woken; else its refusal is out of date */
    bool woken;    /* by one, and not asleep again since */
    uint8_t place; /* in the order of joining those who wait at the server, from 1 on; 0: it has not */
    bool answered; /* `answer` was not read yet */
    bool canceled; /* and that is not carried out yet */
    uint8_t pc;    /* in its program */
    int8_t dead[LOCK_ENDS]; /* it has ended inside: the number of the hold of that end; 0: none */
    uint8_t queued;
    struct sent queue[KEPT_QUEUE];
};

struct client {
    struct rdl__name *name;
    struct rdl__cache *cache;
    rdl_lock_t *handles[LOCK_ENDS];
    rdl_owner_t *owners[KEPT_ACTORS];
    struct rdl__record *records[KEPT_ACTORS][LOCK_ENDS];
    int64_t next_n; /* the client's, like the next, while its block is not at its place */
    unsigned cached_names;
    int64_t timer_at; /* 0: it is off */
    bool subscribing; /* SUBSCRIBE is under way */
    bool subscribed;  /* at the server */
    bool broken;      /* the connection for that is, and it has not noticed */
    bool closed;
    uint8_t said_count;
    uint8_t said[KEPT_SAID]; /* by the server to the subscriber, and not read: the number of a recall, without its sign;
                               0: the acknowledgement */
    struct actor actors[KEPT_ACTORS];
    size_t used;
    alignas(16) char arena[12 * 1024];
};

/* The blocks of so many clients. heard: they listen for recalls already. twins: the verbs of the first two owners of
 * each are one owner's, of one end each. */
void clients_open(unsigned count, bool heard, bool twins);
void clients_close(void);
struct client *client_at(unsigned i);
uint32_t client_save(unsigned i); /* the number of its state */
void client_load(unsigned i, uint32_t number);

/* A message has come on the lock's channel. */
void client_wake(struct client *c);
/* The words of what somebody asleep would ask. */
uint16_t client_wish(struct client *c, unsigned actor);
/* An owner begins the next verb of its program (enumerate_kept.h). */
void client_begin(struct client *c, unsigned actor, char verb);
/* The request that an actor waits for was answered; it reads that. */
void client_read(struct client *c, unsigned actor);
/* An actor that was posted, or has heard a message, goes on. */
void client_go(struct client *c, unsigned actor);
void client_cancel(struct client *c, unsigned actor);
/* Its connection breaks, and so its answer is lost, or its request is late: it is sent again on another one, which
 * begins with a KILL of the former, or given up. */
bool client_may_lose(const struct client *c, unsigned actor);
void client_lose(struct client *c, unsigned actor, bool gives_up, bool kills);

void client_on_loop(struct client *c);                  /* the cache's task */
void client_on_timer(struct client *c);                 /* it is due */
int64_t client_next_moment(const struct client *c);     /* 0: nothing will be due */
void client_pass(struct client *c);                     /* time, until then */
void client_confirm(struct client *c);                  /* the server has its SUBSCRIBE */
void client_told(struct client *c);                     /* it reads what the server has said first */
void client_told_wrongly(struct client *c, bool twice); /* it will read that once more; or it has lost it */
void client_cut(struct client *c);
void client_notice(struct client *c);
void client_end(struct client *c); /* it closes */

/* For kept_seams.c: whose client, and whose call's task, that is (NULL: a cache's); and the keeper's next verb. */
struct client *client_of(const rdl_client_t *shell);
struct actor *actor_of(const struct rdl__task *task);
void client_orders(struct client *c, const struct rdl__order *order);

#define CLIENT_NOW (INT64_C(1000000) * RDL__SEC)

/* Does the owner believe to hold that end? */
bool client_believes(const struct client *c, unsigned owner, enum lock_end end);
/* The field that stands for a hold of that number. */
void client_field(char ret[KEPT_FIELD], unsigned i, enum lock_end end, int64_t n);

#endif
