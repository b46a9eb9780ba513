/* test_scripts.c - each Lua file, on a real server: what its header promises.
 *
 * What both lock types promise alike is tested for both, by a loop over TYPES. A script is called by its file's name
 * and words, as in run(&f, "reentrant_take", "N , U:1 1 60000"): keys before the comma, arguments after it. Other bytes
 * than that can write go through run_argv. Times are read back from a running clock, so they are compared within
 * SLACK_MS, and leases that are told apart lie further apart than that.
 */
#include "scripts/scripts.h"
#include "tests/support/probe.h"
#include "tests/support/server.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLACK_MS 10000
#define LEASE 60000
#define LONGER 120000
#define SHORTER 30000

#define TAKEN (-10)
#define HELD_ALREADY (-11)
#define HOLD_GONE (-12)
#define NO_SUCH_HOLD (-14)

/* ---- asking ----------------------------------------------------------------------------------------------------- */

struct fixture {
    struct server *server;
    struct probe *probe;
};

static struct fixture open_fixture(void)
{
    struct fixture f = {.server = server_start(NULL)};

    f.probe = probe_open(f.server);
    for (size_t i = 0; i < RDL__SCRIPT_COUNT; i++) {
        const char *argv[] = {"SCRIPT", "LOAD", rdl__scripts[i].body};
        size_t len[] = {6, 4, rdl__scripts[i].body_len};
        const struct reply *r = probe_ask_argv(f.probe, 3, argv, len);

        cr_assert_str_eq(r->text, rdl__scripts[i].sha, "%s", rdl__scripts[i].name);
    }
    return f;
}

static void close_fixture(struct fixture *f)
{
    probe_close(f->probe);
    server_stop(f->server);
}

static const char *sha_of(const char *script)
{
    for (size_t i = 0; i < RDL__SCRIPT_COUNT; i++)
        if (strcmp(rdl__scripts[i].name, script) == 0)
            return rdl__scripts[i].sha;
    cr_assert_fail("no such script: %s", script);
    return NULL;
}

#define WORDS_MAX 32

/* The first `keys` of the words are keys. */
static const struct reply *run_argv(struct fixture *f, const char *script, size_t keys, size_t argc,
                                    const char *const *argv, const size_t *len)
{
    const char *all[WORDS_MAX] = {"EVALSHA", sha_of(script)};
    size_t all_len[WORDS_MAX] = {7, 40};
    char numkeys[8];

    cr_assert_leq(argc + 3, (size_t)WORDS_MAX);
    all[2] = numkeys;
    all_len[2] = (size_t)snprintf(numkeys, sizeof numkeys, "%zu", keys);
    for (size_t i = 0; i < argc; i++) {
        all[3 + i] = argv[i];
        all_len[3 + i] = len != NULL ? len[i] : strlen(argv[i]);
    }
    return probe_ask_argv(f->probe, 3 + argc, all, all_len);
}

/* An empty word is written ''. */
static const struct reply *run(struct fixture *f, const char *script, const char *words)
{
    char *line = must_format("%s", words);
    char *rest = line;
    const char *argv[WORDS_MAX];
    size_t argc = 0;
    size_t keys = 0;
    const struct reply *r;

    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        cr_assert_lt(argc, (size_t)WORDS_MAX);
        if (strcmp(word, ",") == 0)
            keys = argc;
        else
            argv[argc++] = strcmp(word, "''") == 0 ? "" : word;
    }
    r = run_argv(f, script, keys, argc, argv, NULL);
    free(line);
    return r;
}

static int64_t run_integer(struct fixture *f, const char *script, const char *words)
{
    const struct reply *r = run(f, script, words);

    cr_assert_eq(r->kind, REPLY_INTEGER, "%s %s: %s", script, words, r->text != NULL ? r->text : "no integer");
    return r->integer;
}

static bool run_fails(struct fixture *f, const char *script, const char *words, const char *with)
{
    const struct reply *r = run(f, script, words);

    return r->kind == REPLY_ERROR && strncmp(r->text, with, strlen(with)) == 0;
}

static bool is_near(int64_t ms, int64_t wanted)
{
    return ms <= wanted && ms > wanted - SLACK_MS;
}

static bool ttl_is_near(struct fixture *f, int64_t wanted)
{
    return is_near(probe_int(f->probe, "PTTL N"), wanted);
}

/* ---- the two types ---------------------------------------------------------------------------------------------- */

/* take and the others: names of scripts. hold: a command that makes a hold of A with a count of 1 and no time to live.
 */
static const struct type {
    const char *name, *take, *release, *renew, *force;
    const char *hold;
    const char *other; /* a command that puts a key of another type there */
} TYPES[] = {
    {"reentrant", "reentrant_take", "reentrant_release", "reentrant_renew", "reentrant_force", "HSET N A 1", "SET N A"},
    {"simple", "simple_take", "simple_release", "simple_renew", "simple_force", "SET N A", "HSET N A 1"},
};

#define EACH_TYPE(t) (const struct type *t = TYPES; t < TYPES + sizeof TYPES / sizeof TYPES[0]; t++)

/* The count of A's hold; 0 when N is not held by A. */
static int64_t count_of_a(struct fixture *f)
{
    const char *kind = probe_text(f->probe, "TYPE N");
    const char *value;

    if (strcmp(kind, "hash") == 0) {
        int64_t count = probe_int(f->probe, "HGET N A");

        return count < 0 ? 0 : count;
    }
    value = probe_text(f->probe, "GET N");
    return value != NULL && strcmp(value, "A") == 0;
}

static void clear(struct fixture *f)
{
    (void)probe_text(f->probe, "FLUSHALL");
}

/* ---- take ------------------------------------------------------------------------------------------------------- */

Test(scripts, take_of_a_free_lock_leaves_just_the_hold_and_the_lease, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 60000"), TAKEN, "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
            cr_expect_eq(probe_keys(f.probe), 1, "%s", t->name);
        }
    cr_expect_eq(probe_int(f.probe, "STRLEN N"), 1);
    clear(&f);
    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    cr_expect_eq(probe_int(f.probe, "HLEN N"), 1);
    close_fixture(&f);
}

Test(scripts, repeated_take_says_so_and_changes_nothing, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 60000"), HELD_ALREADY, "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, take_never_shortens_a_lease_and_may_lengthen_it, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 30000"), HELD_ALREADY, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 120000"), HELD_ALREADY, "%s", t->name);
            cr_expect(ttl_is_near(&f, LONGER), "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, take_gives_a_hold_without_a_time_to_live_its_lease, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)probe_ask(f.probe, "%s", t->hold);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 60000"), HELD_ALREADY, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, nested_take_raises_the_count_and_never_lowers_it, .timeout = 60)
{
    struct fixture f = open_fixture();

    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2 60000"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2 60000"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 1 120000"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect(ttl_is_near(&f, LONGER));
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 10 30000"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 10);
    cr_expect(ttl_is_near(&f, LONGER));
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2147483647 1"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 2147483647);
    close_fixture(&f);
}

Test(scripts, nested_take_of_a_hold_that_is_gone_creates_nothing, .timeout = 60)
{
    struct fixture f = open_fixture();

    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2 60000"), HOLD_GONE);
    cr_expect_eq(probe_keys(f.probe), 0);
    (void)run_integer(&f, "reentrant_take", "N , B 1 60000");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2 120000"), HOLD_GONE);
    cr_expect_eq(probe_int(f.probe, "HLEN N"), 1);
    cr_expect_eq(probe_int(f.probe, "HGET N B"), 1);
    cr_expect(ttl_is_near(&f, LEASE));
    close_fixture(&f);
}

Test(scripts, refused_take_answers_the_holders_time_to_live_and_leaves_it, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect(is_near(run_integer(&f, t->take, "N , B 1 120000"), LEASE), "%s", t->name);
            cr_expect(is_near(run_integer(&f, t->take, "N , B 1 120000 1"), LEASE), "%s: a token changes no refusal",
                      t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
            clear(&f);
            (void)probe_ask(f.probe, "%s", t->hold);
            cr_expect_eq(run_integer(&f, t->take, "N , B 1 60000"), -1, "%s", t->name);
            cr_expect_eq(probe_int(f.probe, "PTTL N"), -1, "%s", t->name);
        }
    clear(&f);
    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    (void)run_integer(&f, "reentrant_take", "N , B 1 60000");
    cr_expect_eq(probe_int(f.probe, "HLEN N"), 1);
    close_fixture(&f);
}

static int64_t server_us(struct fixture *f)
{
    const struct reply *r = probe_ask(f->probe, "TIME");

    return atoll(r->items[0].text) * 1000000 + atoll(r->items[1].text);
}

Test(scripts, token_is_the_servers_time_when_the_take_was_granted, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            int64_t before = server_us(&f);
            int64_t first;
            int64_t again;

            clear(&f);
            first = run_integer(&f, t->take, "N , A 1 60000 1");
            again = run_integer(&f, t->take, "N , A 1 60000 1");
            cr_expect(before < first && first < again && again < server_us(&f), "%s", t->name);
            cr_expect_gt(first, INT64_C(1) << 40, "%s: cannot be mistaken for a hint", t->name);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 60000 0"), HELD_ALREADY, "%s: not wanted", t->name);
        }
    clear(&f);
    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    cr_expect_eq(run_integer(&f, "reentrant_take", "N , A 2 60000 1"), HELD_ALREADY, "nested: the token stays");
    close_fixture(&f);
}

