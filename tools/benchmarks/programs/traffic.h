/* SPDX-License-Identifier: MIT */
/* traffic.h - what is sent to lock and unlock, laid out once, and the plain hiredis connection that carries it.
 *
 *   reentrant, simple, fenced, read, write   redlatch's own scripts
 *   sharded             the reentrant lock's, with sharded messages
 *   restored, restored-sharded   the same two, but the take is RESTORE of what is written for a holder, and no script
 *   semaphore, permit   redlatch's own; each request has a guard or an id of its own
 *   fair                those of the fair lock, without queueing: for whoever is alone
 *   redisson            as many commands doing as much as Redisson's do, by scripts of our own writing
 * (redisson_*.lua): the latch that guards its unlock is a key more in the script and a DEL behind it
 */
#ifndef TOOLS_BENCHMARKS_TRAFFIC_H
#define TOOLS_BENCHMARKS_TRAFFIC_H

#include "tools/benchmarks/programs/measure.h"

#include <hiredis/hiredis.h>

#define LEASE_MS 30000 /* of holds that nobody renews: longer than any measurement */

enum { REQUEST_WORDS = 16 };

struct request {
    int argc; /* 0: nothing is sent */
    const char *argv[REQUEST_WORDS];
    size_t len[REQUEST_WORDS];
};

#define TAKEN INT64_MIN
#define PERMITS 10 /* of a semaphore */

struct traffic {
    char *channel; /* on which the release is announced */
    struct request take;
    struct request release;
    struct request after;                      /* follows the release */
    int64_t (*left)(const redisReply *taking); /* TAKEN, or ms left on the holder's lease */
    /* To be called before `take` or `release` is sent, whichever that is; NULL: they are the same each time. */
    void (*renew)(struct traffic *t, struct request *next);
    uint64_t serial; /* of requests that differ, like the next */
    char *changing[2];
};

/* By hiredis to a URI; ends the program when there is nobody. */
redisContext *connect_to(const char *server);

/* SCRIPT LOAD of TREE/NAME.lua; its digest. */
char *load_script(redisContext *c, const char *tree, const char *name);

/* The traffic of one lock. Loads the scripts that it needs. */
void traffic_init(struct traffic *t, const struct run *run, redisContext *c, const char *kind, const char *lock);

void request_add(struct request *r, const char *word);
void request_add_bytes(struct request *r, const char *bytes, size_t len);

/* Send one and wait. An error is the end. */
redisReply *ask(redisContext *c, const struct request *r);
void tell(redisContext *c, const struct request *r);    /* the answer does not matter */
void ping(const char *server, struct samples *samples); /* some round trips, over a connection of its own */

#endif
