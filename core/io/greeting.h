/* SPDX-License-Identifier: MIT */
/* greeting.h - what a new connection says first, and what its answers tell: the last step of conn.h's.
 *
 * HELLO with the credentials, or where the server is older AUTH; CLIENT INFO, INFO, SELECT, ROLE, PING, and the node's
 * welcome, all at once.  @thread loop, all of it */
#ifndef REDLATCH_IO_GREETING_H
#define REDLATCH_IO_GREETING_H

#include "core/io/conn.h"

void rdl__greeting_begin(struct rdl__conn *conn, int64_t now);
void rdl__greeting_ready(struct rdl__conn *conn, int events, int64_t now); /* of the socket */
void rdl__greeting_forget(struct rdl__conn *conn);                         /* it may hold a password */

/* ---- conn.c ----------------------------------------------------------------------------------------------------- */

void rdl__conn_fail(struct rdl__conn *conn, int code, int64_t now, const char *text); /* `failed` is called */
void rdl__conn_attempt(struct rdl__conn *conn, int64_t now);                          /* from the start; it is closed */

#endif
