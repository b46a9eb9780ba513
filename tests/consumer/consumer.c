/* SPDX-License-Identifier: MIT */
/* consumer.c - a program outside the tree, in plain C11: takes a lock on the server named by its argument.
 *
 * The library has a hiredis of its own inside. This program has functions of the same names, which must stay its own:
 * the library must not call them, and linking them must not clash. */
#include <redlatch/redlatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *redisReaderCreate(void);
void *redisReaderCreateWithFunctions(void *functions);
char *sdsempty(void);

static _Noreturn void meddled(const char *name)
{
    fprintf(stderr, "the library called the program's %s\n", name);
    exit(1);
}

void *redisReaderCreate(void)
{
    meddled("redisReaderCreate");
}

void *redisReaderCreateWithFunctions(void *functions)
{
    (void)functions;
    meddled("redisReaderCreateWithFunctions");
}

char *sdsempty(void)
{
    meddled("sdsempty");
}

static int fail(const char *what, const rdl_err_t *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, rdl_strerror(err->code), err->message);
    return 1;
}

int main(int argc, char **argv)
{
    rdl_client_t *client = NULL;
    rdl_lock_t *lock = NULL;
    rdl_err_t err;
    int64_t left;

    if (argc != 2 || strcmp(rdl_version(), RDL_VERSION) != 0)
        return fprintf(stderr, "usage: consumer URI; library %s, header %s\n", rdl_version(), RDL_VERSION), 1;
    if (rdl_client_open(argv[1], NULL, &client, &err) < 0)
        return fail("open", &err);
    if (rdl_reentrant_lock(client, "consumer", NULL, &lock, &err) < 0)
        return fail("lock", &err);
    if (rdl_try_lock(lock, 1000, RDL_LEASE_AUTO, &err) < 0)
        return fail("try_lock", &err);
    if ((left = rdl_remaining_ms(lock, &err)) <= 0)
        return fail("remaining", &err);
    if (rdl_unlock(lock, &err) < 0)
        return fail("unlock", &err);
    rdl_lock_free(lock);
    rdl_client_close(client);
    return 0;
}
