/* SPDX-License-Identifier: MIT */
/* quorum.c - a lock that outlives any minority of its servers: RedLock on servers that know nothing of each other.
 *
 *     quorum redis://one redis://two redis://three
 *
 * All programs that share the lock must name the same servers. One that cannot reach a server when it starts must not
 * leave it out: fewer members would be a smaller majority. */
#include <redlatch/redlatch.h>
#include <stdio.h>

enum { SERVERS_MOST = 9, LEASE_MS = 1000 };

/* A server that came back empty has forgotten its holders: it counts again when the longest of their leases is over. */
static int take(rdl_lock_t *const *member, size_t n, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    int rc;

    options.min_uptime_ms = LEASE_MS; /* nobody who shares this lock asks for a longer lease */
    if ((rc = rdl_red_lock(member, n, &options, ret_lock, err)) == RDL_OK)
        rc = rdl_try_lock(*ret_lock, 10000, LEASE_MS, err);
    return rc;
}

static int make_member(const char *uri, rdl_client_t **ret_client, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    int rc;

    options.fencing = RDL_FENCING_TIME; /* a majority's clocks give tokens that grow */
    if ((rc = rdl_client_open(uri, NULL, ret_client, err)) == RDL_OK)
        rc = rdl_reentrant_lock(*ret_client, "leader", &options, ret_lock, err);
    return rc;
}

int main(int argc, char **argv)
{
    rdl_client_t *client[SERVERS_MOST] = {NULL};
    rdl_lock_t *member[SERVERS_MOST] = {NULL}, *lock = NULL;
    size_t n = argc < 0 ? 0 : (size_t)argc - 1;
    rdl_err_t err;
    int rc = RDL_OK;

    if (n < 3 || n > SERVERS_MOST) {
        fprintf(stderr, "usage: quorum URI URI URI...\n");
        return 2;
    }
    for (size_t i = 0; i < n && rc == RDL_OK; i++)
        rc = make_member(argv[i + 1], &client[i], &member[i], &err);
    if (rc == RDL_OK && (rc = take(member, n, &lock, &err)) == RDL_OK) {
        printf("leader, with token %lld\n", (long long)rdl_token(lock, NULL));
        rc = rdl_unlock(lock, &err);
    }
    if (rc < 0)
        fprintf(stderr, "quorum: %s\n", err.message);
    rdl_lock_free(lock);
    for (size_t i = 0; i < n; i++) {
        rdl_lock_free(member[i]);
        rdl_client_close(client[i]);
    }
    return rc < 0;
}
