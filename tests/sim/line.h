/* SPDX-License-Identifier: MIT */
/* line.h - who stands in a queue at the server, as the commands that it runs show it.
 *
 * Who was refused has a place from then on, until it is let in or leaves. Who was dead for a while, or waited when the
 * server lost what it knew, may have lost its place; then it is left out, on both sides.
 */
#ifndef TESTS_SIM_LINE_H
#define TESTS_SIM_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIELD_SIZE 64
#define MOST_PLACES 256

struct place {
    char who[FIELD_SIZE];
    char spot[FIELD_SIZE];  /* its owner's, in the queue; as `who`, where that is the same */
    int64_t alive_until_ms; /* by the server's clock */
    bool vague;             /* it may or may not have been dropped */
};

struct line {
    struct place places[MOST_PLACES];
    size_t count;
    int64_t void_at; /* as of when the server is known to have lost what it knew */
};

/* `text` is the name of what they wait for. */
void line_refused(struct line *line, const char *text, const char *who, const char *spot, int64_t life_ms);
void line_let_in(struct line *line, const char *text, const char *who);
void line_left(struct line *line, const char *who);
void line_unsure(struct line *line, const char *who); /* whether it has a place, nobody can tell */

/* When the server last lost what it knew; to be said before each of the others. */
void line_void(struct line *line, int64_t at);

#endif
