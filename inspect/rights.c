/* SPDX-License-Identifier: MIT */
/* rights.c - what the user may do, against what docs/acl.md says that each feature needs.
 *
 * Each command is tried, because a program's user may neither ask ACL DRYRUN nor see himself by ACL GETUSER, and
 * because a proxy refuses where no ACL does. It is tried in a way that writes nothing: on a key that nobody has, or
 * with arguments that the command itself refuses, which it does after the server has looked at the rights. The four
 * that would write are the last, and go together with a DEL of their key, in one piece. Redis looks at the command's
 * right before it looks at the key's, so that a key which is out of bounds proves that the command is allowed.
 *
 * A new command is a line in `trials`, a new feature one in `features`; tests/cli/doctor_health compares them with
 * the document.
 */
#include "core/base/entropy.h"
#include "core/base/err.h"
#include "inspect/visit.h"

#include <string.h>

#define WORDS_MAX 6

/* In place of KEY stands a key that nobody has, of CHANNEL a channel. */
static const char key_word[] = "KEY", channel_word[] = "CHANNEL";

static const struct trial {
    const char *right; /* as ACL SETUSER has it */
    const char *words[WORDS_MAX];
    bool writes; /* a DEL follows */
} trials[] = {
    {"client|info", {"CLIENT", "INFO"}, false},
    {"client|kill", {"CLIENT", "KILL", "ID", "9223372036854775807"}, false}, /* which no connection ever has */
    {"client|setname", {"CLIENT", "SETNAME", "redlatch-doctor"}, false},
    {"ping", {"PING"}, false},
    {"script|load", {"SCRIPT", "LOAD", "return 1"}, false},
    {"evalsha", {"EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"}, false},
    {"eval", {"EVAL", "return 1", "0"}, false},
    {"time", {"TIME"}, false},
    {"wait", {"WAIT", "0", "1"}, false},
    {"role", {"ROLE"}, false},
    {"cluster|info", {"CLUSTER", "INFO"}, false},
    {"cluster|slots", {"CLUSTER", "SLOTS"}, false},
    {"pubsub|shardnumsub", {"PUBSUB", "SHARDNUMSUB"}, false},
    {"asking", {"ASKING"}, false},
    {"publish", {"PUBLISH", channel_word, ""}, false},
    {"del", {"DEL", key_word}, false},
    {"decrby", {"DECRBY", key_word, "x"}, false},
    {"exists", {"EXISTS", key_word}, false},
    {"get", {"GET", key_word}, false},
    {"hdel", {"HDEL", key_word, "f"}, false},
    {"hexists", {"HEXISTS", key_word, "f"}, false},
    {"hget", {"HGET", key_word, "f"}, false},
    {"hgetall", {"HGETALL", key_word}, false},
    {"hkeys", {"HKEYS", key_word}, false},
    {"hmget", {"HMGET", key_word, "f"}, false},
    {"hset", {"HSET", key_word, "f", "v", "odd"}, false},
    {"incrby", {"INCRBY", key_word, "x"}, false},
    {"lindex", {"LINDEX", key_word, "0"}, false},
    {"lrem", {"LREM", key_word, "0", "v"}, false},
    {"persist", {"PERSIST", key_word}, false},
    {"pexpire", {"PEXPIRE", key_word, "1"}, false},
    {"pttl", {"PTTL", key_word}, false},
    {"set", {"SET", key_word, "v", "NOSUCH"}, false},
    {"zadd", {"ZADD", key_word, "x", "m"}, false},
    {"zcard", {"ZCARD", key_word}, false},
    {"zrange", {"ZRANGE", key_word, "0", "0"}, false},
    {"zrem", {"ZREM", key_word, "m"}, false},
    {"zremrangebyscore", {"ZREMRANGEBYSCORE", key_word, "0", "0"}, false},
    {"zscore", {"ZSCORE", key_word, "m"}, false},
    {"decr", {"DECR", key_word}, true},
    {"incr", {"INCR", key_word}, true},
    {"lpush", {"LPUSH", key_word, "v"}, true},
    {"rpush", {"RPUSH", key_word, "v"}, true},
};

#define TRIALS (sizeof trials / sizeof *trials)

enum where { ANYWHERE, IN_CLUSTER, BEHIND_SENTINEL, OF_TYPES };

static const char unusable[] = "This user cannot use it; programs that do not want it miss nothing.";

