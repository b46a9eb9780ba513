/* SPDX-License-Identifier: MIT */
/* cache.c - a value that the threads of several processes read all the time, and one refreshes now and then.
 *
 *     cache redis://127.0.0.1:6379
 *
 * Readers share the read lock, which stays with their process (cache_ms), so that hardly any read asks the server; the
 * writer has the write lock alone, and before readers that come later than it (prefer_writers). The value stands in a
 * file, as it might on a disk that hosts share, and is written in two steps: a reader between the two would see half.
 */
#define _POSIX_C_SOURCE 200809L /* fork, pread, pwrite, fileno, nanosleep */

#include <inttypes.h>
#include <pthread.h>
#include <redlatch/redlatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 3, READERS = 4, READS = 2000, REFRESHES = 20 };

struct cache {
    rdl_lock_t *readers;
    rdl_lock_t *writer;
    int file;
};

/* Whether what was read is whole. A file that is still empty is, too. */
static bool load(int file)
{
    int64_t half[2];
    ssize_t got = pread(file, half, sizeof half, 0);

    return got == 0 || (got == sizeof half && half[0] == half[1]);
}

static bool store(int file, int64_t half)
{
    return pwrite(file, &half, sizeof half, 0) == sizeof half &&
           pwrite(file, &half, sizeof half, sizeof half) == sizeof half;
}

/* Any number of threads, processes and hosts at a time. */
static int serve(const struct cache *cache, bool *ret_whole, rdl_err_t *err)
{
    int rc = rdl_try_lock(cache->readers, 30000, RDL_LEASE_AUTO, err);

    if (rc < 0)
        return rc;
    *ret_whole = load(cache->file);
    return rdl_unlock(cache->readers, err);
}

/* One writer, and no reader meanwhile. */
static int refresh(const struct cache *cache, int64_t value, bool *ret_stored, rdl_err_t *err)
{
    int rc = rdl_try_lock(cache->writer, 30000, RDL_LEASE_AUTO, err);

    if (rc < 0)
        return rc;
    *ret_stored = store(cache->file, value);
    return rdl_unlock(cache->writer, err);
}

static bool succeeded(int rc, bool done, const rdl_err_t *err)
{
    if (rc < 0 || !done)
        fprintf(stderr, "cache: %s\n", rc < 0 ? err->message : "the file cannot be written, or holds half a value");
    return rc == RDL_OK && done;
}

static void rest_us(long us)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* NULL: every value was whole. */
static void *read_often(void *arg)
{
    bool ok = true;

    for (int i = 0; i < READS && ok; i++) {
        rdl_err_t err;
        bool whole = false;
        int rc = serve(arg, &whole, &err);

        ok = succeeded(rc, whole, &err);
        rest_us(200); /* it does something with the value */
    }
    return ok ? NULL : arg;
}

static bool use(struct cache *cache, int refreshes)
{
    pthread_t reader[READERS];
    int started = 0;
    bool ok;

    while (started < READERS && pthread_create(&reader[started], NULL, read_often, cache) == 0)
        started++;
    ok = started == READERS;
    for (int i = 1; i <= refreshes && ok; i++) {
        rdl_err_t err;
        bool stored = false;
        int rc = refresh(cache, i, &stored, &err);

        ok = succeeded(rc, stored, &err);
        rest_us(20000);
    }
    while (started > 0) {
        void *failed;

        pthread_join(reader[--started], &failed);
        ok = ok && failed == NULL;
    }
    return ok;
}

/* One process. What it counts is of both ends of the lock. */
static bool work(const char *uri, int file, int refreshes)
{
    rdl_client_options_t client_options = RDL_CLIENT_OPTIONS_INIT;
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    struct cache cache = {.file = file};
    rdl_metric_value_t taken, here;
    rdl_metrics_t *metrics = NULL;
    rdl_client_t *client = NULL;
    bool ok = false;
    rdl_err_t err;

    options.cache_ms = 1000;
    options.prefer_writers = true;
    if (rdl_metrics_new(NULL, &metrics, &err) < 0)
        goto out;
    client_options.metrics = metrics;
    if (rdl_client_open(uri, &client_options, &client, &err) < 0 ||
        rdl_read_lock(client, "prices", &options, &cache.readers, &err) < 0 ||
        rdl_write_lock(client, "prices", &options, &cache.writer, &err) < 0)
        goto out;
    ok = use(&cache, refreshes);
    rdl_metrics_get(metrics, RDL_M_ACQUIRED, &taken);
    rdl_metrics_get(metrics, RDL_M_LOCAL, &here);
    printf("%" PRIu64 " reads, %d writes: %" PRIu64 " asked the server\n", taken.sum - (unsigned)refreshes, refreshes,
           taken.sum - here.sum);
out:
    if (cache.writer == NULL)
        fprintf(stderr, "cache: %s\n", err.message);
    rdl_lock_free(cache.readers);
    rdl_lock_free(cache.writer);
    rdl_client_close(client);
    rdl_metrics_free(metrics);
    return ok;
}

int main(int argc, char **argv)
{
    FILE *file = tmpfile();
    int started = 0, succeeding = 0, status;

    if (file == NULL) {
        perror("cache");
        return 1;
    }
    while (started < PROCESSES) { /* before there is a client, which no child could use */
        pid_t child = fork();

        if (child == 0)
            exit(!work(argc > 1 ? argv[1] : "redis://127.0.0.1:6379", fileno(file), started == 0 ? REFRESHES : 0));
        if (child < 0)
            break;
        started++;
    }
    while (wait(&status) > 0)
        succeeding += status == 0;
    fclose(file);
    return succeeding < PROCESSES;
}
