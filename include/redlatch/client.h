/* SPDX-License-Identifier: MIT */
/* client.h - a client: the connections to one deployment of servers, and everything that runs behind the locks.
 *
 * A client owns one thread, its loop: it waits for messages, renews leases and reconnects. Open one per process and
 * server and share it among threads. Several clients in one process share nothing.
 */
#ifndef REDLATCH_CLIENT_H
#define REDLATCH_CLIENT_H

#include <redlatch/error.h>
#include <redlatch/observe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdl_client rdl_client_t;

/* Memory for the client and everything made from it (the C library's when absent). `size` on freeing is what was asked
 * for. Called from any thread; must not call back into the library. hiredis, libev, OpenSSL and the C library allocate
 * for themselves. */
typedef struct rdl_allocator {
    void *(*alloc)(size_t size, void *arg);            /* NULL when there is none */
    void (*free)(void *block, size_t size, void *arg); /* block is never NULL */
    void *arg;
} rdl_allocator_t;

/* Where callbacks run. The loop thread's stack is 1 MiB, whatever the limit for other threads; a callback, a log
 * function or an allocator that runs there may use half of it. One that needs more belongs on a thread of the program:
 * RDL_DISPATCH_FD. */
typedef enum rdl_dispatch {
    RDL_DISPATCH_LOOP = 0, /* on the client's loop thread */
    RDL_DISPATCH_FD = 1,   /* in rdl_client_dispatch, on whatever thread calls it when rdl_client_fd is readable */
} rdl_dispatch_t;

/* The user and password of a connection. The function gets it zeroed and fills in NUL-terminated strings, which are
 * wiped once they are sent. */
typedef struct rdl_credentials {
    char username[256]; /* "": the default user */
    char password[8192];
} rdl_credentials_t;

/* Gives the credentials of the next connection. Called for each connection, so a password that has been changed, or a
 * token that lasts an hour, is in use from then on. Existing connections keep theirs.
 *
 * Returns RDL_OK, or a negative number when it has none: the attempt to connect fails as if refused (RDL_EAUTH), and is
 * repeated after a pause.
 *
 * Runs on the client's loop thread, with RDL_DISPATCH_FD too, and renewals wait for it: it must not block. What takes
 * longer, such as asking an identity service, belongs on a thread of the program that keeps the result at hand. Must
 * not call the library. Its last call is over when rdl_client_close returns. */
typedef int (*rdl_credentials_fn)(rdl_credentials_t *credentials, void *arg);

#define RDL_TLS_OPTIONS_VERSION 1

/* How to speak TLS with a server (rediss://). Initialise with RDL_TLS_OPTIONS_INIT; NULL or 0 always means the default.
 * All strings are copied. Files are PEM; they are read when the client is opened, and again before a connection when
 * one of them has changed since, so that a certificate may be replaced under a running client. */
typedef struct rdl_tls_options {
    uint32_t version;        /* RDL_TLS_OPTIONS_VERSION */
    const char *ca_file;     /* certificates of the trusted CAs; default, with ca_dir: the system's */
    const char *ca_dir;      /* a folder of such, named by their hash (openssl rehash) */
    const char *cert_file;   /* the client's certificate and intermediate certificates; default: none */
    const char *key_file;    /* its key, without a passphrase; required with cert_file */
    const char *server_name; /* the name or address that the server's certificate must be for, in place of the URI's
                                host; a name is told to the server as well (SNI) */
    bool insecure;           /* accept any certificate: for tests only */
} rdl_tls_options_t;

#define RDL_TLS_OPTIONS_INIT RDL_INIT_(rdl_tls_options_t, RDL_TLS_OPTIONS_VERSION)

/* Bytes of the options `label` and `info`, without the NUL. */
#define RDL_LABEL_MAX 128
#define RDL_INFO_MAX 1024

/* What an acquire does while no server can be reached. */
typedef enum rdl_outage {
    RDL_OUTAGE_DEFAULT = 0, /* of a client: RDL_OUTAGE_FAIL; of a lock: what its client's options say */
    RDL_OUTAGE_FAIL = 1, /* it gives up with RDL_ECONN after outage_timeout_ms, and so does rdl_client_open at once */
    RDL_OUTAGE_WAIT = 2, /* it waits for the server as for a holder: until its wait is over, then RDL_ECONN. Opening
                            goes on without a server, too */
    /* Wrong where more than one host takes the lock. After local_after_ms without a server the lock is held on this
     * host alone (RDL_DEGRADED in lock.h): by a file in local_dir, which who takes the lock takes first, always, so
     * that the host's processes exclude each other whatever becomes of the server. Opening goes on without a server.
     * For reentrant, nonreentrant, simple, spin and fenced locks, without `replicas`, `cache_ms` and
     * RDL_RELEASE_UNCONFIRMED, that are no members; all other locks want another option of their own. Semaphores and
     * latches go by RDL_OUTAGE_FAIL.
     */
    RDL_OUTAGE_LOCAL = 3,
} rdl_outage_t;

#define RDL_CLIENT_OPTIONS_VERSION 1

