/* SPDX-License-Identifier: MIT */
/* permits.c - at most so many at once, anywhere, and waiting for all to be ready: each function is what one type is
 * for.
 *
 *     permits redis://127.0.0.1:6379
 */
#include <redlatch/redlatch.h>
#include <stdio.h>

/* At most three connections to a slow service; this job needs two of them at once. Somebody who dies with a permit has
 * taken it along. */
static int call_service(rdl_client_t *client, rdl_err_t *err)
{
    rdl_semaphore_t *pool = NULL;
    int rc = rdl_semaphore(client, "pool", NULL, &pool, err);

    if (rc == RDL_OK &&
        (rc = rdl_semaphore_try_set_permits(pool, 3, err)) >= 0 && /* whoever comes first says how many */
        (rc = rdl_semaphore_try_acquire(pool, 2, 3000, err)) == RDL_OK) {
        puts("two of the three are ours");
        rc = rdl_semaphore_release(pool, 2, err);
    }
    rdl_semaphore_free(pool);
    return rc;
}

/* A seat comes back by itself after 30 s, should this process die with it. */
static int use_a_seat(rdl_client_t *client, rdl_err_t *err)
{
    rdl_permit_semaphore_t *seats = NULL;
    rdl_permit_t seat;
    int rc = rdl_permit_semaphore(client, "seats", NULL, &seats, err);

    if (rc == RDL_OK && (rc = rdl_permit_semaphore_try_set_permits(seats, 3, err)) >= 0 &&
        (rc = rdl_permit_semaphore_try_acquire(seats, 1, 3000, 30000, &seat, err)) == RDL_OK) {
        printf("seat %s is ours\n", seat.id);
        rc = rdl_permit_semaphore_release(seats, 1, &seat, err); /* RDL_ELOST: we took longer than 30 s */
    }
    rdl_permit_semaphore_free(seats);
    return rc;
}

/* Whoever is ready counts down; whoever awaits goes on when all are. A latch of today's name is not one of yesterday's.
 */
static int start_together(rdl_client_t *client, rdl_err_t *err)
{
    rdl_latch_t *ready = NULL;
    int rc = rdl_latch(client, "ready:2026-11-21", NULL, &ready, err);

    if (rc == RDL_OK && (rc = rdl_latch_try_set_count(ready, 1, err)) >= 0 &&
        (rc = (int)rdl_latch_count_down(ready, err)) >= 0 && (rc = rdl_latch_await(ready, 3000, err)) == RDL_OK)
        puts("all are ready");
    rdl_latch_free(ready);
    return rc;
}

int main(int argc, char **argv)
{
    rdl_client_t *client = NULL;
    rdl_err_t err;

    int ok = rdl_client_open(argc > 1 ? argv[1] : "redis://127.0.0.1:6379", NULL, &client, &err) == RDL_OK &&
             call_service(client, &err) == RDL_OK && use_a_seat(client, &err) == RDL_OK &&
             start_together(client, &err) == RDL_OK;
    if (!ok)
        fprintf(stderr, "permits: %s\n", err.message);
    rdl_client_close(client);
    return !ok;
}
