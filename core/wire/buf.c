/* SPDX-License-Identifier: MIT */
/* buf.c - a growing byte buffer, and Redis commands.
 *
 * Each append makes room once, for the most it can need, and then writes without further checks: this is on the path of
 * every lock call. */
#include "core/wire/buf.h"

enum {
    FIRST_CAP = 64,
    INT_MAX_LEN = 20,                     /* of the text of an int64_t or a size_t */
    HEADER_MAX_LEN = 1 + INT_MAX_LEN + 2, /* '*' or '$', a number, CR LF */
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

bool rdl__buf_reserve_slow(struct rdl__buf *b, size_t more)
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

/* How many decimal digits value has: 1233/4096 is a little above log10(2), so the bit count gives the number of digits
 * or one less, and one comparison tells which. */
static size_t digits_of(uint64_t value)
{
    static const uint64_t powers[] = {
        0, /* one digit even for value 0 */
        UINT64_C(10),
        UINT64_C(100),
        UINT64_C(1000),
        UINT64_C(10000),
        UINT64_C(100000),
        UINT64_C(1000000),
        UINT64_C(10000000),
        UINT64_C(100000000),
        UINT64_C(1000000000),
        UINT64_C(10000000000),
        UINT64_C(100000000000),
        UINT64_C(1000000000000),
        UINT64_C(10000000000000),
        UINT64_C(100000000000000),
        UINT64_C(1000000000000000),
        UINT64_C(10000000000000000),
        UINT64_C(100000000000000000),
        UINT64_C(1000000000000000000),
        UINT64_C(10000000000000000000),
    };
    size_t bits = 64 - (size_t)__builtin_clzll(value | 1);
    size_t tens = bits * 1233 >> 12;

    return tens + (value >= powers[tens] ? 1 : 0);
}

static size_t put_unsigned(char *to, uint64_t value)
{
    size_t len = digits_of(value);
    char *at = to + len;
    uint32_t small;

    for (; value > UINT32_MAX; value /= 100) {
        at -= 2;
        memcpy(at, digit_pairs + value % 100 * 2, 2);
    }
    for (small = (uint32_t)value; small >= 100; small /= 100) { /* a shorter division */
        at -= 2;
        memcpy(at, digit_pairs + small % 100 * 2, 2);
    }
    if (small >= 10)
        memcpy(to, digit_pairs + small * 2, 2);
    else
        *to = (char)('0' + small);
    return len;
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

void rdl__cmd_begin(struct rdl__buf *b, size_t argc)
{
    char *at = put_begin(b, HEADER_MAX_LEN);

    if (at != NULL)
        put_end(b, put_header(at, '*', argc));
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

/* Out of line, where what it needs does no harm to the usual case: one digit, and room for it. */
static __attribute__((noinline)) void put_int(struct rdl__buf *b, int64_t value)
{
    char digits[INT_MAX_LEN];

    rdl__cmd_arg(b, digits, rdl__itoa(digits, value));
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
