/* SPDX-License-Identifier: MIT */
/* buf.c - a growing byte buffer, and Redis commands.
 *
 * Each append makes room once, for the most it can need, and then writes without further checks: this is on the path of
 * every lock call. */
#include "core/wire/buf.h"

#include <assert.h>

enum {
    FIRST_CAP = 64,
    INT_MAX_LEN = 20,                     /* of the text of an int64_t or a size_t */
    HEADER_MAX_LEN = 1 + INT_MAX_LEN + 2, /* '*' or '$', a number, CR LF */
    OPEN_HEADER_LEN = 1 + 2 + 2,          /* '$', two digits, CR LF */
};

void rdl__buf_init(struct rdl__buf *b, const struct rdl__mem *mem)
{
    *b = (struct rdl__buf){.mem = mem};
}

void rdl__buf_done(struct rdl__buf *b)
{
    rdl__free(b->mem, b->data, b->cap);
    *b = (struct rdl__buf){.mem = b->mem};
}

static size_t grown_cap(size_t cap, size_t need)
{
    size_t grown = cap > SIZE_MAX / 2 ? SIZE_MAX : cap * 2;

    if (grown < FIRST_CAP)
        grown = FIRST_CAP;
    return grown < need ? need : grown;
}

/* Apart, so that those who seldom come to it save no registers for it. */
__attribute__((noinline)) bool rdl__buf_reserve_slow(struct rdl__buf *b, size_t more)
{
    size_t cap;
    char *data;

    if (b->failed || more > SIZE_MAX - b->len) {
        b->failed = true;
        return false;
    }
    cap = grown_cap(b->cap, b->len + more);
    if ((data = rdl__alloc(b->mem, cap)) == NULL) {
        b->failed = true;
        return false;
    }
    if (b->len != 0)
        memcpy(data, b->data, b->len);
    rdl__free(b->mem, b->data, b->cap);
    b->data = data;
    b->cap = cap;
    return true;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static const char digit_pairs[] = "0001020304050607080910111213141516171819"
                                  "2021222324252627282930313233343536373839"
                                  "4041424344454647484950515253545556575859"
                                  "6061626364656667686970717273747576777879"
                                  "8081828384858687888990919293949596979899";

#define EIGHT_DIGITS UINT32_C(100000000) /* numbers below it have eight digits at most */

static inline void put_pair(char *to, uint32_t pair)
{
    memcpy(to, digit_pairs + (size_t)pair * 2, 2);
}

/* Eight digits, zeros in front, of a number below EIGHT_DIGITS. Returns 8. */
static inline size_t put_eight(char *to, uint32_t value)
{
    uint32_t front = value / 10000, back = value % 10000;

    put_pair(to, front / 100);
    put_pair(to + 2, front % 100);
    put_pair(to + 4, back / 100);
    put_pair(to + 6, back % 100);
    return 8;
}

/* How many decimal digits a number below EIGHT_DIGITS has: 1233/4096 is a little above log10(2), so the bit count gives
 * the number of digits or one less, and one comparison tells which. */
static size_t digits_of(uint32_t value)
{
    static const uint32_t powers[] = {0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, EIGHT_DIGITS}; /* 0: one */
    size_t bits = 32 - (size_t)__builtin_clz(value | 1);
    size_t tens = bits * 1233 >> 12;

    return tens + (value >= powers[tens] ? 1 : 0);
}

static size_t put_small(char *to, uint32_t value)
{
    size_t len = digits_of(value);

    for (char *at = to + len; value >= 100; value /= 100)
        put_pair(at -= 2, value % 100);
    if (value >= 10)
        put_pair(to, value);
    else
        *to = (char)('0' + value);
    return len;
}

/* Apart, as rdl__buf_reserve_slow: nearly every length has one digit or two. */
static __attribute__((noinline)) size_t put_unsigned(char *to, uint64_t value)
{
    uint64_t front = value / EIGHT_DIGITS;
    size_t len;

    if (front == 0)
        return put_small(to, (uint32_t)value);
    if (front < EIGHT_DIGITS) {
        len = front >= EIGHT_DIGITS / 10 ? put_eight(to, (uint32_t)front) : put_small(to, (uint32_t)front);
    } else {
        len = put_small(to, (uint32_t)(front / EIGHT_DIGITS));
        len += put_eight(to + len, (uint32_t)(front % EIGHT_DIGITS));
    }
    return len + put_eight(to + len, (uint32_t)(value % EIGHT_DIGITS));
}

size_t rdl__itoa(char *to, int64_t value)
{
    if (value >= 0)
        return put_unsigned(to, (uint64_t)value);
    *to = '-';
    return 1 + put_unsigned(to + 1, 0 - (uint64_t)value);
}

/* ---- commands --------------------------------------------------------------------------------------------------- */

static inline char *put_crlf(char *at)
{
    memcpy(at, "\r\n", 2);
    return at + 2;
}

/* Nearly every count and length has one digit or two. */
static inline char *put_header(char *at, char mark, size_t count)
{
    *at++ = mark;
    if (count - 10 < 90) {
        memcpy(at, digit_pairs + count * 2, 2);
        at += 2;
    } else if (count < 10) {
        *at++ = (char)('0' + count);
    } else {
        at += put_unsigned(at, count);
    }
    return put_crlf(at);
}

/* Room for `more` bytes, or NULL; put_end tells the buffer how far it was used. */
static char *put_begin(struct rdl__buf *b, size_t more)
{
    return rdl__buf_reserve(b, more) ? b->data + b->len : NULL;
}

static void put_end(struct rdl__buf *b, const char *at)
{
    b->len = (size_t)(at - b->data);
}

void rdl__cmd_begin_with(struct rdl__buf *b, size_t argc, const char *args, size_t len)
{
    char *at = put_begin(b, HEADER_MAX_LEN + len);

    if (at == NULL)
        return;
    at = put_header(at, '*', argc);
    if (len != 0)
        memcpy(at, args, len);
    put_end(b, at + len);
}

void rdl__cmd_begin(struct rdl__buf *b, size_t argc)
{
    rdl__cmd_begin_with(b, argc, NULL, 0);
}

static inline char *put_room(struct rdl__buf *b, size_t len)
{
    size_t around = HEADER_MAX_LEN + 2;
    char *at = put_begin(b, len < SIZE_MAX - around ? len + around : SIZE_MAX);

    if (at == NULL)
        return NULL;
    at = put_header(at, '$', len);
    put_end(b, put_crlf(at + len));
    return at;
}

char *rdl__cmd_room(struct rdl__buf *b, size_t len)
{
    return put_room(b, len);
}

void rdl__cmd_arg(struct rdl__buf *b, const void *bytes, size_t len)
{
    char *at = put_room(b, len);

    if (at != NULL && len != 0)
        memcpy(at, bytes, len);
}

void rdl__cmd_str(struct rdl__buf *b, const char *string)
{
    rdl__cmd_arg(b, string, strlen(string));
}

char *rdl__cmd_open(struct rdl__buf *b, size_t most)
{
    char *at = put_begin(b, OPEN_HEADER_LEN + most + 2);

    return at != NULL ? at + OPEN_HEADER_LEN : NULL;
}

void rdl__cmd_close(struct rdl__buf *b, size_t len)
{
    char *at = b->data + b->len;

    assert(len >= 10 && len <= 99 && b->cap - b->len >= OPEN_HEADER_LEN + len + 2);
    *at = '$';
    put_pair(at + 1, (uint32_t)len);
    put_end(b, put_crlf(put_crlf(at + 3) + len));
}

size_t rdl__int_arg(char *to, int64_t value)
{
    size_t len = rdl__itoa(to + OPEN_HEADER_LEN, value);

    if (len < 10) /* and the header is one digit shorter */
        memmove(to + OPEN_HEADER_LEN - 1, to + OPEN_HEADER_LEN, len);
    return (size_t)(put_crlf(put_header(to, '$', len) + len) - to);
}

/* Out of line, where what it needs does no harm to the usual case: one digit, and room for it. */
static __attribute__((noinline)) void put_int(struct rdl__buf *b, int64_t value)
{
    char *at = put_begin(b, RDL__INT_ARG_MAX);

    if (at != NULL)
        put_end(b, at + rdl__int_arg(at, value));
}

void rdl__cmd_int(struct rdl__buf *b, int64_t value)
{
    static const char one_digit[8] = "$1\r\n0\r\n";

    if (value < 0 || value > 9 || b->failed || b->cap - b->len < sizeof one_digit) {
        put_int(b, value);
    } else {
        char *at = b->data + b->len;

        memcpy(at, one_digit, sizeof one_digit); /* one byte too many, which costs less than to leave it out */
        at[4] = (char)('0' + value);
        put_end(b, at + sizeof one_digit - 1);
    }
}

void rdl__cmd_wait(struct rdl__buf *b, uint32_t replicas, uint32_t timeout_ms)
{
    rdl__cmd_begin(b, 3);
    rdl__cmd_arg(b, "WAIT", 4);
    rdl__cmd_int(b, replicas);
    rdl__cmd_int(b, timeout_ms);
}
