/* SPDX-License-Identifier: MIT */
/* scripts.h - the Lua files of this folder, built into the library.
 *
 * A new script is its file and one line in this list. At build time tools/build/embed.py takes each file's comments and
 * indentation away, puts in what they include, computes the SHA-1 that EVALSHA wants, and writes the table; a Lua file
 * that is not in the list stops the build.
 */
#ifndef REDLATCH_SCRIPTS_SCRIPTS_H
#define REDLATCH_SCRIPTS_SCRIPTS_H

#include <stddef.h>

/* X(id, name): the file is name.lua. The server is told of these whenever a connection is made. */
#define RDL__SCRIPTS_GREETING(X)                                                                                       \
    X(RDL__SCRIPT_REENTRANT_TAKE, "reentrant_take")                                                                    \
    X(RDL__SCRIPT_REENTRANT_RELEASE, "reentrant_release")                                                              \
    X(RDL__SCRIPT_REENTRANT_RENEW, "reentrant_renew")                                                                  \
    X(RDL__SCRIPT_REENTRANT_FORCE, "reentrant_force")                                                                  \
    X(RDL__SCRIPT_FENCED_TAKE, "fenced_take")                                                                          \
    X(RDL__SCRIPT_READ_TAKE, "read_take")                                                                              \
    X(RDL__SCRIPT_READ_RELEASE, "read_release")                                                                        \
    X(RDL__SCRIPT_READ_RENEW, "read_renew")                                                                            \
    X(RDL__SCRIPT_WRITE_TAKE, "write_take")                                                                            \
    X(RDL__SCRIPT_WRITE_RELEASE, "write_release")                                                                      \
    X(RDL__SCRIPT_READWRITE_FORCE, "readwrite_force")                                                                  \
    X(RDL__SCRIPT_SIMPLE_TAKE, "simple_take")                                                                          \
    X(RDL__SCRIPT_SIMPLE_RELEASE, "simple_release")                                                                    \
    X(RDL__SCRIPT_SIMPLE_RENEW, "simple_renew")                                                                        \
    X(RDL__SCRIPT_SIMPLE_FORCE, "simple_force")                                                                        \
    X(RDL__SCRIPT_FAIR_TAKE, "fair_take")                                                                              \
    X(RDL__SCRIPT_FAIR_RELEASE, "fair_release")                                                                        \
    X(RDL__SCRIPT_FAIR_FORCE, "fair_force")

/* Those that not every program wants: the server learns them when they are first used, by one more round trip. */
#define RDL__SCRIPTS_LATER(X)                                                                                          \
    X(RDL__SCRIPT_SEMAPHORE_TAKE, "semaphore_take")                                                                    \
    X(RDL__SCRIPT_SEMAPHORE_UNDO, "semaphore_undo")                                                                    \
    X(RDL__SCRIPT_SEMAPHORE_ADD, "semaphore_add")                                                                      \
    X(RDL__SCRIPT_SEMAPHORE_DRAIN, "semaphore_drain")                                                                  \
    X(RDL__SCRIPT_SEMAPHORE_TRY_SET, "semaphore_try_set")                                                              \
    X(RDL__SCRIPT_PERMIT_TAKE, "permit_take")                                                                          \
    X(RDL__SCRIPT_PERMIT_UNDO, "permit_undo")                                                                          \
    X(RDL__SCRIPT_PERMIT_RELEASE, "permit_release")                                                                    \
    X(RDL__SCRIPT_PERMIT_EXTEND, "permit_extend")                                                                      \
    X(RDL__SCRIPT_PERMIT_LOOK, "permit_look")                                                                          \
    X(RDL__SCRIPT_PERMIT_SET, "permit_set")                                                                            \
    X(RDL__SCRIPT_LATCH_TRY_SET, "latch_try_set")                                                                      \
    X(RDL__SCRIPT_LATCH_COUNT_DOWN, "latch_count_down")                                                                \
    X(RDL__SCRIPT_FENCED_CONFIRM, "fenced_confirm")                                                                    \
    X(RDL__SCRIPT_READ_FORCE, "read_force")                                                                            \
    X(RDL__SCRIPT_CLIENT_DESCRIBE, "client_describe")                                                                  \
    X(RDL__SCRIPT_INSPECT, "inspect")

#define RDL__SCRIPTS(X)                                                                                                \
    RDL__SCRIPTS_GREETING(X)                                                                                           \
    RDL__SCRIPTS_LATER(X)

enum rdl__script_id {
    RDL__SCRIPT_NONE,
#define RDL__SCRIPTS_ENUM_(id, name) id,
    RDL__SCRIPTS(RDL__SCRIPTS_ENUM_)
#undef RDL__SCRIPTS_ENUM_
        RDL__SCRIPT_COUNT
};

/* Those of the greeting come first: from 1 on, up to this one. */
#define RDL__SCRIPT_GREETING_END RDL__SCRIPT_SEMAPHORE_TAKE

struct rdl__script {
    const char *name;
    const char *body; /* what SCRIPT LOAD is given */
    size_t body_len;
    char sha[41];  /* of the body, lower-case hex */
    char call[64]; /* the first two arguments of a command that runs it: EVALSHA and the digest */
};

extern const struct rdl__script rdl__scripts[RDL__SCRIPT_COUNT]; /* from 1 on: 0 is no script */

#endif
