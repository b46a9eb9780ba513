/* SPDX-License-Identifier: MIT */
/* resolve.c - getaddrinfo on a few threads.
 *
 * getaddrinfo can be neither bounded nor interrupted, while attempts to connect are repeated. So a client has THREADS
 * at most, one thread at a time looks a name up, and its answer goes to all look-ups of that name that wait by then. A
 * thread knows the name but not the look-ups: these, and the client, may be gone when it has the answer. So the struct
 * that they share is memory of the C library, freed with the last reference.
 */
#include "core/io/resolve.h"

#include "core/base/sync.h"

#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#define THREADS 8 /* of a client: so many names less one may be slow without delaying others */

struct name {
    char host[256]; /* "": none */
    char port[8];
};

struct worker {
    struct rdl__resolver *resolver;
    struct name name; /* the name that it looks up; none: the thread has ended */
};

struct rdl__resolver {
    struct rdl__loop *loop; /* immutable; valid while look-ups wait */
    struct rdl__mutex mu;
    /* under mu */
    unsigned refs; /* the client's, and one for each thread */
    struct rdl__link waiting;
    struct worker workers[THREADS];
};

struct rdl__resolve {
    struct rdl__resolver *resolver;
    struct rdl__link link; /* on resolver->waiting */
    struct rdl__task task; /* brings the answer to the loop */
    void (*done)(void *arg, const struct rdl__addrs *addrs, const char *why, int64_t now);
    void *arg;
    struct name name;
    struct rdl__addrs addrs;
    int error;
};

static const struct addrinfo *of_family(const struct addrinfo *a, int family, bool that_one)
{
    while (a != NULL && ((a->ai_family == family) != that_one || a->ai_addrlen > sizeof(struct sockaddr_storage)))
        a = a->ai_next;
    return a;
}

/* The preferred family's addresses and others alternate (RFC 8305, 4), so that a family without a route does not use up
 * the room. */
static void collect(const struct addrinfo *list, struct rdl__addrs *ret)
{
    const struct addrinfo *at[] = {of_family(list, list->ai_family, true), of_family(list, list->ai_family, false)};

    ret->count = 0;
    for (int i = 0; ret->count < RDL__ADDRS_MAX && (at[0] != NULL || at[1] != NULL); i = 1 - i) {
        struct rdl__addr *to = &ret->addr[ret->count];

        if (at[i] == NULL)
            continue;
        *to = (struct rdl__addr){.len = at[i]->ai_addrlen};
        memcpy(&to->sa, at[i]->ai_addr, at[i]->ai_addrlen);
        ret->count++;
        at[i] = of_family(at[i]->ai_next, list->ai_family, i == 0);
    }
}

static int look_up(const char *host, const char *port, int flags, struct rdl__addrs *ret)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(host, port, &hints, &list);

    if (rc != 0)
        return rc;
    collect(list, ret);
    freeaddrinfo(list);
    return ret->count == 0 ? EAI_NONAME : 0;
}

bool rdl__resolve_numeric(const struct rdl__uri *uri, struct rdl__addrs *ret)
{
    char port[8];

    if (uri->scheme == RDL__SCHEME_UNIX) {
        struct sockaddr_un *un = (struct sockaddr_un *)&ret->addr[0].sa;

        ret->addr[0] = (struct rdl__addr){.len = sizeof *un};
        un->sun_family = AF_UNIX;
        (void)snprintf(un->sun_path, sizeof un->sun_path, "%s", uri->host);
        ret->count = 1;
        return true;
    }
    (void)snprintf(port, sizeof port, "%d", uri->port);
    if (strcasecmp(uri->host, "localhost") == 0) { /* localhost is always this machine (RFC 6761, 6.3) */
        struct rdl__addrs v6;

        if (look_up("127.0.0.1", port, AI_NUMERICHOST, ret) != 0)
            return false;
        if (look_up("::1", port, AI_NUMERICHOST, &v6) == 0)
            ret->addr[ret->count++] = v6.addr[0];
        return true;
    }
    return look_up(uri->host, port, AI_NUMERICHOST, ret) == 0;
}

static bool same_addr(const struct rdl__addr *a, const struct rdl__addr *b)
{
    return a->len == b->len && memcmp(&a->sa, &b->sa, a->len) == 0;
}

