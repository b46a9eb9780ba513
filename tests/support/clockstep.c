/* SPDX-License-Identifier: MIT */
/* clockstep.c - preloaded into a server: its wall clock is off by what a file says, and may be set anew while it runs.
 *
 * $CLOCKSTEP_FILE begins with a 64-bit number of microseconds, mapped, so that a test steps the clock by writing it.
 * Clocks that do not show the time of day are left alone, as they are where an administrator sets the time.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const _Atomic int64_t *offset_us;

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("CLOCKSTEP_FILE");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof *offset_us, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (at != MAP_FAILED)
        offset_us = at;
    if (fd >= 0)
        (void)close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
    long rc = syscall(SYS_clock_gettime, clock, to);
    int64_t ns;

    if (rc < 0 || offset_us == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return (int)rc;
    ns = to->tv_sec * INT64_C(1000000000) + to->tv_nsec + atomic_load(offset_us) * 1000;
    to->tv_sec = ns / 1000000000;
    to->tv_nsec = ns % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    to->tv_sec = now.tv_sec;
    to->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (to != NULL)
        *to = now.tv_sec;
    return now.tv_sec;
}