/* Initialise with RDL_CLIENT_OPTIONS_INIT and change what you need; 0 or NULL always means the default. */
typedef struct rdl_client_options {
    uint32_t version;        /* RDL_CLIENT_OPTIONS_VERSION */
    rdl_dispatch_t dispatch; /* where callbacks run; default RDL_DISPATCH_LOOP */
    const char *username;    /* instead of the URI's; copied. Not without a password, there or here */
    const char *password;    /* instead of the URI's; copied, wiped when the client is freed */
    rdl_credentials_fn
        credentials; /* called for each connection, in place of the URI's; not together with the two above */
    void *credentials_arg;
    const char *client_name;    /* CLIENT SETNAME, [!-~]+; default "redlatch:HOST:PID:PROGRAM", or a label in place of
                                   the program; "redlatch" where the client is anonymous */
    int64_t connect_timeout_ms; /* rdl_client_open's bound, and the bound on each later attempt to connect; 10000 */
    int64_t command_timeout_ms; /* bound on one answer of the server, for calls with no wait of their own; a connection
                                   on which nothing comes for twice that is left for another; 3000 */
    int64_t outage_timeout_ms; /* waits give up with RDL_ECONN after that long without a connection (rdl_lock); 60000 */
    int64_t watchdog_lease_ms; /* the lease behind RDL_LEASE_AUTO, renewed each quarter to third of it; 30000, at
                                  least 30 */
    int64_t close_timeout_ms;  /* how long rdl_client_close waits for undos and give-backs to be answered; 1000 */
    int64_t
        reconnect_min_ms; /* shortest pause before connecting again, which is a twentieth of the outage so far; 10 */
    int64_t reconnect_max_ms; /* longest pause; 1000 */
    int64_t ping_interval_ms; /* silence on an idle connection before it is pinged; 15000 */
    int32_t connections;      /* shared command connections for blocking calls, opened as needed; 2, at most 64 */
    int32_t drift_ppm;        /* allowance for clocks that run apart, parts per million of a lease; 10000 (1 %) */
    int64_t drift_ms;         /* and a constant part; 2 */
    int64_t poll_us; /* how long a lone blocking call may poll for its answer before it sleeps, where that pays: faster
                        if the server has a core of its own, for CPU time; 200, at most 1000; -1: never */
    rdl_log_fn log;  /* NULL: silent */
    void *log_arg;
    rdl_log_level_t log_level; /* least level that is passed on; 0 is RDL_LOG_DEBUG */
    bool lazy;                 /* rdl_client_open does not wait for the server, which may be down: see there */
    rdl_metrics_t *metrics;    /* counted here (observe.h), as long as anything of the client's is there; NULL: not */
    rdl_metrics_fn metrics_fn; /* gets every event, too; NULL: none */
    void *metrics_arg;
    const rdl_allocator_t *allocator; /* copied; NULL: malloc and free */
    const rdl_tls_options_t *tls;     /* for rediss:// and its like only; copied; NULL: the defaults */
    const char *sentinel_username; /* for the sentinels themselves; NULL: "default", if there is a password. Copied */
    const char *sentinel_password; /* likewise; NULL: none */
    const rdl_tls_options_t
        *sentinel_tls; /* for sentinels:// only, where the sentinels want another than `tls`; copied */
    /* The lock options of these names, for locks whose `replicas` is 0. */
    int32_t replicas;
    bool replicas_if_able;
    int64_t replicas_timeout_ms;
    /* Who this client is, for people who ask who holds a lock: beside the host's name, the process' id and program, and
     * when the client was opened. At the server from a tenth of a second after the client's first hold or wait on,
     * until it is closed (with locks still held: or three intervals longer); whoever may read keys there may read it.
     */
    const char *label;            /* a few words, at most RDL_LABEL_MAX bytes; NULL: none. Copied */
    const char *info;             /* anything else, text of at most RDL_INFO_MAX bytes; NULL: none. Copied */
    bool anonymous;               /* nothing is said, nor written; label and info are not looked at */
    int64_t describe_interval_ms; /* it is written again so often, and is gone after three of these; 30000 */
    rdl_outage_t on_outage;       /* what acquires do without a server, and rdl_client_open; RDL_OUTAGE_FAIL */
    /* For RDL_OUTAGE_LOCAL, here or of a lock: a directory of this host, the same for all of its processes that share
     * locks at this deployment and for no others. It is made for the user alone if it is not there, and is refused
     * (RDL_EINVAL) where it is another user's, where everybody may write, and on network file systems. Copied; NULL:
     * none. */
    const char *local_dir;
    int64_t local_after_ms; /* how long there is no server before a lock is held on this host alone; 5000 */
    /* Of so many names at most locks are kept at a time (lock option cache_ms), 1 to 1000000; a name that is wanted
     * more often takes the place of another. 10000 */
    int32_t cache_names;
} rdl_client_options_t;

#define RDL_CLIENT_OPTIONS_INIT RDL_INIT_(rdl_client_options_t, RDL_CLIENT_OPTIONS_VERSION)

