/* traffic.c - see traffic.h. */
#include "tools/benchmarks/programs/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As long as the fields that redlatch and Redisson write. */
#define FIELD_FORMAT "00000000-0000-4000-8000-%012lx:1"
#define LATCH_ID "0123456789abcdef0123456789abcdef"
#define LATCH_MS "16500"

redisContext *connect_to(const char *server)
{
    static const char unix_scheme[] = "unix:";
    static const char tcp_scheme[] = "redis://";
    redisContext *c;

    if (strncmp(server, unix_scheme, sizeof unix_scheme - 1) == 0) {
        c = redisConnectUnix(server + sizeof unix_scheme - 1);
    } else {
        const char *host = server + sizeof tcp_scheme - 1;
        const char *colon = strrchr(server, ':');
        char *name;

        if (strncmp(server, tcp_scheme, sizeof tcp_scheme - 1) != 0 || colon < host)
            fail("--server is unix:/path or redis://host:port, not %s", server);
        name = format("%.*s", (int)(colon - host), host);
        c = redisConnect(name, (int)strtol(colon + 1, NULL, 10));
        free(name);
    }
    if (c == NULL || c->err != 0)
        fail("%s: %s", server, c != NULL ? c->errstr : "out of memory");
    return c;
}

void request_add(struct request *r, const char *word)
{
    if (r->argc == REQUEST_WORDS)
        fail("a request of more than %d words", REQUEST_WORDS);
    r->argv[r->argc] = word;
    r->len[r->argc++] = strlen(word);
}

redisReply *ask(redisContext *c, const struct request *r)
{
    redisReply *reply = redisCommandArgv(c, r->argc, (const char **)r->argv, r->len);

    if (reply == NULL)
        fail("%s: %s", r->argv[0], c->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        fail("%s: %s", r->argv[0], reply->str);
    return reply;
}

void tell(redisContext *c, const struct request *r)
{
    freeReplyObject(ask(c, r));
}

char *load_script(redisContext *c, const char *tree, const char *name)
{
    char *path = format("%s/%s.lua", tree, name);
    char *text = NULL;
    char *digest;
    size_t room = 0;
    FILE *file = fopen(path, "re");
    struct request load = {0};
    redisReply *reply;

    if (file == NULL || getdelim(&text, &room, '\0', file) < 0)
        fail("%s cannot be read", path);
    (void)fclose(file);
    request_add(&load, "SCRIPT");
    request_add(&load, "LOAD");
    request_add(&load, text);
    reply = ask(c, &load);
    digest = format("%s", reply->str);
    freeReplyObject(reply);
    free(text);
    free(path);
    return digest;
}

static void evalsha(struct request *r, const struct run *run, redisContext *c, const char *script, const char *keys)
{
    *r = (struct request){0};
    request_add(r, "EVALSHA");
    request_add(r, load_script(c, run->tree, script));
    request_add(r, keys);
}

static int64_t reentrant_left(const redisReply *taking)
{
    return taking->integer < -1 ? TAKEN : taking->integer;
}

static int64_t simple_left(const redisReply *taking)
{
    return taking->type == REDIS_REPLY_STATUS ? TAKEN : LEASE_MS;
}

static int64_t redisson_left(const redisReply *taking)
{
    return taking->type == REDIS_REPLY_NIL ? TAKEN : taking->integer;
}

static void reentrant_traffic(struct traffic *t, const struct run *run, redisContext *c, const char *lock, const char *field,
                              const char *lease)
{
    t->left = reentrant_left;
    evalsha(&t->take, run, c, "scripts/reentrant_take", "1");
    request_add(&t->take, lock);
    request_add(&t->take, field);
    request_add(&t->take, "1");
    request_add(&t->take, lease);
    evalsha(&t->release, run, c, "scripts/reentrant_release", "2");
    request_add(&t->release, lock);
    request_add(&t->release, t->channel);
    request_add(&t->release, field);
    request_add(&t->release, "0");
}

static void simple_traffic(struct traffic *t, const struct run *run, redisContext *c, const char *lock, const char *field,
                           const char *lease)
{
    t->left = simple_left;
    request_add(&t->take, "SET");
    request_add(&t->take, lock);
    request_add(&t->take, field);
    request_add(&t->take, "NX");
    request_add(&t->take, "PX");
    request_add(&t->take, lease);
    evalsha(&t->release, run, c, "scripts/simple_release", "2");
    request_add(&t->release, lock);
    request_add(&t->release, t->channel);
    request_add(&t->release, field);
    request_add(&t->release, "0");
}

static void redisson_traffic(struct traffic *t, const struct run *run, redisContext *c, const char *lock, const char *field,
                             const char *lease)
{
    const char *latch = format("redisson_unlock_latch:{%s}:" LATCH_ID, lock);

    t->left = redisson_left;
    evalsha(&t->take, run, c, "tools/benchmarks/programs/redisson_take", "1");
    request_add(&t->take, lock);
    request_add(&t->take, lease);
    request_add(&t->take, field);
    evalsha(&t->release, run, c, "tools/benchmarks/programs/redisson_release", "3");
    request_add(&t->release, lock);
    request_add(&t->release, t->channel);
    request_add(&t->release, latch);
    request_add(&t->release, "0");
    request_add(&t->release, lease);
    request_add(&t->release, field);
    request_add(&t->release, LATCH_MS);
    request_add(&t->after, "DEL");
    request_add(&t->after, latch);
}

void traffic_init(struct traffic *t, const struct run *run, redisContext *c, const char *kind, const char *lock)
{
    static _Atomic unsigned long serial;
    const char *field = format(FIELD_FORMAT, ((unsigned long)getpid() << 20) + atomic_fetch_add(&serial, 1));
    const char *lease = format("%lld", run->lease_ms > 0 ? (long long)run->lease_ms : (long long)LEASE_MS);

    static const struct {
        const char *kind;
        void (*fill)(struct traffic *t, const struct run *run, redisContext *c, const char *lock, const char *field,
                     const char *lease);
    } fillings[] = {{"reentrant", reentrant_traffic}, {"simple", simple_traffic}, {"redisson", redisson_traffic}};

    *t = (struct traffic){.channel = format("redisson_lock__channel:{%s}", lock)};
    lock = format("%s", lock);
    for (size_t i = 0; i < sizeof fillings / sizeof *fillings; i++) {
        if (strcmp(kind, fillings[i].kind) == 0) {
            fillings[i].fill(t, run, c, lock, field, lease);
            return;
        }
    }
    fail("no traffic of kind %s", kind);
}
