/* SPDX-License-Identifier: MIT */
/* test_kept.c - a lock that C processes keep (cache_ms; protocol.md, 11), shared with Java, which recalls nobody. */
#include "tests/interop/checks.h"
#include "tests/support/stage.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define NAME "orders"
#define COUNTER "redisson_lock_token:{" NAME "}"
#define COUNTED 1000000 /* rounds: nobody gets there */
#define KEEPERS 3
#define TURNS 10
#define PATIENT_MS 20000 /* nobody waits for that long */

/* One JVM, while three processes that keep the lock use it as fast as they can. They recall
 * each other; the JVM gets its turn when a keep is over. How often is a matter of who is faster, as without the option.
 */
Test(kept, java_gets_its_turns_among_three_processes_that_keep_the_lock, .timeout = 240)
{
    const struct rounds_plan plan = {
        .goal = COUNTED, .streak = COUNTED, .lease_ms = RDL_LEASE_AUTO, .bound_ms = PATIENT_MS};
    struct party *keepers[KEEPERS], *java;
    int64_t token = 0;
    struct meeting m;

    meeting_open(&m, "fenced", 0);
    monitor_stop(m.monitor);
    m.monitor = NULL;
    rounds_prepare(m.probe, NAME);
    java = party_on(&m, PARTY_JAVA, NAME);
    for (int i = 0; i < KEEPERS; i++) {
        keepers[i] = party_on(&m, PARTY_PROCESS, NAME);
        party_turn_to(keepers[i], "kept fenced");
        party_start_rounds(keepers[i], &plan);
    }
    for (int i = 0; i < TURNS; i++) {
        int64_t count = rounds_count(m.probe, NAME), before = token;

        cr_assert(WAIT_UNTIL(rounds_count(m.probe, NAME) > count, PATIENT_MS));
        cr_assert_eq(party_try(java, PATIENT_MS, LONG_MS), RDL_OK, "turn %d", i);
        token = atoll(probe_text(m.probe, "GET " COUNTER));
        cr_assert_gt(token, before);
        if (i == TURNS - 1) /* the end, for the others */
            (void)probe_text(m.probe, "SET {" NAME "}:record '%d J 1'", COUNTED);
        cr_assert_eq(party_unlock(java), RDL_OK);
    }
    for (int i = 0; i < KEEPERS; i++) {
        struct rounds_done done = party_rounds(keepers[i], PATIENT_MS);

        cr_expect_gt(done.rounds, 0, "keeper %d has never had it", i);
        cr_assert_eq(done.overlaps, 0);
    }
    meeting_close(&m);
}

/* Java's token is the counter as it has raised it: above all that a keeper has given out, and could have. */
Test(kept, tokens_of_keepers_and_of_java_grow, .timeout = 60)
{
    rdl_client_t *client;
    struct party *java;
    struct meeting m;
    rdl_lock_t *lock;
    int64_t last = 0;

    meeting_open(&m, "fenced", 0);
    java = party_on(&m, PARTY_JAVA, NAME);
    client = client_open(m.uri[0], NULL);
    lock = fenced(client, NAME, LOCK_OPTIONS(.cache_ms = KEPT_MS));
    for (int round = 0; round < 5; round++) {
        int64_t token;

        for (int i = 0; i < 200; i++) {
            cr_assert_eq(rdl_try_lock(lock, PATIENT_MS, RDL_LEASE_AUTO, NULL), RDL_OK);
            token = rdl_token(lock, NULL);
            cr_assert_gt(token, last);
            last = token;
            cr_assert_eq(rdl_unlock(lock, NULL), RDL_OK);
        }
        cr_assert_eq(party_try(java, PATIENT_MS, LONG_MS), RDL_OK);
        token = atoll(probe_text(m.probe, "GET " COUNTER));
        cr_assert_gt(token, last);
        last = token;
        cr_assert_eq(rdl_try_lock(lock, 0, RDL_LEASE_AUTO, NULL), RDL_ETIMEDOUT);
        cr_assert_eq(party_unlock(java), RDL_OK);
    }
    rdl_lock_free(lock);
    rdl_client_close(client);
    meeting_close(&m);
}

/* Neither end of Java's recalls it. */
Test(kept, java_reads_and_writes_when_the_write_end_has_been_kept_for_long_enough, .timeout = 60)
{
    rdl_client_t *client;
    rdl_lock_t *reads, *writes;
    struct party *java;
    struct meeting m;
    int rounds_kept = 0;

    meeting_open(&m, "write", 0);
    java = party_on(&m, PARTY_JAVA, NAME);
    client = client_open(m.uri[0], NULL);
    reads = read_end(client, NAME, LOCK_OPTIONS(.cache_ms = KEPT_MS));
    writes = write_end(client, NAME, LOCK_OPTIONS(.cache_ms = KEPT_MS));
    for (int round = 0; round < 6; round++) {
        bool kept = false;

        for (int i = 0; i < 2000 && !kept; i++) {
            cr_assert_eq(rdl_try_lock(writes, PATIENT_MS, RDL_LEASE_AUTO, NULL), RDL_OK);
            cr_assert_eq(rdl_unlock(writes, NULL), RDL_OK);
            kept = probe_int(m.probe, "EXISTS " NAME) == 1;
        }
        rounds_kept += kept;
        party_turn_to(java, round % 2 == 0 ? "read" : "write");
        cr_assert_eq(party_try(java, PATIENT_MS, LONG_MS), RDL_OK);
        cr_assert_eq(rdl_try_lock(writes, 0, RDL_LEASE_AUTO, NULL), RDL_ETIMEDOUT);
        cr_assert_eq(rdl_try_lock(reads, 0, RDL_LEASE_AUTO, NULL), round % 2 == 0 ? RDL_OK : RDL_ETIMEDOUT);
        if (round % 2 == 0)
            cr_assert_eq(rdl_unlock(reads, NULL), RDL_OK);
        cr_assert_eq(party_unlock(java), RDL_OK);
    }
    cr_assert_gt(rounds_kept, 2);
    rdl_lock_free(reads);
    rdl_lock_free(writes);
    rdl_client_close(client);
    meeting_close(&m);
}
