/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/text.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define LINE_CAP 1024
#define LINES_MAX 64
#define FLUSH_MS 1000
#define REPEATS_MAX 8  /* lines of which repeats are counted */
#define REPEAT_MS 5000 /* and for how long */

static const char ellipsis[] = "...";

const char *text_safe(const char *bytes, size_t len, char to[TEXT_SAFE_CAP])
{
    static const char hex[] = "0123456789abcdef";
    size_t at = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        size_t width = c >= 0x20 && c < 0x7f ? 1 : 4;

        if (at + width + sizeof ellipsis > TEXT_SAFE_CAP) {
            memcpy(to + at, ellipsis, sizeof ellipsis - 1);
            at += sizeof ellipsis - 1;
            break;
        }
        if (width == 1) {
            to[at] = (char)c;
        } else {
            to[at] = '\\';
            to[at + 1] = 'x';
            to[at + 2] = hex[c >> 4];
            to[at + 3] = hex[c & 0xf];
        }
        at += width;
    }
    to[at] = '\0';
    return to;
}

/* ---- the queue -------------------------------------------------------------------------------------------------- */

/* `dropped` lines are missing before this one. */
struct line {
    size_t len;
    unsigned long dropped;
    char bytes[LINE_CAP];
};

/* Said lately; again until `until_ms` it is only counted. */
struct repeat {
    int64_t until_ms;
    unsigned long more;
    char text[LINE_CAP];
};

/* Lines stay where they are until they are written, so that an empty queue has nothing left to be written. */
static struct queue {
    pthread_mutex_t mu;
    pthread_cond_t filled; /* neither before there is a writer */
    pthread_cond_t emptied;
    bool has_writer;
    bool busy; /* something is to be written, or being written */
    bool stamped;
    bool status_due;       /* it is to be written anew */
    int status_shown;      /* so many columns of it stand on the terminal */
    char status[LINE_CAP]; /* "": there is none */
    size_t first, count;
    unsigned long dropped; /* behind the last line */
    struct line lines[LINES_MAX];
    struct repeat repeats[REPEATS_MAX];
} queue = {.mu = PTHREAD_MUTEX_INITIALIZER};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct timespec timespec_of(int64_t ms)
{
    return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
}

/* Lay out one line.  @locks queue.mu */
static void lay_out(struct line *line, const char *text)
{
    static const char prefix[] = "redlatch: ";
    size_t at = sizeof prefix - 1;
    struct timespec now;
    struct tm utc;
    size_t len;

    memcpy(line->bytes, prefix, at);
    if (queue.stamped && clock_gettime(CLOCK_REALTIME, &now) == 0 && gmtime_r(&now.tv_sec, &utc) != NULL) {
        at += strftime(line->bytes + at, LINE_CAP - at, "%Y-%m-%dT%H:%M:%S", &utc);
        at += (size_t)snprintf(line->bytes + at, LINE_CAP - at, ".%03dZ ", (int)(now.tv_nsec / 1000000));
    }
    len = strnlen(text, LINE_CAP - at - 1);
    memcpy(line->bytes + at, text, len);
    line->bytes[at + len] = '\n';
    line->len = at + len + 1;
}

/* @locks queue.mu */
static void put(const char *text)
{
    struct line *line = &queue.lines[(queue.first + queue.count) % LINES_MAX];

    queue.busy = true;
    if (queue.count == LINES_MAX) {
        queue.dropped++;
        return;
    }
    queue.count++;
    line->dropped = queue.dropped;
    queue.dropped = 0;
    lay_out(line, text);
}

/* ---- repeats ---------------------------------------------------------------------------------------------------- */

/* Its time is over: say how often it was repeated, and count on, or forget it.  @locks queue.mu */
static void end_repeat(struct repeat *r, int64_t now)
{
    char text[LINE_CAP + 32];

    if (r->more > 0) {
        snprintf(text, sizeof text, "%.*s (%lu times more)", LINE_CAP - 96, r->text, r->more);
        put(text);
    }
    r->until_ms = r->more > 0 ? now + REPEAT_MS : 0;
    r->more = 0;
}

/* Say of all whose time is over at `now` how often they were repeated. Returns when the next one's is, or INT64_MAX.
 * @locks queue.mu */
static int64_t end_repeats(int64_t now)
{
    int64_t next = INT64_MAX;

    for (struct repeat *r = queue.repeats; r < queue.repeats + REPEATS_MAX; r++) {
        if (r->until_ms <= now)
            end_repeat(r, now);
        if (r->more > 0 && r->until_ms < next)
            next = r->until_ms;
    }
    return next;
}

/* Was it said lately? Then it is counted; else it is remembered.  @locks queue.mu */
static bool is_repeat(const char *text, int64_t now)
{
    struct repeat *oldest = queue.repeats;

    for (struct repeat *r = queue.repeats; r < queue.repeats + REPEATS_MAX; r++) {
        if (r->until_ms > now && strcmp(r->text, text) == 0) {
            r->more++;
            return true;
        }
        if (r->until_ms < oldest->until_ms)
            oldest = r;
    }
    end_repeat(oldest, now);
    oldest->until_ms = now + REPEAT_MS;
    memcpy(oldest->text, text, strlen(text) + 1);
    return false;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* The descriptor is shared with others, who may have made it one that does not wait. */
static bool can_go_on(int errnum)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};

    if (errnum == EAGAIN)
        poll(&fd, 1, -1);
    return errnum == EAGAIN || errnum == EINTR;
}

static void write_all(const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, bytes, len);

        if (n < 0 && can_go_on(errno))
            continue;
        if (n <= 0)
            return;
        bytes += n;
        len -= (size_t)n;
    }
}

