/* SPDX-License-Identifier: MIT */
/* tls.c - OpenSSL between a connection and its socket.
 *
 * OpenSSL moves bytes through a BIO of ours, that is through rdl__sock_send and rdl__sock_recv, which neither block nor
 * raise SIGPIPE. An SSL object bears one thread at a time, while a lane has a reader and a writer at once. So each
 * stream has a mutex, held for one call of OpenSSL and never while anybody waits: a receive waits for the socket first,
 * without it.
 *
 * Bytes that OpenSSL has buffered do not make the socket readable, so it must never keep any that are ready: it reads
 * no further than the present record (no read-ahead), and every receive has room for a whole one.
 *
 * The files (CA, certificate, key) are read when a client is opened, and again before a connection when one of them has
 * changed, so a new certificate is used from the next connection on. While certificate and key do not match no
 * connection is made, not even one with the files as they were before.
 *
 * OpenSSL is told not to free its memory when the process exits, since the loop may still be running then.
 */
#include "core/io/tls.h"

#include "core/base/err.h"
#include "core/base/sync.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_CAP 256

enum path { CA_FILE, CA_DIR, CERT_FILE, KEY_FILE, PATHS };

static const char *const path_names[PATHS] = {
    [CA_FILE] = "ca_file", [CA_DIR] = "ca_dir", [CERT_FILE] = "cert_file", [KEY_FILE] = "key_file"};

/* A file's identity and time when it was read; zeros: it did not exist. */
struct stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct rdl__tls {
    /* immutable */
    const struct rdl__mem *mem;
    char *path[PATHS]; /* NULL: not given */
    char *server_name; /* NULL: the host's */
    bool insecure;
    BIO_METHOD *socket_method;

    /* loop thread only, once open */
    SSL_CTX *context; /* NULL: the files have to be read */
    struct stamp stamps[PATHS];
};

struct rdl__tls_stream {
    const struct rdl__mem *mem;
    struct rdl__sock *sock;
    struct rdl__mutex mu;

    /* under mu */
    SSL *ssl;
    int sock_error;      /* of the last call of OpenSSL's to the socket */
    bool at_end;         /* the socket has ended */
    bool broken;         /* `why` is final */
    char name[NAME_CAP]; /* the name that the certificate must be for */
    char why[200];
};

/* ---- words ------------------------------------------------------------------------------------------------------ */

/* The first error that this thread's last call of OpenSSL has left. */
static const char *first_error(void)
{
    unsigned long code = ERR_peek_error();
    const char *text;

    if (ERR_SYSTEM_ERROR(code))
        return strerror(ERR_GET_REASON(code));
    text = ERR_reason_error_string(code);
    return text != NULL ? text : "no reason given";
}

/* Plainer texts for the usual errors. */
static const char *plainer(unsigned long code)
{
    if (ERR_GET_LIB(code) != ERR_LIB_SSL)
        return NULL;
    switch (ERR_GET_REASON(code)) {
    case SSL_R_WRONG_VERSION_NUMBER:
        return "the server does not speak TLS";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return "the server wants a client certificate";
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return "the server refuses the handshake: it may want a client certificate, or a version or "
               "cipher that we have not";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return "the server does not know who issued the client certificate";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return "the client certificate has expired, says the server";
    default:
        return NULL;
    }
}

/* Set `why` for a stream that is broken, unless it is set.  @locks mu */
static void explain(struct rdl__tls_stream *stream)
{
    unsigned long code = ERR_peek_error();
    bool unverified = ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED;
    long verified = SSL_get_verify_result(stream->ssl);
    const char *words = plainer(code);

    rdl__assert_locked(&stream->mu);
    if (stream->broken)
        return;
    stream->broken = true;
    if (unverified && (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH))
        (void)rdl__line(stream->why, sizeof stream->why, "the server's certificate is not for %s", stream->name);
    else if (unverified)
        (void)rdl__line(stream->why, sizeof stream->why, "the server's certificate is not accepted: %s",
                        X509_verify_cert_error_string(verified));
    else if (words != NULL)
        (void)rdl__line(stream->why, sizeof stream->why, "%s", words);
    else
        (void)rdl__line(stream->why, sizeof stream->why, "TLS: %s", first_error());
}

/* ---- the BIO over the socket ------------------------------------------------------------------------------------ */

static int moved(BIO *bio, struct rdl__tls_stream *stream, ssize_t n, int retry)
{
    BIO_clear_retry_flags(bio);
    if (n > 0)
        return (int)n;
    if (n == 0)
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    else
        stream->sock_error = (int)-n;
    return -1;
}

static int socket_write(BIO *bio, const char *bytes, int len)
{
    struct rdl__tls_stream *stream = BIO_get_data(bio);

    return moved(bio, stream, rdl__sock_send(stream->sock, bytes, (size_t)len), BIO_FLAGS_WRITE);
}

