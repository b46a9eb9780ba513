/* SPDX-License-Identifier: MIT */
/* test_refusals.c - every command of every script is refused once.
 *
 * What a user may call is asked at each call that a script makes, not at its beginning: ACL can stop a script anywhere.
 * So each script is run, for each shape of its arguments and each state that matters, once for every call that it
 * makes, with that call refused; and once for every command that it uses, with that command refused throughout. It must
 * say so, and:
 *
 *   - who is told of an error has not done what was asked for: of a semaphore or latch nothing, unless an undo follows;
 * and a release or force that was carried out says so
 *   - no key is left without a time to live that had one, or that a run without refusals would have given one
 *   - what others have, before and after a run without refusals, they have now, and for no shorter
 *   - the undo makes of it what it makes of the verb that ran, or of one that did not
 *   - a repeat, behind the undo if there is one, leaves what a run without refusals leaves
 */
#include "scripts/scripts.h"
#include "tests/script/keyspace.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW_US INT64_C(1700000000000000)
#define WORDS_MAX 64
#define STEPS_MAX 8

/* As in call.h: keys before the comma, arguments after it. */
struct shape {
    const char *what;
    const char *before[STEPS_MAX]; /* commands; one that begins with ! is a script's */
    const char *verb;
    const char *undo; /* NULL: it has none */
    const char *but;  /* words of commands whose refusal leaves something that ends by itself; NULL: none */
};

/* ---- running ---------------------------------------------------------------------------------------------------- */

static struct keyspace *ks;

static struct reply *say(const char *line)
{
    char *copy = must_format("%s", line), *rest = copy, numkeys[8];
    const char *argv[WORDS_MAX + 3];
    size_t argc = 0, first = 0;
    struct reply *r;

    if (copy[0] == '!') {
        char *script = strsep(&rest, " ") + 1;

        for (size_t i = 1; i < RDL__SCRIPT_COUNT; i++)
            if (strcmp(rdl__scripts[i].name, script) == 0)
                argv[1] = rdl__scripts[i].sha;
        argv[0] = "EVALSHA";
        first = argc = 3;
    }
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        cr_assert_lt(argc, (size_t)WORDS_MAX);
        if (strcmp(word, ",") != 0) {
            argv[argc++] = strcmp(word, "''") == 0 ? "" : word;
        } else {
            (void)snprintf(numkeys, sizeof numkeys, "%zu", argc - first);
            argv[2] = numkeys;
        }
    }
    r = ks_command(ks, argc, argv, NULL);
    free(copy);
    return r;
}

static void must_say(const char *line)
{
    struct reply *r = say(line);

    cr_assert_neq(r->kind, REPLY_ERROR, "%s: %s", line, r->text);
    reply_free(r);
}

/* Also the server's clock, and the whole of the state. */
struct kept {
    struct bytes image;
};

static void back_to(const struct kept *k)
{
    ks_restore(ks, k->image.at, k->image.len);
}

static void keep(struct kept *k)
{
    k->image.len = 0;
    ks_save(ks, &k->image);
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

/* Is the line, up to its end or its NUL, one of the text's? */
static const char *find_line(const char *text, const char *line, size_t len)
{
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n") + 1)
        if (strncmp(at, line, len) == 0 && (at[len] == '\n' || line[len - 1] == ' '))
            return at;
    return NULL;
}

/* Of a line that says how long its key lives: how long. Else -2. */
static long long ttl_in(const char *line)
{
    const char *tab = memchr(line, '\t', strcspn(line, "\n"));

    return tab != NULL && strncmp(tab, "\tttl ", 5) == 0 ? atoll(tab + 5) : -2;
}

/* The same for the key of that name in the text. -2: no such key. */
static long long ttl_of(const char *text, const char *line)
{
    size_t len = strcspn(line, "\t") + 5; /* with "\tttl " */
    const char *at = find_line(text, line, len);

    return at == NULL ? -2 : ttl_in(at);
}

/* A fair lock's, whose time to live is taken away with the last place of ours. */
static bool is_queue(const char *line)
{
    return strncmp(line, "Q\t", 2) == 0 || strncmp(line, "S\t", 2) == 0;
}

/* Is the line about the caller's own hold or place, or a count, which belongs to all? */
static bool is_own(const char *line)
{
    const char *tab = strchr(line, '\t');

    return tab != NULL &&
           (strncmp(tab, "\tU:1", 4) == 0 || strncmp(tab, "\tP:1", 4) == 0 || strspn(tab + 1, "-0123456789") > 0);
}

/* The text, with what time does to it and what counts up left out: T is a counter of tokens. */
static char *shape_of(const char *text)
{
    struct bytes to = {0};

    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n") + 1) {
        long long ttl = ttl_in(at);
        size_t len = ttl == -2 ? strcspn(at, "\n") : strcspn(at, "\t");

        if (strncmp(at, "T\t", 2) == 0)
            continue;
        bytes_add(&to, at, len);
        if (ttl == -1 && !is_queue(at))
            bytes_add(&to, " for ever", 9);
        bytes_add(&to, "\n", 1);
    }
    bytes_add(&to, "", 1);
    return to.at;
}

