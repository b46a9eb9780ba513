/* SPDX-License-Identifier: MIT */
#include "tests/support/race.h"
#include "tests/support/wait.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_SECONDS 12
#define PRINTED_VIOLATIONS 5
#define LONGER_MS 30000
#define WANTED_MAX 4

static unsigned seed = 1;
static int64_t end_ms;
static int passed, failed;
static atomic_uint violations;
static struct {
    const atomic_ullong *count;
    unsigned long long above;
} wanted[WANTED_MAX];
static int wanted_count;

void race_begin(int argc, char **argv)
{
    long seconds = argc > 2 ? strtol(argv[2], NULL, 10) : DEFAULT_SECONDS;

    if (argc > 1)
        seed = (unsigned)strtoul(argv[1], NULL, 10);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %u, %ld s\n", seed, seconds);
    end_ms = now_ms() + seconds * 1000;
}

int64_t race_left_ms(void)
{
    return end_ms - now_ms();
}

void race_wants(const atomic_ullong *count, unsigned long long above)
{
    if (wanted_count == WANTED_MAX)
        die("a race wants too much");
    wanted[wanted_count].count = count;
    wanted[wanted_count++].above = above;
}

bool race_had_them(void)
{
    int i = 0;

    while (i < wanted_count && atomic_load(wanted[i].count) > wanted[i].above)
        i++;
    return i == wanted_count;
}

bool race_goes_on(void)
{
    int64_t left = race_left_ms();

    return left > 0 || (left > -LONGER_MS && !race_had_them());
}

int race_end(void)
{
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

void race_claim(bool holds, const char *claim)
{
    if (holds)
        passed++;
    else
        failed++;
    printf("%s: %s\n", holds ? "ok" : "FAILED", claim);
}

void race_violation(const char *format, ...)
{
    char line[512];
    va_list args;

    if (atomic_fetch_add(&violations, 1) >= PRINTED_VIOLATIONS)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    printf("violation: %s\n", line);
}

unsigned race_violations(void)
{
    return atomic_exchange(&violations, 0);
}

void race_start(struct race_thread *threads, int n, void *(*fn)(void *), void *arg)
{
    for (int i = 0; i < n; i++) {
        threads[i] = (struct race_thread){.number = i, .random = seed * 7919u + (unsigned)i * 104729u, .arg = arg};
        if (pthread_create(&threads[i].id, NULL, fn, &threads[i]) != 0)
            die("cannot start a thread");
    }
}

void race_join(struct race_thread *threads, int n)
{
    for (int i = 0; i < n; i++)
        pthread_join(threads[i].id, NULL);
}

void race_lives(struct race_thread *thread, void *(*fn)(void *thread), const atomic_bool *over)
{
    while (!atomic_load(over)) {
        struct race_thread next = {
            .number = thread->number, .random = (unsigned)rand_r(&thread->random), .arg = thread->arg};

        if (pthread_create(&next.id, NULL, fn, &next) != 0)
            die("cannot start a thread");
        pthread_join(next.id, NULL);
    }
}

int race_below(unsigned *random, int n)
{
    return rand_r(random) % n;
}

void guarded_enter(struct guarded *g, int64_t token)
{
    if (atomic_fetch_add(&g->inside, 1) != 0)
        race_violation("two are inside");
    if (atomic_load(&g->readers) != 0)
        race_violation("somebody reads what is written");
    if (token != 0 && token <= g->last_token)
        race_violation("token %lld after %lld", (long long)token, (long long)g->last_token);
    if (token != 0)
        g->last_token = token;
    g->uses++;
}

void guarded_leave(struct guarded *g)
{
    atomic_fetch_sub(&g->inside, 1);
}

int64_t guarded_read(struct guarded *g)
{
    atomic_fetch_add(&g->readers, 1);
    if (atomic_load(&g->inside) != 0)
        race_violation("somebody writes what is read");
    return g->uses;
}

void guarded_has_read(struct guarded *g)
{
    atomic_fetch_sub(&g->readers, 1);
}
