/* SPDX-License-Identifier: MIT */
/* test_refused.c - N7: a command that the server does not let a script run. script/test_refusals refuses each at each
 * place; here a real server does, by the rights of a user, of every type and verb.
 *
 * The caller is told which command it was. Nothing is left without a time to live, and once the rights are there
 * nothing is left at all. */
#include "tests/live/live.h"

#include <ctype.h>
#include <stdio.h>

#define LEASE_MS 60000
#define MOMENT_MS 10 /* what a rival waits, to leave what waiters leave */
#define UNDONE_MS 20000

LIVE_SUITE(refused, 120);

static struct caller *rival;

/* A client whose rights change; the probe's stay. */
static void limit(const char *rules)
{
    cr_assert_str_eq(probe_text(st.probe, "ACL SETUSER app %s", rules), "OK");
}

static void open_as_app(void)
{
    char *uri;

    stage_open(&st);
    limit("on >secret ~* &* +@all");
    uri = must_format("unix://app:secret@%s", server_socket(st.server));
    st.client = rdl_client_close(st.client);
    st.client = client_open(uri, NULL);
    free(uri);
}

/* A refusal names what was refused. */
static void see_words(int64_t rc, const rdl_err_t *why, const char *verb, const char *type, const char *command)
{
    if (rc == RDL_ESERVER)
        cr_expect_not_null(strcasestr(why->message, command), "%s of %s without %s: %s", verb, type, command,
                           why->message);
}

static int64_t unlock(void *lock, rdl_err_t *why)
{
    return rdl_unlock(lock, why);
}

static void see_rival(const char *verb, const char *type, const char *command)
{
    int64_t rc = caller_result(rival, SOON_MS);

    see_words(rc, caller_error(rival), verb, type, command);
}

/* A hold that was given up, or evicted: is it? Of a fair lock the rival may have it by now, whose place was not left.
 */
static void see_freed(const rdl_lock_t *lock, bool freed, const char *verb, const char *command)
{
    const char *type = rdl_lock_type(lock);

    if (strcmp(type, "fair") != 0)
        cr_expect_eq(lock_holds(st.probe, rdl_lock_name(lock, NULL)) == 0, freed, "%s of %s without %s", verb, type,
                     command);
}

/* Every verb, whatever comes of the one before it; and what it says is so. */
static void use(rdl_lock_t *lock, rdl_lock_t *other, const char *command)
{
    const char *type = rdl_lock_type(lock);
    int64_t rc;

    for (int nested = 0; nested < 2; nested++)
        see_words(rdl_try_lock(lock, 0, LEASE_MS, &err), &err, "take", type, command);
    see_words(rdl_extend(lock, 2 * LEASE_MS, &err), &err, "extend", type, command);
    caller_try_lock(rival, other, MOMENT_MS, LEASE_MS);
    see_rival("wait", type, command);
    for (int nested = 0; nested < 2; nested++) {
        bool last = rdl_hold_count(lock, NULL) == 1;

        see_words(rc = rdl_unlock(lock, &err), &err, "release", type, command);
        if (rc == RDL_OK && last)
            see_freed(lock, true, "release", command);
    }
    caller_call(rival, unlock, other);
    see_rival("release", type, command);
    see_words(rc = rdl_try_lock(lock, 0, LEASE_MS, &err), &err, "take", type, command);
    if (rc == RDL_OK) {
        see_words(rc = rdl_force_unlock(lock, &err), &err, "force", type, command);
        see_freed(lock, rc == 1, "force", command);
    }
    (void)rdl_unlock(lock, &err);
}

static bool is_counter(const char *key)
{
    return strncmp(key, "redisson_lock_token:", 20) == 0;
}

/* How many keys but counters there are; `for_ever`: those without a time to live. */
static int left(bool for_ever, char **ret_one)
{
    const struct reply *all = probe_ask(st.probe, "KEYS *");
    char **names = must_alloc((all->count + 1) * sizeof *names);
    size_t count = all->count;
    int found = 0;

    for (size_t i = 0; i < count; i++)
        names[i] = must_format("%s", all->items[i].text);
    for (size_t i = 0; i < count; i++) {
        bool counts = !is_counter(names[i]) && (!for_ever || probe_int(st.probe, "PTTL %s", names[i]) == -1);

        found += counts;
        if (counts && ret_one != NULL && *ret_one == NULL)
            *ret_one = must_format("%s", names[i]);
        free(names[i]);
    }
    free(names);
    return found;
}