static bool same_shape(const char *a, const char *b)
{
    char *one = shape_of(a), *other = shape_of(b);
    bool same = strcmp(one, other) == 0;

    free(one);
    free(other);
    return same;
}

/* ---- one refusal ------------------------------------------------------------------------------------------------ */

struct run {
    const struct shape *shape;
    struct kept before;
    char *as_it_was, *done, *undone_before, *undone_done;
    int wrong;
};

static void complain(struct run *run, const char *refused, const char *about, const char *text)
{
    run->wrong++;
    (void)fprintf(stderr, "%s: %s refused: %s\n%s", run->shape->what, refused, about, text);
}

static void see_times(struct run *run, const char *refused, const char *now)
{
    for (const char *at = now; *at != '\0'; at += strcspn(at, "\n") + 1) {
        long long ttl = ttl_in(at), was = ttl_of(run->as_it_was, at), would = ttl_of(run->done, at);

        if (ttl == -1 && was != -1 && would != -1)
            complain(run, refused, "left for ever", at);
        if (ttl >= 0 && was >= 0 && would >= 0 && ttl < (was < would ? was : would))
            complain(run, refused, "cut short", at);
        if (ttl >= 0 && was == -1 && would == -1)
            complain(run, refused, "cut short", at);
    }
}

static void see_others(struct run *run, const char *refused, const char *now)
{
    for (const char *at = run->as_it_was; *at != '\0'; at += strcspn(at, "\n") + 1) {
        size_t len = strcspn(at, "\n");

        if (ttl_in(at) == -2 && !is_own(at) && find_line(run->done, at, len) != NULL && find_line(now, at, len) == NULL)
            complain(run, refused, "gone, and it is somebody else's", at);
    }
}

static void see_undo(struct run *run, const char *refused)
{
    char *now;

    if (run->shape->undo == NULL)
        return;
    must_say(run->shape->undo);
    now = ks_text(ks);
    if (!same_shape(now, run->undone_before) && !same_shape(now, run->undone_done))
        complain(run, refused, "not undone", now);
    free(now);
}

/* Of a semaphore the undo sees to it that nothing is taken by that request later. */
static bool forbids(const char *undo)
{
    return undo != NULL && strncmp(undo, "!semaphore_undo", 15) == 0;
}

/* A lock's release that is refused half way goes on in the background, and its hold counts as given up. */
static bool goes_on(const char *verb)
{
    return strstr(verb, "_release N C ") != NULL || strstr(verb, "_renew ") != NULL ||
           strstr(verb, "_force N C ") != NULL;
}

/* A take that is refused is undone, and an undo is repeated until there is no error. */
static bool is_seen_to(const struct shape *shape)
{
    return shape->undo != NULL || strstr(shape->verb, "_take ") != NULL || strncmp(shape->what, "undo", 4) == 0 ||
           strncmp(shape->what, "giving up", 9) == 0;
}

/* The lock was freed; who waits was not told, and looks again by itself. */
static bool is_untold(const struct reply *r)
{
    return r->kind == REPLY_INTEGER && r->integer == 2;
}

/* An error was answered, and nothing more will be done about it. Permits whose leases have ended return of themselves.
 */
static void see_truth(struct run *run, const char *refused, const char *now)
{
    if (is_seen_to(run->shape) || same_shape(now, run->as_it_was) || strstr(run->as_it_was, "expired_of_16_by") != NULL)
        return;
    if (same_shape(now, run->done))
        complain(run, refused, "done, and told otherwise", now);
    else if (!goes_on(run->shape->verb))
        complain(run, refused, "half done", now);
}

/* Nobody is told of an undo, so it is done whether a message may be sent or not. */
static bool is_told_of_nobody(const struct shape *shape, const char *command)
{
    return strncmp(shape->what, "undo", 4) == 0 && strcmp(command, "publish") == 0;
}

