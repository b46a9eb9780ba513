/* permits.c - at most three at once, anywhere; and one that waits for all of them to be ready. */
#include <redlatch/redlatch.h>
#include <stdio.h>

/* A seat comes back by itself after 30 s, should this process die with it. */
static int use_a_seat(rdl_permit_semaphore_t *seats, rdl_err_t *err)
{
    rdl_permit_t seat;
    int rc = rdl_permit_semaphore_try_acquire(seats, 1, 3000, 30000, &seat, err);

    if (rc < 0)
        return rc;
    printf("seat %s is ours\n", seat.id);
    return rdl_permit_semaphore_release(seats, 1, &seat, err);
}

int main(int argc, char **argv)
{
    rdl_client_t *client = NULL;
    rdl_semaphore_t *pool = NULL;
    rdl_permit_semaphore_t *seats = NULL;
    rdl_latch_t *ready = NULL;
    rdl_err_t err;

    int ok = rdl_client_open(argc > 1 ? argv[1] : "redis://127.0.0.1:6379", NULL, &client, &err) == RDL_OK &&
             rdl_semaphore(client, "pool", NULL, &pool, &err) == RDL_OK &&
             rdl_permit_semaphore(client, "seats", NULL, &seats, &err) == RDL_OK &&
             rdl_latch(client, "ready", NULL, &ready, &err) == RDL_OK;

    ok = ok && rdl_semaphore_try_set_permits(pool, 3, &err) >= 0 &&  /* whoever comes first says how many */
         rdl_semaphore_try_acquire(pool, 2, 3000, &err) == RDL_OK && /* two of them, within 3 s */
         rdl_semaphore_release(pool, 2, &err) == RDL_OK;
    ok = ok && rdl_permit_semaphore_try_set_permits(seats, 3, &err) >= 0 && use_a_seat(seats, &err) == RDL_OK;
    ok = ok && rdl_latch_try_set_count(ready, 1, &err) >= 0 && rdl_latch_count_down(ready, &err) >= 0 &&
         rdl_latch_await(ready, 3000, &err) == RDL_OK; /* open: everybody goes on */
    if (!ok)
        fprintf(stderr, "%s\n", err.message);
    rdl_latch_free(ready);
    rdl_permit_semaphore_free(seats);
    rdl_semaphore_free(pool);
    rdl_client_close(client);
    return !ok;
}
