/* SPDX-License-Identifier: MIT */
/* web.c - answers HTTP by libmicrohttpd, a thread for each connection: an answer may wait for a scan.
 *
 * Who says nothing is left after a while, but one byte now and then is something. So where as many are connected as may
 * be, the one whose last request is the longest ago is cut off for the next. */
#include "tools/exporter/web.h"

#include "tools/exporter/exposition.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64
#define PLACES (2 * CONNECTIONS_MAX) /* those that were cut off take a moment to go */
#define SILENCE_S 10                 /* a client that says nothing for so long is left */
#define BACKLOG 64

/* ---- the address ------------------------------------------------------------------------------------------------ */

int web_parse(const char *text, struct web_address *ret, struct usage_error *why)
{
    const char *colon = strrchr(text, ':'), *host = text;
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;
    char shown[TEXT_SAFE_CAP];
    unsigned long port = 0;
    char *end = NULL;

    if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    } else if (memchr(host, ':', len) != NULL) {
        colon = NULL;
    }
    if (colon != NULL && colon[1] >= '0' && colon[1] <= '9')
        port = strtoul(colon + 1, &end, 10);
    if (end == NULL || *end != '\0' || port > 65535 || len >= sizeof ret->host)
        return usage_fail(why, "--listen: '%s' is not [HOST]:PORT (such as :%d, 0.0.0.0:%d, [::1]:%d)",
                          text_safe(text, strlen(text), shown), WEB_PORT, WEB_PORT, WEB_PORT);
    (void)snprintf(ret->host, sizeof ret->host, "%.*s", (int)len, host);
    (void)snprintf(ret->port, sizeof ret->port, "%u", (unsigned)port & 0xffff);
    return 0;
}

/* A descriptor that listens at `where`, or -1 with errno set. */
static int listen_at(const struct addrinfo *where)
{
    int fd = socket(where->ai_family, where->ai_socktype | SOCK_CLOEXEC, where->ai_protocol);
    int on = 1, why;

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, where->ai_addr, where->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    why = errno;
    close(fd);
    errno = why;
    return -1;
}

int web_listen(const struct web_address *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    const char *host = address->host[0] != '\0' ? address->host : "127.0.0.1", *why;
    int rc = getaddrinfo(host, address->port, &hints, &found), fd = -1;
    char shown[TEXT_SAFE_CAP];

    for (struct addrinfo *at = rc == 0 ? found : NULL; at != NULL && fd < 0; at = at->ai_next)
        fd = listen_at(at);
    why = rc == 0 || rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc);
    if (fd < 0)
        text_say("cannot listen on %s port %s: %s", text_safe(host, strlen(host), shown), address->port, why);
    if (rc == 0)
        freeaddrinfo(found);
    return fd;
}

bool web_print_url(FILE *out, int fd)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    char host[128] = "?", port[16] = "?";
    bool braced;

    if (getsockname(fd, (struct sockaddr *)&at, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&at, len, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
    braced = strchr(host, ':') != NULL;
    fprintf(out, "http://%s%s%s:%s/metrics\n", braced ? "[" : "", host, braced ? "]" : "", port);
    return fflush(out) == 0 && !ferror(out);
}

/* ---- who is connected ------------------------------------------------------------------------------------------- */

struct visitor {
    int fd;         /* -1: nobody */
    bool goes;      /* it was cut off */
    uint64_t asked; /* when it has asked last, by the clock of requests and connections; or has come */
};

struct web {
    struct MHD_Daemon *daemon;
    struct gather *gather;
    pthread_mutex_t mu;
    struct visitor visitors[PLACES]; /* these and `clock`: under mu */
    uint64_t clock;
};

static void comes(struct web *w, struct MHD_Connection *connection, void **ret_visitor)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct visitor *place = NULL, *oldest = NULL;
    size_t others = 0;

    pthread_mutex_lock(&w->mu);
    for (struct visitor *v = w->visitors; v < w->visitors + PLACES; v++) {
        if (v->fd < 0)
            place = v;
        if (v->fd < 0 || v->goes)
            continue;
        others++;
        if (oldest == NULL || v->asked < oldest->asked)
            oldest = v;
    }
    if (place != NULL && info != NULL) {
        *place = (struct visitor){.fd = info->connect_fd, .asked = ++w->clock};
        *ret_visitor = place;
        if (others >= CONNECTIONS_MAX) {
            (void)shutdown(oldest->fd, SHUT_RDWR); /* its thread sees that, and closes it */
            oldest->goes = true;
        }
    }
    pthread_mutex_unlock(&w->mu);
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **visitor,
                          enum MHD_ConnectionNotificationCode what)
{
    struct web *w = arg;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        comes(w, connection, visitor);
    } else if (*visitor != NULL) {
        pthread_mutex_lock(&w->mu);
        ((struct visitor *)*visitor)->fd = -1;
        pthread_mutex_unlock(&w->mu);
    }
}

