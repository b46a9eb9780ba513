#include "tools/redlatch/progress.h"

#include "tools/redlatch/duration.h"
#include "tools/redlatch/holder.h"
#include "tools/redlatch/text.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

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

/* Until then, or it is over.  @locks mu */
static bool is_over_by(struct progress *p, int64_t ms)
{
    struct timespec until = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (!p->over && now_ms() < ms)
        pthread_cond_timedwait(&p->ended, &p->mu, &until);
    return p->over;
}

static void *show(void *arg)
{
    struct progress *p = arg;
    int64_t next = p->began_ms + PROGRESS_FIRST_MS;

    pthread_mutex_lock(&p->mu);
    while (!is_over_by(p, next)) {
        char holder[HOLDER_CAP];

        pthread_mutex_unlock(&p->mu);
        (void)holder_ask(p->options, p->clients, p->client_count, holder, sizeof holder);
        pthread_mutex_lock(&p->mu);
        if (!p->over)
            progress_show(p->name, now_ms() - p->began_ms, holder);
        next = now_ms() + PROGRESS_EVERY_MS;
    }
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

void progress_begin(struct progress *p, const struct run_options *options, rdl_client_t *const *clients, size_t count,
                    const char *name)
{
    pthread_condattr_t clock;

    if (options->wait_ms == 0 || isatty(STDERR_FILENO) != 1)
        return;
    p->options = options;
    p->clients = clients;
    p->client_count = count;
    p->name = name;
    p->began_ms = now_ms();
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&p->ended, &clock);
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
        pthread_cond_signal(&p->ended);
        text_status(NULL);
    }
    pthread_mutex_unlock(&p->mu);
}

void progress_done(struct progress *p)
{
    progress_end(p);
    if (p->begun)
        pthread_join(p->thread, NULL);
    p->begun = false;
}
