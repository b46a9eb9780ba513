/* SPDX-License-Identifier: MIT */
/* web.h - the exporter's HTTP server. */
#ifndef REDLATCH_EXPORTER_WEB_H
#define REDLATCH_EXPORTER_WEB_H

#include "tools/exporter/gather.h"
#include "tools/redlatch/options.h"

#define WEB_PORT 10379

/* Where to listen. */
struct web_address {
    char host[256]; /* "": 127.0.0.1 */
    char port[6];
};

/* Read "[HOST]:PORT". Returns 0, or -1 with `why` filled in. */
int web_parse(const char *text, struct web_address *ret, struct usage_error *why);

/* Listen. Returns a descriptor, or -1: it was said why. */
int web_listen(const struct web_address *address);

struct web;

/* Serve what `g` has on a descriptor of web_listen, which is taken over. NULL: it was said why. */
struct web *web_start(int fd, struct gather *g);

/* Finish what is being answered, and free it. */
void web_stop(struct web *w);

/* Print "http://ADDRESS:PORT/metrics" of what is listened to. False: it cannot be written, and errno is set. */
bool web_print_url(FILE *out, int fd);

#endif
