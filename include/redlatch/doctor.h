/* SPDX-License-Identifier: MIT */
/* doctor.h - is this deployment safe for locks? What redlatch doctor asks, for programs.
 *
 * It looks at the server, or servers, of a URI, and at the way to them, and reports what it finds. It takes no lock and
 * changes no setting. What it writes is gone when it returns: a key and a channel of its own, by which it learns what
 * the user may do.
 */
#ifndef REDLATCH_DOCTOR_H
#define REDLATCH_DOCTOR_H

#include <redlatch/client.h>
#include <redlatch/error.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rdl_severity {
    RDL_SEVERITY_OK = 0,       /* looked at, and as it should be */
    RDL_SEVERITY_NOTE = 1,     /* worth knowing; locks are as safe as they are said to be */
    RDL_SEVERITY_WARNING = 2,  /* locks work, and there is an event that breaks them */
    RDL_SEVERITY_CRITICAL = 3, /* locks do not work, or can be taken from their holders without any such event */
} rdl_severity_t;

/* What was found. Strings are valid during the call that hands it over; all are one line, but `change`, which may be
 * several. None holds a password. */
typedef struct rdl_finding {
    const char *id; /* a stable word for what was looked at: "eviction-policy" */
    rdl_severity_t severity;
    const char *server; /* "host:port" or "unix:/path" */
    const char *what;   /* how it is */
    const char *why;    /* why that matters; "" where it is as it should be */
    const char *change; /* lines to change, for a terminal or a configuration file; "": there are none */
} rdl_finding_t;

/* Called on the thread of rdl_doctor, in the order in which things are found. */
typedef void (*rdl_finding_fn)(const rdl_finding_t *finding, void *arg);

#define RDL_DOCTOR_OPTIONS_VERSION 1

/* Initialise with RDL_DOCTOR_OPTIONS_INIT; 0 or NULL always means the default. */
typedef struct rdl_doctor_options {
    uint32_t version; /* RDL_DOCTOR_OPTIONS_VERSION */
    const char *name; /* of a lock: keys and channels that begin as its do are tried. Default: names of its own */
    const char *const
        *names;        /* of locks that are to be taken together, by a multi-lock: are their keys in one slot of */
    size_t name_count; /* a cluster? Default: none */
} rdl_doctor_options_t;

#define RDL_DOCTOR_OPTIONS_INIT RDL_INIT_(rdl_doctor_options_t, RDL_DOCTOR_OPTIONS_VERSION)

/* "ok", "note", "warning", "critical"; NULL out of range. Static. */
RDL_API const char *rdl_severity_name(rdl_severity_t severity);

/* Look at the deployment that `uri` names (rdl_client_open), with the credentials, TLS, timeouts and watchdog lease of
 * `client`, and tell `fn` each finding. Servers that a client would refuse are looked at as well: a replica, a
 * sentinel, a node of a cluster spoken to as a single server. One that cannot be reached, or is no Redis at all, is a
 * finding.
 *
 * Blocks for about a second a server, because clocks are looked at twice; where one is silent, for
 * connect_timeout_ms, and for a few times command_timeout_ms where it falls silent later.
 *
 * RDL_OK, whatever was found; RDL_EINVAL: the URI or the options are wrong; RDL_ENOMEM. */
RDL_API int rdl_doctor(const char *uri, const rdl_client_options_t *client, const rdl_doctor_options_t *options,
                       rdl_finding_fn fn, void *arg, rdl_err_t *err);

#ifdef __cplusplus
}
#endif
#endif
