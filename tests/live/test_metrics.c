/* SPDX-License-Identifier: MIT */
/* test_metrics.c - what the text says of each lock is what has happened to it.
 *
 * expect_counts compares all samples that are not 0, but for those that depend on how fast the machine is. */
#include "tests/live/live.h"

#include <stdio.h>

#define LEASE_MS 60000

LIVE_SUITE(metrics, 60);

static rdl_metrics_t *metrics;

static void open_stage(bool proxied, int32_t names, int64_t lease_ms)
{
    rdl_metrics_options_t options = RDL_METRICS_OPTIONS_INIT;

    options.names = names;
    expect(RDL_OK, rdl_metrics_new(&options, &metrics, &err));
    stage_open(&st, .proxied = proxied, .client = OPTIONS(.metrics = metrics, .watchdog_lease_ms = lease_ms));
}

static void close_stage(void)
{
    st.client = rdl_client_close(st.client);
    metrics = rdl_metrics_free(metrics);
}

static char *text_of(void)
{
    char *text = rdl_metrics_text(metrics);

    cr_assert_not_null(text);
    return text;
}

/* The value of that sample; -1: there is none. */
static double sample(const char *name)
{
    char *text = text_of(), *line = must_format("\n%s ", name), *at = strstr(text, line);
    double value = at == NULL ? -1 : strtod(at + strlen(line), NULL);

    free(line);
    free(text);
    return value;
}

static bool is_about_time(const char *line)
{
    static const char *const words[] = {"#",          "_bucket{", "_sum",        "longest_hold",
                                        "round_trip", "renewed",  "script_loads"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(line, words[i]) != NULL)
            return true;
    return false;
}

/* Which samples there are that are not 0, without the prefix. */
static char *counts(void)
{
    char *text = text_of(), *rest = text, *line, *found = NULL;
    size_t len;
    FILE *to = open_memstream(&found, &len);

    while ((line = strsep(&rest, "\n")) != NULL)
        if (*line != '\0' && !is_about_time(line) && strcmp(strrchr(line, ' '), " 0") != 0)
            fprintf(to, "%s\n", line + strlen("redlatch_"));
    fclose(to);
    free(text);
    return found;
}

static bool counts_are(const char *expected)
{
    char *found = counts();
    bool yes = strcmp(found, expected) == 0;

    free(found);
    return yes;
}

static void expect_counts(const char *expected)
{
    char *found = counts();

    cr_assert_str_eq(found, expected);
    free(found);
}

/* ---- one lock --------------------------------------------------------------------------------------------------- */

