/* resolve.c - getaddrinfo on a thread.
 *
 * getaddrinfo cannot be bounded or interrupted, so the thread may outlive the connection that asked, and the client. The job
 * is shared by both sides and freed by whoever lets go last; it uses the C library's memory because the client's may be gone
 * by then.
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

struct rdl__resolve {
    struct rdl__task task; /* the answer, on its way to the loop */
    struct rdl__mutex mu;
    struct rdl__loop *loop; /* NULL: nobody waits any more */
    int refs;
    void (*done)(void *arg, const struct rdl__addrs *addrs, const char *why, int64_t now);
    void *arg;
    char host[256];
    char port[8];
    struct rdl__addrs addrs;
    int error;
};

static void collect(const struct addrinfo *list, struct rdl__addrs *ret)
{
    ret->count = 0;
    for (const struct addrinfo *a = list; a != NULL && ret->count < RDL__ADDRS_MAX; a = a->ai_next) {
        struct rdl__addr *to = &ret->addr[ret->count];

        if (a->ai_addrlen > sizeof to->sa)
            continue;
        memcpy(&to->sa, a->ai_addr, a->ai_addrlen);
        to->len = a->ai_addrlen;
        ret->count++;
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

        memset(un, 0, sizeof *un);
        un->sun_family = AF_UNIX;
        (void)snprintf(un->sun_path, sizeof un->sun_path, "%s", uri->host);
        ret->addr[0].len = sizeof *un;
        ret->count = 1;
        return true;
    }
    (void)snprintf(port, sizeof port, "%d", uri->port);
    if (strcasecmp(uri->host, "localhost") == 0) { /* always this machine (RFC 6761, 6.3), whatever a resolver would say */
        struct rdl__addrs v6;

        if (look_up("127.0.0.1", port, AI_NUMERICHOST, ret) != 0)
            return false;
        if (look_up("::1", port, AI_NUMERICHOST, &v6) == 0)
            ret->addr[ret->count++] = v6.addr[0];
        return true;
    }
    return look_up(uri->host, port, AI_NUMERICHOST, ret) == 0;
}

static void let_go(struct rdl__resolve *r)
{
    bool last;

    rdl__mutex_lock(&r->mu);
    last = --r->refs == 0;
    rdl__mutex_unlock(&r->mu);
    if (!last)
        return;
    rdl__mutex_done(&r->mu);
    free(r);
}

static void *resolve_main(void *arg)
{
    struct rdl__resolve *r = arg;
    int error = look_up(r->host, r->port, AI_ADDRCONFIG, &r->addrs);

    rdl__mutex_lock(&r->mu);
    r->error = error;
    if (r->loop != NULL)
        rdl__loop_post(r->loop, &r->task);
    rdl__mutex_unlock(&r->mu);
    let_go(r);
    return NULL;
}

static void answer(struct rdl__task *task, int64_t now)
{
    struct rdl__resolve *r = rdl__container(task, struct rdl__resolve, task);
    void *arg = r->arg;

    rdl__mutex_lock(&r->mu); /* the thread wrote the answer under it */
    rdl__mutex_unlock(&r->mu);
    if (r->error != 0)
        r->done(arg, NULL, gai_strerror(r->error), now);
    else
        r->done(arg, &r->addrs, NULL, now);
}

static int start_thread(struct rdl__resolve *r)
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
    rc = pthread_create(&thread, &attr, resolve_main, r);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return rc;
}

struct rdl__resolve *rdl__resolve_start(struct rdl__loop *loop, const struct rdl__uri *uri,
                                        void (*done)(void *, const struct rdl__addrs *, const char *, int64_t), void *arg)
{
    struct rdl__resolve *r = calloc(1, sizeof *r);

    if (r == NULL)
        return NULL;
    if (rdl__mutex_init(&r->mu) < 0) {
        free(r);
        return NULL;
    }
    rdl__task_init(&r->task, answer);
    r->loop = loop;
    r->refs = 2;
    r->done = done;
    r->arg = arg;
    (void)snprintf(r->host, sizeof r->host, "%s", uri->host);
    (void)snprintf(r->port, sizeof r->port, "%d", uri->port);
    if (start_thread(r) != 0) {
        r->refs = 1;
        let_go(r);
        return NULL;
    }
    return r;
}

struct rdl__resolve *rdl__resolve_drop(struct rdl__resolve *r)
{
    struct rdl__loop *loop;

    if (r == NULL)
        return NULL;
    rdl__mutex_lock(&r->mu);
    loop = r->loop;
    r->loop = NULL;
    rdl__mutex_unlock(&r->mu);
    if (loop != NULL)
        rdl__loop_unpost(loop, &r->task);
    let_go(r);
    return NULL;
}
