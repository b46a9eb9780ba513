/* SPDX-License-Identifier: MIT */
/* test_observe.c - what log and metrics say is what has happened. */
#include "tests/live/live.h"

#include <stdio.h>
#include <unistd.h>

#define NAME "watched"
#define LEASE_MS 10000

LIVE_SUITE(observe, 60);

#define LINES_MAX 500

static struct {
    pthread_mutex_t mu;
    struct {
        rdl_log_level_t level;
        char text[400];
    } lines[LINES_MAX];
    unsigned count;
    unsigned bad; /* with a newline in it */
} logged = {.mu = PTHREAD_MUTEX_INITIALIZER};

static void note_line(rdl_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&logged.mu);
    if (logged.count < LINES_MAX) {
        logged.lines[logged.count].level = level;
        strncpy(logged.lines[logged.count].text, line, sizeof logged.lines[0].text - 1);
        logged.count++;
    }
    logged.bad += strpbrk(line, "\r\n") != NULL;
    pthread_mutex_unlock(&logged.mu);
}

static unsigned lines_of(rdl_log_level_t least, const char *word)
{
    unsigned n = 0;

    pthread_mutex_lock(&logged.mu);
    for (unsigned i = 0; i < logged.count; i++)
        n += logged.lines[i].level >= least && strcasestr(logged.lines[i].text, word) != NULL;
    pthread_mutex_unlock(&logged.mu);
    return n;
}

static rdl_metrics_t *metrics;

static uint64_t counter(rdl_metric_t metric)
{
    rdl_metric_value_t value;

    rdl_metrics_get(metrics, metric, &value);
    return value.sum;
}

static rdl_metric_value_t histogram(rdl_metric_t metric)
{
    rdl_metric_value_t value;

    rdl_metrics_get(metrics, metric, &value);
    return value;
}

static void open_stage(rdl_log_level_t level)
{
    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    stage_open(&st, .proxied = true,
               .client = OPTIONS(.metrics = metrics, .log = note_line, .log_level = level, .watchdog_lease_ms = 4500));
}

static void close_stage(void)
{
    st.client = rdl_client_close(st.client);
    cr_assert_eq(logged.bad, 0);
    cr_assert_null(rdl_metrics_free(metrics));
}

Test(observe, counts_attempts_acquisitions_contentions_time_outs_and_releases)
{
    struct caller *rival = caller_new();
    rdl_lock_t *lock;

    open_stage(RDL_LOG_DEBUG);
    lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < 5; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    cr_assert_eq(counter(RDL_M_ATTEMPTS), 5);
    cr_assert_eq(counter(RDL_M_ACQUIRED), 5);
    cr_assert_eq(counter(RDL_M_RELEASED), 5);
    cr_assert_eq(counter(RDL_M_CONTENDED), 0);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(counter(RDL_M_RELEASED), 5); /* outermost holds only */
    caller_try_lock(rival, lock, 1500, LEASE_MS);
    expect_result(RDL_ETIMEDOUT, rival, SOON_MS);
    cr_assert_eq(counter(RDL_M_CONTENDED), 1);
    cr_assert_eq(counter(RDL_M_TIMED_OUT), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(counter(RDL_M_ATTEMPTS), 8);
    cr_assert_eq(counter(RDL_M_ACQUIRED), 7);
    cr_assert_eq(counter(RDL_M_RELEASED), 6);
    cr_assert_eq(counter(RDL_M_LOST), 0);
    caller_free(rival);
    rdl_lock_free(lock);
    close_stage();
}

Test(observe, measures_waits_holds_and_round_trips)
{
    struct caller *waiter = caller_new();
    rdl_metric_value_t waits, holds, trips;
    rdl_lock_t *lock;
    uint64_t in_buckets = 0;

    open_stage(RDL_LOG_DEBUG);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    caller_try_lock(waiter, lock, SOON_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    let_pass_ms(100);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    waits = histogram(RDL_M_WAIT_US);
    holds = histogram(RDL_M_HOLD_US);
    trips = histogram(RDL_M_RTT_US);
    cr_assert_eq(waits.count, 2);
    cr_assert_eq(holds.count, 2);
    cr_assert_geq(trips.count, 4);
    expect_between(95000, (int64_t)waits.sum, 1000 * SOON_MS);
    expect_between(95000, (int64_t)holds.sum, 1000 * SOON_MS);
    for (size_t i = 0; i < sizeof waits.buckets / sizeof *waits.buckets; i++)
        in_buckets += waits.buckets[i];
    cr_assert_eq(in_buckets, 2);
    caller_free(waiter);
    rdl_lock_free(lock);
    close_stage();
}

Test(observe, counts_and_logs_renewals_losses_and_risks)
{
    struct losses losses;
    rdl_lock_t *lock;

    losses_init(&losses);
    open_stage(RDL_LOG_DEBUG);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    cr_assert(WAIT_UNTIL(counter(RDL_M_RENEWED) >= 2, SOON_MS));
    proxy_freeze(st.proxy, PROXY_BOTH_WAYS);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, 2 * SOON_MS));
    cr_assert_eq(counter(RDL_M_LOST), 1);
    cr_assert_eq(counter(RDL_M_AT_RISK), 1);
    cr_assert(WAIT_UNTIL(lines_of(RDL_LOG_ERROR, NAME) >= 1, SOON_MS)); /* hold lost */
    cr_assert_geq(lines_of(RDL_LOG_WARN, NAME), 1);                     /* at risk */
    proxy_thaw(st.proxy, PROXY_BOTH_WAYS);
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    close_stage();
}

