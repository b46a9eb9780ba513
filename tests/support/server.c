/* server.c - see server.h.
 *
 * Between fork and exec the child calls only what is safe after a fork of a process with threads: a restart happens while
 * the client under test has threads of its own.
 */
#include "tests/support/server.h"
#include "tests/support/probe.h"
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
#define PORT_TRIES 5

struct server {
    char *dir;
    char *socket;
    char *conf;
    char *log;
    char *uri;
    char *password;
    char *config;
    int port;
    pid_t pid; /* 0: not running */
    pid_t keeper;
    int keeper_fd; /* the keeper acts when the last copy of this descriptor is closed */
};

static const char *binary(void)
{
    const char *path = getenv("REDLATCH_TEST_SERVER");

    return path != NULL && path[0] != '\0' ? path : "redis-server";
}

int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        die("no free port: %s", strerror(errno));
    close(fd);
    return ntohs(at.sin_port);
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

static void write_conf(const struct server *s)
{
    FILE *f = fopen(s->conf, "we");

    if (f == NULL)
        die("%s: %s", s->conf, strerror(errno));
    fprintf(f, "port %d\nbind 127.0.0.1\nunixsocket %s\nunixsocketperm 700\ndir %s\n", s->port, s->socket, s->dir);
    fprintf(f, "save \"\"\nappendonly no\ndaemonize no\n");
    if (s->password != NULL)
        fprintf(f, "requirepass %s\n", s->password);
    if (s->config != NULL)
        fprintf(f, "%s\n", s->config);
    if (fclose(f) != 0)
        die("%s: %s", s->conf, strerror(errno));
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
        execlp(path, path, s->conf, (char *)NULL);
        _exit(127);
    }
}

static void print_log(const struct server *s)
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
            print_log(s);
            die("%s does not answer after %d ms", binary(), START_BOUND_MS);
        }
        let_pass_ms(1);
    }
    return true;
}

struct server *server_start(const struct server_options *options)
{
    static const struct server_options defaults;
    struct server *s = must_alloc(sizeof *s);

    options = options != NULL ? options : &defaults;
    make_dir(s);
    s->socket = must_format("%s/redis.sock", s->dir);
    s->conf = must_format("%s/redis.conf", s->dir);
    s->log = must_format("%s/log", s->dir);
    s->password = options->password != NULL ? must_format("%s", options->password) : NULL;
    s->config = options->config != NULL ? must_format("%s", options->config) : NULL;
    for (int left = PORT_TRIES;; left--) {
        s->port = options->tcp ? free_port() : 0;
        write_conf(s);
        launch(s);
        if (wait_ready(s))
            break;
        if (!options->tcp || left == 1) { /* else somebody may have taken the port since */
            print_log(s);
            die("%s ended at once", binary());
        }
    }
    s->uri = options->tcp ? must_format("redis://127.0.0.1:%d", s->port) : must_format("unix:%s", s->socket);
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

void server_start_again(struct server *s)
{
    launch(s);
    if (!wait_ready(s)) {
        print_log(s);
        die("%s did not start again", binary());
    }
}

void server_stop(struct server *s)
{
    if (s == NULL)
        return;
    server_kill(s);
    close(s->keeper_fd);
    while (waitpid(s->keeper, NULL, 0) < 0 && errno == EINTR)
        ;
    free(s->dir);
    free(s->socket);
    free(s->conf);
    free(s->log);
    free(s->uri);
    free(s->password);
    free(s->config);
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
