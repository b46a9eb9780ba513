/* SPDX-License-Identifier: MIT */
/* mem.h - memory through the client's allocator hooks. */
#ifndef REDLATCH_BASE_MEM_H
#define REDLATCH_BASE_MEM_H

#include <redlatch/client.h>
#include <stddef.h>

struct rdl__mem {
    rdl_allocator_t hooks;
};

/* `hooks` may be NULL: the C library's malloc and free. */
void rdl__mem_init(struct rdl__mem *mem, const rdl_allocator_t *hooks);

void *rdl__alloc(const struct rdl__mem *mem, size_t size);  /* NULL when there is none; uninitialised */
void *rdl__zalloc(const struct rdl__mem *mem, size_t size); /* zeroed */
void rdl__clear(void *block,
                size_t size); /* to zeros, by the C library: quicker than what compilers put in its place */
void rdl__free(const struct rdl__mem *mem, void *block, size_t size); /* NULL is fine */

/* A NUL-terminated copy of len bytes; free it with rdl__free(mem, copy, len + 1). */
char *rdl__memdup(const struct rdl__mem *mem, const void *bytes, size_t len);

/* Overwrite secrets in a way the compiler keeps. */
void rdl__wipe(void *block, size_t size);

#endif