Test(observe, counts_and_logs_reconnects_unknown_outcomes_and_script_loads)
{
    rdl_lock_t *lock;
    int reply;

    open_stage(RDL_LOG_DEBUG);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(counter(RDL_M_RECONNECTS), 0);
    proxy_cut(st.proxy, PROXY_ALL);
    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    /* both connections: each loads the scripts when it is made, and one that is made after the flush hides it */
    cr_assert(WAIT_UNTIL(counter(RDL_M_RECONNECTS) >= 2, SOON_MS));
    cr_assert_geq(lines_of(RDL_LOG_WARN, "connection"), 1);
    (void)probe_text(st.probe, "SCRIPT FLUSH");
    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_geq(counter(RDL_M_SCRIPT_LOADS), 1);
    reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
    expect(RDL_EUNKNOWN, rdl_try_lock(lock, 100, LEASE_MS, &err));
    cr_assert_eq(counter(RDL_M_UNKNOWN), 1);
    cr_assert_geq(lines_of(RDL_LOG_WARN, NAME), 1);
    proxy_let_go(st.proxy, reply);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    rdl_lock_free(lock);
    close_stage();
}

/* Open a client that has to say it, take a lock on a connection of its own, and close it: how often was it said? */
static unsigned policies_told(void)
{
    unsigned before = lines_of(RDL_LOG_WARN, "maxmemory-policy is volatile-lru");
    rdl_client_t *client = client_open(stage_uri(&st), OPTIONS(.log = note_line, .log_level = RDL_LOG_WARN));
    rdl_lock_t *lock = reentrant(client, NAME, NULL);

    cr_assert_eq(rdl_try_lock(lock, 0, RDL_LEASE_AUTO, NULL), RDL_OK);
    cr_assert_eq(rdl_unlock(lock, NULL), RDL_OK);
    rdl_lock_free(lock);
    rdl_client_close(client);
    return lines_of(RDL_LOG_WARN, "maxmemory-policy is volatile-lru") - before;
}

Test(observe, an_eviction_policy_that_takes_locks_is_told_once_by_each_client)
{
    open_stage(RDL_LOG_DEBUG);
    cr_assert_eq(policies_told(), 0);
    (void)probe_text(st.probe, "CONFIG SET maxmemory-policy volatile-lru");
    cr_assert_eq(policies_told(), 0, "without maxmemory nothing is evicted");
    (void)probe_text(st.probe, "CONFIG SET maxmemory 100mb");
    cr_assert_eq(policies_told(), 1);
    cr_assert_eq(policies_told(), 1);
    close_stage();
}

Test(observe, passes_on_nothing_below_the_level_asked_for)
{
    rdl_lock_t *lock;

    open_stage(RDL_LOG_ERROR);
    lock = reentrant(st.client, NAME, NULL);
    proxy_cut(st.proxy, PROXY_ALL);
    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(logged.count, 0);
    rdl_lock_free(lock);
    close_stage();
}

