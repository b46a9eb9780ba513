/* SPDX-License-Identifier: MIT */
/* enumerate_line.h - every order in which clients can meet in the line beside a plain lock (protocol.md, 5, rules 8 to
 * 19).
 *
 * Two to four clients of the product's (line_client.h), of a thread or two each, which run short programs, a Java
 * client, and a server with the product's Lua (line_server.h). A program is one letter a verb:
 *
 *   W u   take the lock, waiting; give it back      T   take it by a single try
 *   K r   take a hold to be kept; give it back when it is recalled, or too old (11)
 *
 * Of a take that is not granted the release is passed over. Requests are sent, run and answered in steps of their own,
 * and so is whatever the server says. What may happen besides, each so often as the scenario says, at any moment: a
 * wait ends; the connection of a client's subscriptions breaks, and what was under way there is lost; a connection with
 * requests breaks, and they are sent again behind a KILL; a release is given up; a client dies, and what it has sent is
 * run or not.
 *
 * Time passes only when nothing else can happen but that somebody begins to want the lock. Then the timers that are due
 * next are due, and how much that was is counted while somebody sleeps beside a lock that is free, or kept with nobody
 * inside. A channel on which nobody waits is freed when nothing else can happen, or after 2 s. After 5 s a lease of the
 * dead is over, and what is kept is too old.
 *
 * Not searched: forced unlocks (rule 17), who may not read the line, a server that forgets, an undo that is posted and
 * not sent at once, and more than one round of turns that somebody is owed (18).
 *
 * What must not be:
 *   BOTH    two believe to hold
 *   GONE    somebody believes to hold what the server does not know
 *   ASLEEP  somebody has slept beside a free lock for longer than the scenario allows
 *   STUCK   nothing can happen, and somebody is not through
 *   LEFT    nothing can happen, all are through, and the server has the lock
 *   LINE    the same, and the server has a line, which goes 15 s after the last entry
 */
#ifndef TESTS_SCRIPT_ENUMERATE_LINE_H
#define TESTS_SCRIPT_ENUMERATE_LINE_H

#include "tests/script/line_client.h"
#include "tests/script/search.h"

struct line_scenario {
    const char *threads[LINE_CLIENTS][LINE_THREADS]; /* their programs; NULL: nobody */
    const char *java;
    uint8_t returns; /* rule 19. Not 0: whoever takes the lock again does so at once. And a bit for each client that
                        begins as one whose last release has woken another, so that its first take counts as one that
                        comes back, with a channel that lingers */
    uint8_t time_outs, cuts, breaks, given_up, deaths;
    unsigned sleeps_ms; /* so long somebody may sleep beside a free lock */
    bool line_stays;    /* a line may be left */
    struct line_without without;
    const struct line_plant *plant;
};

struct search_result enumerate_line(const struct line_scenario *scenario, size_t limit);

#endif
