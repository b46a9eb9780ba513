/* SPDX-License-Identifier: MIT */
#include "tests/support/stage.h"

#include "tests/support/rights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rdl_client_t *client_open(const char *uri, const rdl_client_options_t *options)
{
    rdl_client_t *client = NULL;
    rdl_err_t err;

    if (rdl_client_open(uri, options != NULL ? options : OPTIONS(.lazy = false), &client, &err) < 0)
        die("rdl_client_open: %s", err.message);
    return client;
}

const char *stage_uri(const struct stage *stage)
{
    return stage->proxy != NULL ? proxy_uri(stage->proxy) : server_uri(stage->server);
}

const char *stage_place(const struct stage *stage)
{
    const char *uri = stage_uri(stage), *user_ends = strchr(uri, '@'),
               *place = user_ends != NULL ? user_ends : strchr(uri, ':');

    return place + 1 + strspn(place + 1, "/") - (server_port(stage->server) == 0);
}

void stage_limit(struct stage *stage, const char *rules)
{
    (void)probe_text(stage->probe, "ACL SETUSER %s %s", server_user(stage->server), rules);
    stage->limited = true;
}

void stage_open_with(struct stage *stage, const struct stage_options *options)
{
    stage->server = server_start(&options->server);
    stage->proxy = options->proxied ? proxy_start(stage->server) : NULL;
    stage->probe = probe_open(stage->server);
    stage->client = client_open(stage_uri(stage), options->client);
}

void stage_close(struct stage *stage)
{
    stage->client = rdl_client_close(stage->client);
    probe_close(stage->probe);
    proxy_stop(stage->proxy);
    server_stop(stage->server);
}

int64_t stage_refusals(struct stage *stage)
{
    bool counts = server_login(stage->server)[0] != '\0' && !stage->limited;

    return counts ? rights_refused(stage->server) : 0;
}

static void print_all(struct stage *stage, const char *command)
{
    const struct reply *names = probe_ask(stage->probe, "%s *", command);

    for (size_t i = 0; i < names->count; i++)
        fprintf(stderr, "left behind: %s: %s\n", command, names->items[i].text);
}

static void print_lines(struct stage *stage)
{
    static const char script[] = "local all = {} "
                                 "for _, line in ipairs(redis.call([[keys]], [[redisson_lock__channel:*]])) do "
                                 "all[#all + 1] = table.concat(redis.call([[hgetall]], line), [[ ]]) "
                                 "end "
                                 "return all";
    const struct reply *lines = probe_ask_argv(stage->probe, 3, (const char *const[]){"EVAL", script, "0"}, NULL);

    for (size_t i = 0; i < lines->count; i++)
        fprintf(stderr, "left behind: a line: %s\n", lines->items[i].text);
}

static bool has_nothing(struct stage *stage)
{
    return probe_keys(stage->probe) == 0 && probe_channels(stage->probe) == 0;
}

static bool clean_or_said(struct stage *stage, bool clean)
{
    if (!clean) {
        print_all(stage, "KEYS");
        print_lines(stage);
        print_all(stage, "PUBSUB CHANNELS");
    }
    return clean;
}

bool stage_is_clean(struct stage *stage, int64_t bound_ms)
{
    return clean_or_said(stage, WAIT_UNTIL_EVERY(5, has_nothing(stage), bound_ms));
}

/* Takes away lines: all, or those of an ear alone. Answers how many; -1: one would not have ended by itself in time. */
static int64_t end_lines(struct stage *stage, const char *which)
{
    static const char script[] =
        "local gone = 0 "
        "for _, line in ipairs(redis.call([[keys]], [[redisson_lock__channel:*]])) do "
        "if ARGV[1] == [[all]] or redis.call([[hlen]], line) == 4 and redis.call([[hget]], line, [[count]]) == [[0]] "
        "and redis.call([[hexists]], line, [[ear]]) == 1 then "
        "local ttl = redis.call([[pttl]], line) "
        "if ttl < 0 or ttl > 15000 then return -1 end "
        "gone = gone + redis.call([[del]], line) "
        "end "
        "end "
        "return gone";

    return probe_ask_argv(stage->probe, 4, (const char *const[]){"EVAL", script, "0", which}, NULL)->integer;
}

bool stage_ends_clean(struct stage *stage, int64_t bound_ms)
{
    return clean_or_said(
        stage,
        WAIT_UNTIL_EVERY(5, has_nothing(stage) || (end_lines(stage, "ears") > 0 && has_nothing(stage)), bound_ms));
}

bool stage_lines_end(struct stage *stage)
{
    return end_lines(stage, "all") >= 0;
}

