/* SPDX-License-Identifier: MIT */
#include <redlatch/redlatch.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    rdl_client_t *client = NULL;
    rdl_lock_t *lock = NULL;
    rdl_err_t err;

    int ok = rdl_client_open(argc > 1 ? argv[1] : "redis://127.0.0.1:6379", NULL, &client, &err) == RDL_OK &&
             rdl_reentrant_lock(client, "orders:42", NULL, &lock, &err) == RDL_OK &&
             rdl_try_lock(lock, 3000, RDL_LEASE_AUTO, &err) == RDL_OK; /* wait 3 s; renewed until unlocked */
    if (ok) {
        puts("nobody else is in here, on no machine");
        ok = rdl_unlock(lock, &err) == RDL_OK;
    }
    if (!ok)
        fprintf(stderr, "%s\n", err.message);
    rdl_lock_free(lock);
    rdl_client_close(client);
    return !ok;
}
