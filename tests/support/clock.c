/* SPDX-License-Identifier: MIT */
#include "tests/support/clock.h"

#include "tests/support/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Atomic int64_t *clock_make(char **ret_file)
{
    char *file = must_format("/tmp/redlatch-clock.XXXXXX");
    int fd = mkstemp(file);
    void *at = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(int64_t)) == 0)
        at = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        die("no clock: %s", strerror(errno));
    close(fd);
    *ret_file = file;
    return at;
}

void clock_preload(const char *file)
{
    const char *build = getenv("REDLATCH_TEST_BUILD");
    char *library;

    if (file == NULL) {
        unsetenv("LD_PRELOAD");
        return;
    }
    library = must_format("%s/tests/support/clockstep.so", build != NULL ? build : "build/release");
    setenv("LD_PRELOAD", library, 1);
    setenv("CLOCKSTEP_FILE", file, 1);
    free(library);
}
