/* SPDX-License-Identifier: MIT */
/* race_cached.c - many threads on few locks (crowd.h) that stay with their client (cache_ms), of two clients, and of
 * one client that keeps nothing. One is a read-write lock, of which readers share what is kept. Nobody of either side
 * goes without. */
#include "tests/support/crowd.h"

static struct crowd crowd = {.threads = 9, .locks = 4, .clients = 3};

static void make_locks(int client, rdl_client_t *of, int64_t cache_ms)
{
    const rdl_lock_options_t *options = LOCK_OPTIONS(.cache_ms = cache_ms);

    crowd.lock[client][0] = fenced(of, "shared0", options);
    crowd.lock[client][1] = reentrant(of, "shared1", options);
    crowd.lock[client][2] = nonreentrant(of, "shared2", options);
    crowd.lock[client][3] = write_end(of, "shared3", options);
    crowd.read[client][3] = read_end(of, "shared3", options);
}

int main(int argc, char **argv)
{
    struct stage st;
    rdl_client_t *other, *plain;

    race_begin(argc, argv);
    crowd_open(&st);
    other = crowd_client(&st, 1);
    plain = crowd_client(&st, 0);
    make_locks(0, st.client, 50);
    make_locks(1, other, 1000);
    make_locks(2, plain, 0);
    crowd_run(&crowd, &st);
    (void)probe_ask(st.probe, "DEL redisson_lock_token:{shared0}");
    race_claim(stage_ends_clean(&st, 10000), "nothing is left at the server");
    rdl_client_close(plain);
    rdl_client_close(other);
    stage_close(&st);
    return race_end();
}
