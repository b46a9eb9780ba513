/* SPDX-License-Identifier: MIT */
/* measure.c - see measure.h. */
#include "tools/benchmarks/programs/measure.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- time ------------------------------------------------------------------------------------------------------- */

int64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SEC + t.tv_nsec;
}

static int64_t of_timeval(struct timeval t)
{
    return t.tv_sec * SEC + t.tv_usec * US;
}

int64_t cpu_ns(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return of_timeval(usage.ru_utime) + of_timeval(usage.ru_stime);
}

void pause_ns(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / SEC, .tv_nsec = ns % SEC};

    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

void sleep_until(int64_t then)
{
    int64_t left = then - now_ns();

    if (left > 0)
        pause_ns(left);
}

struct phase phase_from_now(const struct run *run)
{
    int64_t now = now_ns();
    int64_t start = now + (int64_t)(run->warmup * (double)SEC);

    if (run->count > 0)
        return (struct phase){.start = now, .end = INT64_MAX};
    return (struct phase){.start = start, .end = start + (int64_t)(run->seconds * (double)SEC)};
}

/* ---- samples ---------------------------------------------------------------------------------------------------- */

void samples_add(struct samples *s, int64_t ns)
{
    if (s->count == s->room) {
        s->room = s->room == 0 ? 4096 : 2 * s->room;
        if ((s->ns = realloc(s->ns, s->room * sizeof *s->ns)) == NULL)
            fail("out of memory");
    }
    s->ns[s->count++] = ns;
}

void samples_add_all(struct samples *to, const struct samples *from)
{
    for (size_t i = 0; i < from->count; i++)
        samples_add(to, from->ns[i]);
}

void samples_done(struct samples *s)
{
    free(s->ns);
    *s = (struct samples){0};
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static bool answered;

void answer_number(const char *name, double value)
{
    printf("%s\"%s\":%.4f", answered ? "," : "{", name, value);
    answered = true;
}

void answer_samples(const char *prefix, struct samples *s)
{
    static const struct {
        const char *name;
        double share;
    } wanted[] = {{"min_us", 0}, {"p50_us", 0.5}, {"p99_us", 0.99}, {"p999_us", 0.999}, {"max_us", 1}};
    char name[64];

    if (s->count == 0)
        fail("nothing happened in the measured time");
    qsort(s->ns, s->count, sizeof *s->ns, by_size);
    (void)snprintf(name, sizeof name, "%scount", prefix);
    answer_number(name, (double)s->count);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        (void)snprintf(name, sizeof name, "%s%s", prefix, wanted[i].name);
        answer_number(name, (double)s->ns[(size_t)(wanted[i].share * (double)(s->count - 1))] / (double)US);
    }
}

void answer_end(void)
{
    puts(answered ? "}" : "{}");
    if (fflush(stdout) != 0)
        fail("standard output: %s", strerror(errno));
}

/* ---- the rest --------------------------------------------------------------------------------------------------- */

void fail(const char *text, ...)
{
    va_list args;

    (void)fputs("measure: ", stderr);
    va_start(args, text);
    (void)vfprintf(stderr, text, args);
    va_end(args);
    (void)fputc('\n', stderr);
    _exit(1);
}

void *allocate(size_t count, size_t size)
{
    void *block = calloc(count, size);

    if (block == NULL)
        fail("out of memory");
    return block;
}

void *share(size_t size)
{
    void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (block == MAP_FAILED)
        fail("out of memory");
    return block;
}

void raise_to(_Atomic int64_t *most, int64_t value)
{
    int64_t seen = atomic_load(most);

    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value))
        ;
}

char *format(const char *text, ...)
{
    char *made = NULL;
    va_list args;

    va_start(args, text);
    if (vasprintf(&made, text, args) < 0)
        fail("out of memory");
    va_end(args);
    return made;
}

void run_threads(int64_t count, void *(*body)(void *part), void *parts, size_t part_size)
{
    pthread_t *threads = allocate((size_t)count, sizeof *threads);

    for (int64_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, body, (char *)parts + (size_t)i * part_size) != 0)
            fail("cannot start thread %lld of %lld", (long long)i + 1, (long long)count);
    for (int64_t i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    free(threads);
}
