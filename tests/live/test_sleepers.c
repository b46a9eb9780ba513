/* SPDX-License-Identifier: MIT */
/* test_sleepers.c - a take that sleeps has let its record go (core/call/record.h): what that saves, and that nobody
 * sees it.
 *
 * Who sleeps without a record is known by the client's memory, which is counted: the name keeps the first one's, and
 * each other's is given back.
 */
#include "tests/live/live.h"
#include "tests/support/counting_alloc.h"

#define NAME "dormitory"
#define LEASE_MS 30000
#define OWN_CHANNELS "PUBSUB CHANNELS redisson_lock__channel:{" NAME "}:*"

enum { SLEEPERS = 20, LAST = SLEEPERS - 1 };

LIVE_SUITE(sleepers, 60);

static struct counting_alloc counting;
static rdl_client_t *client; /* with memory that is counted */
static rdl_lock_t *lock, *rival;
static rdl_owner_t *owners[SLEEPERS];
static struct outcome taken[SLEEPERS], given[SLEEPERS];
static bool given_back[SLEEPERS];

static bool all_sleep(int64_t before)
{
    return counting_alloc_blocks(&counting) < before + SLEEPERS + SLEEPERS / 2; /* a call each, and what all share */
}

/* The lock is the rival's, and all owners sleep without records; the last for so long. */
static void put_to_sleep(int64_t last_ms)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    int64_t before;

    stage_open(&st);
    client = client_open(stage_uri(&st), OPTIONS(.allocator = &hooks));
    lock = reentrant(client, NAME, NULL);
    rival = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(rival, 0, LEASE_MS, &err));
    for (int i = 0; i < SLEEPERS; i++)
        expect(RDL_OK, rdl_owner_new(client, &owners[i], &err));
    before = counting_alloc_blocks(&counting);
    for (int i = 0; i < SLEEPERS; i++)
        expect(RDL_OK, rdl_try_lock_async(lock, owners[i], i == LAST ? last_ms : 20000, RDL_LEASE_AUTO, outcome_note,
                                          &taken[i], NULL, &err));
    cr_assert(WAIT_UNTIL(counting_alloc_blocks(&counting) >= before + SLEEPERS && all_sleep(before), SOON_MS),
              "%" PRId64 " blocks for %d sleepers", counting_alloc_blocks(&counting) - before, (int)SLEEPERS);
}

static void get_up(void)
{
    for (int i = 0; i < SLEEPERS; i++)
        rdl_owner_free(owners[i]);
    rdl_lock_free(lock);
    rdl_lock_free(rival);
    rdl_client_close(client);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

static void give_back(int i)
{
    given_back[i] = true;
    expect(RDL_OK, rdl_unlock_async(lock, owners[i], outcome_note, &given[i], NULL, &err));
}

/* Whose take has ended, and who has not given back yet; SLEEPERS: nobody. */
static int next_taken(void)
{
    int i = 0;

    while (i < SLEEPERS && (given_back[i] || atomic_load(&taken[i].calls) == 0))
        i++;
    return i;
}

static void all_the_others(int left)
{
    for (; left > 0; left--) {
        int i = 0;

        cr_assert(WAIT_UNTIL((i = next_taken()) < SLEEPERS, SOON_MS));
        expect(RDL_OK, taken[i].result);
        give_back(i);
        expect(RDL_OK, outcome_wait(&given[i], SOON_MS)); /* an owner with a call under way may not be freed */
    }
}

Test(sleepers, have_one_block_each_and_get_the_lock_one_after_the_other)
{
    put_to_sleep(20000);
    expect(RDL_OK, rdl_unlock(rival, &err));
    all_the_others(SLEEPERS);
    get_up();
}

Test(sleepers, verbs_of_a_sleepers_owner_come_after_it)
{
    static struct outcome again, last;

    put_to_sleep(20000);
    expect(RDL_OK, rdl_try_lock_async(lock, owners[LAST], 0, RDL_LEASE_AUTO, outcome_note, &again, NULL, &err));
    give_back(LAST);
    expect(RDL_OK, rdl_unlock_async(lock, owners[LAST], outcome_note, &last, NULL, &err));
    cr_assert_eq(atomic_load(&again.calls) + atomic_load(&given[LAST].calls) + atomic_load(&last.calls), 0);
    expect(RDL_OK, rdl_unlock(rival, &err));
    all_the_others(SLEEPERS - 1);
    expect(RDL_OK, outcome_wait(&taken[LAST], SOON_MS));
    expect(RDL_OK, outcome_wait(&again, SOON_MS));
    expect(RDL_OK, outcome_wait(&given[LAST], SOON_MS));
    expect(RDL_OK, outcome_wait(&last, SOON_MS));
    get_up();
}

/* The one that has slept in vain lets them go on. */
Test(sleepers, verbs_of_a_sleepers_owner_begin_when_its_time_is_over)
{
    static struct outcome again;

    put_to_sleep(1000);
    give_back(LAST);
    expect(RDL_OK, rdl_try_lock_async(lock, owners[LAST], 0, RDL_LEASE_AUTO, outcome_note, &again, NULL, &err));
    expect(RDL_ETIMEDOUT, outcome_wait(&taken[LAST], SOON_MS));
    expect(RDL_ENOTOWNER, outcome_wait(&given[LAST], SOON_MS));
    expect(RDL_ETIMEDOUT, outcome_wait(&again, SOON_MS));
    expect(RDL_OK, rdl_unlock(rival, &err));
    all_the_others(SLEEPERS - 1);
    get_up();
}

/* It is told to try, as who is woken is, while the rival has the lock. */
static void wake_in_vain(int times)
{
    struct monitor *monitor = monitor_start(st.server);
    char *channel;

    cr_assert(WAIT_UNTIL(probe_ask(st.probe, OWN_CHANNELS)->count == 1, SOON_MS));
    channel = must_format("%s", probe_ask(st.probe, OWN_CHANNELS)->items[0].text);
    for (int i = 0; i < times; i++) {
        size_t mark = monitor_mark(monitor);

        expect(1, probe_int(st.probe, "PUBLISH %s 0", channel));
        cr_assert(monitor_wait(monitor, mark, "EVALSHA|" NAME, 1, SOON_MS));
    }
    free(channel);
    monitor_stop(monitor);
}

/* And what its owner has begun besides ends as well, when its turn comes. */
Test(sleepers, one_whose_owner_is_gone_keeps_its_record_for_who_is_behind_it)
{
    static struct outcome again;

    put_to_sleep(20000);
    expect(RDL_OK, rdl_lock_async(lock, owners[0], RDL_LEASE_AUTO, outcome_note, &again, NULL, &err));
    owners[0] = rdl_owner_free(owners[0]);
    given_back[0] = true;
    wake_in_vain(10);
    expect(RDL_OK, rdl_unlock(rival, &err));
    all_the_others(SLEEPERS - 1);
    expect(RDL_ELOST, outcome_wait(&taken[0], SOON_MS));
    expect(RDL_ELOST, outcome_wait(&again, SOON_MS));
    get_up();
}

/* Nor does it keep the lock from the next one. */
Test(sleepers, one_whose_owner_is_gone_gets_nothing)
{
    put_to_sleep(20000);
    owners[LAST] = rdl_owner_free(owners[LAST]);
    given_back[LAST] = true;
    expect(RDL_OK, rdl_unlock(rival, &err));
    all_the_others(SLEEPERS - 1);
    expect(RDL_ELOST, outcome_wait(&taken[LAST], SOON_MS));
    get_up();
}
