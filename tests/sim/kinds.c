/* SPDX-License-Identifier: MIT */
#include "tests/sim/kinds.h"

#include "tests/script/keyspace_impl.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <string.h>

#define UUID_LEN 36

/* Beside a hold that others stand in line for: its field, and behind it `:wanted`. */
static bool is_mark(const struct blob *field)
{
    return field->len > 7 && memcmp(field->at + field->len - 7, ":wanted", 7) == 0;
}

static size_t fields(struct keyspace *ks, const char *name, const char **ret_field, size_t *ret_len)
{
    const struct key *key = find_key(ks, name, strlen(name));
    size_t count = 0;

    if (key == NULL)
        return 0;
    if (key->type != KEY_HASH)
        die("sim: %s is no hash", name);
    for (size_t i = 0; i < key->items.count; i++) {
        const struct blob *field = key->items.at[i].name;

        if (is_mark(field))
            continue;
        count++;
        *ret_field = field->at;
        *ret_len = field->len;
    }
    if (count == 0)
        die("sim: %s has a mark and no holder", name);
    return count;
}

static size_t value(struct keyspace *ks, const char *name, const char **ret_field, size_t *ret_len)
{
    const struct key *key = find_key(ks, name, strlen(name));

    if (key == NULL)
        return 0;
    if (key->type != KEY_STRING)
        die("sim: %s is no string", name);
    *ret_field = key->string->at;
    *ret_len = key->string->len;
    return 1;
}

/* ---- the read-write lock's hash --------------------------------------------------------------------------------- */

static const struct key *rw_hash(struct keyspace *ks, const char *name)
{
    const struct key *key = find_key(ks, name, strlen(name));

    if (key != NULL && key->type != KEY_HASH)
        die("sim: %s is no hash", name);
    return key;
}

/* Has that read hold its key beside the lock? Fields of readers that died stay for as long as others read. */
static bool lives(struct keyspace *ks, const char *name, const struct blob *field)
{
    char key[160];
    bool tagged = strchr(name, '{') != NULL;
    int len = snprintf(key, sizeof key, "%s%s%s:%.*s:rwlock_timeout:1", tagged ? "" : "{", name, tagged ? "" : "}",
                       (int)field->len, field->at);

    return find_key(ks, key, (size_t)len) != NULL;
}

static bool is_writers(const struct blob *field)
{
    return field->len > 6 && memcmp(field->at + field->len - 6, ":write", 6) == 0;
}

static bool is_mode(const struct blob *field)
{
    return field->len == 4 && memcmp(field->at, "mode", 4) == 0;
}

/* Beside a writer nobody reads but itself: all fields begin with one client's id. */
static bool has_stranger(const struct key *key, const char *writer)
{
    for (size_t i = 0; i < key->items.count; i++)
        if (!is_mode(key->items.at[i].name) && memcmp(key->items.at[i].name->at, writer, UUID_LEN) != 0)
            return true;
    return false;
}

static size_t ends(struct keyspace *ks, const char *name, const char **ret_field, size_t *ret_len)
{
    const struct key *key = rw_hash(ks, name);
    size_t mode = key == NULL ? 0 : item_find(&key->items, "mode", 4), count = 0;
    bool writes;

    if (key == NULL)
        return 0;
    if (mode == ITEM_NONE)
        die("sim: %s has no mode", name);
    writes = key->items.at[mode].value->len == 5; /* "write" */
    for (size_t i = 0; i < key->items.count; i++) {
        const struct blob *field = key->items.at[i].name;

        if (i == mode || (writes ? !is_writers(field) : count > 0 || !lives(ks, name, field)))
            continue;
        count++;
        *ret_field = field->at;
        *ret_len = field->len;
    }
    if (writes && count == 0)
        die("sim: %s is written, and by nobody", name);
    return count + (writes && has_stranger(key, *ret_field));
}

