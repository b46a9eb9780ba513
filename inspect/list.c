/* SPDX-License-Identifier: MIT */
/* list.c - the locks that there are: every master's keys by SCAN, and a look at those that may be locks.
 *
 * The keys of a master are gone through twice, its hashes and its strings, which are all that a lock's own name can
 * be. Of what a step of SCAN brings, a hash is asked for one of its fields and a string for its first bytes; what looks
 * like a holder, or is a number, is looked at as a whole (look.c). So no command has much to do, and a server that has
 * other work waits for none of them. Keys beside locks are known by their names, and passed over; a guard tells of its
 * semaphore or latch.
 *
 * What SCAN brings twice is listed once: the names listed are remembered by their hashes. When another server has
 * taken over during the walk, its cursor means nothing any more, and that walk begins again.
 */
#include "core/base/err.h"
#include "core/base/glob.h"
#include "core/service/life.h"
#include "core/service/refusals.h"
#include "core/service/routing.h"
#include "inspect/ask.h"
#include "inspect/look.h"
#include "inspect/masters.h"
#include "inspect/who.h"

#include <redlatch/redlatch.h>

#include <string.h>

#define STEP 100     /* keys that one SCAN goes through, about */
#define STEPS_MOST 8 /* of them before what they have brought is asked about, */
#define ENOUGH 100   /* or when there are so many */
#define LOOKS 50     /* looks at once */
#define LISTED 16    /* holders and waiters of each */
#define RESTARTS 5

/* ---- a growing set of numbers ----------------------------------------------------------------------------------- */

struct set {
    uint64_t *slots; /* 0: free */
    size_t cap, count;
};

static void set_done(struct set *set, const struct rdl__mem *mem)
{
    rdl__free(mem, set->slots, set->cap * sizeof *set->slots);
}

static uint64_t *set_place(const struct set *set, uint64_t number)
{
    size_t i = (size_t)number & (set->cap - 1);

    while (set->slots[i] != 0 && set->slots[i] != number)
        i = (i + 1) & (set->cap - 1);
    return &set->slots[i];
}

static bool set_grow(struct set *set, const struct rdl__mem *mem)
{
    struct set more = {.cap = set->cap == 0 ? 1024 : 2 * set->cap, .count = set->count};

    if ((more.slots = rdl__zalloc(mem, more.cap * sizeof *more.slots)) == NULL)
        return false;
    for (size_t i = 0; i < set->cap; i++)
        if (set->slots[i] != 0)
            *set_place(&more, set->slots[i]) = set->slots[i];
    set_done(set, mem);
    *set = more;
    return true;
}

static bool set_has(const struct set *set, uint64_t number)
{
    return set->cap != 0 && *set_place(set, number | 1) != 0;
}

/* False: no memory. */
static bool set_add(struct set *set, const struct rdl__mem *mem, uint64_t number)
{
    if (2 * set->count >= set->cap && !set_grow(set, mem))
        return false;
    *set_place(set, number | 1) = number | 1;
    set->count++;
    return true;
}

/* ---- the walk --------------------------------------------------------------------------------------------------- */

struct key {
    size_t at, len; /* in walk->names */
    bool guarded;   /* its guard was found: it is a semaphore or a latch */
    bool maybe;
};

struct walk {
    rdl_client_t *client;
    const char *pattern;
    size_t pattern_len;
    rdl_list_fn fn;
    void *arg;
    rdl_list_progress_t progress;
    struct rdl__who who;
    struct set listed;
    bool again; /* names that the caller knows: each is told, whatever it is by now */
    bool stopped;

    struct rdl__shard *shard;
    const char *type;
    char cursor[24];
    struct rdl__buf names;
    struct rdl__buf keys; /* struct key, those of this step */
    size_t key_count;
    int rc;
    char words[240];

    size_t first; /* of the keys that are being asked for */
    struct rdl__look look[LOOKS];
    bool guarded[LOOKS];
};

static struct key *key_at(const struct walk *w, size_t i)
{
    return (struct key *)(void *)w->keys.data + i;
}

/* An error, or an answer to something else. */
static void refused(struct walk *w, const struct rdl__reply *reply)
{
    w->rc = RDL_ESERVER;
    (void)rdl__line(w->words, sizeof w->words, "%s",
                    reply->type == RDL__REPLY_ERROR ? reply->str : "an answer that is none");
}

