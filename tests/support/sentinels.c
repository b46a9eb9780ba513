/* SPDX-License-Identifier: MIT */
/* sentinels.c - see sentinels.h.
 *
 * A sentinel makes a promoted replica a replica again when it has not heard of the failover within four periods of
 * publishing, and the leader looks for the promotion once a second; and it promotes only a replica that it has looked
 * at within five periods of pinging, which it does once a second, too. So publishing and pinging have periods that are
 * not as short as the others.
 */
#include "tests/support/sentinels.h"

#include "tests/support/certs.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_BOUND_MS 30000
#define OTHER_ADDRESS "127.0.2.1" /* from which sentinels and replica speak to a master with a front */

/* What a server has to be told to use the certificate `name` and believe those who are vouched for in `ca`, all of them
 * files in the first server's directory. */
static char *tls_config(const struct sentinels *s, const char *name, const char *ca)
{
    const char *dir;

    if (s->ca == NULL)
        return must_format(" ");
    dir = server_dir(s->data[0]);
    return must_format("tls-replication yes\ntls-ca-cert-file %s/%s\ntls-cert-file %s/%s.crt\ntls-key-file %s/%s.key",
                       dir, ca, dir, name, dir, name);
}

static void append_file(FILE *to, const char *path)
{
    FILE *from = fopen(path, "re");
    int c;

    if (from == NULL)
        die("%s: %s", path, strerror(errno));
    while ((c = getc(from)) != EOF)
        (void)putc(c, to);
    (void)fclose(from);
}

/* The sentinels' CA, and a file with both. */
static void make_authorities(const struct sentinels *s)
{
    const char *dir = server_dir(s->data[0]);
    char *path = must_format("%s/both.crt", dir);
    FILE *both;

    certs_make_ca(dir, "sentinels");
    certs_issue(dir, "sentinels", "sentinel", "IP:127.0.0.1", 2);
    if ((both = fopen(path, "we")) == NULL)
        die("%s: %s", path, strerror(errno));
    append_file(both, s->ca);
    append_file(both, s->sentinel_ca);
    if (fclose(both) != 0)
        die("%s: %s", path, strerror(errno));
    free(path);
}

/* Every server of them all. */
static struct server *start_one(const struct sentinels *s, bool sentinel, bool tls, const char *password,
                                const char *lines)
{
    char *trust = tls_config(s, sentinel ? "sentinel" : "server", sentinel ? "both.crt" : "ca.crt");
    char *config = must_format("%s\n%s", lines, trust);
    struct server *one = server_start(&(struct server_options){
        .tcp = true, .tls = tls, .sentinel = sentinel, .password = password, .config = config});

    free(trust);
    free(config);
    return one;
}

static struct server *start_data(const struct sentinels *s, const struct sentinels_options *o, int master_port)
{
    char *follow = master_port == 0 ? must_format(" ") : must_format("replicaof 127.0.0.1 %d", master_port);
    char *auth = o->password == NULL ? must_format(" ") : must_format("masterauth %s", o->password);
    const char *apart = o->proxied && master_port != 0 ? "bind-source-addr " OTHER_ADDRESS
                                                         "\nreplica-announce-ip 127.0.0.1\nprotected-mode no"
                                                       : "";
    char *config = must_format("repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n%s\n%s\n%s\n%s\n%s", follow,
                               auth, o->tls ? "tls-replication yes" : "", apart, o->config != NULL ? o->config : "");
    struct server *data = start_one(s, false, o->tls, o->password, config);

    free(follow);
    free(auth);
    free(config);
    return data;
}

static struct server *start_sentinel(const struct sentinels *s, const struct sentinels_options *o, int master_port)
{
    char *auth =
        o->password == NULL ? must_format(" ") : must_format("sentinel auth-pass " SENTINEL_MASTER " %s", o->password);
    char *peers = o->sentinel_password == NULL ? must_format(" ")
                                               : must_format("sentinel sentinel-pass %s", o->sentinel_password);
    char *config = must_format("sentinel monitor " SENTINEL_MASTER " 127.0.0.1 %d 2\n"
                               "sentinel down-after-milliseconds " SENTINEL_MASTER " 500\n"
                               "sentinel failover-timeout " SENTINEL_MASTER " 2000\n%s\n%s\n%s",
                               master_port, auth, peers,
                               o->proxied ? "bind-source-addr " OTHER_ADDRESS "\nsentinel announce-ip 127.0.0.1" : "");
    struct server *sentinel = start_one(s, true, o->tls, o->sentinel_password, config);

