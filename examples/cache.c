/* SPDX-License-Identifier: MIT */
/* cache.c - a value that many read and one refreshes: readers share the read lock, the writer has the write lock alone.
 *
 *     cache redis://127.0.0.1:6379
 *
 * The value stands in a file, as it might on a disk that hosts share, and is written in two steps. A reader between the
 * two would see half a value; the lock sees to it that there is none. Readers that overlap without end keep a writer
 * out without end, so its wait is bounded, and the readers' holds are short. */
#define _POSIX_C_SOURCE 200809L /* pread, pwrite, fileno */

#include <pthread.h>
#include <redlatch/redlatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum { READERS = 4, READS = 50, REFRESHES = 10 };

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

/* NULL: every value was whole. */
static void *read_often(void *arg)
{
    bool ok = true;

    for (int i = 0; i < READS && ok; i++) {
        rdl_err_t err;
        bool whole = false;
        int rc = serve(arg, &whole, &err);

        ok = succeeded(rc, whole, &err);
    }
    return ok ? NULL : arg;
}

static bool use(struct cache *cache)
{
    pthread_t reader[READERS];
    int started = 0;
    bool ok;

    while (started < READERS && pthread_create(&reader[started], NULL, read_often, cache) == 0)
        started++;
    ok = started == READERS;
    for (int i = 1; i <= REFRESHES && ok; i++) {
        rdl_err_t err;
        bool stored = false;
        int rc = refresh(cache, i, &stored, &err);

        ok = succeeded(rc, stored, &err);
    }
    while (started > 0) {
        void *failed;

        pthread_join(reader[--started], &failed);
        ok = ok && failed == NULL;
    }
    return ok;
}

int main(int argc, char **argv)
{
    struct cache cache = {.readers = NULL};
    rdl_client_t *client = NULL;
    FILE *file = tmpfile();
    rdl_err_t err;
    bool ok = false;

    if (file == NULL) {
        perror("cache");
        return 1;
    }
    cache.file = fileno(file);
    if (rdl_client_open(argc > 1 ? argv[1] : "redis://127.0.0.1:6379", NULL, &client, &err) < 0 ||
        rdl_read_lock(client, "prices", NULL, &cache.readers, &err) < 0 ||
        rdl_write_lock(client, "prices", NULL, &cache.writer, &err) < 0)
        fprintf(stderr, "cache: %s\n", err.message);
    else
        ok = use(&cache);
    rdl_lock_free(cache.readers);
    rdl_lock_free(cache.writer);
    rdl_client_close(client);
    fclose(file);
    return !ok;
}
