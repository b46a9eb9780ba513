/* reply.c - reading replies. Every function takes NULL for a reply that is not there, so that a look at an element of an
 * element needs one check at the end. */
#include "core/wire/reply.h"

#include <string.h>

bool rdl__reply_error_says(const struct rdl__reply *r, const char *word)
{
    size_t len = strlen(word);

    if (r->len < len || memcmp(r->str, word, len) != 0)
        return false;
    return r->len == len || r->str[len] == ' ';
}

size_t rdl__reply_error_preamble(const char *error, size_t len)
{
    static const char begin[] = "ERR Error running script (", end[] = ": -";
    const char *at;
    size_t n;

    if (len < sizeof begin - 1 || memcmp(error, begin, sizeof begin - 1) != 0 ||
        (at = memmem(error, len, end, sizeof end - 1)) == NULL)
        return 0;
    n = (size_t)(at - error) + sizeof end - 1;
    return n < len ? n : 0;
}

/* Without leading blanks, a plus sign, or anything behind the digits. */
static bool parse_integer(const char *s, size_t len, int64_t *ret)
{
    bool negative = len > 0 && s[0] == '-';
    int64_t value = 0; /* its negative, which has room for INT64_MIN */
    size_t i = negative ? 1 : 0;

    if (i == len)
        return false;
    for (; i < len; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, s[i] - '0', &value))
            return false;
    }
    if (!negative && __builtin_sub_overflow(0, value, &value))
        return false;
    *ret = value;
    return true;
}

bool rdl__reply_refuses_wait(const struct rdl__reply *r)
{
    return rdl__reply_is_error(r, "NOPERM") ||
           (rdl__reply_is_error(r, "ERR") && !rdl__reply_is_error(r, "ERR WAIT cannot be used with replica"));
}

bool rdl__reply_integer(const struct rdl__reply *r, int64_t *ret)
{
    if (r == NULL)
        return false;
    if (r->type == RDL__REPLY_STRING)
        return parse_integer(r->str, r->len, ret);
    if (r->type != RDL__REPLY_INT)
        return false;
    *ret = r->integer;
    return true;
}

const struct rdl__reply *rdl__reply_at(const struct rdl__reply *r, size_t i)
{
    return r != NULL && r->type == RDL__REPLY_ARRAY && i < r->len ? r->elem[i] : NULL;
}

static bool ends_field(char c, char sep)
{
    return c == '\r' || c == '\n' || (c == ' ' && sep == '=');
}

/* The first end of a field in [at, end), or end. */
static const char *field_end(const char *at, const char *end, char sep)
{
    while (at < end && !ends_field(*at, sep))
        at++;
    return at;
}

bool rdl__reply_field(const struct rdl__reply *r, const char *key, char sep, const char **ret_value, size_t *ret_len)
{
    size_t key_len = strlen(key);
    const char *at, *end, *stop;

    if (r == NULL || r->type != RDL__REPLY_STRING)
        return false;
    end = r->str + r->len;
    for (at = r->str; at < end; at = stop + 1) {
        stop = field_end(at, end, sep);
        if ((size_t)(stop - at) > key_len && memcmp(at, key, key_len) == 0 && at[key_len] == sep) {
            *ret_value = at + key_len + 1;
            *ret_len = (size_t)(stop - *ret_value);
            return true;
        }
        if (stop == end)
            break;
    }
    return false;
}
