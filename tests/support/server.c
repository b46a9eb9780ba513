/* SPDX-License-Identifier: MIT */
/* server.c - see server.h.
 *
 * Between fork and exec the child calls only what is safe after a fork of a process with threads: a restart happens
 * while the client under test has threads of its own.
 */
#include "tests/support/server.h"
#include "tests/support/certs.h"
#include "tests/support/clock.h"
#include "tests/support/probe.h"
#include "tests/support/rights.h"
#include "tests/support/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_BOUND_MS 10000

struct server {
    char *dir;
    char *socket;
    char *conf;
    char *log;
    char *uri;
    char *clock;
    char *password;
    char *config;
    char *cert_dir; /* of CA and certificate; NULL: no TLS */
    bool rights;    /* clients are a user with few */
    bool sentinel;
    int port;
    int port_fd; /* keeps the port, while nobody listens there, too; -1: whoever gave it does */
    pid_t pid;   /* 0: not running */
    pid_t keeper;
    int keeper_fd; /* the keeper acts when the last copy of this descriptor is closed */
};

static const char *binary(void)
{
    const char *path = getenv("REDLATCH_TEST_SERVER");

    return path != NULL && path[0] != '\0' ? path : "redis-server";
}

/* What the binary says of itself, as far as there is room. */
static void ask_version(char *to, size_t cap)
{
    int ends[2];
    ssize_t n;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0)
        die("%s --version: %s", binary(), strerror(errno));
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execlp(binary(), binary(), "--version", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    n = read(ends[0], to, cap - 1);
    to[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

bool server_is_old(void)
{
    static char version[256];

    if (version[0] == '\0')
        ask_version(version, sizeof version);
    return strstr(version, " v=6.") != NULL;
}

/* Port 0: any. Returns -1 if it is another's, be it only reserved: SO_REUSEADDR, which a server says as well, comes
 * after that. The kernel gives such a port to nobody who asks for any. */
static int bind_port(int port, int *ret_fd)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        die("no socket: %s", strerror(errno));
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || getsockname(fd, (struct sockaddr *)&at, &len) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0) {
        close(fd);
        return -1;
    }
    *ret_fd = fd;
    return ntohs(at.sin_port);
}

int reserve_port(int *ret_fd)
{
    int port = bind_port(0, ret_fd);

    if (port < 0)
        die("no free port: %s", strerror(errno));
    return port;
}

int reserve_ports_of_node(int *ret_fd, int *ret_bus_fd)
{
    for (int i = 0; i < 1000; i++) {
        int port = reserve_port(ret_fd);

        if (port + BUS_OFFSET <= UINT16_MAX && bind_port(port + BUS_OFFSET, ret_bus_fd) >= 0)
            return port;
        close(*ret_fd);
    }
    die("no two free ports %d apart", BUS_OFFSET);
}

int dead_port(void)
{
    int fd;

    return reserve_port(&fd);
}