static void see_repeat(struct run *run, const char *refused)
{
    struct reply *r = say(run->shape->verb);
    char *now = ks_text(ks);

    if (r->kind == REPLY_ERROR)
        complain(run, refused, "a repeat fails", r->text);
    if (!same_shape(now, run->done) && !(forbids(run->shape->undo) && same_shape(now, run->undone_before)))
        complain(run, refused, "a repeat leaves something else", now);
    reply_free(r);
    free(now);
}

static void refuse(struct run *run, size_t nth, const char *command)
{
    char *refused = nth == 0 ? must_format("all %s", command) : must_format("call %zu, %s,", nth, command), *now;
    struct reply *r;

    back_to(&run->before);
    ks_refuse(ks, nth, nth == 0 ? command : NULL);
    r = say(run->shape->verb);
    ks_refuse(ks, 0, NULL);
    now = ks_text(ks);
    if (r->kind != REPLY_ERROR && !is_untold(r) &&
        !same_shape(now, run->done)) /* else the script has asked again, and was let */
        complain(run, refused, "not said", now);
    else if (r->kind != REPLY_ERROR)
        (void)0;
    else if (strstr(r->text, "can't run this command") == NULL)
        complain(run, refused, "said otherwise", r->text);
    if (r->kind == REPLY_ERROR && is_told_of_nobody(run->shape, command))
        complain(run, refused, "an undo waits for its message", now);
    if (r->kind == REPLY_ERROR)
        see_truth(run, refused, now);
    see_times(run, refused, now);
    see_others(run, refused, now);
    see_undo(run, refused);
    if (!is_untold(r))
        see_repeat(run, refused);
    reply_free(r);
    free(now);
    free(refused);
}

static char *text_after(const char *line)
{
    if (line != NULL)
        must_say(line);
    return ks_text(ks);
}

static void open_keyspace(void)
{
    ks = ks_new(NOW_US);
    for (size_t i = 1; i < RDL__SCRIPT_COUNT; i++) {
        char sha[KS_SHA_SIZE];

        ks_load(ks, rdl__scripts[i].body, rdl__scripts[i].body_len, sha);
    }
}

static int refuse_each(const struct shape *shape)
{
    struct run run = {.shape = shape};
    char(*called)[24];
    size_t calls;

    open_keyspace();
    for (size_t i = 0; i < STEPS_MAX && shape->before[i] != NULL; i++)
        must_say(shape->before[i]);
    keep(&run.before);
    run.as_it_was = ks_text(ks);
    run.undone_before = text_after(shape->undo);
    back_to(&run.before);
    run.done = text_after(shape->verb);
    calls = ks_calls(ks);
    called = must_alloc(calls * sizeof *called);
    for (size_t i = 0; i < calls; i++)
        memcpy(called[i], ks_called(ks, i + 1), sizeof *called);
    run.undone_done = text_after(shape->undo);
    for (size_t i = 0; i < calls; i++) {
        if (shape->but != NULL && strstr(shape->but, called[i]) != NULL)
            continue;
        refuse(&run, i + 1, called[i]);
        refuse(&run, 0, called[i]);
    }
    free(called);
    free(run.as_it_was);
    free(run.done);
    free(run.undone_before);
    free(run.undone_done);
    bytes_done(&run.before.image);
    ks = ks_free(ks);
    return run.wrong;
}

static void refuse_all(const struct shape *shapes, size_t count)
{
    int wrong = 0;

    for (size_t i = 0; i < count; i++)
        wrong += refuse_each(&shapes[i]);
    cr_assert_eq(wrong, 0, "%d refusals leave something wrong", wrong);
}

#define CHECK_REFUSALS(...)                                                                                            \
    do {                                                                                                               \
        static const struct shape shapes[] = {__VA_ARGS__};                                                            \
                                                                                                                       \
        refuse_all(shapes, sizeof shapes / sizeof shapes[0]);                                                          \
    } while (0)

/* ---- locks ------------------------------------------------------------------------------------------------------ */

Test(refusals, N7_of_the_reentrant_lock)
{
    CHECK_REFUSALS(
        {"take of a free lock", {0}, "!reentrant_take N , U:1 1 60000", "!reentrant_release N C , U:1 0"},
        {"take with a token", {0}, "!reentrant_take N , U:1 1 60000 1", "!reentrant_release N C , U:1 0"},
        {"take of one that is taken", {"HSET N U:9 1", "PEXPIRE N 500"}, "!reentrant_take N , U:1 1 60000"},
        {"repeat of a take", {"!reentrant_take N , U:1 1 30000"}, "!reentrant_take N , U:1 1 60000", NULL},
        {"nested take",
         {"!reentrant_take N , U:1 1 30000"},
         "!reentrant_take N , U:1 2 60000",
         "!reentrant_release N C , U:1 1"},
        {"release", {"!reentrant_take N , U:1 1 30000"}, "!reentrant_release N C , U:1 0"},
        {"nested release", {"!reentrant_take N , U:1 1 30000", "HSET N U:1 2"}, "!reentrant_release N C , U:1 1"},
        {"renewal", {"!reentrant_take N , U:1 1 30000", "HSET M U:2 1"}, "!reentrant_renew N M , U:1 60000 U:2 60000"},
        {"force", {"!reentrant_take N , U:1 1 30000"}, "!reentrant_force N C , U:1"});
}

