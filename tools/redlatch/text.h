/* SPDX-License-Identifier: MIT */
/* text.h - what the command says on stderr.
 *
 * Nobody who says something waits for whoever reads it: lines go into a bounded queue, and a thread of its own writes
 * them. So a pipe that is full, or a terminal that is stopped, holds up neither the command nor a renewal; lines that
 * find the queue full are dropped and counted, and a line that comes again within five seconds is counted only. One
 * write(2) a line, so that lines of several processes on one log do not mix.
 *
 * Texts that came from outside (names, arguments, a server's words) go through text_safe first: what a terminal would
 * obey never reaches it. */
#ifndef REDLATCH_TOOL_TEXT_H
#define REDLATCH_TOOL_TEXT_H

#include <stddef.h>

/* Room for text_safe; what does not fit is cut and ends in "...". */
#define TEXT_SAFE_CAP 128

/* Copy `len` bytes with everything but printable ASCII as \xHH. Returns `to`. */
const char *text_safe(const char *bytes, size_t len, char to[TEXT_SAFE_CAP]);

/* Say one line, "redlatch: " before it and a newline after it. Never waits; on any thread. A stderr that cannot be
 * written is ignored. */
void text_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Show a line that the next one replaces, and that is gone before anything else is said: what is waited for. NULL: none
 * any more; then it is gone when this returns, unless the terminal takes a second for that. Only where stderr is a
 * terminal, and we are in its foreground; as wide as that at most. */
void text_status(const char *line);

/* From now on each line has the time at which it was said, in UTC: "redlatch: 2026-01-31T12:00:00.000Z ...". */
void text_stamp(void);

/* Wait until all that was said is written, for a second at most. */
void text_flush(void);

#endif
