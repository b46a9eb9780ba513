/* SPDX-License-Identifier: MIT */
/* server.h - the server's address as people may see it. */
#ifndef REDLATCH_TOOL_SERVER_H
#define REDLATCH_TOOL_SERVER_H

#include "tools/redlatch/text.h"

#define SERVER_DEFAULT "redis://127.0.0.1:6379"

/* A URI for messages: without user, password and query, unprintable bytes as \xHH. Works on anything, valid or not.
 * Returns `to`. */
const char *server_label(const char *uri, char to[TEXT_SAFE_CAP]);

/* The same with its query, for others to connect to: without user and password. NULL without memory; owned by the
 * caller. */
char *server_without_secret(const char *uri);

/* Overwrite the user and the password in a URI of argv, so that ps no longer shows them. */
void server_hide_secret(char *uri);

/* The same for a list of URIs with commas between them. Where there may be a secret nothing of it is left: a comma that
 * was forgotten to be percent-encoded tears a password apart. */
void server_hide_secrets(char *list);

/* The URI that the environment names, else the default one. */
const char *server_inherited(void);

/* The first line of a file; owned by the caller. NULL when it has none, which was said. */
char *server_read(const char *path);

/* The URI that is `given` in argv (NULL: it is not), or that the environment names; where it is @FILE, what stands
 * there. Owned by the caller. A secret in argv is overwritten. NULL: it was said why, and *ret_status is the exit
 * status. */
char *server_find(char *given, int *ret_status);

#endif
