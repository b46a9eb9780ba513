/* SPDX-License-Identifier: MIT */
/* traffic.c - see traffic.h. */
#include "tools/benchmarks/programs/traffic.h"

#include "scripts/scripts.h"

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

void request_add_bytes(struct request *r, const char *bytes, size_t len)
{
    if (r->argc == REQUEST_WORDS)
        fail("a request of more than %d words", REQUEST_WORDS);
    r->argv[r->argc] = bytes;
    r->len[r->argc++] = len;
}

void request_add(struct request *r, const char *word)
{
    request_add_bytes(r, word, strlen(word));
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

static char *read_text(const char *path)
{
    char *text = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "re");

    if (file == NULL || getdelim(&text, &room, '\0', file) < 0)
        fail("%s cannot be read", path);
    (void)fclose(file);
    return text;
}

/* The script with all that it includes. */
static char *put_together(const char *tree, char *text)
{
    static const char include[] = "-- include ";
    char *at = text;

    while ((at = strstr(at, include)) != NULL) {
        const char *name = at + sizeof include - 1;
        size_t len = strcspn(name, "\n"), before = (size_t)(at - text);
        char *path = format("%s/scripts/%.*s", tree, (int)len, name);
        char *part = read_text(path);
        char *whole = format("%.*s\n%s%s", (int)before, text, part, name + len);

        free(path);
        free(part);
        free(text);
        text = whole;
        at = text + before;
    }
    return text;
}

/* As the library has it, if it does: without what is included and not called. */
static char *script_text(const char *tree, const char *name)
{
    char *path, *text;

    for (int i = RDL__SCRIPT_NONE + 1; i < RDL__SCRIPT_COUNT; i++)
        if (strncmp(name, "scripts/", 8) == 0 && strcmp(name + 8, rdl__scripts[i].name) == 0)
            return format("%s", rdl__scripts[i].body);
    path = format("%s/%s.lua", tree, name);
    text = put_together(tree, read_text(path));
    free(path);
    return text;
}

char *load_script(redisContext *c, const char *tree, const char *name)
{
    char *text = script_text(tree, name);
    char *digest;
    struct request load = {0};
    redisReply *reply;

    request_add(&load, "SCRIPT");
    request_add(&load, "LOAD");
    request_add(&load, text);
    reply = ask(c, &load);
    digest = format("%s", reply->str);
    freeReplyObject(reply);
    free(text);
    return digest;
}

static void evalsha(struct request *r, const struct run *run, redisContext *c, const char *script, const char *keys)
{
    *r = (struct request){0};
    request_add(r, "EVALSHA");
    request_add(r, load_script(c, run->tree, script));
    request_add(r, keys);
}

static int64_t hash_left(const redisReply *taking)
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

/* A type that lives in a hash, and whose scripts are called as the reentrant lock's. */
struct in_hash {
    const char *kind;
    const char *take, *release; /* scripts; NULL: RESTORE takes it */
    const char *channel;        /* prefixes of keys */
    const char *counter;        /* the take's second key; NULL: none */
    const char *ending;         /* of its fields */
    const char *publish;        /* NULL: as the script does it by itself */
};

static const struct in_hash in_hash[] = {
    {"reentrant", "reentrant_take", "reentrant_release", "redisson_lock__channel", NULL, "", NULL},
    {"sharded", "reentrant_take", "reentrant_release", "redisson_lock__channel", NULL, "", "spublish"},
    {"restored", NULL, "reentrant_release", "redisson_lock__channel", NULL, "", NULL},
    {"restored-sharded", NULL, "reentrant_release", "redisson_lock__channel", NULL, "", "spublish"},
    {"fenced", "fenced_take", "reentrant_release", "redisson_lock__channel", "redisson_lock_token", "", NULL},
    {"read", "read_take", "read_release", "redisson_rwlock", NULL, "", NULL},
    {"write", "write_take", "write_release", "redisson_rwlock", NULL, ":write", NULL},
};

