/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/top_watch.h"

#include "tools/redlatch/evict.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define END_MS 300       /* so long its end is waited for */
#define WALK_INTERVALS 5 /* rounds between walks, at least */

struct top_watch {
    /* immutable */
    rdl_client_t *client;
    const char *pattern;
    int64_t interval_ms;
    int fd;
    pthread_t thread;
    bool started;

    /* whoever makes rounds */
    int64_t walk_due_ms, round_due_ms;
    int walk_rc; /* of the rounds within the walk */

    /* under mu */
    pthread_mutex_t mu;
    pthread_cond_t asked;
    bool ending, hurry;
    struct top_state state;
    struct top_model *model;
    struct top_request request;
    bool request_waits, answer_waits;
};

int64_t top_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct top_watch *top_watch_new(rdl_client_t *client, const char *pattern, int64_t interval_ms)
{
    struct top_watch *w = calloc(1, sizeof *w);
    pthread_condattr_t clock;

    if (w == NULL || (w->model = top_model_new()) == NULL || (w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        if (w != NULL)
            (void)top_model_free(w->model);
        free(w);
        return NULL;
    }
    w->client = client;
    w->pattern = pattern;
    w->interval_ms = interval_ms;
    (void)pthread_mutex_init(&w->mu, NULL);
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&w->asked, &clock);
    (void)pthread_condattr_destroy(&clock);
    return w;
}

struct top_watch *top_watch_free(struct top_watch *w)
{
    if (w == NULL)
        return NULL;
    top_request_done(&w->request);
    (void)pthread_cond_destroy(&w->asked);
    (void)pthread_mutex_destroy(&w->mu);
    (void)top_model_free(w->model);
    (void)close(w->fd);
    free(w);
    return NULL;
}

struct top_state *top_watch_enter(struct top_watch *w, struct top_model **ret_model)
{
    (void)pthread_mutex_lock(&w->mu);
    *ret_model = w->model;
    return &w->state;
}

void top_watch_leave(struct top_watch *w)
{
    (void)pthread_mutex_unlock(&w->mu);
}

int top_watch_fd(const struct top_watch *w)
{
    return w->fd;
}

void top_watch_heard(struct top_watch *w)
{
    eventfd_t count;

    (void)eventfd_read(w->fd, &count);
}

