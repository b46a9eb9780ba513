/* SPDX-License-Identifier: MIT */
/* enumerate_kept.h - every order in which owners can meet at a read-write lock that a client keeps (protocol.md, 11).
 *
 * One client or two of the product's (kept_client.h), whose owners run short programs; outsiders, each a client of its
 * own that keeps nothing, or another implementation's; and a server with the product's Lua (kept_server.h). A program
 * is one letter a verb:
 *
 *   W w   take the write end, give it back      T   take it by a single try
 *   R r   take the read end, give it back       S   take it by a single try
 *   x     end inside
 *   =     of the first two owners of a client: wait until the other has done the first verb of its program
 *
 * Owners' answers are read as soon as the server has run what they ask for, the client's own later. Recalls and
 * acknowledgements are read in order, at any later time. When all programs are through, the clients close.
 *
 * A fault is one of these, wherever it can strike:
 *   a connection breaks, and so an answer is lost, or a request is late, until a KILL has come: it is sent again, or
 *   given up and undone
 *   a recall is lost, or comes twice
 *   the connection of the subscription breaks
 * Besides, owners may give up what they wait for. Who waits at the server is woken by messages alone, not by the hint
 * after which it looks in any case.
 *
 * What must not be:
 *   BOTH      somebody writes, and somebody else reads or writes; who has ended inside does until the lease is over
 *   GONE      somebody believes to hold what the server does not know
 *   ASLEEP    nothing is under way, and somebody sleeps because of what is kept with nobody inside
 *   STUCK     nothing can happen, and somebody is not through
 *   LEFT      nothing can happen, all are through, and the server has a key
 *   LIVELOCK  the clients draw numbers without end
 */
#ifndef TESTS_SCRIPT_ENUMERATE_KEPT_H
#define TESTS_SCRIPT_ENUMERATE_KEPT_H

#include "tests/script/kept_client.h"
#include "tests/script/search.h"

#define OUTSIDERS 2

struct kept_scenario {
    const char *owners[KEPT_CLIENTS][KEPT_OWNERS]; /* their programs; NULL: nobody */
    const char *outsiders[OUTSIDERS];
    bool peers;   /* outsiders are another implementation's: what they say is planted, and recalls nobody */
    bool twins;   /* the first two owners of a client are one, who has two programs: one for each end, without x */
    bool unheard; /* nobody listens for recalls before it takes the lock */
    bool no_kill; /* planted: a connection is left, and what is late on it not killed */
    int faults;
    int gives_up; /* how many owners may */
};

struct search_result enumerate_kept(const struct kept_scenario *scenario, size_t limit);

#endif