/* Is it an error of the server's, whatever the key? */
static bool is_servers(const struct rdl__reply *reply)
{
    static const char *const errors[] = {"ERR unknown command", "BUSY", "LOADING", "MASTERDOWN", "CLUSTERDOWN"};

    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (rdl__reply_is_error(reply, errors[i]))
            return true;
    return false;
}

static int ask(struct walk *w, unsigned commands, void (*put)(void *, unsigned, struct rdl__buf *, bool),
               void (*take)(void *, unsigned, const struct rdl__reply *), rdl_err_t *err)
{
    char server[sizeof err->server];
    int rc;

    w->rc = RDL_OK;
    rc = rdl__ask_shard(w->client, w->shard, &(struct rdl__ask){commands, put, take, w}, err);
    if (rc == RDL_OK && w->rc == RDL_ESERVER) {
        rdl__node_server(&w->shard->node, server, sizeof server);
        return rdl__ask_refused(server, w->words, err);
    }
    return rc == RDL_OK && w->rc < 0 ? rdl__err_set(err, w->rc, NULL) : rc;
}

/* ---- which keys ------------------------------------------------------------------------------------------------- */

static bool begins(const char *bytes, size_t len, const char *with)
{
    return len > strlen(with) && memcmp(bytes, with, strlen(with)) == 0;
}

/* Of a guard, prefix(redlatch_guard, N):U:n, the N. */
static bool guarded_name(const char **name, size_t *len)
{
    static const char prefix[] = "redlatch_guard:";
    const char *at = *name + sizeof prefix - 1, *end = *name + *len;

    if (!begins(*name, *len, prefix))
        return false;
    while (end > at && end[-1] >= '0' && end[-1] <= '9')
        end--;
    if (end - at < RDL__UUID_LEN + 3)
        return false;
    end -= RDL__UUID_LEN + 2;
    if (*at == '{' && end[-1] == '}' && memchr(at + 1, '{', (size_t)(end - at - 1)) == NULL) {
        at++;
        end--;
    }
    *name = at;
    *len = (size_t)(end - at);
    return true;
}

/* Does the key stand beside a lock, or tell of a client? */
static bool is_beside(const char *name, size_t len)
{
    static const char *const prefixes[] = {"redisson_lock__channel:", "redisson_lock_token:", "redlatch_lock_waiters:",
                                           "redlatch_semaphore_signs:", "redlatch_client:{"};

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (begins(name, len, prefixes[i]))
            return true;
    return memmem(name, len, ":rwlock_timeout:", 16) != NULL;
}

static void keep_key(struct walk *w, const struct rdl__reply *found)
{
    const char *name = found->str;
    struct key key = {.len = found->len, .at = w->names.len};

    key.guarded = key.maybe = guarded_name(&name, &key.len);
    if (key.len == 0 || key.len > RDL_NAME_MAX || (!key.guarded && is_beside(name, key.len)) ||
        !rdl__glob(w->pattern, w->pattern_len, name, key.len) || set_has(&w->listed, rdl__hash(name, key.len)))
        return;
    rdl__buf_put(&w->names, name, key.len);
    rdl__buf_put(&w->keys, &key, sizeof key);
    w->key_count++;
    if (rdl__buf_failed(&w->names) || rdl__buf_failed(&w->keys))
        w->rc = RDL_ENOMEM;
}

static void put_scan(void *arg, unsigned i, struct rdl__buf *to, bool eval)
{
    const struct walk *w = arg;

    (void)i;
    (void)eval;
    rdl__cmd_begin(to, 6);
    rdl__cmd_str(to, "SCAN");
    rdl__cmd_str(to, w->cursor);
    rdl__cmd_str(to, "COUNT");
    rdl__cmd_int(to, STEP);
    rdl__cmd_str(to, "TYPE");
    rdl__cmd_str(to, w->type);
}

static void take_scan(void *arg, unsigned i, const struct rdl__reply *reply)
{
    struct walk *w = arg;
    const struct rdl__reply *cursor = rdl__reply_at(reply, 0), *found = rdl__reply_at(reply, 1);

    (void)i;
    if (cursor == NULL || cursor->type != RDL__REPLY_STRING || found == NULL || found->type != RDL__REPLY_ARRAY) {
        refused(w, reply);
        return;
    }
    (void)rdl__line(w->cursor, sizeof w->cursor, "%s", cursor->str);
    for (size_t k = 0; rdl__reply_at(found, k) != NULL && w->rc == RDL_OK; k++)
        if (found->elem[k]->type == RDL__REPLY_STRING)
            keep_key(w, found->elem[k]);
}

