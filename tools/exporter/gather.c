/* SPDX-License-Identifier: MIT */
/* gather.c - a thread that scans for locks when somebody wants them, and one that examines the servers now and then.
 *
 * A scrape takes what the last scan has found while that is no older than interval_ms. Else it wants a scan, or shares
 * the one that is under way, and waits for its end: timeout_ms at most, and not at all for a scan that has been under
 * way for longer; then it takes what the scan before has found, and redlatch_scan_age_seconds says how old that is. A
 * scan that fails leaves nothing to be shown: numbers of servers that do not answer would be believed.
 *
 * Each scan has a client of its own, because opening one fails at once where nobody listens, while a call of a client
 * that is open waits for its server to return. An answer is waited for for half of timeout_ms, so a server that falls
 * silent is known to be away within timeout_ms.
 *
 * The threads write text, which scrapes copy: `mu` is held while a few hundred kilobytes are copied, and never while a
 * server is asked. */
#include "tools/exporter/gather.h"

#include "tools/exporter/census.h"
#include "tools/exporter/exposition.h"
#include "tools/redlatch/findings.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <redlatch/redlatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STOP_MS 3000

/* What a thread has to show. */
struct report {
    char *text; /* NULL: nothing */
    size_t len;
    int64_t ended_ms; /* when it was made; 0: never */
};

struct gather {
    struct gather_options o;
    char label[TEXT_SAFE_CAP]; /* of the server */
    pthread_t scanner, examiner;

    pthread_mutex_t mu;
    pthread_cond_t changed; /* any of the next */
    bool stopping, hurrying;
    int running;              /* threads that have not ended */
    bool wanted;              /* a scan */
    bool scanning, answering; /* one is under way; servers have answered it */
    bool up;                  /* the last one has reached its end */
    int64_t began_ms;         /* the one under way */
    unsigned long scans;      /* so many have ended */
    struct report locks, findings;

    /* The scanner's alone. */
    struct census last;                         /* the last that has ended */
    char said[sizeof((rdl_err_t *)0)->message]; /* what was complained of last; "": nothing */
};