#define HANDLE(type, make)                                                                                             \
    rdl_lock_t *type(rdl_client_t *client, const char *name, const rdl_lock_options_t *options)                        \
    {                                                                                                                  \
        rdl_lock_t *lock = NULL;                                                                                       \
        rdl_err_t err;                                                                                                 \
                                                                                                                       \
        if (make(client, name, options, &lock, &err) < 0)                                                              \
            die(#make ": %s", err.message);                                                                            \
        return lock;                                                                                                   \
    }

/* Members live on in the composite that is made of them. */
static int multi_of_two(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                        rdl_lock_t **ret_lock, rdl_err_t *err)
{
    char *second = must_format("%s~", name);
    rdl_lock_t *members[2] = {NULL, NULL};
    int rc = rdl_reentrant_lock(client, name, options, &members[0], err);

    if (rc == RDL_OK)
        rc = rdl_reentrant_lock(client, second, options, &members[1], err);
    if (rc == RDL_OK)
        rc = rdl_multi_lock(members, 2, NULL, ret_lock, err);
    rdl_lock_free(members[0]);
    rdl_lock_free(members[1]);
    free(second);
    return rc;
}

/* Servers of tests are young, and slow when the machine is busy. */
static int red_of_one(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                      rdl_err_t *err)
{
    rdl_lock_t *member = NULL;
    int rc = rdl_reentrant_lock(client, name, options, &member, err);

    if (rc == RDL_OK)
        rc = rdl_red_lock(&member, 1, LOCK_OPTIONS(.min_uptime_ms = RDL_UPTIME_ANY, .node_timeout_ms = SOON_MS),
                          ret_lock, err);
    rdl_lock_free(member);
    return rc;
}

HANDLE(reentrant, rdl_reentrant_lock)
HANDLE(nonreentrant, rdl_nonreentrant_lock)
HANDLE(simple, rdl_simple_lock)
HANDLE(spin, rdl_spin_lock)
HANDLE(fenced, rdl_fenced_lock)
HANDLE(fair, rdl_fair_lock)
HANDLE(read_end, rdl_read_lock)
HANDLE(write_end, rdl_write_lock)
/* clang-format off */
static HANDLE(multi, multi_of_two)
static HANDLE(red, red_of_one)
/* clang-format on */

/* ---- every type ------------------------------------------------------------------------------------------------- */

/* What a kind has that is not the rule: WORD_type is a comma and what it is. */
#define SECOND(first, second, ...) second
#define ODD(...) SECOND(__VA_ARGS__, )
#define RIVAL_read , made_write
#define TAKE_simple , "SET"
#define POLLS_spin , true
#define PACES_simple , true
#define PACES_spin , true

#define MADE(of, constructor_of, ...) static HANDLE(made_##of, constructor_of)
#define KIND(of, constructor_of, fencing_of, nests)                                                                    \
    {.type = #of,                                                                                                      \
     .constructor = (constructor_of),                                                                                  \
     .make = made_##of,                                                                                                \
     .rival = ODD(RIVAL_##of, made_##of),                                                                              \
     .take = ODD(TAKE_##of, "EVALSHA"),                                                                                \
     .polls = ODD(POLLS_##of, false),                                                                                  \
     .paces = ODD(PACES_##of, false),                                                                                  \
     .reentrant = (nests)},
#define COMPOSITE(of, constructor_of, ...)                                                                             \
    {                                                                                                                  \
        .type = #of, .constructor = (constructor_of), .make = of, .rival = of, .take = "EVALSHA", .reentrant = true,   \
        __VA_ARGS__                                                                                                    \
    }

    RDL_LOCK_TYPES(MADE) RDL_LOCK_ENDS(MADE)

        const struct kind kinds[] = {
            RDL_LOCK_TYPES(KIND) RDL_LOCK_ENDS(KIND) COMPOSITE(multi, multi_of_two, .members = 2),
            COMPOSITE(red, red_of_one, .members = 1, .votes = true),
};
const size_t kind_count = sizeof kinds / sizeof kinds[0];
const size_t single_kind_count = sizeof kinds / sizeof kinds[0] - 2;

const char *kind_name(const struct kind *kind)
{
    static char names[sizeof kinds / sizeof kinds[0]][32];
    char *name = names[kind - kinds];

    (void)snprintf(name, sizeof names[0], "a-%s", kind->type);
    return name;
}

int unanswered(const struct kind *kind)
{
    return kind->votes ? RDL_ENOQUORUM : RDL_EUNKNOWN;
}

#define COUNTER "redisson_lock_token:{%s}"

int64_t lock_keys(struct probe *p, const char *name)
{
    return probe_keys(p) - probe_int(p, "EXISTS " COUNTER, name);
}

void lock_over(struct probe *p, rdl_lock_t *lock)
{
    (void)probe_int(p, "DEL " COUNTER, rdl_lock_name(lock, NULL));
    rdl_lock_free(lock);
}

int64_t lock_holds(struct probe *p, const char *name)
{
    const struct reply *all = probe_ask(p, "HGETALL %s", name);
    int64_t holds = 0;

    if (all->kind != REPLY_ARRAY) /* the simple lock's is a string */
        return probe_int(p, "EXISTS %s", name);
    for (size_t i = 0; i + 1 < all->count; i += 2)
        if (strcmp(all->items[i].text, "mode") != 0 &&
            strstr(all->items[i].text, ":wanted") == NULL) /* wire.md, Line */
            holds += strtoll(all->items[i + 1].text, NULL, 10);
    return holds;
}

/* ---- foreign client --------------------------------------------------------------------------------------------- */

#define FOREIGN_FIELD "f7a1e6b0-0000-4000-8000-000000000000:1"

char *channel_of(const char *name)
{
    return must_format(strchr(name, '{') != NULL ? "redisson_lock__channel:%s" : "redisson_lock__channel:{%s}", name);
}

void foreign_take(struct probe *p, const char *name, int64_t lease_ms)
{
    if (probe_int(p, "HSETNX %s %s 1", name, FOREIGN_FIELD) != 1)
        die("%s is taken", name);
    if (lease_ms > 0)
        (void)probe_int(p, "PEXPIRE %s %lld", name, (long long)lease_ms);
}

int64_t foreign_release_by(struct probe *p, const char *publish, const char *name)
{
    static const char script[] = "if redis.call(\"del\", KEYS[1]) == 0 then return -1 end "
                                 "return redis.call(ARGV[1], KEYS[2], \"0\")";
    char *channel = channel_of(name);
    int64_t told = probe_int(p, "EVAL '%s' 2 %s %s %s", script, name, channel, publish);

    free(channel);
    return told;
}

int64_t foreign_release(struct probe *p, const char *name)
{
    return foreign_release_by(p, "publish", name);
}