static void tell(struct top_watch *w)
{
    (void)eventfd_write(w->fd, 1);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

void top_request_done(struct top_request *request)
{
    (void)rdl_inspection_free(request->seen);
    free(request->name);
    free(request->said);
    *request = (struct top_request){.what = TOP_NOTHING};
}

bool top_watch_ask(struct top_watch *w, const struct top_request *request)
{
    bool free_now;

    (void)pthread_mutex_lock(&w->mu);
    free_now = !w->request_waits && !w->answer_waits;
    if (free_now) {
        w->request = *request;
        w->request_waits = true;
        (void)pthread_cond_signal(&w->asked);
    }
    (void)pthread_mutex_unlock(&w->mu);
    return free_now;
}

bool top_watch_answer(struct top_watch *w, struct top_request *ret)
{
    bool there;

    (void)pthread_mutex_lock(&w->mu);
    if ((there = w->answer_waits)) {
        *ret = w->request;
        w->request = (struct top_request){.what = TOP_NOTHING};
        w->answer_waits = false;
    }
    (void)pthread_mutex_unlock(&w->mu);
    return there;
}

static void say_of(const rdl_holder_t *holder, bool evicted, void *arg)
{
    (void)fprintf(arg, evicted ? "evicted %s\n" : "%s no longer holds it: nothing was done to whoever does\n",
                  holder->owner);
}

static int evict_shown(rdl_client_t *client, const rdl_inspection_t *seen, FILE *said, rdl_err_t *err)
{
    rdl_lock_t *lock = NULL;
    int rc = evict_open(client, seen, &lock, err);

    if (rc == RDL_OK)
        rc = evict(lock, seen, NULL, say_of, said, err);
    rdl_lock_free(lock);
    return rc;
}

static void carry_out(rdl_client_t *client, struct top_request *request)
{
    rdl_err_t err = {0};
    size_t size;
    FILE *said = open_memstream(&request->said, &size);
    int rc;

    if (said == NULL) {
        request->failed = true;
        return;
    }
    if (request->what == TOP_SHOW)
        rc = rdl_inspect(client, request->name, request->name_len, &request->seen, &err);
    else
        rc = evict_shown(client, request->seen, said, &err);
    request->failed = rc < 0;
    if (rc < 0)
        (void)fprintf(said, "%s\n", err.message[0] != '\0' ? err.message : rdl_strerror(err.code));
    (void)fclose(said);
}

/* @locks w->mu, given up meanwhile */
static void answer_request(struct top_watch *w)
{
    struct top_request request = w->request;

    if (!w->request_waits)
        return;
    (void)pthread_mutex_unlock(&w->mu);
    carry_out(w->client, &request);
    (void)pthread_mutex_lock(&w->mu);
    w->request = request;
    w->request_waits = false;
    w->answer_waits = true;
    w->hurry = w->hurry || request.what == TOP_EVICT;
    tell(w);
}

/* ---- rounds ----------------------------------------------------------------------------------------------------- */

static int note(const rdl_inspection_t *found, const rdl_list_progress_t *progress, void *arg)
{
    struct top_watch *w = arg;
    bool stop;

    (void)progress;
    (void)pthread_mutex_lock(&w->mu);
    stop = w->ending || w->state.paused;
    if (!stop && !top_model_note(w->model, found, top_now()))
        w->state.no_memory = true;
    (void)pthread_mutex_unlock(&w->mu);
    return stop;
}

/* The names of those that are looked at: copies, for they may be forgotten meanwhile. NULL: no memory.  @locks w->mu */
static rdl_name_t *choose(struct top_watch *w, size_t *ret_count)
{
    const struct top_state *state = &w->state;
    struct top_lock *const *locks;
    size_t all = top_model_view(w->model, &state->view, &locks), n = 0;
    rdl_name_t *names = calloc(TOP_LOOKS_MOST + state->rows + 1, sizeof *names);

    for (size_t i = 0; names != NULL && i < all; i++) {
        char *copy;

        if (i >= TOP_LOOKS_MOST && (i < state->first || i >= state->first + state->rows))
            continue;
        if ((copy = malloc(locks[i]->name_len)) == NULL)
            break;
        memcpy(copy, locks[i]->name, locks[i]->name_len);
        names[n++] = (rdl_name_t){.bytes = copy, .len = locks[i]->name_len};
    }
    *ret_count = n;
    return names;
}

static int look_again(struct top_watch *w, rdl_err_t *err)
{
    size_t count = 0;
    rdl_name_t *names;
    int64_t rc = RDL_OK;

    (void)pthread_mutex_lock(&w->mu);
    names = choose(w, &count);
    (void)pthread_mutex_unlock(&w->mu);
    if (count > 0)
        rc = rdl_list_names(w->client, names, count, note, w, err);
    for (size_t i = 0; i < count; i++)
        free((char *)names[i].bytes);
    free(names);
    return rc < 0 ? (int)rc : RDL_OK;
}

static int look_at_masters(struct top_watch *w, rdl_err_t *err)
{
    rdl_master_t *master = calloc(TOP_MASTERS_MOST, sizeof *master);
    int count;

    if (master == NULL) {
        err->code = RDL_ENOMEM;
        return RDL_ENOMEM;
    }
    if ((count = rdl_masters(w->client, master, TOP_MASTERS_MOST, err)) > 0) {
        (void)pthread_mutex_lock(&w->mu);
        memcpy(w->state.master, master, sizeof w->state.master);
        w->state.masters = count;
        (void)pthread_mutex_unlock(&w->mu);
    }
    free(master);
    return count < 0 ? count : RDL_OK;
}

/* Whether it went well, for whoever looks. In a pause nothing is new: a round that it has cut short is none.
 * @locks w->mu */
static void end_round(struct top_watch *w, int rc, const rdl_err_t *err)
{
    struct top_state *state = &w->state;

    tell(w);
    if (state->paused)
        return;
    state->rounds++;
    top_model_sweep(w->model, 0);
    if (rc == RDL_OK) {
        state->answered_ms = top_now();
        state->trouble_ms = 0;
    } else {
        state->trouble_ms = state->trouble_ms != 0 ? state->trouble_ms : top_now();
        state->trouble = *err;
    }
}

/* Masters and known locks. */
static int look(struct top_watch *w)
{
    rdl_err_t err = {0};
    int rc = look_at_masters(w, &err);

    if (rc == RDL_OK)
        rc = look_again(w, &err);
    w->round_due_ms = top_now() + w->interval_ms;
    (void)pthread_mutex_lock(&w->mu);
    end_round(w, rc, &err);
    (void)pthread_mutex_unlock(&w->mu);
    return rc;
}

/* A step of a walk: what else is due in between. */
static int on_step(const rdl_inspection_t *found, const rdl_list_progress_t *progress, void *arg)
{
    struct top_watch *w = arg;
    bool stop;
    int rc = RDL_OK;

    if (found != NULL)
        return note(found, progress, arg);
    (void)pthread_mutex_lock(&w->mu);
    w->state.walk_keys = progress->keys;
    w->state.walk_total = progress->keys_total;
    answer_request(w);
    stop = w->ending || w->state.paused;
    if (w->hurry)
        w->round_due_ms = 0;
    w->hurry = false;
    (void)pthread_mutex_unlock(&w->mu);
    if (!stop && top_now() >= w->round_due_ms)
        w->walk_rc = rc = look(w);
    return stop || rc < 0;
}

static int walk(struct top_watch *w)
{
    int64_t began = top_now(), found;
    rdl_err_t err = {0};

    w->round_due_ms = began + w->interval_ms;
    w->walk_rc = RDL_OK;
    found = rdl_list(w->client, w->pattern, on_step, w, &err);
    (void)pthread_mutex_lock(&w->mu);
    w->state.walk_keys = w->state.walk_total = 0;
    if (found < 0) {
        end_round(w, (int)found, &err);
    } else if (!w->ending && !w->state.paused && w->walk_rc == RDL_OK) {
        int64_t took = top_now() - began;

        w->walk_due_ms = top_now() + (took > WALK_INTERVALS * w->interval_ms ? took : WALK_INTERVALS * w->interval_ms);
        w->state.walks++;
        top_model_sweep(w->model, began);
        end_round(w, RDL_OK, NULL);
    }
    (void)pthread_mutex_unlock(&w->mu);
    return found < 0 ? (int)found : w->walk_rc;
}

int top_watch_round(struct top_watch *w)
{
    int rc = look(w);

    if (rc == RDL_OK && top_now() >= w->walk_due_ms)
        rc = walk(w);
    return rc;
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

/* @locks w->mu */
static void wait_a_moment(struct top_watch *w)
{
    int64_t due = w->round_due_ms;
    struct timespec until = {.tv_sec = (time_t)(due / 1000), .tv_nsec = (long)(due % 1000) * 1000000};

    if (w->state.paused)
        (void)pthread_cond_wait(&w->asked, &w->mu);
    else
        (void)pthread_cond_timedwait(&w->asked, &w->mu, &until);
}

static void *run(void *arg)
{
    struct top_watch *w = arg;

    (void)pthread_mutex_lock(&w->mu);
    while (!w->ending) {
        if (w->request_waits) {
            answer_request(w);
        } else if (!w->state.paused && (w->hurry || top_now() >= w->round_due_ms)) {
            w->hurry = false;
            (void)pthread_mutex_unlock(&w->mu);
            (void)top_watch_round(w);
            (void)pthread_mutex_lock(&w->mu);
        } else {
            wait_a_moment(w);
        }
    }
    (void)pthread_mutex_unlock(&w->mu);
    return NULL;
}

int top_watch_start(struct top_watch *w)
{
    sigset_t all, before;
    int rc;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the viewer's */
    rc = pthread_create(&w->thread, NULL, run, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    w->started = rc == 0;
    return rc;
}

void top_watch_hurry(struct top_watch *w)
{
    (void)pthread_mutex_lock(&w->mu);
    w->hurry = true;
    (void)pthread_cond_signal(&w->asked);
    (void)pthread_mutex_unlock(&w->mu);
}

bool top_watch_end(struct top_watch *w)
{
    struct timespec until;

    if (!w->started)
        return true;
    (void)pthread_mutex_lock(&w->mu);
    w->ending = true;
    (void)pthread_cond_signal(&w->asked);
    (void)pthread_mutex_unlock(&w->mu);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += END_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    w->started = pthread_timedjoin_np(w->thread, NULL, &until) != 0;
    return !w->started;
}
