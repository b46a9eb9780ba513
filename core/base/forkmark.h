/* SPDX-License-Identifier: MIT */
/* forkmark.h - noticing that this process is a fork of the one that made something, at the price of one load.
 *
 * The mark is a page that the kernel empties in the child (MADV_WIPEONFORK). Where the kernel cannot, process ids are
 * compared.
 */
#ifndef REDLATCH_BASE_FORKMARK_H
#define REDLATCH_BASE_FORKMARK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct rdl__forkmark {
    const volatile unsigned char *page; /* first byte 1 in the process that made it; NULL: compare pids */
    size_t page_size;
    pid_t pid;
};

int rdl__forkmark_init(struct rdl__forkmark *mark); /* RDL_OK or RDL_ENOMEM */
void rdl__forkmark_done(struct rdl__forkmark *mark);
bool rdl__forkmark_pid_differs(const struct rdl__forkmark *mark);

static inline bool rdl__forked(const struct rdl__forkmark *mark)
{
    return mark->page != NULL ? *mark->page == 0 : rdl__forkmark_pid_differs(mark);
}

#endif
