/* SPDX-License-Identifier: MIT */
#include <redlatch/redlatch.h>

int main(void)
{
    rdl_client_t *client = NULL;
    rdl_lock_t *lock = NULL;
    int ok = rdl_client_open("redis://127.0.0.1:6379", NULL, &client, NULL) == RDL_OK &&
             rdl_reentrant_lock(client, "ten", NULL, &lock, NULL) == RDL_OK &&
             rdl_try_lock(lock, 3000, RDL_LEASE_AUTO, NULL) == RDL_OK && rdl_unlock(lock, NULL) == RDL_OK;
    return rdl_lock_free(lock), rdl_client_close(client), !ok;
}
