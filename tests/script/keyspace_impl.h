/* SPDX-License-Identifier: MIT */
/* keyspace_impl.h - what the parts of the keyspace share.
 *
 *   keyspace.c              keys and values, time, images, running one command
 *   keyspace_commands.c     one function and one table row a command
 *   keyspace_collections.c  the same for hashes, lists and sorted sets
 *   keyspace_lua.c          scripts
 *
 * A command's function reads its words from struct call and says its answer with answer_*. It does not know whether the
 * answer becomes a reply or a value on a script's stack. It looks keys up by find_key, which knows of time, and must
 * say drop_if_empty after it has taken something out: an empty hash, list or sorted set is no key.
 */
#ifndef TESTS_SCRIPT_KEYSPACE_IMPL_H
#define TESTS_SCRIPT_KEYSPACE_IMPL_H

#include "tests/script/keyspace.h"

#include <lua.h>

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* An owned byte string. */
struct blob {
    uint32_t len;
    uint32_t hash;
    char at[];
};

struct blob *blob_new(const char *at, size_t len);
bool blob_is(const struct blob *b, const char *at, size_t len);
int blob_order(const struct blob *a, const struct blob *b); /* as memcmp, the shorter first */

/* Hash: name is the field. List: name is the element. Sorted set: name is the member. */
struct item {
    struct blob *name;
    struct blob *value; /* hash */
    double score;       /* sorted set */
    uint32_t tag;       /* names that are alike have the same */
};

/* Hash: in order of arrival. List: in its order. Sorted set: by score, then by name. Searched from front to back by
 * their tags: locks have few fields. */
struct items {
    struct item *at;
    size_t count;
    size_t cap;
};

#define ITEM_NONE SIZE_MAX

size_t item_find(const struct items *items, const char *name, size_t len);
struct item *item_insert(struct items *items, size_t at, const char *name, size_t len);
void item_remove(struct items *items, size_t at);
/* Where a member of that score belongs in a sorted set. */
size_t item_rank(const struct items *items, double score, const char *name, size_t len);

enum key_type {
    KEY_STRING,
    KEY_HASH,
    KEY_LIST,
    KEY_ZSET,
};

#define NO_EXPIRY INT64_C(-1)

struct key {
    struct key *next; /* in its slot */
    struct blob *name;
    enum key_type type;
    int64_t expire_ms;   /* absolute, or NO_EXPIRY */
    struct blob *string; /* KEY_STRING */
    struct items items;  /* the others */
};

/* ---- the keyspace ----------------------------------------------------------------------------------------------- */

struct script {
    struct script *next;
    char sha[KS_SHA_SIZE];
    int function; /* in Lua's registry */
};

struct keyspace {
    int64_t now_us;
    struct key **slots;
    size_t slot_count; /* a power of two */
    size_t key_count;
    ks_publish_fn publish;
    void *publish_arg;
    lua_State *lua;
    struct script *scripts;
    const char **words; /* of the command that a script calls */
    size_t *word_len;
    size_t word_cap;
    size_t refuse_nth;          /* of a run's calls; 0: none */
    const char *refuse_command; /* NULL: none */
    char (*called)[24];         /* commands of the last run, */
    size_t called_count, called_cap;
    const struct command **commands; /* by hash of the name; see command_find */
    char error[512];                 /* text of the last command that failed */
};

int64_t now_ms_of(const struct keyspace *ks);

/* NULL when there is none or its time is over. */
struct key *find_key(struct keyspace *ks, const char *name, size_t len);
/* The name must be free. The value is empty. */
struct key *add_key(struct keyspace *ks, const char *name, size_t len, enum key_type type);
void remove_key(struct keyspace *ks, struct key *key);
void remove_all_keys(struct keyspace *ks);
void drop_if_empty(struct keyspace *ks, struct key *key);
void set_string(struct key *key, const char *at, size_t len);

/* ---- one command ------------------------------------------------------------------------------------------------ */

struct call {
    struct keyspace *ks;
    size_t argc;
    const char *const *argv;
    const size_t *len;
    struct reply *reply; /* where answers go, unless a script asks */
    lua_State *lua;      /* the script that asks, or NULL */
    size_t array_left;   /* elements of an array that are still to be said, */
    size_t array_said;   /* and those said */
    bool failed;         /* the text is in ks->error */
};

void answer_integer(struct call *c, int64_t n);
void answer_nil(struct call *c);
void answer_bytes(struct call *c, const char *at, size_t len);
void answer_blob(struct call *c, const struct blob *b); /* NULL: nil */
void answer_double(struct call *c, double d);
void answer_status(struct call *c, const char *text);
/* `count` answers follow and are its elements. Arrays do not nest. */
void answer_array(struct call *c, size_t count);
void answer_error(struct call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

void reply_set_text(struct reply *r, enum reply_kind kind, const char *at, size_t len);

/* Run c->argv. */
void run_command(struct call *c);

/* ---- commands --------------------------------------------------------------------------------------------------- */

struct command {
    const char *name; /* lower case */
    int arity;        /* words with the name; negative: at least */
    bool no_script;   /* refused inside scripts */
    void (*run)(struct call *c);
};

extern const struct command collection_commands[];
extern const size_t collection_command_count;

void commands_open(struct keyspace *ks);
const struct command *command_find(const struct keyspace *ks, const char *name, size_t len);
bool word_is(const struct call *c, size_t i, const char *lower); /* whatever its case */
/* A whole decimal number as Redis reads it: no blanks, no plus, no leading zeros. */
bool parse_integer(const char *at, size_t len, int64_t *ret);
/* Word i as such a number; says the error otherwise. */
bool word_integer(struct call *c, size_t i, int64_t *ret);
/* A key that word i names and that is of this type. False: it is of another, and the error has been said. No key: NULL.
 */
bool word_key(struct call *c, size_t i, enum key_type type, struct key **ret);
void answer_arity(struct call *c, const char *command);
/* Make a value the text of that number. */
void set_integer(struct blob **at, int64_t n);
#define SYNTAX_ERROR "ERR syntax error"

/* ---- scripts ---------------------------------------------------------------------------------------------------- */

void lua_open_keyspace(struct keyspace *ks);
void lua_close_keyspace(struct keyspace *ks);
/* Find or compile; NULL: does not compile, and the error has been said. */
const struct script *script_load(struct call *c, const char *body, size_t len);
const struct script *script_find(const struct keyspace *ks, const char *sha, size_t len);
void scripts_flush(struct keyspace *ks);
/* Words: EVAL(SHA) script numkeys key ... arg ... */
void script_run(struct call *c, const struct script *script);

#endif