Test(refused, N7_nothing_is_left_for_ever_whichever_command_is_not_allowed)
{
    static const char *const commands[] = {"time",    "hget",    "hset",    "hdel",    "hexists", "hkeys",
                                           "hgetall", "exists",  "del",     "pttl",    "set",     "get",
                                           "incr",    "pexpire", "persist", "publish", "lindex",  "rpush",
                                           "lrem",    "zadd",    "zrem",    "zscore",  "zrange",  "zremrangebyscore"};
    char *one = NULL;

    open_as_app();
    rival = caller_new();
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char *without = must_format("-%s", commands[i]), *with = must_format("+%s", commands[i]);

        FOR_EACH_SINGLE_KIND(kind)
        {
            char *name = must_format("%s:%s", kind->type, commands[i]);
            rdl_lock_options_t options = {.version = RDL_LOCK_OPTIONS_VERSION,
                                          .prefer_writers = kind->constructor == rdl_read_lock ||
                                                            kind->constructor == rdl_write_lock};
            rdl_lock_t *lock = kind->make(st.client, name, &options), *other = kind->rival(st.client, name, &options);

            limit(without);
            use(lock, other, commands[i]);
            cr_expect_eq(left(true, &one), 0, "%s without %s: %s is left for ever", kind->type, commands[i], one);
            limit(with);
            rdl_lock_free(lock);
            rdl_lock_free(other);
            free(name);
        }
        free(without);
        free(with);
    }
    free(one);
    caller_free(rival);
    cr_assert(WAIT_UNTIL(left(false, NULL) == 0, UNDONE_MS), "left behind");
    left_behind = true; /* counters */
}

/* ---- permits and counts ----------------------------------------------------------------------------------------- */

static void see(int64_t rc, const char *verb, const char *command)
{
    see_words(rc, &err, verb, "permits", command);
}

/* Every verb, and what was taken is given back; a release that is refused has released nothing. */
static void check_permits(const char *name, const char *command, bool fair)
{
    const rdl_semaphore_options_t options = {.version = RDL_SEMAPHORE_OPTIONS_VERSION, .fair = fair};
    rdl_semaphore_t *pool = NULL;
    char *without = must_format("-%s", command), *with = must_format("+%s", command);
    int64_t taken = 0, rc;

    expect(RDL_OK, rdl_semaphore(st.client, name, &options, &pool, &err));
    expect(1, rdl_semaphore_try_set_permits(pool, 5, &err));
    limit(without);
    see(rc = rdl_semaphore_try_acquire(pool, 2, 0, &err), "take", command);
    taken += rc == RDL_OK ? 2 : 0;
    see(rdl_semaphore_try_acquire(pool, 9, MOMENT_MS, &err), "wait", command);
    see(rc = rdl_semaphore_release(pool, 1, &err), "release", command);
    taken -= rc == RDL_OK ? 1 : 0;
    see(rc = rdl_semaphore_drain(pool, &err), "drain", command);
    taken += rc > 0 ? rc : 0;
    limit(with);
    cr_expect(WAIT_UNTIL(rdl_semaphore_available(pool, &err) == 5 - taken, UNDONE_MS),
              "%s without %s: %lld free, %lld taken", name, command, (long long)rdl_semaphore_available(pool, &err),
              (long long)taken);
    rdl_semaphore_free(pool);
    free(without);
    free(with);
}

