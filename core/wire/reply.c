/* SPDX-License-Identifier: MIT */
/* reply.c - reading replies. Every function takes NULL for a reply that is not there, so that a look at an element of
 * an element needs one check at the end. */
#include "core/wire/reply.h"

#include <string.h>

bool rdl__reply_error_says(const struct rdl__reply *r, const char *word)
{
    size_t len = strlen(word);

    if (r->len < len || memcmp(r->str, word, len) != 0)
        return false;
    return r->len == len || r->str[len] == ' ';
}

const char *rdl__reply_word(const struct rdl__reply *error)
{
    static const char *const words[] = {
        "ERR",   "WRONGPASS",  "NOAUTH",   "NOPERM",    "NOPROTO",    "DENIED",     "LOADING",
        "BUSY",  "MASTERDOWN", "READONLY", "MISCONF",   "NOREPLICAS", "TIMEOUT",    "CLUSTERDOWN",
        "MOVED", "ASK",        "TRYAGAIN", "CROSSSLOT", "OOM",        "UNKILLABLE",
    };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (rdl__reply_error_says(error, words[i]))
            return words[i];
    return "an unknown error";
}

/* Is it a server's word ("WRONGTYPE"), by which an error is known? ERR says no more than what stands before it. */
static bool is_word(const char *s, size_t len)
{
    size_t n = 0;

    while (n < len && s[n] >= 'A' && s[n] <= 'Z')
        n++;
    return n > 1 && n < len && s[n] == ' ' && !(n == 3 && memcmp(s, "ERR", 3) == 0);
}

/* "ERR Error running script (call to f_59e6): @user_script:7: @user_script: 7: -OOM ...": a place or two, and then what
 * the server says of itself, behind a dash, or what its command answered, which has none. */
size_t rdl__reply_error_preamble(const char *error, size_t len)
{
    static const char begin[] = "ERR Error running script (";
    const char *at = error, *end = error + len;

    if (len < sizeof begin - 1 || memcmp(error, begin, sizeof begin - 1) != 0)
        return 0;
    do {
        at = memmem(at, (size_t)(end - at), ": ", 2);
        at = at != NULL ? at + 2 : end;
    } while (at < end && (*at == '@' || (*at >= '0' && *at <= '9')));
    if (end - at > 1 && *at == '-')
        return (size_t)(at + 1 - error);
    return is_word(at, (size_t)(end - at)) ? (size_t)(at - error) : 0;
}

bool rdl__reply_wrote_nothing(const struct rdl__reply *r)
{
    static const char *const words[] = {
        "NOSCRIPT", "WRONGTYPE", "OOM",        "READONLY", "MISCONF",  "NOREPLICAS", "LOADING",     "BUSY",
        "NOAUTH",   "MOVED",     "MASTERDOWN", "ASK",      "TRYAGAIN", "CROSSSLOT",  "CLUSTERDOWN",
    };

    if (r == NULL || r->type != RDL__REPLY_ERROR)
        return false;
    if (rdl__reply_error_says(r, "NOPERM"))
        return strstr(r->str, "script") == NULL;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (rdl__reply_error_says(r, words[i]))
            return true;
    return strncmp(r->str, "ERR redlatch: ", 14) == 0;
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

bool rdl__reply_integer_text(const struct rdl__reply *r, int64_t *ret)
{
    return r != NULL && r->type == RDL__REPLY_STRING && parse_integer(r->str, r->len, ret);
}

const struct rdl__reply *rdl__reply_named(const struct rdl__reply *r, const char *name)
{
    for (size_t i = 0; r != NULL && r->type == RDL__REPLY_ARRAY && i + 1 < r->len; i += 2) {
        const struct rdl__reply *key = r->elem[i];

        if (key != NULL && key->type == RDL__REPLY_STRING && strcmp(key->str, name) == 0)
            return r->elem[i + 1];
    }
    return NULL;
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