/* ---- bad arguments ---------------------------------------------------------------------------------------------- */

static const char *const BAD_NUMBERS[] = {"0",  "-1", "-0", "00",  "01",   "1.5", "1.0", "1e3",  "0x10",
                                          "+5", "x",  "5x", "nan", "-nan", "inf", "''",  "1e400"};

/* None of the bad numbers, nor `too_big`, in place of the $ of `words`; and N stays as `state` says. */
static void expect_refused(struct fixture *f, const char *script, const char *words, const char *too_big, int64_t keys)
{
    size_t count = sizeof BAD_NUMBERS / sizeof BAD_NUMBERS[0];
    size_t before = strcspn(words, "$");

    for (size_t i = 0; i <= count; i++) {
        const char *bad = i < count ? BAD_NUMBERS[i] : too_big;
        char *line = must_format("%.*s%s%s", (int)before, words, bad, words + before + 1);

        cr_expect(run_fails(f, script, line, "ERR redlatch: "), "%s %s", script, line);
        cr_expect_eq(probe_keys(f->probe), keys, "%s %s", script, line);
        free(line);
    }
}

#define LEASE_TOO_LONG "1099511627777" /* 2^40 + 1 */
#define COUNT_TOO_HIGH "2147483648"    /* 2^31 */

Test(scripts, bad_numbers_are_refused_before_anything_is_written, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            expect_refused(&f, t->take, "N , A 1 $", LEASE_TOO_LONG, 0);
            expect_refused(&f, t->take, "N , A 1 $ 1", LEASE_TOO_LONG, 0);
            expect_refused(&f, t->take, "N , A $ 60000", COUNT_TOO_HIGH, 0);
            expect_refused(&f, t->renew, "N , A $", LEASE_TOO_LONG, 0);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            expect_refused(&f, t->take, "N , A 1 $", LEASE_TOO_LONG, 1);
            expect_refused(&f, t->take, "N , A $ 120000", COUNT_TOO_HIGH, 1);
            expect_refused(&f, t->renew, "N , A $", LEASE_TOO_LONG, 1);
            expect_refused(&f, t->renew, "N M , A 120000 A $", LEASE_TOO_LONG, 1);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, bad_counts_to_be_left_are_refused, .timeout = 60)
{
    static const char *const BAD[] = {"-1", "00", "1.5", "2147483648", "x", "''", "nan"};
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
                char *line = must_format("N ch , A %s", BAD[i]);

                cr_expect(run_fails(&f, t->release, line, "ERR redlatch: "), "%s %s", t->release, line);
                free(line);
            }
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
        }
    cr_expect(run_fails(&f, "simple_release", "N ch , A 1", "ERR redlatch: "));
    cr_expect(run_fails(&f, "simple_take", "M , A 2 60000", "ERR redlatch: "));
    cr_expect_eq(probe_keys(f.probe), 1);
    close_fixture(&f);
}

Test(scripts, only_the_two_ways_to_publish_are_let_through, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect(run_fails(&f, t->release, "N ch , A 0 flushall", "ERR redlatch: "), "%s", t->name);
            cr_expect(run_fails(&f, t->force, "N ch , A flushall", "ERR redlatch: "), "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, bounds_themselves_are_accepted, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 1099511627776"), TAKEN, "%s", t->name);
            cr_expect(ttl_is_near(&f, INT64_C(1) << 40), "%s", t->name);
            clear(&f);
            cr_expect_eq(run_integer(&f, t->take, "N , A 1 1"), TAKEN, "%s", t->name);
            cr_expect(WAIT_UNTIL(probe_keys(f.probe) == 0, 5000), "%s: a lease of 1 ms ends", t->name);
        }
    close_fixture(&f);
}

Test(scripts, key_of_another_type_is_reported_as_the_server_reports_it, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)probe_ask(f.probe, "%s", t->other);
            cr_expect(run_fails(&f, t->take, "N , A 1 60000", "WRONGTYPE "), "%s", t->name);
            cr_expect(run_fails(&f, t->release, "N ch , A 0", "WRONGTYPE "), "%s", t->name);
            cr_expect(run_fails(&f, t->force, "N ch , A", "WRONGTYPE "), "%s", t->name);
            cr_expect_eq(probe_int(f.probe, "PTTL N"), -1, "%s: untouched", t->name);
        }
    clear(&f);
    (void)probe_ask(f.probe, "SET N A");
    cr_expect(run_fails(&f, "reentrant_release", "N ch , A 1", "WRONGTYPE "));
    close_fixture(&f);
}

/* ---- release ---------------------------------------------------------------------------------------------------- */

/* A second connection that has subscribed to "ch". */
static struct probe *listen_to(struct fixture *f, const char *subscribe)
{
    struct probe *listener = probe_open(f->server);

    (void)probe_ask(listener, "%s ch", subscribe);
    return listener;
}

/* The next message, as text; what is published before something that is answered is here when the answer is. */
static const char *heard(struct probe *listener)
{
    const struct reply *r = probe_next(listener, 5000);

    return r != NULL && r->count == 3 ? r->items[2].text : NULL;
}

static bool nothing_heard(struct fixture *f, struct probe *listener)
{
    (void)probe_int(f->probe, "PUBLISH ch end");
    return strcmp(heard(listener), "end") == 0;
}

Test(scripts, release_frees_the_lock_and_publishes_0, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for
        EACH_TYPE(t)
        {
            static const char *const WAYS[] = {"N ch , A 0", "N ch , A 0 publish"};

            for (size_t i = 0; i < 2; i++) {
                (void)run_integer(&f, t->take, "N , A 1 60000");
                cr_expect_eq(run_integer(&f, t->release, WAYS[i]), 1, "%s", t->name);
                cr_expect_str_eq(heard(listener), "0", "%s", t->name);
                cr_expect_eq(probe_keys(f.probe), 0, "%s", t->name);
            }
        }
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts, sharded_release_reaches_sharded_subscribers, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener;

    if (probe_ask(f.probe, "PUBSUB SHARDNUMSUB")->kind == REPLY_ERROR) {
        close_fixture(&f);
        cr_skip_test("this server knows no sharded channels");
    }
    listener = listen_to(&f, "SSUBSCRIBE");
    for
        EACH_TYPE(t)
        {
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->release, "N ch , A 0 spublish"), 1, "%s", t->name);
            cr_expect_str_eq(heard(listener), "0", "%s", t->name);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->force, "N ch , A spublish"), 1, "%s", t->name);
            cr_expect_str_eq(heard(listener), "0", "%s", t->name);
        }
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts, release_without_a_hold_changes_nothing_and_wakes_nobody, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for
        EACH_TYPE(t)
        {
            clear(&f);
            cr_expect_eq(run_integer(&f, t->release, "N ch , A 0"), NO_SUCH_HOLD, "%s", t->name);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->release, "N ch , B 0"), NO_SUCH_HOLD, "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
            cr_expect(nothing_heard(&f, listener), "%s", t->name);
        }
    cr_expect_eq(run_integer(&f, "reentrant_release", "M ch , B 1"), NO_SUCH_HOLD);
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts, repeated_release_leaves_the_next_holder_alone, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , B 1 60000");
            (void)run_integer(&f, t->release, "N ch , B 0");
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->release, "N ch , B 0"), NO_SUCH_HOLD, "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, nested_release_lowers_the_count_never_raises_it_and_keeps_the_lease, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    (void)run_integer(&f, "reentrant_take", "N , A 3 60000");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 2"), 0);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 2"), 0);
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 1"), 0);
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 2"), 0, "late: it does not raise");
    cr_expect_eq(count_of_a(&f), 1);
    cr_expect(ttl_is_near(&f, LEASE));
    cr_expect(nothing_heard(&f, listener));
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 0"), 1);
    cr_expect_str_eq(heard(listener), "0");
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts, release_to_0_frees_a_nested_hold_as_a_whole, .timeout = 60)
{
    struct fixture f = open_fixture();

    (void)run_integer(&f, "reentrant_take", "N , A 1 60000");
    (void)run_integer(&f, "reentrant_take", "N , A 3 60000");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 0"), 1);
    cr_expect_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts, release_takes_its_own_field_and_no_other, .timeout = 60)
{
    struct fixture f = open_fixture();

    (void)probe_ask(f.probe, "HSET N A 1 foreign 1");
    cr_expect_eq(run_integer(&f, "reentrant_release", "N ch , A 0"), 1);
    cr_expect_eq(probe_int(f.probe, "HGET N foreign"), 1);
    close_fixture(&f);
}

/* ---- renew ------------------------------------------------------------------------------------------------------ */

/* So many times something was written that scripts write again. */
static int64_t writes(struct fixture *f)
{
    return probe_calls(f->probe, "pexpire") + probe_calls(f->probe, "set");
}

/* The answer to a renewal of N alone. */
static int64_t renew_n(struct fixture *f, const struct type *t, const char *words)
{
    const struct reply *r = run(f, t->renew, words);

    cr_assert_eq(r->count, 3u, "%s", t->name);
    return r->items[2].integer;
}