static void check_leased(const char *name, const char *command, bool fair)
{
    const rdl_semaphore_options_t options = {.version = RDL_SEMAPHORE_OPTIONS_VERSION, .fair = fair};
    rdl_permit_semaphore_t *seats = NULL;
    rdl_permit_t two[2], many[6];
    bool taken;
    char *without = must_format("-%s", command), *with = must_format("+%s", command);
    int64_t rc;

    expect(RDL_OK, rdl_permit_semaphore(st.client, name, &options, &seats, &err));
    expect(1, rdl_permit_semaphore_try_set_permits(seats, 5, &err));
    (void)probe_int(st.probe, "ZADD {%s}:timeout 1 0123456789abcdef", name); /* one has expired */
    (void)probe_int(st.probe, "DECR %s", name);
    limit(without);
    see(rc = rdl_permit_semaphore_try_acquire(seats, 2, 0, LEASE_MS, two, &err), "take", command);
    see(rdl_permit_semaphore_try_acquire(seats, 6, MOMENT_MS, LEASE_MS, many, &err), "wait", command);
    taken = rc == RDL_OK;
    if (taken)
        see(rc = rdl_permit_semaphore_release(seats, 2, two, &err), "release", command);
    limit(with);
    if (taken && rc != RDL_OK)
        expect(RDL_OK, rdl_permit_semaphore_release(seats, 2, two, &err)); /* it was not done */
    cr_expect(WAIT_UNTIL(rdl_permit_semaphore_available(seats, &err) == 5, UNDONE_MS), "%s without %s: %lld free", name,
              command, (long long)rdl_permit_semaphore_available(seats, &err));
    limit(without);
    see(rc = rdl_permit_semaphore_set_permits(seats, 7, &err), "set", command);
    limit(with);
    expect(rc == RDL_OK ? 7 : 5, rdl_permit_semaphore_available(seats, &err));
    rdl_permit_semaphore_free(seats);
    free(without);
    free(with);
}

static int64_t stored(const char *name)
{
    return probe_int(st.probe, "EXISTS %s", name) == 1 ? probe_int(st.probe, "GET %s", name) : -1;
}

/* What is set is there, and what is refused is not. */
static void check_settings(const char *name, const char *command)
{
    rdl_semaphore_t *pool = NULL;
    char *without = must_format("-%s", command), *with = must_format("+%s", command);
    int64_t rc;

    expect(RDL_OK, rdl_semaphore(st.client, name, NULL, &pool, &err));
    limit(without);
    see(rc = rdl_semaphore_try_set_permits(pool, 3, &err), "set", command);
    cr_expect_eq(stored(name), rc == 1 ? 3 : -1, "%s without %s", name, command);
    limit(with);
    rdl_semaphore_free(pool);
    free(without);
    free(with);
}

static void check_latch(const char *name, const char *command)
{
    rdl_latch_t *latch = NULL;
    char *without = must_format("-%s", command), *with = must_format("+%s", command);
    int64_t rc, count = 2;

    expect(RDL_OK, rdl_latch(st.client, name, NULL, &latch, &err));
    limit(without);
    see(rc = rdl_latch_try_set_count(latch, 2, &err), "set", command);
    cr_expect_eq(stored(name), rc == 1 ? 2 : -1, "%s without %s", name, command);
    if (rc != 1) {
        limit(with);
        expect(1, rdl_latch_try_set_count(latch, 2, &err));
        limit(without);
    }
    for (int i = 0; i < 2; i++) {
        see(rc = rdl_latch_count_down(latch, &err), "count", command);
        count -= rc >= 0 ? 1 : 0;
        cr_expect_eq(stored(name), count == 0 ? -1 : count, "%s without %s", name, command);
    }
    limit(with);
    rdl_latch_free(latch);
    free(without);
    free(with);
}

Test(refused, N7_permits_are_neither_made_nor_lost_whichever_command_is_not_allowed)
{
    static const char *const commands[] = {
        "get",    "set",    "del",  "incrby", "decrby", "publish",          "pttl", "pexpire", "zadd", "zrem", "zcard",
        "zrange", "zscore", "hset", "hget",   "hdel",   "zremrangebyscore", "time", "decr"};

    open_as_app();
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char *set = must_format("set:%s", commands[i]), *latch = must_format("latch:%s", commands[i]),
             *seats = must_format("seats:%s", commands[i]);
        char *plain = must_format("plain:%s", commands[i]), *fair = must_format("fair:%s", commands[i]),
             *leased = must_format("leased:%s", commands[i]);

        check_permits(plain, commands[i], false);
        check_permits(fair, commands[i], true);
        check_leased(leased, commands[i], false);
        check_leased(seats, commands[i], true);
        check_settings(set, commands[i]);
        check_latch(latch, commands[i]);
        free(set);
        free(latch);
        free(seats);
        free(plain);
        free(fair);
        free(leased);
    }
    left_behind = true; /* counts and guards */
}

