/* SPDX-License-Identifier: MIT */
/* test_readwrite.c - the read-write lock, shared by C and Java: who shares, who waits, and what wakes whom. */
#include "tests/interop/checks.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define NAME "orders"
#define CHANNEL "redisson_rwlock:{" NAME "}"
#define PATIENT_MS 20000
#define WOKEN_MS 3000 /* less than anybody looks by himself */

/* One of each side. */
struct pair {
    struct meeting m;
    struct party *a, *b;
};

static void open_pair(struct pair *p, enum party_kind a, enum party_kind b)
{
    meeting_open(&p->m, "write", 0);
    p->a = party_on(&p->m, a, NAME);
    p->b = party_on(&p->m, b, NAME);
}

static void close_pair(struct pair *p)
{
    cr_assert(WAIT_UNTIL(probe_keys(p->m.probe) == 0, 10000), "left: %s", probe_text(p->m.probe, "RANDOMKEY"));
    meeting_close(&p->m);
}

static int64_t take(struct party *who, const char *end)
{
    party_turn_to(who, end);
    return party_try(who, 0, LONG_MS);
}

static int64_t give(struct party *who, const char *end)
{
    party_turn_to(who, end);
    return party_unlock(who);
}

/* `who` waits for that end and sleeps. */
static void sleep_for(struct pair *p, struct party *who, const char *end)
{
    size_t mark = monitor_mark(p->m.monitor);

    party_turn_to(who, end);
    party_start_try(who, PATIENT_MS, LONG_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers(p->m.probe, CHANNEL) > 0, PATIENT_MS), "no subscription");
    /* Every try looks at the mode first, and the holder does nothing: the second one is after the subscription. */
    cr_assert(WAIT_UNTIL(((void)monitor_mark(p->m.monitor),
                          monitor_count_lua(p->m.monitor, mark, "\"hget\" \"" NAME "\" \"mode\"") >= 2),
                         PATIENT_MS),
              "no second try");
}

static void is_woken(struct party *who, int64_t since)
{
    cr_assert_eq(party_result(who, PATIENT_MS), RDL_OK);
    cr_assert_lt(now_ms() - since, WOKEN_MS);
}

static void check_sharing(enum party_kind a, enum party_kind b)
{
    struct pair p;

    open_pair(&p, a, b);
    cr_assert_eq(take(p.a, "read"), RDL_OK);
    cr_assert_eq(take(p.b, "read"), RDL_OK);
    cr_assert_eq(take(p.b, "read"), RDL_OK); /* again */
    cr_assert_eq(give(p.a, "read"), RDL_OK);
    cr_assert_eq(take(p.a, "write"), RDL_ETIMEDOUT);
    cr_assert_eq(give(p.b, "read"), RDL_OK);
    cr_assert_eq(take(p.a, "write"), RDL_ETIMEDOUT);
    cr_assert_eq(give(p.b, "read"), RDL_OK);
    cr_assert_eq(take(p.a, "write"), RDL_OK);
    cr_assert_eq(take(p.a, "write"), RDL_OK);
    cr_assert_eq(take(p.b, "read"), RDL_ETIMEDOUT);
    cr_assert_eq(take(p.b, "write"), RDL_ETIMEDOUT);
    cr_assert_eq(give(p.b, "write"), RDL_ENOTOWNER);
    cr_assert_eq(give(p.a, "write"), RDL_OK);
    cr_assert_eq(take(p.b, "read"), RDL_ETIMEDOUT);
    cr_assert_eq(give(p.a, "write"), RDL_OK);
    cr_assert_eq(take(p.b, "read"), RDL_OK);
    cr_assert_eq(give(p.b, "read"), RDL_OK);
    close_pair(&p);
}

Test(readwrite, c_and_java_readers_share_and_writers_are_alone, .timeout = 60)
{
    check_sharing(PARTY_THREAD, PARTY_JAVA);
}

Test(readwrite, java_and_c_readers_share_and_writers_are_alone, .timeout = 60)
{
    check_sharing(PARTY_JAVA, PARTY_THREAD);
}