/* Connect to the server at `uri` and check that locks can work there.
 *
 *   redis://[[user]:password@]host[:port][/db]    redis://user:p%40ss@[::1]:6380/2
 *   rediss://...                                  the same over TLS: the option `tls`
 *   unix:/path/to/socket[?db=N]                   unix://[[user]:password@]/path[?db=N]
 *   sentinel://[[user]:password@]host[:port][,host[:port]...]/master[/db]
 *   sentinels://...                               the same over TLS, sentinels and master
 *   cluster://[[user]:password@]host[:port][,host[:port]...]
 *   clusters://...                                the same over TLS
 *
 * sentinel: the master that these sentinels (port 26379 if none is given) know under that name, now and after every
 * failover; list several, so that any of them may be down. Up to eight more that they name are asked as well, so that
 * all of those listed may be replaced in time. User, password and db are the master's; the sentinels' own are options.
 * While no sentinel names a master that can be reached, the server counts as down.
 *
 * cluster: a Redis Cluster of which these are some servers, masters or replicas; list more than one, so that any of
 * them may be down. The others are found, and followed through failovers and when slots move. User and password are
 * those of all servers. A lock is at the master of its name's slot; a name whose keys would lie in several slots is
 * refused with RDL_EINVAL when its handle is made: the empty one, and those with unmatched or empty braces (`a{b`,
 * `x{}y`, `a}b`); for a latch also those with a hash tag. Over TLS the certificates must be for the names or addresses
 * that the cluster announces.
 *
 * A password has a colon before it: redis://secret@host names a user, and is refused with RDL_EINVAL unless the options
 * have a password for that user, because nothing would be sent. A user without a password is written user:@host.
 * Percent-encoding is undone in user, password and path. `options` is copied. Blocks for at most connect_timeout_ms,
 * and a moment for the reason when that was not enough. Of a name's addresses the first eight are tried, IPv6 and IPv4
 * by turns, each when the one before it has failed or been silent for a quarter of a second at most; the first that
 * connects is taken (RFC 8305). If the server there does not answer, the next attempt begins with the next address.
 *
 * With the option `lazy` it never blocks: the client connects in the background, and goes on trying. Calls wait for
 * that as they do after any outage; a server that cannot be reached, or refuses, is their RDL_ECONN then. So a red lock
 * has a client for each of its servers while some are down.
 *
 * With the option `on_outage` above RDL_OUTAGE_FAIL it waits as ever, but a server that cannot be reached, or is
 * loading its data, is no error: the client then goes on as if it were `lazy`.
 *
 * Errors: RDL_EINVAL (URI, with the place of the mistake; options; TLS files that cannot be used), RDL_ECONN (not
 * reachable in time, or its certificate or id is not accepted, with the reason), RDL_EAUTH (user or password refused,
 * or none given where one is wanted: WRONGPASS, NOAUTH), RDL_ESERVER (anything else refused: NOPERM, LOADING ...; or
 * the server is of another kind than the URI says: a sentinel, a node of a cluster, a replica), RDL_ENOMEM. When a
 * server refuses the greeting, only the first word of its answer is quoted, because the rest may have the password:
 * some servers quote the command. */
RDL_API int rdl_client_open(const char *uri, const rdl_client_options_t *options, rdl_client_t **ret_client,
                            rdl_err_t *err);

/* Close and free. Calls under way on other threads return RDL_ECLOSED, asynchronous ones call back with it (with
 * RDL_DISPATCH_FD: from inside this call). Undo commands still owed, and what a multi-lock or red lock still gives back
 * to its members, are sent within close_timeout_ms. Holds are *not* released: they are no longer renewed and end with
 * their lease, because the program may still be working under them. A multi-lock's take under way by another client
 * that has taken a member here ends with RDL_ECLOSED. Handles of the client stay valid for freeing and answer
 * RDL_ECLOSED.
 *
 * NULL is fine. Returns NULL. Must not be called from a callback, also not while another thread closes (it then does
 * nothing and returns its argument), nor twice. */
RDL_API rdl_client_t *rdl_client_close(rdl_client_t *client);

/* With RDL_DISPATCH_FD: a descriptor that is readable while callbacks are due. It belongs to the client: poll it, do
 * not read or close it. RDL_EINVAL with RDL_DISPATCH_LOOP; RDL_EFORK. */
RDL_API int rdl_client_fd(rdl_client_t *client);

/* With RDL_DISPATCH_FD: run the callbacks that are due on the calling thread, never waiting. Returns how many ran, or
 * RDL_EINVAL (not in this mode), RDL_EFORK, RDL_ECLOSED. A callback may call any function of the library but
 * rdl_client_close; that waits on another thread until the callback has returned. */
RDL_API int rdl_client_dispatch(rdl_client_t *client);

/* The client's identity on the wire, 36 lower-case characters: the U in the `U:n` under which its holds appear in
 * Redis. Valid while the client is open. */
RDL_API const char *rdl_client_id(const rdl_client_t *client);

#ifdef __cplusplus
}
#endif
#endif