/* One command that fails where the key exists. What the server wants for it, it has dumped itself. */
static void restoring_take(struct traffic *t, redisContext *c, const char *lock, const char *field, const char *lease)
{
    struct request set = {0}, dump = {0}, drop = {0};
    redisReply *reply; /* its text stays */

    request_add(&set, "HSET");
    request_add(&set, lock);
    request_add(&set, field);
    request_add(&set, "1");
    tell(c, &set);
    request_add(&dump, "DUMP");
    request_add(&dump, lock);
    reply = ask(c, &dump);
    request_add(&drop, "DEL");
    request_add(&drop, lock);
    tell(c, &drop);
    t->left = simple_left;
    request_add(&t->take, "RESTORE");
    request_add(&t->take, lock);
    request_add(&t->take, lease);
    request_add_bytes(&t->take, reply->str, reply->len);
}

static void scripted_take(struct traffic *t, const struct run *run, redisContext *c, const struct in_hash *type,
                          const char *lock, const char *field, const char *lease)
{
    t->left = hash_left;
    evalsha(&t->take, run, c, format("scripts/%s", type->take), type->counter == NULL ? "1" : "2");
    request_add(&t->take, lock);
    if (type->counter != NULL)
        request_add(&t->take, format("%s:{%s}", type->counter, lock));
    request_add(&t->take, field);
    request_add(&t->take, "1");
    request_add(&t->take, lease);
}

static void hash_traffic(struct traffic *t, const struct run *run, redisContext *c, const struct in_hash *type,
                         const char *lock, const char *field, const char *lease)
{
    t->channel = format("%s:{%s}", type->channel, lock);
    field = format("%s%s", field, type->ending);
    if (type->take != NULL)
        scripted_take(t, run, c, type, lock, field, lease);
    else
        restoring_take(t, c, lock, field, lease);
    evalsha(&t->release, run, c, format("scripts/%s", type->release), "2");
    request_add(&t->release, lock);
    request_add(&t->release, t->channel);
    request_add(&t->release, field);
    request_add(&t->release, "0");
    if (type->publish != NULL)
        request_add(&t->release, type->publish);
}

static void simple_traffic(struct traffic *t, const struct run *run, redisContext *c, const char *lock,
                           const char *field, const char *lease)
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

static void fair_keys(struct request *r, const struct traffic *t, const char *lock)
{
    request_add(r, lock);
    request_add(r, t->channel);
    request_add(r, format("redisson_lock_queue:{%s}", lock));
    request_add(r, format("redisson_lock_timeout:{%s}", lock));
    request_add(r, format("redlatch_lock_waiters:{%s}", lock));
}

static void fair_traffic(struct traffic *t, const struct run *run, redisContext *c, const char *lock, const char *field,
                         const char *lease)
{
    t->left = hash_left;
    evalsha(&t->take, run, c, "scripts/fair_take", "5");
    fair_keys(&t->take, t, lock);
    request_add(&t->take, field);
    request_add(&t->take, "1");
    request_add(&t->take, lease);
    request_add(&t->take, "0");
    request_add(&t->take, "0");
    request_add(&t->take, field);
    request_add(&t->take, "1");
    evalsha(&t->release, run, c, "scripts/fair_release", "5");
    fair_keys(&t->release, t, lock);
    request_add(&t->release, field);
    request_add(&t->release, "0");
    request_add(&t->release, field);
}

/* ---- semaphores ------------------------------------------------------------------------------------------------- */

#define GUARD_KEEP_MS "3610000"
#define GUARD_WORD 5 /* of their requests: this one's, and the one before it, which is done with */
#define GUARD_DIGITS 16
#define ID_BYTES 16

static int64_t permits_left(const redisReply *taking)
{
    return taking->type == REDIS_REPLY_INTEGER && taking->integer >= 0 ? TAKEN : LEASE_MS;
}

static void set_permits(redisContext *c, const char *name)
{
    struct request set = {0};

    request_add(&set, "SET");
    request_add(&set, name);
    request_add(&set, format("%d", PERMITS));
    tell(c, &set);
}

