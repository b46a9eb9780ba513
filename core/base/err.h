/* SPDX-License-Identifier: MIT */
/* err.h - filling an rdl_err_t. */
#ifndef REDLATCH_BASE_ERR_H
#define REDLATCH_BASE_ERR_H

#include <redlatch/error.h>
#include <stdarg.h>
#include <stddef.h>

/* rdl__err_set(err, code, fmt, ...): fill `err` (may be NULL) with code and a printf text; server and lock are emptied.
 * Its value is code, as an expression, so that compilers and analyzers see that a failure stays one. A text that is too
 * long is cut at a character boundary and ends in "...". fmt NULL: the code's own text. */
#define rdl__err_set(err, code, ...)                                                                                   \
    __extension__({                                                                                                    \
        int err_set_code_ = (code);                                                                                    \
                                                                                                                       \
        rdl__err_fill_((err), err_set_code_, __VA_ARGS__);                                                             \
        err_set_code_;                                                                                                 \
    })
void rdl__err_fill_(rdl_err_t *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Say where: the server (NULL: leave) and the lock's name in printable form (NULL: leave). Printable: bytes 0x20..0x7e
 * as they are but for backslash; valid UTF-8 sequences as they are; anything else \xHH; "..." at the end when cut. */
void rdl__err_where(rdl_err_t *err, const char *server, const char *name, size_t name_len);

/* The printable form itself, NUL-terminated within cap (> 4). Returns the length written. */
size_t rdl__printable(char *to, size_t cap, const char *bytes, size_t len);

/* One line for a person, within cap (> 4): control characters become spaces; cut as above. Returns the length written.
 */
size_t rdl__line(char *to, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
size_t rdl__vline(char *to, size_t cap, const char *fmt, va_list args) __attribute__((format(printf, 3, 0)));

#endif