static int socket_read(BIO *bio, char *to, int cap)
{
    struct rdl__tls_stream *stream = BIO_get_data(bio);
    ssize_t n = rdl__sock_recv(stream->sock, to, (size_t)cap, 0, 0);

    stream->at_end = n == -EPIPE;
    return moved(bio, stream, n, BIO_FLAGS_READ);
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    const struct rdl__tls_stream *stream = BIO_get_data(bio);

    (void)number;
    (void)pointer;
    if (command == BIO_CTRL_EOF)
        return stream->at_end;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_socket_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "redlatch socket");

    if (method == NULL)
        return NULL;
    (void)BIO_meth_set_write(method, socket_write);
    (void)BIO_meth_set_read(method, socket_read);
    (void)BIO_meth_set_ctrl(method, socket_control);
    return method;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static struct stamp stamp_of(const char *path)
{
    struct stat seen;

    if (path == NULL || stat(path, &seen) < 0)
        return (struct stamp){0};
    return (struct stamp){.device = seen.st_dev, .inode = seen.st_ino, .size = seen.st_size, .changed = seen.st_mtim};
}

static bool same_stamp(const struct stamp *a, const struct stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static const char *from_environment(const char *name, const char *otherwise)
{
    const char *value = secure_getenv(name);

    return value != NULL ? value : otherwise;
}

/* The path to check for changes: the system's certificates, where OpenSSL finds them, if no CA is given. */
static const char *watched(const struct rdl__tls *tls, enum path which)
{
    bool system_ca = tls->path[CA_FILE] == NULL && tls->path[CA_DIR] == NULL && !tls->insecure;

    if (system_ca && which == CA_FILE)
        return from_environment(X509_get_default_cert_file_env(), X509_get_default_cert_file());
    if (system_ca && which == CA_DIR)
        return from_environment(X509_get_default_cert_dir_env(), X509_get_default_cert_dir());
    return tls->path[which];
}

/* Are all files as they were when they were read? Notes how they are now. */
static bool unchanged(struct rdl__tls *tls)
{
    bool same = true;

    for (enum path i = 0; i < PATHS; i++) {
        struct stamp seen = stamp_of(watched(tls, i));

        same = same && same_stamp(&seen, &tls->stamps[i]);
        tls->stamps[i] = seen;
    }
    return same;
}

/* A key with a passphrase is refused: there is nobody to ask. */
static int no_passphrase(char *to, int cap, int writing, void *arg)
{
    (void)writing;
    (void)arg;
    if (cap > 0)
        to[0] = '\0';
    return -1;
}

static bool cannot_read(const struct rdl__tls *tls, enum path which, char *why, size_t cap)
{
    (void)rdl__line(why, cap, "cannot use TLS option %s, %s: %s", path_names[which], tls->path[which], first_error());
    return false;
}

static bool read_files(const struct rdl__tls *tls, SSL_CTX *context, char *why, size_t cap)
{
    if (tls->path[CA_FILE] != NULL && SSL_CTX_load_verify_file(context, tls->path[CA_FILE]) != 1)
        return cannot_read(tls, CA_FILE, why, cap);
    if (tls->path[CA_DIR] != NULL && SSL_CTX_load_verify_dir(context, tls->path[CA_DIR]) != 1)
        return cannot_read(tls, CA_DIR, why, cap);
    if (tls->path[CA_FILE] == NULL && tls->path[CA_DIR] == NULL)
        (void)SSL_CTX_set_default_verify_paths(context);
    if (tls->path[CERT_FILE] == NULL)
        return true;
    if (SSL_CTX_use_certificate_chain_file(context, tls->path[CERT_FILE]) != 1)
        return cannot_read(tls, CERT_FILE, why, cap);
    if (SSL_CTX_use_PrivateKey_file(context, tls->path[KEY_FILE], SSL_FILETYPE_PEM) !=
        1) /* also checks that it matches the certificate */
        return cannot_read(tls, KEY_FILE, why, cap);
    return true;
}

/* A context from the files as they are now. NULL: `why` has the reason. */
static SSL_CTX *make_context(const struct rdl__tls *tls, char *why, size_t cap)
{
    SSL_CTX *context;

    ERR_clear_error();
    if ((context = SSL_CTX_new(TLS_client_method())) == NULL) {
        (void)rdl__line(why, cap, "cannot make a TLS context: %s", first_error());
        return NULL;
    }
    (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    /* Replies have lengths, so a stream may end without a close_notify. */
    (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    SSL_CTX_set_verify(context, tls->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (read_files(tls, context, why, cap))
        return context;
    SSL_CTX_free(context);
    return NULL;
}

/* Make a new context if the files have changed. */
static bool refresh(struct rdl__tls *tls, char *why, size_t cap)
{
    if (unchanged(tls) && tls->context != NULL)
        return true;
    SSL_CTX_free(tls->context);
    tls->context = make_context(tls, why, cap);
    return tls->context != NULL;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

static int check_options(const rdl_tls_options_t *o, rdl_err_t *err)
{
    if (o->version != RDL_TLS_OPTIONS_VERSION)
        return rdl__err_set(err, RDL_EINVAL, "TLS options have version %u: initialise them with RDL_TLS_OPTIONS_INIT",
                            (unsigned)o->version);
    if ((o->cert_file == NULL) != (o->key_file == NULL))
        return rdl__err_set(err, RDL_EINVAL, "TLS option %s is given without %s",
                            o->key_file == NULL ? "cert_file" : "key_file",
                            o->key_file == NULL ? "key_file" : "cert_file");
    if (o->insecure && (o->ca_file != NULL || o->ca_dir != NULL))
        return rdl__err_set(err, RDL_EINVAL, "TLS option insecure would make %s meaningless",
                            o->ca_file != NULL ? "ca_file" : "ca_dir");
    if (o->server_name != NULL && (o->server_name[0] == '\0' || strlen(o->server_name) >= NAME_CAP))
        return rdl__err_set(err, RDL_EINVAL, "TLS option server_name must have 1 to %d bytes", NAME_CAP - 1);
    return RDL_OK;
}

static bool keep(const struct rdl__mem *mem, const char *given, char **to)
{
    return given == NULL || (*to = rdl__memdup(mem, given, strlen(given))) != NULL;
}

static void forget(const struct rdl__mem *mem, char *string)
{
    if (string != NULL)
        rdl__free(mem, string, strlen(string) + 1);
}

int rdl__tls_new(const struct rdl__mem *mem, const rdl_tls_options_t *options, struct rdl__tls **ret_tls,
                 rdl_err_t *err)
{
    static const rdl_tls_options_t defaults = RDL_TLS_OPTIONS_INIT;
    const rdl_tls_options_t *o = options != NULL ? options : &defaults;
    struct rdl__tls *tls;
    char why[320];
    int rc;

    if ((rc = check_options(o, err)) < 0)
        return rc;
    if ((tls = rdl__zalloc(mem, sizeof *tls)) == NULL)
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    tls->mem = mem;
    tls->insecure = o->insecure;
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) != 1 || (tls->socket_method = make_socket_method()) == NULL ||
        !keep(mem, o->ca_file, &tls->path[CA_FILE]) || !keep(mem, o->ca_dir, &tls->path[CA_DIR]) ||
        !keep(mem, o->cert_file, &tls->path[CERT_FILE]) || !keep(mem, o->key_file, &tls->path[KEY_FILE]) ||
        !keep(mem, o->server_name, &tls->server_name)) {
        (void)rdl__tls_free(tls);
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    }
    if (!refresh(tls, why, sizeof why)) {
        (void)rdl__tls_free(tls);
        return rdl__err_set(err, RDL_EINVAL, "%s", why);
    }
    *ret_tls = tls;
    return RDL_OK;
}

struct rdl__tls *rdl__tls_free(struct rdl__tls *tls)
{
    if (tls == NULL)
        return NULL;
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->socket_method);
    for (enum path i = 0; i < PATHS; i++)
        forget(tls->mem, tls->path[i]);
    forget(tls->mem, tls->server_name);
    rdl__free(tls->mem, tls, sizeof *tls);
    return NULL;
}

/* ---- a stream --------------------------------------------------------------------------------------------------- */

/* The form of names in certificates: no zone behind an IPv6 address, no dot behind a name. */
static void keep_name(struct rdl__tls_stream *stream, const char *name)
{
    size_t len = strcspn(name, "%");

    if (len > 1 && name[len - 1] == '.')
        len--;
    if (len >= NAME_CAP)
        len = NAME_CAP - 1;
    memcpy(stream->name, name, len);
    stream->name[len] = '\0';
}

static bool expect_name(struct rdl__tls_stream *stream)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(stream->ssl);

    if (X509_VERIFY_PARAM_set1_ip_asc(param, stream->name) == 1) /* addresses are not sent as SNI (RFC 6066, 3) */
        return true;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(stream->ssl, stream->name) == 1 && SSL_set_tlsext_host_name(stream->ssl, stream->name) == 1;
}

static bool attach(struct rdl__tls_stream *stream, const struct rdl__tls *tls)
{
    BIO *bio;

    if ((stream->ssl = SSL_new(tls->context)) == NULL || (bio = BIO_new(tls->socket_method)) == NULL)
        return false;
    BIO_set_data(bio, stream);
    BIO_set_init(bio, 1);
    SSL_set_bio(stream->ssl, bio, bio);
    SSL_set_connect_state(stream->ssl);
    return expect_name(stream);
}

struct rdl__tls_stream *rdl__tls_begin(struct rdl__tls *tls, struct rdl__sock *sock, const char *host, char *why,
                                       size_t cap)
{
    struct rdl__tls_stream *stream;

    if (!refresh(tls, why, cap))
        return NULL;
    (void)rdl__line(why, cap, "%s", rdl_strerror(RDL_ENOMEM));
    if ((stream = rdl__zalloc(tls->mem, sizeof *stream)) == NULL)
        return NULL;
    if (rdl__mutex_init(&stream->mu) < 0) {
        rdl__free(tls->mem, stream, sizeof *stream);
        return NULL;
    }
    stream->mem = tls->mem;
    stream->sock = sock;
    keep_name(stream, tls->server_name != NULL ? tls->server_name : host);
    return attach(stream, tls) ? stream : rdl__tls_end(stream);
}

struct rdl__tls_stream *rdl__tls_end(struct rdl__tls_stream *stream)
{
    if (stream == NULL)
        return NULL;
    SSL_free(stream->ssl);
    rdl__mutex_done(&stream->mu);
    rdl__free(stream->mem, stream, sizeof *stream);
    return NULL;
}

/* Clear the errors before a call of OpenSSL's, for `failure` after it.  @locks mu */
static void prepare(struct rdl__tls_stream *stream)
{
    rdl__assert_locked(&stream->mu);
    ERR_clear_error();
    stream->sock_error = 0;
}

/* The result of a call of OpenSSL's that moved no bytes: 0, or -errno.  @locks mu */
static int failure(struct rdl__tls_stream *stream, int rc)
{
    rdl__assert_locked(&stream->mu);
    switch (SSL_get_error(stream->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return stream->broken ? -EPROTO : 0;
    case SSL_ERROR_ZERO_RETURN:
        return -EPIPE;
    case SSL_ERROR_SYSCALL:
        return stream->sock_error != 0 ? -stream->sock_error : -EPIPE;
    default:
        explain(stream);
        return -EPROTO;
    }
}

int rdl__tls_handshake(struct rdl__tls_stream *stream)
{
    int rc, error;

    rdl__mutex_lock(&stream->mu);
    prepare(stream);
    rc = SSL_do_handshake(stream->ssl);
    error = rc == 1 ? 0 : failure(stream, rc);
    rdl__mutex_unlock(&stream->mu);
    if (rc == 1)
        return RDL__TLS_READY;
    if (error < 0)
        return error;
    return SSL_want_write(stream->ssl) ? RDL__TLS_WANTS_WRITE : RDL__TLS_WANTS_READ;
}

/* A server that refuses the handshake sends an alert and closes; a write may then fail before the alert was read. Read
 * that, and nothing else: no reply is taken from the stream.  @locks mu */
static int read_alert(struct rdl__tls_stream *stream, int error)
{
    char ignored;
    int rc;

    rdl__assert_locked(&stream->mu);
    prepare(stream);
    rc = SSL_peek(stream->ssl, &ignored, 1);
    return rc <= 0 && failure(stream, rc) == -EPROTO ? -EPROTO : error;
}

ssize_t rdl__tls_send(struct rdl__tls_stream *stream, const void *bytes, size_t len)
{
    ssize_t n;

    rdl__mutex_lock(&stream->mu);
    prepare(stream);
    n = SSL_write(stream->ssl, bytes, len < INT_MAX ? (int)len : INT_MAX);
    if (n <= 0 && (n = failure(stream, (int)n)) < 0 && n != -EPROTO)
        n = read_alert(stream, (int)n);
    rdl__mutex_unlock(&stream->mu);
    return n;
}

static ssize_t take(void *arg, void *to, size_t cap)
{
    struct rdl__tls_stream *stream = arg;
    ssize_t n;

    rdl__mutex_lock(&stream->mu);
    prepare(stream);
    n = SSL_read(stream->ssl, to, cap < INT_MAX ? (int)cap : INT_MAX);
    if (n <= 0)
        n = failure(stream, (int)n);
    rdl__mutex_unlock(&stream->mu);
    return n;
}

ssize_t rdl__tls_recv(struct rdl__tls_stream *stream, void *to, size_t cap, int64_t now, int64_t until)
{
    if (until > now)
        rdl__sock_wait(stream->sock, false, now, until);
    return take(stream, to, cap);
}

ssize_t rdl__tls_poll(struct rdl__tls_stream *stream, void *to, size_t cap, int64_t *now, int64_t for_ns,
                      int64_t *ret_idle)
{
    return rdl__sock_poll_with(take, stream, to, cap, now, for_ns, ret_idle);
}

const char *rdl__tls_why(const struct rdl__tls_stream *stream)
{
    return stream->why;
}
