/* SPDX-License-Identifier: MIT */
/* tally.h - what the server has done, read from its INFO over a connection of its own.
 *
 * Commands called by scripts are in INFO as well, under their own names. So only what no script calls is counted as
 * sent by a client: evalsha, eval, subscribe and the like; and of the one plain command of a kind (kind.h) one a pair.
 */
#ifndef TOOLS_BENCHMARKS_TALLY_H
#define TOOLS_BENCHMARKS_TALLY_H

#include "tools/benchmarks/programs/measure.h"

struct redisContext;

struct tally {
    double commands;  /* from clients, without the plain one */
    double script_us; /* in scripts */
    double server_us; /* CPU of the server process */
    double client_us; /* CPU of this process */
    double plain_calls;
    double plain_us;
};

/* plain may be NULL. */
struct tally tally_read(struct redisContext *c, const char *plain);

/* What was done from one to the other, for each of so many pairs: server_us, client_us, script_us (with the
 * plain command), commands. */
void tally_answer(const struct tally *from, const struct tally *to, double pairs);

/* Sleep through the phase, and read at its start and at its end. */
void tally_phase(struct redisContext *c, const char *plain, struct phase phase, struct tally *from, struct tally *to);

#endif
