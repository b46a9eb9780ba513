/* SPDX-License-Identifier: MIT */
/* rights.h - users with the rights that docs/acl.md names, as they stand there.
 *
 * The document is read from the folder that tests/run starts programs in, the tree's own.
 */
#ifndef TESTS_SUPPORT_RIGHTS_H
#define TESTS_SUPPORT_RIGHTS_H

#include "tests/support/server.h"

#include <stdint.h>

/* Call `take` with each line of rules that the document grants to that user under that heading, or with NULL under any;
 * without "ACL SETUSER", the user and the line's end. How many there are. */
int rights_read(const char *heading, const char *user, void (*take)(const char *rules, void *arg), void *arg);

/* Give that server what the document grants to that user under a heading; death when that is nothing, or is refused. */
void rights_grant(const struct server *server, const char *heading, const char *user);

/* How many different things has the server refused to anybody for want of a right? */
int64_t rights_refused(const struct server *server);

#endif