static int64_t somebody_hears(void *arg, bool sharded, const char *channel, size_t channel_len, const char *payload,
                              size_t payload_len)
{
    (void)arg, (void)sharded, (void)channel, (void)channel_len, (void)payload, (void)payload_len;
    return 1;
}

/* The hold is gone with the first call, so whatever is refused of the line behind it is no error: those who stand there
 * are woken, or have died. */
Test(refusals, N7_of_the_line_is_no_error_of_a_release)
{
    static const char *const RELEASES[] = {"!reentrant_release N C , U:1000000000000001 0",
                                           "!reentrant_release N C , U:1000000000000001 0 publish stay",
                                           "!reentrant_release N C , U:1000000000000001 0 publish read",
                                           "!reentrant_release N C , U:1000000000000001 0 publish leave"};
    struct kept before = {0};

    open_keyspace();
    must_say("!reentrant_take N , U:1000000000000001 1 30000");
    must_say("!reentrant_take N C , V:1000000000000001 1 60000 0 again");
    must_say("!reentrant_take N C , W:1000000000000001 1 60000 0 again");
    must_say("HSET C 7 U U 7 count 3 tail 8"); /* its own client stands there as well */
    keep(&before);
    for (int hears = 0; hears < 2; hears++) {
        ks_on_publish(ks, hears ? somebody_hears : NULL, NULL);
        for (size_t how = 0; how < sizeof RELEASES / sizeof *RELEASES; how++) {
            size_t calls = 2;

            for (size_t nth = 2; nth <= calls; nth++) {
                back_to(&before);
                ks_refuse(ks, nth, NULL);
                must_say(RELEASES[how]);
                calls = ks_calls(ks);
            }
            cr_expect_gt(calls, 5);
        }
    }
    bytes_done(&before.image);
    ks = ks_free(ks);
}

Test(refusals, N7_of_the_fenced_lock)
{
    CHECK_REFUSALS(
        {"take of a free lock", {0}, "!fenced_take N T , U:1 1 60000", "!reentrant_release N C , U:1 0"},
        {"take with a token of time", {0}, "!fenced_take N T , U:1 1 60000 1", "!reentrant_release N C , U:1 0"},
        {"take of one that is taken", {"HSET N U:9 1", "PEXPIRE N 500"}, "!fenced_take N T , U:1 1 60000"},
        {"repeat of a take", {"!fenced_take N T , U:1 1 30000"}, "!fenced_take N T , U:1 1 60000"},
        {"repeat without a counter", {"!fenced_take N T , U:1 1 30000", "DEL T"}, "!fenced_take N T , U:1 1 60000"},
        {"nested take",
         {"!fenced_take N T , U:1 1 30000"},
         "!fenced_take N T , U:1 2 60000",
         "!reentrant_release N C , U:1 1"});
}

Test(refusals, N7_of_the_simple_lock)
{
    CHECK_REFUSALS({"take of a free lock", {0}, "!simple_take N , V 1 60000", "!simple_release N C , V 0"},
                   {"take with a token", {0}, "!simple_take N , V 1 60000 1", "!simple_release N C , V 0"},
                   {"take of one that is taken", {"SET N W px 500"}, "!simple_take N , V 1 60000"},
                   {"repeat of a take", {"SET N V px 500"}, "!simple_take N , V 1 60000", "!simple_release N C , V 0"},
                   {"release", {"SET N V px 500"}, "!simple_release N C , V 0"},
                   {"renewal", {"SET N V px 500", "SET M W"}, "!simple_renew N M , V 60000 W 60000"},
                   {"force", {"SET N V px 500"}, "!simple_force N C , V"});
}

#define QUEUE "N C Q S W"
#define PEER "RPUSH Q peer", "ZADD S 1700000900000 peer"
#define DEAD_PEER "RPUSH Q dead", "ZADD S 1600000000000 dead"
#define FOREIGN "HSET N U:9 1", "PEXPIRE N 50000"