    free(auth);
    free(peers);
    free(config);
    return sentinel;
}

/* A field of what a sentinel says of one server; "": there is none. */
static const char *field_in(const struct reply *r, const char *name)
{
    for (size_t i = 0; r->kind == REPLY_ARRAY && i + 1 < r->count; i += 2)
        if (strcmp(r->items[i].text, name) == 0)
            return r->items[i + 1].text;
    return "";
}

/* A field of SENTINEL MASTER as a number. */
static int64_t field_of(struct probe *p, const char *name)
{
    return strtoll(field_in(probe_ask(p, "SENTINEL MASTER " SENTINEL_MASTER), name), NULL, 10);
}

/* Does the sentinel see its only replica as one that follows? */
static bool sees_replica(struct probe *p)
{
    const struct reply *r = probe_ask(p, "SENTINEL REPLICAS " SENTINEL_MASTER);

    return r->kind == REPLY_ARRAY && r->count == 1 && strcmp(field_in(&r->items[0], "role-reported"), "slave") == 0 &&
           strcmp(field_in(&r->items[0], "master-link-status"), "ok") == 0;
}

static bool knows_all(struct probe *p)
{
    return field_of(p, "num-slaves") == 1 && field_of(p, "num-other-sentinels") == SENTINELS - 1;
}

/* From now on data[0] is where its front is. */
static void make_front(struct sentinels *s)
{
    struct probe *p = probe_open(s->data[0]);

    s->front = proxy_start_blind(server_port(s->data[0]));
    (void)probe_text(p, "CONFIG SET replica-announce-port %d", proxy_port(s->front));
    (void)probe_text(p, "CONFIG SET replica-announce-ip 127.0.0.1");
    probe_close(p);
}

/* By which everybody knows it. */
static int port_of(const struct sentinels *s, int which)
{
    return which == 0 && s->front != NULL ? proxy_port(s->front) : server_port(s->data[which]);
}

static void watch(struct sentinels *s, int which)
{
    s->probe[which] = probe_open(s->sentinel[which]);
    (void)probe_ask(s->probe[which],
                    "SENTINEL DEBUG INFO-PERIOD 100 ASK-PERIOD 100 PUBLISH-PERIOD 500 PING-PERIOD 300"
                    " TILT-PERIOD 1000"); /* a machine that stood still puts off no failover for long */
}

static void expect_knows_all(const struct sentinels *s, int which)
{
    if (!WAIT_UNTIL(knows_all(s->probe[which]), START_BOUND_MS))
        die("sentinel %d does not find the others", which);
}

struct sentinels *sentinels_start(const struct sentinels_options *options)
{
    static const struct sentinels_options defaults;
    struct sentinels *s = must_alloc(sizeof *s);
    int port;

    options = options != NULL ? options : &defaults;
    s->data[0] = start_data(s, options, 0);
    if (options->tls) {
        s->ca = must_format("%s/ca.crt", server_dir(s->data[0]));
        s->sentinel_ca = must_format("%s/sentinels.crt", server_dir(s->data[0]));
        make_authorities(s);
    }
    if (options->proxied)
        make_front(s);
    port = port_of(s, 0);
    s->data[1] = start_data(s, options, port);
    if (!sentinels_wait_synced(s, 1, START_BOUND_MS))
        die("the replica does not follow its master");
    for (int i = 0; i < SENTINELS; i++) {
        s->sentinel[i] = start_sentinel(s, options, port);
        watch(s, i);
    }
    for (int i = 0; i < SENTINELS; i++)
        expect_knows_all(s, i);
    s->uri = must_format("%s://%s127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/" SENTINEL_MASTER,
                         options->tls ? "sentinels" : "sentinel", server_login(s->data[0]), server_port(s->sentinel[0]),
                         server_port(s->sentinel[1]), server_port(s->sentinel[2]));
    return s;
}

