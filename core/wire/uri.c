/* SPDX-License-Identifier: MIT */
/* uri.c - reading the server's URI.
 *
 * One pass over the whole text first refuses what is wrong anywhere: control characters, fragments, bad percent escapes
 * and %00; after it, decoding can fail only for want of memory. Then a cursor walks from left to right, and whatever it
 * cannot accept is answered with the place where it stands. No message contains a piece of the text, for any piece may
 * be part of a password that was not escaped. */
#include "core/wire/uri.h"

#include "core/base/err.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

enum { DEFAULT_PORT = 6379, SENTINEL_PORT = 26379, PATH_MAX_LEN = sizeof((struct sockaddr_un){0}.sun_path) - 1 };

struct cursor {
    const char *text; /* the whole URI */
    const char *at;
    rdl_err_t *err;
    struct rdl__uri *uri;
    const char *host_ends; /* what may follow a host: its port first, */
    const char *port_ends; /* and a port */
    int default_port;
};

/* A stretch of the text. */
struct span {
    const char *at;
    size_t len;
};

static int bad(const struct cursor *c, const char *where, const char *what)
{
    return rdl__err_set(c->err, RDL_EINVAL, "invalid URI: %s at character %zu", what, (size_t)(where - c->text) + 1);
}

static int no_memory(const struct cursor *c)
{
    return rdl__err_set(c->err, RDL_ENOMEM, NULL);
}

/* ---- characters ------------------------------------------------------------------------------------------------- */

static bool is_digit(char ch)
{
    return ch >= '0' && ch <= '9';
}

static bool is_letter(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
}

/* In a host's name: what DNS has, the underscore that people use, and letters beyond ASCII. */
static bool is_name_char(char ch)
{
    return is_letter(ch) || is_digit(ch) || ch == '-' || ch == '.' || ch == '_' || (unsigned char)ch >= 0x80;
}

static int hex_value(char ch)
{
    if (is_digit(ch))
        return ch - '0';
    if (ch >= 'a' && ch <= 'f')
        return ch - 'a' + 10;
    if (ch >= 'A' && ch <= 'F')
        return ch - 'A' + 10;
    return -1;
}

static int check_character(const struct cursor *c, const char *at)
{
    if ((unsigned char)*at < 0x20 || *at == 0x7f)
        return bad(c, at, "a control character");
    if (*at == '#')
        return bad(c, at, "a fragment (in a user, password or path write # as %23)");
    if (*at != '%')
        return RDL_OK;
    if (hex_value(at[1]) < 0 || hex_value(at[2]) < 0)
        return bad(c, at, "a percent sign without two hex digits (a percent sign itself is %25)");
    if (at[1] == '0' && at[2] == '0')
        return bad(c, at, "a %00");
    return RDL_OK;
}

static int check_characters(const struct cursor *c)
{
    for (const char *at = c->text; *at != '\0'; at++) {
        int rc = check_character(c, at);

        if (rc < 0)
            return rc;
    }
    return RDL_OK;
}

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

/* From the cursor to the first of `stops` or the end; the cursor goes there. */
static struct span take_until(struct cursor *c, const char *stops)
{
    struct span span = {.at = c->at, .len = strcspn(c->at, stops)};

    c->at += span.len;
    return span;
}

static bool take_char(struct cursor *c, char ch)
{
    if (*c->at != ch)
        return false;
    c->at++;
    return true;
}

/* Is the span this word, in any case? */
static bool is_word(struct span span, const char *word)
{
    return span.len == strlen(word) && strncasecmp(span.at, word, span.len) == 0;
}

/* The decoded text of a span of checked characters, or NULL. */
static char *decode(const struct rdl__mem *mem, struct span span)
{
    size_t escapes = 0;
    char *text, *to;

    for (size_t i = 0; i < span.len; i++)
        escapes += span.at[i] == '%' ? 1 : 0;
    if ((text = to = rdl__alloc(mem, span.len - 2 * escapes + 1)) == NULL)
        return NULL;
    for (size_t i = 0; i < span.len; i++) {
        if (span.at[i] != '%') {
            *to++ = span.at[i];
        } else {
            *to++ = (char)(hex_value(span.at[i + 1]) * 16 + hex_value(span.at[i + 2]));
            i += 2;
        }
    }
    *to = '\0';
    return text;
}

/* A decimal number of digits only, at most `max`; -1 when it is something else. Empty is something else too. */
static int number(struct span span, int max)
{
    long long value = 0;

    if (span.len == 0)
        return -1;
    for (size_t i = 0; i < span.len; i++) {
        if (!is_digit(span.at[i]) || (value = value * 10 + (span.at[i] - '0')) > max)
            return -1;
    }
    return (int)value;
}