#define LOCK_CHANNEL "~redisson_lock__channel:{N} &redisson_lock__channel:{N}"
#define RW_CHANNEL "~redisson_rwlock:{N} &redisson_rwlock:{N} ~{N}:*:rwlock_timeout:*"
#define SC_CHANNEL "~redisson_sc:{N} &redisson_sc:{N} ~redlatch_guard:{N}:*"
#define HASH "hget hset hdel hexists hkeys exists del pttl pexpire publish"
#define COUNT "get set del incrby decrby publish"

/* The sections of docs/acl.md. */
static const struct feature {
    const char *name, *rights;
    const char *patterns; /* N stands for the lock's name, {N} for that in braces */
    enum where where;
    rdl_severity_t without;
    const char *why;
} features[] = {
    {"every program", "evalsha eval time", "", ANYWHERE, RDL_SEVERITY_CRITICAL, "No lock works without that."},
    {"every program", "ping client|setname client|info client|kill script|load", "", ANYWHERE, RDL_SEVERITY_NOTE,
     "Locks work; what a request in doubt has done takes longer to undo, and a script's first use a round trip more."},
    {"a cluster", "cluster|slots", "", IN_CLUSTER, RDL_SEVERITY_CRITICAL, "Nobody knows where a lock is."},
    {"a cluster", "role cluster|info pubsub|shardnumsub asking", "", IN_CLUSTER, RDL_SEVERITY_WARNING,
     "A server that was cut off may be believed for longer, and slots that move are waited for. Who may not ask PUBSUB "
     "SHARDNUMSUB uses other channels than those who may, and does not wake them."},
    {"Sentinel", "role", "", BEHIND_SENTINEL, RDL_SEVERITY_NOTE,
     "A replica is found out by its first refusal to write."},
    {"reentrant, non-reentrant and spin lock", HASH " hmget", "~N " LOCK_CHANNEL, OF_TYPES, RDL_SEVERITY_NOTE,
     unusable},
    {"the option replicas", "wait", "", ANYWHERE, RDL_SEVERITY_NOTE, unusable},
    {"the option cache_ms", "", "&redlatch_recall:{N}:*", OF_TYPES, RDL_SEVERITY_NOTE,
     "Locks with that option are taken at the server each time, as without it."},
    {"fenced lock", HASH " hmget incr get set", "~N ~redisson_lock_token:{N} " LOCK_CHANNEL, OF_TYPES,
     RDL_SEVERITY_NOTE, unusable},
    {"simple lock", "set get del exists pttl pexpire publish",
     "~N ~redlatch_simple_channel:{N} &redlatch_simple_channel:{N}", OF_TYPES, RDL_SEVERITY_NOTE, unusable},
    {"fair lock", HASH " hgetall persist lindex lpush rpush lrem zadd zrem zscore",
     "~N ~redisson_lock__channel:{N} &redisson_lock__channel:{N}:* ~redisson_lock_queue:{N} "
     "~redisson_lock_timeout:{N} ~redlatch_lock_waiters:{N}",
     OF_TYPES, RDL_SEVERITY_NOTE, unusable},
    {"read-write lock", HASH " hgetall set", "~N " RW_CHANNEL, OF_TYPES, RDL_SEVERITY_NOTE, unusable},
    {"read-write lock that prefers writers", HASH " hgetall set zadd zrem zrange zremrangebyscore",
     "~N ~redlatch_rwlock_writers:{N} " RW_CHANNEL, OF_TYPES, RDL_SEVERITY_NOTE, unusable},
    {"semaphore", COUNT, "~N " SC_CHANNEL, OF_TYPES, RDL_SEVERITY_NOTE, unusable},
    {"fair semaphore", COUNT " zadd zrem zcard zrange hset hget hdel pexpire",
     "~N ~redlatch_semaphore_queue:{N} ~redlatch_semaphore_signs:{N} " SC_CHANNEL, OF_TYPES, RDL_SEVERITY_NOTE,
     unusable},
    {"permit semaphore", COUNT " pttl pexpire zadd zrem zcard zrange zscore zremrangebyscore",
     "~N ~{N}:timeout " SC_CHANNEL, OF_TYPES, RDL_SEVERITY_NOTE, unusable},
    {"latch", "get set del decr publish",
     "~N ~redlatch_guard:{N}:* ~redisson_countdownlatch__channel__{N} &redisson_countdownlatch__channel__{N}", OF_TYPES,
     RDL_SEVERITY_NOTE, unusable},
};

