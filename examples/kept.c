/* SPDX-License-Identifier: MIT */
/* kept.c - a lock that stays with this process: a thousand pairs by four threads, and how many found it here.
 *
 *     kept [URI]
 */
#include <inttypes.h>
#include <pthread.h>
#include <redlatch/redlatch.h>
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 250 };

static rdl_lock_t *lock;
static int count; /* the lock guards it */
static int64_t newest;

static void *work(void *arg)
{
    rdl_err_t err;

    for (int i = 0; i < ROUNDS; i++) {
        if (rdl_lock(lock, RDL_LEASE_AUTO, &err) < 0) {
            fprintf(stderr, "%s\n", err.message);
            break;
        }
        count++;
        newest = rdl_token(lock, NULL);
        rdl_unlock(lock, NULL);
    }
    return arg;
}

int main(int argc, char **argv)
{
    rdl_client_options_t client_options = RDL_CLIENT_OPTIONS_INIT;
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    rdl_metric_value_t taken, here;
    rdl_metrics_t *metrics = NULL;
    rdl_client_t *client = NULL;
    pthread_t threads[THREADS];
    rdl_err_t err;
    int rc, n = 0;

    if ((rc = rdl_metrics_new(NULL, &metrics, &err)) == RDL_OK) {
        client_options.metrics = metrics;
        rc = rdl_client_open(argc > 1 ? argv[1] : "redis://127.0.0.1:6379", &client_options, &client, &err);
    }
    if (rc == RDL_OK) {
        options.cache_ms = 1000;
        rc = rdl_fenced_lock(client, "counter", &options, &lock, &err);
    }
    if (rc < 0) {
        fprintf(stderr, "%s\n", err.message);
        goto out;
    }
    while (n < THREADS && pthread_create(&threads[n], NULL, work, NULL) == 0)
        n++;
    while (n > 0)
        pthread_join(threads[--n], NULL);
    rdl_metrics_get(metrics, RDL_M_ACQUIRED, &taken);
    rdl_metrics_get(metrics, RDL_M_LOCAL, &here);
    printf("counted to %d; token %" PRId64 "; of %" PRIu64 " takes %" PRIu64 " found it idle here\n", count, newest,
           taken.sum, here.sum);
    rc = count == THREADS * ROUNDS ? RDL_OK : RDL_ELOST;
out:
    rdl_lock_free(lock);
    rdl_client_close(client);
    rdl_metrics_free(metrics);
    return rc < 0;
}