/* ---- parts of a URI --------------------------------------------------------------------------------------------- */

static int parse_scheme(struct cursor *c)
{
    static const struct {
        const char *word;
        enum rdl__scheme scheme;
        bool tls;
    } schemes[] = {
        {"redis", RDL__SCHEME_TCP, false},         {"rediss", RDL__SCHEME_TCP, true},
        {"unix", RDL__SCHEME_UNIX, false},         {"sentinel", RDL__SCHEME_SENTINEL, false},
        {"sentinels", RDL__SCHEME_SENTINEL, true}, {"cluster", RDL__SCHEME_CLUSTER, false},
        {"clusters", RDL__SCHEME_CLUSTER, true},
    };
    struct span scheme = take_until(c, ":");

    if (!take_char(c, ':'))
        return bad(c, c->text, "none of redis://host, rediss://host, unix:/path");
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (is_word(scheme, schemes[i].word)) {
            c->uri->scheme = schemes[i].scheme;
            c->uri->tls = schemes[i].tls;
            return RDL_OK;
        }
    }
    return bad(c, c->text,
               "none of redis://host, rediss://host, unix:/path, sentinel[s]://hosts/master, cluster[s]://hosts");
}

/* `user:password@`, either of them possibly absent: a password may hold an '@', so the last one of the authority
 * counts. */
static int parse_userinfo(struct cursor *c)
{
    size_t authority = strcspn(c->at, "/?");
    const char *sign = authority != 0 ? memrchr(c->at, '@', authority) : NULL;
    const char *colon;
    struct span user, password;

    if (sign == NULL)
        return RDL_OK;
    user = (struct span){.at = c->at, .len = (size_t)(sign - c->at)};
    if (user.len != 0 && (colon = memchr(user.at, ':', user.len)) != NULL) {
        password = (struct span){.at = colon + 1, .len = (size_t)(sign - colon) - 1};
        user.len = (size_t)(colon - user.at);
        if ((c->uri->password = decode(c->uri->mem, password)) == NULL)
            return no_memory(c);
    }
    if (user.len != 0 && (c->uri->username = decode(c->uri->mem, user)) == NULL)
        return no_memory(c);
    c->at = sign + 1;
    return RDL_OK;
}

/* What is inside the brackets: an address, or `address%25zone`, where the zone names a network interface. */
static int check_ipv6(const struct cursor *c, struct span inner)
{
    char address[INET6_ADDRSTRLEN] = "";
    struct in6_addr ignored;
    const char *end = inner.at + inner.len;
    const char *percent = inner.len != 0 ? memchr(inner.at, '%', inner.len) : NULL;
    size_t len = (size_t)((percent != NULL ? percent : end) - inner.at);

    if (len < sizeof address)
        memcpy(address, inner.at, len);
    if (inet_pton(AF_INET6, address, &ignored) != 1)
        return bad(c, inner.at, "no IPv6 address between the brackets");
    if (percent == NULL)
        return RDL_OK;
    if (memcmp(percent, "%25", 3) != 0 || percent + 3 == end)
        return bad(c, percent, "no %25 and zone after the IPv6 address");
    for (const char *at = percent + 3; at < end; at++) {
        if (!is_name_char(*at))
            return bad(c, at, "a character that a zone cannot have");
    }
    return RDL_OK;
}

static int parse_bracketed_host(struct cursor *c)
{
    struct span inner = take_until(c, "]/?");
    int rc;

    if (!take_char(c, ']'))
        return bad(c, c->at, "no ] after the IPv6 address");
    if ((rc = check_ipv6(c, inner)) < 0)
        return rc;
    if (strchr(c->host_ends, *c->at) == NULL) /* which finds the end of the text as well */
        return bad(c, c->at, "something else than a port after the IPv6 address");
    return (c->uri->host = decode(c->uri->mem, inner)) != NULL ? RDL_OK : no_memory(c);
}

static int parse_named_host(struct cursor *c)
{
    struct span name = take_until(c, c->host_ends);

    if (name.len == 0)
        return bad(c, name.at, "no host");
    for (size_t i = 0; i < name.len; i++) {
        if (!is_name_char(name.at[i]))
            return bad(c, name.at + i, "a character that a host's name cannot have");
    }
    return (c->uri->host = decode(c->uri->mem, name)) != NULL ? RDL_OK : no_memory(c);
}

static int parse_port(struct cursor *c)
{
    struct span port;

    c->uri->port = c->default_port;
    if (!take_char(c, ':'))
        return RDL_OK;
    port = take_until(c, c->port_ends);
    if (port.len != 0 && memchr(port.at, ':', port.len) != NULL)
        return bad(c, port.at, "a second colon (an IPv6 address is written in brackets)");
    if ((c->uri->port = number(port, 65535)) < 1)
        return bad(c, port.at, "a port that is not 1 to 65535");
    return RDL_OK;
}

