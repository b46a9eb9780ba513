/* text.h - what the command says on stderr.
 *
 * One write(2) a line, so that lines of several processes on one log do not mix. Texts that came from outside (names,
 * arguments, a server's words) go through text_safe first: what a terminal would obey never reaches it. */
#ifndef REDLATCH_TOOL_TEXT_H
#define REDLATCH_TOOL_TEXT_H

#include <stddef.h>

/* Room for text_safe; what does not fit is cut and ends in "...". */
#define TEXT_SAFE_CAP 128

/* Copy `len` bytes with everything but printable ASCII as \xHH. Returns `to`. */
const char *text_safe(const char *bytes, size_t len, char to[TEXT_SAFE_CAP]);

/* Print one line to stderr, "redlatch: " before it and a newline after it. A stderr that cannot be written is ignored. */
void text_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
