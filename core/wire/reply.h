/* SPDX-License-Identifier: MIT */
/* reply.h - a view of one reply of the server. Valid only while its reader's arena is (core/io/reader.h): copy what you
 * keep. */
#ifndef REDLATCH_WIRE_REPLY_H
#define REDLATCH_WIRE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rdl__reply_type {
    RDL__REPLY_NIL,
    RDL__REPLY_INT,    /* also RESP3 booleans */
    RDL__REPLY_STRING, /* simple, bulk, verbatim, double, big number: as text */
    RDL__REPLY_ERROR,
    RDL__REPLY_ARRAY, /* array, set, map (twice as many elements), push */
};

struct rdl__reply {
    enum rdl__reply_type type;
    bool push; /* RESP3 out-of-band message */
    int64_t integer;
    const char *str; /* NUL-terminated; the NUL is not counted */
    size_t len;      /* of str; or the number of elements */
    struct rdl__reply **elem;
};

bool rdl__reply_error_says(const struct rdl__reply *r, const char *word);

/* Does an error reply begin with this word ("NOSCRIPT")? */
static inline bool rdl__reply_is_error(const struct rdl__reply *r, const char *word)
{
    return r != NULL && r->type == RDL__REPLY_ERROR && rdl__reply_error_says(r, word);
}

/* The word that an error begins with, if that is one of those that servers have: "ERR", "NOAUTH". Else "an unknown
 * error". For the answers to what holds a password: the rest of such an error may quote it, and so may a server's own
 * word. Static. */
const char *rdl__reply_word(const struct rdl__reply *error);

/* How much of an error stands before the words of the command that refused: Redis 6.2 begins with where in the script
 * that was. */
size_t rdl__reply_error_preamble(const char *error, size_t len);

/* Does the error in answer to WAIT say that this server, or what stands before it, does not do that, at all or for this
 * user? Any other is about this one time: a failover (UNBLOCKED), a replica that should have been the master. */
bool rdl__reply_refuses_wait(const struct rdl__reply *r);

/* Does the error prove that the command has written nothing, a script included? Servers refuse a script's first write
 * for want of memory, as a replica and the like, and none behind it; our own scripts say `redlatch:` before they write,
 * and look at the types of keys. ACL refuses at any place, so of a script it proves nothing. */
bool rdl__reply_wrote_nothing(const struct rdl__reply *r);

/* The reply as an integer: an integer, or a string that is one, as a whole, in decimal. */
bool rdl__reply_integer_text(const struct rdl__reply *r, int64_t *ret); /* of a string alone */
static inline bool rdl__reply_integer(const struct rdl__reply *r, int64_t *ret)
{
    if (r == NULL || r->type != RDL__REPLY_INT)
        return rdl__reply_integer_text(r, ret);
    *ret = r->integer;
    return true;
}

/* Element i, or NULL when r is no array or has no such element. */
static inline const struct rdl__reply *rdl__reply_at(const struct rdl__reply *r, size_t i)
{
    return r != NULL && r->type == RDL__REPLY_ARRAY && i < r->len ? r->elem[i] : NULL;
}

/* What stands behind this name in a map, or in a list of names and values by turns; NULL: nothing does. */
const struct rdl__reply *rdl__reply_named(const struct rdl__reply *r, const char *name);

/* Value of "key" in text of the forms that INFO (key:value, lines ending in CR LF) and CLIENT INFO (key=value,
 * separated by spaces, ending in a newline) answer with. `sep` is ':' or '='. False when absent; the value may be
 * empty. */
bool rdl__reply_field(const struct rdl__reply *r, const char *key, char sep, const char **ret_value, size_t *ret_len);

#endif