#define FEATURES (sizeof features / sizeof *features)

enum outcome { ALLOWED, REFUSED, REFUSED_PLACE, UNKNOWN };

static enum outcome outcome_of(const struct rdl__reply *reply)
{
    if (rdl__reply_is_error(reply, "NOPERM"))
        return strstr(reply->str, "permissions to access") != NULL ? REFUSED_PLACE : REFUSED;
    if (reply->type == RDL__REPLY_ERROR && strcasestr(reply->str, "unknown") != NULL &&
        strcasestr(reply->str, "command") != NULL)
        return UNKNOWN;
    return ALLOWED;
}

/* What all trials have shown of one server. */
struct rights {
    struct rdl__visit *v;
    char key[64], channel[128];
    enum outcome of[TRIALS];
    bool bounded; /* keys of its own are out of its bounds */
};

static bool wanted(const struct rights *r, size_t trial);

/* ---- trying ----------------------------------------------------------------------------------------------------- */

static void put(const struct rights *r, const struct trial *trial)
{
    struct rdl__buf *b = &r->v->probe->out;
    size_t n = 0;

    while (n < WORDS_MAX && trial->words[n] != NULL)
        n++;
    rdl__cmd_begin(b, n);
    for (size_t i = 0; i < n; i++)
        rdl__cmd_str(b, trial->words[i] == key_word       ? r->key
                        : trial->words[i] == channel_word ? r->channel
                                                          : trial->words[i]);
}

static enum outcome try(const struct rights *r, const struct trial *trial)
{
    struct rdl__probe *probe = r->v->probe;
    enum outcome outcome;

    put(r, trial);
    if (trial->writes) {
        rdl__cmd_begin(&probe->out, 2);
        rdl__cmd_str(&probe->out, "DEL");
        rdl__cmd_str(&probe->out, r->key);
    }
    rdl__probe_flush(probe);
    outcome = outcome_of(rdl__probe_next(probe));
    if (trial->writes)
        (void)rdl__probe_next(probe);
    return outcome;
}

static size_t trial_of(const char *right, size_t len)
{
    size_t i = 0;

    while (strlen(trials[i].right) != len || memcmp(trials[i].right, right, len) != 0)
        i++;
    return i;
}

/* Those that write are tried where what they write is deleted, or the key is out of the user's bounds. */
static void try_all(struct rights *r)
{
    bool harmless = false;

    for (size_t i = 0; i < TRIALS && !r->v->probe->broken; i++) {
        if ((trials[i].writes && !harmless) || !wanted(r, i))
            continue;
        r->of[i] = try(r, &trials[i]);
        r->bounded |= r->of[i] == REFUSED_PLACE;
        harmless |= r->bounded || (r->of[i] == ALLOWED && strcmp(trials[i].right, "del") == 0);
    }
}

/* ---- telling ---------------------------------------------------------------------------------------------------- */

static bool applies(const struct rights *r, const struct feature *feature)
{
    enum rdl__scheme scheme = r->v->doctor->reach.uri.scheme;

    return feature->where == IN_CLUSTER        ? rdl__visit_cluster(r->v)
           : feature->where == BEHIND_SENTINEL ? scheme == RDL__SCHEME_SENTINEL
                                               : true;
}

/* Does any feature that applies need it? */
static bool wanted(const struct rights *r, size_t trial)
{
    for (size_t i = 0; i < FEATURES; i++)
        for (const char *p = features[i].rights; *p != '\0' && applies(r, &features[i]);) {
            size_t len = strcspn(p, " ");

            if (trial_of(p, len) == trial)
                return true;
            p += len + (p[len] == ' ');
        }
    return false;
}

/* The rights of a feature with that outcome, " +get +set". */
static void list(const struct rights *r, const struct feature *feature, enum outcome outcome, char *to, size_t cap)
{
    size_t at = 0;

    to[0] = '\0';
    for (const char *p = feature->rights; *p != '\0';) {
        size_t len = strcspn(p, " ");

        if (r->of[trial_of(p, len)] == outcome && at + len + 3 < cap)
            at += rdl__line(to + at, cap - at, " +%.*s", (int)len, p);
        p += len + (p[len] == ' ');
    }
}

