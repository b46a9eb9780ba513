/* SPDX-License-Identifier: MIT */
/* exclusive.c - one holder at a time, four ways: each function is what one type is for.
 *
 *     exclusive redis://127.0.0.1:6379
 */
#include <redlatch/redlatch.h>
#include <stdio.h>

/* Every host starts the job, one does it. Nobody waits, so the cheapest type is enough. */
static int back_up(rdl_client_t *client, rdl_err_t *err)
{
    rdl_lock_t *lock = NULL;
    int rc = rdl_simple_lock(client, "backup", NULL, &lock, err);

    if (rc == RDL_OK && (rc = rdl_try_lock(lock, 0, RDL_LEASE_AUTO, err)) == RDL_OK) {
        puts("this host makes the backup");
        rc = rdl_unlock(lock, err);
    } else if (rc == RDL_ETIMEDOUT) {
        rc = RDL_OK; /* another host makes it */
    }
    rdl_lock_free(lock);
    return rc;
}

/* A file that includes itself would be imported inside its own import: RDL_EDEADLK says so, at once. */
static int import(rdl_lock_t *file, int includes, rdl_err_t *err)
{
    int rc = rdl_try_lock(file, 3000, RDL_LEASE_AUTO, err);
    int unlocked;

    if (rc < 0)
        return rc;
    if (includes > 0)
        rc = import(file, includes - 1, err);
    unlocked = rdl_unlock(file, rc < 0 ? NULL : err);
    return rc < 0 ? rc : unlocked;
}

static int import_twice(rdl_client_t *client, rdl_err_t *err)
{
    rdl_lock_t *file = NULL;
    int rc = rdl_nonreentrant_lock(client, "import:prices.csv", NULL, &file, err);

    if (rc == RDL_OK && (rc = import(file, 0, err)) == RDL_OK && (rc = import(file, 1, err)) == RDL_EDEADLK) {
        puts("a file that includes itself was refused");
        rc = RDL_OK;
    }
    rdl_lock_free(file);
    return rc;
}

/* Held for moments by many in turn: who waits looks again after at most 16 ms, and nobody subscribes. */
static int raise_mark(rdl_client_t *client, rdl_err_t *err)
{
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    rdl_lock_t *lock = NULL;
    int rc;

    options.retry = (rdl_retry_t){.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 1, .max_ms = 16};
    if ((rc = rdl_spin_lock(client, "high-water-mark", &options, &lock, err)) == RDL_OK &&
        (rc = rdl_try_lock(lock, 1000, 1000, err)) == RDL_OK) {
        puts("read, compare, write");
        rc = rdl_unlock(lock, err);
    }
    rdl_lock_free(lock);
    return rc;
}

/* Orders are booked as they come, whichever process took them in; a process that dies waiting holds the others up for 5
 * s. */
static int book(rdl_client_t *client, rdl_err_t *err)
{
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    rdl_lock_t *lock = NULL;
    int rc;

    options.waiter_life_ms = 5000;
    if ((rc = rdl_fair_lock(client, "bookings", &options, &lock, err)) == RDL_OK &&
        (rc = rdl_try_lock(lock, 60000, RDL_LEASE_AUTO, err)) == RDL_OK) {
        puts("nobody who came later was before us");
        rc = rdl_unlock(lock, err);
    }
    rdl_lock_free(lock);
    return rc;
}

int main(int argc, char **argv)
{
    rdl_client_t *client = NULL;
    rdl_err_t err;

    int ok = rdl_client_open(argc > 1 ? argv[1] : "redis://127.0.0.1:6379", NULL, &client, &err) == RDL_OK &&
             back_up(client, &err) == RDL_OK && import_twice(client, &err) == RDL_OK &&
             raise_mark(client, &err) == RDL_OK && book(client, &err) == RDL_OK;
    if (!ok)
        fprintf(stderr, "exclusive: %s\n", err.message);
    rdl_client_close(client);
    return !ok;
}
