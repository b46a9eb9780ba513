/* SPDX-License-Identifier: MIT */
/* metrics.c - what a program's locks do, for Prometheus: as the answer of the program's own HTTP handler, or as a file
 * for the textfile collector of node_exporter.
 *
 *     metrics redis://127.0.0.1:6379 [/var/lib/node_exporter/redlatch.prom]
 *
 * The locks of orders have series of their own, up to 20 of them; all other locks are added up. */
#include <redlatch/redlatch.h>
#include <stdio.h>
#include <stdlib.h>

#define HEAD "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\r\n"

/* For a handler of GET /metrics. It may run on any thread at any time; no call of a lock waits for it. */
static int answer_scrape(const rdl_metrics_t *metrics, FILE *connection)
{
    char *text = rdl_metrics_text(metrics);
    int rc = text == NULL ? RDL_ENOMEM : RDL_OK;

    if (text != NULL)
        fprintf(connection, HEAD "%s", text);
    free(text);
    return rc;
}

/* To be called now and then. The collector must never see half a file: so it is written beside, and renamed. */
static int write_file(const rdl_metrics_t *metrics, const char *path)
{
    char beside[4096];
    char *text = rdl_metrics_text(metrics);
    int len = snprintf(beside, sizeof beside, "%s.new", path);
    FILE *file = len > 0 && (size_t)len < sizeof beside ? fopen(beside, "w") : NULL;
    int written = file != NULL && text != NULL && fputs(text, file) >= 0;

    if (file != NULL)
        written = fclose(file) == 0 && written;
    written = written && rename(beside, path) == 0;
    if (!written)
        perror(beside);
    free(text);
    return written ? RDL_OK : RDL_EINVAL;
}

static int work(rdl_client_t *client, const char *name, rdl_err_t *err)
{
    rdl_lock_t *lock = NULL;
    int rc = rdl_reentrant_lock(client, name, NULL, &lock, err);

    if (rc == RDL_OK && (rc = rdl_try_lock(lock, 3000, RDL_LEASE_AUTO, err)) == RDL_OK)
        rc = rdl_unlock(lock, err);
    rdl_lock_free(lock);
    return rc;
}

int main(int argc, char **argv)
{
    rdl_metrics_options_t which = RDL_METRICS_OPTIONS_INIT;
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_client_t *client = NULL;
    rdl_err_t err = {.code = RDL_OK};
    int rc;

    which.names = 20;
    which.match = "order:*";
    rc = rdl_metrics_new(&which, &options.metrics, &err);
    if (rc == RDL_OK)
        rc = rdl_client_open(argc > 1 ? argv[1] : "redis://127.0.0.1:6379", &options, &client, &err);
    if (rc == RDL_OK && (rc = work(client, "order:42", &err)) == RDL_OK && (rc = work(client, "stock", &err)) == RDL_OK)
        rc = argc > 2 ? write_file(options.metrics, argv[2]) : answer_scrape(options.metrics, stdout);
    if (rc != RDL_OK)
        fprintf(stderr, "metrics: %s\n", err.code == rc ? err.message : rdl_strerror(rc));
    rdl_client_close(client);
    rdl_metrics_free(options.metrics);
    return rc != RDL_OK;
}
