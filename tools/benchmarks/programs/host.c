/* SPDX-License-Identifier: MIT */
/* host.c - locks among the processes of one host, without a server: what a lock shared by a host could cost at best.
 *
 *   host-flock   flock(2) on a file
 *   host-futex   a ticket lock in shared memory: each waiter sleeps on a word of its own, and is handed the lock
 *   host-agent   an agent behind a unix socket, which grants in the order of asking, a byte each way
 *
 * None of them sees to a holder that dies, as a lock would have to: they are bounds. The parties of a measurement are
 * the children of one process, and meet at what bears its number. */
#include "tools/benchmarks/programs/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { PARTIES = 64, PATH_SIZE = sizeof((struct sockaddr_un *)0)->sun_path };

struct place {
    char path[PATH_SIZE];
    int fd;
};

static void *start(const struct run *run, const char *server)
{
    struct place *place = allocate(1, sizeof *place);

    (void)server;
    (void)snprintf(place->path, sizeof place->path, "/tmp/redlatch-%s-%ld", run->kind, (long)getppid());
    return place;
}

static void stop(void *common)
{
    struct place *place = common;

    (void)unlink(place->path);
    free(place);
}

static int opened(const struct place *place)
{
    int fd = open(place->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        fail("%s: %s", place->path, strerror(errno));
    return fd;
}

/* ---- flock ------------------------------------------------------------------------------------------------------ */

/* The file is removed by the first who is done; it is the same one for all who have it open by then. */
static void *flock_join(void *common, const char *lock)
{
    struct place *place = common;

    (void)lock;
    place->fd = opened(place);
    return place;
}

static void part(void *party)
{
    (void)close(((struct place *)party)->fd);
}

static void flock_take(void *party)
{
    if (flock(((struct place *)party)->fd, LOCK_EX) < 0)
        fail("flock: %s", strerror(errno));
}

static void flock_release(void *party)
{
    if (flock(((struct place *)party)->fd, LOCK_UN) < 0)
        fail("flock: %s", strerror(errno));
}

const struct kind_ops flock_ops = {
    .start = start, .stop = stop, .join = flock_join, .part = part, .take = flock_take, .release = flock_release};

/* ---- futex ------------------------------------------------------------------------------------------------------ */

/* In shared memory. Ticket t sleeps on served[t % PARTIES], which holds the last ticket served there, and one. */
struct tickets {
    _Atomic uint32_t next;
    _Atomic uint32_t sleeps[PARTIES];
    _Atomic uint32_t served[PARTIES];
};

struct holder {
    struct tickets *tickets;
    uint32_t mine;
};

static void *futex_join(void *common, const char *lock)
{
    struct holder *holder = allocate(1, sizeof *holder);
    int fd = opened(common);

    (void)lock;
    if (ftruncate(fd, sizeof *holder->tickets) < 0 ||
        (holder->tickets = mmap(NULL, sizeof *holder->tickets, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
            MAP_FAILED)
        fail("mmap: %s", strerror(errno));
    (void)close(fd);
    return holder;
}

static void futex_part(void *party)
{
    struct holder *holder = party;

    (void)munmap(holder->tickets, sizeof *holder->tickets);
    free(holder);
}

/* Ticket 0 is served from the start. */
static void futex_take(void *party)
{
    struct holder *holder = party;
    uint32_t seen, slot;

    holder->mine = atomic_fetch_add(&holder->tickets->next, 1);
    slot = holder->mine % PARTIES;
    while (holder->mine != 0 && (seen = atomic_load(&holder->tickets->served[slot])) != holder->mine) {
        atomic_store(&holder->tickets->sleeps[slot], 1);
        (void)syscall(SYS_futex, &holder->tickets->served[slot], FUTEX_WAIT, seen, NULL, NULL, 0);
    }
}

static void futex_release(void *party)
{
    struct holder *holder = party;
    uint32_t next = holder->mine + 1, slot = next % PARTIES;

    atomic_store(&holder->tickets->served[slot], next);
    if (atomic_exchange(&holder->tickets->sleeps[slot], 0) != 0)
        (void)syscall(SYS_futex, &holder->tickets->served[slot], FUTEX_WAKE, 1, NULL, NULL, 0);
}

const struct kind_ops futex_ops = {
    .start = start, .stop = stop, .join = futex_join, .part = futex_part, .take = futex_take, .release = futex_release};

/* ---- an agent --------------------------------------------------------------------------------------------------- */

/* Those who have asked, in their order; the first has the lock. Ends when the last connection is closed. */
static void serve(int listener)
{
    struct pollfd fds[PARTIES + 1] = {{.fd = listener, .events = POLLIN}};
    int asked[PARTIES], first = 0, asking = 0;
    nfds_t n = 1, gone = 0;

    while ((n == 1 || gone < n - 1) && poll(fds, n, -1) > 0) {
        nfds_t known = n;

        if ((fds[0].revents & POLLIN) != 0 && n <= PARTIES)
            fds[n++] = (struct pollfd){.fd = accept(fds[0].fd, NULL, NULL), .events = POLLIN};
        for (nfds_t i = 1; i < known; i++) {
            char word;

            if (fds[i].revents == 0)
                continue;
            if (read(fds[i].fd, &word, 1) != 1) {
                (void)close(fds[i].fd);
                fds[i].fd = -1;
                gone++;
                continue;
            }
            if (word == 'a') {
                asked[(first + asking++) % PARTIES] = fds[i].fd;
            } else {
                first = (first + 1) % PARTIES;
                asking--;
            }
            if (asking > 0 && (word != 'a' || asking == 1))
                (void)!write(asked[first], "g", 1);
        }
    }
}

/* Whoever can bind the address starts the agent. */
static void *agent_join(void *common, const char *lock)
{
    struct place *place = common;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)lock;
    memcpy(at.sun_path, place->path, sizeof at.sun_path);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) == 0) {
        if (listen(listener, PARTIES) < 0)
            fail("listen: %s", strerror(errno));
        if (fork() == 0) {
            serve(listener);
            _exit(0);
        }
    }
    (void)close(listener);
    place->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    while (connect(place->fd, (struct sockaddr *)&at, sizeof at) < 0) /* bound, and not listening yet */
        pause_ns(MS);
    return place;
}

static void agent_take(void *party)
{
    const struct place *place = party;
    char word;

    if (write(place->fd, "a", 1) != 1 || read(place->fd, &word, 1) != 1)
        fail("the agent: %s", strerror(errno));
}

static void agent_release(void *party)
{
    if (write(((struct place *)party)->fd, "r", 1) != 1)
        fail("the agent: %s", strerror(errno));
}

const struct kind_ops agent_ops = {
    .start = start, .stop = stop, .join = agent_join, .part = part, .take = agent_take, .release = agent_release};