/* A process that outlives the test by a moment and removes the directory. Its standard input is the pipe. */
static void start_keeper(struct server *s)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0 || (s->keeper = fork()) < 0)
        die("cannot start the keeper: %s", strerror(errno));
    if (s->keeper == 0) {
        setpgid(0, 0); /* an interrupt at the terminal is for the test */
        dup2(ends[0], STDIN_FILENO);
        execl("/bin/sh", "sh", "-c", "read _; exec rm -rf -- \"$0\"", s->dir, (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    s->keeper_fd = ends[1];
}

static void make_dir(struct server *s)
{
    const char *tmp = getenv("TMPDIR");

    /* A unix socket's path has 107 bytes. */
    if (tmp == NULL || tmp[0] != '/' || strlen(tmp) > 60)
        tmp = "/tmp";
    s->dir = must_format("%s/redlatch-test.XXXXXX", tmp);
    if (mkdtemp(s->dir) == NULL)
        die("mkdtemp %s: %s", s->dir, strerror(errno));
    start_keeper(s);
}

static bool wants_tls(const struct server_options *options)
{
    const char *all = getenv("REDLATCH_TEST_TLS");

    return options->tls || (all != NULL && all[0] != '\0');
}

/* ---- rights ----------------------------------------------------------------------------------------------------- */

#define NAMES "orders:*" /* of the document */
#define OURS "[^r{]*"    /* of tests; no key that belongs to a name begins so */

/* Append them, our names for those of the document. */
static void put_rules(const char *rules, void *arg)
{
    FILE *to = arg;
    const char *at;

    fprintf(to, " ");
    for (; (at = strstr(rules, NAMES)) != NULL; rules = at + strlen(NAMES))
        fprintf(to, "%.*s" OURS, (int)(at - rules), rules);
    fprintf(to, "%s", rules);
}

/* A user with the rights that the document names, all of them. */
static void put_user(FILE *to)
{
    fprintf(to, "user app");
    (void)rights_read(NULL, "app", put_rules, to);
    fprintf(to, "\n");
}

static bool wants_rights(const struct server_options *options)
{
    const char *all = getenv("REDLATCH_TEST_ACL");

    return all != NULL && all[0] != '\0' && options->password == NULL && !options->sentinel;
}

const char *server_login(const struct server *s)
{
    return s->rights ? "app:secret@" : "";
}

const char *server_user(const struct server *s)
{
    return s->rights ? "app" : "default";
}

/* Where CA and certificate are; to be freed. */
static char *make_certificates(const struct server *s, const struct server_options *options)
{
    char *ca;

    if (options->cert_of != NULL)
        return must_format("%s", options->cert_of->cert_dir);
    ca = must_format("%s/ca.crt", s->dir);
    certs_make_ca(s->dir, "ca");
    certs_issue(s->dir, "ca", "server", options->cert_for != NULL ? options->cert_for : "DNS:localhost,IP:127.0.0.1",
                2);
    setenv("SSL_CERT_FILE", ca, 1);
    free(ca);
    return must_format("%s", s->dir);
}

static void write_conf(const struct server *s)
{
    FILE *f = fopen(s->conf, "we");

    if (f == NULL)
        die("%s: %s", s->conf, strerror(errno));
    fprintf(f, "port %d\nbind 127.0.0.1\nunixsocket %s\nunixsocketperm 700\ndir %s\n",
            s->cert_dir != NULL ? 0 : s->port, s->socket, s->dir);
    if (s->cert_dir != NULL)
        fprintf(f,
                "tls-port %d\ntls-ca-cert-file %s/ca.crt\ntls-cert-file %s/server.crt\ntls-key-file %s/server.key\n"
                "tls-auth-clients no\n",
                s->port, s->cert_dir, s->cert_dir, s->cert_dir);
    fprintf(f, "save \"\"\nappendonly no\ndaemonize no\n");
    if (!s->sentinel && !server_is_old()) /* which asks nobody */
        fprintf(f, "enable-debug-command local\n");
    if (s->password != NULL)
        fprintf(f, "requirepass %s\n", s->password);
    if (s->rights)
        put_user(f);
    if (s->config != NULL)
        fprintf(f, "%s\n", s->config);
    if (fclose(f) != 0)
        die("%s: %s", s->conf, strerror(errno));
}

static void write_nodes(const struct server *s, const char *nodes)
{
    char *path = must_format("%s/nodes.conf", s->dir);
    FILE *f = fopen(path, "we");

    if (f == NULL || fputs(nodes, f) < 0 || fclose(f) != 0)
        die("%s: %s", path, strerror(errno));
    free(path);
}

static int port_for(struct server *s, const struct server_options *options)
{
    if (options->port != 0)
        return options->port;
    return options->tcp || s->cert_dir != NULL ? reserve_port(&s->port_fd) : 0;
}

static void launch(struct server *s)
{
    pid_t parent = getpid();
    const char *path = binary();

    s->pid = fork();
    if (s->pid < 0)
        die("fork: %s", strerror(errno));
    if (s->pid == 0) {
        int log = open(s->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* it died before the line above */
            _exit(127);
        setpgid(0, 0);
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        if (s->clock != NULL)
            clock_preload(s->clock);
        execlp(path, path, s->conf, s->sentinel ? "--sentinel" : (char *)NULL, (char *)NULL);
        _exit(127);
    }
}

void server_print_log(const struct server *s)
{
    char line[512];
    FILE *f = fopen(s->log, "re");

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        fprintf(stderr, "    %s", line);
    if (f != NULL)
        fclose(f);
}

/* Wait until it answers. False: it has ended by itself. */
static bool wait_ready(struct server *s)
{
    int64_t end = now_ms() + START_BOUND_MS;

    while (!probe_answers(s->socket)) {
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
            s->pid = 0;
            return false;
        }
        if (now_ms() >= end) {
            server_print_log(s);
            die("%s does not answer after %d ms", binary(), START_BOUND_MS);
        }
        let_pass_ms(1);
    }
    return true;
}

static char *uri_of(const struct server *s)
{
    const char *who = server_login(s);

    if (s->cert_dir != NULL)
        return must_format("rediss://%slocalhost:%d", who, s->port);
    return s->port != 0 ? must_format("redis://%s127.0.0.1:%d", who, s->port)
                        : must_format("unix:%s%s%s", who[0] != '\0' ? "//" : "", who, s->socket);
}

struct server *server_start(const struct server_options *options)
{
    static const struct server_options defaults;
    struct server *s = must_alloc(sizeof *s);

    options = options != NULL ? options : &defaults;
    make_dir(s);
    s->rights = wants_rights(options);
    if (wants_tls(options))
        s->cert_dir = make_certificates(s, options);
    s->socket = must_format("%s/redis.sock", s->dir);
    s->conf = must_format("%s/redis.conf", s->dir);
    s->log = must_format("%s/log", s->dir);
    s->sentinel = options->sentinel;
    s->clock = options->clock != NULL ? must_format("%s", options->clock) : NULL;
    s->password = options->password != NULL ? must_format("%s", options->password) : NULL;
    s->config = options->config != NULL ? must_format("%s", options->config) : NULL;
    if (options->nodes != NULL)
        write_nodes(s, options->nodes);
    s->port_fd = -1;
    s->port = port_for(s, options);
    write_conf(s);
    launch(s);
    if (!wait_ready(s)) {
        server_print_log(s);
        die("%s ended at once", binary());
    }
    s->uri = uri_of(s);
    return s;
}

void server_kill(struct server *s)
{
    if (s->pid == 0)
        return;
    kill(s->pid, SIGKILL);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    s->pid = 0;
}

void server_read_certificates(const struct server *s)
{
    static const char *const kinds[] = {"normal", "pubsub"};
    struct probe *p = probe_open(s);
    char *path = must_format("%s", probe_ask(p, "CONFIG GET tls-cert-file")->items[1].text);

    (void)probe_text(p, "CONFIG SET tls-cert-file %s", path); /* reads them all */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        (void)probe_int(p, "CLIENT KILL TYPE %s", kinds[i]);
    probe_close(p);
    free(path);
}

void server_start_again(struct server *s)
{
    launch(s);
    if (!wait_ready(s)) {
        server_print_log(s);
        die("%s did not start again", binary());
    }
}

void server_stop(struct server *s)
{
    if (s == NULL)
        return;
    server_kill(s);
    if (s->port_fd >= 0)
        close(s->port_fd);
    close(s->keeper_fd);
    while (waitpid(s->keeper, NULL, 0) < 0 && errno == EINTR)
        ;
    free(s->dir);
    free(s->socket);
    free(s->conf);
    free(s->log);
    free(s->uri);
    free(s->clock);
    free(s->password);
    free(s->config);
    free(s->cert_dir);
    free(s);
}

void server_pause(struct server *s)
{
    int status = 0;

    kill(s->pid, SIGSTOP);
    while (waitpid(s->pid, &status, WUNTRACED) < 0 && errno == EINTR)
        ;
    if (!WIFSTOPPED(status))
        die("the server ended instead of stopping");
}

void server_resume(struct server *s)
{
    kill(s->pid, SIGCONT);
}

const char *server_uri(const struct server *s)
{
    return s->uri;
}

const char *server_dir(const struct server *s)
{
    return s->dir;
}

const char *server_socket(const struct server *s)
{
    return s->socket;
}

int server_port(const struct server *s)
{
    return s->port;
}

const char *server_password(const struct server *s)
{
    return s->password;
}

pid_t server_pid(const struct server *s)
{
    return s->pid;
}

bool server_running(const struct server *s)
{
    return s->pid != 0;
}
