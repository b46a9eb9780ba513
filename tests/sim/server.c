/* SPDX-License-Identifier: MIT */
/* server.c - what Redis does around its keys: connections, scripts that are known or not, messages.
 *
 * Commands that concern a connection are rows of a table here; all others go to the keyspace. The library's scripts are
 * compiled once for all runs; what a run forgets or learns is one flag a script, and EVAL and SCRIPT LOAD of them
 * become EVALSHA, so a connection's greeting costs no hashing.
 *
 * Clients come through something that numbers its ports anew with each run of the server, so that not even an id
 * together with an address means the same client in two runs.
 *
 * Each command sees a later microsecond than the one before, as on a real server, where none takes less.
 */
#include "tests/sim/server.h"

#include "core/base/err.h"
#include "core/service/evictions.h"
#include "core/wire/buf.h"
#include "scripts/scripts.h"
#include "tests/support/wait.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_SESSIONS 32768
#define MOST_CHANNELS 16
#define MOST_WORDS 512
#define CHANNEL_SIZE 128
#define OLD_S 100 /* how long it has been up when the world begins */
#define EPOCH_US INT64_C(1700000000000000)

struct server;

struct session {
    struct server *of;
    struct conn *conn;
    int64_t id;
    size_t place; /* among the server's */
    char addr[32];
    bool resp3;
    bool live;
    struct bytes in;
    struct {
        char name[CHANNEL_SIZE];
        size_t len;
    } channels[MOST_CHANNELS];
    size_t channel_count;
};

struct request {
    struct session *session;
    int64_t sent_at;
    size_t argc;
    const char *argv[MOST_WORDS];
    size_t len[MOST_WORDS];
};

static struct server {
    struct keyspace *keys; /* kept from run to run */
    struct server_traits traits;
    struct process process;
    bool listening;
    bool stepped_back;
    bool flushed;
    unsigned generation;
    int64_t next_id;
    int64_t last_us;
    int64_t commands;
    bool known[RDL__SCRIPT_COUNT];
    struct session *sessions[MOST_SESSIONS]; /* the first `count` are this run's */
    uint64_t heard[MOST_SESSIONS];           /* a bit for each channel that it has ever subscribed to */
    size_t count;
    void (*on_ran)(const struct ran *ran);
    int64_t age_s; /* when it started */
    int64_t started_us;
    struct bytes out;
} servers[MOST_SERVERS], *server = servers; /* the one that is spoken of */

