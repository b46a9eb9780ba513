/* SPDX-License-Identifier: MIT */
/* top_page.h - what `redlatch top` shows, as lines of text: of the locks, of one lock, of the keys.
 *
 * Pure, like the model: it neither asks a server nor knows a terminal, but for its size. */
#ifndef REDLATCH_TOOL_TOP_PAGE_H
#define REDLATCH_TOOL_TOP_PAGE_H

#include "tools/redlatch/top_watch.h"

#include <stdio.h>

enum top_style { TOP_PLAIN, TOP_TITLE, TOP_COLUMNS, TOP_WAITED, TOP_SELECTED, TOP_TROUBLE, TOP_PROMPT, TOP_STYLES };

#define TOP_HEIGHT_MOST 1000

struct top_page {
    char *text; /* lines, each with a newline; NULL: no memory */
    enum top_style style[TOP_HEIGHT_MOST];
};

/* What the viewer does. */
struct top_ui {
    enum { TOP_AT_LIST, TOP_AT_LOCK, TOP_AT_HELP } at;
    enum { TOP_NO_PROMPT, TOP_PROMPT_PATTERN, TOP_PROMPT_EVICT } prompt;
    char typed[TOP_PATTERN_ROOM];
    char message[256]; /* "": none */
    char *selected;    /* the name; NULL: the first of the list */
    size_t selected_len;
    size_t row;             /* where it was in the list */
    size_t first;           /* line of the text that is at the top */
    rdl_inspection_t *seen; /* TOP_AT_LOCK */
    char *text;             /* and what it says; TOP_AT_HELP: the keys */
};

/* Lay out a page of `height` lines, of which none is longer than `width`; at least 1 by 1. Moves the list so that what
 * is selected is in it (state->first, ->rows; ui->row). To be freed with top_page_done. */
void top_page_make(struct top_page *page, struct top_state *state, struct top_model *model, struct top_ui *ui,
                   int width, int height, int64_t now_ms);
void top_page_done(struct top_page *page);

/* The same for no terminal: all locks, whole, or as wide as `width`; an empty line ends it. */
void top_page_print(FILE *out, const struct top_state *state, struct top_model *model, int width, int64_t now_ms);

/* As one JSON object and a newline. False: no memory. */
bool top_page_json(FILE *out, const struct top_state *state, struct top_model *model, int64_t now_ms);

/* The keys, for the page that shows them. */
extern const char top_page_keys[];

#endif
