/* SPDX-License-Identifier: MIT */
/* net.h - connections: byte streams with delays, from processes to servers.
 *
 * Within one direction of one connection bytes keep their order; nothing else keeps any. A connection that is closed or
 * cut leaves what it carries: the server may still get it, even much later, unless it has been told to forget that
 * connection.
 *
 * net.c is also what the library is linked with in place of core/io/sock.c.
 */
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include "tests/sim/world.h"

struct conn;
struct session; /* the server's end (server.c) */

enum direction { UP, DOWN }; /* to the server, from it */

struct net_config {
    int64_t delay_ns;    /* one way, at least */
    int64_t jitter_ns;   /* and what may come on top */
    int64_t farther_ns;  /* each connection is so much longer than the one that was made before it */
    unsigned late_of_16; /* of 16 connections that end, how many leave bytes that come very late */
    unsigned lost_of_4;  /* of 4 connections that are cut, how many lose what is under way */
    int64_t late_ns;     /* how late, at most */
    unsigned late_turns; /* or between two commands on keys of the same process, fewer than so many later; 0: by time
                            alone */
    size_t room;         /* bytes that the socket takes before it is full */
    void (*on_cut)(const struct process *owner);
};

void net_begin(const struct net_config *config);
void net_end(void);

/* How long a request and its reply take at most on a connection that nothing happens to. */
int64_t net_round_trip(void);
int64_t net_connect_time(void); /* and how long a connection takes to be made and greeted */

/* ---- for the loop ----------------------------------------------------------------------------------------------- */

int net_ready(int fd);                                    /* RDL__READABLE, RDL__WRITABLE */
void net_watch(int fd, void (*fn)(void *arg), void *arg); /* tell when net_ready may have changed; NULL: no more */

/* ---- for the server --------------------------------------------------------------------------------------------- */

void net_answer(struct conn *conn, const char *bytes, size_t len);
void net_hang_up(struct conn *conn); /* what the client has sent and will send goes nowhere */
/* It reads the next `len` bytes, one request: when did its client give that to the socket, which may have had no room?
 */
int64_t net_given_at(struct conn *conn, size_t len);
void net_turn(const struct conn *conn); /* a command on keys has been run, perhaps not the last of those received */

/* ---- faults ----------------------------------------------------------------------------------------------------- */

/* A connection of the process (NULL: of any) that is in use, by chance; NULL: there is none. */
struct conn *net_any(const struct process *process);
/* One by which something is on its way to the server, likewise. */
struct conn *net_carrying(void);
/* The n-th of those that the process has in use, from 0, in the order in which they were made; NULL: it has fewer. */
struct conn *net_nth(const struct process *process, size_t n);

struct conn *net_touched(void); /* by which something was sent or received last, if it is in use */
struct conn *net_last(const struct process *process); /* the one that was made last, likewise */

/* It breaks, seen by either end when it learns of it. */
void net_cut(struct conn *conn);
/* It breaks after so many more bytes in that direction. */
void net_cut_after(struct conn *conn, enum direction direction, size_t bytes);
/* Nothing arrives before `until`. */
void net_hold(struct conn *conn, enum direction direction, int64_t until);
/* No connection of the process carries anything, and none is made, before `until`. */
void net_partition(const struct process *process, int64_t until);
/* All connections to that server break at once, and carry nothing any more. */
void net_lose_server(unsigned server);
/* Nobody of this process reaches the server any more. */
int64_t net_carried_until(void); /* when the last of what is under way to the servers is there; 0: nothing is */
void net_bury(const struct process *process);

const struct process *net_owner(const struct conn *conn);
bool net_abandoned(const struct conn *conn);    /* its client has closed it */
unsigned net_serial(const struct conn *conn);   /* for people */
size_t net_open(const struct process *process); /* connections that the process has not closed */

#endif
