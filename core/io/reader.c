/* SPDX-License-Identifier: MIT */
#include "core/io/reader.h"

#include <redlatch/error.h>

#include <ctype.h>
#include <hiredis/hiredis.h>
#include <limits.h>
#include <string.h>

#define CHUNK_SIZE 4096
#define SECRET_PART 4 /* bytes from which on a secret is looked for within words */

struct chunk {
    struct chunk *next;
    size_t size; /* of data */
    size_t used;
    _Alignas(16) char data[];
};

struct rdl__reader {
    const struct rdl__mem *mem;
    redisReader *hiredis;
    struct rdl__frames frames;
    const char *secret;
    const char *why; /* it has failed, if not for what hiredis says; NULL: not */
    char begin[8];   /* the first bytes of all */
    size_t begin_len;
    struct chunk *first; /* kept from reply to reply */
    struct chunk *last;
    size_t taken; /* of the arena, for the reply that is being read */
    struct rdl__reply integer;
};

/* ---- arena ------------------------------------------------------------------------------------------------------ */

static struct chunk *chunk_new(const struct rdl__mem *mem, size_t size)
{
    struct chunk *c = rdl__alloc(mem, sizeof *c + size);

    if (c == NULL)
        return NULL;
    c->next = NULL;
    c->size = size;
    c->used = 0;
    return c;
}

static void chunks_free(const struct rdl__mem *mem, struct chunk *c)
{
    while (c != NULL) {
        struct chunk *next = c->next;

        rdl__free(mem, c, sizeof *c + c->size);
        c = next;
    }
}

static void arena_reset(struct rdl__reader *r)
{
    chunks_free(r->mem, r->first->next);
    r->first->next = NULL;
    r->first->used = 0;
    r->last = r->first;
    r->taken = 0;
}

static const char too_large[] = "a reply that is larger than any answer to what was asked";
static const char too_deep[] = "a reply that is nested deeper than any answer to what was asked";

static void *arena_take(struct rdl__reader *r, size_t size)
{
    struct chunk *c = r->last;

    if (size > RDL__REPLY_BYTES_MAX - r->taken) {
        r->why = too_large;
        return NULL;
    }
    size = (size + 15) & ~(size_t)15;
    r->taken += size;
    if (c->size - c->used < size) {
        if ((c = chunk_new(r->mem, size > CHUNK_SIZE ? size : CHUNK_SIZE)) == NULL)
            return NULL;
        r->last->next = c;
        r->last = c;
    }
    c->used += size;
    return c->data + c->used - size;
}

/* ---- what hiredis calls while it reads -------------------------------------------------------------------------- */

static struct rdl__reply *node(const redisReadTask *task, enum rdl__reply_type type)
{
    struct rdl__reader *r = task->privdata;
    struct rdl__reply *n = arena_take(r, sizeof *n);

    if (n == NULL)
        return NULL;
    memset(n, 0, sizeof *n);
    n->type = type;
    if (task->parent != NULL)
        ((struct rdl__reply *)task->parent->obj)->elem[task->idx] = n;
    return n;
}

/* Does a word go on across this place? */
static bool inside_word(const char *text, size_t len, size_t at)
{
    return at > 0 && at < len && isalnum((unsigned char)text[at - 1]) && isalnum((unsigned char)text[at]);
}

/* Beyond the first word, which says what an error is. A secret of a letter or three is in many words, and where stars
 * stand for a part of one, they tell what it is: it is blotted out only where it is a word. */
static void mask(char *text, size_t len, const char *secret)
{
    size_t secret_len = secret == NULL ? 0 : strlen(secret);
    char *at = memchr(text, ' ', len);

    while (secret_len > 0 && at != NULL && (at = memmem(at, len - (size_t)(at - text), secret, secret_len)) != NULL) {
        size_t from = (size_t)(at - text);

        if (secret_len >= SECRET_PART || !(inside_word(text, len, from) || inside_word(text, len, from + secret_len)))
            memset(at, '*', secret_len);
        at++;
    }
}

static struct rdl__reply *text(const redisReadTask *task, enum rdl__reply_type type, const char *str, size_t len)
{
    struct rdl__reader *r = task->privdata;
    struct rdl__reply *n = node(task, type);
    char *copy;

    if (n == NULL || (copy = arena_take(r, len + 1)) == NULL)
        return NULL;
    memcpy(copy, str, len);
    copy[len] = '\0';
    if (type == RDL__REPLY_ERROR)
        mask(copy, len, r->secret);
    n->str = copy;
    n->len = len;
    return n;
}

static void *create_string(const redisReadTask *task, char *str, size_t len)
{
    bool error = task->type == REDIS_REPLY_ERROR;
    size_t skip = 0;

    if (error)
        skip = rdl__reply_error_preamble(str, len);
    else if (task->type == REDIS_REPLY_VERB && len >= 4)
        skip = 4; /* "txt:" */
    return text(task, error ? RDL__REPLY_ERROR : RDL__REPLY_STRING, str + skip, len - skip);
}

static bool is_too_deep(const redisReadTask *task)
{
    int depth = 0;

    while ((task = task->parent) != NULL && depth < RDL__REPLY_DEPTH_MAX)
        depth++;
    return task != NULL;
}