static int64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct timespec timespec_of(int64_t ms)
{
    return (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
}

/* Wait for a change. False: it is `until_ms`.  @locks mu */
static bool wait_until(struct gather *g, int64_t until_ms)
{
    struct timespec until = timespec_of(until_ms);

    return pthread_cond_timedwait(&g->changed, &g->mu, &until) != ETIMEDOUT;
}

/* Its text is taken over.  @locks mu */
static void show(struct report *to, const struct report *made)
{
    free(to->text);
    *to = *made;
    to->ended_ms = now_ms();
}

/* ---- the scan --------------------------------------------------------------------------------------------------- */

struct scan {
    struct gather *g;
    struct census census;
    int64_t keys;
    bool no_memory;
};

static int on_lock(const rdl_inspection_t *found, const rdl_list_progress_t *progress, void *arg)
{
    struct scan *s = arg;
    bool stopping;

    s->keys = progress->keys;
    if (found != NULL) {
        s->no_memory = !census_add(&s->census, found, now_ms());
        return s->no_memory;
    }
    pthread_mutex_lock(&s->g->mu);
    s->g->answering = true;
    stopping = s->g->stopping;
    pthread_mutex_unlock(&s->g->mu);
    return stopping;
}

/* NULL without memory. */
static char *scan_text(struct scan *s, int64_t took_ms, size_t *ret_len)
{
    char *text = NULL;
    FILE *out = s->no_memory ? NULL : open_memstream(&text, ret_len);

    if (out == NULL)
        return NULL;
    census_end(&s->census);
    exposition_head(out, "redlatch_scrape_seconds", "How long the last scan for locks has taken.");
    fputs("redlatch_scrape_seconds ", out);
    exposition_seconds(out, took_ms);
    fputc('\n', out);
    exposition_head(out, "redlatch_scan_keys", "How many keys it has gone through.");
    fprintf(out, "redlatch_scan_keys %" PRId64 "\n", s->keys);
    census_print(out, &s->census);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* Say what is wrong when it begins to be, and when it is over. */
static void complain(struct gather *g, const char *what)
{
    if (strcmp(g->said, what) == 0)
        return;
    text_say("%s", what[0] != '\0' ? what : "the server answers again");
    (void)snprintf(g->said, sizeof g->said, "%s", what);
}

/* What the scan has found, as text; NULL where it has failed. */
static char *scan(struct gather *g, size_t *ret_len)
{
    struct scan s = {.g = g, .census = {.most = (size_t)g->o.max_locks, .before = &g->last}};
    rdl_client_t *client = NULL;
    int64_t began = now_ms();
    rdl_err_t err = {0};
    char *text = NULL;

    if (rdl_client_open(g->o.uri, &g->o.client, &client, &err) == RDL_OK &&
        rdl_list(client, g->o.pattern, on_lock, &s, &err) >= 0 &&
        (text = scan_text(&s, now_ms() - began, ret_len)) == NULL)
        (void)snprintf(err.message, sizeof err.message, "%s", rdl_strerror(RDL_ENOMEM));
    rdl_client_close(client);
    complain(g, text == NULL ? err.message : "");
    census_done(text != NULL ? &g->last : &s.census);
    if (text != NULL)
        g->last = s.census;
    return text;
}

/* A thread is about to.  @locks mu, given up */
static void *end_thread(struct gather *g)
{
    g->running--;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mu);
    return NULL;
}

static void *scan_when_wanted(void *arg)
{
    struct gather *g = arg;

    pthread_mutex_lock(&g->mu);
    while (!g->stopping) {
        struct report made = {.text = NULL};

        if (!g->wanted) {
            pthread_cond_wait(&g->changed, &g->mu);
            continue;
        }
        g->wanted = g->answering = false;
        g->scanning = true;
        g->began_ms = now_ms();
        pthread_mutex_unlock(&g->mu);
        made.text = scan(g, &made.len);
        pthread_mutex_lock(&g->mu);
        g->scanning = false;
        g->up = made.text != NULL;
        g->scans++;
        show(&g->locks, &made);
        pthread_cond_broadcast(&g->changed);
    }
    return end_thread(g);
}

/* ---- the examination -------------------------------------------------------------------------------------------- */

static char *findings_text(const struct findings *f, size_t *ret_len)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_len);

    if (out == NULL)
        return NULL;
    exposition_findings(out, f);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static char *examine(struct gather *g, size_t *ret_len)
{
    struct findings found = {.count = 0};
    char *text = NULL;
    rdl_err_t err = {0};

    if (rdl_doctor(g->o.uri, &g->o.client, NULL, findings_add, &found, &err) < 0)
        text_say("%s", err.message);
    else if (found.failed || (text = findings_text(&found, ret_len)) == NULL)
        text_say("%s", rdl_strerror(RDL_ENOMEM));
    findings_done(&found);
    return text;
}

static void *examine_now_and_then(void *arg)
{
    struct gather *g = arg;

    pthread_mutex_lock(&g->mu);
    while (!g->stopping) {
        struct report made = {.text = NULL};
        int64_t until;

        pthread_mutex_unlock(&g->mu);
        made.text = examine(g, &made.len);
        until = now_ms() + g->o.doctor_interval_ms;
        pthread_mutex_lock(&g->mu);
        show(&g->findings, &made);
        while (!g->stopping && wait_until(g, until))
            continue;
    }
    return end_thread(g);
}

/* ---- a scrape --------------------------------------------------------------------------------------------------- */

