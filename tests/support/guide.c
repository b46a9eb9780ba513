#include "tests/support/guide.h"

#include "tests/support/wait.h"

#include <stdlib.h>
#include <string.h>

#define BOUND_MS 10000

static int port_in(const char *uri)
{
    return (int)strtol(strrchr(uri, ':') + 1, NULL, 10);
}

/* From now on the sentinel names that port, under that epoch. */
static void name_master(struct guide *g, int port, int epoch)
{
    char *text = must_format("%d", port);
    char *address = must_format("*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(text), text);
    char *details = must_format("*2\r\n$12\r\nconfig-epoch\r\n$1\r\n%d\r\n", epoch);

    for (int i = 0; epoch > 0 && i < 2; i++)
        proxy_let_go(g->mouth, g->rules[i]);
    g->rules[0] = proxy_on(g->mouth, .action = PROXY_ANSWER, .command = "SENTINEL", .contains = "GET-MASTER", .every = true,
                           .answer = address);
    g->rules[1] = proxy_on(g->mouth, .action = PROXY_ANSWER, .command = "SENTINEL", .every = true, .answer = details);
    free(text);
    free(address);
    free(details);
}

/* WAIT is about what its own connection has seen done last. */
void guide_sync(struct guide *g)
{
    (void)probe_text(g->probe[0], "PING");
    if (!WAIT_UNTIL(probe_int(g->probe[0], "WAIT 1 100") == 1, BOUND_MS))
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
    name_master(g, port_in(proxy_uri(g->way)), 0);
    guide_sync(g);
    g->uri = must_format("sentinel://127.0.0.1:%d/main", port_in(proxy_uri(g->mouth)));
    return g;
}

void guide_part(struct guide *g)
{
    (void)probe_ask(g->probe[1], "REPLICAOF NO ONE");
}

void guide_switch(struct guide *g)
{
    guide_part(g);
    name_master(g, server_port(g->data[1]), 1);
    (void)probe_int(g->herald, "PUBLISH +switch-master main");
}

void guide_stop(struct guide *g)
{
    if (g == NULL)
        return;
    for (int i = 0; i < 2; i++)
        probe_close(g->probe[i]);
    probe_close(g->herald);
    proxy_stop(g->mouth);
    proxy_stop(g->way);
    server_stop(g->sentinel);
    server_stop(g->data[1]);
    server_stop(g->data[0]);
    free(g->uri);
    free(g);
}