static int parse_db(struct cursor *c, struct span db)
{
    if ((c->uri->db = number(db, INT_MAX)) < 0)
        return bad(c, db.at, "a database that is not 0 to 2147483647");
    return RDL_OK;
}

/* `//[user:password@]` */
static int parse_slashes_and_userinfo(struct cursor *c)
{
    if (!take_char(c, '/') || !take_char(c, '/'))
        return bad(c, c->at, "no // after the scheme");
    return parse_userinfo(c);
}

static int parse_host_and_port(struct cursor *c)
{
    int rc = take_char(c, '[') ? parse_bracketed_host(c) : parse_named_host(c);

    return rc < 0 ? rc : parse_port(c);
}

/* `[/[db]]`, and then the end */
static int parse_rest(struct cursor *c)
{
    struct span db;
    int rc;

    if (take_char(c, '/') && (db = take_until(c, "?")).len != 0 && (rc = parse_db(c, db)) < 0)
        return rc;
    return *c->at == '\0' ? RDL_OK : bad(c, c->at, "a query");
}

/* `//[user:password@]host[:port][/[db]]` */
static int parse_tcp(struct cursor *c)
{
    int rc;

    if ((rc = parse_slashes_and_userinfo(c)) < 0 || (rc = parse_host_and_port(c)) < 0)
        return rc;
    return parse_rest(c);
}

/* `host[:port],host[:port]...`, into the seeds */
static int parse_seeds(struct cursor *c)
{
    struct rdl__uri *uri = c->uri;
    int rc;

    if ((uri->seeds = rdl__zalloc(uri->mem, RDL__SEEDS_MAX * sizeof *uri->seeds)) == NULL)
        return no_memory(c);
    do {
        if (uri->seed_count == RDL__SEEDS_MAX)
            return bad(c, c->at, "one host too many");
        if ((rc = parse_host_and_port(c)) < 0)
            return rc;
        uri->seeds[uri->seed_count++] = (struct rdl__seed){.host = uri->host, .port = uri->port};
        uri->host = NULL;
    } while (take_char(c, ','));
    return RDL_OK;
}

/* `//[user:password@]host[:port],host[:port].../master[/[db]]` */
static int parse_sentinel(struct cursor *c)
{
    struct span master;
    int rc;

    c->host_ends = ":,/?";
    c->port_ends = ",/?";
    c->default_port = SENTINEL_PORT;
    if ((rc = parse_slashes_and_userinfo(c)) < 0 || (rc = parse_seeds(c)) < 0)
        return rc;
    if (!take_char(c, '/') || (master = take_until(c, "/?")).len == 0)
        return bad(c, c->at, "no name of a master");
    if ((c->uri->master = decode(c->uri->mem, master)) == NULL)
        return no_memory(c);
    return parse_rest(c);
}

/* `//[user:password@]host[:port],host[:port]...[/[0]]` */
static int parse_cluster(struct cursor *c)
{
    const char *db;
    int rc;

    c->host_ends = ":,/?";
    c->port_ends = ",/?";
    if ((rc = parse_slashes_and_userinfo(c)) < 0 || (rc = parse_seeds(c)) < 0)
        return rc;
    db = c->at + 1;
    if ((rc = parse_rest(c)) < 0)
        return rc;
    return c->uri->db == 0 ? RDL_OK : bad(c, db, "a database that a cluster does not have (it has 0 alone)");
}

static int parse_path(struct cursor *c)
{
    struct span path = take_until(c, "?");

    if (path.len == 0)
        return bad(c, path.at, "no path");
    if (*path.at != '/')
        return bad(c, path.at, "a path that does not begin with /");
    if ((c->uri->host = decode(c->uri->mem, path)) == NULL)
        return no_memory(c);
    if (strlen(c->uri->host) > PATH_MAX_LEN)
        return bad(c, path.at, "a path that is too long for a socket");
    return RDL_OK;
}

/* `?db=N` */
static int parse_query(struct cursor *c)
{
    if (!take_char(c, '?'))
        return RDL_OK;
    if (strncmp(c->at, "db=", 3) != 0)
        return bad(c, c->at, "an unknown query parameter");
    c->at += 3;
    return parse_db(c, take_until(c, ""));
}

/* `/path[?db=N]` or `//[user:password@]/path[?db=N]` */
static int parse_unix(struct cursor *c)
{
    int rc;

    if (strncmp(c->at, "//", 2) == 0) {
        c->at += 2;
        if ((rc = parse_userinfo(c)) < 0)
            return rc;
        if (strchr("/?", *c->at) == NULL)
            return bad(c, c->at, "a host (the URI of a socket is unix:/path)");
    }
    if ((rc = parse_path(c)) < 0)
        return rc;
    return parse_query(c);
}

