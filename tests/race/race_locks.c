/* SPDX-License-Identifier: MIT */
/* race_locks.c - many threads on few locks (crowd.h) of both types, through two clients, with tokens. */
#include "tests/support/crowd.h"

#include <stdlib.h>

static struct crowd crowd = {.threads = 8, .locks = 4, .clients = 2};

static void make_locks(int client, rdl_client_t *of)
{
    const rdl_lock_options_t *fenced = LOCK_OPTIONS(.fencing = RDL_FENCING_TIME);

    for (int i = 0; i < crowd.locks; i++) {
        char *name = must_format("shared%d", i);

        crowd.lock[client][i] = i % 2 == 0 ? reentrant(of, name, fenced) : simple(of, name, fenced);
        free(name);
    }
}

int main(int argc, char **argv)
{
    struct stage st;
    rdl_client_t *other;

    race_begin(argc, argv);
    crowd_open(&st);
    other = crowd_client(&st, 1);
    make_locks(0, st.client);
    make_locks(1, other);
    crowd_run(&crowd, &st);
    race_claim(stage_ends_clean(&st, 5000), "nothing is left at the server");
    rdl_client_close(other);
    stage_close(&st);
    return race_end();
}