void sentinels_renew_certificates(struct sentinels *s)
{
    const char *dir = server_dir(s->data[0]);

    certs_make_ca(dir, "ca");
    certs_issue(dir, "ca", "server", "DNS:localhost,IP:127.0.0.1", 2);
    make_authorities(s);
    for (int i = 0; i < 2; i++)
        server_read_certificates(s->data[i]);
    for (int i = 0; i < SENTINELS; i++) {
        probe_close(s->probe[i]);
        server_kill(s->sentinel[i]);
        server_start_again(s->sentinel[i]);
        watch(s, i);
        expect_knows_all(s, i);
    }
}

void sentinels_stop(struct sentinels *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < SENTINELS; i++) {
        probe_close(s->probe[i]);
        server_stop(s->sentinel[i]);
    }
    server_stop(s->data[1]);
    proxy_stop(s->front);
    server_stop(s->data[0]);
    free(s->uri);
    free(s->ca);
    free(s->sentinel_ca);
    free(s);
}

static int master_by(const struct sentinels *s, int sentinel)
{
    int64_t port = field_of(s->probe[sentinel], "port");

    return port == port_of(s, 0) ? 0 : port == port_of(s, 1) ? 1 : -1;
}

int sentinels_master(const struct sentinels *s)
{
    return master_by(s, 0);
}

static bool all_say(const struct sentinels *s, int which)
{
    for (int i = 0; i < SENTINELS; i++)
        if (server_running(s->sentinel[i]) && master_by(s, i) != which)
            return false;
    return true;
}

bool sentinels_wait_master(const struct sentinels *s, int which, int64_t bound_ms)
{
    bool met = WAIT_UNTIL(all_say(s, which), bound_ms);

    for (int i = 0; !met && i < SENTINELS; i++)
        server_print_log(s->sentinel[i]);
    return met;
}

/* By the master's word: a server that is being made a replica closes the connections of whoever asks it. */
static bool synced(const struct sentinels *s, int which)
{
    struct probe *p = probe_open(s->data[1 - which]);
    char *line = must_format("port=%d,state=online", port_of(s, which));
    const char *info = probe_text(p, "INFO replication");
    bool online = info != NULL && strstr(info, line) != NULL;

    free(line);
    probe_close(p);
    return online;
}

bool sentinels_wait_synced(const struct sentinels *s, int which, int64_t bound_ms)
{
    return WAIT_UNTIL(synced(s, which), bound_ms);
}

static bool may_fail_over(const struct sentinels *s)
{
    for (int i = 0; i < SENTINELS; i++)
        if (!sees_replica(s->probe[i]))
            return false;
    return true;
}

/* It may begin a failover and give it up, because it has not looked at the replica for a moment (the head of this
 * file): then it is asked again. One answer says both whether it is at it and who is master, so that none is begun
 * after one that has ended. */
static bool has_failed_over(const struct sentinels *s, int64_t from_port)
{
    const struct reply *r = probe_ask(s->probe[0], "SENTINEL MASTER " SENTINEL_MASTER);

    if (strtoll(field_in(r, "port"), NULL, 10) != from_port)
        return true;
    if (strstr(field_in(r, "flags"), "failover_in_progress") == NULL)
        (void)probe_ask(s->probe[0], "SENTINEL FAILOVER " SENTINEL_MASTER);
    return false;
}

/* A sentinel that still sees the replica as a master which has just come back would make it a replica again. */
void sentinels_failover(const struct sentinels *s)
{
    int64_t from_port;

    if (!WAIT_UNTIL(may_fail_over(s), START_BOUND_MS))
        die("the sentinels do not see the replica");
    from_port = field_of(s->probe[0], "port");
    if (!WAIT_UNTIL(has_failed_over(s, from_port), FAILOVER_BOUND_MS))
        die("no failover: %s", probe_text(s->probe[0], "SENTINEL FAILOVER " SENTINEL_MASTER));
}

void sentinels_cut_off(const struct sentinels *s, int which)
{
    struct probe *p = probe_open(s->data[1 - which]);

    server_pause(s->data[which]);
    (void)probe_int(p, "CLIENT KILL TYPE replica");
    probe_close(p);
}

void sentinels_isolate(const struct sentinels *s, bool on)
{
    proxy_bar(s->front, OTHER_ADDRESS, on);
}
