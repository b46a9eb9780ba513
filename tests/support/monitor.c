/* SPDX-License-Identifier: MIT */
/* monitor.c - the monitor of probe.h: a thread that reads what MONITOR sends and keeps the lines.
 *
 * The lines are only added, under mu, and freed at the end, so a mark is simply their number. monitor_mark sends a
 * command that nobody else sends and waits for its line: MONITOR shows commands in the order in which the server ran
 * them, so everything before it has been seen then.
 */
#include "tests/support/probe.h"
#include "tests/support/wait.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 20 /* how often the thread looks whether it is to end */
#define MARK_BOUND_MS 10000

struct monitor {
    struct probe *reader; /* its thread's alone */
    struct probe *marker;
    pthread_t thread;
    atomic_bool end;
    pthread_mutex_t mu;
    pthread_cond_t more;
    /* under mu */
    char **lines;
    size_t count;
    size_t cap;
    unsigned marks;
};

static void keep(struct monitor *m, const char *line)
{
    pthread_mutex_lock(&m->mu);
    if (m->count == m->cap) {
        m->cap = m->cap * 2 + 64;
        m->lines = must_realloc(m->lines, m->cap * sizeof *m->lines);
    }
    m->lines[m->count++] = must_format("%s", line);
    pthread_cond_broadcast(&m->more);
    pthread_mutex_unlock(&m->mu);
}

static void *run(void *arg)
{
    struct monitor *m = arg;

    while (!atomic_load(&m->end)) {
        const struct reply *line = probe_next(m->reader, LOOK_MS);

        if (line != NULL && line->text != NULL)
            keep(m, line->text);
    }
    return NULL;
}

struct monitor *monitor_start(const struct server *s)
{
    struct monitor *m = must_alloc(sizeof *m);

    m->reader = probe_open(s);
    m->marker = probe_open(s);
    pthread_mutex_init(&m->mu, NULL);
    cond_init(&m->more);
    (void)probe_text(m->reader, "MONITOR");
    if (pthread_create(&m->thread, NULL, run, m) != 0)
        die("cannot start a thread");
    return m;
}

void monitor_stop(struct monitor *m)
{
    if (m == NULL)
        return;
    atomic_store(&m->end, true);
    pthread_join(m->thread, NULL);
    probe_close(m->reader);
    probe_close(m->marker);
    for (size_t i = 0; i < m->count; i++)
        free(m->lines[i]);
    free(m->lines);
    pthread_mutex_destroy(&m->mu);
    pthread_cond_destroy(&m->more);
    free(m);
}

/* `1700000000.000000 [0 lua] "get" "k"`: does the part in brackets name a script? */
static bool from_script(const char *line)
{
    const char *bracket = strchr(line, ']');

    return bracket != NULL && bracket - line >= 4 && memcmp(bracket - 4, " lua", 4) == 0;
}

/* Case is ignored: command names arrive as they were typed. */
static bool contains_all(const char *line, const char *needles)
{
    char *list = must_format("%s", needles);
    char *rest = list;
    bool all = true;

    for (char *needle; all && (needle = strsep(&rest, "|")) != NULL;)
        all = strcasestr(line, needle) != NULL;
    free(list);
    return all;
}

/* @locks mu held */
static size_t count_lines(const struct monitor *m, size_t mark, const char *needles, bool lua)
{
    size_t n = 0;

    for (size_t i = mark; i < m->count; i++)
        n += from_script(m->lines[i]) == lua && contains_all(m->lines[i], needles);
    return n;
}

static size_t count_locked(struct monitor *m, size_t mark, const char *needles, bool lua)
{
    size_t n;

    pthread_mutex_lock(&m->mu);
    n = count_lines(m, mark, needles, lua);
    pthread_mutex_unlock(&m->mu);
    return n;
}

size_t monitor_count(struct monitor *m, size_t mark, const char *needles)
{
    return count_locked(m, mark, needles, false);
}

size_t monitor_count_lua(struct monitor *m, size_t mark, const char *needles)
{
    return count_locked(m, mark, needles, true);
}

bool monitor_wait(struct monitor *m, size_t mark, const char *needles, size_t n, int64_t bound_ms)
{
    struct timespec end = until_ms(bound_ms);
    bool in_time = true;
    bool met;

    pthread_mutex_lock(&m->mu);
    while (!(met = count_lines(m, mark, needles, false) >= n) && in_time)
        in_time = pthread_cond_timedwait(&m->more, &m->mu, &end) == 0;
    pthread_mutex_unlock(&m->mu);
    return met;
}

size_t monitor_mark_behind(struct monitor *m, size_t mark, const char *needles, int64_t bound_ms)
{
    size_t behind = mark + 1;

    if (!monitor_wait(m, mark, needles, 1, bound_ms))
        return 0;
    pthread_mutex_lock(&m->mu);
    while (count_lines(m, behind - 1, needles, false) == count_lines(m, behind, needles, false))
        behind++;
    pthread_mutex_unlock(&m->mu);
    return behind;
}

size_t monitor_mark(struct monitor *m)
{
    char *word = must_format("monitor-mark-%u", m->marks++);
    size_t seen;

    (void)probe_text(m->marker, "ECHO %s", word);
    if (!monitor_wait(m, 0, word, 1, MARK_BOUND_MS))
        die("monitor: the server's commands are not seen");
    pthread_mutex_lock(&m->mu);
    seen = m->count;
    pthread_mutex_unlock(&m->mu);
    free(word);
    return seen;
}

void monitor_print(struct monitor *m, size_t mark)
{
    pthread_mutex_lock(&m->mu);
    for (size_t i = mark; i < m->count; i++)
        fprintf(stderr, "    %s\n", m->lines[i]);
    pthread_mutex_unlock(&m->mu);
}
