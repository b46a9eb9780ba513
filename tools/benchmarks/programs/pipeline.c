/* SPDX-License-Identifier: MIT */
/* pipeline.c - the ceiling: what the server can do when one connection never lets it wait.
 *
 * --owners pairs are under way at any time, pair i on lock i modulo --locks. Requests are laid out once, and of the
 * answers only the lines are counted: the client costs next to nothing. */
#include "tools/benchmarks/programs/kind.h"
#include "tools/benchmarks/programs/tally.h"
#include "tools/benchmarks/programs/traffic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

struct pipeline {
    redisContext *c;
    char *requests; /* of all slots, one after another */
    size_t *ends;   /* where those of slot i end */
    int64_t slots;
    int64_t next; /* slot */
    int64_t replies_each;
    int64_t replies; /* of the pair that is being answered */
};

static void append(struct pipeline *p, size_t *len, const struct request *r)
{
    char *command = NULL;
    long long n;

    if (r->argc == 0)
        return;
    n = redisFormatCommandArgv(&command, r->argc, (const char **)r->argv, r->len);
    if (n < 0 || (p->requests = realloc(p->requests, *len + (size_t)n)) == NULL)
        fail("out of memory");
    memcpy(p->requests + *len, command, (size_t)n);
    *len += (size_t)n;
    redisFreeCommand(command);
}

static void lay_out(struct pipeline *p, const struct run *run)
{
    size_t len = 0;

    p->slots = run->owners;
    p->ends = allocate((size_t)p->slots, sizeof *p->ends);
    for (int64_t i = 0; i < p->slots; i++) {
        char *name = format("bench:%lld", (long long)(i % run->locks));
        struct traffic traffic;

        traffic_init(&traffic, run, p->c, run->kind, name);
        append(p, &len, &traffic.take);
        append(p, &len, &traffic.release);
        append(p, &len, &traffic.after);
        p->ends[i] = len;
        p->replies_each = traffic.after.argc > 0 ? 3 : 2;
        free(name);
    }
}

static void send_bytes(const struct pipeline *p, size_t from, size_t to)
{
    while (from < to) {
        ssize_t n = send(p->c->fd, p->requests + from, to - from, MSG_NOSIGNAL);

        if (n < 0)
            fail("send: %s", strerror(errno));
        from += (size_t)n;
    }
}

/* The next `pairs` slots, which are free: round and round. */
static void send_pairs(struct pipeline *p, int64_t pairs)
{
    while (pairs > 0) {
        int64_t left = p->slots - p->next;
        int64_t n = pairs < left ? pairs : left;

        send_bytes(p, p->next == 0 ? 0 : p->ends[p->next - 1], p->ends[p->next + n - 1]);
        p->next = (p->next + n) % p->slots;
        pairs -= n;
    }
}

/* Wait for answers: the number of pairs that they complete. Each answer of these scripts is one line. */
static int64_t read_pairs(struct pipeline *p)
{
    char bytes[16384];
    int64_t pairs = 0;
    ssize_t n = recv(p->c->fd, bytes, sizeof bytes, 0);

    if (n <= 0)
        fail("recv: %s", n == 0 ? "the server closed the connection" : strerror(errno));
    if (bytes[0] == '-')
        fail("%.*s", (int)(n < 200 ? n : 200), bytes);
    for (const char *at = bytes, *end = bytes + n; (at = memchr(at, '\n', (size_t)(end - at))) != NULL;) {
        at++;
        if (at < end && *at == '-')
            fail("%.*s", (int)(end - at < 200 ? end - at : 200), at);
        p->replies++;
        if (p->replies == p->replies_each) {
            p->replies = 0;
            pairs++;
        }
    }
    return pairs;
}

void measure_pipeline(const struct run *run)
{
    const char *plain = kind_of(run)->plain;
    struct pipeline p = {.c = connect_to(run->server)};
    redisContext *second = connect_to(run->server);
    struct tally from = {0};
    struct tally to;
    struct phase phase;
    int64_t pairs = 0;
    int64_t began = 0;
    int64_t now;

    lay_out(&p, run);
    phase = phase_from_now(run);
    send_pairs(&p, p.slots);
    while ((now = now_ns()) < phase.end) {
        int64_t n = read_pairs(&p);

        pairs += n;
        if (began == 0 && now >= phase.start) {
            from = tally_read(second, plain);
            began = now_ns();
            pairs = 0;
        }
        send_pairs(&p, n);
    }
    to = tally_read(second, plain);
    for (int64_t left = p.slots; left > 0;) /* so that every lock is free again */
        left -= read_pairs(&p);
    answer_number("per_second", (double)pairs * (double)SEC / (double)(now - began));
    tally_answer(&from, &to, (double)pairs);
    answer_end();
    redisFree(second);
    redisFree(p.c);
    free(p.requests);
    free(p.ends);
}
