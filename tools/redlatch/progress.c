/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/progress.h"

#include "tools/redlatch/duration.h"
#include "tools/redlatch/hold.h"
#include "tools/redlatch/holder.h"
#include "tools/redlatch/text.h"

#include <redlatch/inspect.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MS 1000 /* until it is said that there is none */
#define LEAVE_MS 100   /* for a thread that waits for no server */

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void progress_show(const char *name, int64_t waited_ms, const char *holder)
{
    char line[2 * TEXT_SAFE_CAP + HOLDER_CAP], waited[32];

    duration_print(waited_ms, waited, sizeof waited);
    (void)snprintf(line, sizeof line, "waiting for '%s' for %s%s%s", name, waited, holder[0] != '\0' ? ": " : "",
                   holder);
    text_status(line);
}

/* Until then, or what is waited for has come about.  @locks mu */
static bool wait_for(struct progress *p, const bool *what, int64_t until_ms)
{
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};

    while (!*what && now_ms() < until_ms)
        pthread_cond_timedwait(&p->changed, &p->mu, &until);
    return *what;
}

static rdl_client_t *open_client(const struct progress *p)
{
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_tls_options_t tls = RDL_TLS_OPTIONS_INIT;
    rdl_client_t *client = NULL;

    hold_access(p->options, &options, &tls);
    options.anonymous = options.lazy = true;
    options.connect_timeout_ms = options.command_timeout_ms = ANSWER_MS;
    options.close_timeout_ms = 1;
    return rdl_client_open(p->uri, &options, &client, NULL) == RDL_OK ? client : NULL;
}

/* Of the first of the names that is held, who holds it; or why there is no answer. */
static void ask(const struct progress *p, rdl_client_t *client, char holder[HOLDER_CAP])
{
    bool held = false;

    holder[0] = '\0';
    for (size_t i = 0; i < p->options->name_count && !held; i++) {
        rdl_inspection_t *found = NULL;
        rdl_err_t err = {0};

        held = rdl_inspect(client, p->options->names[i], 0, &found, &err) < 0;
        if (held)
            (void)text_safe(err.message, strlen(err.message), holder);
        else
            held = holder_print(found, holder, HOLDER_CAP);
        rdl_inspection_free(found);
    }
}

static void *show(void *arg)
{
    struct progress *p = arg;
    int64_t next = p->began_ms + PROGRESS_FIRST_MS;
    rdl_client_t *client = NULL;

    pthread_mutex_lock(&p->mu);
    while (!wait_for(p, &p->over, next)) {
        char holder[HOLDER_CAP] = "";

        pthread_mutex_unlock(&p->mu);
        if (client != NULL || (client = open_client(p)) != NULL)
            ask(p, client, holder);
        pthread_mutex_lock(&p->mu);
        if (!p->over)
            progress_show(p->name, now_ms() - p->began_ms, holder);
        next = now_ms() + PROGRESS_EVERY_MS;
    }
    pthread_mutex_unlock(&p->mu);
    rdl_client_close(client);
    pthread_mutex_lock(&p->mu);
    p->left = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->mu);
    return NULL;
}

/* Signals are the other threads'. Without a thread nothing is shown. */
static bool start(struct progress *p)
{
    sigset_t all, before;
    bool started;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    started = pthread_create(&p->thread, NULL, show, p) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void progress_begin(struct progress *p, const struct run_options *options, const char *uri, const char *name)
{
    pthread_condattr_t clock;

    if (options->wait_ms == 0 || isatty(STDERR_FILENO) != 1)
        return;
    p->options = options;
    p->uri = uri;
    p->name = name;
    p->began_ms = now_ms();
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&p->mu, NULL);
    p->begun = start(p);
}

void progress_end(struct progress *p)
{
    if (!p->begun)
        return;
    pthread_mutex_lock(&p->mu);
    if (!p->over) {
        p->over = true;
        pthread_cond_signal(&p->changed);
        text_status(NULL);
    }
    pthread_mutex_unlock(&p->mu);
}

bool progress_done(struct progress *p)
{
    bool left = true;

    progress_end(p);
    if (p->begun) {
        pthread_mutex_lock(&p->mu);
        left = wait_for(p, &p->left, now_ms() + LEAVE_MS);
        pthread_mutex_unlock(&p->mu);
    }
    if (p->begun && left)
        pthread_join(p->thread, NULL);
    return left;
}
