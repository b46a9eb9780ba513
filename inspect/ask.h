/* SPDX-License-Identifier: MIT */
/* ask.h - questions that a calling thread puts to a server, and waits for.
 *
 * Questions may be repeated: where a connection breaks they are asked again on the next one, and all that was answered
 * before is told again. */
#ifndef REDLATCH_INSPECT_ASK_H
#define REDLATCH_INSPECT_ASK_H

#include "core/service/client.h"

#define RDL__ASK_MOST 200 /* commands at once: what the others of that connection have to wait for */

struct rdl__ask {
    unsigned commands; /* 1 to RDL__ASK_MOST */
    /* Append command i. `eval`: a script with its text.  @locks the lane's */
    void (*put)(void *arg, unsigned i, struct rdl__buf *to, bool eval);
    /* Keep what the answer to command i says, which may be an error; it is gone afterwards. @locks the lane's */
    void (*take)(void *arg, unsigned i, const struct rdl__reply *reply);
    void *arg;
};

/* Ask whoever has the slot; a single command, which is sent on where the slot has moved.  @thread any but the loop */
int rdl__ask_slot(rdl_client_t *client, unsigned slot, const struct rdl__ask *ask, rdl_err_t *err);

/* Ask that server; what it says of slots that are elsewhere is an answer, which the client remembers. */
int rdl__ask_shard(rdl_client_t *client, struct rdl__shard *shard, const struct rdl__ask *ask, rdl_err_t *err);

/* The slot of a key; 0 where there is one server. */
unsigned rdl__ask_slot_of(const rdl_client_t *client, const char *key, size_t len);

/* What the server's refusal means, for a person. Returns RDL_ESERVER. */
int rdl__ask_refused(const char *server, const char *words, rdl_err_t *err);

#endif
