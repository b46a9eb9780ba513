/* SPDX-License-Identifier: MIT */
/* line.h - a client's place in the line beside a lock (protocol.md, 5, rules 8 to 19; wire.md, Line), as its requests
 * say it.
 *
 * A client stands there once, however many of its calls wait. It enters with each try of a waiting call that is
 * refused, and with a release while calls of it still wait, or that a call is likely to follow; a grant takes it away,
 * and so does the undo of its last waiting call. A client may be named as the ear, which listens on the lock's channel
 * for all in line; if those of its calls that waited beside a grant have given up, its release takes that name away.
 * Only types whose news are RDL__NEWS_NAMED have a line.
 *
 * The scripts decide. What they need to be told, and is known to the client alone, is an enum rdl__line, chosen from
 * the call and from notes of the name (name.h, RDL__PLACED and those behind it) whenever a request is encoded. Most
 * functions below change these notes, also those that ask something or have a const call.
 */
#ifndef REDLATCH_CALL_LINE_H
#define REDLATCH_CALL_LINE_H

#include <redlatch/client.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdl__call;
struct rdl__name;

enum rdl__line {
    RDL__LINE_NOT,    /* nothing is said of it */
    RDL__LINE_AGAIN,  /* a take of a call that waits already */
    RDL__LINE_AMONG,  /* the same, beside other calls of its client: with the lock, that is the ear still */
    RDL__LINE_YIELDS, /* a take by a client whose last release has woken another: it gives way to that one */
    RDL__LINE_TURN,   /* a take by one whose last release was heard by others: it gives way to those for a moment */
    RDL__LINE_STAYS,  /* a release or undo: other calls of the client wait, or did when it was sent before */
    RDL__LINE_READS,  /* a release: none does, and the client may be named as the ear */
    RDL__LINE_LEAVES, /* an undo: none does */
    RDL__LINE_BACK,   /* a release: none does, but one is likely to come at once, and may find its place */
    RDL__LINE_STOOD,  /* a take that has not tried: it has found such a place */
};

/* As scripts read it; of all but RDL__LINE_NOT and _STOOD, which nothing is sent of. */
const char *rdl__line_word(enum rdl__line line);

/* What the take, release or undo that is encoded now says of it, which is noted for later ones.  @thread any */
enum rdl__line rdl__line_note_take(const struct rdl__call *call);
enum rdl__line rdl__line_note_release(const struct rdl__call *call);
enum rdl__line rdl__line_note_undo(const struct rdl__call *call);

/* A take begins on its record, and may wait. Does its client stand in the line already, so that it will be woken? Then
 * the place is this call's: it is counted as waiting, and its line is RDL__LINE_STOOD. In any case it is noted whether
 * the owner has come back at once.  @thread any */
bool rdl__line_take_place(struct rdl__call *call, int64_t now);

/* Does the client's next take give way to another, or stand in the line already, if it is one that may wait? A single
 * try does neither.  @thread any */
bool rdl__line_waits_first(const struct rdl__name *name);

/* The client's own channel of that lock was told that it is its turn, and nobody waits; or it ends. False: the place is
 * not known to be nobody's, or without memory cannot be given up, and who joins next tries at once. True: it is, and
 * the client leaves; or the name is gone.
 * @thread loop */
bool rdl__line_unheard(rdl_client_t *client, const char *channel, size_t len);

/* A handle of the name is dropped, while the client may stand in the line for a call that will not come: it leaves.
 * @thread any  @locks none */
void rdl__line_dropped(struct rdl__name *name);

/* The take was refused. Its client has entered the line with it, perhaps behind the undo by which another call has left
 * it meanwhile, which has taken the note away. */
void rdl__line_refused(const struct rdl__call *call);

/* The take was granted. Its client may be named as the ear for others that wait, which its release has to know. */
void rdl__line_granted(const struct rdl__call *call);

/* The release was answered. True: its client has entered the line with it, perhaps behind the undo by which it has left
 * it meanwhile, or was refused to, so it is to be undone, too. */
bool rdl__line_released(const struct rdl__call *call);

/* An undo was answered; that may be the late answer of a release that was given up, which is its own undo. May its
 * client stand in the line for nobody? It does if that release has entered it for a call that is likely to come
 * (RDL__STANDS); and if it was said that the client stays, as another call waited, and that one has been granted or has
 * given up by now. Then the undo is sent once more, and leaves. */
bool rdl__line_left_over(const struct rdl__call *call);

/* The undo was answered, and may have taken the client out of the line: who waits by now tries again.  @thread loop */
void rdl__line_undone(const struct rdl__call *call, int64_t now);

#endif