/* @locks mu, given up meanwhile */
static void wait_for_scan(struct gather *g)
{
    int64_t now = now_ms(), until = (g->scanning ? g->began_ms : now) + g->o.timeout_ms;
    unsigned long seen = g->scans;

    if (!g->scanning && g->locks.ended_ms > 0 && now - g->locks.ended_ms < g->o.interval_ms)
        return;
    if (!g->scanning && !g->wanted) {
        g->wanted = true;
        pthread_cond_broadcast(&g->changed);
    }
    while (g->scans == seen && !g->hurrying && wait_until(g, until))
        continue;
}

/* @locks mu */
static void print_report(FILE *out, const struct report *report, const char *metric, const char *help)
{
    if (report->text == NULL)
        return;
    exposition_head(out, metric, help);
    fprintf(out, "%s ", metric);
    exposition_seconds(out, now_ms() - report->ended_ms);
    fputc('\n', out);
    (void)fwrite(report->text, 1, report->len, out);
}

/* @locks mu */
static void print_all(FILE *out, const struct gather *g)
{
    exposition_head(out, "redlatch_exporter_info", "The version of this exporter.");
    fprintf(out, "redlatch_exporter_info{version=\"%s\"} 1\n", rdl_version());
    exposition_head(out, "redlatch_up", "Whether the last scan for locks has reached its end.");
    fputs("redlatch_up{server=\"", out);
    exposition_label(out, g->label, strlen(g->label));
    fprintf(out, "\"} %d\n", g->scans > 0 ? g->up : g->answering);
    print_report(out, &g->locks, "redlatch_scan_age_seconds", "How long ago the locks were scanned for.");
    print_report(out, &g->findings, "redlatch_doctor_age_seconds", "How long ago redlatch doctor looked.");
}

char *gather_text(struct gather *g, size_t *ret_len)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_len);

    if (out == NULL)
        return NULL;
    pthread_mutex_lock(&g->mu);
    wait_for_scan(g);
    print_all(out, g);
    pthread_mutex_unlock(&g->mu);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

void gather_hurry(struct gather *g)
{
    pthread_mutex_lock(&g->mu);
    g->hurrying = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mu);
}

/* ---- its life --------------------------------------------------------------------------------------------------- */

/* False: it could not be. */
static bool start_thread(struct gather *g, pthread_t *ret_thread, void *(*run)(void *))
{
    bool started;

    pthread_mutex_lock(&g->mu);
    started = pthread_create(ret_thread, NULL, run, g) == 0;
    g->running += started;
    pthread_mutex_unlock(&g->mu);
    return started;
}

bool gather_stop(struct gather *g)
{
    int64_t until = now_ms() + STOP_MS;
    bool ended;

    pthread_mutex_lock(&g->mu);
    g->stopping = true;
    pthread_cond_broadcast(&g->changed);
    while (g->running > 0 && wait_until(g, until))
        continue;
    ended = g->running == 0;
    pthread_mutex_unlock(&g->mu);
    if (!ended)
        return false;
    pthread_join(g->scanner, NULL);
    if (g->o.doctor_interval_ms > 0)
        pthread_join(g->examiner, NULL);
    census_done(&g->last);
    free(g->locks.text);
    free(g->findings.text);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->mu);
    free(g);
    return true;
}

struct gather *gather_start(const struct gather_options *options)
{
    struct gather *g = calloc(1, sizeof *g);
    pthread_condattr_t clock;

    if (g == NULL)
        return NULL;
    g->o = *options;
    g->o.client.connections = 1;
    g->o.client.connect_timeout_ms = g->o.client.command_timeout_ms = g->o.timeout_ms / 2;
    (void)server_label(g->o.uri, g->label);
    pthread_mutex_init(&g->mu, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&g->changed, &clock);
    pthread_condattr_destroy(&clock);
    if (!start_thread(g, &g->scanner, scan_when_wanted)) {
        free(g);
        return NULL;
    }
    if (g->o.doctor_interval_ms > 0 && !start_thread(g, &g->examiner, examine_now_and_then)) {
        g->o.doctor_interval_ms = 0;
        (void)gather_stop(g);
        return NULL;
    }
    return g;
}