/* ---- which of them may be locks --------------------------------------------------------------------------------- */

static void put_probe(void *arg, unsigned i, struct rdl__buf *to, bool eval)
{
    const struct walk *w = arg;
    const struct key *key = key_at(w, w->first + i);
    bool hash = strcmp(w->type, "hash") == 0 && !key->guarded;

    (void)eval;
    rdl__cmd_begin(to, hash ? 3 : 4);
    rdl__cmd_str(to, hash ? "HRANDFIELD" : "GETRANGE");
    rdl__cmd_arg(to, w->names.data + key->at, key->len);
    rdl__cmd_int(to, hash ? 1 : 0);
    if (!hash)
        rdl__cmd_int(to, 63);
}

/* A key that is gone meanwhile, in another server, or not for this user to read, is none. */
static void take_probe(void *arg, unsigned i, const struct rdl__reply *reply)
{
    struct walk *w = arg;
    bool hash = strcmp(w->type, "hash") == 0;
    const struct rdl__reply *text = hash ? rdl__reply_at(reply, 0) : reply;
    int64_t number;

    if (is_servers(reply) || (rdl__reply_is_error(reply, "NOPERM") && strstr(reply->str, " command") != NULL))
        refused(w, reply);
    key_at(w, w->first + i)->maybe = text != NULL && text->type == RDL__REPLY_STRING &&
                                     (rdl__is_owner(text->str, text->len) || (hash && strcmp(text->str, "mode") == 0) ||
                                      (!hash && rdl__reply_integer(text, &number)));
}

static int probe(struct walk *w, rdl_err_t *err)
{
    int rc = RDL_OK;

    for (w->first = 0; w->first < w->key_count && rc == RDL_OK; w->first += RDL__ASK_MOST) {
        size_t left = w->key_count - w->first;

        rc = ask(w, left < RDL__ASK_MOST ? (unsigned)left : RDL__ASK_MOST, put_probe, take_probe, err);
    }
    return rc;
}

/* ---- looking at those ------------------------------------------------------------------------------------------- */

static void put_look(void *arg, unsigned i, struct rdl__buf *to, bool eval)
{
    rdl__look_put(&((const struct walk *)arg)->look[i], to, eval);
}

static void take_look(void *arg, unsigned i, const struct rdl__reply *reply)
{
    struct walk *w = arg;

    rdl__look_take(&w->look[i], reply);
    if (is_servers(reply) || (reply->type == RDL__REPLY_ERROR && rdl__refusal_of_rights(reply->str)))
        refused(w, reply);
}

/* A number that nothing says to be a semaphore or a latch is some program's counter. */
static bool is_listed(const struct walk *w, unsigned i)
{
    const rdl_inspection_t *made = w->look[i].made;

    return made != NULL &&
           (w->again || (strcmp(made->type, "none") != 0 && (w->guarded[i] || strcmp(made->type, "counter") != 0)));
}

static int tell(struct walk *w, unsigned n, rdl_err_t *err)
{
    for (unsigned i = 0; i < n; i++)
        if (is_listed(w, i))
            rdl__who_want(&w->who, w->look[i].made);
    rdl__who_ask(&w->who);
    for (unsigned i = 0; i < n && !w->stopped; i++) {
        uint64_t hash = rdl__hash(w->look[i].name, w->look[i].len);

        if (!is_listed(w, i) || (!w->again && set_has(&w->listed, hash)))
            continue;
        if (!w->again && !set_add(&w->listed, &w->client->mem, hash))
            return rdl__err_set(err, RDL_ENOMEM, NULL);
        rdl__who_tell(&w->who, w->look[i].made);
        w->progress.locks++;
        w->stopped = w->fn(w->look[i].made, &w->progress, w->arg) != 0;
    }
    return RDL_OK;
}

static int look_at(struct walk *w, unsigned n, rdl_err_t *err)
{
    int rc = ask(w, n, put_look, take_look, err);

    if (rc == RDL_OK)
        rc = tell(w, n, err);
    for (unsigned i = 0; i < n; i++)
        w->look[i].made = rdl_inspection_free(w->look[i].made);
    return rc;
}