static void renew_guard(struct traffic *t, struct request *next)
{
    char *guard = t->changing[t->serial % 2];
    size_t len = strlen(guard);
    uint64_t n = ++t->serial;

    for (size_t i = 1; i <= GUARD_DIGITS; i++, n /= 10)
        guard[len - i] = (char)('0' + n % 10);
    next->argv[GUARD_WORD] = guard;
    next->argv[GUARD_WORD + 1] = t->changing[t->serial % 2];
}

static void guarded(struct request *r, const struct run *run, redisContext *c, const char *script,
                    const struct traffic *t, const char *name)
{
    evalsha(r, run, c, script, "4");
    request_add(r, name);
    request_add(r, t->channel);
    request_add(r, t->changing[0]);
    request_add(r, t->changing[1]);
    request_add(r, "1");
    request_add(r, GUARD_KEEP_MS);
}

static void semaphore_traffic(struct traffic *t, const struct run *run, redisContext *c, const char *name,
                              const char *field, const char *lease)
{
    (void)lease;
    t->left = permits_left;
    t->renew = renew_guard;
    t->channel = format("redisson_sc:{%s}", name);
    for (size_t i = 0; i < 2; i++)
        t->changing[i] = format("redlatch_guard:{%s}:%s:%0*d", name, field, GUARD_DIGITS, 0);
    set_permits(c, name);
    guarded(&t->take, run, c, "scripts/semaphore_take", t, name);
    guarded(&t->release, run, c, "scripts/semaphore_add", t, name);
}

/* The release gives back what was taken last. */
static void renew_id(struct traffic *t, struct request *next)
{
    if (next != &t->take)
        return;
    t->serial++;
    memcpy(t->changing[0], &t->serial, sizeof t->serial);
}

static void permit_keys(struct request *r, const struct traffic *t, const char *name)
{
    request_add(r, name);
    request_add(r, format("{%s}:timeout", name));
    request_add(r, t->channel);
}

static void permit_traffic(struct traffic *t, const struct run *run, redisContext *c, const char *name,
                           const char *field, const char *lease)
{
    t->left = permits_left;
    t->renew = renew_id;
    t->channel = format("redisson_sc:{%s}", name);
    t->changing[0] = allocate(1, ID_BYTES);
    set_permits(c, name);
    evalsha(&t->take, run, c, "scripts/permit_take", "3");
    permit_keys(&t->take, t, name);
    request_add(&t->take, lease);
    request_add(&t->take, "publish");
    request_add(&t->take, field);
    request_add(&t->take, "0");
    request_add_bytes(&t->take, t->changing[0], ID_BYTES);
    evalsha(&t->release, run, c, "scripts/permit_release", "3");
    permit_keys(&t->release, t, name);
    request_add(&t->release, "publish");
    request_add_bytes(&t->release, t->changing[0], ID_BYTES);
}

/* ---- Redisson's ------------------------------------------------------------------------------------------------- */

static void redisson_traffic(struct traffic *t, const struct run *run, redisContext *c, const char *lock,
                             const char *field, const char *lease)
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
    } fillings[] = {{"simple", simple_traffic},
                    {"fair", fair_traffic},
                    {"semaphore", semaphore_traffic},
                    {"permit", permit_traffic},
                    {"redisson", redisson_traffic}};

    *t = (struct traffic){.channel = format("redisson_lock__channel:{%s}", lock)};
    lock = format("%s", lock);
    for (size_t i = 0; i < sizeof in_hash / sizeof *in_hash; i++) {
        if (strcmp(kind, in_hash[i].kind) == 0) {
            hash_traffic(t, run, c, &in_hash[i], lock, field, lease);
            return;
        }
    }
    for (size_t i = 0; i < sizeof fillings / sizeof *fillings; i++) {
        if (strcmp(kind, fillings[i].kind) == 0) {
            fillings[i].fill(t, run, c, lock, field, lease);
            return;
        }
    }
    fail("no traffic of kind %s", kind);
}

void ping(const char *server, struct samples *samples)
{
    enum { PINGS = 21 };
    redisContext *c = connect_to(server);
    struct request request = {0};

    request_add(&request, "PING");
    for (int i = 0; i < PINGS; i++) {
        int64_t before = now_ns();

        tell(c, &request);
        samples_add(samples, now_ns() - before);
    }
    redisFree(c);
}