Test(scripts, renew_lengthens_never_shortens_and_tells_what_was_left, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect(is_near(renew_n(&f, t, "N , A 120000"), LEASE), "%s", t->name);
            cr_expect(ttl_is_near(&f, LONGER), "%s", t->name);
            cr_expect(is_near(renew_n(&f, t, "N , A 30000"), LONGER), "%s", t->name);
            cr_expect(ttl_is_near(&f, LONGER), "%s", t->name);
            (void)probe_int(f.probe, "PERSIST N");
            cr_expect_eq(renew_n(&f, t, "N , A 60000"), -1, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
        }
    close_fixture(&f);
}

/* Else a WAIT behind the repetition, on another connection, would count replicas that have never heard of the hold. In
 * a transaction time stands still: nothing changes. */
Test(scripts, repeated_take_and_renewal_write_although_nothing_changes, .timeout = 60)
{
    static const struct {
        const char *take, *words, *brief, *renew, *hold;
    } CASES[] = {
        {"reentrant_take", "N , A 1 60000", "N , A 1 60000", "reentrant_renew", "N , A 60000"},
        {"fenced_take", "N T , A 1 60000", "N T , A 1 60000", "reentrant_renew", "N , A 60000"},
        {"simple_take", "N , A 1 60000", "N , A 1 60000", "simple_renew", "N , A 60000"},
        {"write_take", "N , A 1 60000", "N , A 1 60000", "reentrant_renew", "N , A 60000"},
        {"fair_take", "N ch q t w , A 1 60000 0 15000 P 1", "N ch q t w , A 1 60000 0 15000 P 1", "reentrant_renew",
         "N , A 60000"},
        {"read_take", "N , A 1 60000", "N , A 1 60000", "read_renew", "N , A 60000"},
        /* the time to live is longer, and stays */
        {"reentrant_take", "N , A 1 60000", "N , A 1 5000", "reentrant_renew", "N , A 5000"},
        {"fenced_take", "N T , A 1 60000", "N T , A 1 5000", "reentrant_renew", "N , A 5000"},
        {"simple_take", "N , A 1 60000", "N , A 1 5000", "simple_renew", "N , A 5000"},
        {"write_take", "N , A 1 60000", "N , A 1 5000", "reentrant_renew", "N , A 5000"},
        {"fair_take", "N ch q t w , A 1 60000 0 15000 P 1", "N ch q t w , A 1 5000 0 15000 P 1", "reentrant_renew",
         "N , A 5000"},
        {"read_take", "N , A 1 60000", "N , A 1 5000", "read_renew", "N , A 5000"},
    };
    struct fixture f = open_fixture();

    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        int64_t before;

        clear(&f);
        (void)probe_ask(f.probe, "MULTI");
        (void)run(&f, CASES[i].take, CASES[i].words);
        (void)probe_ask(f.probe, "EXEC");
        for (int again = 0; again < 2; again++) {
            before = writes(&f);
            (void)probe_ask(f.probe, "MULTI");
            (void)run(&f, CASES[i].take, CASES[i].words); /* which makes the time to live the lease */
            (void)run(&f, again == 0 ? CASES[i].take : CASES[i].renew, again == 0 ? CASES[i].brief : CASES[i].hold);
            (void)probe_ask(f.probe, "EXEC");
            cr_expect_geq(writes(&f) - before, 2, "%zu: %s", i, again == 0 ? CASES[i].take : CASES[i].renew);
            cr_expect_gt(probe_int(f.probe, "PTTL N"), 50000, "%zu", i);
        }
    }
    close_fixture(&f);
}

Test(scripts, renew_of_what_is_gone_says_so_and_creates_nothing, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            cr_expect_eq(renew_n(&f, t, "N , A 120000"), NO_SUCH_HOLD, "%s", t->name);
            cr_expect_eq(probe_keys(f.probe), 0, "%s", t->name);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(renew_n(&f, t, "N , B 120000"), NO_SUCH_HOLD, "%s", t->name);
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, batch_answers_the_time_and_each_hold_in_order, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            int64_t before = server_us(&f);
            const struct reply *r;
            int64_t then;

            clear(&f);
            (void)run_integer(&f, t->take, "K1 , A 1 60000");
            (void)run_integer(&f, t->take, "K2 , B 1 60000");
            (void)probe_ask(f.probe, strcmp(t->name, "simple") == 0 ? "HSET K3 A 1" : "SET K3 A");
            (void)run_integer(&f, t->take, "K5 , A 1 30000");
            r = run(&f, t->renew, "K1 K2 K3 K4 K5 K1 , A 120000 A 120000 A 120000 A 120000 A 120000 A 120000");
            cr_assert_eq(r->count, 8u, "%s", t->name);
            then = r->items[0].integer * 1000000 + r->items[1].integer;
            cr_expect(is_near(r->items[2].integer, LEASE), "%s", t->name);
            cr_expect_eq(r->items[3].integer, NO_SUCH_HOLD, "%s: held by B", t->name);
            cr_expect_eq(r->items[4].integer, NO_SUCH_HOLD, "%s: another type of key", t->name);
            cr_expect_eq(r->items[5].integer, NO_SUCH_HOLD, "%s: no key", t->name);
            cr_expect(is_near(r->items[6].integer, SHORTER), "%s", t->name);
            cr_expect(is_near(r->items[7].integer, LONGER), "%s: a key may occur twice", t->name);
            cr_expect(before <= then && then <= server_us(&f), "%s", t->name);
            cr_expect(is_near(probe_int(f.probe, "PTTL K1"), LONGER), "%s", t->name);
            cr_expect(is_near(probe_int(f.probe, "PTTL K2"), LEASE), "%s", t->name);
            cr_expect_eq(probe_int(f.probe, "PTTL K3"), -1, "%s", t->name);
            cr_expect(is_near(probe_int(f.probe, "PTTL K5"), LONGER), "%s", t->name);
            cr_expect_eq(probe_keys(f.probe), 4, "%s", t->name);
        }
    close_fixture(&f);
}

Test(scripts, batch_with_missing_or_spare_words_is_refused, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            cr_expect(run_fails(&f, t->renew, "N M , A 60000 A", "ERR redlatch: "), "%s", t->name);
            cr_expect(run_fails(&f, t->renew, "N , A 60000 A 60000", "ERR redlatch: "), "%s", t->name);
            cr_expect_eq(run(&f, t->renew, ",")->count, 2u, "%s: of none: just the time", t->name);
        }
    close_fixture(&f);
}

/* Not every failure is a hold gone: a hold must not be given up because the server refuses to look. */
Test(scripts, renew_reports_what_a_server_forbids, .timeout = 60)
{
    struct fixture f = open_fixture();

    for
        EACH_TYPE(t)
        {
            clear(&f);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            (void)probe_text(f.probe, "ACL SETUSER default -hexists -get");
            cr_expect_eq(run(&f, t->renew, "N , A 120000")->kind, REPLY_ERROR, "%s", t->name);
            (void)probe_text(f.probe, "ACL SETUSER default +@all");
            cr_expect(ttl_is_near(&f, LEASE), "%s", t->name);
        }
    close_fixture(&f);
}

/* ---- force ------------------------------------------------------------------------------------------------------ */

Test(scripts, force_frees_from_the_holder_that_was_seen_and_publishes_0, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for
        EACH_TYPE(t)
        {
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->force, "N ch , A publish"), 1, "%s", t->name);
            cr_expect_str_eq(heard(listener), "0", "%s", t->name);
            cr_expect_eq(probe_keys(f.probe), 0, "%s", t->name);
        }
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts, force_leaves_a_holder_that_came_since, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for
        EACH_TYPE(t)
        {
            clear(&f);
            cr_expect_eq(run_integer(&f, t->force, "N ch , B"), 0, "%s: free", t->name);
            (void)run_integer(&f, t->take, "N , A 1 60000");
            cr_expect_eq(run_integer(&f, t->force, "N ch , B"), 0, "%s", t->name);
            cr_expect_eq(count_of_a(&f), 1, "%s", t->name);
            cr_expect(nothing_heard(&f, listener), "%s", t->name);
        }
    probe_close(listener);
    close_fixture(&f);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

Test(scripts, names_and_owners_may_be_any_bytes, .timeout = 60)
{
    static const char NAME[] = "a\0b\r\n\xff";
    static const char OWNER[] = "U\0:1";
    static const char OWNER_CUT[] = "U";
    struct fixture f = open_fixture();
    size_t name = sizeof NAME - 1;
    size_t owner = sizeof OWNER - 1;

    for
        EACH_TYPE(t)
        {
            const char *take[] = {NAME, OWNER, "1", "60000"};
            const char *rival[] = {NAME, OWNER_CUT, "1", "60000"};
            const char *renew[] = {NAME, OWNER, "120000"};
            const char *release[] = {NAME, "ch", OWNER, "0"};

            cr_expect_eq(run_argv(&f, t->take, 1, 4, take, (size_t[]){name, owner, 1, 5})->integer, TAKEN, "%s",
                         t->name);
            cr_expect_gt(run_argv(&f, t->take, 1, 4, rival, (size_t[]){name, 1, 1, 5})->integer, 0, "%s", t->name);
            cr_expect_gt(run_argv(&f, t->renew, 1, 3, renew, (size_t[]){name, owner, 6})->items[2].integer, 0, "%s",
                         t->name);
            cr_expect_eq(run_argv(&f, t->release, 2, 4, release, (size_t[]){name, 2, owner, 1})->integer, 1, "%s",
                         t->name);
            cr_expect_eq(probe_keys(f.probe), 0, "%s", t->name);
        }
    close_fixture(&f);
}