static void *create_array(const redisReadTask *task, size_t elements)
{
    struct rdl__reader *r = task->privdata;
    struct rdl__reply *n;

    if (is_too_deep(task)) {
        r->why = too_deep;
        return NULL;
    }
    if ((n = node(task, RDL__REPLY_ARRAY)) == NULL || (n->elem = arena_take(r, elements * sizeof *n->elem)) == NULL)
        return NULL;
    memset(n->elem, 0, elements * sizeof *n->elem);
    n->len = elements;
    n->push = task->type == REDIS_REPLY_PUSH;
    return n;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    struct rdl__reply *n = node(task, RDL__REPLY_INT);

    if (n != NULL)
        n->integer = value;
    return n;
}

static void *create_double(const redisReadTask *task, double value, char *str, size_t len)
{
    (void)value;
    return text(task, RDL__REPLY_STRING, str, len);
}

static void *create_nil(const redisReadTask *task)
{
    return node(task, RDL__REPLY_NIL);
}

static void *create_bool(const redisReadTask *task, int value)
{
    return create_integer(task, value);
}

static void free_object(void *object)
{
    (void)object; /* the arena's */
}

static redisReplyObjectFunctions functions = {
    .createString = create_string,
    .createArray = create_array,
    .createInteger = create_integer,
    .createDouble = create_double,
    .createNil = create_nil,
    .createBool = create_bool,
    .freeObject = free_object,
};

/* ---- reader.h --------------------------------------------------------------------------------------------------- */

struct rdl__reader *rdl__reader_new(const struct rdl__mem *mem, const char *secret)
{
    struct rdl__reader *r = rdl__zalloc(mem, sizeof *r);

    if (r == NULL)
        return NULL;
    r->mem = mem;
    r->secret = secret;
    r->integer.type = RDL__REPLY_INT;
    r->first = r->last = chunk_new(mem, CHUNK_SIZE);
    r->hiredis = redisReaderCreateWithFunctions(&functions);
    if (r->first == NULL || r->hiredis == NULL)
        return rdl__reader_free(r);
    r->hiredis->privdata = r;
    return r;
}

struct rdl__reader *rdl__reader_free(struct rdl__reader *r)
{
    if (r == NULL)
        return NULL;
    chunks_free(r->mem, r->first);
    if (r->hiredis != NULL)
        redisReaderFree(r->hiredis);
    rdl__free(r->mem, r, sizeof *r);
    return NULL;
}

static int failure(const struct rdl__reader *r)
{
    return r->why == NULL && r->hiredis->err == REDIS_ERR_OOM ? RDL_ENOMEM : RDL_ESERVER;
}

static bool begins(const struct rdl__reader *r, const char *bytes)
{
    return r->begin_len >= strlen(bytes) && memcmp(r->begin, bytes, strlen(bytes)) == 0;
}

static const char *not_redis(const struct rdl__reader *r)
{
    if (begins(r, "HTTP/"))
        return "this is a web server, not a Redis server";
    if (begins(r, "\x15\x03")) /* an alert */
        return "this server wants TLS (rediss://)";
    return "this is not a Redis server";
}

const char *rdl__reader_why(const struct rdl__reader *r)
{
    if (r->why != NULL)
        return r->why;
    return failure(r) == RDL_ENOMEM ? rdl_strerror(RDL_ENOMEM) : not_redis(r);
}

static void keep_begin(struct rdl__reader *r, const char *bytes, size_t len)
{
    size_t room = sizeof r->begin - r->begin_len, n = len < room ? len : room;

    memcpy(r->begin + r->begin_len, bytes, n);
    r->begin_len += n;
}

int rdl__reader_feed(struct rdl__reader *r, const void *bytes, size_t len)
{
    const char *at = bytes, *end = at + len;

    keep_begin(r, bytes, len);
    while (at < end && r->why == NULL) {
        const char *from = at;
        bool wanted;
        enum rdl__frames_wrong wrong = rdl__frames_pass(&r->frames, &at, end, &wanted);

        if (wrong == RDL__FRAMES_TOO_LARGE ||
            r->hiredis->len - r->hiredis->pos + (size_t)(at - from) > RDL__REPLY_BYTES_MAX)
            r->why = too_large;
        else if (wrong == RDL__FRAMES_MALFORMED)
            r->why = not_redis(r);
        else if (wanted && redisReaderFeed(r->hiredis, from, (size_t)(at - from)) != REDIS_OK)
            return failure(r);
    }
    return r->why == NULL ? RDL_OK : failure(r);
}

static bool at_start(const struct rdl__reader *r)
{
    return r->hiredis->ridx == -1 && r->hiredis->pos == r->hiredis->len && r->hiredis->err == 0 && r->why == NULL &&
           rdl__frames_whole(&r->frames);
}

bool rdl__reader_integer(struct rdl__reader *r, const char **at, const char *end, const struct rdl__reply **ret)
{
    const char *p = *at;
    bool negative;
    int64_t value = 0;
    int digits = 0;

    if (!at_start(r) || p == end || *p++ != ':')
        return false;
    negative = p < end && *p == '-';
    for (p += negative; p < end && *p >= '0' && *p <= '9' && digits < 18; p++, digits++)
        value = value * 10 + (*p - '0');
    if (digits == 0 || end - p < 2 || p[0] != '\r' || p[1] != '\n')
        return false;
    r->integer.integer = negative ? -value : value;
    *ret = &r->integer;
    *at = p + 2;
    return true;
}

int rdl__reader_next(struct rdl__reader *r, const struct rdl__reply **ret)
{
    void *whole = NULL;

    if (r->hiredis->ridx == -1) /* between replies: nothing in the arena is wanted any more */
        arena_reset(r);
    if (r->why != NULL || redisReaderGetReply(r->hiredis, &whole) != REDIS_OK)
        return failure(r);
    *ret = whole;
    return RDL_OK;
}
