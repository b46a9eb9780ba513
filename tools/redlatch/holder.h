/* SPDX-License-Identifier: MIT */
/* holder.h - who holds what could not be taken, in words. */
#ifndef REDLATCH_TOOL_HOLDER_H
#define REDLATCH_TOOL_HOLDER_H

#include "tools/redlatch/run_options.h"

#include <redlatch/inspect.h>
#include <stdbool.h>

#define HOLDER_CAP 512

/* "held by db3, pid 812 (backup.sh), for 41.0 s, 28.3 s left, 3 wait"; cut to cap. False, and `to` is empty: nobody
 * holds it. Bytes of others are shown as text_safe does. */
bool holder_print(const rdl_inspection_t *found, char *to, size_t cap);

/* Ask the servers who holds the first of the NAMEs that is held. Takes as long as an answer may take, of a server that
 * has gone. False, and `to` is empty: nobody does any more, or nobody says. */
bool holder_ask(const struct run_options *o, rdl_client_t *const *clients, size_t count, char *to, size_t cap);

#endif