Test(refusals, N7_of_the_fair_lock)
{
    CHECK_REFUSALS(
        {"take of a free lock",
         {0},
         "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 1",
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"take with a token",
         {0},
         "!fair_take " QUEUE " , U:1 1 60000 1 15000 P:1 1",
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"repeat of a take",
         {"!fair_take " QUEUE " , U:1 1 30000 0 15000 P:1 1"},
         "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 2",
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"nested take",
         {"!fair_take " QUEUE " , U:1 1 30000 0 15000 P:1 1"},
         "!fair_take " QUEUE " , U:1 2 60000 0 15000 P:1 2",
         "!fair_release " QUEUE " , U:1 1 P:1"},
        {"single try of one that is taken", {FOREIGN}, "!fair_take " QUEUE " , U:1 1 60000 0 0 P:1 1"},
        {"first place in the queue",
         {FOREIGN},
         "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 1",
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"place behind a peer",
         {FOREIGN, PEER},
         "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 1",
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"place behind one of ours",
         {FOREIGN, "!fair_take " QUEUE " , U:2 1 60000 0 15000 P:2 1"},
         "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 1",
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"sign of life",
         {FOREIGN, "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 1"},
         "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 2",
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"another wait at the same place",
         {FOREIGN, "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 1"},
         "!fair_take " QUEUE " , U:2 1 60000 0 15000 P:1 1",
         "!fair_release " QUEUE " , U:2 0 P:1",
         "hdel lrem"}, /* the sign, or the place, of the wait before it: they end with its life */
        {"place after peers have dropped it",
         {FOREIGN, "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 1", "DEL Q S"},
         "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 2",
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"take by the head of the queue",
         {FOREIGN, "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 1", "DEL N"},
         "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 2",
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"take after a dead peer", {DEAD_PEER}, "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 1"},
        {"release before a peer, after a dead one",
         /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma) */
         {"!fair_take " QUEUE " , U:1 1 30000 0 15000 P:1 1", DEAD_PEER, PEER},
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"try of a free lock whose turn is another's",
         {FOREIGN, "!fair_take " QUEUE " , U:2 1 60000 0 15000 P:2 1", "DEL N"},
         "!fair_take " QUEUE " , U:1 1 60000 0 0 P:1 1",
         NULL,
         "hdel exists persist"}, /* that one has lost its place, and comes back */
        {"release", {"!fair_take " QUEUE " , U:1 1 30000 0 15000 P:1 1"}, "!fair_release " QUEUE " , U:1 0 P:1"},
        {"nested release",
         {"!fair_take " QUEUE " , U:1 1 30000 0 15000 P:1 1", "HSET N U:1 2"},
         "!fair_release " QUEUE " , U:1 1 P:1"},
        {"release before a peer",
         {"!fair_take " QUEUE " , U:1 1 30000 0 15000 P:1 1", PEER},
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"release before one of ours",
         {"!fair_take " QUEUE " , U:1 1 30000 0 15000 P:1 1", "!fair_take " QUEUE " , U:2 1 60000 0 15000 P:2 1"},
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"giving up a place",
         /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma) */
         {FOREIGN, PEER, "!fair_take " QUEUE " , U:1 1 60000 0 15000 P:1 1"},
         "!fair_release " QUEUE " , U:1 0 P:1"},
        {"renewal", {"!fair_take " QUEUE " , U:1 1 30000 0 15000 P:1 1"}, "!reentrant_renew N , U:1 60000"},
        {"force", {FOREIGN, PEER}, "!fair_force " QUEUE " , U:9"});
}

#define READER "!read_take N , U:8 1 40000"
#define BOTH "!write_take N , U:1:write 1 60000", "!read_take N , U:1 1 60000 0 U:1:write"

