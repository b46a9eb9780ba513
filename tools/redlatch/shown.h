/* SPDX-License-Identifier: MIT */
/* shown.h - what was found out about a lock, as text for people and as JSON for programs. */
#ifndef REDLATCH_TOOL_SHOWN_H
#define REDLATCH_TOOL_SHOWN_H

#include <jansson.h>
#include <redlatch/inspect.h>
#include <stdbool.h>
#include <stdio.h>

/* Columns for a table that nobody's terminal bounds. */
#define SHOWN_UNBOUNDED 0

/* Columns of the terminal that stdout is; SHOWN_UNBOUNDED where it is none. */
int shown_width(void);

/* A time in five columns, "-" for one below 0. */
const char *shown_time(int64_t ms, char to[24]);

/* Who holds it: "db3 812 backup.sh" of one who says so; how many; of a number what is left. */
#define SHOWN_HOLDER_ROOM 320
const char *shown_holders(const rdl_inspection_t *lock, char to[SHOWN_HOLDER_ROOM]);

/* How long it has been held; -1: not known, or by several. */
int64_t shown_since(const rdl_inspection_t *lock);

/* A table of locks: its head, and a row for each. `width` is the terminal's, in columns: narrow ones get fewer columns
 * and cut names, which end in "…" then. SHOWN_UNBOUNDED: all, whole. Of times and numbers those below 0 are not known.
 */
struct shown_row {
    const char *type, *state, *holders, *name;
    size_t name_len;
    int64_t since_ms, left_ms, waiters;
    double changes; /* of holder, per second; where the table has them */
};
void shown_head(FILE *out, int width, bool changes);
void shown_row(FILE *out, const struct shown_row *row, int width, bool changes);
void shown_line(FILE *out, const rdl_inspection_t *lock, int width); /* a row of a table without changes */

/* Everything about one, a line each. */
void shown_all(FILE *out, const rdl_inspection_t *lock);

/* As one JSON object and a newline; `wide`: over several lines. False without memory. */
bool shown_json(FILE *out, const rdl_inspection_t *lock, bool wide);

/* A name as JSON; one that is no UTF-8 as it is shown to people, its bytes as hexadecimal digits in *ret_hex, to be
 * freed; NULL otherwise. */
json_t *shown_name_json(const char *bytes, size_t len, char **ret_hex);

#endif