static void check_wake_up(enum party_kind holder, const char *held, enum party_kind waiter, const char *wanted)
{
    struct pair p;
    int64_t released;

    open_pair(&p, holder, waiter);
    cr_assert_eq(take(p.a, held), RDL_OK);
    sleep_for(&p, p.b, wanted);
    released = now_ms();
    cr_assert_eq(give(p.a, held), RDL_OK);
    is_woken(p.b, released);
    cr_assert_eq(give(p.b, wanted), RDL_OK);
    close_pair(&p);
}

Test(readwrite, java_writer_is_woken_by_the_last_reader_in_c, .timeout = 60)
{
    check_wake_up(PARTY_THREAD, "read", PARTY_JAVA, "write");
}

Test(readwrite, c_writer_is_woken_by_the_last_reader_in_java, .timeout = 60)
{
    check_wake_up(PARTY_JAVA, "read", PARTY_THREAD, "write");
}

Test(readwrite, java_reader_is_woken_by_the_writer_in_c, .timeout = 60)
{
    check_wake_up(PARTY_THREAD, "write", PARTY_JAVA, "read");
}

Test(readwrite, c_reader_is_woken_by_the_writer_in_java, .timeout = 60)
{
    check_wake_up(PARTY_JAVA, "write", PARTY_THREAD, "read");
}

Test(readwrite, java_writer_is_woken_by_the_writer_in_c, .timeout = 60)
{
    check_wake_up(PARTY_THREAD, "write", PARTY_JAVA, "write");
}

Test(readwrite, c_writer_is_woken_by_the_writer_in_java, .timeout = 60)
{
    check_wake_up(PARTY_JAVA, "write", PARTY_THREAD, "write");
}

/* Ours announces a downgrade, so the other side's readers come in at once. */
Test(readwrite, downgrade_in_c_lets_a_java_reader_in, .timeout = 60)
{
    struct pair p;
    int64_t released;

    open_pair(&p, PARTY_THREAD, PARTY_JAVA);
    cr_assert_eq(take(p.a, "write"), RDL_OK);
    cr_assert_eq(take(p.a, "read"), RDL_OK);
    sleep_for(&p, p.b, "read");
    released = now_ms();
    cr_assert_eq(give(p.a, "write"), RDL_OK);
    is_woken(p.b, released);
    cr_assert_eq(take(p.b, "write"), RDL_ETIMEDOUT);
    cr_assert_eq(give(p.a, "read"), RDL_OK);
    cr_assert_eq(give(p.b, "read"), RDL_OK);
    close_pair(&p);
}

/* Java's does not (wire.md): ours looks by itself. */
Test(readwrite, downgrade_in_java_lets_a_c_reader_in_when_it_looks, .timeout = 60)
{
    struct pair p;

    open_pair(&p, PARTY_JAVA, PARTY_THREAD);
    cr_assert_eq(take(p.a, "write"), RDL_OK);
    cr_assert_eq(take(p.a, "read"), RDL_OK);
    cr_assert_eq(take(p.b, "read"), RDL_ETIMEDOUT);
    sleep_for(&p, p.b, "read");
    cr_assert_eq(give(p.a, "write"), RDL_OK);
    cr_assert_eq(party_result(p.b, PATIENT_MS), RDL_OK);
    cr_assert_eq(give(p.a, "read"), RDL_OK);
    cr_assert_eq(give(p.b, "read"), RDL_OK);
    close_pair(&p);
}

/* The other reader dies: the lock is the writer's when the dead one's lease is over, although the first one left
 * before. */
static void check_expiry(enum party_kind dying, enum party_kind other)
{
    enum { SHORT_MS = 1500 };
    struct pair p;
    int64_t began;

    open_pair(&p, dying, other);
    began = now_ms();
    party_turn_to(p.a, "read");
    cr_assert_eq(party_try(p.a, 0, SHORT_MS), RDL_OK);
    cr_assert_eq(take(p.b, "read"), RDL_OK);
    party_kill(p.a);
    cr_assert_eq(give(p.b, "read"), RDL_OK);
    cr_assert_leq(probe_int(p.m.probe, "PTTL " NAME), SHORT_MS);
    party_turn_to(p.b, "write");
    cr_assert_eq(party_try(p.b, PATIENT_MS, LONG_MS), RDL_OK);
    cr_assert_geq(now_ms() - began, SHORT_MS - 50);
    cr_assert_lt(now_ms() - began, SHORT_MS + WOKEN_MS);
    cr_assert_eq(party_unlock(p.b), RDL_OK);
    close_pair(&p);
}