/* ---- what cannot be put in order by the script ------------------------------------------------------------------ */

/* Not even what the script may not take away itself. */
Test(refused, N7_take_that_was_refused_half_way_is_undone)
{
    rdl_lock_t *lock;

    open_as_app();
    lock = reentrant(st.client, "halfway", NULL);
    limit("-pexpire -del");
    expect(RDL_ESERVER, rdl_try_lock(lock, 2000, RDL_LEASE_AUTO, &err));
    cr_assert_not_null(strstr(err.message, "pexpire"), "%s", err.message);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    limit("+pexpire +del");
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* A place in the queue keeps others out for longer than the hold would that was waited for. */
Test(refused, N7_place_that_could_not_be_given_up_is_given_up_as_long_as_it_lives)
{
    enum { SHORT_LEASE_MS = 300, MORE_THAN_FIT = 4 }; /* at 0, 0.1, 0.3, 1 ... s from one to the next */
    struct outcome o = {0};
    rdl_lock_t *lock;
    rdl_op_t *op;
    int64_t before;

    open_as_app();
    lock = fair(st.client, "placed", NULL);
    cr_assert_eq(probe_int(st.probe, "HSET placed somebody 1"), 1);
    cr_assert_eq(probe_int(st.probe, "PEXPIRE placed 600000"), 1);
    expect(RDL_OK, rdl_lock_async(lock, NULL, SHORT_LEASE_MS, outcome_note, &o, &op, &err));
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "LLEN redisson_lock_queue:{placed}") == 1, SOON_MS));
    limit("-hdel");
    before = probe_calls(st.probe, "eval");
    rdl_op_cancel(op);
    expect(RDL_ECANCELED, outcome_wait(&o, SOON_MS));
    cr_assert(WAIT_UNTIL(probe_calls(st.probe, "eval") >= before + MORE_THAN_FIT, UNDONE_MS));
    limit("+hdel");
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 1, UNDONE_MS));
    cr_assert_eq(probe_int(st.probe, "DEL placed"), 1);
    rdl_op_free(op);
    rdl_lock_free(lock);
}

/* What stands between may say so of a request that it has passed on. */
Test(refused, N7_take_that_is_answered_with_an_error_though_it_ran_is_undone)
{
    stage_open(&st, .proxied = true);
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, "passed-on", NULL);
        int rule = proxy_on(st.proxy, .action = PROXY_ANSWER, .part = PROXY_REPLY, .command = kind->take,
                            .answer = "-ERR upstream failure\r\n");

        expect(RDL_ESERVER, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
        cr_assert_not_null(strstr(err.message, "upstream failure"), "%s", err.message);
        cr_assert_eq(proxy_acted(st.proxy, rule), 1u);
        expect(0, rdl_is_held(lock, &err));
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, "passed-on") == 0, SOON_MS), "%s", kind->type);
        lock_over(st.probe, lock);
    }
}