unsigned server_select(unsigned n)
{
    unsigned before = (unsigned)(server - servers);

    if (n >= MOST_SERVERS)
        die("sim: there is no server %u", n);
    server = &servers[n];
    return before;
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

static int64_t clock_us(void)
{
    return EPOCH_US + process_clock(&server->process) / RDL__US;
}

struct keyspace *server_keys(void)
{
    ks_set_time(server->keys, clock_us() > server->last_us ? clock_us() : server->last_us);
    return server->keys;
}

int64_t server_commands(void)
{
    return server->commands;
}

static void tick(void)
{
    server->commands++;
    server->last_us = clock_us() > server->last_us ? clock_us() : server->last_us + 1;
    ks_set_time(server->keys, server->last_us);
}

void server_step_clock(int64_t ns)
{
    say("the server's clock is stepped by %+.3f ms", (double)ns / (double)RDL__MS);
    server->process.clock_step += ns;
    server->stepped_back = server->stepped_back || ns < 0;
    server->last_us = clock_us();
}

bool server_forgot_scripts(void)
{
    return server->flushed;
}

bool server_stepped_back(void)
{
    return server->stepped_back;
}

int64_t server_undo_pause(void)
{
    return server->traits.kill_refused ? 12 * RDL__SEC : 0;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static void add_text(const char *text)
{
    bytes_add(&server->out, text, strlen(text));
}

static void add_head(char type, int64_t n)
{
    char head[32] = {type};
    size_t len = 1 + rdl__itoa(head + 1, n);

    memcpy(head + len, "\r\n", 2);
    bytes_add(&server->out, head, len + 2);
}

static void add_bulk(const char *at, size_t len)
{
    add_head('$', (int64_t)len);
    bytes_add(&server->out, at, len);
    bytes_add(&server->out, "\r\n", 2);
}

static void add_line(char type, const char *text)
{
    bytes_add(&server->out, &type, 1);
    add_text(text);
    bytes_add(&server->out, "\r\n", 2);
}

static void add_reply(const struct session *s, const struct reply *r)
{
    switch (r->kind) {
    case REPLY_STATUS:
        add_line('+', r->text);
        break;
    case REPLY_ERROR:
        add_line('-', r->text);
        break;
    case REPLY_INTEGER:
        add_head(':', r->integer);
        break;
    case REPLY_STRING:
        add_bulk(r->text, r->len);
        break;
    case REPLY_NIL:
        add_text(s->resp3 ? "_\r\n" : "$-1\r\n");
        break;
    case REPLY_ARRAY:
    case REPLY_PUSH:
        add_head('*', (int64_t)r->count);
        for (size_t i = 0; i < r->count; i++)
            add_reply(s, &r->items[i]);
        break;
    }
}

static void send_out(struct session *s)
{
    if (s->live)
        net_answer(s->conn, server->out.at, server->out.len);
    server->out.len = 0;
}

/* ---- commands of connections ------------------------------------------------------------------------------------ */

static bool is(const struct request *r, size_t i, const char *word)
{
    return i < r->argc && r->len[i] == strlen(word) && strncasecmp(r->argv[i], word, r->len[i]) == 0;
}

static void run_hello(struct request *r)
{
    if (server->traits.old) {
        add_line('-', "ERR unknown command `HELLO`, with args beginning with: ");
        return;
    }
    r->session->resp3 = true;
    add_text("%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n");
}

static void run_ok(struct request *r)
{
    (void)r;
    add_line('+', "OK");
}

static void kill_session(struct session *s)
{
    say("conn %u is killed", net_serial(s->conn));
    s->live = false;
    net_hang_up(s->conn);
}

static void kill_client(const struct request *r)
{
    int64_t killed = 0;

    if (server->traits.kill_refused) {
        add_line('-', "NOPERM this user has no permissions to run the 'client|kill' command");
        return;
    }
    for (size_t i = 0; i < server->count; i++) {
        struct session *s = server->sessions[i];
        char id[24];

        (void)snprintf(id, sizeof id, "%lld", (long long)s->id);
        if (s->live && s != r->session && is(r, 3, id) && is(r, 5, s->addr)) {
            if (!net_abandoned(s->conn))
                violated("only what was left is killed", "conn %u kills conn %u, which is in use",
                         net_serial(r->session->conn), net_serial(s->conn));
            kill_session(s);
            killed++;
        }
    }
    add_head(':', killed);
}

static void run_client(struct request *r)
{
    char info[128];

    if (is(r, 1, "kill")) {
        kill_client(r);
    } else if (is(r, 1, "info")) {
        int len = snprintf(info, sizeof info, "id=%lld addr=%s laddr=10.0.0.1:6379 fd=8 name=redlatch\n",
                           (long long)r->session->id, r->session->addr);

        add_bulk(info, (size_t)len);
    } else {
        add_line('+', "OK");
    }
}

static void run_info(struct request *r)
{
    char info[128];
    int64_t up_s = server->age_s + (server->last_us - server->started_us) / 1000000;
    int len =
        snprintf(info, sizeof info, "# Server\r\nredis_version:7.0.15\r\nrun_id:%040u\r\nuptime_in_seconds:%03lld\r\n",
                 server->generation + 1000 * (unsigned)(server - servers), (long long)up_s);

    (void)r;
    add_bulk(info, (size_t)len);
}

static void add_subscription(const struct session *s, const char *what, const char *channel, size_t len)
{
    add_head(s->resp3 ? '>' : '*', 3);
    add_bulk(what, strlen(what));
    add_bulk(channel, len);
    add_head(':', (int64_t)s->channel_count);
}

static uint64_t bit_of(const char *channel, size_t len)
{
    return UINT64_C(1) << (ks_hash(channel, len) & 63);
}

static size_t find_channel(const struct session *s, const char *name, size_t len)
{
    size_t i = 0;

    while (i < s->channel_count && (s->channels[i].len != len || memcmp(s->channels[i].name, name, len) != 0))
        i++;
    return i;
}

static void run_subscribe(struct request *r)
{
    struct session *s = r->session;

    for (size_t i = 1; i < r->argc; i++) {
        size_t at = find_channel(s, r->argv[i], r->len[i]);

        if (at == MOST_CHANNELS || r->len[i] >= CHANNEL_SIZE)
            die("sim: too many channels, or too long a name");
        if (at == s->channel_count) {
            memcpy(s->channels[at].name, r->argv[i], r->len[i]);
            s->channels[at].len = r->len[i];
            s->channel_count++;
            server->heard[s->place] |= bit_of(r->argv[i], r->len[i]);
        }
        say("subscribed to %.*s", (int)r->len[i], r->argv[i]);
        add_subscription(s, "subscribe", r->argv[i], r->len[i]);
    }
}

static void run_unsubscribe(struct request *r)
{
    struct session *s = r->session;

    for (size_t i = 1; i < r->argc; i++) {
        size_t at = find_channel(s, r->argv[i], r->len[i]);

        if (at < s->channel_count)
            s->channels[at] = s->channels[--s->channel_count];
        say("no longer subscribed to %.*s", (int)r->len[i], r->argv[i]);
        add_subscription(s, "unsubscribe", r->argv[i], r->len[i]);
    }
}

static void run_ping(struct request *r)
{
    if (r->session->resp3 || r->session->channel_count == 0)
        add_line('+', "PONG");
    else
        add_text("*2\r\n$4\r\npong\r\n$0\r\n\r\n");
}

/* ---- scripts ---------------------------------------------------------------------------------------------------- */

static int script_by_sha(const char *sha, size_t len)
{
    for (int i = 1; i < RDL__SCRIPT_COUNT; i++)
        if (len == 40 && memcmp(rdl__scripts[i].sha, sha, 40) == 0)
            return i;
    return -1;
}

static int script_by_body(const char *body, size_t len)
{
    for (int i = 1; i < RDL__SCRIPT_COUNT; i++)
        if (len == rdl__scripts[i].body_len && memcmp(rdl__scripts[i].body, body, len) == 0)
            return i;
    die("sim: a script that is not the library's");
}

static void run_script(struct request *r)
{
    if (is(r, 1, "load")) {
        int script = script_by_body(r->argv[2], r->len[2]);

        server->known[script] = true;
        add_bulk(rdl__scripts[script].sha, 40);
    } else {
        server_flush_scripts();
        add_line('+', "OK");
    }
}

/* Which of the library's scripts the request calls, made an EVALSHA; -1: none; -2: one that is not known. */
static int script_called(struct request *r)
{
    int script = -1;

    if (is(r, 0, "evalsha")) {
        script = script_by_sha(r->argv[1], r->len[1]);
        if (script < 0 || !server->known[script])
            return -2;
    } else if (is(r, 0, "eval")) {
        script = script_by_body(r->argv[1], r->len[1]);
        server->known[script] = true;
        r->argv[0] = "EVALSHA";
        r->len[0] = 7;
        r->argv[1] = rdl__scripts[script].sha;
        r->len[1] = 40;
    }
    return script;
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static int64_t publish(void *arg, bool sharded, const char *channel, size_t channel_len, const char *payload,
                       size_t payload_len)
{
    struct bytes answer = server->out;
    uint64_t bit = bit_of(channel, channel_len);
    int64_t receivers = 0;

    (void)arg;
    (void)sharded;
    server->out = (struct bytes){0};
    for (size_t i = 0; i < server->count; i++) {
        struct session *s = server->sessions[i];

        if ((server->heard[i] & bit) == 0 || !s->live || find_channel(s, channel, channel_len) == s->channel_count)
            continue;
        add_head(s->resp3 ? '>' : '*', 3);
        add_bulk("message", 7);
        add_bulk(channel, channel_len);
        add_bulk(payload, payload_len);
        send_out(s);
        receivers++;
    }
    bytes_done(&server->out);
    server->out = answer;
    say("message %.*s on %.*s to %lld", (int)payload_len, payload, (int)channel_len, channel, (long long)receivers);
    return receivers;
}

/* ---- one request ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*run)(struct request *r);
} commands[] = {
    {"hello", run_hello},
    {"auth", run_ok},
    {"select", run_ok},
    {"client", run_client},
    {"info", run_info},
    {"subscribe", run_subscribe},
    {"unsubscribe", run_unsubscribe},
    {"ping", run_ping},
    {"script", run_script},
};

static void tell(const struct request *r, int script, const struct reply *reply)
{
    struct ran ran = {
        .client = r->session == NULL ? NULL : net_owner(r->session->conn),
        .sent_at = r->sent_at,
        .late = r->session != NULL && net_abandoned(r->session->conn),
        .script = script < 0 ? NULL : rdl__scripts[script].name,
        .argc = r->argc,
        .argv = r->argv,
        .len = r->len,
        .first_key = 3,
        .first_arg = script < 0 ? 0 : 3 + strtoul(r->argv[2], NULL, 10),
        .reply = reply,
    };

    if (server->on_ran != NULL)
        server->on_ran(&ran);
}

/* The whole request as a person would read it, keys and arguments of scripts included. */
static void say_request(const struct request *r, int script, const struct reply *reply)
{
    char line[400], word[160];
    size_t len = 0;

    if (!world_tracing())
        return;
    for (size_t i = script < 0 ? 0 : 3; i < r->argc && len < sizeof line - 1; i++) {
        (void)rdl__printable(word, sizeof word, r->argv[i], r->len[i]);
        len += (size_t)snprintf(line + len, sizeof line - len, " %s", word);
    }
    line[len < sizeof line ? len : sizeof line - 1] = '\0';
    say("conn %d: %s%s -> %s%lld", r->session == NULL ? -1 : (int)net_serial(r->session->conn),
        script < 0 ? "" : rdl__scripts[script].name, line, reply->text != NULL ? reply->text : "",
        (long long)(reply->kind == REPLY_ARRAY && reply->count > 2 ? reply->items[2].integer : reply->integer));
}

static struct reply *run_on_keys(struct request *r)
{
    int script = script_called(r);
    struct reply *reply;

    if (script == -2)
        return NULL;
    reply = ks_command(server->keys, r->argc, r->argv, r->len);
    say_request(r, script, reply);
    tell(r, script, reply);
    return reply;
}

/* Whether it was a command that concerns keys. */
static bool run(struct request *r)
{
    struct reply *reply;

    tick();
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (is(r, 0, commands[i].name)) {
            commands[i].run(r);
            return false;
        }
    }
    reply = run_on_keys(r);
    if (reply == NULL)
        add_line('-', "NOSCRIPT No matching script. Please use EVAL.");
    else
        add_reply(r->session, reply);
    reply_free(reply);
    return true;
}

/* ---- sessions --------------------------------------------------------------------------------------------------- */

/* A number after `type`, and the bytes used; 0: the line is not all there. */
static size_t read_head(const char *at, size_t len, char type, size_t *ret)
{
    const char *end = len == 0 ? NULL : memchr(at, '\n', len);
    size_t n = 0;

    if (end == NULL)
        return 0;
    if (*at != type)
        die("sim: the client does not speak RESP");
    for (const char *p = at + 1; p < end - 1; p++)
        n = n * 10 + (size_t)(*p - '0');
    *ret = n;
    return (size_t)(end - at) + 1;
}

/* The request that starts at `at`, and its length; 0: it is not all there. */
static size_t read_request(const char *at, size_t len, struct request *r)
{
    size_t used = read_head(at, len, '*', &r->argc);

    if (used == 0)
        return 0;
    if (r->argc > MOST_WORDS)
        die("sim: a request of more than %d words", MOST_WORDS);
    for (size_t i = 0; i < r->argc; i++) {
        size_t head = read_head(at + used, len - used, '$', &r->len[i]);

        if (head == 0 || len - used - head < r->len[i] + 2)
            return 0;
        r->argv[i] = at + used + head;
        used += head + r->len[i] + 2;
    }
    return used;
}

void server_receive(struct session *s, const char *bytes, size_t len)
{
    struct request r;
    size_t done = 0, used;
    bool on_keys;

    struct server *before = server;

    if (!s->live)
        return;
    server = s->of;
    r.session = s;
    bytes_add(&s->in, bytes, len);
    while (s->live && (used = read_request(s->in.at + done, s->in.len - done, &r)) > 0) {
        r.sent_at = net_given_at(s->conn, used);
        on_keys = run(&r);
        send_out(s);
        done += used;
        if (on_keys)
            net_turn(s->conn);
    }
    bytes_drop(&s->in, done);
    server = before;
}

struct session *server_accept(struct conn *conn)
{
    struct session *s;
    struct bytes kept;

    if (!server->listening)
        return NULL;
    if (server->count == MOST_SESSIONS)
        die("sim: more than %d sessions", MOST_SESSIONS);
    if ((s = server->sessions[server->count]) == NULL)
        s = server->sessions[server->count] = must_alloc(sizeof *s);
    s->place = server->count++;
    server->heard[s->place] = 0;
    kept = s->in;
    s->in = (struct bytes){kept.at, 0, kept.cap};
    s->of = server;
    s->conn = conn;
    s->id = server->next_id++;
    s->resp3 = false;
    s->live = true;
    s->channel_count = 0;
    (void)snprintf(s->addr, sizeof s->addr, "10.0.0.2:%lld", 20000 + (long long)s->id);
    say("conn %u is accepted as client %lld", net_serial(conn), (long long)s->id);
    return s;
}

void server_forget(struct session *s)
{
    if (!s->live)
        return;
    s->live = false;
    net_hang_up(s->conn);
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

void server_begin(const struct server_traits *traits, int64_t clock_ppm)
{
    char sha[KS_SHA_SIZE];

    if (server->keys == NULL) {
        server->keys = ks_new(EPOCH_US);
        ks_on_publish(server->keys, publish, NULL);
        for (int i = 1; i < RDL__SCRIPT_COUNT; i++)
            ks_load(server->keys, rdl__scripts[i].body, rdl__scripts[i].body_len, sha);
    }
    server->traits = *traits;
    process_init(&server->process, "srv", 0, clock_ppm);
    server->generation = 0;
    server->age_s = OLD_S;
    server->last_us = 0;
    server->stepped_back = false;
    server->count = 0;
    server->on_ran = NULL;
    server_restart(true);
    server->flushed = false;
}

void server_end(void)
{
    for (unsigned n = 0; n < MOST_SERVERS; n++) {
        servers[n].count = 0;
        servers[n].on_ran = NULL;
    }
    server = servers;
}

struct process *server_process(void)
{
    return &server->process;
}

void server_on_ran(void (*fn)(const struct ran *ran))
{
    server->on_ran = fn;
}

/* ---- faults, and foreign clients -------------------------------------------------------------------------------- */

void server_crash(void)
{
    say("the server crashes");
    server->listening = false;
    for (size_t i = 0; i < server->count; i++)
        server->sessions[i]->live = false;
    server->age_s = 0;
    net_lose_server((unsigned)(server - servers));
}

void server_restart(bool empty)
{
    say("the server starts%s", empty ? ", empty" : "");
    server->commands++;
    if (empty)
        reply_free(ks_say(server->keys, "FLUSHALL"));
    server->listening = true;
    server->generation++;
    server->next_id = 3;
    server->started_us = clock_us();
    server_flush_scripts();
}

bool server_up(void)
{
    return server->listening && !server->process.stopped;
}

void server_flush_scripts(void)
{
    server->flushed = true;
    memset(server->known, 0, sizeof server->known);
}

void server_flush_keys(void)
{
    say("all keys are flushed");
    server->commands++;
    reply_free(ks_say(server->keys, "FLUSHALL"));
}

struct reply *server_do_(const char *first, ...)
{
    struct request r;
    va_list words;

    r.session = NULL;
    r.sent_at = world_now();
    r.argc = 0;
    va_start(words, first);
    for (const char *word = first; word != NULL; word = va_arg(words, const char *)) {
        r.argv[r.argc] = word;
        r.len[r.argc++] = strlen(word);
    }
    va_end(words);
    tick();
    return run_on_keys(&r);
}

size_t server_subscriptions(const struct process *client)
{
    size_t count = 0;

    for (size_t i = 0; i < server->count; i++) {
        const struct session *s = server->sessions[i];

        for (size_t j = 0; s->live && net_owner(s->conn) == client && !net_abandoned(s->conn) && j < s->channel_count;
             j++)
            count += strncmp(s->channels[j].name, RDL__EVICTIONS_CHANNEL, sizeof RDL__EVICTIONS_CHANNEL - 1) != 0;
    }
    return count;
}
