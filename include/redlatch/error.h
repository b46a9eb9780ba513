/* SPDX-License-Identifier: MIT */
/* error.h - result codes and error details.
 *
 * A function that can fail returns RDL_OK (0), or for a query a value >= 0, or one of the negative codes below. Details
 * go into a caller-owned rdl_err_t; there is no thread-local last error.
 */
#ifndef REDLATCH_ERROR_H
#define REDLATCH_ERROR_H

#include <redlatch/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, text). Numbers never change; new codes are added at the end. */
#define RDL_ERRORS(X)                                                                                                  \
    X(RDL_ETIMEDOUT, -1, "not acquired in time: somebody else holds it")                                               \
    X(RDL_ENOTOWNER, -2, "the caller does not hold this lock")                                                         \
    X(RDL_ELOST, -3, "the hold was lost: its lease ran out or it is gone from the server")                             \
    X(RDL_EUNKNOWN, -4, "the server did not answer in time: the outcome is unknown and is being undone")               \
    X(RDL_EDEADLK, -5, "the caller would wait for itself")                                                             \
    X(RDL_ECANCELED, -6, "canceled")                                                                                   \
    X(RDL_ENOQUORUM, -7, "too few servers granted the lock")                                                           \
    X(RDL_ENOREPLICAS, -8, "too few replicas confirmed the lock")                                                      \
    X(RDL_ECONN, -9, "no connection to the server")                                                                    \
    X(RDL_ESERVER, -10, "the server answered with an error")                                                           \
    X(RDL_EINVAL, -11, "invalid argument")                                                                             \
    X(RDL_ENOMEM, -12, "out of memory")                                                                                \
    X(RDL_EFORK, -13, "this handle belongs to the parent process")                                                     \
    X(RDL_ECLOSED, -14, "the client is closed")                                                                        \
    X(RDL_EAUTH, -15, "the server refused the user or the password")                                                   \
    X(RDL_EHOST, -16, "the host's own lock cannot be used")

enum {
    RDL_OK = 0,
#define RDL_ERRORS_ENUM_(name, number, text) name = (number),
    RDL_ERRORS(RDL_ERRORS_ENUM_)
#undef RDL_ERRORS_ENUM_
};

/* What went wrong. Owned by the caller, filled by the call that failed, left alone by one that succeeded; no pointers
 * inside, so it can be copied and needs no freeing. Never contains a password. */
typedef struct rdl_err {
    int code;          /* the code that the call returned */
    char message[320]; /* one line for a person, UTF-8: what happened, to which lock, at which server; of a server's
                          error what it means, with the server's own words */
    char server[128];  /* "host:port" or "unix:/path" of the server concerned, or "" */
    char lock[128];    /* the lock's name, unprintable bytes as \xHH, cut short when long; or "" */
} rdl_err_t;

/* The text of a code, as in the list above; "unknown error" for a number that is not there. Static. */
RDL_API const char *rdl_strerror(int code);

/* The name of a code, e.g. "RDL_ETIMEDOUT"; "RDL_OK" for 0; NULL for a number that is not there. Static. */
RDL_API const char *rdl_err_name(int code);

#ifdef __cplusplus
}
#endif
#endif
