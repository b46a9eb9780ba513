/* SPDX-License-Identifier: MIT */
#include "tests/support/guide.h"

#include "tests/support/wait.h"

#include <stdlib.h>
#include <string.h>

#define BOUND_MS 10000

static int port_in(const char *uri)
{
    return (int)strtol(strrchr(uri, ':') + 1, NULL, 10);
}

/* From now on that sentinel names that port, under that epoch; 0: it has named none so far. */
static void name_master(struct proxy *mouth, int rules[2], int port, int epoch)
{
    char *text = must_format("%d", port);
    char *address = must_format("*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(text), text);
    char *details = must_format("*2\r\n$12\r\nconfig-epoch\r\n$%d\r\n%d\r\n", epoch < 10 ? 1 : 2, epoch);

    for (int i = 0; epoch > 0 && i < 2; i++)
        proxy_let_go(mouth, rules[i]);
    rules[0] = proxy_on(mouth, .action = PROXY_ANSWER, .command = "SENTINEL", .contains = "GET-MASTER", .every = true,
                        .answer = address);
    rules[1] = proxy_on(mouth, .action = PROXY_ANSWER, .command = "SENTINEL", .every = true, .answer = details);
    free(text);
    free(address);
    free(details);
}

void guide_sync(struct guide *g)
{
    if (!probe_followed(g->probe[0], 1, BOUND_MS))
        die("the replica does not follow its master");
}

struct guide *guide_start(const char *clock)
{
    struct guide *g = must_alloc(sizeof *g);
    char *follow;

    g->data[0] = server_start(&(struct server_options){.tcp = true, .config = "repl-diskless-sync-delay 0"});
    g->way = proxy_start(g->data[0]);
    follow = must_format("replicaof 127.0.0.1 %d", server_port(g->data[0]));
    g->data[1] = server_start(&(struct server_options){.tcp = true, .clock = clock, .config = follow});
    free(follow);
    g->sentinel = server_start(&(struct server_options){.tcp = true});
    g->mouth = proxy_start(g->sentinel);
    g->herald = probe_open(g->sentinel);
    for (int i = 0; i < 2; i++)
        g->probe[i] = probe_open(g->data[i]);
    name_master(g->mouth, g->rules, port_in(proxy_uri(g->way)), 0);
    guide_sync(g);
    g->uri = must_format("sentinel://%s127.0.0.1:%d/main", server_login(g->data[0]), port_in(proxy_uri(g->mouth)));
    return g;
}

/* Nobody announces anything through its proxy. */
void guide_add_laggard(struct guide *g)
{
    g->past = proxy_start(g->sentinel);
    name_master(g->past, g->past_rules, port_in(proxy_uri(g->way)), 0);
    free(g->uri);
    g->uri = must_format("sentinel://127.0.0.1:%d,127.0.0.1:%d/main", port_in(proxy_uri(g->past)),
                         port_in(proxy_uri(g->mouth)));
}

void guide_part(struct guide *g)
{
    (void)probe_ask(g->probe[1], "REPLICAOF NO ONE");
}

static void announce(struct guide *g, int port)
{
    name_master(g->mouth, g->rules, port, ++g->epoch);
    (void)probe_int(g->herald, "PUBLISH +switch-master main");
}

void guide_switch(struct guide *g)
{
    guide_part(g);
    announce(g, server_port(g->data[1]));
}

void guide_switch_back(struct guide *g)
{
    announce(g, port_in(proxy_uri(g->way)));
}

void guide_stop(struct guide *g)
{
    if (g == NULL)
        return;
    for (int i = 0; i < 2; i++)
        probe_close(g->probe[i]);
    probe_close(g->herald);
    proxy_stop(g->past);
    proxy_stop(g->mouth);
    proxy_stop(g->way);
    server_stop(g->sentinel);
    server_stop(g->data[1]);
    server_stop(g->data[0]);
    free(g->uri);
    free(g);
}
