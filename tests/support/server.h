/* SPDX-License-Identifier: MIT */
/* server.h - a real Redis or Valkey server that belongs to one test.
 *
 * Each has a directory of its own, a unix socket in it, and a TCP port of 127.0.0.1 when asked for; starting takes some
 * 20 ms, so every test starts its own. The binary is that of $REDLATCH_TEST_SERVER, else redis-server.
 *
 * With $REDLATCH_TEST_TLS every server has `tls`. Such a one makes itself a CA (ca.crt and ca.key in its directory) and
 * a certificate for localhost and 127.0.0.1 (server.crt, server.key). That CA becomes the process's default: clients
 * with no options for TLS believe the server that was started last.
 *
 * With $REDLATCH_TEST_ACL clients are a user who has the rights that docs/acl.md names, for names of any kind, and no
 * others. That user is in the URI; probes, which come through the unix socket, may do everything.
 *
 * Nothing stays behind, however the test ends: the kernel kills the server when the thread that started it is gone (so
 * start servers on the test's main thread), and a keeper process, which waits for the test's end of a pipe to close,
 * removes the directory. What cannot work (no such binary, no start within 10 s) aborts the test with the reason.
 */
#ifndef TESTS_SUPPORT_SERVER_H
#define TESTS_SUPPORT_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct server;

struct server_options {
    bool tcp;             /* listen on a free port as well; server_uri then names it */
    bool tls;             /* listen with TLS on a free port as well; server_uri then names it, as localhost */
    const char *cert_for; /* with `tls`: what the certificate is for, in the form of certs.h, if not for these two */
    const struct server *cert_of; /* with `tls`: show that one's certificate */
    bool sentinel;                /* be a Sentinel */
    int port;                     /* with `tcp` or `tls`: listen on that one, which reserve_port gave */
    const char *nodes; /* be a node of a Redis Cluster whose view of it is at first this, in the form of nodes.conf */
    const char *clock; /* of clock.h: its wall clock is off by what is there */
    const char *password; /* requirepass */
    const char *config;   /* more lines of redis.conf, "\n" between them; they win over ours */
};

struct server *server_start(const struct server_options *options); /* NULL: all defaults */

/* Kill the server, remove its directory, free. NULL is fine. */
void server_stop(struct server *s);

/* SIGKILL, and wait until the process is gone. Clients see their connections closed. */
void server_kill(struct server *s);

/* Start it again where it was: same directory, socket and port, empty unless `config` made it persistent. */
void server_start_again(struct server *s);

/* Take what is in the files of certificate, key and CA from now on, and close the connections of all clients. */
void server_read_certificates(const struct server *s);

/* SIGSTOP and SIGCONT: it accepts connections (the kernel does) and answers nothing. Returns when it has stopped. */
void server_pause(struct server *s);
void server_resume(struct server *s);

/* For rdl_client_open, without the password of `options`: "unix:/path", "redis://127.0.0.1:port", or
 * "rediss://localhost:port". */
const char *server_uri(const struct server *s);

/* Who clients are, as it stands in a URI; "": nobody in particular. And what the server calls them. */
const char *server_login(const struct server *s);
const char *server_user(const struct server *s);

const char *server_dir(const struct server *s);
const char *server_socket(const struct server *s);   /* its unix socket; there is always one */
int server_port(const struct server *s);             /* of TCP or TLS; 0 without */
const char *server_password(const struct server *s); /* NULL when there is none */
pid_t server_pid(const struct server *s);
void server_print_log(const struct server *s); /* to explain a failure */
bool server_running(const struct server *s);   /* started, and not killed since */

/* Is the binary a Redis 6.2, which lacks what some tests need? */
bool server_is_old(void);

/* A TCP port of 127.0.0.1 that is nobody else's until ret_fd is closed, and on which a server may listen even before.
 */
int reserve_port(int *ret_fd);

/* Two, for clients and, BUS_OFFSET above, for the other nodes of a cluster. */
#define BUS_OFFSET 10000
int reserve_ports_of_node(int *ret_fd, int *ret_bus_fd);

/* One on which nobody listens as long as this process lives. */
int dead_port(void);

#endif
