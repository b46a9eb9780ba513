/* server.h - a real Redis or Valkey server that belongs to one test.
 *
 * Each has a directory of its own, a unix socket in it, and a TCP port of 127.0.0.1 when asked for; starting takes some
 * 20 ms, so every test starts its own. The binary is that of $REDLATCH_TEST_SERVER, else redis-server.
 *
 * Nothing stays behind, however the test ends: the kernel kills the server when the thread that started it is gone (so
 * start servers on the test's main thread), and a keeper process, which waits for the test's end of a pipe to close, removes
 * the directory. What cannot work (no such binary, no start within 10 s) aborts the test with the reason.
 */
#ifndef TESTS_SUPPORT_SERVER_H
#define TESTS_SUPPORT_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct server;

struct server_options {
    bool tcp;             /* listen on a free port as well; server_uri then names it */
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

/* SIGSTOP and SIGCONT: it accepts connections (the kernel does) and answers nothing. Returns when it has stopped. */
void server_pause(struct server *s);
void server_resume(struct server *s);

/* For rdl_client_open, without a password: "unix:/path" or "redis://127.0.0.1:port". */
const char *server_uri(const struct server *s);

const char *server_dir(const struct server *s);
const char *server_socket(const struct server *s);   /* its unix socket; there is always one */
int server_port(const struct server *s);             /* 0 without TCP */
const char *server_password(const struct server *s); /* NULL when there is none */
pid_t server_pid(const struct server *s);

/* A TCP port of 127.0.0.1 that was free a moment ago. */
int free_port(void);

#endif