Test(refusals, N7_of_the_read_write_lock)
{
    CHECK_REFUSALS(
        {"read", {0}, "!read_take N , U:1 1 60000", "!read_release N C , U:1 0"},
        {"read with a token", {0}, "!read_take N , U:1 1 60000 1", "!read_release N C , U:1 0"},
        {"read beside a reader", {READER}, "!read_take N , U:1 1 60000", "!read_release N C , U:1 0"},
        {"shorter read beside a reader", {READER}, "!read_take N , U:1 1 10000", "!read_release N C , U:1 0"},
        {"read by the writer",
         {"!write_take N , U:1:write 1 60000"},
         "!read_take N , U:1 1 90000 0 U:1:write",
         "!read_release N C , U:1 0"},
        {"repeat of a read", {"!read_take N , U:1 1 30000"}, "!read_take N , U:1 1 60000", "!read_release N C , U:1 0"},
        {"nested read", {"!read_take N , U:1 1 30000"}, "!read_take N , U:1 2 60000", "!read_release N C , U:1 1"},
        {"read beside a mark", {"ZADD M 1700000900000 U:7:write"}, "!read_take N M , U:1 1 60000"},
        {"read of what is written", {"!write_take N , U:9:write 1 60000"}, "!read_take N , U:1 1 60000"},
        {"release of a read", {"!read_take N , U:1 1 30000"}, "!read_release N C , U:1 0"},
        {"release of the longer read", {READER, "!read_take N , U:1 1 60000"}, "!read_release N C , U:1 0"},
        {"release of the shorter read", {READER, "!read_take N , U:1 1 10000"}, "!read_release N C , U:1 0"},
        {"release of nested reads",
         {"!read_take N , U:1 1 30000", "!read_take N , U:1 2 30000", "!read_take N , U:1 3 30000"},
         "!read_release N C , U:1 1"},
        {"release of all nested reads",
         {"!read_take N , U:1 1 30000", "!read_take N , U:1 2 30000", "!read_take N , U:1 3 30000"},
         "!read_release N C , U:1 0"},
        {"release of a read by the writer", {BOTH}, "!read_release N C , U:1 0"},
        {"release of a read beside one that died",
         {"HSET N mode read U:8 1", "!read_take N , U:1 1 30000"},
         "!read_release N C , U:1 0"},
        {"renewal of a read", {READER, "!read_take N , U:1 1 10000"}, "!read_renew N , U:1 60000"},
        {"renewal of nested reads",
         {"!read_take N , U:1 1 30000", "!read_take N , U:1 2 30000"},
         "!read_renew N , U:1 60000"},
        {"force of readers", {READER, "!read_take N , U:1 1 10000"}, "!readwrite_force N C , U:8"},
        {"force of one reader", {READER, "!read_take N , U:1 1 60000"}, "!read_force N C , U:1"},
        {"force of the last reader", {"!read_take N , U:1 1 30000"}, "!read_force N C , U:1"},
        {"write", {0}, "!write_take N , U:1:write 1 60000", "!write_release N C , U:1:write 0"},
        {"write with a token", {0}, "!write_take N , U:1:write 1 60000 1", "!write_release N C , U:1:write 0"},
        {"write that takes marks away",
         {"ZADD M 1700000900000 U:7:write", "PEXPIRE M 900000"},
         "!write_take N M C , U:1:write 1 60000 0 15000",
         "!write_release N C M , U:1:write 0"},
        {"write beside a reader", {READER}, "!write_take N , U:1:write 1 60000"},
        {"write that leaves a mark",
         {READER},
         "!write_take N M C , U:1:write 1 60000 0 15000",
         "!write_release N C M , U:1:write 0"},
        {"write that leaves another mark",
         {READER, "ZADD M 1700000001000 U:7:write", "PEXPIRE M 1000"},
         "!write_take N M C , U:1:write 1 60000 0 15000",
         "!write_release N C M , U:1:write 0"},
        {"repeat of a write",
         {"!write_take N , U:1:write 1 30000"},
         "!write_take N , U:1:write 1 60000",
         "!write_release N C , U:1:write 0"},
        {"nested write",
         {"!write_take N , U:1:write 1 30000"},
         "!write_take N , U:1:write 2 60000",
         "!write_release N C , U:1:write 1"},
        {"release of a write", {"!write_take N , U:1:write 1 30000"}, "!write_release N C , U:1:write 0"},
        {"release of nested writes",
         {"!write_take N , U:1:write 1 30000", "HSET N U:1:write 3"},
         "!write_release N C , U:1:write 1"},
        {"downgrade", {BOTH}, "!write_release N C , U:1:write 0"},
        {"giving up a mark",
         {READER, "ZADD M 1700000900000 U:1:write", "PEXPIRE M 900000"},
         "!write_release N C M , U:1:write 0"},
        {"force of a writer", {BOTH}, "!readwrite_force N C , U:1:write"});
}

/* ---- semaphores and latches ------------------------------------------------------------------------------------- */

#define POOL "SET N 5"
#define HEAD "ZADD A 1 other", "PEXPIRE A 3600000", "HSET B other 1700000015000", "PEXPIRE B 3600000"
#define DEAD_HEAD "ZADD A 1 dead", "PEXPIRE A 3600000", "HSET B dead 1", "PEXPIRE B 3600000"