static struct rdl__look look_of(const struct walk *w, const char *name, size_t len)
{
    return (struct rdl__look){.client = w->client,
                              .name = name,
                              .len = len,
                              .beside = RDL__BESIDE_ALL,
                              .heard = RDL__HEARD_ALL,
                              .most = LISTED};
}

static int look(struct walk *w, rdl_err_t *err)
{
    unsigned n = 0;
    int rc = RDL_OK;

    for (size_t i = 0; i < w->key_count && rc == RDL_OK && !w->stopped; i++) {
        const struct key *key = key_at(w, i);

        if (!key->maybe || set_has(&w->listed, rdl__hash(w->names.data + key->at, key->len)))
            continue;
        w->guarded[n] = key->guarded;
        w->look[n++] = look_of(w, w->names.data + key->at, key->len);
        if (n == LOOKS) {
            rc = look_at(w, n, err);
            n = 0;
        }
    }
    return rc == RDL_OK && n > 0 && !w->stopped ? look_at(w, n, err) : rc;
}

/* ---- all servers ------------------------------------------------------------------------------------------------ */

/* SCAN until there is something to ask about, or a while. */
static int scan(struct walk *w, rdl_err_t *err)
{
    int rc = RDL_OK;

    rdl__buf_cut(&w->names, 0);
    rdl__buf_cut(&w->keys, 0);
    w->key_count = 0;
    for (unsigned i = 0; i < STEPS_MOST && w->key_count < ENOUGH && rc == RDL_OK; i++) {
        rc = ask(w, 1, put_scan, take_scan, err);
        w->progress.keys += STEP / 2; /* they are gone through twice */
        if (strcmp(w->cursor, "0") == 0)
            break;
    }
    if (w->progress.keys > w->progress.keys_total)
        w->progress.keys = w->progress.keys_total;
    return rc;
}

static int step(struct walk *w, rdl_err_t *err)
{
    int rc = scan(w, err);

    if (rc == RDL_OK)
        rc = probe(w, err);
    if (rc == RDL_OK)
        rc = look(w, err);
    if (rc == RDL_OK && !w->stopped)
        w->stopped = w->fn(NULL, &w->progress, w->arg) != 0;
    return rc;
}

/* The hashes of a master, or its strings. */
static int walk_type(struct walk *w, const char *type, rdl_err_t *err)
{
    unsigned restarts = 0;
    int rc;

    w->type = type;
    memcpy(w->cursor, "0", 2);
    do {
        uint64_t run = atomic_load(&w->shard->node.run);

        if ((rc = step(w, err)) < 0 || w->stopped)
            return rc;
        if (atomic_load(&w->shard->node.run) != run) { /* the cursor was another server's */
            if (++restarts > RESTARTS)
                return rdl__err_set(err, RDL_ECONN, "the servers change places too fast to be gone through");
            memcpy(w->cursor, "0", 2);
        }
    } while (strcmp(w->cursor, "0") != 0);
    return RDL_OK;
}

static void put_size(void *arg, unsigned i, struct rdl__buf *to, bool eval)
{
    (void)arg;
    (void)i;
    (void)eval;
    rdl__cmd_begin(to, 1);
    rdl__cmd_str(to, "DBSIZE");
}

static void take_size(void *arg, unsigned i, const struct rdl__reply *reply)
{
    struct walk *w = arg;
    int64_t size;

    (void)i;
    if (rdl__reply_integer(reply, &size))
        w->progress.keys_total += size;
    else
        refused(w, reply);
}

static int walk_all(struct walk *w, struct rdl__shard **masters, rdl_err_t *err)
{
    unsigned count;
    int rc;

    w->shard = &w->client->home;
    if ((rc = ask(w, 1, put_size, take_size, err)) < 0)
        return rc;
    w->progress.keys_total = 0;
    count = rdl__masters(w->client, masters);
    for (unsigned i = 0; i < count && rc == RDL_OK; i++) {
        w->shard = masters[i];
        rc = ask(w, 1, put_size, take_size, err);
    }
    for (unsigned i = 0; i < count && rc == RDL_OK && !w->stopped; i++) {
        w->shard = masters[i];
        rc = walk_type(w, "hash", err);
        if (rc == RDL_OK && !w->stopped)
            rc = walk_type(w, "string", err);
    }
    return rc;
}

