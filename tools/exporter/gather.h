/* SPDX-License-Identifier: MIT */
/* gather.h - what there is at the servers, asked for as often as it is wanted and no more often. */
#ifndef REDLATCH_EXPORTER_GATHER_H
#define REDLATCH_EXPORTER_GATHER_H

#include <redlatch/client.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gather_options {
    const char *uri;
    rdl_client_options_t client; /* its bounds on answers are set from timeout_ms */
    const char *pattern;         /* NULL: all locks */
    int64_t interval_ms;         /* what a scan has found is shown for so long */
    int64_t doctor_interval_ms;  /* from one examination to the next; 0: there is none */
    int64_t timeout_ms;          /* nobody waits longer for a scan */
    int max_locks;
};

struct gather;

/* Start it. The options, and what they point to, must outlive it. NULL without memory or threads. */
struct gather *gather_start(const struct gather_options *options);

/* All metrics. Waits for a scan for at most timeout_ms. NULL without memory; owned by the caller. Any thread. */
char *gather_text(struct gather *g, size_t *ret_len);

/* Whoever waits in gather_text goes on at once, with what there is. */
void gather_hurry(struct gather *g);

/* End and free it. False where a server keeps one of its threads waiting: after three seconds it is left as it is, and
 * only _exit may follow. */
bool gather_stop(struct gather *g);

#endif
