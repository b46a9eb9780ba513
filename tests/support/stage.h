/* SPDX-License-Identifier: MIT */
/* stage.h - what a live test stands on: a server, a probe, and a client of the library, straight or through the proxy.
 *
 * Nothing here needs Criterion, so the race programs use it too: what cannot be had aborts the test with the reason.
 */
#ifndef TESTS_SUPPORT_STAGE_H
#define TESTS_SUPPORT_STAGE_H

#include "tests/support/probe.h"
#include "tests/support/proxy.h"
#include "tests/support/server.h"
#include "tests/support/wait.h"

#include <redlatch/redlatch.h>

#define SOON_MS 5000 /* bound on what happens at once, on a machine that is busy */

struct stage {
    struct server *server;
    struct proxy *proxy; /* NULL when the client is connected straight */
    struct probe *probe; /* always straight */
    rdl_client_t *client;
    bool limited; /* by stage_limit */
};

struct stage_options {
    struct server_options server;
    bool proxied;
    const rdl_client_options_t *client;
};

/* Clients are not described, unless a test is about that: what the server has and is told is what locks want.
 *
 * stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = 300)) */
#define stage_open(stage, ...) stage_open_with((stage), &(struct stage_options){__VA_ARGS__})
#define OPTIONS(...) (&(rdl_client_options_t){.version = RDL_CLIENT_OPTIONS_VERSION, .anonymous = true, __VA_ARGS__})
#define LOCK_OPTIONS(...) (&(rdl_lock_options_t){.version = RDL_LOCK_OPTIONS_VERSION, __VA_ARGS__})

void stage_open_with(struct stage *stage, const struct stage_options *options);
void stage_close(struct stage *stage);

/* The URI by which the stage's client reaches its server. */
const char *stage_uri(const struct stage *stage);

/* The same without scheme and user, as errors name that server (but for the "unix:"). */
const char *stage_place(const struct stage *stage);

/* Change the rights of whoever clients are, "-wait" or "+wait"; what is then refused is refused on purpose. */
void stage_limit(struct stage *stage, const char *rules);

/* How much the server has refused a user with few rights, not on purpose; 0 where clients may do everything. */
int64_t stage_refusals(struct stage *stage);

/* Has the server no key and no subscription, or none soon? The key of a compensating release may take a moment. */
bool stage_is_clean(struct stage *stage, int64_t bound_ms);

/* The same, but for lines in which nobody stands and whose ear has had the lock: those end by themselves, 15 s after
 * the last entry (protocol.md, 5, rule 17). */
bool stage_ends_clean(struct stage *stage, int64_t bound_ms);

/* Takes away the lines beside locks in which clients stand that are gone, and could not leave. False: one of them would
 * not have ended by itself within the time that wire.md, Line, promises. */
bool stage_lines_end(struct stage *stage);

/* A client, or death with its error. */
rdl_client_t *client_open(const char *uri, const rdl_client_options_t *options);

/* Handles, or death. options may be NULL. */
rdl_lock_t *reentrant(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *nonreentrant(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *read_end(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *write_end(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *simple(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *spin(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *fenced(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *fair(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);

/* ---- every type -------------------------------------------------------------------------------------------------- */

/* For tests of what all locks have in common. A new type is a row in stage.c. Composites are made of reentrant locks:
 * the multi-lock of `name` and of a second one, the red lock of `name` at one server, so that whatever befalls that
 * server befalls its whole majority. */
typedef rdl_lock_t *handle_fn(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);

struct kind {
    const char *type;
    int (*constructor)(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                       rdl_err_t *err);
    handle_fn *make;  /* calls it, or dies */
    handle_fn *rival; /* a lock of that name that keeps it out: itself, or what excludes the end that many hold */
    const char *take; /* command of an uncontended first try */
    bool reentrant;
    bool polls;  /* its waiters subscribe to nothing */
    bool paces;  /* its waiters try every now and then, asleep or not: at any moment a try may be on its way */
    int members; /* of a composite; else 0 */
    bool votes;  /* a red lock: a server that does not answer has no vote, and while there is time it is asked again */
};

/* A lock's name of its own for each. The users of the tests with few rights may have it, who have no key that begins
 * with `r`. Static. */
const char *kind_name(const struct kind *kind);

/* What a take says whose answer does not come in time. */
int unanswered(const struct kind *kind);

/* Composites come last. */
extern const struct kind kinds[];
extern const size_t kind_count, single_kind_count;

#define FOR_EACH_KIND(kind) for (const struct kind *kind = kinds; kind < kinds + kind_count; kind++)
#define FOR_EACH_SINGLE_KIND(kind) for (const struct kind *kind = kinds; kind < kinds + single_kind_count; kind++)

/* What the server has of a lock and of nobody else: keys but for the counter of a fenced one, which stays. */
int64_t lock_keys(struct probe *p, const char *name);
/* How often it is held by all who hold it; 0: it is free. */
int64_t lock_holds(struct probe *p, const char *name);
/* The test is over with it: handle and counter go. */
void lock_over(struct probe *p, rdl_lock_t *lock);

/* ---- a foreign client: what a Redisson process does with a reentrant lock (wire.md) ----------------------------- */

void foreign_take(struct probe *p, const char *name, int64_t lease_ms);             /* 0: without a time to live */
int64_t foreign_release(struct probe *p, const char *name);                         /* how many subscribers were told */
int64_t foreign_release_by(struct probe *p, const char *publish, const char *name); /* by that command: "spublish" */
char *channel_of(const char *name); /* of a reentrant lock; to be freed */

#endif
