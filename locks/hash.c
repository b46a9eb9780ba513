/* SPDX-License-Identifier: MIT */
#include "locks/hash.h"

#include <string.h>

/* Beside a hold that others stand in line for is this mark (scripts/line.inc): the hold's field, and behind it */
#define MARK ":wanted"
#define MARK_LEN (sizeof MARK - 1)

static bool is_mark(const struct rdl__reply *field)
{
    return field->len > MARK_LEN && memcmp(field->str + field->len - MARK_LEN, MARK, MARK_LEN) == 0;
}

void rdl__hash_put_holder(struct rdl__buf *to, const char *name, size_t len)
{
    rdl__cmd_begin(to, 2);
    rdl__cmd_str(to, "HKEYS");
    rdl__cmd_arg(to, name, len);
}

bool rdl__hash_decode_holder(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len)
{
    const struct rdl__reply *field = rdl__reply_at(reply, 0);

    if (field == NULL || field->type != RDL__REPLY_STRING)
        return false;
    *ret_field = field->str;
    *ret_len = field->len - (is_mark(field) ? MARK_LEN : 0);
    return true;
}

void rdl__hash_put_take(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    rdl__put_take(call, to, eval, RDL__SCRIPT_REENTRANT_TAKE, NULL, 0);
}

void rdl__hash_put_release(struct rdl__buf *to, const struct rdl__hold_of *hold, bool eval, int64_t count)
{
    rdl__put_release(to, hold, eval, count, RDL__SCRIPT_REENTRANT_RELEASE);
}

void rdl__hash_put_force(const struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    rdl__put_force(call, to, eval, RDL__SCRIPT_REENTRANT_FORCE);
}
