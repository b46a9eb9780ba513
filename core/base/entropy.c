/* SPDX-License-Identifier: MIT */
/* entropy.c - randomness from the kernel. */
#include "core/base/entropy.h"

#include <errno.h>
#include <fcntl.h>
#include <redlatch/error.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

/* For kernels and sandboxes without getrandom. */
static int from_device(unsigned char *to, size_t len)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return RDL_ENOMEM;
    while (len > 0) {
        ssize_t got = read(fd, to, len);

        if (got > 0) {
            to += got;
            len -= (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            break;
        }
    }
    (void)close(fd);
    return len == 0 ? RDL_OK : RDL_ENOMEM;
}

int rdl__entropy(void *to, size_t len)
{
    unsigned char *at = to;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);

        if (got > 0) {
            at += got;
            len -= (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            return from_device(at, len);
        }
    }
    return RDL_OK;
}
