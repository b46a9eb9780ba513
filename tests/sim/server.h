/* SPDX-License-Identifier: MIT */
/* server.h - a server: sessions, scripts, messages, in front of the in-memory keyspace.
 *
 * It is a process: stopped, it answers nothing, and what arrives waits. Its clock is what ends leases.
 *
 * There may be several; a world has the one with number 0 and those that it begins. The functions without a session are
 * about the one that was selected last, at first number 0.
 */
#ifndef TESTS_SIM_SERVER_H
#define TESTS_SIM_SERVER_H

#include "tests/script/keyspace.h"
#include "tests/sim/net.h"
#include "tests/sim/world.h"

#define MOST_SERVERS 5

unsigned server_select(unsigned n); /* returns the former */

struct server_traits {
    bool old;          /* knows no HELLO */
    bool kill_refused; /* CLIENT KILL is not allowed */
};

/* One command that the server has run. */
struct ran {
    const struct process *client; /* NULL: it came from nowhere (server_do) */
    int64_t sent_at;              /* when its client sent it, on its way out of the process from then on */
    bool late;                    /* its client had given up the connection that it came on */
    const char *script;           /* name of the script that it called, or NULL */
    size_t argc;
    const char *const *argv;
    const size_t *len;
    size_t first_key; /* of a script */
    size_t first_arg; /* and behind its keys */
    const struct reply *reply;
};

void server_begin(const struct server_traits *traits, int64_t clock_ppm);
void server_end(void); /* all of them */
struct process *server_process(void);
struct keyspace *server_keys(void); /* as of now, by the server's clock */
int64_t server_commands(void);      /* that may have changed a key, since the program began */
void server_on_ran(void (*fn)(const struct ran *ran));

/* ---- for the net ------------------------------------------------------------------------------------------------ */

struct session *server_accept(struct conn *conn); /* NULL: nobody listens */
void server_receive(struct session *session, const char *bytes, size_t len);
void server_forget(struct session *session); /* its stream has ended */

/* ---- faults, and foreign clients -------------------------------------------------------------------------------- */

void server_crash(void);
void server_restart(bool empty); /* another run: ids start over, scripts are forgotten */
bool server_up(void);            /* it runs, and is not stopped */
void server_flush_scripts(void);
void server_flush_keys(void);
void server_step_clock(int64_t ns);
bool server_forgot_scripts(void); /* in this run, while it was up or by going down */
bool server_stepped_back(void);   /* in this run: no token is promised to grow */
int64_t server_undo_pause(void);  /* how long an undo may pause for want of CLIENT KILL */

/* Run a command without any connection. Its reply is the caller's. */
struct reply *server_do_(const char *first, ...) __attribute__((sentinel));
#define server_do(...) server_do_(__VA_ARGS__, (const char *)NULL)

/* Channels that it is subscribed to, but for the one on which it hears of evictions. */
size_t server_subscriptions(const struct process *client);

#endif