Test(refusals, N7_of_the_semaphore)
{
    CHECK_REFUSALS({"take", {POOL}, "!semaphore_take N C G , 2 60000", "!semaphore_undo N C G , 2 60000"},
                   {"take behind another verb", {POOL, "SET O 1 px 500"}, "!semaphore_take N C G O , 2 60000"},
                   {"repeat of a take", {POOL, "!semaphore_take N C G , 2 60000"}, "!semaphore_take N C G , 2 60000"},
                   {"take of too many", {POOL}, "!semaphore_take N C G , 6 60000", "!semaphore_undo N C G , 6 60000"},
                   {"place in the queue",
                    {POOL},
                    "!semaphore_take N C G A B , 6 60000 publish P:1 15000",
                    "!semaphore_undo N C G A B , 6 60000 publish P:1 1"},
                   {"place behind another's",
                    {POOL, HEAD},
                    "!semaphore_take N C G A B , 1 60000 publish P:1 15000",
                    "!semaphore_undo N C G A B , 1 60000 publish P:1 1"},
                   {"place behind a dead one",
                    {POOL, DEAD_HEAD},
                    "!semaphore_take N C G A B , 1 60000 publish P:1 15000",
                    "!semaphore_undo N C G A B , 1 60000 publish P:1 1",
                    "hdel"}, /* of one that is dead, and ends with the queue */
                   {"take in turn",
                    {POOL, "!semaphore_take N C H A B , 6 60000 publish P:1 15000"},
                    "!semaphore_take N C G A B , 1 60000 publish P:1 15000",
                    "!semaphore_undo N C G A B , 1 60000 publish P:1 1"},
                   {"undo", {POOL, "!semaphore_take N C G , 2 60000"}, "!semaphore_undo N C G , 2 60000"},
                   {"add", {POOL}, "!semaphore_add N C G , 3 60000"},
                   {"taking away", {POOL}, "!semaphore_add N C G , -3 60000"},
                   {"drain", {POOL}, "!semaphore_drain N C G , 0 60000", "!semaphore_undo N C G , 0 60000"},
                   {"setting", {0}, "!semaphore_try_set N C G , 3 60000"},
                   {"setting what is set", {POOL}, "!semaphore_try_set N C G , 3 60000"});
}

#define ID_1 "0123456789abcdeA"
#define ID_2 "0123456789abcdeB"
#define EXPIRED "ZADD Z 1699999999000 expired_of_16_by", "ZADD Z 1699999999001 another_of_16_by"
#define SIX_IDS ID_1 " " ID_2 " 0123456789abcdeC 0123456789abcdeD 0123456789abcdeE 0123456789abcdeF"
#define TWO_TAKEN "!permit_take N Z C , 60000 publish - 0 0123456789abcdeA 0123456789abcdeB"

Test(refusals, N7_of_the_permit_semaphore)
{
    CHECK_REFUSALS({"take", {POOL}, TWO_TAKEN, "!permit_undo N Z C , 0 publish - 0 " ID_1 " " ID_2},
                   {"take of a semaphore that ends",
                    {POOL, "PEXPIRE N 600000"},
                    TWO_TAKEN,
                    "!permit_undo N Z C , 0 publish - 0 " ID_1 " " ID_2},
                   {"take of what has expired, of a semaphore that ends",
                    {"SET N 0", EXPIRED, "PEXPIRE N 600000", "PEXPIRE Z 600000"},
                    TWO_TAKEN,
                    "!permit_undo N Z C , 0 publish - 0 " ID_1 " " ID_2},
                   {"take in turn",
                    {POOL, "!permit_take N Z C A B , 60000 publish P:1 15000 " SIX_IDS},
                    "!permit_take N Z C A B , 60000 publish P:1 15000 " ID_1 " " ID_2,
                    "!permit_undo N Z C A B , 0 publish P:1 1 " ID_1 " " ID_2},
                   {"release of a semaphore that ends",
                    {POOL, "PEXPIRE N 600000", TWO_TAKEN},
                    "!permit_release N Z C , publish " ID_1 " " ID_2},
                   {"undo of a semaphore that ends",
                    {POOL, "PEXPIRE N 600000", TWO_TAKEN},
                    "!permit_undo N Z C , 0 publish - 0 " ID_1 " " ID_2},
                   {"repeat of a take", {POOL, "!permit_take N Z C , 30000 publish - 0 " ID_1 " " ID_2}, TWO_TAKEN},
                   {"take of what has expired",
                    {"SET N 0", EXPIRED},
                    TWO_TAKEN,
                    "!permit_undo N Z C , 0 publish - 0 " ID_1 " " ID_2},
                   {"take of too many",
                    {"SET N 1", EXPIRED, "ZADD Z 1800000000000 taken_of_16_byte"},
                    "!permit_take N Z C , 60000 publish - 0 " ID_1 " " ID_2 " 0123456789abcdeC 0123456789abcdeD"},
                   {"place in the queue",
                    {"SET N 1"},
                    "!permit_take N Z C A B , 60000 publish P:1 15000 " ID_1 " " ID_2,
                    "!permit_undo N Z C A B , 0 publish P:1 1 " ID_1 " " ID_2},
                   {"release", {POOL, TWO_TAKEN}, "!permit_release N Z C , publish " ID_1 " " ID_2},
                   {"release of one that is taken and one that is not",
                    {POOL, TWO_TAKEN},
                    "!permit_release N Z C , publish " ID_1 " 0123456789abcdeC"},
                   {"undo", {POOL, TWO_TAKEN}, "!permit_undo N Z C , 0 publish - 0 " ID_1 " " ID_2},
                   {"undo behind another's place",
                    {POOL, TWO_TAKEN, HEAD},
                    "!permit_undo N Z C A B , 0 publish P:1 1 " ID_1 " " ID_2},
                   {"undo behind a dead one",
                    {POOL, TWO_TAKEN, DEAD_HEAD},
                    "!permit_undo N Z C A B , 0 publish P:1 1 " ID_1 " " ID_2,
                    NULL,
                    "hdel"}, /* of one that is dead, and ends with the queue */
                   {"extend", {POOL, TWO_TAKEN}, "!permit_extend N Z C , publish 90000 " ID_1},
                   {"look", {POOL, EXPIRED}, "!permit_look N Z C , publish"},
                   {"setting", {POOL, TWO_TAKEN}, "!permit_set N Z C G , publish 9 60000"});
}