static bool is_read_or_free(struct keyspace *ks, const char *name)
{
    const struct key *key = rw_hash(ks, name);
    size_t mode = key == NULL ? ITEM_NONE : item_find(&key->items, "mode", 4);

    return mode == ITEM_NONE || key->items.at[mode].value->len == 4; /* "read" */
}

/* And no mark of a writer lives. */
static bool is_not_wanted_alone(struct keyspace *ks, const char *name)
{
    char marks[96];
    bool tagged = strchr(name, '{') != NULL;
    int len =
        snprintf(marks, sizeof marks, "redlatch_rwlock_writers:%s%s%s", tagged ? "" : "{", name, tagged ? "" : "}");
    const struct key *key = find_key(ks, marks, (size_t)len);

    return is_read_or_free(ks, name) &&
           (key == NULL || (int64_t)key->items.at[key->items.count - 1].score <= ks_time(ks) / 1000);
}

static bool has_end(struct keyspace *ks, const char *name, const char *field)
{
    const struct key *key = rw_hash(ks, name);

    return key != NULL && item_find(&key->items, field, strlen(field)) != ITEM_NONE;
}

/* ---- the types -------------------------------------------------------------------------------------------------- */

/* What a type's row has from the registry. */
#define NESTS(type, constructor, fencing, reentrant) NESTS_##type = (reentrant),
enum { RDL_LOCK_TYPES(NESTS) RDL_LOCK_ENDS(NESTS) };
#define OF(type) .name = #type, .make = rdl_##type##_lock, .reentrant = NESTS_##type
#define KEPT(type) .name = "kept " #type, .make = rdl_##type##_lock, .reentrant = NESTS_##type

/* And the rows of its two ends. */
#define READ_WRITE(called, is_let_in)                                                                                  \
    .name = called, .make = rdl_write_lock, .make_shared = rdl_read_lock, .reentrant = NESTS_write, .holders = ends,   \
    .admits = (is_let_in), .holds = has_end

/* In the order that seeds know. */
const struct kind kinds[] = {
    {OF(reentrant), .line = true, .holders = fields},
    {OF(nonreentrant), .line = true, .holders = fields},
    {OF(simple), .plain = true, .pause_ms = 1000, .holders = value},
    {OF(spin), .polls = true, .pause_ms = 128, .holders = fields},
    {READ_WRITE("read-write", is_read_or_free)},
    {OF(fenced), .line = true, .counted = true, .holders = fields},
    {OF(fair), .pause_ms = 80, .life_ms = 240, .holders = fields},
    {READ_WRITE("read-write, writers preferred", is_not_wanted_alone), .mark_ms = 240},
};
const size_t kind_count = sizeof kinds / sizeof kinds[0];

#define ONE(...) +1
_Static_assert(sizeof kinds / sizeof kinds[0] == 0 RDL_LOCK_TYPES(ONE) RDL_LOCK_ENDS(ONE),
               "each type of the registry has a row, and the read-write lock two for its two ends");

const struct kind kept_kinds[] = {
    {KEPT(reentrant), .line = true, .cache_ms = 60, .holders = fields},
    {KEPT(nonreentrant), .line = true, .cache_ms = 200, .holders = fields},
    {KEPT(spin), .polls = true, .pause_ms = 128, .cache_ms = 100, .holders = fields},
    {KEPT(fenced), .line = true, .counted = true, .cache_ms = 20, .holders = fields},
    {READ_WRITE("kept read-write", is_read_or_free), .cache_ms = 120},
    {READ_WRITE("kept read-write, writers preferred", is_not_wanted_alone), .mark_ms = 240, .cache_ms = 60},
};
const size_t kept_kind_count = sizeof kept_kinds / sizeof kept_kinds[0];

const struct kind *kind_named(const char *name)
{
    for (size_t i = 0; i < kind_count; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    for (size_t i = 0; i < kept_kind_count; i++)
        if (strcmp(kept_kinds[i].name, name) == 0)
            return &kept_kinds[i];
    die("sim: no lock type %s", name);
}
