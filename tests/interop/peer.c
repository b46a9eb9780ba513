/* SPDX-License-Identifier: MIT */
/* peer.c - see peer.h.
 *
 * A socket pair leads to the JVM's standard input and output. Answers come in any order, so each is kept until it is
 * asked for. Standard error is the test's own; Redisson's log goes there at the level $REDLATCH_TEST_PEER_LOG (debug,
 * info, warn, error), normally not at all, because a server that ends with its test would be reported by every
 * connection.
 */
#include "tests/interop/peer.h"
#include "tests/support/resp.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_UNCLAIMED 64

struct peer {
    pid_t pid; /* 0: gone */
    int fd;
    struct bytes in;                /* read and not yet a whole line */
    char *unclaimed[MAX_UNCLAIMED]; /* lines that nobody asked for yet; NULL: free place */
    char *last;                     /* the answer that was handed out */
    unsigned requests;
};

/* ---- starting --------------------------------------------------------------------------------------------------- */

static const char *peer_dir(void)
{
    const char *dir = getenv("REDLATCH_TEST_PEER");

    return dir != NULL && dir[0] != '\0' ? dir : "build/interop";
}

static void skip_when_unavailable(const char *dir)
{
    char *path = must_format("%s/unavailable", dir);
    char reason[300] = "";
    FILE *f = fopen(path, "re");

    free(path);
    if (f != NULL) {
        if (fgets(reason, sizeof reason, f) == NULL)
            strcpy(reason, "no reason given");
        fclose(f);
        reason[strcspn(reason, "\n")] = '\0';
        cr_skip_test("%s", reason);
    }
    path = must_format("%s/peer.jar", dir);
    if (access(path, R_OK) != 0)
        cr_skip_test("the Java peer is not built: tests/interop/peer/build %s", dir);
    free(path);
}

static void run_java(const char *dir, int fd)
{
    const char *log = getenv("REDLATCH_TEST_PEER_LOG");
    char *level =
        must_format("-Dorg.slf4j.simpleLogger.defaultLogLevel=%s", log != NULL && log[0] != '\0' ? log : "off");
    char *jar = must_format("%s/peer.jar", dir);
    char *archive = must_format("%s/peer.jsa", dir);
    char *shared = must_format("-XX:SharedArchiveFile=%s", archive);

    dup2(fd, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    /* Quick to start, small, and no more threads than it needs: it shares two cores with a server and a test. An
     * archive that does not fit is not worth a word, which would come in between the answers. */
    execlp("java", "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Xlog:disable",
           access(archive, R_OK) == 0 ? shared : "-Xshare:auto", level, "-cp", jar, "redlatch.peer.Peer", (char *)NULL);
    fprintf(stderr, "cannot run java: %s\n", strerror(errno));
    _exit(127);
}

static void launch(struct peer *p, const char *dir)
{
    pid_t parent = getpid();
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 || (p->pid = fork()) < 0)
        die("cannot start the peer: %s", strerror(errno));
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* it died before the line above */
            _exit(127);
        run_java(dir, ends[1]);
    }
    close(ends[1]);
    p->fd = ends[0];
}

struct peer *peer_start(void)
{
    const char *dir = peer_dir();
    struct peer *p;

    skip_when_unavailable(dir);
    p = must_alloc(sizeof *p);
    launch(p, dir);
    return p;
}

void peer_kill(struct peer *p)
{
    if (p->pid == 0)
        return;
    kill(p->pid, SIGKILL);
    while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    p->pid = 0;
}

