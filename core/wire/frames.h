/* SPDX-License-Identifier: MIT */
/* frames.h - where the values of a RESP stream begin and end, as the bytes come: to leave attributes out, and to refuse
 * what is too large as soon as it says so.
 *
 * The stream is read as flat: an array is a line that says how many values follow. So nothing is kept but where in a
 * value the last byte was, and how many values of an attribute (`|`) are still to come. What is malformed in other ways
 * is the parser's.
 */
#ifndef REDLATCH_WIRE_FRAMES_H
#define REDLATCH_WIRE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RDL__REPLY_BYTES_MAX ((size_t)32 << 20) /* of one value; the largest answer is that to CLUSTER SLOTS */
#define RDL__REPLY_LINE_MAX                                                                                            \
    ((size_t)64 << 10) /* of one that does not say how long it is: an error, a status, a number */

/* Zeroed: before the first byte. */
struct rdl__frames {
    enum { RDL__FRAMES_START, RDL__FRAMES_LINE, RDL__FRAMES_BYTES } at;
    char type;         /* of the value that is being read */
    bool negative;     /* its number is */
    size_t number;     /* of its line, so far */
    size_t line;       /* bytes of that, so far */
    size_t left;       /* bytes of the value behind the line, with the end of line behind them */
    uint64_t unwanted; /* values that belong to an attribute, and have not ended */
    size_t dropped;    /* bytes of that attribute */
};

enum rdl__frames_wrong { RDL__FRAMES_FINE, RDL__FRAMES_TOO_LARGE, RDL__FRAMES_MALFORMED };

/* Go on to the first byte, from *at to `end`, where it changes whether bytes are wanted, or to the end. *ret_wanted:
 * those that were passed are. Call it until *at is `end`. Once something is wrong it is no use any more. */
enum rdl__frames_wrong rdl__frames_pass(struct rdl__frames *f, const char **at, const char *end, bool *ret_wanted);

/* Is what was passed so far some whole values, none of them begun, nor an attribute of the next? */
static inline bool rdl__frames_whole(const struct rdl__frames *f)
{
    return f->at == RDL__FRAMES_START && f->unwanted == 0;
}

#endif
