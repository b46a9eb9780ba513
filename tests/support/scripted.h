/* SPDX-License-Identifier: MIT */
/* scripted.h - a server that answers whatever a test wants, be it Redis' protocol or not: for answers that no real one
 * gives. */
#ifndef TESTS_SUPPORT_SCRIPTED_H
#define TESTS_SUPPORT_SCRIPTED_H

#include "tests/support/resp.h"

struct scripted;

/* Append the answer to one request, a whole frame; nothing: none. Runs on the server's thread, for one request at a
 * time. */
typedef void scripted_answer(void *arg, const char *request, size_t len, struct bytes *to);

/* Listens on a port of 127.0.0.1. */
struct scripted *scripted_start(scripted_answer *answer, void *arg);
void scripted_stop(struct scripted *s);
int scripted_port(const struct scripted *s);

void scripted_say(struct bytes *to, const char *text); /* append a string */

/* Is the request's first word that, in any case? */
bool scripted_is(const char *request, size_t len, const char *word);

#endif
