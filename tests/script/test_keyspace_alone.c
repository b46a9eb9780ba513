/* SPDX-License-Identifier: MIT */
/* test_keyspace_alone.c - what the keyspace does that no server can show at will: moments, images, messages, and what
 * scripts leave behind.
 */
#include "tests/script/keyspace.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- without a server ------------------------------------------------------------------------------------------- */

/* One answer as a number. */
#define SAY(ks, ...)                                                                                                   \
    __extension__({                                                                                                    \
        struct reply *say_reply_ = ks_say(ks, __VA_ARGS__);                                                            \
        int64_t say_number_ = say_reply_->kind == REPLY_INTEGER ? say_reply_->integer : -100;                          \
        reply_free(say_reply_);                                                                                        \
        say_number_;                                                                                                   \
    })

Test(keyspace, a_key_lives_through_the_millisecond_in_which_its_time_ends)
{
    struct keyspace *ks = ks_new(1000000);

    (void)SAY(ks, "SET", "k", "v", "PX", "10");
    ks_advance(ks, 10999);
    cr_expect_eq(SAY(ks, "PTTL", "k"), 0);
    cr_expect_eq(SAY(ks, "EXISTS", "k"), 1);
    ks_advance(ks, 1);
    cr_expect_eq(SAY(ks, "EXISTS", "k"), 0);
    cr_expect_eq(SAY(ks, "PTTL", "k"), -2);
    ks_free(ks);
}

/* Which the tests beside a server cannot see: there a millisecond may pass in between. */
Test(keyspace, an_equal_time_to_live_is_neither_greater_nor_less)
{
    struct keyspace *ks = ks_new(1000000);

    (void)SAY(ks, "SET", "k", "v", "PX", "10");
    cr_expect_eq(SAY(ks, "PEXPIRE", "k", "10", "GT"), 0);
    cr_expect_eq(SAY(ks, "PEXPIRE", "k", "10", "LT"), 0);
    cr_expect_eq(SAY(ks, "PEXPIRE", "k", "10"), 1);
    ks_free(ks);
}

static bool same_image(struct keyspace *a, struct keyspace *b)
{
    struct bytes x = {0};
    struct bytes y = {0};
    bool same;

    ks_save(a, &x);
    ks_save(b, &y);
    same = x.len == y.len && memcmp(x.at, y.at, x.len) == 0 && ks_hash(x.at, x.len) == ks_hash(y.at, y.len);
    bytes_done(&x);
    bytes_done(&y);
    return same;
}

Test(keyspace, an_image_restores_the_whole_state)
{
    struct keyspace *a = ks_new(5000000);
    struct keyspace *b = ks_new(0);
    struct bytes image = {0};

    (void)SAY(a, "SET", "s", "v", "PX", "100");
    (void)SAY(a, "HSET", "h", "f", "1", "g", "2");
    (void)SAY(a, "RPUSH", "l", "x", "y", "x");
    (void)SAY(a, "ZADD", "z", "2.5", "m", "1", "n");
    (void)SAY(b, "SET", "other", "v");
    ks_save(a, &image);
    ks_restore(b, image.at, image.len);
    cr_expect(same_image(a, b));
    cr_expect_eq(ks_time(b), 5000000);
    cr_expect_eq(SAY(b, "PTTL", "s"), 100);
    cr_expect_eq(SAY(b, "HGET", "h", "f"), SAY(a, "HGET", "h", "f"));
    cr_expect_eq(SAY(b, "LLEN", "l"), 3);
    cr_expect_eq(SAY(b, "ZCARD", "z"), 2);
    cr_expect_eq(SAY(b, "EXISTS", "other"), 0);
    bytes_done(&image);
    ks_free(a);
    ks_free(b);
}

Test(keyspace, images_are_equal_when_no_command_can_tell)
{
    struct keyspace *a = ks_new(5000000);
    struct keyspace *b = ks_new(5000000);
    char name[16];

    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof name, "k%d", i);
        (void)SAY(a, "SET", name, "v");
        (void)snprintf(name, sizeof name, "k%d", 99 - i);
        (void)SAY(b, "SET", name, "v");
    }
    cr_expect(same_image(a, b));
    (void)SAY(a, "SET", "over", "v", "PX", "1");
    cr_expect_not(same_image(a, b));
    ks_advance(a, 2000);
    ks_advance(b, 2000);
    cr_expect(same_image(a, b));
    (void)SAY(a, "DEL", "k5");
    cr_expect_not(same_image(a, b));
    ks_free(a);
    ks_free(b);
}

struct heard {
    int count;
    bool sharded;
    char text[32];
};

static int64_t hear(void *arg, bool sharded, const char *channel, size_t channel_len, const char *payload,
                    size_t payload_len)
{
    struct heard *h = arg;

    h->count++;
    h->sharded = sharded;
    (void)snprintf(h->text, sizeof h->text, "%.*s=%.*s", (int)channel_len, channel, (int)payload_len, payload);
    return 7;
}

Test(keyspace, messages_are_handed_out_and_counted)
{
    struct keyspace *ks = ks_new(0);
    struct heard h = {0};

    cr_expect_eq(SAY(ks, "PUBLISH", "c", "0"), 0);
    ks_on_publish(ks, hear, &h);
    cr_expect_eq(SAY(ks, "PUBLISH", "c", "0"), 7);
    cr_expect_str_eq(h.text, "c=0");
    cr_expect_not(h.sharded);
    cr_expect_eq(SAY(ks, "EVAL", "return redis.call('spublish', 'd', 1)", "0"), 7);
    cr_expect_str_eq(h.text, "d=1");
    cr_expect(h.sharded);
    cr_expect_eq(h.count, 2);
    ks_free(ks);
}

Test(keyspace, scripts_leave_nothing_to_the_next_run)
{
    struct keyspace *ks = ks_new(0);

    cr_expect_eq(SAY(ks, "EVAL", "KEYS[1] = 'x' ARGV[9] = 'y' return #KEYS", "1", "k", "a"), 1);
    cr_expect_eq(SAY(ks, "EVAL", "return #KEYS + #ARGV", "0"), 0);
    for (int i = 0; i < 1000; i++)
        (void)SAY(ks, "EVAL", "error('again')", "0");
    cr_expect_eq(SAY(ks, "EVAL", "return redis.pcall('nosuch') and 1", "0"), 1);
    ks_free(ks);
}
