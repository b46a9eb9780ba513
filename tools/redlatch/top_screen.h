/* SPDX-License-Identifier: MIT */
/* top_screen.h - the terminal of `redlatch top`, by curses: a page is painted, a key is read, and the terminal is as it
 * was when it is closed. All on one thread. */
#ifndef REDLATCH_TOOL_TOP_SCREEN_H
#define REDLATCH_TOOL_TOP_SCREEN_H

#include "tools/redlatch/top_page.h"

enum {
    TOP_KEY_NONE = -1,
    TOP_KEY_UP = 0x1000, /* below: the character */
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_OTHER,
};

/* Is stdin and stdout a terminal that can be painted on? NULL: yes; else why not, static. */
const char *top_screen_refuses(void);

/* Take the terminal. False: no memory. Signals are the caller's to catch before. */
bool top_screen_open(void);

/* Give it back as it was, also before it is stopped; again is fine. Waits until the terminal takes what is written. */
void top_screen_close(void);

/* The same without waiting: what it has not taken yet is thrown away. The last thing that is done to the screen.
 * Async-signal-safe, so that a paint that the terminal does not take can be ended. */
void top_screen_leave(void);

/* Take it again after top_screen_close, or when its size has changed. */
void top_screen_again(void);

void top_screen_size(int *ret_width, int *ret_height);
void top_screen_paint(const struct top_page *page);
int top_screen_key(void); /* never waits */

#endif
