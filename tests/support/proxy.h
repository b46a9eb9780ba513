/* SPDX-License-Identifier: MIT */
/* proxy.h - a network that fails when the test says so: sits between a client and a server that the test has started.
 *
 * It passes everything on unchanged until told otherwise. Then it can
 *   act on one request, its reply, or a message, chosen by command, content and number (rules): hold it back and let it
 *   through later, cut the connection at any byte of it, answer in the server's place;
 *   act on all connections at once: delay, freeze and thaw, swallow, cut, refuse new ones.
 * It reads whole frames, so it knows which reply belongs to which request, and a run is the same every time: nothing
 * depends on how the kernel happened to cut the bytes.
 *
 * What it has read from a client is delivered even when the client has gone meanwhile, over the connection to the
 * server, which stays open for that: as routers and kernels do.
 *
 *     int late = proxy_on(p, .action = PROXY_HOLD, .command = "EVALSHA", .contains = "orders");
 *     ... a call that times out ...
 *     cr_assert(proxy_wait(p, late, 1, 1000));     the request is here, held
 *     proxy_let_go(p, late);                       now it reaches the server
 *
 * One thread of its own does the work; every function may be called from any thread, and takes effect for bytes read
 * after it has returned. MONITOR and CLIENT REPLY are not understood (their replies have no request, or the other way
 * round). To add a fault: a new action belongs in pass() of proxy.c, a fault of the whole line in its struct way.
 */
#ifndef TESTS_SUPPORT_PROXY_H
#define TESTS_SUPPORT_PROXY_H

#include "tests/support/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy;

/* In front of `s`, on the same kind of socket: a unix socket in its directory, or a free TCP port. Stop the proxy
 * first. */
struct proxy *proxy_start(const struct server *s);
/* In front of that port of 127.0.0.1, whatever listens there, or will. It knows no frames, so rules do not act, and
 * what is said need not be RESP. */
struct proxy *proxy_start_blind(int port);

void proxy_stop(struct proxy *p); /* NULL is fine */

const char *proxy_uri(const struct proxy *p); /* for rdl_client_open; NULL when blind */
int proxy_port(const struct proxy *p);        /* where it listens; of TCP only */

/* ---- rules ------------------------------------------------------------------------------------------------------ */

enum proxy_action {
    PROXY_WATCH,  /* only count it */
    PROXY_HOLD,   /* keep it, and what follows it that way on that connection, until proxy_let_go */
    PROXY_CUT,    /* pass `at` bytes of it, then close the connection on both sides */
    PROXY_ANSWER, /* a request: answer it, do not pass it on; a reply or message: replace it ("": lose it) */
};

enum proxy_part {
    PROXY_REQUEST, /* act when the request has come from the client */
    PROXY_REPLY,   /* the request passes; act when its reply has come from the server */
    PROXY_MESSAGE, /* act on a message of a subscription; command must be NULL */
};

#define PROXY_WHOLE SIZE_MAX

/* Of the frames that match, seen from now on over all connections, the nth; with `every`, that one and all later ones.
 */
struct proxy_rule {
    enum proxy_action action;
    enum proxy_part part;
    const char *command;  /* the request's first word, case ignored; NULL: any */
    const char *contains; /* bytes somewhere in the request or message; NULL: any */
    size_t contains_len;  /* 0: up to its NUL */
    unsigned nth;         /* 0: 1 */
    bool every;
    size_t at;          /* PROXY_CUT: bytes that still pass, PROXY_WHOLE: all of it */
    const char *answer; /* PROXY_ANSWER: a RESP frame, "-OOM nothing left\r\n" */
};

/* Add a rule; the earlier of two that would act on one frame acts. Returns its number. Strings are copied. */
int proxy_rule(struct proxy *p, const struct proxy_rule *rule);
#define proxy_on(p, ...) proxy_rule((p), &(struct proxy_rule){__VA_ARGS__})

/* How often the rule has acted: for a reply, when the reply is here. */
unsigned proxy_acted(struct proxy *p, int rule);
bool proxy_wait(struct proxy *p, int rule, unsigned times, int64_t bound_ms);

/* The rule acts no more, and what it holds goes on its way. */
void proxy_let_go(struct proxy *p, int rule);

/* ---- the whole line --------------------------------------------------------------------------------------------- */

enum proxy_way {
    PROXY_TO_SERVER = 1,
    PROXY_TO_CLIENT = 2,
    PROXY_BOTH_WAYS = 3,
};

enum proxy_which {
    PROXY_ALL,
    PROXY_SUBSCRIBERS, /* connections that have subscribed to something */
    PROXY_COMMANDERS,  /* the others */
};

void proxy_delay(struct proxy *p, enum proxy_way ways, int64_t ms); /* 0: none */

/* Stop reading and writing that way on every connection, later ones too; sockets stay open, the kernel's buffers fill
 * up. */
void proxy_freeze(struct proxy *p, enum proxy_way ways);
void proxy_thaw(struct proxy *p, enum proxy_way ways);

/* Read and throw away. A connection that lost something stays lost that way after `on` is false again. */
void proxy_swallow(struct proxy *p, enum proxy_way ways, bool on);

/* Close these connections now, on both sides, whatever is held or on its way. */
void proxy_cut(struct proxy *p, enum proxy_which which);

/* Close the client's side only: it sees its connection break, and what was read from it, held or not, still reaches the
 * server in its time, over a connection that the server believes alive. */
void proxy_cut_client_side(struct proxy *p, enum proxy_which which);

/* Close the server's side only: the client's connection stays open and nobody is there. */
void proxy_cut_server_side(struct proxy *p, enum proxy_which which);

/* Cut the connection after `bytes` more have passed that way, counted over all connections. */
void proxy_cut_after(struct proxy *p, enum proxy_way way, size_t bytes);

/* New connections are refused, as if nothing listened. Present ones go on. */
void proxy_refuse(struct proxy *p, bool on);

/* Close connections that come from this address (of TCP), present ones and new ones, while `on`. */
void proxy_bar(struct proxy *p, const char *address, bool on);

/* ---- what has happened ------------------------------------------------------------------------------------------ */

unsigned proxy_accepted(struct proxy *p); /* connections since the start */
unsigned proxy_open(struct proxy *p);     /* connections now */
unsigned proxy_cuts(struct proxy *p);     /* connections cut by a rule, proxy_cut or proxy_cut_after */
uint64_t proxy_requests(struct proxy *p); /* request frames read */
uint64_t proxy_replies(struct proxy *p);  /* replies read, messages not counted */
bool proxy_wait_accepted(struct proxy *p, unsigned n, int64_t bound_ms);
bool proxy_wait_cuts(struct proxy *p, unsigned n, int64_t bound_ms);

#endif
