/* SPDX-License-Identifier: MIT */
/* test_names.c - X3: a lock's name is any bytes. */
#include "tests/live/live.h"

#define LEASE_MS 20000

LIVE_SUITE(names, 60);

struct name {
    const char *bytes;
    size_t len;
};

static rdl_lock_t *lock_of(rdl_client_t *client, bool is_simple, struct name name)
{
    const rdl_lock_options_t *options = LOCK_OPTIONS(.name_len = name.len);

    return is_simple ? simple(client, name.bytes, options) : reentrant(client, name.bytes, options);
}

static bool key_exists(struct name name)
{
    const char *const words[] = {"EXISTS", name.bytes};
    const size_t lens[] = {6, name.len};

    return probe_ask_argv(st.probe, 2, words, lens)->integer == 1;
}

/* Taken, refused to another client, handed over by message, given back; under exactly this key. */
static void expect_works(bool is_simple, struct name name)
{
    struct caller *waiter = caller_new();
    rdl_client_t *other = client_open(stage_uri(&st), NULL);
    rdl_lock_t *lock = lock_of(st.client, is_simple, name);
    rdl_lock_t *elsewhere = lock_of(other, is_simple, name);
    size_t len = 0;

    cr_assert_eq(memcmp(rdl_lock_name(lock, &len), name.bytes, name.len), 0);
    cr_assert_eq(len, name.len);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert(key_exists(name));
    cr_assert_eq(probe_keys(st.probe), 1);
    expect(RDL_ETIMEDOUT, rdl_try_lock(elsewhere, 0, LEASE_MS, &err));
    caller_try_lock(waiter, elsewhere, 10000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, WOKEN_MS);
    caller_unlock(waiter, elsewhere);
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert_eq(probe_keys(st.probe), 0);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
    rdl_lock_free(lock);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
    caller_free(waiter);
}

Test(names, empty_and_oversized_names_are_refused)
{
    char *name = must_alloc(RDL_NAME_MAX + 2);
    rdl_lock_t *lock = NULL;

    stage_open(&st);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, "", NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NULL, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_simple_lock(st.client, "", NULL, &lock, &err));
    memset(name, 'n', RDL_NAME_MAX + 1);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, name, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_simple_lock(st.client, name, LOCK_OPTIONS(.name_len = RDL_NAME_MAX + 1), &lock, &err));
    cr_assert_null(lock);
    free(name);
}

Test(names, names_of_64_kib_and_of_the_largest_size_work)
{
    static const size_t sizes[] = {64 * 1024, RDL_NAME_MAX};
    char *bytes = must_alloc(RDL_NAME_MAX + 1);

    stage_open(&st);
    for (size_t i = 0; i < RDL_NAME_MAX; i++)
        bytes[i] = (char)('a' + i % 26);
    for (size_t i = 0; i < 2; i++) {
        expect_works(false, (struct name){bytes, sizes[i]});
        expect_works(true, (struct name){bytes, sizes[i]});
    }
    free(bytes);
}

Test(names, any_bytes_work)
{
    static const struct name odd[] = {
        {"a\0b", 3},
        {"\0", 1},
        {"\0\0\0\0", 4},
        {"\xff\xfe\x80not utf-8\xc0", 13},
        {"spaces and \"quotes\" and 'more'", 30},
        {"\r\n*1\r\n$8\r\nFLUSHALL\r\n", 20},
        {"%s%n%d", 6},
        {"\xe2\x82\xac", 3},
        {"*", 1},
        {"[a-z]?", 6},
    };
    char all[256];

    stage_open(&st);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        expect_works(false, odd[i]);
        expect_works(true, odd[i]);
    }
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    expect_works(false, (struct name){all, sizeof all});
}

/* wire.md, Names: traps for whoever derives keys and channels. On one server all of them work. */
Test(names, braces_work_wherever_they_are)
{
    static const char *const traps[] = {"a{b", "x{}y",      "a}b",      "{}",    "}{",    "{",
                                        "}",   "{tag}rest", "pre{tag}", "{{x}}", "{a}{b}"};

    stage_open(&st);
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        expect_works(false, (struct name){traps[i], strlen(traps[i])});
        expect_works(true, (struct name){traps[i], strlen(traps[i])});
    }
}

Test(names, channel_is_the_one_that_redisson_uses)
{
    static const struct {
        const char *name;
        const char *channel;
    } pairs[] = {
        {"plain", "redisson_lock__channel:{plain}"},
        {"a}b", "redisson_lock__channel:{a}b}"},
        {"a{b}c", "redisson_lock__channel:a{b}c"},
        {"{}", "redisson_lock__channel:{}"},
    };
    struct caller *waiter = caller_new();

    stage_open(&st);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        rdl_lock_t *lock = reentrant(st.client, pairs[i].name, NULL);

        foreign_take(st.probe, pairs[i].name, LEASE_MS);
        caller_try_lock(waiter, lock, 10000, LEASE_MS);
        cr_assert(WAIT_UNTIL(probe_listeners_of(st.probe, false, pairs[i].channel) == 1, SOON_MS));
        cr_assert_eq(foreign_release(st.probe, pairs[i].name), 1);
        expect_result(RDL_OK, waiter, WOKEN_MS);
        caller_unlock(waiter, lock);
        expect_result(RDL_OK, waiter, SOON_MS);
        rdl_lock_free(lock);
    }
    caller_free(waiter);
}

/* A name in braces is another lock on the same channel: those who poll and those who subscribe do not mix. */
Test(names, spin_lock_beside_a_subscriber_of_the_same_channel_is_woken_in_its_own_way)
{
    struct caller *poller = caller_new(), *sleeper = caller_new();
    rdl_lock_t *spinning, *ordinary;

    stage_open(&st);
    spinning = spin(st.client, "n", NULL);
    ordinary = reentrant(st.client, "{n}", NULL);
    foreign_take(st.probe, "n", 60000);
    foreign_take(st.probe, "{n}", 60000);
    caller_try_lock(poller, spinning, 20000, LEASE_MS);
    caller_try_lock(sleeper, ordinary, 20000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    let_pass_ms(100);
    (void)probe_int(st.probe, "DEL n"); /* silently */
    expect_result(RDL_OK, poller, WOKEN_MS);
    (void)foreign_release(st.probe, "{n}");
    expect_result(RDL_OK, sleeper, WOKEN_MS);
    caller_unlock(poller, spinning);
    expect_result(RDL_OK, poller, SOON_MS);
    caller_unlock(sleeper, ordinary);
    expect_result(RDL_OK, sleeper, SOON_MS);
    caller_free(poller);
    caller_free(sleeper);
    rdl_lock_free(spinning);
    rdl_lock_free(ordinary);
}

Test(names, names_that_differ_in_one_byte_or_in_length_are_different_locks)
{
    static const struct name names[] = {{"n", 1}, {"n\0", 2}, {"n\0x", 3}, {"N", 1}, {"n ", 2}};
    rdl_lock_t *locks[5];

    stage_open(&st);
    for (size_t i = 0; i < 5; i++) {
        locks[i] = lock_of(st.client, false, names[i]);
        expect(0, rdl_is_held(locks[i], &err));
        expect(RDL_OK, rdl_try_lock(locks[i], 0, LEASE_MS, &err));
    }
    cr_assert_eq(probe_keys(st.probe), 5);
    for (size_t i = 0; i < 5; i++) {
        expect(RDL_OK, rdl_unlock(locks[i], &err));
        rdl_lock_free(locks[i]);
    }
}
