/* SPDX-License-Identifier: MIT */
/* live.h - for the Criterion programs of this folder: one stage a test, and assertions that say what the library said.
 *
 * A program declares its suite with LIVE_SUITE and opens the stage that its test wants first thing. After every test
 * the stage must be clean: no key and no subscription left at the server, unless the test ends with `left_behind =
 * true`.
 */
#ifndef TESTS_LIVE_LIVE_H
#define TESTS_LIVE_LIVE_H

#include "tests/support/caller.h"
#include "tests/support/notes.h"
#include "tests/support/stage.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CLEAN_BOUND_MS 5000
#define WOKEN_MS 3000 /* whoever was not woken looks by itself after 5 s */
#define SLACK_MS 2500 /* how late a thread of a busy machine may be; bounds that tell right from wrong are wider */

static struct stage st;
__attribute__((unused)) static rdl_err_t err; /* main thread's */
static bool left_behind;                      /* what is left is the test's subject or lives on its lease */

static inline void live_fini(void)
{
    if (st.server == NULL)
        return;
    cr_expect_eq(stage_refusals(&st), 0, "something was tried that a client's rights do not allow");
    if (!left_behind && st.client != NULL)
        cr_expect(stage_is_clean(&st, CLEAN_BOUND_MS), "left behind: %" PRId64 " keys, %" PRId64 " channels",
                  probe_keys(st.probe), probe_channels(st.probe));
    stage_close(&st);
}

/* One test, another stage. */
static inline void live_again(void)
{
    live_fini();
    st = (struct stage){0};
}

#define LIVE_SUITE(name, seconds) TestSuite(name, .fini = live_fini, .timeout = (seconds))

static inline const char *code_name(int64_t code)
{
    const char *name = code >= INT32_MIN && code <= 0 ? rdl_err_name((int)code) : NULL;

    return name != NULL ? name : "a number";
}

/* How many calls wait for the lock of that name, by their clients' metrics. */
static inline int waiting_for(const rdl_metrics_t *metrics, const char *name)
{
    char *series = must_format("\nredlatch_waiting{lock=\"%s\"} ", name), *text = rdl_metrics_text(metrics);
    const char *at = strstr(text, series);
    int count = at == NULL ? 0 : atoi(at + strlen(series));

    free(text);
    free(series);
    return count;
}

/* The call returns `expected`. It fills `err`, if anything. */
#define expect(expected, call)                                                                                         \
    do {                                                                                                               \
        int64_t expect_want_ = (expected);                                                                             \
        int64_t expect_got_;                                                                                           \
        memset(&err, 0, sizeof err);                                                                                   \
        expect_got_ = (call);                                                                                          \
        cr_assert_eq(expect_got_, expect_want_, "%s: %" PRId64 " (%s: %s), expected %" PRId64 " (%s)", #call,          \
                     expect_got_, code_name(expect_got_), err.message, expect_want_, code_name(expect_want_));         \
    } while (0)

/* The caller's verb returns `expected` in time. */
#define expect_result(expected, caller, bound_ms)                                                                      \
    do {                                                                                                               \
        int64_t expect_want_ = (expected);                                                                             \
        int64_t expect_got_ = caller_result((caller), (bound_ms));                                                     \
        cr_assert_eq(expect_got_, expect_want_, "%s: %" PRId64 " (%s: %s), expected %" PRId64 " (%s)", #caller,        \
                     expect_got_, code_name(expect_got_), caller_error(caller)->message, expect_want_,                 \
                     code_name(expect_want_));                                                                         \
    } while (0)

#define expect_between(low, value, high)                                                                               \
    do {                                                                                                               \
        int64_t expect_value_ = (value);                                                                               \
        cr_assert(expect_value_ >= (low) && expect_value_ <= (high),                                                   \
                  "%s is %" PRId64 ", not in %" PRId64 "..%" PRId64, #value, expect_value_, (int64_t)(low),            \
                  (int64_t)(high));                                                                                    \
    } while (0)

/* An err that speaks of a failure says everything: which code, which lock, which server. */
#define expect_err_names(error, want_code, want_lock)                                                                  \
    do {                                                                                                               \
        cr_assert_eq((error)->code, (want_code), "code %d", (error)->code);                                            \
        cr_assert_str_eq((error)->lock, (want_lock));                                                                  \
        cr_assert_neq((error)->message[0], '\0');                                                                      \
    } while (0)

/* The command has reached the server so many times since, and so many channels are subscribed to: those who wait are
 * asleep by now. A waiter's first try is one, and the try after its subscription has been confirmed another. */
static inline void expect_asleep_at(struct probe *p, bool sharded, const char *command, int64_t calls_before,
                                    int64_t calls, int64_t channels)
{
    cr_assert(WAIT_UNTIL(probe_calls(p, command) >= calls_before + calls && probe_channels_of(p, sharded) >= channels,
                         SOON_MS),
              "%" PRId64 " times %s, expected %" PRId64 "; %" PRId64 " channels, expected %" PRId64,
              probe_calls(p, command) - calls_before, command, calls, probe_channels_of(p, sharded), channels);
    let_pass_ms(20); /* the answer to the last of them */
}

/* Whoever waits has come to listen there, and has asked once more since. */
__attribute__((unused)) static void expect_asks_behind(struct monitor *monitor, const char *channel,
                                                       const char *command, const char *name)
{
    char *listens = must_format("SUBSCRIBE|%s", channel), *asks = must_format("\"%s\"|\"%s\"", command, name);
    size_t behind = monitor_mark_behind(monitor, 0, listens, SOON_MS);

    cr_assert(behind > 0 && monitor_wait(monitor, behind, asks, 1, SOON_MS), "%s has not been asked for again", name);
    free(asks);
    free(listens);
}

/* The one client in line for a lock that another of ours has, by what the monitor has seen: it has come to listen for
 * all, and has tried again since, in vain. From then on it tries when it is woken, or as the holder's lease ends. Who
 * is just subscribed, or has tried twice, has another try or two before it. */
__attribute__((unused)) static void expect_sleeps(struct monitor *monitor, const char *name)
{
    char *channel = must_format("\"redisson_lock__channel:{%s}\"", name);

    expect_asks_behind(monitor, channel, "EVALSHA", name);
    free(channel);
}

/* The same of the only one that waits for a lock of any type that is not spun for. */
__attribute__((unused)) static void expect_sleeps_for(struct monitor *monitor, const struct kind *kind,
                                                      const char *name)
{
    char *channel = must_format("{%s}", name);

    if (kind->constructor == rdl_reentrant_lock || kind->constructor == rdl_nonreentrant_lock ||
        kind->constructor == rdl_fenced_lock)
        expect_sleeps(monitor, name);
    else
        expect_asks_behind(monitor, channel, "EVALSHA", name);
    free(channel);
}

static inline void expect_asleep(int64_t scripts_before, int64_t scripts, int64_t channels)
{
    expect_asleep_at(st.probe, false, "evalsha", scripts_before, scripts, channels);
}

/* All take a free lock each, at the same time, and then all give it back. */
__attribute__((unused)) static void take_and_give_at_once(struct caller *const *callers, rdl_lock_t *const *locks,
                                                          int count, int64_t lease_ms)
{
    for (int i = 0; i < count; i++)
        caller_try_lock(callers[i], locks[i], 0, lease_ms);
    for (int i = 0; i < count; i++)
        expect_result(RDL_OK, callers[i], SOON_MS);
    for (int i = 0; i < count; i++)
        caller_unlock(callers[i], locks[i]);
    for (int i = 0; i < count; i++)
        expect_result(RDL_OK, callers[i], SOON_MS);
}

#endif
