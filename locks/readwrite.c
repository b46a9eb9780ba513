/* readwrite.c - the read-write lock: many readers or one writer (wire.md, Read and Write).
 *
 * One hash for both: `mode`, and a field of its own for each hold: `U:n` with the read holds of an owner, `U:n:write`
 * with its write holds. Beside it one key with a time to live for each read hold, so that a reader that dies costs no
 * more than its own lease. The two ends are two tables that name each other: an owner has a record, and a number, for
 * each end.
 *
 * A writer may read as well and then give up writing, so that readers come in (a downgrade). A reader may not write: it
 * would wait for itself, and is told so at once, by its own record.
 *
 * Where writers are preferred, one that is refused because of readers leaves a mark of its own beside the lock, with a
 * time to live, and its hint makes it renew that. Readers are not let in beside a mark, unless they hold the lock
 * already. The marks go when a writer gets in: then whoever waits has the same chance when that one leaves. A writer
 * that gives up takes its mark away by its release; if it was the last, the release tells those who wait by a message
 * that only ours understand.
 *
 * Whoever shares the lock is never queued behind others of this process, because a try may be granted at any time, and
 * who is let in lets in all who share (waiters.c).
 */
#include "locks/types.h"
#include "scripts/scripts.h"

#include <string.h>

#define CHANNEL "redisson_rwlock"
#define WRITE ":write"
#define MARKS "redlatch_rwlock_writers"

/* Everything that is in the hash: `mode` and holds. */
static void encode_holder(struct rdl__buf *to, const char *name, size_t len)
{
    rdl__cmd_begin(to, 2);
    rdl__cmd_str(to, "HKEYS");
    rdl__cmd_arg(to, name, len);
}

static bool is_writers(const struct rdl__reply *field)
{
    size_t tail = sizeof WRITE - 1;

    return field->len > tail && memcmp(field->str + field->len - tail, WRITE, tail) == 0;
}

/* A writer's hold, or one of anybody else. */
static bool find_holder(const struct rdl__reply *reply, bool writer, const char **ret_field, size_t *ret_len)
{
    const struct rdl__reply *field;

    for (size_t i = 0; (field = rdl__reply_at(reply, i)) != NULL; i++) {
        if (field->type != RDL__REPLY_STRING || strcmp(field->str, "mode") == 0 || is_writers(field) != writer)
            continue;
        *ret_field = field->str;
        *ret_len = field->len;
        return true;
    }
    return false;
}

static bool decode_reader(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len)
{
    return find_holder(reply, false, ret_field, ret_len);
}

static bool decode_writer(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len)
{
    return find_holder(reply, true, ret_field, ret_len);
}

const struct rdl__lock_ops rdl__read_ops = {
    .handle = &rdl__single_handle,
    .name = "read",
    .nests = true,
    .shares = true,
    .partner = &rdl__write_ops,
    .channel = CHANNEL,
    .news = RDL__NEWS_SIDES,
    .marks = MARKS,
    .take = RDL__SCRIPT_READ_TAKE,
    .release = RDL__SCRIPT_READ_RELEASE,
    .renew = RDL__SCRIPT_READ_RENEW,
    .force = RDL__SCRIPT_READWRITE_FORCE,
    .retry = {.kind = RDL_RETRY_NONE},
    .encode_holder = encode_holder,
    .decode_holder = decode_reader,
};

const struct rdl__lock_ops rdl__write_ops = {
    .handle = &rdl__single_handle,
    .name = "write",
    .nests = true,
    .partner = &rdl__read_ops,
    .ending = WRITE,
    .channel = CHANNEL,
    .news = RDL__NEWS_SIDES,
    .marks = MARKS,
    .take = RDL__SCRIPT_WRITE_TAKE,
    .release = RDL__SCRIPT_WRITE_RELEASE,
    .renew = RDL__SCRIPT_REENTRANT_RENEW, /* its hold is a field of the hash and nothing else */
    .force = RDL__SCRIPT_READWRITE_FORCE,
    .retry = {.kind = RDL_RETRY_NONE},
    .encode_holder = encode_holder,
    .decode_holder = decode_writer,
};
