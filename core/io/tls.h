/* SPDX-License-Identifier: MIT */
/* tls.h - TLS over a socket: the context that a client's connections share, and the stream that each has of its own.
 *
 * A stream sits between a connection and its rdl__sock and is read and written by the same rules: one reader and one
 * writer at a time, on any threads, neither ever kept waiting by the other's system calls. It begins, shakes hands and
 * ends on the loop, with its connection (conn.c). See tls.c.
 */
#ifndef REDLATCH_IO_TLS_H
#define REDLATCH_IO_TLS_H

#include "core/base/mem.h"
#include "core/io/sock.h"

#include <redlatch/client.h>
#include <redlatch/error.h>

#define RDL__TLS_RECORD ((size_t)16 * 1024) /* most that one record carries: a receive must have room for as much */

struct rdl__tls;
struct rdl__tls_stream;

/* Keep the options (NULL: the defaults) and read the files that they name.
 * RDL_OK, RDL_ENOMEM, or RDL_EINVAL with what is wrong with the options or a file. */
int rdl__tls_new(const struct rdl__mem *mem, const rdl_tls_options_t *options, struct rdl__tls **ret_tls,
                 rdl_err_t *err);
struct rdl__tls *rdl__tls_free(struct rdl__tls *tls); /* its streams have ended. NULL is fine; returns NULL */

/* A stream over a connected socket to `host`, whose certificate must be for that name or address unless the options say
 * otherwise. Files that have changed are read again. NULL: `why` says the reason. */
struct rdl__tls_stream *rdl__tls_begin(struct rdl__tls *tls, struct rdl__sock *sock, const char *host, char *why,
                                       size_t cap);
struct rdl__tls_stream *rdl__tls_end(struct rdl__tls_stream *stream); /* NULL is fine; returns NULL */

/* Go on with the handshake: RDL__TLS_READY, what the socket must become first, or -errno as below. */
enum { RDL__TLS_READY, RDL__TLS_WANTS_READ, RDL__TLS_WANTS_WRITE };
int rdl__tls_handshake(struct rdl__tls_stream *stream);

/* As rdl__sock_send, _recv (cap at least RDL__TLS_RECORD) and _poll; -EPROTO: ask rdl__tls_why. After a 0 of send the
 * next one must begin with the same bytes, wherever they are by then, and may have more behind them. */
ssize_t rdl__tls_send(struct rdl__tls_stream *stream, const void *bytes, size_t len);
ssize_t rdl__tls_recv(struct rdl__tls_stream *stream, void *to, size_t cap, int64_t now, int64_t until);
ssize_t rdl__tls_poll(struct rdl__tls_stream *stream, void *to, size_t cap, int64_t *now, int64_t for_ns,
                      int64_t *ret_idle);

/* What broke the stream, for people.  @thread the one that was answered -EPROTO */
const char *rdl__tls_why(const struct rdl__tls_stream *stream);

#endif