static int parse(struct cursor *c)
{
    int rc;

    if ((rc = check_characters(c)) < 0)
        return rc;
    if ((rc = parse_scheme(c)) < 0)
        return rc;
    switch (c->uri->scheme) {
    case RDL__SCHEME_UNIX:
        return parse_unix(c);
    case RDL__SCHEME_SENTINEL:
        return parse_sentinel(c);
    case RDL__SCHEME_CLUSTER:
        return parse_cluster(c);
    default:
        return parse_tcp(c);
    }
}

int rdl__uri_parse(const struct rdl__mem *mem, const char *text, struct rdl__uri *ret_uri, rdl_err_t *err)
{
    struct rdl__uri uri = {.mem = mem};
    struct cursor c = {
        .text = text,
        .at = text,
        .err = err,
        .uri = &uri,
        .host_ends = ":/?",
        .port_ends = "/?",
        .default_port = DEFAULT_PORT,
    };
    int rc;

    if (text == NULL)
        return rdl__err_set(err, RDL_EINVAL, "invalid URI: there is none");
    if ((rc = parse(&c)) < 0) {
        rdl__uri_done(&uri);
        return rc;
    }
    *ret_uri = uri;
    return RDL_OK;
}

static void free_string(const struct rdl__mem *mem, char *string)
{
    if (string != NULL)
        rdl__free(mem, string, strlen(string) + 1);
}

static void free_secret(const struct rdl__mem *mem, char *secret)
{
    size_t len = secret != NULL ? strlen(secret) : 0; /* gone once it is wiped */

    rdl__wipe(secret, len);
    rdl__free(mem, secret, len + 1);
}

static bool copy(const struct rdl__mem *mem, const char *text, char **ret)
{
    *ret = text == NULL ? NULL : rdl__memdup(mem, text, strlen(text));
    return text == NULL || *ret != NULL;
}

bool rdl__uri_credentials(struct rdl__uri *uri, const char *username, const char *password)
{
    char *user, *secret;

    if (!copy(uri->mem, username, &user))
        return false;
    if (!copy(uri->mem, password, &secret)) {
        free_string(uri->mem, user);
        return false;
    }
    if (user != NULL) {
        free_string(uri->mem, uri->username);
        uri->username = user;
    }
    if (secret != NULL) {
        free_secret(uri->mem, uri->password);
        uri->password = secret;
    }
    return true;
}

void rdl__uri_done(struct rdl__uri *uri)
{
    free_string(uri->mem, uri->host);
    free_string(uri->mem, uri->username);
    free_secret(uri->mem, uri->password);
    free_string(uri->mem, uri->master);
    for (unsigned i = 0; i < uri->seed_count; i++)
        free_string(uri->mem, uri->seeds[i].host);
    if (uri->seeds != NULL)
        rdl__free(uri->mem, uri->seeds, RDL__SEEDS_MAX * sizeof *uri->seeds);
    *uri = (struct rdl__uri){0};
}

bool rdl__uri_place(struct rdl__uri *uri, const char *host, int port)
{
    char *copy = rdl__memdup(uri->mem, host, strlen(host));

    if (copy == NULL)
        return false;
    free_string(uri->mem, uri->host);
    uri->host = copy;
    uri->port = port;
    return true;
}

static void put_place(char *to, size_t cap, const char *host, int port)
{
    (void)rdl__line(to, cap, strchr(host, ':') != NULL ? "[%s]:%d" : "%s:%d", host, port);
}

void rdl__uri_node(const struct rdl__uri *uri, char *to, size_t cap)
{
    static const char cluster[] = "cluster ";
    char path[4 * PATH_MAX_LEN + 1];

    if (uri->scheme == RDL__SCHEME_UNIX) {
        (void)rdl__printable(path, sizeof path, uri->host, strlen(uri->host));
        (void)rdl__line(to, cap, "unix:%s", path);
    } else if (uri->scheme == RDL__SCHEME_SENTINEL) {
        (void)rdl__printable(path, sizeof path, uri->master, strlen(uri->master));
        (void)rdl__line(to, cap, "master %s", path);
    } else if (uri->scheme == RDL__SCHEME_CLUSTER) {
        (void)rdl__line(to, cap, cluster);
        if (uri->seed_count > 0 && cap > sizeof cluster)
            put_place(to + sizeof cluster - 1, cap - sizeof cluster + 1, uri->seeds[0].host, uri->seeds[0].port);
    } else {
        put_place(to, cap, uri->host, uri->port);
    }
}