/* A terminal that obeys no sequences of characters, such as an editor's, still goes back to the first column. */
static bool is_dumb(void)
{
    const char *term = getenv("TERM");

    return term == NULL || term[0] == '\0' || strcmp(term, "dumb") == 0;
}

/* Take the status away, if it is there. It comes again behind what is said.  @locks queue.mu, given up meanwhile */
static void clear_status(void)
{
    char clear[LINE_CAP + 16] = "\r\033[K";

    if (queue.status_shown == 0)
        return;
    if (is_dumb())
        (void)snprintf(clear, sizeof clear, "\r%*s\r", queue.status_shown, "");
    queue.status_shown = 0;
    queue.status_due = true;
    pthread_mutex_unlock(&queue.mu);
    write_all(clear, strlen(clear));
    pthread_mutex_lock(&queue.mu);
}

/* @locks queue.mu, given up meanwhile */
static void write_status(void)
{
    char line[LINE_CAP + 16];
    struct winsize size;
    int columns = LINE_CAP;

    queue.status_due = false;
    if (queue.status[0] == '\0')
        return;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && size.ws_col < LINE_CAP)
        columns = size.ws_col - 1;
    (void)snprintf(line, sizeof line, "redlatch: %s", queue.status);
    queue.status_shown = (int)strnlen(line, (size_t)columns);
    pthread_mutex_unlock(&queue.mu);
    write_all(line, strnlen(line, (size_t)columns));
    pthread_mutex_lock(&queue.mu);
}

/* Write the first line, or that there would be more.  @locks queue.mu, given up meanwhile */
static void write_next(void)
{
    struct line *line = queue.count > 0 ? &queue.lines[queue.first] : NULL;
    unsigned long dropped = line != NULL ? line->dropped : queue.dropped;
    struct line notice = {.len = 0};
    char text[80];

    if (dropped > 0) {
        snprintf(text, sizeof text, "%lu lines are missing here: nobody read this output", dropped);
        lay_out(&notice, text);
    }
    if (line == NULL)
        queue.dropped = 0;
    pthread_mutex_unlock(&queue.mu);
    write_all(notice.bytes, notice.len);
    if (line != NULL)
        write_all(line->bytes, line->len);
    pthread_mutex_lock(&queue.mu);
    if (line == NULL)
        return;
    queue.first = (queue.first + 1) % LINES_MAX;
    queue.count--;
}

static void *write_queue(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&queue.mu);
    for (;;) {
        int64_t next_ms = end_repeats(now_ms());
        struct timespec next = timespec_of(next_ms);

        if (queue.count > 0 || queue.dropped > 0 || queue.status_due)
            clear_status();
        if (queue.count > 0 || queue.dropped > 0) {
            write_next();
            continue;
        }
        if (queue.status_due) {
            write_status();
            continue;
        }
        queue.busy = false;
        pthread_cond_broadcast(&queue.emptied);
        if (next_ms == INT64_MAX)
            pthread_cond_wait(&queue.filled, &queue.mu);
        else
            pthread_cond_timedwait(&queue.filled, &queue.mu, &next);
    }
    return NULL;
}

/* Started when there is something to say. Signals are the other threads': a terminal that stops background jobs when
 * they write does not stop us either.  @locks queue.mu */
static bool start_writer(void)
{
    pthread_condattr_t clock;
    pthread_t thread;
    sigset_t all, before;

    if (queue.has_writer)
        return true;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&queue.filled, &clock);
    pthread_cond_init(&queue.emptied, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    queue.has_writer = pthread_create(&thread, NULL, write_queue, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (queue.has_writer)
        pthread_detach(thread);
    return queue.has_writer;
}

/* ---- saying ----------------------------------------------------------------------------------------------------- */

/* Without a thread: only if it can be written at once.  @locks queue.mu */
static void say_at_once(const char *text)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct line line;

    lay_out(&line, text);
    if (poll(&fd, 1, 0) == 1)
        write_all(line.bytes, line.len);
}

void text_say(const char *format, ...)
{
    char text[LINE_CAP];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&queue.mu);
    if (!start_writer()) {
        say_at_once(text);
    } else {
        if (!is_repeat(text, now_ms()))
            put(text);
        pthread_cond_signal(&queue.filled); /* for a repeat as well: there is a time now when it is over */
    }
    pthread_mutex_unlock(&queue.mu);
}

void text_status(const char *line)
{
    if (line != NULL && (isatty(STDERR_FILENO) != 1 || tcgetpgrp(STDERR_FILENO) != getpgrp()))
        return;
    pthread_mutex_lock(&queue.mu);
    if ((line != NULL || queue.status[0] != '\0') && start_writer()) {
        (void)snprintf(queue.status, sizeof queue.status, "%s", line != NULL ? line : "");
        queue.busy = queue.status_due = true;
        pthread_cond_signal(&queue.filled);
    }
    pthread_mutex_unlock(&queue.mu);
    if (line == NULL)
        text_flush();
}

void text_stamp(void)
{
    pthread_mutex_lock(&queue.mu);
    queue.stamped = true;
    pthread_mutex_unlock(&queue.mu);
}

void text_flush(void)
{
    struct timespec end = timespec_of(now_ms() + FLUSH_MS);

    pthread_mutex_lock(&queue.mu);
    if (queue.has_writer) {
        end_repeats(INT64_MAX - REPEAT_MS);
        pthread_cond_signal(&queue.filled);
    }
    while (queue.busy && pthread_cond_timedwait(&queue.emptied, &queue.mu, &end) == 0)
        continue;
    pthread_mutex_unlock(&queue.mu);
}
