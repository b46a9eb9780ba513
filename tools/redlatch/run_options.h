/* SPDX-License-Identifier: MIT */
/* run_options.h - the command line of `redlatch run`, as data.
 *
 *   run [options] NAME [--] COMMAND [ARG...]
 *   run [options] NAME -c 'SHELL COMMAND'
 *   run [options] NAME... -- COMMAND [ARG...]
 *   run [options] -c 'SHELL COMMAND' NAME... --
 *
 * All that stands before a -- is a NAME; without one the first argument alone is.
 *
 * Pure: nothing is printed, no environment is read, nothing is allocated. All strings point into argv. */
#ifndef REDLATCH_TOOL_RUN_OPTIONS_H
#define REDLATCH_TOOL_RUN_OPTIONS_H

#include "tools/redlatch/locktype.h"
#include "tools/redlatch/options.h"

#include <redlatch/client.h>
#include <stdbool.h>

/* NAMEs on one command line, as many as a multi-lock has members; and servers of a red lock: fewer than three survive
 * no failure. */
#define NAMES_MAX 256
#define REDLOCK_MIN 3
#define REDLOCK_MAX 63

/* Of all NAMEs with a + between them, which the command finds in one string of its environment: the kernel takes none
 * of more than 128 kB with its end. */
#define NAMES_LEN_MAX (128 * 1024 - sizeof "REDLATCH_NAME=")

/* Most permits of a semaphore that are worth a lease each. */
#define PERMITS_MAX 1000000

/* Options that make no sense beside some other, or mean TLS. */
enum given {
    GIVEN_NONBLOCK = 1 << 0,
    GIVEN_WAIT = 1 << 1,
    GIVEN_SHARED = 1 << 2,
    GIVEN_EXCLUSIVE = 1 << 3,
    GIVEN_TYPE = 1 << 4,
    GIVEN_PERMITS = 1 << 5,
    GIVEN_REDLOCK = 1 << 6,
    GIVEN_SERVER = 1 << 7,
    GIVEN_NAMES = 1 << 8, /* more than one */
    GIVEN_CACERT = 1 << 9,
    GIVEN_CERT = 1 << 10,
    GIVEN_KEY = 1 << 11,
    GIVEN_INSECURE = 1 << 12,
    GIVEN_LOCAL = 1 << 13, /* --on-outage local */
    GIVEN_LOCAL_DIR = 1 << 14,
    GIVEN_FAIR = 1 << 15, /* --type fair */
};

struct run_options {
    enum asked asked;     /* if not nothing, nothing else is set or checked */
    char *const *names;   /* at least one byte each, no two the same; NAMES_LEN_MAX together */
    size_t name_count;    /* 1 to NAMES_MAX */
    char *const *command; /* ended by NULL, at least one; NULL with `shell` */
    const char *shell;    /* a line for /bin/sh -c; NULL with `command` */
    char *server;         /* --server; NULL when not given */
    char *redlock; /* --redlock: REDLOCK_MIN to REDLOCK_MAX addresses with commas between them; NULL when not given */
    const char *ca_file;   /* --cacert, --cert, --key; NULL when not given */
    const char *cert_file; /* never without the next */
    const char *key_file;
    const struct lock_type *type;
    int permits;         /* 0: it is no semaphore */
    int64_t wait_ms;     /* 0: ask once; RDL_WAIT_FOREVER */
    int64_t lease_ms;    /* 0: the library's own */
    int64_t max_hold_ms; /* 0: no bound */
    int64_t grace_ms;
    int conflict_code;
    rdl_outage_t on_outage; /* --on-outage; RDL_OUTAGE_WAIT only with a wait */
    const char *local_dir;  /* NULL when not given */
    int64_t local_after_ms;
    unsigned given;                /* bits of enum given */
    bool pass_server;              /* --pass-server */
    const char *sentinel_username; /* of the environment, where run.c finds them; NULL when not there */
    const char *sentinel_password;
    bool insecure;     /* --insecure */
    const char *label; /* RDL_LABEL_MAX bytes at most; NULL when not given */
    const char *info;  /* RDL_INFO_MAX bytes at most; NULL when not given */
    bool anonymous;
    bool verbose;
};

#define GIVEN_TLS (GIVEN_CACERT | GIVEN_CERT | GIVEN_KEY | GIVEN_INSECURE)

/* Returns 0, or -1 with `why` filled in. argv[0] is the subcommand's name. */
int run_options_parse(int argc, char *const argv[], struct run_options *ret, struct usage_error *why);

/* The options' part of the help. */
void run_options_print(FILE *out);

#endif
