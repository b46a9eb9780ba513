/* SPDX-License-Identifier: MIT */
/* guide.h - a failover without waiting: a master, its replica, and a sentinel that says what the test wants.
 *
 * Real sentinels take a second or more to agree, and lead clients straight to the servers. Here the master is reached
 * through a proxy, and the change of masters is one call: it takes no time, and the test decides what had reached whom
 * before it. The former master goes on and believes itself one.
 */
#ifndef TESTS_SUPPORT_GUIDE_H
#define TESTS_SUPPORT_GUIDE_H

#include "tests/support/probe.h"
#include "tests/support/proxy.h"
#include "tests/support/server.h"

struct guide {
    struct server *data[2]; /* the master; its replica, and successor */
    struct probe *probe[2];
    struct proxy *way; /* to the master */
    char *uri;         /* for rdl_client_open */

    struct server *sentinel; /* carries announcements; what is asked of it the proxy answers */
    struct probe *herald;
    struct proxy *mouth;
    int epoch;    /* of its last word; below 100 */
    int rules[2]; /* the first is for the question where the master is */

    struct proxy
        *past; /* a sentinel that says for ever what was so at first, with rules like these; NULL: there is none */
    int past_rules[2];
};

struct guide *guide_start(const char *clock); /* the replica's, of clock.h; NULL: it is right */
void guide_stop(struct guide *g);             /* NULL is fine */

/* Besides, there is one that hears of nothing; it is the first in the URI. */
void guide_add_laggard(struct guide *g);

/* Whatever the master has done is at the replica.  */
void guide_sync(struct guide *g);

/* Whatever it does from now on never is. */
void guide_part(struct guide *g);

/* The replica is the master, and announced as that. */
void guide_switch(struct guide *g);

/* After that: the former master, which was never stopped, is announced again. What the other one has done it has not.
 */
void guide_switch_back(struct guide *g);

#endif
