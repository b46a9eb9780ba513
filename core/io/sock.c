/* SPDX-License-Identifier: MIT */
#include "core/io/sock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <redlatch/error.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

/* A dead peer must show within seconds: keepalive for a silent connection, a bound on unacknowledged data for a busy
 * one. */
static void tune_tcp(int fd)
{
    const int on = 1, idle_s = 15, interval_s = 5, probes = 3;
    const unsigned unacked_ms = 30000;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms, sizeof unacked_ms);
}

int rdl__sock_open(struct rdl__sock *s, const struct rdl__addr *addr)
{
    int fd = socket(addr->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc;

    s->fd = -1;
    if (fd < 0)
        return -errno;
    if (addr->sa.ss_family != AF_UNIX)
        tune_tcp(fd);
    if (connect(fd, (const struct sockaddr *)&addr->sa, addr->len) < 0 && errno != EINPROGRESS && errno != EINTR) {
        rc = -errno;
        (void)close(fd);
        return rc;
    }
    s->fd = fd;
    return RDL_OK;
}

/* From here on the socket blocks, for a slice; what must not block says so in each call. */
static int make_blocking(int fd)
{
    struct timeval slice = {.tv_sec = 0, .tv_usec = RDL__SOCK_SLICE_MS * 1000};
    int no = 0;

    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice) < 0 || ioctl(fd, FIONBIO, &no) < 0)
        return errno;
    return 0;
}

int rdl__sock_error(struct rdl__sock *s)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return errno;
    return error != 0 ? error : make_blocking(s->fd);
}

ssize_t rdl__sock_send(struct rdl__sock *s, const void *bytes, size_t len)
{
    ssize_t n;

    do
        n = send(s->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
}

static ssize_t received(ssize_t n)
{
    if (n > 0)
        return n;
    if (n == 0)
        return -EPIPE;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
}

ssize_t rdl__sock_recv(struct rdl__sock *s, void *to, size_t cap, int64_t now, int64_t until)
{
    int flags = 0;

    if (until <= now) {
        flags = MSG_DONTWAIT;
    } else if (until - now < RDL__SOCK_SLICE_MS * RDL__MS) {
        rdl__sock_wait(s, false, now, until);
        flags = MSG_DONTWAIT;
    }
    return received(recv(s->fd, to, cap, flags));
}

static ssize_t take(void *arg, void *to, size_t cap)
{
    const struct rdl__sock *s = arg;

    return received(recv(s->fd, to, cap, MSG_DONTWAIT));
}

ssize_t rdl__sock_poll(struct rdl__sock *s, void *to, size_t cap, int64_t *now, int64_t for_ns, int64_t *ret_idle)
{
    return rdl__sock_poll_with(take, s, to, cap, now, for_ns, ret_idle);
}

static int wait_for(struct pollfd *fds, unsigned n, int64_t left)
{
    struct timespec t;

    if (left > RDL__SOCK_SLICE_MS * RDL__MS)
        left = RDL__SOCK_SLICE_MS * RDL__MS;
    if (left < 0)
        left = 0;
    t.tv_sec = left / RDL__SEC;
    t.tv_nsec = left % RDL__SEC;
    return ppoll(fds, n, &t, NULL);
}

static struct pollfd fd_of(const struct rdl__sock *s, bool writable)
{
    return (struct pollfd){.fd = s->fd, .events = (short)(POLLIN | (writable ? POLLOUT : 0))};
}

void rdl__sock_wait(struct rdl__sock *s, bool writable, int64_t now, int64_t until)
{
    struct pollfd fd = fd_of(s, writable);

    (void)wait_for(&fd, 1, until - now);
}

void rdl__sock_wait_any(struct rdl__sock_wait *waits, unsigned n, int64_t now, int64_t until)
{
    struct pollfd fds[RDL__SOCK_WAITS];
    bool any;

    for (unsigned i = 0; i < n; i++)
        fds[i] = fd_of(waits[i].sock, waits[i].writable);
    any = wait_for(fds, n, until - now) > 0;
    for (unsigned i = 0; i < n; i++)
        waits[i].ready = any && fds[i].revents != 0;
}

void rdl__sock_shutdown(struct rdl__sock *s)
{
    if (s->fd >= 0)
        (void)shutdown(s->fd, SHUT_RDWR);
}

void rdl__sock_close(struct rdl__sock *s)
{
    if (s->fd >= 0)
        (void)close(s->fd);
    s->fd = -1;
}