Test(refusals, N7_of_the_latch)
{
    CHECK_REFUSALS({"setting", {0}, "!latch_try_set N C G , 2 60000"},
                   {"setting what is set", {"SET N 2"}, "!latch_try_set N C G , 2 60000"},
                   {"counting down", {"SET N 2"}, "!latch_count_down N C G , 0 60000"},
                   {"opening",
                    {"SET N 1"},
                    "!latch_count_down N C G , 0 60000",
                    NULL,
                    "set"}, /* its guard: it can be done twice */
                   {"repeat", {"SET N 2", "!latch_count_down N C G , 0 60000"}, "!latch_count_down N C G , 0 60000"});
}

/* The words say that nothing was written: nobody undoes what they are told. */
Test(refusals, N7_key_of_another_type_is_seen_before_anything_is_taken)
{
    static const struct {
        const char *others, *take;
    } cases[] = {
        {"SET A words", "!semaphore_take N C G A B , 1 60000 publish P:1 15000"},
        {"SET B words", "!semaphore_take N C G A B , 1 60000 publish P:1 15000"},
        {"SET B words", "!semaphore_take N C G A B , 6 60000 publish P:1 15000"},
        {"SET A words", "!permit_take N Z C A B , 60000 publish P:1 15000 " ID_1},
        {"SET B words", "!permit_take N Z C A B , 60000 publish P:1 15000 " ID_1},
        {"SET Z words", "!permit_take N Z C A B , 60000 publish P:1 15000 " ID_1},
        {"SET Q words", "!fair_take L C Q S W , U:1 1 60000 0 15000 P:1 1"},
        {"SET W words", "!fair_take L C Q S W , U:1 1 60000 0 15000 P:1 1"},
        {"SET Q words", "!fair_take K C Q S W , U:1 1 60000 0 15000 P:1 1"},
        {"SET S words", "!fair_take K C Q S W , U:1 1 60000 0 15000 P:1 1"},
        {"SET W words", "!fair_take K C Q S W , U:1 1 60000 0 15000 P:1 1"},
        {"SET M words", "!write_take R M C , U:1:write 1 60000 0 15000"},
        {"SET M words", "!read_take L M , U:1 1 60000"},
        {"RPUSH T words", "!fenced_take L T , U:1 1 60000"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *before, *after;
        struct reply *r;

        open_keyspace();
        must_say(POOL);
        must_say("HSET K U:9 1");
        must_say("!read_take R , U:8 1 40000");
        must_say(cases[i].others);
        before = ks_text(ks);
        r = say(cases[i].take);
        after = ks_text(ks);
        cr_expect_eq(r->kind, REPLY_ERROR, "%s behind %s", cases[i].take, cases[i].others);
        cr_expect_eq(strncmp(r->text, "WRONGTYPE ", 10), 0, "%s", r->text);
        cr_expect_str_eq(after, before, "%s behind %s", cases[i].take, cases[i].others);
        reply_free(r);
        free(before);
        free(after);
        ks = ks_free(ks);
    }
}
