/* SPDX-License-Identifier: MIT */
/* race_metrics.c - many threads take and give back locks whose handles come and go, in two clients that count in the
 * same metrics, while others read those. Counters never go back, a histogram's parts agree, and at the end everything
 * was counted, by its name or among the rest. */
#include "tests/support/race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, READERS = 2, NAMES = 12, COUNTED = 5 };

static rdl_client_t *clients[2];
static rdl_metrics_t *metrics;
static atomic_bool over;
static atomic_ullong taken, refused, hurried, texts;

static void *take(void *arg)
{
    struct race_thread *t = arg;

    while (!atomic_load(&over)) {
        char name[16];
        rdl_lock_t *lock;
        int rc;

        (void)snprintf(name, sizeof name, "name%d", race_below(&t->random, NAMES));
        lock = reentrant(clients[race_below(&t->random, 2)], name, NULL);
        rc = rdl_try_lock(lock, race_below(&t->random, 20), 60000, NULL);
        if (rc == RDL_OK && rdl_unlock(lock, NULL) == RDL_OK)
            atomic_fetch_add(&taken, 1);
        else if (rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN) /* at its end it was asleep, or trying */
            atomic_fetch_add(&refused, 1);
        else if (rc == RDL_ECONN) /* not connected yet, and in a hurry */
            atomic_fetch_add(&hurried, 1);
        else
            race_violation("a lock that came to nothing: %s", rdl_err_name(rc));
        rdl_lock_free(lock);
    }
    return NULL;
}

/* The sum of the samples that begin so. */
static unsigned long long sum_of(const char *text, const char *family)
{
    unsigned long long sum = 0;

    for (const char *at = text; (at = strstr(at, family)) != NULL; at++)
        sum += strtoull(strstr(at, "} ") + 2, NULL, 10);
    return sum;
}

static void *read_on(void *arg)
{
    unsigned long long attempts = 0;

    (void)arg;
    while (!atomic_load(&over)) {
        char *text = rdl_metrics_text(metrics);
        unsigned long long now = sum_of(text, "\nredlatch_attempts_total{");

        if (now < attempts)
            race_violation("%llu attempts after %llu", now, attempts);
        if (sum_of(text, "\nredlatch_held{") > THREADS)
            race_violation("more holds than threads");
        attempts = now;
        atomic_fetch_add(&texts, 1);
        free(text);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct race_thread threads[THREADS], readers[READERS];
    struct stage st;
    char *text;

    race_begin(argc, argv);
    race_wants(&taken, 100);
    race_wants(&texts, 10);
    if (rdl_metrics_new(&(rdl_metrics_options_t){.version = RDL_METRICS_OPTIONS_VERSION, .names = COUNTED}, &metrics,
                        NULL) != RDL_OK)
        return 1;
    stage_open(&st, .client = OPTIONS(.metrics = metrics));
    clients[0] = st.client;
    clients[1] = client_open(stage_uri(&st), OPTIONS(.metrics = metrics));
    race_start(threads, THREADS, take, NULL);
    race_start(readers, READERS, read_on, NULL);
    while (race_goes_on())
        let_pass_ms(3);
    atomic_store(&over, true);
    race_join(threads, THREADS);
    race_join(readers, READERS);
    text = rdl_metrics_text(metrics);
    printf("%llu taken, %llu refused, %llu texts\n", taken, refused, texts);
    race_claim(race_violations() == 0, "nothing goes back");
    race_claim(race_had_them(), "locks were taken, and metrics read");
    race_claim(sum_of(text, "\nredlatch_attempts_total{") == taken + refused + hurried, "every attempt was counted");
    race_claim(sum_of(text, "\nredlatch_timed_out_total{") + sum_of(text, "\nredlatch_unknown_total{") == refused,
               "every refusal was counted");
    race_claim(sum_of(text, "\nredlatch_released_total{") == taken, "every release was counted");
    race_claim(sum_of(text, "\nredlatch_wait_seconds_count{") == taken, "every wait was counted");
    race_claim(sum_of(text, "\nredlatch_held{") == 0, "nothing is held");
    race_claim(sum_of(text, "\nredlatch_waiting{") == 0, "nobody waits");
    free(text);
    race_claim(stage_ends_clean(&st, 5000), "nothing is left at the server");
    rdl_client_close(clients[1]);
    stage_close(&st);
    (void)rdl_metrics_free(metrics);
    return race_end();
}
