/* SPDX-License-Identifier: MIT */
/* transfer.c - two accounts, one lock: a multi-lock holds both or neither, whoever transfers the other way at the same
 * time.
 *
 *     transfer redis://127.0.0.1:6379
 */
#include <redlatch/redlatch.h>
#include <stdio.h>

static int fail(const rdl_err_t *err)
{
    fprintf(stderr, "transfer: %s\n", err->message);
    return 1;
}

int main(int argc, char **argv)
{
    rdl_client_t *client = NULL;
    rdl_lock_t *account[2] = {NULL, NULL}, *both = NULL;
    rdl_err_t err;
    int rc;

    if (argc != 2) {
        fprintf(stderr, "usage: transfer URI\n");
        return 2;
    }
    if (rdl_client_open(argv[1], NULL, &client, &err) < 0)
        return fail(&err);
    if ((rc = rdl_reentrant_lock(client, "account:17", NULL, &account[0], &err)) == RDL_OK &&
        (rc = rdl_reentrant_lock(client, "account:4", NULL, &account[1], &err)) == RDL_OK &&
        (rc = rdl_multi_lock(account, 2, NULL, &both, &err)) == RDL_OK &&
        (rc = rdl_try_lock(both, 3000, RDL_LEASE_AUTO, &err)) == RDL_OK) {
        printf("moving money under %s\n", rdl_lock_name(both, NULL));
        rc = rdl_unlock(both, &err);
    }
    rdl_lock_free(both);
    rdl_lock_free(account[0]);
    rdl_lock_free(account[1]);
    rdl_client_close(client);
    return rc < 0 ? fail(&err) : 0;
}
