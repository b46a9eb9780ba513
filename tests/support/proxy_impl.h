/* SPDX-License-Identifier: MIT */
/* proxy_impl.h - what the two halves of the proxy share.
 *
 *   proxy.c        sockets, the thread, and the interface
 *   proxy_lines.c  frames: what is read, which rules it triggers, and the queues in which it waits to be written
 *
 * A link is a client's connection and its own connection to the server. Each has two lanes, one a way. A lane reads
 * bytes into `in`, cuts them into frames, and puts each frame as a piece into its queue, where a piece waits until it
 * is due, not held, and the way is not frozen. A link also keeps the requests that the server has still to answer,
 * oldest first: that is how a reply is matched to the rule that its request triggered.
 *
 * Everything is under mu, except the thread's sleep in ppoll and the few fields that never change. The functions of the
 * interface change the state under mu and ring the thread's bell.
 */
#ifndef TESTS_SUPPORT_PROXY_IMPL_H
#define TESTS_SUPPORT_PROXY_IMPL_H

#include "tests/support/proxy.h"
#include "tests/support/resp.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MAX_RULES 64
#define NO_RULE (-1)
#define UNLIMITED SIZE_MAX
#define MAX_BARRED 8

union address {
    struct sockaddr any;
    struct sockaddr_in tcp;
    struct sockaddr_un local;
};

/* A frame, or what is left of one, on its way. */
struct piece {
    struct piece *next;
    char *at;
    size_t len;
    size_t sent;
    int64_t due_us;
    int held_by; /* rule, or NO_RULE */
    bool cut_after;
};

struct lane {
    int way; /* PROXY_TO_SERVER or PROXY_TO_CLIENT */
    int from;
    int to;
    struct bytes in;
    struct piece *first;
    struct piece **last;
    bool ended; /* no more will come */
    bool lost;  /* something was swallowed: nothing passes any more */
};

/* A request that waits for its reply. */
struct awaited {
    struct awaited *next;
    unsigned replies;   /* frames that answer it: a SUBSCRIBE of three channels has three */
    uint64_t rules;     /* those that the request has triggered, a bit each */
    const char *answer; /* the proxy's own answer, NULL: the server's */
};

struct link {
    struct link *next;
    in_addr_t source; /* of the client, with TCP */
    int client;       /* -1: gone while the server's side stays open */
    int server;       /* -1: the other way round */
    struct lane up;
    struct lane down;
    struct awaited *first;
    struct awaited **last;
    bool subscriber;
    bool orphaned;  /* the server's side is to be closed */
    bool abandoned; /* the client's side is to be closed */
    bool broken;    /* both sides are to be closed */
};

struct rule {
    struct proxy_rule is;
    unsigned matched;
    unsigned acted;
    bool gone; /* let go */
};

/* Faults of the whole line, one way. */
struct way {
    int64_t delay_us;
    bool frozen;
    bool swallow;
    size_t cut_after; /* bytes left, or UNLIMITED */
};

struct proxy {
    /* never changes */
    bool blind;
    char *uri;
    union address here;
    socklen_t here_len;
    union address there;
    socklen_t there_len;
    int port_fd; /* keeps the port while nobody listens there; TCP only */
    int bell;
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t happened;
    /* under mu */
    int listener; /* -1 while refusing */
    bool end;
    struct link *links;
    struct way to_server;
    struct way to_client;
    in_addr_t barred[MAX_BARRED]; /* 0: a place that is free */
    struct rule rules[MAX_RULES];
    int rule_count;
    unsigned accepted;
    unsigned cuts;
    uint64_t requests;
    uint64_t replies;
};

struct way *way_of(struct proxy *p, const struct lane *lane);
/* Put `len` bytes into the lane's queue; a piece may be empty when it only carries a cut. */
void queue_piece(struct proxy *p, struct lane *lane, const char *at, size_t len, int held_by, bool cut_after);
void drop_first_piece(struct lane *lane);
void lane_init(struct lane *lane, int way, int from, int to);
void lane_empty(struct lane *lane); /* drops what is on its way */
void lane_done(struct lane *lane);  /* and frees it */
void drop_first_awaited(struct link *link);
/* Cut what the lane has read into frames, count each with the rules, and queue what they let through. */
void take_frames(struct proxy *p, struct link *link, struct lane *lane);

#endif