void peer_stop(struct peer *p)
{
    if (p == NULL)
        return;
    peer_kill(p);
    close(p->fd);
    bytes_done(&p->in);
    for (size_t i = 0; i < MAX_UNCLAIMED; i++)
        free(p->unclaimed[i]);
    free(p->last);
    free(p);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 0))) static unsigned send_request(struct peer *p, const char *thread,
                                                                   const char *format, va_list args)
{
    struct bytes line = {0};
    char *request = NULL;
    char *head = must_format("%u %s ", ++p->requests, thread);

    if (vasprintf(&request, format, args) < 0)
        die("out of memory");
    bytes_add(&line, head, strlen(head));
    bytes_add(&line, request, strlen(request));
    bytes_add(&line, "\n", 1);
    if (send(p->fd, line.at, line.len, MSG_NOSIGNAL) != (ssize_t)line.len)
        die("the peer has ended: cannot send '%s%s'", head, request);
    free(head);
    free(request);
    bytes_done(&line);
    return p->requests;
}

unsigned peer_send(struct peer *p, const char *thread, const char *format, ...)
{
    va_list args;
    unsigned id;

    va_start(args, format);
    id = send_request(p, thread, format, args);
    va_end(args);
    return id;
}

char *peer_word(const char *text)
{
    struct bytes word = {0};

    for (const char *c = text; *c != '\0'; c++) {
        char coded[4];

        snprintf(coded, sizeof coded, "%%%02X", (unsigned char)*c);
        if (isalnum((unsigned char)*c) || strchr("-_.", *c) != NULL)
            bytes_add(&word, c, 1);
        else
            bytes_add(&word, coded, 3);
    }
    bytes_add(&word, "", 1);
    return word.at;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static void keep_line(struct peer *p, const char *line, size_t len)
{
    for (size_t i = 0; i < MAX_UNCLAIMED; i++) {
        if (p->unclaimed[i] == NULL) {
            p->unclaimed[i] = must_format("%.*s", (int)len, line);
            return;
        }
    }
    die("more than %d answers of the peer that nobody asked for", MAX_UNCLAIMED);
}

static void split_lines(struct peer *p)
{
    const char *end;

    while (p->in.len > 0 && (end = memchr(p->in.at, '\n', p->in.len)) != NULL) {
        size_t len = (size_t)(end - p->in.at);

        keep_line(p, p->in.at, len);
        bytes_drop(&p->in, len + 1);
    }
}

/* Read what there is, waiting for it until end_ms. False: nothing came. */
static bool read_some(struct peer *p, int64_t end_ms)
{
    struct pollfd wait = {.fd = p->fd, .events = POLLIN};
    int64_t left = end_ms - now_ms();
    char chunk[4096];
    ssize_t n;

    if (poll(&wait, 1, left > 0 ? (int)left : 0) <= 0)
        return false;
    if ((n = read(p->fd, chunk, sizeof chunk)) <= 0)
        die("the peer has ended");
    bytes_add(&p->in, chunk, (size_t)n);
    split_lines(p);
    return true;
}

/* The place where the answer to a request is kept, or NULL. */
static char **find(struct peer *p, unsigned id)
{
    for (size_t i = 0; i < MAX_UNCLAIMED; i++) {
        if (p->unclaimed[i] != NULL && strtoul(p->unclaimed[i], NULL, 10) == id)
            return &p->unclaimed[i];
    }
    return NULL;
}

bool peer_answered(struct peer *p, unsigned id, int64_t bound_ms)
{
    int64_t end = now_ms() + bound_ms;

    while (find(p, id) == NULL) {
        if (!read_some(p, end) && now_ms() >= end)
            return false;
    }
    return true;
}

const char *peer_answer(struct peer *p, unsigned id, int64_t bound_ms)
{
    char **place;

    if (!peer_answered(p, id, bound_ms))
        die("the peer has not answered request %u within %lld ms", id, (long long)bound_ms);
    place = find(p, id);
    free(p->last);
    p->last = *place;
    *place = NULL;
    return strchr(p->last, ' ') + 1;
}

const char *peer_ask(struct peer *p, const char *thread, const char *format, ...)
{
    va_list args;
    unsigned id;

    va_start(args, format);
    id = send_request(p, thread, format, args);
    va_end(args);
    return peer_answer(p, id, PEER_BOUND_MS);
}