/* ---- cost ------------------------------------------------------------------------------------------------------- */

/* How many commands the script gave the server. */
static size_t cost(struct fixture *f, struct monitor *m, const char *script, const char *words)
{
    size_t mark = monitor_mark(m);

    (void)run(f, script, words);
    (void)monitor_mark(m);
    return monitor_count_lua(m, mark, "");
}

Test(scripts, hot_paths_take_few_commands, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct monitor *m = monitor_start(f.server);

    cr_expect_eq(cost(&f, m, "reentrant_take", "N , A 1 60000"), 3u);
    cr_expect_eq(cost(&f, m, "reentrant_take", "N , B 1 60000"), 3u);
    cr_expect_eq(cost(&f, m, "reentrant_release", "N ch , A 0"), 2u);
    cr_expect_eq(cost(&f, m, "simple_take", "N , A 1 60000"), 2u);
    cr_expect_eq(cost(&f, m, "simple_take", "N , B 1 60000"), 2u);
    cr_expect_eq(cost(&f, m, "simple_release", "N ch , A 0"), 3u);
    monitor_stop(m);
    close_fixture(&f);
}

/* A verb on nested reads costs the same at any depth; a renewal, and whoever looks for the longest hold of others, two
 * or one for each of them. */
Test(scripts, nested_reads_cost_no_more_the_deeper_they_are, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct monitor *m = monitor_start(f.server);
    static const size_t depths[] = {1, 10, 100, 1000};
    size_t take[4], release[4], renew[4];
    int at = 0;

    for (int depth = 1; depth <= 1000; depth++) {
        char *words = must_format("N , A %d 60000", depth);

        (void)run(&f, "read_take", words);
        free(words);
        if ((size_t)depth != depths[at])
            continue;
        words = must_format("N , A %d 60000", depth + 1);
        take[at] = cost(&f, m, "read_take", words);
        free(words);
        words = must_format("N ch , A %d", depth);
        release[at] = cost(&f, m, "read_release", words);
        free(words);
        renew[at++] = cost(&f, m, "read_renew", "N , A 60000");
    }
    for (int i = 0; i < 4; i++) {
        cr_expect_leq(take[i], 8u, "%zu", take[i]);
        cr_expect_leq(release[i], 3u, "%zu", release[i]);
        cr_expect_leq(renew[i], 4u + 2u * depths[i], "%zu", renew[i]);
    }
    cr_expect_leq(cost(&f, m, "read_release", "N ch , A 0"), 5u); /* a thousand keys by each DEL */
    monitor_stop(m);
    close_fixture(&f);
}

/* ---- fenced take: the same, and a token ------------------------------------------------------------------------- */

#define FENCED "fenced_take"

Test(scripts, fenced_take_counts_once_for_each_hold_and_repeats_answer_the_same, .timeout = 60)
{
    struct fixture f = open_fixture();

    for (int64_t token = 1; token <= 3; token++) {
        cr_expect_eq(run_integer(&f, FENCED, "N T , A 1 60000"), -1000 - token);
        cr_expect_eq(run_integer(&f, FENCED, "N T , A 1 30000"), -1000 - token);
        cr_expect_eq(run_integer(&f, FENCED, "N T , A 2 60000"), HELD_ALREADY);
        cr_expect(is_near(run_integer(&f, FENCED, "N T , B 1 60000"), LEASE));
        cr_expect_eq(run_integer(&f, FENCED, "N T , B 2 60000"), HOLD_GONE);
        cr_expect_eq(count_of_a(&f), 2);
        cr_expect(ttl_is_near(&f, LEASE));
        cr_expect_eq(atoll(probe_text(f.probe, "GET T")), token);
        (void)probe_int(f.probe, "DEL N");
    }
    cr_expect_eq(run_integer(&f, FENCED, "N T , A 2 60000"), HOLD_GONE);
    cr_expect_eq(probe_int(f.probe, "EXISTS N"), 0);
    close_fixture(&f);
}

Test(scripts, fenced_take_writes_nothing_of_the_lock_when_something_is_wrong, .timeout = 60)
{
    struct fixture f = open_fixture();

    expect_refused(&f, FENCED, "N T , A 1 $", LEASE_TOO_LONG, 0);
    expect_refused(&f, FENCED, "N T , A $ 60000", COUNT_TOO_HIGH, 0);
    (void)probe_ask(f.probe, "SET T words");
    cr_expect(run_fails(&f, FENCED, "N T , A 1 60000", "ERR value is not an integer"));
    (void)probe_ask(f.probe, "SET T 9223372036854775807");
    cr_expect(run_fails(&f, FENCED, "N T , A 1 60000", "ERR increment"));
    cr_expect_eq(probe_int(f.probe, "EXISTS N"), 0);
    (void)probe_ask(f.probe, "SET N string");
    cr_expect(run_fails(&f, FENCED, "N T , A 1 60000", "WRONGTYPE"));
    close_fixture(&f);
}

Test(scripts, fenced_take_with_a_floor_answers_the_servers_time_or_one_more, .timeout = 60)
{
    struct fixture f = open_fixture();
    int64_t before = server_us(&f);
    int64_t token = -1000 - run_integer(&f, FENCED, "N T , A 1 60000 1");

    cr_expect(before <= token && token <= server_us(&f));
    cr_expect_eq(atoll(probe_text(f.probe, "GET T")), token);
    cr_expect_eq(-1000 - run_integer(&f, FENCED, "N T , A 1 60000 1"), token);
    (void)probe_int(f.probe, "DEL N");
    (void)probe_ask(f.probe, "SET T 9000000000000000");
    cr_expect_eq(-1000 - run_integer(&f, FENCED, "N T , A 1 60000 1"), INT64_C(9000000000000001));
    close_fixture(&f);
}

/* ---- the fair lock ---------------------------------------------------------------------------------------------- */

#define FAIR_KEYS "N ch q t w , "
#define LIFE_MS 15000
#define LIFE "15000"

/* The owner `who` asks for its hold `who`:n. */
static int64_t fair_take(struct fixture *f, const char *who, int n, const char *lease_token_life)
{
    char *words = must_format(FAIR_KEYS "%s:%d 1 %s %s 1", who, n, lease_token_life, who);
    int64_t answer = run_integer(f, "fair_take", words);

    free(words);
    return answer;
}

static int64_t fair_release(struct fixture *f, const char *who, int n)
{
    char *words = must_format(FAIR_KEYS "%s:%d 0 %s", who, n, who);
    int64_t answer = run_integer(f, "fair_release", words);

    free(words);
    return answer;
}

static int64_t fair_has(struct fixture *f, const char *field)
{
    return probe_int(f->probe, "HEXISTS N %s", field);
}

Test(scripts_fair, refused_take_stands_in_the_queue_and_its_keys_end_together)
{
    struct fixture f = open_fixture();
    int64_t end;

    cr_assert_eq(fair_take(&f, "A", 1, "60000 0 " LIFE), TAKEN);
    cr_assert_eq(probe_keys(f.probe), 1);
    cr_assert_eq(fair_take(&f, "B", 1, "60000 0 " LIFE), 5000);
    cr_assert_eq(fair_take(&f, "B", 1, "60000 0 " LIFE), 5000); /* once, whatever it repeats */
    cr_assert_eq(fair_take(&f, "C", 1, "60000 0 " LIFE), 5000);
    cr_assert_gt(fair_take(&f, "D", 1, "60000 0 0"), LIFE_MS); /* a single try does not queue: the holder's time */
    cr_assert_eq(probe_int(f.probe, "LLEN q"), 2);
    cr_assert_eq(probe_int(f.probe, "ZCARD t"), 2);
    cr_assert_eq(probe_int(f.probe, "HLEN w"), 2);
    end = probe_int(f.probe, "PEXPIRETIME q");
    /* The server's clock goes on between the script's commands. */
    cr_assert_leq(llabs(probe_int(f.probe, "PEXPIRETIME t") - end), 1000);
    cr_assert_leq(llabs(probe_int(f.probe, "PEXPIRETIME w") - end), 1000);
    cr_assert_eq(fair_release(&f, "C", 1), NO_SUCH_HOLD); /* leaves the queue */
    cr_assert_eq(fair_release(&f, "B", 1), NO_SUCH_HOLD);
    cr_assert_eq(probe_keys(f.probe), 1);
    close_fixture(&f);
}

