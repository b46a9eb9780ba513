/* SPDX-License-Identifier: MIT */
/* enumerate_multi.h - every order in which multi-locks over a few names can meet.
 *
 * Here the client is the product's own: the machine of multi.c, which orders tries, waits and releases of its parts.
 * What it orders goes to the servers, one for each name, in order on each way; the servers run the product's Lua.
 * Answers come in any order. Who waits for a part looks when it is free. A party may be told to stop, and pauses may
 * end, at any moment.
 *
 * A fault is one of these, wherever it can strike:
 *   an answer is lost, and the request is sent again
 *   an answer to a take is lost, or its request is, and its call is over (RDL_EUNKNOWN) with the undo behind it
 *   the lease of a part that was granted ends, which the party knows by then (protocol.md, 4)
 * How the calls of single locks come to that is enumerate.h's business.
 *
 * What must not be:
 *   BOTH    two parties have all of their locks, and a name in common
 *   GONE    a party has all of its locks, and a server does not know one
 *   ZOMBIE  a server knows a hold of a party that neither has it nor is about to
 *   STUCK   somebody wants more, and nothing can happen
 */
#ifndef TESTS_SCRIPT_ENUMERATE_MULTI_H
#define TESTS_SCRIPT_ENUMERATE_MULTI_H

#include "tests/script/search.h"

#include <stdbool.h>

#define MULTI_PARTIES 3
#define MULTI_NAMES 3

/* The names of one multi-lock, in the order of its parts: "xyz". */
struct multi_scenario {
    const char *parties[MULTI_PARTIES]; /* NULL: nobody */
    int stops;                          /* how many may be told to stop */
    bool pauses_end;                    /* what is held while waiting is released after a while */
    int faults;
    bool blind;   /* planted: a part whose lease has ended is counted all the same */
    bool no_undo; /* planted: a call whose outcome is unknown is over without one */
};

struct search_result enumerate_multi(const struct multi_scenario *scenario, size_t limit);

#endif