/* Nobody knows of a count: so it is counted once, by its guard, whoever answers. */
Test(refused, N7_count_that_is_answered_with_an_error_though_it_ran_counts_once)
{
    rdl_semaphore_t *pool = NULL;
    rdl_latch_t *latch = NULL;
    int64_t rc;

    stage_open(&st, .proxied = true);
    left_behind = true; /* counts */
    expect(RDL_OK, rdl_semaphore(st.client, "pool", NULL, &pool, &err));
    expect(RDL_OK, rdl_latch(st.client, "gate", NULL, &latch, &err));
    expect(1, rdl_semaphore_try_set_permits(pool, 1, &err));
    expect(1, rdl_latch_try_set_count(latch, 4, &err));
    expect(1,
           rdl_semaphore_drain(pool, &err)); /* the server knows the scripts from now on: by EVAL comes what goes on */
    expect(RDL_OK, rdl_semaphore_release(pool, 5, &err));
    expect(3, rdl_latch_count_down(latch, &err));
    for (int i = 0; i < 3; i++) {
        int rule = proxy_on(st.proxy, .action = PROXY_ANSWER, .part = PROXY_REPLY, .command = "EVALSHA",
                            .answer = "-ERR upstream failure\r\n");

        if (i == 0)
            rc = rdl_semaphore_release(pool, 1, &err);
        else if (i == 1)
            rc = rdl_latch_count_down(latch, &err);
        else
            rc = rdl_semaphore_drain(pool, &err);
        cr_expect_eq(rc, RDL_EUNKNOWN, "%d: %" PRId64, i, rc);
        cr_assert_eq(proxy_acted(st.proxy, rule), 1u);
    }
    cr_assert(WAIT_UNTIL(rdl_semaphore_available(pool, &err) == 6, SOON_MS));
    expect(2, rdl_latch_count(latch, &err));
    rdl_semaphore_free(pool);
    rdl_latch_free(latch);
}

/* Who is told of an error has done nothing: of one whose first sending was done nobody can say that, whatever becomes
 * of its repeat. */
Test(refused, N7_number_whose_repeat_is_refused_is_unknown)
{
    rdl_semaphore_t *pool = NULL;
    rdl_permit_semaphore_t *seats = NULL;
    rdl_latch_t *latch = NULL;

    stage_open(&st, .proxied = true);
    left_behind = true; /* numbers, and guards */
    expect(RDL_OK, rdl_semaphore(st.client, "pool", NULL, &pool, &err));
    expect(RDL_OK, rdl_permit_semaphore(st.client, "seats", NULL, &seats, &err));
    expect(RDL_OK, rdl_latch(st.client, "gate", NULL, &latch, &err));
    for (int round = 0; round < 2; round++) { /* in the second one the server knows the scripts */
        for (int i = 0; i < 4; i++) {
            static const char *const names[] = {"pool", "seats", "seats", "gate"};
            int64_t rc, done = round == 1 ? RDL_EUNKNOWN : i == 2 ? RDL_OK : 1;
            int refused = -1;

            if (round == 1) {
                (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA");
                refused = proxy_on(st.proxy, .action = PROXY_ANSWER, .command = "EVALSHA", .nth = 2,
                                   .answer = "-BUSY Redis is busy running a script.\r\n");
            }
            if (i == 0)
                rc = rdl_semaphore_try_set_permits(pool, 3, &err);
            else if (i == 1)
                rc = rdl_permit_semaphore_try_set_permits(seats, 3, &err);
            else if (i == 2)
                rc = rdl_permit_semaphore_set_permits(seats, 4, &err);
            else
                rc = rdl_latch_try_set_count(latch, 3, &err);
            cr_expect_eq(rc, done, "%d: %" PRId64 ": %s", i, rc, err.message);
            cr_assert(refused < 0 || proxy_acted(st.proxy, refused) == 1u, "%d", i);
            cr_expect_eq(probe_int(st.probe, "GET %s", names[i]), i == 2 ? 4 : 3, "%d", i);
            if (i != 1)
                (void)probe_int(st.probe, "DEL %s", names[i]);
        }
    }
    rdl_semaphore_free(pool);
    rdl_permit_semaphore_free(seats);
    rdl_latch_free(latch);
}

/* And what proves that nothing was written is not: the server has enough to do. */
/* An undo brings its script's text. */
static int64_t scripts_run(void)
{
    return probe_calls(st.probe, "evalsha") + probe_calls(st.probe, "eval");
}

Test(refused, N7_take_that_has_written_nothing_is_not_undone)
{
    rdl_lock_t *lock;
    int64_t before;

    stage_open(&st);
    lock = reentrant(st.client, "text", NULL);
    (void)probe_text(st.probe, "SET text 1");
    expect(RDL_ESERVER, rdl_try_lock(lock, 0, LEASE_MS, &err));
    before = scripts_run();
    expect(RDL_ESERVER, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_ESERVER, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(scripts_run(), before + 2);
    (void)probe_int(st.probe, "DEL text");
    rdl_lock_free(lock);
}
