/* SPDX-License-Identifier: MIT */
/* test_cached_harm.c - locks that stay with their client (option cache_ms), and what goes wrong around them: renewals
 * that are late, answers, recalls and connections that are lost, processes that stop, fork or die, rights that are
 * missing.
 */
#include "tests/live/live.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "catalogue"
#define LEASE_MS 10000
#define LONG_MS 60000 /* a cache that does not end by itself before a test does */
#define LIFE_MS 6000  /* of a lease that is renewed */

LIVE_SUITE(cached_harm, 60);

static struct losses losses;

static void take(rdl_lock_t *lock)
{
    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, RDL_LEASE_AUTO, &err));
}

static void give(rdl_lock_t *lock)
{
    expect(RDL_OK, rdl_unlock(lock, &err));
}

/* The field of a hold that is kept, `U:-n`; "": there is none. It is good until the probe's next question. */
static const char *kept_field(void)
{
    const struct reply *keys = probe_ask(st.probe, "HKEYS " NAME);

    return keys->count == 1 && strlen(keys->items[0].text) > 38 && keys->items[0].text[37] == '-' ? keys->items[0].text
                                                                                                  : "";
}

static bool is_kept(void)
{
    return kept_field()[0] != '\0';
}

/* Use the lock until it stays, and is idle. */
static void make_idle(rdl_lock_t *lock)
{
    bool kept = false;

    for (int i = 0; i < 1000 && !kept; i++) {
        take(lock);
        give(lock);
        kept = is_kept();
    }
    cr_assert(kept, "the lock is never kept");
}

/* A lock that stays, is idle, and whose losses are noted. */
static rdl_lock_t *idle(rdl_client_t *client, int64_t cache_ms)
{
    rdl_lock_t *lock = reentrant(client, NAME, LOCK_OPTIONS(.cache_ms = cache_ms));

    losses_init(&losses);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    make_idle(lock);
    return lock;
}

/* ---- renewals --------------------------------------------------------------------------------------------------- */

/* Renewals come late, until the owner inside is at risk. The line is not cut by that. */
static void be_at_risk(rdl_lock_t *lock, unsigned times)
{
    proxy_freeze(st.proxy, PROXY_TO_SERVER);
    cr_assert(losses_wait(&losses, RDL_AT_RISK, times, LIFE_MS), "%u times told", losses_count(&losses, RDL_AT_RISK));
    expect(RDL_AT_RISK, rdl_hold_state(lock, &err));
    proxy_thaw(st.proxy, PROXY_TO_SERVER);
    cr_assert(WAIT_UNTIL(rdl_hold_state(lock, &err) == RDL_HELD, LIFE_MS));
}

Test(cached_harm, risk_says_for_how_long_the_hold_is_valid_however_long_it_is_held)
{
    rdl_lock_t *lock;
    int64_t until;

    stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = LIFE_MS));
    lock = idle(st.client, LONG_MS);
    take(lock);
    for (until = now_ms() + LIFE_MS * 3 / 2; now_ms() < until; let_pass_ms(50)) /* renewed past its first lease */
        expect_between(LIFE_MS / 4, rdl_remaining_ms(lock, &err), LIFE_MS);
    be_at_risk(lock, 1);
    expect_between(1, losses_get(&losses, RDL_AT_RISK)->remaining_ms, LIFE_MS * 2 / 3);
    give(lock);
    rdl_lock_free(lock);
}

Test(cached_harm, every_owner_of_a_kept_hold_is_told_that_it_is_at_risk)
{
    char field[80];
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = LIFE_MS));
    lock = idle(st.client, LONG_MS);
    (void)snprintf(field, sizeof field, "%s", kept_field());
    for (unsigned i = 1; i <= 3; i++) {
        take(lock);
        be_at_risk(lock, i);
        give(lock);
        cr_assert_str_eq(kept_field(), field);
    }
    cr_assert_eq(losses_count(&losses, RDL_AT_RISK), 3);
    rdl_lock_free(lock);
}

/* ---- extending -------------------------------------------------------------------------------------------------- */

/* It may have run: then an idle hold would outlive its process by that long. */
Test(cached_harm, hold_that_an_unanswered_extend_may_have_stretched_is_not_kept)
{
    for (int nested = 0; nested < 2; nested++) {
        rdl_lock_t *lock;

        stage_open(&st, .proxied = true, .client = OPTIONS(.command_timeout_ms = 500));
        lock = idle(st.client, LONG_MS);
        take(lock);
        (void)proxy_on(st.proxy, .action = PROXY_ANSWER, .part = PROXY_REPLY, .contains = "3600000", .answer = "");
        expect(RDL_EUNKNOWN, nested ? rdl_try_lock(lock, 0, 3600000, &err) : rdl_extend(lock, 3600000, &err));
        cr_assert_gt(probe_int(st.probe, "PTTL " NAME), 3000000);
        give(lock);
        cr_assert(WAIT_UNTIL(!is_kept(), SOON_MS));
        rdl_lock_free(lock);
        live_again();
    }
}

/* The owner's own lease is over when the answer comes: then it is nobody's any more. */
Test(cached_harm, hold_that_was_stretched_for_an_owner_who_has_lost_it_is_not_kept)
{
    struct actor *owner = actor_new();
    rdl_lock_t *lock;
    int64_t lease_ms = 700;
    int rule;

    stage_open(&st, .proxied = true);
    lock = idle(st.client, LONG_MS);
    actor_try_lock(owner, lock, 0, lease_ms);
    expect_result(RDL_OK, owner, SOON_MS);
    rule = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .contains = "3600000");
    actor_try_lock(owner, lock, 0, 3600000);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    proxy_let_go(st.proxy, rule);
    expect_result(RDL_ELOST, owner, SOON_MS);
    cr_assert(WAIT_UNTIL(!is_kept(), SOON_MS));
    actor_unlock(owner, lock);
    expect_result(RDL_ELOST, owner, SOON_MS);
    actor_free(owner);
    rdl_lock_free(lock);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static rdl_lock_t *freed_meanwhile; /* as the next block is asked for, which is refused */

static void *alloc(size_t size, void *arg)
{
    (void)arg;
    if (freed_meanwhile == NULL || size < 200) /* a handle is smaller, what keeps a lock is not */
        return malloc(size);
    freed_meanwhile = rdl_lock_free(freed_meanwhile);
    return NULL;
}

static void dealloc(void *block, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    free(block);
}

Test(cached_harm, handle_that_could_not_be_made_and_is_the_last_leaves_nothing_kept)
{
    const rdl_allocator_t hooks = {alloc, dealloc, NULL};
    rdl_lock_t *lock, *second = NULL;

    stage_open(&st, .client = OPTIONS(.allocator = &hooks));
    lock = idle(st.client, LONG_MS);
    freed_meanwhile = lock;
    expect(RDL_ENOMEM, rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.cache_ms = LONG_MS), &second, &err));
    cr_assert_null(freed_meanwhile);
    cr_assert(stage_is_clean(&st, SOON_MS)); /* long before its lease is over */
}