/* A pattern of the table for the name that is to be tried. */
static void place_of(const char *pattern, size_t len, const char *name, char *to, size_t cap)
{
    bool braced = strchr(name, '{') != NULL; /* wire.md: names with braces stand as they are */
    size_t at = 0;

    for (size_t i = 0; i < len && at + strlen(name) + 4 < cap; i++) {
        bool hole = strncmp(pattern + i, "{N}", 3) == 0;

        if (hole || (pattern[i] == 'N' && i == 0 && len == 1)) {
            at += rdl__line(to + at, cap - at, hole && !braced ? "{%s}" : "%s", name);
            i += hole ? 2 : 0;
        } else {
            to[at++] = pattern[i];
        }
    }
    to[at] = '\0';
}

/* May the user not use that key, or channel? By the first of some harmless commands that he may use. */
static bool is_out_of_bounds(struct rdl__probe *probe, char kind, const char *place)
{
    static const char *const reads[] = {"EXISTS", "GET", "PTTL", "HKEYS"};
    enum outcome outcome = REFUSED;

    if (kind == '&')
        return outcome_of(rdl__probe_ask(probe, "PUBLISH", place, "", NULL)) == REFUSED_PLACE;
    for (size_t i = 0; i < sizeof reads / sizeof *reads && outcome == REFUSED; i++)
        outcome = outcome_of(rdl__probe_ask(probe, reads[i], place, NULL));
    return outcome == REFUSED_PLACE;
}

/* Those of a feature's keys and channels that the user may not use, " ~a &b". */
static void list_places(const struct rights *r, const struct feature *feature, char *to, size_t cap)
{
    size_t out = 0;
    char place[256];

    to[0] = '\0';
    for (const char *p = feature->patterns; *p != '\0' && r->v->doctor->name != NULL;) {
        size_t len = strcspn(p, " ");

        place_of(p + 1, len - 1, r->v->doctor->name, place, sizeof place);
        if (is_out_of_bounds(r->v->probe, p[0], place) && out + strlen(place) + 4 < cap)
            out += rdl__line(to + out, cap - out, " %c%s", p[0], place);
        p += len + (p[len] == ' ');
    }
}

/* Tell what a feature lacks. True: nothing. */
static bool check_feature(const struct rights *r, const struct feature *feature)
{
    char refused[512], unknown[512], places[1024], change[2048] = "";
    bool swallowed;

    list(r, feature, REFUSED, refused, sizeof refused);
    list(r, feature, UNKNOWN, unknown, sizeof unknown);
    swallowed = unknown[0] != '\0' && strcmp(unknown, " +pubsub|shardnumsub") != 0; /* which Redis 6.2 does not have */
    list_places(r, feature, places, sizeof places);
    if (refused[0] != '\0' || places[0] != '\0')
        (void)rdl__line(change, sizeof change, "ACL SETUSER %s%s%s", r->v->user, refused, places);
    if (change[0] != '\0')
        rdl__tell(r->v, feature->without, "rights", feature->why, change, "the user %s lacks rights for %s:%s%s",
                  r->v->user, feature->name, refused, places);
    if (swallowed)
        rdl__tell(r->v, feature->without, "commands", feature->why, "",
                  "the server does not know, or a proxy swallows, what is for %s:%s", feature->name, unknown);
    return change[0] == '\0' && !swallowed;
}

static void check_all(const struct rights *r)
{
    unsigned types = 0, usable = 0, lacking = 0;

    for (size_t i = 0; i < FEATURES; i++) {
        bool whole = !applies(r, &features[i]) || check_feature(r, &features[i]);

        lacking += !whole;
        types += features[i].where == OF_TYPES;
        usable += features[i].where == OF_TYPES && whole;
    }
    if (usable == 0)
        rdl__tell(r->v, RDL_SEVERITY_CRITICAL, "rights", "No lock works for this user.", "",
                  "the user %s can use none of the %u types", r->v->user, types);
    else if (lacking == 0)
        rdl__tell(r->v, RDL_SEVERITY_OK, "rights", "", "", "the user %s has all rights%s", r->v->user,
                  r->bounded && r->v->doctor->name == NULL ? ", for some keys: --name tries those of a lock" : "");
}

void rdl__doctor_check_rights(struct rdl__visit *v)
{
    struct rights r = {.v = v};
    uint64_t random = 0;

    (void)rdl__entropy(&random, sizeof random);
    (void)rdl__line(r.key, sizeof r.key, "redlatch-doctor:%016llx", (unsigned long long)random);
    (void)rdl__line(r.channel, sizeof r.channel, "redisson_lock__channel:{%s}", r.key);
    try_all(&r);
    if (!v->probe->broken)
        check_all(&r);
}
