/* shown.h - what was found out about a lock, as text for people and as JSON for programs. */
#ifndef REDLATCH_TOOL_SHOWN_H
#define REDLATCH_TOOL_SHOWN_H

#include <redlatch/inspect.h>
#include <stdbool.h>
#include <stdio.h>

/* Columns for a table that nobody's terminal bounds. */
#define SHOWN_UNBOUNDED 0

/* A table of locks: its head, and a line for each. `width` is the terminal's, in columns: narrow ones get fewer columns
 * and cut names, which end in "…" then. SHOWN_UNBOUNDED: all, whole. */
void shown_head(FILE *out, int width);
void shown_line(FILE *out, const rdl_inspection_t *lock, int width);

/* Everything about one, a line each. */
void shown_all(FILE *out, const rdl_inspection_t *lock);

/* As one JSON object and a newline; `wide`: over several lines. False without memory. */
bool shown_json(FILE *out, const rdl_inspection_t *lock, bool wide);

#endif