Test(scripts_fair, who_frees_the_lock_passes_it_on_to_the_first_for_no_longer_than_that_one_counts_as_alive)
{
    struct fixture f = open_fixture();

    (void)fair_take(&f, "A", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "B", 1, "60000 1 " LIFE);
    (void)fair_take(&f, "C", 7, "300 0 " LIFE);
    (void)fair_take(&f, "D", 1, "60000 0 " LIFE);
    cr_assert_eq(fair_release(&f, "A", 1), 1);
    cr_assert_eq(fair_has(&f, "B:1"), 1);
    cr_assert_eq(probe_int(f.probe, "HLEN N"), 1);
    cr_assert_leq(probe_int(f.probe, "PTTL N"), LIFE_MS);
    cr_assert_gt(probe_int(f.probe, "PTTL N"), LIFE_MS / 2);
    cr_assert_gt(fair_take(&f, "B", 1, "60000 1 " LIFE), INT64_C(1)
                                                             << 40); /* it finds its hold, which it makes whole */
    cr_assert_gt(probe_int(f.probe, "PTTL N"), LIFE_MS);
    cr_assert_eq(run_integer(&f, "fair_force", FAIR_KEYS "A:1"), 0);
    cr_assert_eq(run_integer(&f, "fair_force", FAIR_KEYS "B:1"), 1);
    cr_assert_eq(fair_has(&f, "C:7"), 1);
    cr_assert_leq(probe_int(f.probe, "PTTL N"), 300);
    (void)probe_int(f.probe, "DEL N"); /* as if its time were over: whoever looks passes it on */
    cr_assert_gt(fair_take(&f, "E", 1, "60000 0 0"), LIFE_MS / 2);
    cr_assert_eq(fair_has(&f, "D:1"), 1);
    cr_assert_eq(fair_release(&f, "D", 1), 1);
    cr_assert_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_fair, head_that_leaves_while_the_lock_is_free_passes_it_on)
{
    struct fixture f = open_fixture();

    (void)fair_take(&f, "A", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "B", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "C", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "D", 1, "60000 0 " LIFE);
    (void)probe_int(f.probe, "DEL N");
    cr_assert_eq(fair_release(&f, "D", 1), NO_SUCH_HOLD); /* who was not first leaves that to others */
    cr_assert_eq(probe_int(f.probe, "EXISTS N"), 0);
    cr_assert_eq(fair_release(&f, "B", 1), NO_SUCH_HOLD);
    cr_assert_eq(fair_has(&f, "C:1"), 1);
    cr_assert_eq(fair_release(&f, "C", 1), 1);
    cr_assert_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_fair, of_two_takes_of_an_owner_the_later_counts_and_waits_anew)
{
    struct fixture f = open_fixture();

    (void)fair_take(&f, "A", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "B", 9, "60000 0 " LIFE);
    (void)fair_take(&f, "C", 1, "60000 0 " LIFE);
    (void)fair_take(&f, "B", 10, "60000 0 " LIFE); /* behind C */
    cr_assert_eq(probe_int(f.probe, "LLEN q"), 2);
    cr_assert_gt(fair_take(&f, "B", 9, "60000 0 " LIFE), LIFE_MS); /* comes late, and does nothing */
    cr_assert_eq(fair_release(&f, "B", 9), NO_SUCH_HOLD);
    cr_assert_eq(probe_int(f.probe, "LLEN q"), 2);
    cr_assert_eq(fair_release(&f, "A", 1), 1);
    cr_assert_eq(fair_has(&f, "C:1"), 1);
    cr_assert_eq(fair_release(&f, "C", 1), 1);
    cr_assert_eq(fair_has(&f, "B:10"), 1);
    cr_assert_eq(fair_release(&f, "B", 10), 1);
    cr_assert_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_fair, bad_arguments_and_wrong_types_change_nothing)
{
    static const char *const BAD[] = {"A 0 60000 0 15000 P 1",  "A x 60000 0 15000 P 1", "A 1 0 0 15000 P 1",
                                      "A 1 1e3 0 15000 P 1",    "A 1 60000 0 2 P 1",     "A 1 60000 0 -15000 P 1",
                                      "A 1 60000 0 15000 P",    "A 1 60000 0 15000 P x", "A 1 60000 0 15000 P 1 say",
                                      "A 1 60000 0 15000 P 1 0"};
    static const char TAKE[] = FAIR_KEYS "A 1 60000 0 " LIFE " P 1";
    struct fixture f = open_fixture();

    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        char *words = must_format(FAIR_KEYS "%s", BAD[i]);

        cr_assert(run_fails(&f, "fair_take", words, "ERR"), "%s", words);
        free(words);
    }
    cr_assert(run_fails(&f, "fair_release", FAIR_KEYS "A -1 P", "ERR"));
    cr_assert(run_fails(&f, "fair_release", FAIR_KEYS "A 0 P say", "ERR"));
    cr_assert(run_fails(&f, "fair_force", FAIR_KEYS "A say", "ERR"));
    cr_assert_eq(probe_keys(f.probe), 0);
    for (const char *key = "qw"; *key != '\0'; key++) {
        (void)probe_text(f.probe, "SET %c x", *key);
        cr_assert(run_fails(&f, "fair_take", TAKE, "WRONGTYPE"));
        cr_assert_eq(probe_keys(f.probe), 1);
        (void)probe_int(f.probe, "DEL %c", *key);
    }
    (void)probe_int(f.probe, "HSET N B 1");
    (void)probe_text(f.probe, "SET t x");
    cr_assert(run_fails(&f, "fair_take", TAKE, "WRONGTYPE"));
    cr_assert_eq(probe_keys(f.probe), 2);
    (void)probe_text(f.probe, "SET q x");
    cr_assert(run_fails(&f, "fair_release", FAIR_KEYS "B 0 P", "WRONGTYPE"));
    cr_assert(run_fails(&f, "fair_force", FAIR_KEYS "B", "WRONGTYPE"));
    cr_assert_eq(fair_has(&f, "B"), 1);
    close_fixture(&f);
}

/* ---- the read-write lock ---------------------------------------------------------------------------------------- */

#define WAYS_TO_PUBLISH "ERR redlatch: the message"

static void expect_release_refuses(struct fixture *f, const char *script, const char *head)
{
    static const char *const BAD[] = {"-1", "00", "1.5", "2147483648", "x", "''", "nan", "0 flushall"};

    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        char *line = must_format("%s %s", head, BAD[i]);

        cr_expect(run_fails(f, script, line, "ERR redlatch: "), "%s %s", script, line);
        free(line);
    }
}

Test(scripts_readwrite, bad_arguments_are_refused_before_anything_is_written, .timeout = 60)
{
    static const char *const TAKES[] = {"read_take", "write_take"};
    struct fixture f = open_fixture();

    for (size_t i = 0; i < 2; i++) {
        int64_t keys;

        clear(&f);
        expect_refused(&f, TAKES[i], "N , A 1 $", LEASE_TOO_LONG, 0);
        expect_refused(&f, TAKES[i], "N , A $ 60000", COUNT_TOO_HIGH, 0);
        (void)run_integer(&f, TAKES[i], "N , A 1 60000");
        keys = probe_keys(f.probe);
        expect_refused(&f, TAKES[i], "N , A 2 $", LEASE_TOO_LONG, keys);
        expect_refused(&f, TAKES[i], "N , A $ 120000", COUNT_TOO_HIGH, keys);
        expect_refused(&f, "read_renew", "N M , A 120000 A $", LEASE_TOO_LONG, keys);
        expect_release_refuses(&f, i == 0 ? "read_release" : "write_release", "N ch , A");
        cr_expect(run_fails(&f, "readwrite_force", "N ch , A flushall", WAYS_TO_PUBLISH));
        cr_expect_eq(count_of_a(&f), 1);
        cr_expect(ttl_is_near(&f, LEASE));
    }
    cr_expect(run_fails(&f, "read_renew", "N , A 60000 A 60000", "ERR redlatch: "));
    close_fixture(&f);
}

Test(scripts_readwrite, name_of_another_lock_is_not_taken, .timeout = 60)
{
    struct fixture f = open_fixture();

    (void)probe_ask(f.probe, "HSET N A 1"); /* a reentrant lock */
    cr_expect(run_fails(&f, "read_take", "N , A 1 60000", "ERR redlatch: the name is held"));
    cr_expect(run_fails(&f, "write_take", "N , A 1 60000", "ERR redlatch: the name is held"));
    cr_expect_eq(probe_keys(f.probe), 1);
    cr_expect_eq(probe_int(f.probe, "HLEN N"), 1);
    clear(&f);
    (void)probe_ask(f.probe, "SET N A");
    cr_expect(run_fails(&f, "read_take", "N , A 1 60000", "WRONGTYPE "));
    cr_expect(run_fails(&f, "write_take", "N , A 1 60000", "WRONGTYPE "));
    cr_expect_eq(run(&f, "read_renew", "N , A 60000")->items[2].integer, NO_SUCH_HOLD);
    cr_expect_eq(probe_keys(f.probe), 1);
    close_fixture(&f);
}

