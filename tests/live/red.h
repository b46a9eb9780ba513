/* SPDX-License-Identifier: MIT */
/* red.h - five servers, and a red lock on them twice: ours and a rival's.
 */
#ifndef TESTS_LIVE_RED_H
#define TESTS_LIVE_RED_H

#include "tests/live/live.h"

#define N 5
#define LEASE_MS 10000
#define NAME "majority"

static struct server *server[N];
static struct probe *probe[N];
static rdl_client_t *client[2][N]; /* ours, the rival's */
static rdl_lock_t *member[2][N];
static rdl_lock_t *red[2];

static inline void fini(void)
{
    for (int side = 0; side < 2; side++) {
        rdl_lock_free(red[side]);
        for (int i = 0; i < N; i++)
            rdl_lock_free(member[side][i]);
        for (int i = 0; i < N; i++)
            rdl_client_close(client[side][i]);
    }
    for (int i = 0; i < N; i++) {
        probe_close(probe[i]);
        server_stop(server[i]);
    }
}

static inline void open_with(const rdl_client_options_t *client_options, const rdl_lock_options_t *options)
{
    for (int i = 0; i < N; i++) {
        server[i] = server_start(&(struct server_options){.tcp = true}); /* which has a short name in errors */
        probe[i] = probe_open(server[i]);
    }
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < N; i++) {
            client[side][i] = client_open(server_uri(server[i]), client_options);
            member[side][i] = reentrant(client[side][i], NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
        }
        expect(RDL_OK, rdl_red_lock(member[side], N, options, &red[side], &err));
    }
}

/* Servers of a test are young; 5 s rather than 50 ms, because the machine may be busy. */
#define NODE_TIMEOUT_MS SOON_MS
#define TOLERANT LOCK_OPTIONS(.min_uptime_ms = RDL_UPTIME_ANY, .node_timeout_ms = NODE_TIMEOUT_MS)
#define SHORT_MS 1500
#define IMPATIENT LOCK_OPTIONS(.min_uptime_ms = RDL_UPTIME_ANY, .node_timeout_ms = SHORT_MS)

static inline int keys(void)
{
    int n = 0;

    for (int i = 0; i < N; i++)
        n += probe[i] != NULL && probe_keys(probe[i]) > 0;
    return n;
}

static inline void pause_some(int n)
{
    for (int i = 0; i < n; i++)
        server_pause(server[i]);
}

static inline void resume_some(int n)
{
    for (int i = 0; i < n; i++)
        server_resume(server[i]);
}

#endif
