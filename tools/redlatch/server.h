/* server.h - the server's address as people may see it. */
#ifndef REDLATCH_TOOL_SERVER_H
#define REDLATCH_TOOL_SERVER_H

#include <stddef.h>

#define SERVER_DEFAULT "redis://127.0.0.1:6379"

/* What precedes the server's name in a URI that may hold a user and a password, for messages: the URI without them and
 * without its query, unprintable bytes as \xHH. Works on anything, valid or not; cut to cap. */
void server_label(const char *uri, char *to, size_t cap);

/* Overwrite the user and the password in a URI of argv, so that ps no longer shows them. */
void server_hide_secret(char *uri);

#endif