Test(scripts_readwrite, repeats_say_so_and_change_nothing, .timeout = 60)
{
    struct fixture f = open_fixture();

    cr_expect_eq(run_integer(&f, "read_take", "N , A 1 60000"), TAKEN);
    cr_expect_eq(run_integer(&f, "read_take", "N , A 1 30000"), HELD_ALREADY);
    cr_expect_eq(run_integer(&f, "read_take", "N , A 2 30000"), HELD_ALREADY);
    cr_expect_eq(run_integer(&f, "read_take", "N , A 1 30000"), HELD_ALREADY, "late: it does not lower");
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect_eq(probe_keys(f.probe), 3);
    cr_expect(ttl_is_near(&f, LEASE));
    cr_expect(is_near(probe_int(f.probe, "PTTL {N}:A:rwlock_timeout:2"), LEASE), "as long as the longest");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 1"), 0);
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 1"), 0);
    cr_expect_eq(probe_keys(f.probe), 2);
    cr_expect(ttl_is_near(&f, LEASE));
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 0"), 1);
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 0"), NO_SUCH_HOLD);
    cr_expect_eq(run_integer(&f, "read_take", "N , A 2 60000"), HOLD_GONE);
    cr_expect_eq(probe_keys(f.probe), 0);

    cr_expect_eq(run_integer(&f, "write_take", "N , A 1 60000"), TAKEN);
    cr_expect_eq(run_integer(&f, "write_take", "N , A 1 30000"), HELD_ALREADY);
    cr_expect_eq(run_integer(&f, "write_take", "N , A 2 30000"), HELD_ALREADY);
    cr_expect_eq(count_of_a(&f), 2);
    cr_expect(ttl_is_near(&f, LEASE));
    cr_expect_eq(run_integer(&f, "write_release", "N ch , A 1"), 0);
    cr_expect_eq(run_integer(&f, "write_release", "N ch , A 2"), 0, "late: it does not raise");
    cr_expect_eq(count_of_a(&f), 1);
    cr_expect_eq(run_integer(&f, "write_release", "N ch , A 0"), 1);
    cr_expect_eq(run_integer(&f, "write_release", "N ch , A 0"), NO_SUCH_HOLD);
    cr_expect_eq(run_integer(&f, "write_take", "N , A 2 60000"), HOLD_GONE);
    cr_expect_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_readwrite, one_that_stops_writing_reads_on_and_tells_both_kinds_of_waiters, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    (void)run_integer(&f, "write_take", "N , A:write 1 120000");
    cr_expect(is_near(run_integer(&f, "read_take", "N , B 1 60000"), LONGER), "no other reader");
    cr_expect(is_near(run_integer(&f, "read_take", "N , A 1 60000 0 B:write"), LONGER),
              "nor one who says that it writes");
    cr_expect_eq(run_integer(&f, "read_take", "N , A 1 60000 0 A:write"), TAKEN);
    cr_expect(ttl_is_near(&f, LONGER));
    cr_expect(nothing_heard(&f, listener));
    cr_expect_eq(run_integer(&f, "write_release", "N ch , A:write 0"), 1);
    cr_expect_str_eq(heard(listener), "1");
    cr_expect_str_eq(heard(listener), "0");
    cr_expect(ttl_is_near(&f, LEASE), "what is left is the reader's");
    cr_expect_eq(run_integer(&f, "read_take", "N , B 1 30000"), TAKEN);
    cr_expect(is_near(run_integer(&f, "write_take", "N , B:write 1 60000"), LEASE), "no writer beside readers");
    cr_expect_eq(run_integer(&f, "readwrite_force", "N ch , A:write"), 0, "of the other end");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 0"), 0);
    cr_expect(ttl_is_near(&f, SHORTER));
    cr_expect(nothing_heard(&f, listener));
    cr_expect_eq(run_integer(&f, "readwrite_force", "N ch , B"), 1);
    cr_expect_str_eq(heard(listener), "0");
    cr_expect_eq(probe_keys(f.probe), 0);
    probe_close(listener);
    close_fixture(&f);
}

/* Where the one that leaves was the longest, the next longest is what the lock lives for; else nothing changes. */
static void check_who_reads_on(int crowd)
{
    struct fixture f = open_fixture();

    for (int i = 0; i < crowd; i++) {
        char words[32];

        (void)snprintf(words, sizeof words, "N , %d 1 20000", i);
        (void)run_integer(&f, "read_take", words);
    }
    (void)run_integer(&f, "read_take", "N , A 1 120000");
    (void)run_integer(&f, "read_take", "N , B 1 60000");
    (void)run_integer(&f, "read_take", "N , C 1 30000");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , C 0"), 0);
    cr_expect(ttl_is_near(&f, LONGER));
    (void)run_integer(&f, "read_take", "N , C 1 30000");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , A 0"), 0);
    cr_expect(ttl_is_near(&f, LEASE), "of B, though C came later");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , B 0"), 0);
    cr_expect(ttl_is_near(&f, SHORTER));
    (void)probe_ask(f.probe, "DEL {N}:C:rwlock_timeout:1"); /* all are dead */
    for (int i = 0; i < crowd; i++)
        (void)probe_ask(f.probe, "DEL {N}:%d:rwlock_timeout:1", i);
    (void)run_integer(&f, "read_take", "N , D 1 30000");
    cr_expect_eq(run_integer(&f, "read_release", "N ch , D 0"), 1);
    cr_expect_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_readwrite, lock_lives_as_long_as_the_longest_of_those_who_read_on, .timeout = 60)
{
    check_who_reads_on(0);
}

Test(scripts_readwrite, lock_lives_as_long_as_the_longest_of_a_crowd_that_reads_on, .timeout = 60)
{
    check_who_reads_on(12);
}

Test(scripts_readwrite, force_of_a_writer_tells_both_kinds_of_waiters, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    (void)run_integer(&f, "write_take", "N , A:write 1 60000");
    cr_expect_eq(run_integer(&f, "readwrite_force", "N ch , A:write"), 1);
    cr_expect_str_eq(heard(listener), "1");
    cr_expect_str_eq(heard(listener), "0");
    cr_expect_eq(probe_keys(f.probe), 0);
    probe_close(listener);
    close_fixture(&f);
}

/* A mark is left by a writer whom readers refuse, and by nobody else; beside it nobody begins to read. */
Test(scripts_readwrite, writers_mark_keeps_new_readers_out_and_nobody_else, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    cr_expect_eq(run_integer(&f, "read_take", "N m , A 1 60000"), TAKEN);
    cr_expect(is_near(run_integer(&f, "write_take", "N m ch , B:write 1 60000 0 0"), LEASE), "asked to leave none");
    cr_expect_eq(probe_int(f.probe, "EXISTS m"), 0);
    cr_expect_eq(run_integer(&f, "write_take", "N m ch , B:write 1 60000 0 30000"), 10000,
                 "look again after a third of a life");
    cr_expect_eq(run_integer(&f, "write_take", "N m ch , B:write 1 60000 0 30000"), 10000);
    cr_expect(is_near(run_integer(&f, "write_take", "N m ch , C:write 1 60000 0 600000"), LEASE),
              "or with the readers' lease");
    cr_expect_eq(probe_int(f.probe, "ZCARD m"), 2);
    cr_expect(is_near(probe_int(f.probe, "PTTL m"), 600000), "as long as the longest");
    cr_expect(is_near(run_integer(&f, "read_take", "N m , D 1 60000"), 600000), "a new reader");
    cr_expect_eq(run_integer(&f, "read_take", "N , D 1 60000"), TAKEN, "one that does not look, as a peer");
    cr_expect_eq(run_integer(&f, "read_take", "N m , A 2 60000"), HELD_ALREADY, "one that reads");
    cr_expect(nothing_heard(&f, listener));
    cr_expect_eq(run_integer(&f, "write_release", "N ch m , C:write 1"), NO_SUCH_HOLD, "gives nothing up");
    cr_expect_eq(run_integer(&f, "write_release", "N ch m , C:write 0"), NO_SUCH_HOLD);
    cr_expect(nothing_heard(&f, listener), "another one waits");
    cr_expect_eq(run_integer(&f, "write_release", "N ch m , B:write 0"), NO_SUCH_HOLD);
    cr_expect_str_eq(heard(listener), "2");
    cr_expect_eq(run_integer(&f, "write_release", "N ch m , B:write 0"), NO_SUCH_HOLD);
    cr_expect(nothing_heard(&f, listener), "a repeat");
    cr_expect_eq(probe_int(f.probe, "EXISTS m"), 0);
    probe_close(listener);
    close_fixture(&f);
}

Test(scripts_readwrite, marks_go_when_a_writer_gets_in_and_none_is_left_beside_it, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    (void)probe_ask(f.probe, "ZADD m 1 dead 9999999999999 alive");
    cr_expect_gt(run_integer(&f, "read_take", "N m , A 1 60000"), 60000, "of a free lock, too");
    cr_expect_eq(probe_int(f.probe, "EXISTS N"), 0);
    cr_expect_eq(run_integer(&f, "write_take", "N m ch , B:write 1 60000 0 30000"), TAKEN);
    cr_expect_str_eq(heard(listener), "2"); /* to those whom the marks kept out */
    cr_expect_eq(probe_keys(f.probe), 1);
    cr_expect(is_near(run_integer(&f, "write_take", "N m ch , C:write 1 60000 0 30000"), LEASE), "another writer");
    cr_expect(nothing_heard(&f, listener));
    cr_expect_eq(probe_keys(f.probe), 1);
    (void)probe_ask(f.probe, "ZADD m 9999999999999 alive");
    cr_expect_eq(run_integer(&f, "read_take", "N m , B 1 60000 0 B:write"), TAKEN, "the writer itself");
    cr_expect_eq(run_integer(&f, "write_release", "N ch m , B:write 0"), 1);
    (void)probe_ask(f.probe, "ZADD m 1 dead");
    cr_expect_eq(run_integer(&f, "write_take", "N m ch , C:write 1 60000 0 30000"), 10000);
    cr_expect_eq(probe_int(f.probe, "ZCARD m"), 2, "the dead go when one leaves a mark");
    clear(&f);
    (void)probe_ask(f.probe, "ZADD m 1 dead");
    cr_expect_eq(run_integer(&f, "read_take", "N m , A 1 60000"), TAKEN, "the dead keep nobody out");
    clear(&f);
    for (const char *const *life = (const char *const[]){"2", "-1", "1.5", "x", "''", "1099511627777", NULL};
         *life != NULL; life++) {
        char *line = must_format("N m , A:write 1 60000 0 %s", *life);

        cr_expect(run_fails(&f, "write_take", line, "ERR redlatch: life"), "%s", *life);
        free(line);
    }
    (void)probe_ask(f.probe, "SET m string");
    cr_expect(run_fails(&f, "read_take", "N m , A 1 60000", "WRONGTYPE "));
    cr_expect_eq(probe_keys(f.probe), 1);
    probe_close(listener);
    close_fixture(&f);
}

