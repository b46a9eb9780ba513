/* SPDX-License-Identifier: MIT */
/* line_inner.h - a client of the enumeration of the line from inside, for its files: line_requests.c, what it sends,
 * and line_client.c, what it does.
 */
#ifndef TESTS_SCRIPT_LINE_INNER_H
#define TESTS_SCRIPT_LINE_INNER_H

#include "core/call/line.h"
#include "core/call/verb.h"
#include "tests/script/line_client.h"

#define NOW (INT64_C(1000000) * RDL__SEC)

extern struct line_client *line_now; /* the client that something happens to */
extern struct line_without line_without;

struct rdl__name *line_name(void); /* the client's, with its notes */
int64_t line_signed_n(uint8_t n, bool kept);

/* A call as line.c looks at it: a thread's, or that of a request. */
void line_lay_out(struct rdl__call *ret, const struct rdl__verb *verb, const struct line_thread *t);
void line_lay_out_sent(struct rdl__call *ret, const struct rdl__verb *verb, const struct line_sent *sent);

void line_send_try(unsigned lane, unsigned thread);
void line_send_release(unsigned thread);
void line_send_undo(unsigned lane, struct line_sent undo); /* its kind, thread, n, kept, and the call's line */
void line_drop_sent(unsigned lane, unsigned at);

bool line_turn_unheard(void); /* rdl__line_unheard */

#endif
