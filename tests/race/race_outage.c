/* SPDX-License-Identifier: MIT */
/* race_outage.c - threads of two clients on locks that the host alone may know of (core/call/alone.c), at a server that
 * is killed and comes back empty, or stands still and goes on.
 *
 * The clients are two processes as far as the host's locks go. So whatever the server does, one at a time is inside; a
 * hold is lost only with the server's keys, and what is begun comes to an end.
 */
#include "tests/support/folder.h"
#include "tests/support/race.h"

#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8, NAMES = 3, AFTER_MS = 50, LEASE_MS = 400, PATIENCE_MS = 60000, PAUSE_MS = 5 };

static rdl_client_t *clients[2];
static rdl_lock_t *locks[2][NAMES];
static struct guarded guarded[NAMES];
static atomic_ullong pairs, alone, restored;

static void on_news(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    (void)lock;
    (void)arg;
    if (loss->state == RDL_DEGRADED)
        atomic_fetch_add(&alone, 1);
    if (loss->state == RDL_HELD)
        atomic_fetch_add(&restored, 1);
    if (loss->state == RDL_LOST && loss->reason == RDL_LOSS_TAKEN)
        race_violation("%s is lost, and nobody else is there", loss->owner);
}

/* A token is none while the host is alone, and a server that has lost its keys counts anew. */
static void use(int client, int name, unsigned *random)
{
    rdl_lock_t *lock = locks[client][name];
    bool nested = name == 0 && race_below(random, 4) == 0;
    rdl_err_t err = {0};
    int rc;

    if ((rc = rdl_try_lock(lock, race_below(random, 4) == 0 ? 0 : PATIENCE_MS, RDL_LEASE_AUTO, &err)) != RDL_OK) {
        if (rc != RDL_ETIMEDOUT && rc != RDL_ELOST && rc != RDL_EUNKNOWN)
            race_violation("a take: %s", err.message);
        return;
    }
    guarded_enter(&guarded[name], 0);
    let_pass_ms(race_below(random, 8) == 0 ? 400 : race_below(random, 3));
    if (nested && rdl_try_lock(lock, 0, RDL_LEASE_AUTO, NULL) == RDL_OK)
        (void)rdl_unlock(lock, NULL);
    guarded_leave(&guarded[name]);
    rc = rdl_unlock(lock, &err);
    if (rc != RDL_OK && rc != RDL_ELOST && rc != RDL_EUNKNOWN && rc != RDL_ECONN)
        race_violation("an unlock: %s", err.message);
    atomic_fetch_add(&pairs, 1);
}

static void *run(void *arg)
{
    struct race_thread *t = arg;

    while (race_goes_on())
        use(t->number % 2, race_below(&t->random, NAMES), &t->random);
    return NULL;
}

/* Until some are alone. */
static void await_outage(void)
{
    unsigned long long had = atomic_load(&alone);

    while (race_goes_on() && atomic_load(&alone) < had + 3)
        let_pass_ms(PAUSE_MS);
}

/* Until the server has one of those again, or they were all given back before that. */
static void await_return(void)
{
    unsigned long long had = atomic_load(&restored), used = atomic_load(&pairs);

    while (race_goes_on() && atomic_load(&restored) == had && atomic_load(&pairs) < used + 50)
        let_pass_ms(PAUSE_MS);
}

static void *break_server(void *arg)
{
    struct race_thread *t = arg;
    struct server *server = t->arg;

    while (race_goes_on()) {
        bool dies = race_below(&t->random, 2) == 0;

        if (dies)
            server_kill(server);
        else
            server_pause(server);
        await_outage();
        if (dies)
            server_start_again(server);
        else
            server_resume(server);
        await_return();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct race_thread threads[THREADS], breaker;
    struct stage st = {.server = NULL};
    char *dir;

    race_begin(argc, argv);
    race_wants(&alone, 0);
    race_wants(&restored, 0);
    st.server = server_start(NULL);
    dir = must_format("%s/host", server_dir(st.server));
    for (int c = 0; c < 2; c++) {
        clients[c] = client_open(server_uri(st.server),
                                 OPTIONS(.on_outage = RDL_OUTAGE_LOCAL, .local_dir = dir, .local_after_ms = AFTER_MS,
                                         .watchdog_lease_ms = LEASE_MS, .reconnect_max_ms = 20, .connections = 2,
                                         .command_timeout_ms = 1000));
        for (int n = 0; n < NAMES; n++) {
            static handle_fn *const makes[NAMES] = {reentrant, simple, fenced};
            char *name = must_format("name%d", n);

            locks[c][n] = makes[n](clients[c], name, NULL);
            (void)rdl_on_lost(locks[c][n], on_news, NULL, NULL);
            free(name);
        }
    }
    race_start(&breaker, 1, break_server, st.server);
    race_start(threads, THREADS, run, NULL);
    race_join(threads, THREADS);
    race_join(&breaker, 1);
    printf("%llu pairs, %llu holds were the host's alone, %llu were the server's again\n", pairs, alone, restored);
    for (int c = 0; c < 2; c++) {
        for (int n = 0; n < NAMES; n++)
            rdl_lock_free(locks[c][n]);
        clients[c] = rdl_client_close(clients[c]);
    }
    race_claim(race_violations() == 0, "one of the host is inside at a time, and nothing is lost to nobody");
    race_claim(race_had_them(), "there were outages, and returns");
    race_claim(folder_remove(dir), "the host's directory is there");
    free(dir);
    stage_close(&st);
    return race_end();
}