/* ---- semaphores ------------------------------------------------------------------------------------------------- */

#define SEMAPHORE "N ch g , "
#define MINUTE "60000"

static int64_t free_permits(struct fixture *f)
{
    return atoll(probe_text(f->probe, "GET N"));
}

Test(scripts_semaphore, bad_arguments_are_refused_before_anything_is_written, .timeout = 60)
{
    static const char *const GUARDED[] = {"semaphore_take",    "semaphore_undo", "semaphore_add",   "semaphore_drain",
                                          "semaphore_try_set", "latch_try_set",  "latch_count_down"};
    struct fixture f = open_fixture();

    for (size_t i = 0; i < sizeof GUARDED / sizeof GUARDED[0]; i++) {
        clear(&f);
        expect_refused(&f, GUARDED[i], SEMAPHORE "2 $", LEASE_TOO_LONG, 0);
        if (strcmp(GUARDED[i], "semaphore_drain") != 0)
            cr_expect(run_fails(&f, GUARDED[i], SEMAPHORE "2 60000 flushall", WAYS_TO_PUBLISH), "%s", GUARDED[i]);
        (void)probe_ask(f.probe, "SET N words");
        cr_expect(run_fails(&f, GUARDED[i], SEMAPHORE "2 60000", "ERR redlatch: what is stored"), "%s", GUARDED[i]);
        cr_expect_eq(probe_keys(f.probe), 1, "%s", GUARDED[i]);
        (void)probe_ask(f.probe, "DEL N");
        (void)probe_ask(f.probe, "HSET N A 1");
        cr_expect(run_fails(&f, GUARDED[i], SEMAPHORE "2 60000", "WRONGTYPE "), "%s", GUARDED[i]);
        cr_expect_eq(probe_keys(f.probe), 1, "%s", GUARDED[i]);
    }
    clear(&f);
    expect_refused(&f, "semaphore_take", SEMAPHORE "$ 60000", COUNT_TOO_HIGH, 0);
    expect_refused(&f, "latch_try_set", SEMAPHORE "$ 60000", COUNT_TOO_HIGH, 0);
    cr_expect(run_fails(&f, "semaphore_add", SEMAPHORE "0 60000", "ERR redlatch: permits"));
    cr_expect(run_fails(&f, "semaphore_add", SEMAPHORE "1.5 60000", "ERR redlatch: permits"));
    cr_expect(run_fails(&f, "semaphore_add", SEMAPHORE "-2147483648 60000", "ERR redlatch: permits"));
    cr_expect(run_fails(&f, "semaphore_try_set", SEMAPHORE "-1 60000", "ERR redlatch: permits"));
    cr_expect_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

/* A peer may have stored more than one's own verbs let through; what is beyond 2^53 no script counts exactly. */
Test(scripts_semaphore, N11_sums_and_counts_at_their_limits_are_refused_and_never_wrap, .timeout = 60)
{
    static const char *const TOO_FAR[] = {"9007199254740992", "-9007199254740992", "99999999999999999999"};
    static const char *const COUNTED[] = {"semaphore_take",    "semaphore_undo", "semaphore_add",   "semaphore_drain",
                                          "semaphore_try_set", "latch_try_set",  "latch_count_down"};
    struct fixture f = open_fixture();

    (void)probe_ask(f.probe, "SET N 2147483646");
    cr_expect(run_fails(&f, "semaphore_add", "N ch g1 , 2 " MINUTE, "ERR redlatch: a semaphore has"));
    cr_expect_eq(probe_keys(f.probe), 1, "and nothing is written");
    cr_expect_eq(run_integer(&f, "semaphore_add", "N ch g1 , 1 " MINUTE), 0);
    cr_expect(run_fails(&f, "semaphore_add", "N ch g2 , 1 " MINUTE, "ERR redlatch: a semaphore has"));
    cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g3 , 2147483647 " MINUTE), 0);
    (void)probe_ask(f.probe, "SET N 10");
    cr_expect_eq(run_integer(&f, "semaphore_undo", "N ch g3 , 0 " MINUTE), INT32_MAX - 10, "an undo fills it up");
    cr_expect_eq(free_permits(&f), INT32_MAX);
    (void)probe_ask(f.probe, "SET N -2147483647");
    cr_expect(run_fails(&f, "semaphore_add", "N ch g4 , -1 " MINUTE, "ERR redlatch: a semaphore has"));
    cr_expect_eq(free_permits(&f), -INT32_MAX);

    (void)probe_ask(f.probe, "SET N 3000000000");
    cr_expect(run_fails(&f, "semaphore_add", "N ch g5 , 1 " MINUTE, "ERR redlatch: a semaphore has"));
    cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g6 , 1 " MINUTE), INT64_C(2999999999));
    cr_expect_eq(run_integer(&f, "semaphore_add", "N ch g7 , -1 " MINUTE), 0, "fewer may be made of too many");
    cr_expect_eq(run_integer(&f, "semaphore_drain", "N ch g8 , 0 " MINUTE), INT32_MAX,
                 "no more than may be given back");
    cr_expect_eq(free_permits(&f), INT64_C(2999999998) - INT32_MAX);
    for (size_t i = 0; i < sizeof TOO_FAR / sizeof TOO_FAR[0]; i++) {
        (void)probe_ask(f.probe, "SET N %s", TOO_FAR[i]);
        for (size_t k = 0; k < sizeof COUNTED / sizeof COUNTED[0]; k++)
            cr_expect(run_fails(&f, COUNTED[k], "N ch g9 , 1 " MINUTE, "ERR redlatch: what is stored"), "%s",
                      COUNTED[k]);
        cr_expect_str_eq(probe_text(f.probe, "GET N"), TOO_FAR[i]);
    }
    (void)probe_ask(f.probe, "SET N 9007199254740991");
    cr_expect_eq(run_integer(&f, "latch_count_down", "N ch g10 , 0 " MINUTE), INT64_C(9007199254740990));
    close_fixture(&f);
}

Test(scripts_semaphore, each_request_is_carried_out_once_however_often_it_comes, .timeout = 60)
{
    struct fixture f = open_fixture();

    cr_expect_eq(run_integer(&f, "semaphore_try_set", "N ch g1 , 5 " MINUTE), 1);
    cr_expect_eq(run_integer(&f, "semaphore_try_set", "N ch g2 , 9 " MINUTE), 0);
    cr_expect_eq(run_integer(&f, "semaphore_try_set", "N ch g1 , 5 " MINUTE), 1, "the answer is kept");
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g3 , 3 " MINUTE), 2);
    cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g4 , 3 " MINUTE), -1 - 2);
    cr_expect_eq(probe_int(f.probe, "EXISTS g4"), 0, "a refusal may be asked again");
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "semaphore_add", "N ch g5 , 1 " MINUTE), 0);
    cr_expect_eq(free_permits(&f), 3);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "semaphore_drain", "N ch g6 , 0 " MINUTE), 3);
    cr_expect_eq(free_permits(&f), 0);
    cr_expect_eq(run_integer(&f, "semaphore_undo", "N ch g6 , 0 " MINUTE), 3);
    cr_expect_eq(run_integer(&f, "semaphore_undo", "N ch g6 , 0 " MINUTE), 0);
    cr_expect_eq(run_integer(&f, "semaphore_drain", "N ch g6 , 0 " MINUTE), 0, "undone: it comes too late");
    cr_expect_eq(run_integer(&f, "semaphore_undo", "N ch g7 , 0 " MINUTE), 0);
    cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g7 , 1 " MINUTE), 3, "the same");
    cr_expect_eq(free_permits(&f), 3);
    close_fixture(&f);
}

Test(scripts_semaphore, guard_of_an_answer_that_was_read_goes_with_the_next_request, .timeout = 60)
{
    struct fixture f = open_fixture();

    (void)probe_ask(f.probe, "SET N 3");
    (void)run_integer(&f, "semaphore_take", "N ch g1 , 1 " MINUTE);
    cr_expect(is_near(probe_int(f.probe, "PTTL g1"), LEASE));
    cr_expect_eq(run_integer(&f, "semaphore_take", "N ch g2 g1 , 1 " MINUTE), 1);
    cr_expect_eq(probe_int(f.probe, "EXISTS g1"), 0);
    cr_expect_eq(probe_keys(f.probe), 2);
    close_fixture(&f);
}

#define PERMITS "N t ch , "
#define PERMITS_GUARDED "N t ch g , "
#define ID1 "aaaaaaaaaaaaaaaa"
#define ID2 "bbbbbbbbbbbbbbbb"
#define ID3 "cccccccccccccccc"

