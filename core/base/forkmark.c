/* SPDX-License-Identifier: MIT */
/* forkmark.c - noticing a fork. */
#include "core/base/forkmark.h"

#include <redlatch/error.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

int rdl__forkmark_init(struct rdl__forkmark *mark)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    *mark = (struct rdl__forkmark){.page = NULL, .page_size = 0, .pid = getpid()};
    if (page == MAP_FAILED)
        return RDL_ENOMEM;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, size);
        return RDL_OK;
    }
    *page = 1;
    mark->page = page;
    mark->page_size = size;
    return RDL_OK;
}

void rdl__forkmark_done(struct rdl__forkmark *mark)
{
    if (mark->page != NULL)
        (void)munmap((void *)(uintptr_t)mark->page, mark->page_size);
    *mark = (struct rdl__forkmark){0};
}

bool rdl__forkmark_pid_differs(const struct rdl__forkmark *mark)
{
    return getpid() != mark->pid;
}
