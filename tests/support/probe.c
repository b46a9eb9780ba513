/* SPDX-License-Identifier: MIT */
#include "tests/support/probe.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_BOUND_MS 10000
#define MAX_WORDS 64

struct probe {
    int fd;
    struct bytes in;
    struct reply *last;
};

static int connect_unix(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || strlen(path) >= sizeof at.sun_path)
        die("cannot make a socket for %s", path);
    strcpy(at.sun_path, path);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static struct probe *probe_on(int fd)
{
    struct probe *p = must_alloc(sizeof *p);

    p->fd = fd;
    return p;
}

struct probe *probe_open_at(const char *socket_path)
{
    int fd = connect_unix(socket_path);

    if (fd < 0)
        die("cannot connect to %s: %s", socket_path, strerror(errno));
    return probe_on(fd);
}

struct probe *probe_open(const struct server *s)
{
    struct probe *p = probe_open_at(server_socket(s));

    if (server_password(s) != NULL)
        (void)probe_text(p, "AUTH %s", server_password(s));
    return p;
}

void probe_close(struct probe *p)
{
    if (p == NULL)
        return;
    close(p->fd);
    bytes_done(&p->in);
    reply_free(p->last);
    free(p);
}

static void send_all(struct probe *p, const struct bytes *out)
{
    for (size_t sent = 0; sent < out->len;) {
        ssize_t n = send(p->fd, out->at + sent, out->len - sent, MSG_NOSIGNAL);

        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return; /* whoever wants the answer will see it closed */
        if (n < 0 && errno != EINTR)
            die("probe: send: %s", strerror(errno));
        sent += n > 0 ? (size_t)n : 0;
    }
}

/* Read more. False: nothing came in time; `*ret_closed` tells when nothing will. */
static bool read_more(struct probe *p, int64_t end_ms, bool *ret_closed)
{
    struct pollfd wait = {.fd = p->fd, .events = POLLIN};
    char chunk[65536];
    int64_t left = end_ms - now_ms();
    ssize_t n;

    if (poll(&wait, 1, left > 0 ? (int)left : 0) <= 0)
        return false;
    if ((n = read(p->fd, chunk, sizeof chunk)) <= 0) {
        *ret_closed = n == 0 || errno != EINTR;
        return false;
    }
    bytes_add(&p->in, chunk, (size_t)n);
    return true;
}

/* The next frame, or NULL. */
static const struct reply *next_frame(struct probe *p, int64_t bound_ms, bool *ret_closed)
{
    int64_t end = now_ms() + bound_ms;
    ssize_t frame;

    while ((frame = resp_frame(p->in.at, p->in.len)) == 0) {
        if (!read_more(p, end, ret_closed) && (*ret_closed || now_ms() >= end))
            return NULL;
    }
    if (frame < 0)
        die("probe: not an answer: %.*s", (int)p->in.len, p->in.at);
    reply_free(p->last);
    p->last = resp_parse(p->in.at, (size_t)frame);
    bytes_drop(&p->in, (size_t)frame);
    return p->last;
}

const struct reply *probe_next(struct probe *p, int64_t bound_ms)
{
    bool closed = false;

    return next_frame(p, bound_ms, &closed);
}

static const struct reply *answer(struct probe *p)
{
    bool closed = false;
    const struct reply *r = next_frame(p, ANSWER_BOUND_MS, &closed);

    if (r == NULL)
        die(closed ? "probe: the server closed the connection" : "probe: no answer");
    return r;
}

/* Cut a line into words, in place. */
static size_t split(char *line, const char **words)
{
    size_t n = 0;

    for (char *at = line;;) {
        char end = ' ';

        at += strspn(at, " ");
        if (*at == '\0')
            return n;
        if (*at == '\'') {
            end = '\'';
            at++;
        }
        if (n == MAX_WORDS)
            die("probe: too many words");
        words[n++] = at;
        if ((at = strchr(at, end)) == NULL)
            return n;
        *at++ = '\0';
    }
}

__attribute__((format(printf, 2, 0))) static void send_format(struct probe *p, const char *format, va_list args)
{
    const char *words[MAX_WORDS];
    struct bytes out = {0};
    char *line = NULL;

    if (vasprintf(&line, format, args) < 0)
        die("out of memory");
    resp_request(&out, split(line, words), words, NULL);
    send_all(p, &out);
    bytes_done(&out);
    free(line);
}

void probe_send(struct probe *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    send_format(p, format, args);
    va_end(args);
}

const struct reply *probe_ask(struct probe *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    send_format(p, format, args);
    va_end(args);
    return answer(p);
}

const struct reply *probe_ask_argv(struct probe *p, size_t argc, const char *const *argv, const size_t *argv_len)
{
    struct bytes out = {0};

    resp_request(&out, argc, argv, argv_len);
    send_all(p, &out);
    bytes_done(&out);
    return answer(p);
}