static void asks(struct web *w, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    if (info == NULL || info->socket_context == NULL)
        return;
    pthread_mutex_lock(&w->mu);
    ((struct visitor *)info->socket_context)->asked = ++w->clock;
    pthread_mutex_unlock(&w->mu);
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static enum MHD_Result reply(struct MHD_Connection *to, unsigned status, const char *type,
                             struct MHD_Response *response)
{
    enum MHD_Result done = MHD_NO;

    if (response != NULL && MHD_add_response_header(response, "Content-Type", type) == MHD_YES &&
        (status != MHD_HTTP_METHOD_NOT_ALLOWED || MHD_add_response_header(response, "Allow", "GET, HEAD") == MHD_YES))
        done = MHD_queue_response(to, status, response);
    if (response != NULL)
        MHD_destroy_response(response);
    return done;
}

static enum MHD_Result reply_line(struct MHD_Connection *to, unsigned status, const char *line)
{
    char *bytes = (char *)line; /* it is not written to */

    return reply(to, status, "text/plain; charset=utf-8",
                 MHD_create_response_from_buffer(strlen(line), bytes, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result serve_front(struct MHD_Connection *to, struct gather *g)
{
    (void)g;
    return reply_line(to, MHD_HTTP_OK, "redlatch exporter: the metrics are at /metrics\n");
}

static enum MHD_Result serve_health(struct MHD_Connection *to, struct gather *g)
{
    (void)g;
    return reply_line(to, MHD_HTTP_OK, "healthy\n");
}

static enum MHD_Result serve_metrics(struct MHD_Connection *to, struct gather *g)
{
    size_t len;
    char *text = gather_text(g, &len);

    if (text == NULL)
        return reply_line(to, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
    return reply(to, MHD_HTTP_OK, EXPOSITION_TYPE, MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE));
}

static const struct page {
    const char *path;
    enum MHD_Result (*serve)(struct MHD_Connection *to, struct gather *g);
} pages[] = {
    {"/", serve_front},
    {"/-/healthy", serve_health},
    {"/metrics", serve_metrics},
};

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *body, size_t *body_len, void **state)
{
    bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    struct web *w = arg;

    (void)version;
    (void)body;
    (void)state;
    *body_len = 0; /* nobody wants a body */
    asks(w, connection);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(path, pages[i].path) != 0)
            continue;
        return reads ? pages[i].serve(connection, w->gather)
                     : reply_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered here\n");
    }
    return reply_line(connection, MHD_HTTP_NOT_FOUND, "there is nothing here: the metrics are at /metrics\n");
}

/* ---- its life --------------------------------------------------------------------------------------------------- */

struct web *web_start(int fd, struct gather *g)
{
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL;
    struct web *w = calloc(1, sizeof *w);

    if (w == NULL)
        goto failed;
    w->gather = g;
    (void)pthread_mutex_init(&w->mu, NULL);
    for (size_t i = 0; i < PLACES; i++)
        w->visitors[i].fd = -1;
    w->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, w, MHD_OPTION_LISTEN_SOCKET, fd,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)PLACES, MHD_OPTION_CONNECTION_TIMEOUT,
                                 (unsigned)SILENCE_S, MHD_OPTION_NOTIFY_CONNECTION, on_connection, w, MHD_OPTION_END);
    if (w->daemon != NULL)
        return w;
failed:
    free(w);
    text_say("cannot serve HTTP: %s", strerror(errno != 0 ? errno : ENOMEM));
    return NULL;
}

void web_stop(struct web *w)
{
    gather_hurry(w->gather);
    MHD_stop_daemon(w->daemon);
    free(w);
}
