/* SPDX-License-Identifier: MIT */
/* mem.c - memory through the client's allocator hooks.
 *
 * Blocks have no header: whoever frees one knows its size. A request for 0 bytes becomes one for 1 on both ways, so
 * that NULL always means shortage and the user's hooks never see a size of 0. Blocks are aligned as the hooks align
 * them, which must be as malloc does. */
#include "core/base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *libc_alloc(size_t size, void *arg)
{
    (void)arg;
    return malloc(size);
}

static void libc_free(void *block, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    free(block);
}

static size_t at_least_one(size_t size)
{
    return size == 0 ? 1 : size;
}

void rdl__mem_init(struct rdl__mem *mem, const rdl_allocator_t *hooks)
{
    static const rdl_allocator_t libc = {.alloc = libc_alloc, .free = libc_free, .arg = NULL};

    mem->hooks = hooks != NULL ? *hooks : libc;
}

void *rdl__alloc(const struct rdl__mem *mem, size_t size)
{
    return mem->hooks.alloc(at_least_one(size), mem->hooks.arg);
}

void *rdl__zalloc(const struct rdl__mem *mem, size_t size)
{
    void *block = rdl__alloc(mem, size);

    if (block != NULL)
        memset(block, 0, size);
    return block;
}

void rdl__clear(void *block, size_t size)
{
    memset(block, 0, size);
}

void rdl__free(const struct rdl__mem *mem, void *block, size_t size)
{
    if (block != NULL)
        mem->hooks.free(block, at_least_one(size), mem->hooks.arg);
}

char *rdl__memdup(const struct rdl__mem *mem, const void *bytes, size_t len)
{
    char *copy = len < SIZE_MAX ? rdl__alloc(mem, len + 1) : NULL;

    if (copy == NULL)
        return NULL;
    if (len != 0)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

void rdl__wipe(void *block, size_t size)
{
    if (block != NULL)
        explicit_bzero(block, size);
}