Test(scripts_permits, bad_arguments_are_refused_before_anything_is_written, .timeout = 60)
{
    struct fixture f = open_fixture();

    expect_refused(&f, "permit_take", PERMITS "$ publish p 0 " ID1, LEASE_TOO_LONG, 0);
    expect_refused(&f, "permit_set", PERMITS_GUARDED "publish 1 $", LEASE_TOO_LONG, 0);
    cr_expect(run_fails(&f, "permit_take", PERMITS "60000 publish p 0 short", "ERR redlatch: the id"));
    cr_expect(run_fails(&f, "permit_take", PERMITS "60000 publish p 0", "ERR redlatch: 1 to 1000"));
    cr_expect(run_fails(&f, "permit_undo", PERMITS "0 publish p 0 short", "ERR redlatch: the id"));
    cr_expect(run_fails(&f, "permit_release", PERMITS "publish short", "ERR redlatch: the id"));
    cr_expect(run_fails(&f, "permit_extend", PERMITS "publish -1 " ID1, "ERR redlatch: lease"));
    cr_expect(run_fails(&f, "permit_set", PERMITS_GUARDED "publish -1 " MINUTE, "ERR redlatch: permits"));
    cr_expect(run_fails(&f, "permit_set", PERMITS_GUARDED "publish 2147483648 " MINUTE, "ERR redlatch: permits"));
    cr_expect(run_fails(&f, "permit_look", PERMITS "flushall", WAYS_TO_PUBLISH));
    cr_expect(run_fails(&f, "permit_set", PERMITS_GUARDED "flushall 1 " MINUTE, WAYS_TO_PUBLISH));
    cr_expect_eq(probe_keys(f.probe), 0);
    close_fixture(&f);
}

Test(scripts_permits, N11_sums_and_counts_at_their_limits_are_refused_and_never_wrap, .timeout = 60)
{
    static const char *const WORDS[][2] = {{"permit_take", PERMITS "60000 publish p 0 " ID3},
                                           {"permit_undo", PERMITS "0 publish p 0 " ID3},
                                           {"permit_release", PERMITS "publish " ID3},
                                           {"permit_extend", PERMITS "publish 0 " ID3},
                                           {"permit_look", PERMITS "publish"},
                                           {"permit_set", "N t ch g2 , publish 1 " MINUTE}};
    struct fixture f = open_fixture();

    (void)probe_ask(f.probe, "SET N 2");
    cr_expect_eq(run_integer(&f, "permit_take", PERMITS "60000 publish p 0 " ID1 " " ID2), 0);
    (void)probe_ask(f.probe, "SET N 2147483646");
    cr_expect(run_fails(&f, "permit_release", PERMITS "publish " ID1 " " ID2, "ERR redlatch: a semaphore has"));
    cr_expect_eq(probe_int(f.probe, "ZCARD t"), 2, "all or none");
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID1), 1);
    cr_expect_eq(run_integer(&f, "permit_undo", PERMITS "0 publish p 0 " ID2), 1);
    cr_expect_eq(free_permits(&f), INT32_MAX, "an undo fills it up");
    (void)probe_ask(f.probe, "ZADD t 1 %s", ID1);
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID1), 0);
    cr_expect_eq(free_permits(&f), INT32_MAX, "so do those that expire");
    cr_expect_eq(run_integer(&f, "permit_set", PERMITS_GUARDED "publish 2147483647 " MINUTE), 0);
    cr_expect_eq(free_permits(&f), INT32_MAX);
    (void)probe_ask(f.probe, "SET N 9007199254740992");
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        cr_expect(run_fails(&f, WORDS[i][0], WORDS[i][1], "ERR redlatch: what is stored"), "%s", WORDS[i][0]);
    cr_expect_str_eq(probe_text(f.probe, "GET N"), "9007199254740992");
    close_fixture(&f);
}

Test(scripts_permits, repeats_find_their_work_done, .timeout = 60)
{
    struct fixture f = open_fixture();

    cr_expect_eq(run_integer(&f, "permit_set", PERMITS_GUARDED "publish 9 " MINUTE), 0);
    cr_expect_eq(run_integer(&f, "permit_set", "N t ch g2 , publish 3 " MINUTE), 0);
    cr_expect_eq(run_integer(&f, "permit_set", PERMITS_GUARDED "publish 9 " MINUTE), 0);
    cr_expect_eq(free_permits(&f), 3, "a repeat does not set again what was set by others since");
    cr_expect_eq(run_integer(&f, "permit_set", "N t ch g3 g , publish 3 " MINUTE), 0);
    cr_expect_eq(probe_int(f.probe, "EXISTS g"), 0, "done with");
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "permit_take", PERMITS "60000 publish p 0 " ID1 " " ID2), 1);
    cr_expect_eq(probe_int(f.probe, "ZCARD t"), 2);
    cr_expect_eq(run_integer(&f, "permit_take", PERMITS "90000 publish p 0 " ID1 " " ID2), 1);
    cr_expect_gt(run_integer(&f, "permit_extend", PERMITS "publish 0 " ID2), LEASE,
                 "its caller counts from the repeat");
    cr_expect(run_fails(&f, "permit_take", PERMITS "60000 publish p 0 " ID2 " " ID3, "ERR redlatch: some"));
    cr_expect(run_fails(&f, "permit_take", PERMITS "60000 publish p 0 " ID3 " " ID2, "ERR redlatch: some"));
    cr_expect_eq(free_permits(&f), 1, "a block that overlaps another's takes nothing");
    cr_expect(is_near(run_integer(&f, "permit_extend", PERMITS "publish 120000 " ID1), LONGER));
    cr_expect(is_near(run_integer(&f, "permit_extend", PERMITS "publish 60000 " ID1), LONGER),
              "its end only moves away");
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID1), 1);
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID1), 0);
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID1 " " ID2), NO_SUCH_HOLD, "all or none");
    cr_expect_eq(run_integer(&f, "permit_release", PERMITS "publish " ID2 " " ID2), NO_SUCH_HOLD, "none twice");
    cr_expect_eq(free_permits(&f), 2);
    cr_expect_eq(run_integer(&f, "permit_undo", PERMITS "0 publish p 0 " ID2 " " ID2), 1,
                 "one that is named twice comes back once");
    cr_expect_eq(run_integer(&f, "permit_undo", PERMITS "0 publish p 0 " ID1 " " ID2), 0);
    cr_expect_eq(free_permits(&f), 3);
    cr_expect_eq(run_integer(&f, "permit_extend", PERMITS "publish 60000 " ID1), NO_SUCH_HOLD);
    close_fixture(&f);
}

/* Of A and B, who wait, A has died. What C does then: a try that queues, a single one, and an undo that leaves nothing.
 */
Test(scripts_permits, who_finds_a_dead_place_in_front_of_a_fair_queue_tells_the_next, .timeout = 60)
{
    static const struct {
        const char *script, *words;
    } FINDS[] = {
        {"semaphore_take", "N ch g q s , 1 " MINUTE " publish C 15000"},
        {"semaphore_take", "N ch g q s , 1 " MINUTE " publish C 0"},
        {"semaphore_undo", "N ch g q s , 1 " MINUTE " publish C 0"},
        {"permit_take", "N t ch q s , 60000 publish C 15000 " ID1},
        {"permit_take", "N t ch q s , 60000 publish C 0 " ID1},
        {"permit_undo", "N t ch q s , 60000 publish C 0 " ID1},
    };
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for (size_t i = 0; i < sizeof FINDS / sizeof FINDS[0]; i++) {
        (void)probe_ask(f.probe, "DEL q s");
        (void)probe_ask(f.probe, "SET N 1");
        (void)probe_ask(f.probe, "ZADD q 1 A 2 B");
        (void)probe_ask(f.probe, "HSET s A 0 B 9999999999999");
        (void)run(&f, FINDS[i].script, FINDS[i].words);
        cr_expect_str_eq(heard(listener), "1", "%s", FINDS[i].words);
        cr_expect_eq(probe_int(f.probe, "ZRANK q B"), 0);
    }
    cr_expect(nothing_heard(&f, listener), "once is enough");
    probe_close(listener);
    close_fixture(&f);
}

/* ---- the latch -------------------------------------------------------------------------------------------------- */

Test(scripts_latch, counts_once_for_each_request_and_opens_once, .timeout = 60)
{
    struct fixture f = open_fixture();
    struct probe *listener = listen_to(&f, "SUBSCRIBE");

    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "latch_try_set", "N ch g1 , 2 " MINUTE), 1);
    cr_expect_str_eq(heard(listener), "1");
    cr_expect_eq(run_integer(&f, "latch_try_set", "N ch g2 , 7 " MINUTE), 0);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "latch_count_down", "N ch g3 , 1 " MINUTE), 1);
    cr_expect(nothing_heard(&f, listener));
    for (int i = 0; i < 2; i++)
        cr_expect_eq(run_integer(&f, "latch_count_down", "N ch g4 , 1 " MINUTE), 0);
    cr_expect_str_eq(heard(listener), "0");
    cr_expect_eq(run_integer(&f, "latch_count_down", "N ch g5 , 1 " MINUTE), 0, "one too many changes nothing");
    cr_expect_eq(run_integer(&f, "latch_count_down", "N ch g3 , 1 " MINUTE), 1, "late: the answer is kept");
    cr_expect_eq(probe_int(f.probe, "EXISTS N"), 0);
    cr_expect(nothing_heard(&f, listener));
    probe_close(listener);
    close_fixture(&f);
}
