/* SPDX-License-Identifier: MIT */
/* sock.h - one stream socket: connecting without waiting, sending without waiting, receiving with a bound.
 *
 * Receiving blocks in one system call (the socket has a receive timeout), because a lock should cost a send and a
 * receive. Seam: the simulator links a sock.c of its own.
 */
#ifndef REDLATCH_IO_SOCK_H
#define REDLATCH_IO_SOCK_H

#include "core/base/clock.h"
#include "core/wire/uri.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#define RDL__SOCK_LONGEST_POLL                                                                                         \
    (15 * RDL__US) /* a receive that takes longer was interrupted: another thread ran on this core */
#define RDL__SOCK_SLICE_MS                                                                                             \
    250 /* a blocked receive returns at least that often, so that its caller can check for cancellation */

struct rdl__addr {
    struct sockaddr_storage sa;
    socklen_t len;
};

struct rdl__sock {
    int fd; /* -1: none */
};

/* Begin to connect. RDL_OK (connected or under way: wait until writable, then ask rdl__sock_error), or -errno. */
int rdl__sock_open(struct rdl__sock *s, const struct rdl__addr *addr);
int rdl__sock_error(struct rdl__sock *s); /* 0: connected; else an errno */

/* Bytes taken, 0 when the socket is full, or -errno. Never blocks, never signals.  @thread any one at a time */
ssize_t rdl__sock_send(struct rdl__sock *s, const void *bytes, size_t len);

/* Bytes received; 0 when `until` or a slice of RDL__SOCK_SLICE_MS has passed; -errno, -EPIPE at the end of the stream.
 * until <= now: never blocks.  @thread any one at a time */
ssize_t rdl__sock_recv(struct rdl__sock *s, void *to, size_t cap, int64_t now, int64_t until);

/* rdl__sock_poll over any receive that does not block: `take` returns as rdl__sock_recv. Inline, so that a known `take`
 * is called directly. */
static inline ssize_t rdl__sock_poll_with(ssize_t (*take)(void *arg, void *to, size_t cap), void *arg, void *to,
                                          size_t cap, int64_t *now, int64_t for_ns, int64_t *ret_idle)
{
    const int64_t end = *now + for_ns;
    ssize_t n;

    *ret_idle = 0;
    do {
        int64_t before = *now;

        n = take(arg, to, cap);
        *now = rdl__now();
        if (*now - before > RDL__SOCK_LONGEST_POLL)
            *ret_idle += *now - before;
    } while (n == 0 && *now < end);
    return n;
}

/* Receive without sleeping: poll for up to for_ns after *now, which is set to the present. *ret_idle is how long the
 * thread did not run meanwhile, because another one had its core.  @thread any one at a time */
ssize_t rdl__sock_poll(struct rdl__sock *s, void *to, size_t cap, int64_t *now, int64_t for_ns, int64_t *ret_idle);

/* Wait until the socket can be read, or written if `writable`, at most to `until` or a slice. */
void rdl__sock_wait(struct rdl__sock *s, bool writable, int64_t now, int64_t until);

/* The same for several, until one of them can be. */
#define RDL__SOCK_WAITS 16
struct rdl__sock_wait {
    const struct rdl__sock *sock;
    bool writable; /* wait for room, too */
    bool ready;    /* set: it may be read */
};
void rdl__sock_wait_any(struct rdl__sock_wait *waits, unsigned n, int64_t now,
                        int64_t until); /* n <= RDL__SOCK_WAITS */

void rdl__sock_shutdown(struct rdl__sock *s); /* threads that block in it return */
void rdl__sock_close(struct rdl__sock *s);    /* also of one that is closed */

#endif
