/* talk.h - a conversation with a server on the loop: commands go out, replies come in, and neither takes too long.
 *
 * The cluster's pollers, the sentinels and the subscriber each have one with their server. A talk lasts as long as its
 * connection: when that ends, whatever was to be sent or awaited is dropped, and its owner starts it again if it likes.
 * @thread loop, all of it but init and done
 */
#ifndef REDLATCH_IO_TALK_H
#define REDLATCH_IO_TALK_H

#include "core/io/conn.h"

struct rdl__talk;

struct rdl__talk_ops {
    void (*up)(struct rdl__talk *talk, int64_t now);
    /* Whatever the server says, asked or not. `now` is after the bytes came. */
    void (*reply)(struct rdl__talk *talk, const struct rdl__reply *reply, int64_t now);
    /* The connection is closed: it broke or was given up, or (`was_up` false) an attempt to connect has failed. `why`
     * begins with the server. */
    void (*lost)(struct rdl__talk *talk, const rdl_err_t *why, bool was_up, int64_t now);
    /* The moment of rdl__talk_pause has come, or that of rdl__talk_ask, and nothing is awaited. NULL: of no interest.
     */
    void (*due)(struct rdl__talk *talk, int64_t now);
};

struct rdl__talk {
    struct rdl__conn conn; /* its owner starts it */
    const struct rdl__talk_ops *ops;
    struct rdl__buf out; /* commands; its owner appends to it while the talk is up */
    size_t out_sent;
    struct rdl__timer timer; /* an answer is overdue, or a pause is over */
    unsigned awaited;        /* answers; its owner counts them down */
};

void rdl__talk_init(struct rdl__talk *talk, struct rdl__node *node, const struct rdl__talk_ops *ops);
void rdl__talk_done(struct rdl__talk *talk); /* of one that is stopped, or was never set up */

static inline bool rdl__talk_up(const struct rdl__talk *talk)
{
    return talk->conn.state == RDL__CONN_UP;
}

/* Append a command of the words up to NULL. */
void rdl__talk_put(struct rdl__talk *talk, const char *word, ...) __attribute__((sentinel));

/* Send what was appended. It may end in ops->lost. */
void rdl__talk_send(struct rdl__talk *talk, int64_t now);

/* Send what was appended. If so many answers have not come within command_timeout_ms, the talk is lost. */
void rdl__talk_ask(struct rdl__talk *talk, unsigned answers, int64_t now);

/* Have ops->due called then. */
void rdl__talk_pause(struct rdl__talk *talk, int64_t until);

/* Give up the connection: ops->lost is called. `why` may go with it. */
void rdl__talk_lose(struct rdl__talk *talk, int code, const char *why, int64_t now);

/* End the connection, or the attempt to make one; nothing is called any more. */
void rdl__talk_stop(struct rdl__talk *talk);

#endif