/* The library prints nothing by itself: a run without sinks leaves both standard streams alone. */
Test(observe, silent_without_a_sink)
{
    rdl_lock_t *lock;
    FILE *out, *complaints;

    fflush(stdout);
    fflush(stderr);
    stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = 1500));
    out = freopen("/dev/null", "w", stdout);
    complaints = tmpfile();
    cr_assert_not_null(out);
    cr_assert_geq(dup2(fileno(complaints), fileno(stderr)), 0);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    proxy_cut(st.proxy, PROXY_ALL);
    (void)probe_int(st.probe, "DEL " NAME);
    let_pass_ms(1500);
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    st.client = rdl_client_close(st.client);
    fseek(complaints, 0, SEEK_END);
    cr_assert_eq(ftell(complaints), 0);
    fclose(complaints);
}

/* A server that is away for long is no reason to fill the log: 103 equal lines in 5 s were seen. */
Test(observe, outage_is_one_line_and_the_end_of_it_another)
{
    rdl_lock_t *lock;

    st.server = server_start(&(struct server_options){.tcp = true});
    st.probe = probe_open(st.server);
    st.client = client_open(server_uri(st.server),
                            OPTIONS(.log = note_line, .reconnect_max_ms = 20, .command_timeout_ms = 500));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    probe_close(st.probe);
    server_kill(st.server);
    (void)rdl_try_lock(lock, 2000, LEASE_MS, &err); /* two lines try to connect for as long */
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    expect(RDL_OK, rdl_try_lock(lock, 20000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_geq(lines_of(RDL_LOG_WARN, "cannot connect"), 1);
    cr_assert_leq(lines_of(RDL_LOG_WARN, "cannot connect"),
                  4); /* what is refused, and what a server says that is just starting */
    cr_assert_geq(lines_of(RDL_LOG_INFO, "reachable again after"), 1);
    cr_assert_geq(lines_of(RDL_LOG_INFO, "attempts in vain"), 1);
    rdl_lock_free(lock);
}

/* ---- the function may wait -------------------------------------------------------------------------------------- */

static _Atomic int stops_at; /* the function stays as long as this is the metric that it was told */
static _Atomic unsigned stopped;

static void stop_there(rdl_metric_t metric, int64_t value, void *arg)
{
    (void)value;
    (void)arg;
    if ((int)metric != stops_at)
        return;
    stopped++;
    while ((int)metric == stops_at)
        let_pass_ms(1);
}

static int64_t ask_if_held(void *lock, rdl_err_t *e)
{
    return rdl_is_held(lock, e);
}

/* A program may have a mutex of its own that its function waits for, while the thread that has it uses the lock. What
 * becomes of a kept lock is counted by the loop, and decided under the lock's mutex. */
Test(observe, metrics_function_that_waits_for_a_thread_keeps_no_lock_from_it)
{
    static const rdl_metric_t then[] = {RDL_M_RECALLS, RDL_M_KEPT_RECALLED, RDL_M_RECALL_US};
    struct caller *a = caller_new(), *b = caller_new();
    rdl_lock_t *lock, *elsewhere;
    rdl_client_t *other;

    stage_open(&st, .client = OPTIONS(.metrics_fn = stop_there));
    other = client_open(stage_uri(&st), NULL);
    elsewhere = reentrant(other, NAME, NULL);
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.cache_ms = 60000));
    stops_at = RDL_M_KEPT;
    for (int i = 0; i < 1000 && stopped == 0; i++) { /* until it is kept */
        caller_try_lock(a, lock, SOON_MS, RDL_LEASE_AUTO);
        expect_result(RDL_OK, a, SOON_MS);
        caller_unlock(a, lock);
        expect_result(RDL_OK, a, SOON_MS);
    }
    caller_try_lock(b, elsewhere, 10 * SOON_MS, LEASE_MS);
    for (size_t i = 0; i < sizeof then / sizeof then[0]; i++) {
        stops_at = then[i];
        cr_assert(WAIT_UNTIL(stopped == i + 2, SOON_MS), "%s", rdl_metric_name(then[i]));
        caller_call(a, ask_if_held, lock);
        expect_result(0, a, SOON_MS);
    }
    stops_at = RDL_METRIC_COUNT;
    expect_result(RDL_OK, b, SOON_MS);
    caller_unlock(b, elsewhere);
    expect_result(RDL_OK, b, SOON_MS);
    caller_free(a);
    caller_free(b);
    rdl_lock_free(lock);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
}