/* ---- names that are known ---------------------------------------------------------------------------------------- */

struct names {
    const rdl_name_t *name;
    size_t count;
};

/* Those of one master. */
static int look_again(struct walk *w, const struct names *names, rdl_err_t *err)
{
    unsigned n = 0;
    int rc = RDL_OK;

    for (size_t i = 0; i < names->count && rc == RDL_OK && !w->stopped; i++) {
        const rdl_name_t *name = &names->name[i];

        if (rdl__client_shard(w->client, rdl__ask_slot_of(w->client, name->bytes, name->len)) != w->shard)
            continue;
        w->look[n++] = look_of(w, name->bytes, name->len);
        if (n == LOOKS) {
            rc = look_at(w, n, err);
            n = 0;
        }
    }
    return rc == RDL_OK && n > 0 && !w->stopped ? look_at(w, n, err) : rc;
}

static int look_at_names(struct walk *w, struct rdl__shard **masters, const struct names *names, rdl_err_t *err)
{
    unsigned count = rdl__masters(w->client, masters);
    int rc = RDL_OK;

    for (unsigned i = 0; i < count && rc == RDL_OK && !w->stopped; i++) {
        w->shard = masters[i];
        rc = look_again(w, names, err);
    }
    return rc;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

/* The walk is large, and so are its masters: not on the caller's stack. `names` NULL: all that there are. */
static int list(struct walk *w, const struct names *names, rdl_err_t *err)
{
    const struct rdl__mem *mem = &w->client->mem;
    struct rdl__shard **masters = rdl__zalloc(mem, RDL__SHARDS_MAX * sizeof *masters);
    int rc = RDL_ENOMEM;

    rdl__buf_init(&w->names, mem);
    rdl__buf_init(&w->keys, mem);
    if (masters != NULL && rdl__who_init(&w->who, w->client) == RDL_OK) {
        rc = names != NULL ? look_at_names(w, masters, names, err) : walk_all(w, masters, err);
        rdl__who_done(&w->who);
    } else {
        rc = rdl__err_set(err, rc, NULL);
    }
    rdl__buf_done(&w->keys);
    rdl__buf_done(&w->names);
    set_done(&w->listed, mem);
    rdl__free(mem, (void *)masters, RDL__SHARDS_MAX * sizeof *masters);
    return rc;
}

static int64_t begin(rdl_client_t *client, const char *pattern, const struct names *names, rdl_list_fn fn, void *arg,
                     rdl_err_t *err)
{
    struct walk *walk;
    int64_t rc;

    if (client == NULL || fn == NULL)
        return rdl__err_set(err, RDL_EINVAL, "%s is NULL", client == NULL ? "client" : "fn");
    if ((rc = rdl__client_blocking_visit_begins(client, err)) < 0)
        return rc;
    if ((walk = rdl__zalloc(&client->mem, sizeof *walk)) != NULL) {
        walk->client = client;
        walk->pattern = pattern != NULL ? pattern : "*";
        walk->pattern_len = strlen(walk->pattern);
        walk->again = names != NULL;
        walk->fn = fn;
        walk->arg = arg;
        rc = list(walk, names, err);
        rc = rc == RDL_OK ? walk->progress.locks : rc;
        rdl__free(&client->mem, walk, sizeof *walk);
    } else {
        rc = rdl__err_set(err, RDL_ENOMEM, NULL);
    }
    rdl__client_visit_ends(client);
    return rc;
}

int64_t rdl_list(rdl_client_t *client, const char *pattern, rdl_list_fn fn, void *arg, rdl_err_t *err)
{
    return begin(client, pattern, NULL, fn, arg, err);
}

int64_t rdl_list_names(rdl_client_t *client, const rdl_name_t *names, size_t count, rdl_list_fn fn, void *arg,
                       rdl_err_t *err)
{
    const struct names these = {.name = names, .count = count};

    if (names == NULL && count > 0)
        return rdl__err_set(err, RDL_EINVAL, "names is NULL");
    for (size_t i = 0; i < count; i++)
        if (names[i].bytes == NULL || names[i].len == 0 || names[i].len > RDL_NAME_MAX)
            return rdl__err_set(err, RDL_EINVAL, "name %zu has %s", i,
                                names[i].bytes != NULL && names[i].len > 0 ? "too many bytes" : "no bytes");
    return begin(client, NULL, &these, fn, arg, err);
}
