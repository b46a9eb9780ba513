/* SPDX-License-Identifier: MIT */
/* describer.h - keeps the client's description at its key, for as long as the client is open (describer.c). */
#ifndef REDLATCH_SERVICE_DESCRIBER_H
#define REDLATCH_SERVICE_DESCRIBER_H

#include "core/io/lane.h"
#include "core/service/describe.h"

#include <redlatch/client.h>

#define RDL__CLIENT_NAME_MAX 160 /* of a name that is made here, with its NUL */

struct rdl__describer {
    /* immutable once open */
    bool anonymous;
    int64_t interval_ms;
    struct rdl__description what;

    /* loop thread only */
    struct rdl__timer timer;
    struct rdl__req req;
    struct rdl__req farewell;
    struct rdl__lane *lane; /* of the present request */
    bool began;             /* the client has held something, or waited */
    bool written;           /* since it began: there may be something to take away */
    bool again;             /* to be written when the request under way is settled */
    bool refused;           /* not to be tried before there is another connection */
    bool told;              /* of a failure, since it was last written */
    bool closed;

    /* the loop's once the request is settled; under its lane's mutex until then */
    enum { RDL__DESCRIBED, RDL__DESCRIBE_DETOURED, RDL__DESCRIBE_REFUSED, RDL__DESCRIBE_FAILED } outcome;
    char refusal[128];
};

/* What is said of this process, from the options. The describer is a client's. */
void rdl__describer_init(struct rdl__describer *d, const rdl_client_options_t *o);

/* A name for the client's connections, [!-~]+: "redlatch", and unless it is anonymous, who it is. */
void rdl__describer_name(const struct rdl__describer *d, char to[RDL__CLIENT_NAME_MAX]);

/* The client holds a lock, or waits for one: soon somebody may ask who that is.  @thread loop */
void rdl__describer_begin(struct rdl__describer *d, int64_t now);
static inline void rdl__describer_used(struct rdl__describer *d, int64_t now)
{
    if (!d->began && !d->anonymous)
        rdl__describer_begin(d, now);
}

/* There is a connection on this lane; `anew`: to a server that may know nothing.  @thread loop */
void rdl__describer_up(struct rdl__describer *d, const struct rdl__lane *lane, bool anew, int64_t now);

/* Take the description away, unless the client leaves something held behind, which somebody may ask about: then it goes
 * with its time. Nothing is waited for.  @thread loop */
void rdl__describer_close(struct rdl__describer *d, bool holds, int64_t now);

#endif
