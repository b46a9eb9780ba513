/* SPDX-License-Identifier: MIT */
/* call.h - for the Criterion programs of this folder that run each Lua file on a real server.
 *
 * A script is called by its file's name and words, as in run(&f, "reentrant_take", "N , U:1 1 60000"): keys before the
 * comma, arguments after it. Other bytes than that can write go through run_argv. Times are read back from a running
 * clock, so they are compared within SLACK_MS, and leases that are told apart lie further apart than that.
 */
#ifndef TESTS_SCRIPT_CALL_H
#define TESTS_SCRIPT_CALL_H

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

#define WAYS_TO_PUBLISH "ERR redlatch: the message" /* so begins what is said of an unknown one */

/* ---- asking ----------------------------------------------------------------------------------------------------- */

struct fixture {
    struct server *server;
    struct probe *probe;
};

static inline struct fixture open_fixture(void)
{
    struct fixture f = {.server = server_start(NULL)};

    f.probe = probe_open(f.server);
    for (size_t i = 1; i < RDL__SCRIPT_COUNT; i++) {
        const char *argv[] = {"SCRIPT", "LOAD", rdl__scripts[i].body};
        size_t len[] = {6, 4, rdl__scripts[i].body_len};
        const struct reply *r = probe_ask_argv(f.probe, 3, argv, len);

        cr_assert_str_eq(r->text, rdl__scripts[i].sha, "%s", rdl__scripts[i].name);
    }
    return f;
}

static inline void close_fixture(struct fixture *f)
{
    probe_close(f->probe);
    server_stop(f->server);
}

static inline const char *sha_of(const char *script)
{
    for (size_t i = 1; i < RDL__SCRIPT_COUNT; i++)
        if (strcmp(rdl__scripts[i].name, script) == 0)
            return rdl__scripts[i].sha;
    cr_assert_fail("no such script: %s", script);
    return NULL;
}

#define WORDS_MAX 32

/* The first `keys` of the words are keys. */
static inline const struct reply *run_argv(struct fixture *f, const char *script, size_t keys, size_t argc,
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
static inline const struct reply *run(struct fixture *f, const char *script, const char *words)
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

static inline int64_t run_integer(struct fixture *f, const char *script, const char *words)
{
    const struct reply *r = run(f, script, words);

    cr_assert_eq(r->kind, REPLY_INTEGER, "%s %s: %s", script, words, r->text != NULL ? r->text : "no integer");
    return r->integer;
}

static inline bool run_fails(struct fixture *f, const char *script, const char *words, const char *with)
{
    const struct reply *r = run(f, script, words);

    return r->kind == REPLY_ERROR && strncmp(r->text, with, strlen(with)) == 0;
}

static inline bool is_near(int64_t ms, int64_t wanted)
{
    return ms <= wanted && ms > wanted - SLACK_MS;
}

static inline bool ttl_is_near(struct fixture *f, int64_t wanted)
{
    return is_near(probe_int(f->probe, "PTTL N"), wanted);
}

/* The count of A's hold; 0 when N is not held by A. */
static inline int64_t count_of_a(struct fixture *f)
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

static inline void clear(struct fixture *f)
{
    (void)probe_text(f->probe, "FLUSHALL");
}

static inline int64_t server_us(struct fixture *f)
{
    const struct reply *r = probe_ask(f->probe, "TIME");

    return atoll(r->items[0].text) * 1000000 + atoll(r->items[1].text);
}

/* ---- bad arguments ---------------------------------------------------------------------------------------------- */

static const char *const BAD_NUMBERS[] = {"0",  "-1", "-0", "00",  "01",   "1.5", "1.0", "1e3",  "0x10",
                                          "+5", "x",  "5x", "nan", "-nan", "inf", "''",  "1e400"};

/* None of the bad numbers, nor `too_big`, in place of the $ of `words`; and N stays as `state` says. */
static inline void expect_refused(struct fixture *f, const char *script, const char *words, const char *too_big,
                                  int64_t keys)
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

/* A second connection that has subscribed to "ch". */
static inline struct probe *listen_to(struct fixture *f, const char *subscribe)
{
    struct probe *listener = probe_open(f->server);

    (void)probe_ask(listener, "%s ch", subscribe);
    return listener;
}

/* The next message, as text; what is published before something that is answered is here when the answer is. */
static inline const char *heard(struct probe *listener)
{
    const struct reply *r = probe_next(listener, 5000);

    return r != NULL && r->count == 3 ? r->items[2].text : NULL;
}

static inline bool nothing_heard(struct fixture *f, struct probe *listener)
{
    (void)probe_int(f->probe, "PUBLISH ch end");
    return strcmp(heard(listener), "end") == 0;
}

#endif