void rdl__addrs_begin_with(struct rdl__addrs *addrs, const struct rdl__addr *first)
{
    struct rdl__addrs old = *addrs;
    unsigned at = 0;

    while (at < old.count && !same_addr(&old.addr[at], first))
        at++;
    for (unsigned i = 0; at < old.count && i < old.count; i++)
        addrs->addr[i] = old.addr[(at + i) % old.count];
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

static bool same_name(const struct name *a, const struct name *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0;
}

/* @locks mu */
static bool is_busy(const struct worker *worker)
{
    rdl__assert_locked(&worker->resolver->mu);
    return worker->name.host[0] != '\0';
}

/* @locks mu */
static bool looked_up(const struct rdl__resolver *resolver, const struct name *name)
{
    rdl__assert_locked(&resolver->mu);
    for (unsigned i = 0; i < THREADS; i++)
        if (is_busy(&resolver->workers[i]) && same_name(&resolver->workers[i].name, name))
            return true;
    return false;
}

/* Drop a reference.  @locks mu */
static void let_go_and_unlock(struct rdl__resolver *resolver)
{
    bool last = --resolver->refs == 0;

    rdl__assert_locked(&resolver->mu);
    rdl__mutex_unlock(&resolver->mu);
    if (!last)
        return;
    rdl__mutex_done(&resolver->mu);
    free(resolver);
}

/* @locks mu */
static void answer_all(struct rdl__resolver *resolver, const struct name *name, const struct rdl__addrs *addrs,
                       int error)
{
    struct rdl__link *next;

    rdl__assert_locked(&resolver->mu);
    for (struct rdl__link *l = resolver->waiting.next; l != &resolver->waiting; l = next) {
        struct rdl__resolve *r = rdl__container(l, struct rdl__resolve, link);

        next = l->next;
        if (!same_name(&r->name, name))
            continue;
        rdl__list_remove(l);
        r->addrs = *addrs;
        r->error = error;
        rdl__loop_post(resolver->loop, &r->task);
    }
}

/* The first name that waits and that no thread is looking up. False: there is none.  @locks mu */
static bool take_name(struct worker *worker)
{
    rdl__assert_locked(&worker->resolver->mu);
    worker->name.host[0] = '\0';
    for (struct rdl__link *l = worker->resolver->waiting.next; l != &worker->resolver->waiting; l = l->next) {
        const struct rdl__resolve *r = rdl__container(l, struct rdl__resolve, link);

        if (!looked_up(worker->resolver, &r->name)) {
            worker->name = r->name;
            return true;
        }
    }
    return false;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct rdl__resolver *resolver = worker->resolver;
    bool more;

    do {
        struct rdl__addrs addrs = {.count = 0};
        int error =
            look_up(worker->name.host, worker->name.port, AI_ADDRCONFIG, &addrs); /* nobody else writes the name */

        rdl__mutex_lock(&resolver->mu);
        answer_all(resolver, &worker->name, &addrs, error);
        more = take_name(worker);
        if (more)
            rdl__mutex_unlock(&resolver->mu);
    } while (more);
    let_go_and_unlock(resolver);
    return NULL;
}

static int start_thread(struct worker *worker)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int rc = pthread_attr_init(&attr);

    if (rc != 0)
        return rc;
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, &attr, work, worker);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return rc;
}

/* Is a thread looking the name up, or will one? Starts one if need be. False: no, as none can be started.  @locks mu */
static bool ensure_worker(struct rdl__resolver *resolver, const struct name *name)
{
    struct worker *idle = NULL;

    rdl__assert_locked(&resolver->mu);
    if (looked_up(resolver, name))
        return true;
    for (unsigned i = 0; i < THREADS; i++)
        if (!is_busy(&resolver->workers[i]))
            idle = &resolver->workers[i];
    if (idle == NULL)
        return true;
    idle->name = *name;
    resolver->refs++;
    if (start_thread(idle) == 0)
        return true;
    resolver->refs--;
    idle->name.host[0] = '\0';
    return false;
}

/* ---- resolve.h -------------------------------------------------------------------------------------------------- */

struct rdl__resolver *rdl__resolver_new(struct rdl__loop *loop)
{
    struct rdl__resolver *resolver = calloc(1, sizeof *resolver);

    if (resolver == NULL)
        return NULL;
    if (rdl__mutex_init(&resolver->mu) < 0) {
        free(resolver);
        return NULL;
    }
    resolver->loop = loop;
    resolver->refs = 1;
    rdl__list_init(&resolver->waiting);
    for (unsigned i = 0; i < THREADS; i++)
        resolver->workers[i].resolver = resolver;
    return resolver;
}

struct rdl__resolver *rdl__resolver_free(struct rdl__resolver *resolver)
{
    if (resolver != NULL) {
        rdl__mutex_lock(&resolver->mu);
        let_go_and_unlock(resolver);
    }
    return NULL;
}

static void answer(struct rdl__task *task, int64_t now)
{
    struct rdl__resolve *r = rdl__container(task, struct rdl__resolve, task);

    if (r->error != 0)
        r->done(r->arg, NULL, gai_strerror(r->error), now);
    else
        r->done(r->arg, &r->addrs, NULL, now);
}

struct rdl__resolve *rdl__resolve_start(struct rdl__resolver *resolver, const struct rdl__uri *uri,
                                        void (*done)(void *, const struct rdl__addrs *, const char *, int64_t),
                                        void *arg)
{
    struct rdl__resolve *r = calloc(1, sizeof *r);
    bool hopeless;

    rdl__assert_on_loop(resolver->loop);
    if (r == NULL)
        return NULL;
    rdl__task_init(&r->task, answer);
    r->resolver = resolver;
    r->done = done;
    r->arg = arg;
    (void)snprintf(r->name.host, sizeof r->name.host, "%s", uri->host);
    (void)snprintf(r->name.port, sizeof r->name.port, "%d", uri->port);
    rdl__mutex_lock(&resolver->mu);
    hopeless = !ensure_worker(resolver, &r->name);
    if (!hopeless)
        rdl__list_push_back(&resolver->waiting, &r->link);
    rdl__mutex_unlock(&resolver->mu);
    if (!hopeless)
        return r;
    free(r);
    return NULL;
}

struct rdl__resolve *rdl__resolve_drop(struct rdl__resolve *r)
{
    if (r == NULL)
        return NULL;
    rdl__assert_on_loop(r->resolver->loop);
    rdl__mutex_lock(&r->resolver->mu);
    rdl__list_remove(&r->link);
    rdl__mutex_unlock(&r->resolver->mu);
    rdl__loop_unpost(r->resolver->loop, &r->task);
    free(r);
    return NULL;
}