Test(readwrite, dead_c_reader_costs_java_its_own_lease, .timeout = 60)
{
    check_expiry(PARTY_PROCESS, PARTY_JAVA);
}

Test(readwrite, dead_java_reader_costs_c_its_own_lease, .timeout = 60)
{
    check_expiry(PARTY_JAVA, PARTY_THREAD);
}

Test(readwrite, thousand_rounds_of_writers_shared_with_java_lose_nothing, .timeout = 120)
{
    check_rounds("write", 1000);
}

/* Readers and writers of both sides, and writers who go on reading. */
Test(readwrite, thousands_of_rounds_of_readers_and_writers_shared_with_java_see_nothing_half_done, .timeout = 300)
{
    check_mixed("read", 5000);
}

Test(readwrite, java_shares_with_c_that_prefers_writers, .timeout = 300)
{
    check_mixed("preferring read", 1000);
}

/* Java does not look at the marks of writers that wait, and is not woken when one goes. */
Test(readwrite, java_reader_passes_a_preferred_writer_in_c, .timeout = 60)
{
    struct party *second;
    struct pair p;

    open_pair(&p, PARTY_THREAD, PARTY_JAVA);
    second = party_on(&p.m, PARTY_THREAD, NAME);
    cr_assert_eq(take(p.a, "preferring read"), RDL_OK);
    party_turn_to(second, "preferring write");
    party_start_try(second, PATIENT_MS, LONG_MS);
    cr_assert(WAIT_UNTIL(probe_int(p.m.probe, "EXISTS redlatch_rwlock_writers:{" NAME "}") == 1, PATIENT_MS));
    cr_assert_eq(take(p.b, "read"), RDL_OK);
    cr_assert_eq(give(p.a, "preferring read"), RDL_OK);
    cr_assert_eq(take(p.a, "preferring read"), RDL_ETIMEDOUT);
    cr_assert_eq(give(p.b, "read"), RDL_OK);
    cr_assert_eq(party_result(second, PATIENT_MS), RDL_OK);
    cr_assert_eq(party_unlock(second), RDL_OK);
    close_pair(&p);
}

/* Q8. Its watchdog sets the time to live of the whole lock to less than is left of ours. */
Test(readwrite, Q8_long_read_hold_in_c_outlives_a_java_reader_that_dies, .timeout = 60)
{
    enum { LEASE_MS = 3 * BRIEF_WATCHDOG_MS };
    struct party *reader, *java, *writer;
    struct meeting m;
    int64_t began, taken;
    size_t mark;

    meeting_open(&m, "watched read", BRIEF_WATCHDOG_MS);
    reader = party_on(&m, PARTY_THREAD, NAME);
    java = party_on(&m, PARTY_JAVA, NAME);
    writer = party_on(&m, PARTY_PROCESS, NAME);
    party_turn_to(java, "read");
    party_turn_to(writer, "write");
    began = now_ms();
    cr_assert_eq(party_try(reader, 0, LEASE_MS), RDL_OK);
    mark = monitor_mark(m.monitor);
    cr_assert_eq(party_try(java, 0, RDL_LEASE_AUTO), RDL_OK);
    cr_assert(WAIT_UNTIL(((void)monitor_mark(m.monitor),
                          monitor_count_lua(m.monitor, mark, "\"pexpire\" \"" NAME "\" \"3000\"") >= 1),
                         PATIENT_MS),
              "it is not renewed");
    party_kill(java);
    cr_assert_eq(party_try(writer, PATIENT_MS, LONG_MS), RDL_OK);
    taken = now_ms();
    /* It is confirmed for no longer than it is believed in: the allowance for drift is 1 % and 2 ms. */
    cr_assert_geq(taken - began, LEASE_MS - LEASE_MS / 100 - 2, "%ld ms", (long)(taken - began));
    cr_assert_lt(taken - began, LEASE_MS + WOKEN_MS, "%ld ms", (long)(taken - began));
    cr_assert_eq(party_unlock(reader), RDL_ELOST);
    cr_assert_eq(party_unlock(writer), RDL_OK);
    meeting_close(&m);
}
