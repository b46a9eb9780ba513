/* SPDX-License-Identifier: MIT */
#include "tests/support/scripted.h"

#include "tests/support/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 64 };

struct scripted {
    scripted_answer *answer;
    void *arg;
    pthread_t thread;
    int port;
    int stop[2];                            /* its reading end is readable when it is time */
    struct pollfd fds[2 + CONNECTIONS_MAX]; /* the listener, stop[0], and one a connection */
    struct bytes in[2 + CONNECTIONS_MAX];
    nfds_t count;
};

static void admit(struct scripted *s)
{
    int fd = accept4(s->fds[0].fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    if (s->count == 2 + CONNECTIONS_MAX) {
        (void)close(fd);
        return;
    }
    s->fds[s->count] = (struct pollfd){.fd = fd, .events = POLLIN};
    s->in[s->count++] = (struct bytes){0};
}

static void dismiss(struct scripted *s, nfds_t i)
{
    (void)close(s->fds[i].fd);
    bytes_done(&s->in[i]);
    s->count--;
    s->fds[i] = s->fds[s->count];
    s->in[i] = s->in[s->count];
}

static bool send_all(int fd, const struct bytes *out)
{
    for (size_t sent = 0; sent < out->len;) {
        ssize_t n = send(fd, out->at + sent, out->len - sent, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        sent += (size_t)n;
    }
    return true;
}

/* False: the connection is over. */
static bool serve(struct scripted *s, nfds_t i)
{
    struct bytes *in = &s->in[i], out = {0};
    char bytes[65536];
    ssize_t n = recv(s->fds[i].fd, bytes, sizeof bytes, 0), frame;
    bool sent;

    if (n <= 0)
        return false;
    bytes_add(in, bytes, (size_t)n);
    while ((frame = resp_frame(in->at, in->len)) > 0) {
        s->answer(s->arg, in->at, (size_t)frame, &out);
        bytes_drop(in, (size_t)frame);
    }
    sent = send_all(s->fds[i].fd, &out);
    bytes_done(&out);
    return frame == 0 && sent;
}

static void *serve_all(void *arg)
{
    struct scripted *s = arg;

    for (;;) {
        if (poll(s->fds, s->count, -1) < 0 && errno != EINTR)
            die("poll: %s", strerror(errno));
        if (s->fds[1].revents != 0)
            return NULL;
        for (nfds_t i = s->count; i-- > 2;)
            if (s->fds[i].revents != 0 && !serve(s, i))
                dismiss(s, i);
        if (s->fds[0].revents != 0)
            admit(s);
    }
}

struct scripted *scripted_start(scripted_answer *answer, void *arg)
{
    struct scripted *s = must_alloc(sizeof *s);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    s->answer = answer;
    s->arg = arg;
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, CONNECTIONS_MAX) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0 || pipe(s->stop) < 0)
        die("cannot listen: %s", strerror(errno));
    s->port = ntohs(at.sin_port);
    s->fds[0] = (struct pollfd){.fd = fd, .events = POLLIN};
    s->fds[1] = (struct pollfd){.fd = s->stop[0], .events = POLLIN};
    s->count = 2;
    if (pthread_create(&s->thread, NULL, serve_all, s) != 0)
        die("cannot start a thread");
    return s;
}

void scripted_stop(struct scripted *s)
{
    (void)close(s->stop[1]);
    (void)pthread_join(s->thread, NULL);
    while (s->count > 2)
        dismiss(s, 2);
    (void)close(s->stop[0]);
    (void)close(s->fds[0].fd);
    free(s);
}

int scripted_port(const struct scripted *s)
{
    return s->port;
}

void scripted_say(struct bytes *to, const char *text)
{
    bytes_add(to, text, strlen(text));
}

bool scripted_is(const char *request, size_t len, const char *word)
{
    size_t n;
    const char *at = resp_word(request, len, 0, &n);

    return at != NULL && n == strlen(word) && strncasecmp(at, word, n) == 0;
}