Test(metrics, takes_waits_hand_offs_and_holds_are_counted_by_name)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *orders, *stock;
    struct monitor *monitor;

    open_stage(false, 0, LEASE_MS);
    monitor = monitor_start(st.server);
    orders = reentrant(st.client, "orders", NULL);
    stock = fair(st.client, "stock", NULL);
    expect_counts("");
    expect(RDL_OK, rdl_try_lock(orders, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(orders, 0, LEASE_MS, &err)); /* again: one hold */
    expect_counts("attempts_total{lock=\"orders\"} 2\nacquired_total{lock=\"orders\"} 2\n"
                  "wait_seconds_count{lock=\"orders\"} 2\nheld{lock=\"orders\"} 1\n");
    caller_lock(waiter, orders, LEASE_MS);
    expect_sleeps(monitor, "orders"); /* a try that is on its way when the lock is freed is no hand-off */
    cr_assert_eq(sample("redlatch_waiting{lock=\"orders\"}"), 1);
    expect(RDL_OK, rdl_unlock(orders, &err));
    expect(RDL_OK, rdl_unlock(orders, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    expect(RDL_ETIMEDOUT, rdl_try_lock(orders, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(stock, 0, LEASE_MS, &err));
    expect_counts("attempts_total{lock=\"orders\"} 4\nattempts_total{lock=\"stock\"} 1\n"
                  "acquired_total{lock=\"orders\"} 3\nacquired_total{lock=\"stock\"} 1\n"
                  "contended_total{lock=\"orders\"} 2\ntimed_out_total{lock=\"orders\"} 1\n"
                  "released_total{lock=\"orders\"} 1\n"
                  "wait_seconds_count{lock=\"orders\"} 3\nwait_seconds_count{lock=\"stock\"} 1\n"
                  "hold_seconds_count{lock=\"orders\"} 1\nhandoff_seconds_count{lock=\"orders\"} 1\n"
                  "held{lock=\"orders\"} 1\nheld{lock=\"stock\"} 1\n");
    cr_assert_geq(sample("redlatch_round_trip_seconds_count"), 6);
    caller_unlock(waiter, orders);
    expect_result(RDL_OK, waiter, SOON_MS);
    expect(RDL_OK, rdl_unlock(stock, &err));
    cr_assert_eq(sample("redlatch_held{lock=\"orders\"}"), 0);
    cr_assert_eq(sample("redlatch_longest_hold_seconds{lock=\"orders\"}"), 0);
    monitor_stop(monitor);
    caller_free(waiter);
    rdl_lock_free(orders);
    rdl_lock_free(stock);
    close_stage();
}

Test(metrics, risk_late_renewal_and_loss_are_counted)
{
    struct losses losses;
    rdl_lock_t *lock;

    losses_init(&losses);
    open_stage(true, 0, 9000);
    lock = reentrant(st.client, "orders", NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    proxy_freeze(st.proxy, PROXY_TO_CLIENT); /* the server has the renewal, and its answer comes late */
    cr_assert(losses_wait(&losses, RDL_AT_RISK, 1, 3 * SOON_MS));
    proxy_thaw(st.proxy, PROXY_TO_CLIENT);
    cr_assert(WAIT_UNTIL(sample("redlatch_renewals_late_total") == 1, SOON_MS));
    (void)probe_int(st.probe, "DEL orders");
    cr_assert(losses_wait(&losses, RDL_LOST, 1, 3 * SOON_MS));
    cr_assert_eq(sample("redlatch_held{lock=\"orders\"}"), 1, "it was not given back yet");
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    expect_counts(
        "attempts_total{lock=\"orders\"} 1\nacquired_total{lock=\"orders\"} 1\nlost_total{lock=\"orders\"} 1\n"
        "at_risk_total{lock=\"orders\"} 1\nrenewals_late_total 1\nwait_seconds_count{lock=\"orders\"} 1\n"
        "hold_seconds_count{lock=\"orders\"} 1\n");
    rdl_lock_free(lock);
    close_stage();
}

Test(metrics, unknown_outcomes_and_what_became_of_them_are_counted)
{
    rdl_lock_t *lock;
    int reply;

    open_stage(true, 0, LEASE_MS);
    lock = reentrant(st.client, "orders", NULL);
    reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = "orders");
    expect(RDL_EUNKNOWN, rdl_try_lock(lock, 100, LEASE_MS, &err));
    expect_counts("attempts_total{lock=\"orders\"} 1\nunknown_total{lock=\"orders\"} 1\n");
    proxy_let_go(st.proxy, reply);
    cr_assert(WAIT_UNTIL(counts_are("attempts_total{lock=\"orders\"} 1\nunknown_total{lock=\"orders\"} 1\n"
                                    "undone_total{lock=\"orders\"} 1\n"),
                         SOON_MS));
    rdl_lock_free(lock);
    close_stage();
}

Test(metrics, the_longest_of_several_holds_is_the_oldest_that_is_left)
{
    struct caller *first = caller_new();
    int64_t second_began;
    rdl_lock_t *lock;

    open_stage(false, 0, LEASE_MS);
    lock = read_end(st.client, "orders", NULL);
    caller_lock(first, lock, LEASE_MS);
    expect_result(RDL_OK, first, SOON_MS);
    cr_assert(WAIT_UNTIL(sample("redlatch_longest_hold_seconds{lock=\"orders\"}") > 0.2, SOON_MS));
    second_began = now_us();
    expect(RDL_OK, rdl_lock(lock, LEASE_MS, &err));
    cr_assert_eq(sample("redlatch_held{lock=\"orders\"}"), 2);
    cr_assert_gt(sample("redlatch_longest_hold_seconds{lock=\"orders\"}"), 0.2);
    caller_unlock(first, lock);
    expect_result(RDL_OK, first, SOON_MS);
    cr_assert_leq(sample("redlatch_longest_hold_seconds{lock=\"orders\"}"), (double)(now_us() - second_began) / 1e6);
    cr_assert_eq(sample("redlatch_held{lock=\"orders\"}"), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    caller_free(first);
    rdl_lock_free(lock);
    close_stage();
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

Test(metrics, names_beyond_the_first_are_added_up_and_all_survive_their_handles)
{
    static const char *const names[] = {"a", "b", "c", "d", "a"};

    open_stage(false, 2, LEASE_MS);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        rdl_lock_t *lock = reentrant(st.client, names[i], NULL);

        expect(RDL_OK, rdl_lock(lock, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        rdl_lock_free(lock);
    }
    expect_counts(
        "attempts_total{lock=\"\"} 2\nattempts_total{lock=\"a\"} 2\nattempts_total{lock=\"b\"} 1\n"
        "acquired_total{lock=\"\"} 2\nacquired_total{lock=\"a\"} 2\nacquired_total{lock=\"b\"} 1\n"
        "released_total{lock=\"\"} 2\nreleased_total{lock=\"a\"} 2\nreleased_total{lock=\"b\"} 1\n"
        "wait_seconds_count{lock=\"\"} 2\nwait_seconds_count{lock=\"a\"} 2\nwait_seconds_count{lock=\"b\"} 1\n"
        "hold_seconds_count{lock=\"\"} 2\nhold_seconds_count{lock=\"a\"} 2\n"
        "hold_seconds_count{lock=\"b\"} 1\n");
    close_stage();
}

Test(metrics, a_hold_whose_handle_owner_or_client_goes_is_held_no_more)
{
    rdl_owner_t *owner;
    rdl_lock_t *lock;
    struct outcome taken = {0};

    left_behind = true;
    open_stage(false, 0, LEASE_MS);
    lock = reentrant(st.client, "handle", NULL);
    expect(RDL_OK, rdl_lock(lock, LEASE_MS, &err));
    cr_assert_eq(sample("redlatch_held{lock=\"handle\"}"), 1);
    rdl_lock_free(lock);
    cr_assert_eq(sample("redlatch_held{lock=\"handle\"}"), 0);
    lock = reentrant(st.client, "owner", NULL);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    expect(RDL_OK, rdl_lock_async(lock, owner, LEASE_MS, outcome_note, &taken, NULL, &err));
    cr_assert_eq(outcome_wait(&taken, SOON_MS), RDL_OK);
    cr_assert_eq(sample("redlatch_held{lock=\"owner\"}"), 1);
    rdl_owner_free(owner);
    cr_assert_eq(sample("redlatch_held{lock=\"owner\"}"), 0);
    cr_assert_eq(sample("redlatch_lost_total{lock=\"owner\"}"), 1);
    rdl_lock_free(lock);
    lock = reentrant(st.client, "client", NULL);
    expect(RDL_OK, rdl_lock(lock, LEASE_MS, &err));
    st.client = rdl_client_close(st.client);
    cr_assert_eq(sample("redlatch_held{lock=\"client\"}"), 1, "its handle is still there");
    metrics = rdl_metrics_free(metrics); /* they stay for those that count in them */
    rdl_lock_free(lock);
}

Test(metrics, several_clients_count_in_the_same)
{
    rdl_client_t *other;
    rdl_lock_t *mine, *others;

    open_stage(false, 0, LEASE_MS);
    other = client_open(stage_uri(&st), OPTIONS(.metrics = metrics));
    mine = reentrant(st.client, "orders", NULL);
    others = reentrant(other, "orders", NULL);
    expect(RDL_OK, rdl_lock(mine, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(others, 0, LEASE_MS, &err));
    expect_counts("attempts_total{lock=\"orders\"} 2\nacquired_total{lock=\"orders\"} 1\n"
                  "contended_total{lock=\"orders\"} 1\ntimed_out_total{lock=\"orders\"} 1\n"
                  "wait_seconds_count{lock=\"orders\"} 1\nheld{lock=\"orders\"} 1\n");
    expect(RDL_OK, rdl_unlock(mine, &err));
    rdl_lock_free(mine);
    rdl_lock_free(others);
    rdl_client_close(other);
    close_stage();
}

/* ---- what is no single lock ------------------------------------------------------------------------------------- */

Test(metrics, a_multi_lock_counts_by_its_members)
{
    rdl_lock_t *member[2], *both;

    open_stage(false, 0, LEASE_MS);
    member[0] = reentrant(st.client, "a", NULL);
    member[1] = reentrant(st.client, "b", NULL);
    expect(RDL_OK, rdl_multi_lock(member, 2, NULL, &both, &err));
    expect(RDL_OK, rdl_lock(both, LEASE_MS, &err));
    expect_counts("attempts_total{lock=\"a\"} 1\nattempts_total{lock=\"b\"} 1\nacquired_total{lock=\"a\"} 1\n"
                  "acquired_total{lock=\"b\"} 1\nwait_seconds_count{lock=\"a\"} 1\nwait_seconds_count{lock=\"b\"} 1\n"
                  "held{lock=\"a\"} 1\nheld{lock=\"b\"} 1\n");
    expect(RDL_OK, rdl_unlock(both, &err));
    cr_assert_eq(sample("redlatch_released_total{lock=\"b\"}"), 1);
    cr_assert_eq(sample("redlatch_held{lock=\"b\"}"), 0);
    rdl_lock_free(both);
    rdl_lock_free(member[0]);
    rdl_lock_free(member[1]);
    close_stage();
}

Test(metrics, a_call_whose_time_was_over_before_it_began_is_an_attempt)
{
    struct caller *holder = caller_new();
    struct outcome waiting = {0}, queued = {0};
    rdl_owner_t *owner;
    rdl_lock_t *lock;

    open_stage(false, 0, LEASE_MS);
    lock = reentrant(st.client, "orders", NULL);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    caller_lock(holder, lock, LEASE_MS);
    expect_result(RDL_OK, holder, SOON_MS);
    expect(RDL_OK, rdl_lock_async(lock, owner, LEASE_MS, outcome_note, &waiting, NULL, &err));
    expect(RDL_OK, rdl_try_lock_async(lock, owner, 5, LEASE_MS, outcome_note, &queued, NULL, &err));
    expect(RDL_ETIMEDOUT, outcome_wait(&queued, SOON_MS));
    cr_assert_eq(sample("redlatch_attempts_total{lock=\"orders\"}"), 3);
    cr_assert_eq(sample("redlatch_timed_out_total{lock=\"orders\"}"), 1);
    caller_unlock(holder, lock);
    expect_result(RDL_OK, holder, SOON_MS);
    expect(RDL_OK, outcome_wait(&waiting, SOON_MS));
    rdl_owner_free(owner); /* gives it back */
    caller_free(holder);
    rdl_lock_free(lock);
    close_stage();
}

static int64_t await(void *arg, rdl_err_t *e)
{
    return rdl_latch_await(arg, 10 * (int64_t)SOON_MS, e);
}

Test(metrics, semaphores_and_latches_count_attempts_and_waits)
{
    struct caller *waiter = caller_new();
    rdl_semaphore_t *pool = NULL;
    rdl_latch_t *latch = NULL;
    int64_t gets;

    left_behind = true; /* the semaphore's count */
    open_stage(false, 0, LEASE_MS);
    expect(RDL_OK, rdl_semaphore(st.client, "pool", NULL, &pool, &err));
    expect(RDL_OK, rdl_latch(st.client, "latch", NULL, &latch, &err));
    expect(1, rdl_semaphore_try_set_permits(pool, 1, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(pool, 1, 0, &err));
    expect(RDL_ETIMEDOUT, rdl_semaphore_try_acquire(pool, 1, 0, &err));
    expect(1, rdl_latch_try_set_count(latch, 1, &err));
    gets = probe_calls(st.probe, "get");
    caller_call(waiter, await, latch);
    cr_assert(WAIT_UNTIL(probe_calls(st.probe, "get") == gets + 2, SOON_MS), "it has not looked when it listened");
    cr_assert_eq(sample("redlatch_waiting{lock=\"latch\"}"), 1);
    expect(0, rdl_latch_count_down(latch, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    expect_counts("attempts_total{lock=\"pool\"} 2\nattempts_total{lock=\"latch\"} 1\n"
                  "acquired_total{lock=\"pool\"} 1\nacquired_total{lock=\"latch\"} 1\n"
                  "contended_total{lock=\"pool\"} 1\ncontended_total{lock=\"latch\"} 1\n"
                  "timed_out_total{lock=\"pool\"} 1\nwait_seconds_count{lock=\"pool\"} 1\n"
                  "wait_seconds_count{lock=\"latch\"} 1\nhandoff_seconds_count{lock=\"latch\"} 1\n");
    rdl_semaphore_free(pool);
    rdl_latch_free(latch);
    caller_free(waiter);
    close_stage();
}
