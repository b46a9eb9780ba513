/* SPDX-License-Identifier: MIT */
/* talk.h - a connection on the loop for commands and replies, with a time-out: used by the cluster's pollers, the
 * sentinels and the subscriber.
 *
 * A talk lasts as long as its connection: when that ends, unsent commands and awaited replies are dropped, and its user
 * starts it again if need be.
 * @thread loop, all of it, unless it says otherwise
 */
#ifndef REDLATCH_IO_TALK_H
#define REDLATCH_IO_TALK_H

#include "core/io/conn.h"

struct rdl__talk;

struct rdl__talk_ops {
    void (*up)(struct rdl__talk *talk, int64_t now);
    /* A reply or a push message. `now` was read after the bytes came. */
    void (*reply)(struct rdl__talk *talk, const struct rdl__reply *reply, int64_t now);
    /* The connection was closed: it broke or was given up, or (`was_up` false) an attempt to connect has failed. The
     * text of `why` begins with the server. */
    void (*lost)(struct rdl__talk *talk, const rdl_err_t *why, bool was_up, int64_t now);
    /* The time of rdl__talk_pause or rdl__talk_ask has come, and no answer is awaited. May be NULL. */
    void (*due)(struct rdl__talk *talk, int64_t now);
};

struct rdl__talk {
    struct rdl__conn conn; /* its owner starts it */
    const struct rdl__talk_ops *ops;
    struct rdl__buf out; /* commands; its owner appends to it while the talk is up */
    size_t out_sent;
    struct rdl__timer timer; /* an answer is overdue, or a pause is over */
    unsigned awaited;        /* how many answers; its user counts them down */
};

/* @thread any */
void rdl__talk_init(struct rdl__talk *talk, struct rdl__node *node, const struct rdl__talk_ops *ops);
void rdl__talk_done(struct rdl__talk *talk); /* stopped, or zeroed  @thread any */

static inline bool rdl__talk_up(const struct rdl__talk *talk)
{
    rdl__assert_on_loop(talk->conn.node->loop);
    return talk->conn.state == RDL__CONN_UP;
}

/* Append a command of the words up to NULL. */
void rdl__talk_put(struct rdl__talk *talk, const char *word, ...) __attribute__((sentinel));

/* Send what was appended. May call ops->lost. */
void rdl__talk_send(struct rdl__talk *talk, int64_t now);

/* Send what was appended. If so many answers have not come within command_timeout_ms, the talk is lost. */
void rdl__talk_ask(struct rdl__talk *talk, unsigned answers, int64_t now);

/* Call ops->due at `until`. */
void rdl__talk_pause(struct rdl__talk *talk, int64_t until);

/* Close the connection, and call ops->lost. `why` may be part of what is closed. */
void rdl__talk_lose(struct rdl__talk *talk, int code, const char *why, int64_t now);

/* Close the connection, or end the attempt to connect; no function is called any more. */
void rdl__talk_stop(struct rdl__talk *talk);

#endif
