/* SPDX-License-Identifier: MIT */
/* probe.h - a conversation with one server, whatever kind it is: a question, its answer, one after the other.
 *
 * For what looks at servers and takes no locks. The thread that asks waits, at most command_timeout_ms for each answer
 * and connect_timeout_ms for the connection.
 */
#ifndef REDLATCH_INSPECT_PROBE_H
#define REDLATCH_INSPECT_PROBE_H

#include "core/base/sync.h"
#include "core/io/conn.h"
#include "core/wire/reply.h"

#include <redlatch/client.h>

/* What the conversations with the servers of one URI share. Its owner's thread alone uses it. */
struct rdl__reach {
    struct rdl__mem mem;
    struct rdl__sinks sinks;
    rdl_client_options_t options; /* checked, with defaults filled in; its strings are the caller's */
    struct rdl__uri uri;
    struct rdl__loop *loop;
    struct rdl__resolver *resolver;
    struct rdl__tls *tls, *sentinel_tls; /* NULL: plain connections */
};

/* RDL_OK; RDL_EINVAL: the URI or the options are wrong; RDL_ENOMEM. rdl__reach_done in any case. */
int rdl__reach_init(struct rdl__reach *reach, const char *uri, const rdl_client_options_t *options, rdl_err_t *err);
void rdl__reach_done(struct rdl__reach *reach); /* its probes are closed */

struct rdl__probe {
    struct rdl__node node;
    struct rdl__conn conn; /* the loop's until it is up, and again when it is to be closed */
    struct rdl__task open_task, close_task;
    struct rdl__parker parker;
    struct rdl__buf out;
    bool broken;
    rdl_err_t why; /* it is broken, or was never up */
    struct rdl__reply none;
};

/* Connect to the server there (a path, where the URI says unix:). `sentinel`: with the sentinels' credentials and TLS.
 * RDL_OK, or what rdl_client_open says of a server that cannot be reached or refuses; then *ret_probe is untouched. */
int rdl__probe_open(const struct rdl__reach *reach, const char *host, int port, bool sentinel,
                    struct rdl__probe **ret_probe, rdl_err_t *err);
struct rdl__probe *rdl__probe_close(struct rdl__probe *probe); /* NULL is fine; returns NULL */

/* Ask with a command of the words up to NULL. The answer is valid until the next question. One that does not come is
 * an error reply, here and from then on: `broken`, with the reason in `why`. */
const struct rdl__reply *rdl__probe_ask(struct rdl__probe *probe, const char *word, ...) __attribute__((sentinel));

/* The same in steps: send a command, or what was appended to `out`; take the next answer, or a message that nobody
 * asked for. */
void rdl__probe_flush(struct rdl__probe *probe);
void rdl__probe_send(struct rdl__probe *probe, const char *word, ...) __attribute__((sentinel));
const struct rdl__reply *rdl__probe_next(struct rdl__probe *probe);

#endif
