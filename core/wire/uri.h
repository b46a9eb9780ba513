/* SPDX-License-Identifier: MIT */
/* uri.h - where the server is, read from a URI. No name is resolved here. */
#ifndef REDLATCH_WIRE_URI_H
#define REDLATCH_WIRE_URI_H

#include "core/base/mem.h"

#include <redlatch/error.h>
#include <stdbool.h>

enum rdl__scheme { RDL__SCHEME_TCP, RDL__SCHEME_UNIX, RDL__SCHEME_SENTINEL, RDL__SCHEME_CLUSTER };

#define RDL__SEEDS_MAX 64 /* servers that a URI may list */

struct rdl__seed {
    char *host;
    int port;
};

/* Strings are owned, NUL-terminated, percent-decoded; NULL when the URI does not say. */
struct rdl__uri {
    const struct rdl__mem *mem;
    enum rdl__scheme scheme;
    char *host; /* TCP: name or address, an IPv6 one without brackets. unix: the path. sentinel, cluster: NULL until it
                   is found */
    int port;   /* TCP; 6379 when not given */
    int db;     /* 0 when not given */
    bool tls;   /* rediss, sentinels, clusters */
    char *username;
    char *password;
    char *master; /* sentinel: what the sentinels call it */
    struct rdl__seed
        *seeds; /* sentinel: where they are; their port is 26379 when not given. cluster: some of the servers */
    unsigned seed_count;
};

/* Forms and defaults: client.h, rdl_client_open. Scheme names in any case. Errors: RDL_EINVAL, whose message names what
 * is wrong and the place of the mistake, counted in bytes from 1 ("... at character 12"), and never quotes the URI, for
 * it may hold a password; RDL_ENOMEM. Refused: unknown query parameters, a fragment, an empty host, a port
 * outside 1..65535, a db outside 0..2^31-1, a %00 anywhere, bad percent escapes, a unix path that does not fit
 * sockaddr_un or is not absolute. */
int rdl__uri_parse(const struct rdl__mem *mem, const char *text, struct rdl__uri *ret_uri, rdl_err_t *err);

/* Copies of other credentials; NULL: keep what the URI says. False: no memory, and nothing has changed. */
bool rdl__uri_credentials(struct rdl__uri *uri, const char *username, const char *password);

void rdl__uri_done(struct rdl__uri *uri); /* wipes the password; a zeroed one is fine */

/* The server was found there. False: no memory, and nothing has changed. */
bool rdl__uri_place(struct rdl__uri *uri, const char *host, int port);

/* "host:port", "[v6]:port", "unix:/path", "master name" or "cluster host:port", for people; no user, no password. Cut
 * to cap. */
void rdl__uri_node(const struct rdl__uri *uri, char *to, size_t cap);

#endif
