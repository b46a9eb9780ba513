/* SPDX-License-Identifier: MIT */
/* topics.h - what `redlatch help TOPIC` says: what several subcommands have in common. */
#ifndef REDLATCH_TOOL_TOPICS_H
#define REDLATCH_TOOL_TOPICS_H

#include <stdio.h>

struct topic {
    const char *name, *summary;
    void (*print)(FILE *out);
};

/* Ended by one without a name. */
extern const struct topic topics[];

/* Those that the help of run has within it. */
void topic_times(FILE *out);
void topic_servers(FILE *out);
void topic_command(FILE *out);

#endif
