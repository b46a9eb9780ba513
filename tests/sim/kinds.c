#include "tests/sim/kinds.h"

#include "tests/script/keyspace_impl.h"
#include "tests/support/wait.h"

#include <string.h>

static size_t fields(struct keyspace *ks, const char *name, const char **ret_field, size_t *ret_len)
{
    const struct key *key = find_key(ks, name, strlen(name));

    if (key == NULL)
        return 0;
    if (key->type != KEY_HASH)
        die("sim: %s is no hash", name);
    *ret_field = key->items.at[0].name->at;
    *ret_len = key->items.at[0].name->len;
    return key->items.count;
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

const struct kind kinds[] = {
    {.name = "reentrant", .make = rdl_reentrant_lock, .reentrant = true, .holders = fields},
    {.name = "nonreentrant", .make = rdl_nonreentrant_lock, .holders = fields},
    {.name = "simple", .make = rdl_simple_lock, .plain = true, .pause_ms = 1000, .holders = value},
    {.name = "spin", .make = rdl_spin_lock, .reentrant = true, .polls = true, .pause_ms = 128, .holders = fields},
    {.name = "fenced", .make = rdl_fenced_lock, .reentrant = true, .counted = true, .holders = fields},
    {.name = "fair", .make = rdl_fair_lock, .reentrant = true, .pause_ms = 80, .life_ms = 240, .holders = fields},
};
const size_t kind_count = sizeof kinds / sizeof kinds[0];

const struct kind *kind_named(const char *name)
{
    for (size_t i = 0; i < kind_count; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    die("sim: no lock type %s", name);
}
