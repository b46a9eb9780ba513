/* SPDX-License-Identifier: MIT */
/* race_sync.c - parkers under many threads: no post is lost, and a parker's memory may be reused at once.
 *
 * A plain program, to be run under ThreadSanitizer as well. Every wait has a bound: a lost wake shows as a park that
 * ends at its deadline. Ends with a line that counts. */
#include "core/base/clock.h"
#include "core/base/entropy.h"
#include "core/base/sync.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAIRS = 3, ROUNDS = 20000, POSTERS = 4 };

#define BOUND (30 * RDL__SEC)

static int passed, failed;

static void check(bool ok, const char *claim)
{
    if (ok)
        passed++;
    else
        failed++;
    printf("%s: %s\n", ok ? "ok" : "FAILED", claim);
}

static void start(pthread_t *thread, void *(*main)(void *), void *arg)
{
    if (pthread_create(thread, NULL, main, arg) != 0) {
        fputs("no thread to be had\n", stderr);
        exit(1);
    }
}

/* ---- two threads that wake each other in turn ------------------------------------------------------------------- */

struct pair {
    struct rdl__parker ping, pong;
    int64_t data; /* guarded by whose turn it is */
    int rounds[2];
};

static bool await(struct rdl__parker *p)
{
    if (rdl__park(p, rdl__now() + BOUND) != 1)
        return false;
    rdl__parker_unmark(p, 1);
    return true;
}

static void *ping_main(void *arg)
{
    struct pair *p = arg;

    while (p->rounds[0] < ROUNDS) {
        p->data++;
        rdl__parker_post(&p->ping, 1);
        if (!await(&p->pong))
            break;
        p->rounds[0]++;
    }
    return NULL;
}

static void *pong_main(void *arg)
{
    struct pair *p = arg;

    while (p->rounds[1] < ROUNDS && await(&p->ping)) {
        p->data++;
        p->rounds[1]++;
        rdl__parker_post(&p->pong, 1);
    }
    return NULL;
}

static void ping_pong(void)
{
    static struct pair pairs[PAIRS];
    pthread_t threads[2 * PAIRS];
    bool whole = true;

    for (int i = 0; i < PAIRS; i++) {
        rdl__parker_init(&pairs[i].ping);
        rdl__parker_init(&pairs[i].pong);
        start(&threads[2 * i], ping_main, &pairs[i]);
        start(&threads[2 * i + 1], pong_main, &pairs[i]);
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < PAIRS; i++)
        whole = whole && pairs[i].rounds[0] == ROUNDS && pairs[i].rounds[1] == ROUNDS && pairs[i].data == 2 * ROUNDS;
    check(whole, "threads that wake each other in turn lose no wake, and see each other's writes");
}

/* ---- many posters, one sleeper ---------------------------------------------------------------------------------- */

enum { POSTS = ROUNDS / POSTERS };

struct poster {
    struct rdl__parker *sleeper;
    uint32_t bit;
    struct rdl__parker answered;
    int posted;
    int seen; /* the sleeper's */
};

static void *poster_main(void *arg)
{
    struct poster *me = arg;

    while (me->posted < POSTS) {
        rdl__parker_post(me->sleeper, me->bit);
        if (!await(&me->answered))
            break;
        me->posted++;
    }
    return NULL;
}

/* Any one of those that have something to post yet; 0 when there is none. */
static uint32_t draw_bit(const struct poster *posters, struct rdl__rand *rand)
{
    uint64_t first = rdl__rand_below(rand, POSTERS);

    for (uint64_t i = 0; i < POSTERS; i++) {
        const struct poster *p = &posters[(first + i) % POSTERS];

        if (p->seen < POSTS)
            return p->bit;
    }
    return 0;
}

static void answer(struct poster *posters, int count, uint32_t bits)
{
    for (int i = 0; i < count; i++) {
        if ((bits & posters[i].bit) != 0) {
            posters[i].seen++;
            rdl__parker_post(&posters[i].answered, 1);
        }
    }
}

static void crowd(void)
{
    static struct poster posters[POSTERS];
    static struct rdl__parker sleeper;
    struct rdl__rand rand = {.state = 1};
    pthread_t threads[POSTERS];
    uint32_t bit;
    bool whole = true;

    rdl__parker_init(&sleeper);
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){.sleeper = &sleeper, .bit = UINT32_C(1) << i};
        rdl__parker_init(&posters[i].answered);
        start(&threads[i], poster_main, &posters[i]);
    }
    while (whole && (bit = draw_bit(posters, &rand)) != 0) {
        uint32_t got = rdl__park_for(&sleeper, bit, rdl__now() + BOUND);

        whole = (got & bit) != 0;
        rdl__parker_unmark(&sleeper, got);
        answer(posters, POSTERS, got);
    }
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(threads[i], NULL);
        whole = whole && posters[i].posted == POSTS;
    }
    check(whole, "many posters reach one sleeper, whichever of them it sleeps for");
}

/* ---- a server of short-lived parkers ---------------------------------------------------------------------------- */

struct mailbox {
    _Atomic(struct rdl__parker *) request;
    struct rdl__parker bell;
    int served;
};

static void *server_main(void *arg)
{
    struct mailbox *box = arg;

    while (box->served < ROUNDS && await(&box->bell)) {
        rdl__parker_post(atomic_exchange(&box->request, NULL), 1);
        box->served++;
    }
    return NULL;
}

static void reuse(void)
{
    static struct mailbox box;
    pthread_t server;
    int answered = 0;
    bool whole = true;

    rdl__parker_init(&box.bell);
    start(&server, server_main, &box);
    while (whole && answered < ROUNDS) {
        struct rdl__parker *p = malloc(sizeof *p);

        if (p == NULL)
            break;
        rdl__parker_init(p);
        atomic_store(&box.request, p);
        rdl__parker_post(&box.bell, 1);
        whole = await(p);
        answered += whole ? 1 : 0;
        if (whole) /* else the server may still write to it */
            free(p);
    }
    pthread_join(server, NULL);
    check(answered == ROUNDS, "a parker may be freed as soon as its owner has been woken");
}

/* ---- deadlines that pass while a post arrives ------------------------------------------------------------------- */

static void deadlines(void)
{
    static struct rdl__parker sleeper;
    static struct poster poster;
    struct rdl__rand rand = {.state = 2};
    pthread_t thread;
    int64_t end = rdl__now() + BOUND;
    int timeouts = 0;
    bool whole = true;

    rdl__parker_init(&sleeper);
    poster = (struct poster){.sleeper = &sleeper, .bit = 1};
    rdl__parker_init(&poster.answered);
    start(&thread, poster_main, &poster);
    while (poster.seen < POSTS && (whole = rdl__now() < end)) {
        int64_t deadline = rdl__now() + (int64_t)rdl__rand_below(&rand, 10 * RDL__US);
        uint32_t got = rdl__park(&sleeper, deadline);

        whole = whole && (got != 0 || rdl__now() >= deadline);
        timeouts += got == 0 ? 1 : 0;
        rdl__parker_unmark(&sleeper, got);
        answer(&poster, 1, got);
    }
    pthread_join(thread, NULL);
    printf("# %d time-outs\n", timeouts);
    check(whole && poster.posted == POSTS, "a post that meets a deadline is found at the next look");
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    ping_pong();
    crowd();
    reuse();
    deadlines();
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
