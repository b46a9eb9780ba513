/* SPDX-License-Identifier: MIT */
/* reserve.c - blocks set aside, on a stack. */
#include "core/base/reserve.h"

#include <string.h>

bool rdl__reserve_fill(struct rdl__reserve *r, const struct rdl__mem *mem, size_t size, int64_t n)
{
    while (r->n < n) {
        void *block = rdl__alloc(mem, size);

        if (block == NULL)
            return false;
        memcpy(block, &r->top, sizeof r->top);
        r->top = block;
        r->n++;
    }
    return true;
}

void *rdl__reserve_take(struct rdl__reserve *r)
{
    void *block = r->top;

    if (block == NULL)
        return NULL;
    memcpy(&r->top, block, sizeof r->top);
    r->n--;
    return block;
}

void rdl__reserve_done(struct rdl__reserve *r, const struct rdl__mem *mem, size_t size)
{
    void *block;

    while ((block = rdl__reserve_take(r)) != NULL)
        rdl__free(mem, block, size);
}