int64_t probe_int(struct probe *p, const char *format, ...)
{
    const struct reply *r;
    va_list args;
    char *end = NULL;
    int64_t number;

    va_start(args, format);
    send_format(p, format, args);
    va_end(args);
    r = answer(p);
    if (r->kind == REPLY_INTEGER)
        return r->integer;
    if (r->kind == REPLY_NIL)
        return -1;
    if (r->text == NULL)
        die("probe: '%s' was not answered by a number", format);
    number = strtoll(r->text, &end, 10);
    if (end == r->text || *end != '\0')
        die("probe: '%s' was answered by: %s", format, r->text);
    return number;
}

const char *probe_text(struct probe *p, const char *format, ...)
{
    const struct reply *r;
    va_list args;

    va_start(args, format);
    send_format(p, format, args);
    va_end(args);
    r = answer(p);
    if (r->kind == REPLY_NIL)
        return NULL;
    if (r->text == NULL || r->kind == REPLY_ERROR)
        die("probe: '%s' was answered by: %s", format, r->text != NULL ? r->text : "no text");
    return r->text;
}

bool probe_answers(const char *socket_path)
{
    int fd = connect_unix(socket_path);
    const struct reply *r;
    struct probe *p;
    bool yes;

    if (fd < 0)
        return false;
    p = probe_on(fd);
    probe_send(p, "PING");
    r = probe_next(p, ANSWER_BOUND_MS);
    yes = r != NULL && (r->kind != REPLY_ERROR || strncmp(r->text, "LOADING", 7) != 0);
    probe_close(p);
    return yes;
}

int64_t probe_keys(struct probe *p)
{
    return probe_int(p, "DBSIZE");
}

/* How long the name is without a client's own end, `:{U}`. */
static size_t shared_len(const char *name)
{
    enum { OWN_TAIL = 39 };
    size_t len = strlen(name);
    bool own = len > OWN_TAIL && strncmp(name + len - OWN_TAIL, ":{", 2) == 0 && name[len - 1] == '}';

    return own ? len - OWN_TAIL : len;
}

static bool is_own(const char *name, const char *channel)
{
    size_t len = shared_len(name);

    return name[len] != '\0' && strlen(channel) == len && strncmp(name, channel, len) == 0;
}

/* No name before it is of the same lock. */
static bool is_first(const struct reply *names, size_t at)
{
    size_t len = shared_len(names->items[at].text);

    for (size_t i = 0; i < at; i++)
        if (shared_len(names->items[i].text) == len && strncmp(names->items[i].text, names->items[at].text, len) == 0)
            return false;
    return true;
}

int64_t probe_channels_like(struct probe *p, bool sharded, const char *pattern)
{
    const struct reply *names = probe_ask(p, "PUBSUB %s %s", sharded ? "SHARDCHANNELS" : "CHANNELS", pattern);
    int64_t n = 0;

    for (size_t i = 0; i < names->count; i++)
        n += strncmp(names->items[i].text, "redlatch_lost:", strlen("redlatch_lost:")) != 0 && is_first(names, i);
    return n;
}

int64_t probe_channels_of(struct probe *p, bool sharded)
{
    return probe_channels_like(p, sharded, "*");
}

int64_t probe_channels(struct probe *p)
{
    return probe_channels_of(p, false);
}

int64_t probe_listeners_of(struct probe *p, bool sharded, const char *channel)
{
    const char *const words[] = {"PUBSUB", sharded ? "SHARDNUMSUB" : "NUMSUB", channel};
    const struct reply *r = probe_ask_argv(p, 3, words, NULL);

    return r->count == 2 ? r->items[1].integer : -1;
}

int64_t probe_subscribers_of(struct probe *p, bool sharded, const char *channel)
{
    int64_t shared = probe_listeners_of(p, sharded, channel), own = 0;
    const struct reply *r = probe_ask(p, "PUBSUB %s", sharded ? "SHARDCHANNELS" : "CHANNELS");

    for (size_t i = 0; i < r->count; i++)
        own += is_own(r->items[i].text, channel);
    return own > shared ? own : shared;
}

int64_t probe_subscribers(struct probe *p, const char *channel)
{
    return probe_subscribers_of(p, false, channel);
}

int64_t probe_clients(struct probe *p, const char *name)
{
    char *needle = must_format(" name=%s ", name);
    int64_t n = 0;

    for (const char *at = probe_text(p, "CLIENT LIST"); (at = strstr(at, needle)) != NULL; at++)
        n++;
    free(needle);
    return n;
}

int64_t probe_calls(struct probe *p, const char *command)
{
    char *needle = must_format("cmdstat_%s:calls=", command);
    const char *at = strstr(probe_text(p, "INFO commandstats"), needle);
    int64_t n = at != NULL ? strtoll(at + strlen(needle), NULL, 10) : 0;

    free(needle);
    return n;
}

static unsigned followers(struct probe *p)
{
    static const char field[] = "connected_slaves:";
    const char *at = strstr(probe_text(p, "INFO replication"), field);

    return (unsigned)strtoul(at + sizeof field - 1, NULL, 10);
}

bool probe_followed(struct probe *p, unsigned replicas, int64_t bound_ms)
{
    if (!WAIT_UNTIL(followers(p) == replicas, bound_ms))
        return false;
    (void)probe_ask(p, "SET sync 1");
    (void)probe_ask(p, "DEL sync");
    return WAIT_UNTIL(probe_int(p, "WAIT %u 100", replicas) == replicas, bound_ms);
}
