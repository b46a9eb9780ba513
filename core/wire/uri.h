/* uri.h - where the server is, read from a URI. No name is resolved here. */
#ifndef REDLATCH_WIRE_URI_H
#define REDLATCH_WIRE_URI_H

#include "core/base/mem.h"

#include <redlatch/error.h>
#include <stdbool.h>

enum rdl__scheme { RDL__SCHEME_TCP, RDL__SCHEME_UNIX };

/* Strings are owned, NUL-terminated, percent-decoded; NULL when the URI does not say. */
struct rdl__uri {
    const struct rdl__mem *mem;
    enum rdl__scheme scheme;
    char *host; /* TCP: name or address, an IPv6 one without brackets. unix: the path */
    int port;   /* TCP; 6379 when not given */
    int db;     /* 0 when not given */
    char *username;
    char *password;
};

/* Forms and defaults: client.h, rdl_client_open. Scheme names in any case. Errors: RDL_EINVAL, whose message names what is
 * wrong and the place of the mistake, counted in bytes from 1 ("... at character 12"), and never quotes the URI, for it may hold a password;
 * RDL_ENOMEM. `rediss`, `sentinel`, `cluster` are answered with RDL_EINVAL "not supported yet". Refused: unknown query
 * parameters, a fragment, an empty host, a port outside 1..65535, a db outside 0..2^31-1, a %00 anywhere, bad percent escapes,
 * a unix path that does not fit sockaddr_un or is not absolute. */
int rdl__uri_parse(const struct rdl__mem *mem, const char *text, struct rdl__uri *ret_uri, rdl_err_t *err);
/* Other credentials, owned by `mem` like the rest and taken over; NULL: keep what the URI says. */
void rdl__uri_credentials(struct rdl__uri *uri, char *username, char *password);

void rdl__uri_done(struct rdl__uri *uri); /* wipes the password; a zeroed one is fine */

/* "host:port", "[v6]:port" or "unix:/path", for people; no user, no password. Cut to cap. */
void rdl__uri_node(const struct rdl__uri *uri, char *to, size_t cap);

#endif
