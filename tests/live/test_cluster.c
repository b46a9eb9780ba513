/* test_cluster.c - locks in a real Redis Cluster: names of all slots, slots that move, servers that are away or cut off
 * (scenarios.md, C5, W1 and, on this topology, C1, C3, X1, X2 and X7). test_failover has what comes of losing a master.
 *
 * name[i] is in a slot that node i is the master of in the beginning. After a test no key and no channel may be left,
 * unless it says `left_behind`.
 */
#include "tests/live/live.h"
#include "tests/support/cluster.h"
#include "tests/support/rights.h"
#include "tests/support/workload.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEASE_MS 60000
#define WATCHED_MS 1500 /* a lease that is renewed, and can be waited for */
#define LONG_WATCHED_MS 9000
#define WOKEN_MS 3000 /* whoever was not woken looks by himself after 5 s */
#define PATIENT_MS 20000
#define HEAL_MS 4000
#define PASSING_MS 3000 /* servers are asked for the map several times */
#define SHARDS CLUSTER_MASTERS

static struct cluster *cluster;
static struct slot_name name[SHARDS];
static rdl_client_t *client, *rival;
static bool limited; /* what is refused is so on purpose */

static void fini(void)
{
    for (int i = 0; cluster != NULL && i < CLUSTER_NODES; i++)
        if (server_running(cluster->node[i]) && !cluster->paused[i] && server_login(cluster->node[i])[0] != '\0' &&
            !limited)
            cr_expect_eq(rights_refused(cluster->node[i]), 0,
                         "something was tried that a client's rights do not allow");
    if (cluster != NULL && !left_behind) {
        cr_expect(cluster_is_clean(cluster, CLEAN_BOUND_MS), "%" PRId64 " keys and %" PRId64 " channels are left",
                  cluster_keys(cluster), cluster_channels(cluster));
    }
    client = rdl_client_close(client);
    rival = rdl_client_close(rival);
    cluster_stop(cluster);
}

TestSuite(cluster, .fini = fini, .timeout = 120);

static void start_cluster(const struct cluster_options *options)
{
    if (options != NULL && options->proxied && server_is_old())
        cr_skip_test("nodes of Redis 6.2 cannot be told from clients by the address that they come from");
    cluster = cluster_start(options);
    for (int i = 0; i < SHARDS; i++)
        name[i] = cluster_name(cluster_first_slot(i), 0);
}

/* A cluster that replaces nobody, and two clients. */
static void start(const rdl_client_options_t *options)
{
    start_cluster(&(struct cluster_options){.patient = true});
    client = client_open(cluster->uri, options);
    rival = client_open(cluster->uri, options);
}

/* Names with braces have other keys than those of docs/acl.md. */
static void allow_all_names(void)
{
    for (int i = 0; i < CLUSTER_NODES; i++) {
        struct probe *p = probe_open(cluster->node[i]);

        (void)probe_text(p, "ACL SETUSER %s allkeys allchannels", server_user(cluster->node[i]));
        probe_close(p);
    }
}

/* A number that a node says, also of a key whose slot is only on its way there. */
__attribute__((format(printf, 2, 3))) static int64_t ask(int node, const char *format, ...)
{
    struct probe *p = probe_open(cluster->node[node]);
    char question[256];
    int64_t answer;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(question, sizeof question, format, args);
    va_end(args);
    (void)probe_text(p, "ASKING");
    answer = probe_int(p, "%s", question);
    probe_close(p);
    return answer;
}

/* ---- names of all slots ----------------------------------------------------------------------------------------- */

static int shard_of(unsigned slot)
{
    int shard = 0;

    while (slot >= cluster_first_slot(shard + 1))
        shard++;
    return shard;
}

static void expect_had_in_place(const char *which)
{
    rdl_lock_t *lock = reentrant(client, which, NULL);
    int shard = shard_of(cluster_slot(which));

    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(ask(shard, "EXISTS %s", which), 1, "%s", which);
    expect(1, rdl_is_locked(lock, &err));
    expect(RDL_OK, rdl_extend(lock, 2 * LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(ask(shard, "EXISTS %s", which), 0, "%s", which);
    rdl_lock_free(lock);
}

Test(cluster, locks_of_all_slots_are_had_where_they_belong)
{
    start(NULL);
    for (int i = 0; i < SHARDS; i++) {
        expect_had_in_place(name[i].text);
        expect_had_in_place(cluster_name(cluster_first_slot(i + 1) - 1, 0).text);
    }
    allow_all_names();
    for (int i = 0; i < 500; i++) {
        char which[32];

        (void)snprintf(which, sizeof which, i % 2 == 0 ? "job:%d" : "{job:%d}:part", i);
        expect_had_in_place(which);
    }
}

static void expect_excludes_and_wakes(const struct kind *kind, int shard, const char *which)
{
    rdl_lock_t *held = kind->make(client, which, NULL), *wanted = kind->rival(rival, which, NULL);
    struct actor *waiter = actor_new();
    struct probe *p = probe_open(cluster->node[shard]);
    int64_t released;

    expect(RDL_OK, rdl_try_lock(held, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(wanted, 0, LEASE_MS, &err));
    actor_try_lock(waiter, wanted, PATIENT_MS, LEASE_MS);
    cr_assert(kind->polls || WAIT_UNTIL(cluster_channels_at(cluster, shard, which) == 1, SOON_MS), "%s: nobody listens",
              kind->type);
    released = now_us();
    expect(RDL_OK, rdl_unlock(held, &err));
    expect_result(RDL_OK, waiter, PATIENT_MS);
    cr_assert_lt(actor_ended_us(waiter) - released, 1000 * WOKEN_MS, "%s was not woken", kind->type);
    actor_unlock(waiter, wanted);
    expect_result(RDL_OK, waiter, SOON_MS);
    actor_free(waiter);
    rdl_lock_free(wanted);
    lock_over(p, held);
    probe_close(p);
}

Test(cluster, every_type_excludes_and_wakes_on_every_shard)
{
    start(NULL);
    FOR_EACH_SINGLE_KIND(kind)
    for (int i = 0; i < SHARDS; i++) /* a name of its own for each, because a channel may linger */
        expect_excludes_and_wakes(kind, i, cluster_name(cluster_first_slot(i), (unsigned)(kind - kinds)).text);
}

Test(cluster, C5_names_that_split_are_refused_with_words)
{
    static const char *const split[] = {"a{b", "x{}y", "a}b", "{}", "}{"};
    rdl_permit_semaphore_t *permits = NULL;
    rdl_semaphore_t *semaphore = NULL;
    rdl_latch_t *latch = NULL;
    rdl_lock_t *lock = NULL;

    start(NULL);
    for (size_t i = 0; i < sizeof split / sizeof *split; i++) {
        FOR_EACH_SINGLE_KIND(kind)
        {
            expect(RDL_EINVAL, kind->constructor(client, split[i], NULL, &lock, &err));
            cr_assert_not_null(strstr(err.message, "slot"), "%s", err.message);
        }
        expect(RDL_EINVAL, rdl_semaphore(client, split[i], NULL, &semaphore, &err));
        expect(RDL_EINVAL, rdl_permit_semaphore(client, split[i], NULL, &permits, &err));
        expect(RDL_EINVAL, rdl_latch(client, split[i], NULL, &latch, &err));
    }
    cr_assert_null(lock);
    cr_assert_null(semaphore);
    cr_assert_null(permits);
    cr_assert_null(latch);
}

/* ---- what is more than one lock --------------------------------------------------------------------------------- */

static rdl_lock_t *multi_of(rdl_client_t *owner, const char *const *names, size_t n)
{
    rdl_lock_t *member[SHARDS], *multi = NULL;

    for (size_t i = 0; i < n; i++)
        member[i] = reentrant(owner, names[i], NULL);
    expect(RDL_OK, rdl_multi_lock(member, n, NULL, &multi, &err));
    for (size_t i = 0; i < n; i++)
        rdl_lock_free(member[i]);
    return multi;
}

static void expect_all_or_nothing(const char *const *names, size_t n)
{
    rdl_lock_t *multi = multi_of(client, names, n), *one = reentrant(rival, names[n - 1], NULL);
    struct actor *waiter = actor_new();

    expect(RDL_OK, rdl_try_lock(multi, 0, LEASE_MS, &err));
    cr_assert_eq(cluster_keys(cluster), (int64_t)n);
    expect(RDL_ETIMEDOUT, rdl_try_lock(one, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(multi, &err));
    cr_assert_eq(cluster_keys(cluster), 0);
    expect(RDL_OK, rdl_try_lock(one, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(multi, 0, LEASE_MS, &err));
    cr_assert(WAIT_UNTIL(cluster_keys(cluster) == 1, SOON_MS));
    actor_try_lock(waiter, multi, PATIENT_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(cluster_channels(cluster) > 0, SOON_MS));
    expect(RDL_OK, rdl_unlock(one, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert_eq(cluster_keys(cluster), (int64_t)n);
    actor_unlock(waiter, multi);
    expect_result(RDL_OK, waiter, SOON_MS);
    actor_free(waiter);
    rdl_lock_free(multi);
    rdl_lock_free(one);
}

Test(cluster, multi_lock_over_shards_or_within_a_slot_is_all_or_nothing)
{
    const char *const apart[] = {"{job}:a", "{job}:b", "{job}:c"};
    const char *across[SHARDS];

    start(NULL);
    allow_all_names();
    for (int i = 0; i < SHARDS; i++)
        across[i] = name[i].text;
    expect_all_or_nothing(across, SHARDS);
    expect_all_or_nothing(apart, 3);
}

struct acquire {
    rdl_semaphore_t *semaphore;
    int64_t permits;
};

static int64_t acquire(void *arg, rdl_err_t *error)
{
    const struct acquire *a = arg;

    return rdl_semaphore_try_acquire(a->semaphore, a->permits, PATIENT_MS, error);
}

static void expect_permits_pass(const char *which, int shard, bool fair_one)
{
    const rdl_semaphore_options_t options = {.version = RDL_SEMAPHORE_OPTIONS_VERSION, .fair = fair_one};
    rdl_semaphore_t *ours = NULL, *theirs = NULL;
    struct actor *waiter = actor_new();
    int64_t released;

    expect(RDL_OK, rdl_semaphore(client, which, &options, &ours, &err));
    expect(RDL_OK, rdl_semaphore(rival, which, &options, &theirs, &err));
    expect(1, rdl_semaphore_try_set_permits(ours, 3, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(ours, 2, 0, &err));
    expect(RDL_ETIMEDOUT, rdl_semaphore_try_acquire(theirs, 2, 0, &err));
    actor_call(waiter, acquire, &(struct acquire){theirs, 2});
    cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, shard, which) == 1, SOON_MS));
    released = now_us();
    expect(RDL_OK, rdl_semaphore_release(ours, 1, &err));
    expect_result(RDL_OK, waiter, PATIENT_MS);
    cr_assert_lt(actor_ended_us(waiter) - released, 1000 * WOKEN_MS);
    expect(0, rdl_semaphore_available(ours, &err));
    actor_free(waiter);
    rdl_semaphore_free(ours);
    rdl_semaphore_free(theirs);
}

Test(cluster, semaphores_pass_permits_on_every_shard)
{
    start(NULL);
    left_behind = true; /* permits, and guards that go by themselves */
    for (int i = 0; i < SHARDS; i++) {
        expect_permits_pass(name[i].text, i, false);
        expect_permits_pass(cluster_name(cluster_first_slot(i), 1).text, i, true);
    }
}

Test(cluster, permits_with_ids_are_had_and_given_back_on_every_shard)
{
    start(NULL);
    left_behind = true;
    for (int i = 0; i < SHARDS; i++) {
        rdl_permit_semaphore_t *ours = NULL, *theirs = NULL;
        rdl_permit_t permits[2];

        expect(RDL_OK, rdl_permit_semaphore(client, name[i].text, NULL, &ours, &err));
        expect(RDL_OK, rdl_permit_semaphore(rival, name[i].text, NULL, &theirs, &err));
        expect(1, rdl_permit_semaphore_try_set_permits(ours, 2, &err));
        expect(RDL_OK, rdl_permit_semaphore_try_acquire(ours, 2, 0, LEASE_MS, permits, &err));
        expect(RDL_ETIMEDOUT, rdl_permit_semaphore_try_acquire(theirs, 1, 0, LEASE_MS, permits, &err));
        expect(RDL_OK, rdl_permit_semaphore_extend(ours, &permits[0], 2 * LEASE_MS, &err));
        expect(RDL_OK, rdl_permit_semaphore_release(theirs, 2, permits, &err));
        expect(2, rdl_permit_semaphore_available(ours, &err));
        rdl_permit_semaphore_free(ours);
        rdl_permit_semaphore_free(theirs);
    }
}

static int64_t await(void *latch, rdl_err_t *error)
{
    return rdl_latch_await(latch, PATIENT_MS, error);
}

Test(cluster, latches_open_on_every_shard)
{
    start(NULL);
    left_behind = true;
    for (int i = 0; i < SHARDS; i++) {
        rdl_latch_t *ours = NULL, *theirs = NULL;
        struct actor *waiter = actor_new();
        int64_t opened;

        expect(RDL_OK, rdl_latch(client, name[i].text, NULL, &ours, &err));
        expect(RDL_OK, rdl_latch(rival, name[i].text, NULL, &theirs, &err));
        expect(1, rdl_latch_try_set_count(ours, 2, &err));
        expect(1, rdl_latch_count_down(theirs, &err));
        actor_call(waiter, await, theirs);
        cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, i, name[i].text) == 1, SOON_MS));
        opened = now_us();
        expect(0, rdl_latch_count_down(ours, &err));
        expect_result(RDL_OK, waiter, PATIENT_MS);
        cr_assert_lt(actor_ended_us(waiter) - opened, 1000 * WOKEN_MS);
        actor_free(waiter);
        rdl_latch_free(ours);
        rdl_latch_free(theirs);
    }
}

/* ---- renewals --------------------------------------------------------------------------------------------------- */

#define HOLDS 60

static rdl_lock_t *hold[HOLDS];
static struct losses losses;

/* All slots apart, on the shards by turns. */
static void take_holds(void)
{
    losses_init(&losses);
    for (int i = 0; i < HOLDS; i++) {
        unsigned slot = cluster_first_slot(i % SHARDS) + (unsigned)i;

        hold[i] = reentrant(client, cluster_name(slot, 0).text, NULL);
        expect(RDL_OK, rdl_on_lost(hold[i], losses_note, &losses, &err));
        expect(RDL_OK, rdl_lock(hold[i], RDL_LEASE_AUTO, &err));
    }
}

static bool is_on(int i, int shard)
{
    return i % SHARDS == shard;
}

/* Nothing was lost but on the shard `but`. */
static void expect_held(int but)
{
    for (int i = 0; i < HOLDS; i++) {
        if (!is_on(i, but))
            expect(1, rdl_is_held(hold[i], &err));
    }
}

static void give_back(int but)
{
    for (int i = 0; i < HOLDS; i++) {
        if (!is_on(i, but))
            expect(RDL_OK, rdl_unlock(hold[i], &err));
        rdl_lock_free(hold[i]);
    }
}

Test(cluster, holds_on_all_shards_are_renewed)
{
    start(OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    take_holds();
    let_pass_ms(3 * WATCHED_MS);
    expect_held(-1);
    cr_assert_eq(cluster_keys(cluster), HOLDS);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    give_back(-1);
}

#define MANY 600
#define MANY_LEASE_MS 6000
#define LINE_MS 20

static void count_loss(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    atomic_uint *count = arg;

    (void)lock;
    (void)loss;
    atomic_fetch_add(count, 1);
}

/* 200 at each, no two in a slot: to renew them one after another would take 8 s. */
Test(cluster, W6_many_holds_behind_a_line_that_takes_its_time_are_renewed)
{
    static rdl_lock_t *lock[MANY];
    static atomic_uint endangered;

    start_cluster(&(struct cluster_options){.proxied = true, .patient = true});
    client = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = MANY_LEASE_MS));
    for (int i = 0; i < MANY; i++) {
        unsigned slot = cluster_first_slot(i % SHARDS) + (unsigned)i;

        lock[i] = reentrant(client, cluster_name(slot, 0).text, NULL);
        expect(RDL_OK, rdl_on_lost(lock[i], count_loss, &endangered, &err));
        expect(RDL_OK, rdl_lock(lock[i], RDL_LEASE_AUTO, &err));
    }
    for (int i = 0; i < SHARDS; i++)
        proxy_delay(cluster->front[i], PROXY_BOTH_WAYS, LINE_MS);
    let_pass_ms(2 * MANY_LEASE_MS);
    cr_assert_eq(atomic_load(&endangered), 0, "%u", atomic_load(&endangered));
    cr_assert_eq(cluster_keys(cluster), MANY);
    for (int i = 0; i < SHARDS; i++)
        proxy_delay(cluster->front[i], PROXY_BOTH_WAYS, 0);
    for (int i = 0; i < MANY; i++) {
        expect(RDL_OK, rdl_unlock(lock[i], &err));
        rdl_lock_free(lock[i]);
    }
}

Test(cluster, N13_wait_of_a_millisecond_gets_what_is_free_on_each_shard_over_a_long_line)
{
    enum { EACH_WAY_MS = 30 };

    start_cluster(&(struct cluster_options){.proxied = true, .patient = true});
    for (int i = 0; i < SHARDS; i++)
        proxy_delay(cluster->front[i], PROXY_BOTH_WAYS, EACH_WAY_MS);
    client = client_open(cluster->uri, OPTIONS(.connections = 1));
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(client, cluster_name(cluster_first_slot(i), 0).text, NULL);

        expect(RDL_OK, rdl_try_lock(lock, 1, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        rdl_lock_free(lock);
    }
    for (int i = 0; i < SHARDS; i++)
        proxy_delay(cluster->front[i], PROXY_BOTH_WAYS, 0);
}

/* It answers nothing, and nobody takes its place. */
Test(cluster, W6_shard_that_is_silent_delays_no_call_and_no_renewal_of_others)
{
    rdl_lock_t *lock[SHARDS];
    int64_t began, ends;

    start(OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    for (int i = 0; i < SHARDS; i++)
        lock[i] = reentrant(client, cluster_name(cluster_first_slot(i), 1).text, NULL);
    take_holds();
    left_behind = true;
    cluster_pause(cluster, 0);
    for (ends = now_ms() + 3 * WATCHED_MS; now_ms() < ends;) {
        for (int i = 1; i < SHARDS; i++) {
            began = now_ms();
            expect(RDL_OK, rdl_try_lock(lock[i], 0, LEASE_MS, &err));
            expect(RDL_OK, rdl_unlock(lock[i], &err));
            cr_assert_lt(now_ms() - began, SLACK_MS);
        }
    }
    expect_held(0);
    cr_assert_eq(losses_count(&losses, RDL_LOST), HOLDS / SHARDS);
    began = now_ms();
    cr_assert_lt(rdl_try_lock(lock[0], 300, LEASE_MS, &err), 0);
    expect_between(200, now_ms() - began, 300 + SLACK_MS);
    cluster_resume(cluster, 0);
    expect(RDL_OK, rdl_try_lock(lock[0], SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock[0], &err));
    give_back(0);
    for (int i = 0; i < SHARDS; i++)
        rdl_lock_free(lock[i]);
}

Test(cluster, W1_holds_outlive_three_leases_after_a_master_of_others_has_died)
{
    start_cluster(&(struct cluster_options){.partial = true});
    client = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    take_holds();
    left_behind = true;
    cluster_kill(cluster, CLUSTER_REPLICA_OF(0));
    cluster_kill(cluster, 0);
    let_pass_ms(3 * WATCHED_MS);
    expect_held(0);
    cr_assert_eq(losses_count(&losses, RDL_LOST), HOLDS / SHARDS);
    give_back(0);
}

/* Of the lock's own master: the others are there. Who comes later joins the first to wait, and sends nothing. */
Test(cluster, T4_wait_that_ends_while_its_shard_is_away_says_so)
{
    enum { WAIT_MS = 3000 };

    start(NULL);
    left_behind = true;
    for (int i = 1; i < SHARDS; i++) {
        struct actor *first = actor_new(), *second = actor_new();
        rdl_lock_t *held = reentrant(rival, name[i].text, NULL), *wanted = reentrant(client, name[i].text, NULL);

        expect(RDL_OK, rdl_try_lock(held, 0, LEASE_MS, &err));
        actor_try_lock(first, wanted, WAIT_MS, LEASE_MS);
        cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, i, name[i].text) == 1, SOON_MS));
        actor_try_lock(second, wanted, WAIT_MS, LEASE_MS);
        let_pass_ms(50);
        cluster_kill(cluster, i);
        expect_result(RDL_ECONN, first, WAIT_MS + 2 * SOON_MS);
        expect_result(RDL_ECONN, second, WAIT_MS + 2 * SOON_MS);
        actor_free(first);
        actor_free(second);
        rdl_lock_free(wanted);
        rdl_lock_free(held);
    }
}

/* The nodes reach each other and are well. */
Test(cluster, W1_client_that_is_cut_off_from_one_master_loses_what_it_holds_there_alone_and_in_time)
{
    const unsigned there = HOLDS / SHARDS;
    rdl_lock_t *lock;
    int64_t cut;

    start_cluster(&(struct cluster_options){.proxied = true});
    client = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    take_holds();
    cut = now_ms();
    cluster_bar_clients(cluster, 0, true);
    cr_assert(losses_wait(&losses, RDL_AT_RISK, there, WATCHED_MS));
    cr_assert(losses_wait(&losses, RDL_LOST, there, WATCHED_MS + SLACK_MS));
    cr_assert_lt(now_ms() - cut, WATCHED_MS + SLACK_MS);
    let_pass_ms(2 * WATCHED_MS);
    expect_held(0);
    cr_assert_eq(losses_count(&losses, RDL_AT_RISK), there);
    cr_assert_eq(losses_count(&losses, RDL_LOST), there);
    cr_assert_eq(cluster_master(cluster, cluster_first_slot(0)), 0);
    cluster_bar_clients(cluster, 0, false);
    lock = reentrant(client, cluster_name(cluster_first_slot(0), 1).text, NULL);
    expect(RDL_OK, rdl_try_lock(lock, HEAL_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    give_back(0);
}

/* ---- slots that move -------------------------------------------------------------------------------------------- */

Test(cluster, C5_slot_that_has_moved_is_followed)
{
    unsigned slot = cluster_first_slot(0);
    rdl_lock_t *lock, *other;

    start(NULL);
    lock = reentrant(client, name[0].text, NULL);
    other = reentrant(rival, name[0].text, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    for (int to = 1; to <= SHARDS; to++) {
        cluster_move(cluster, slot, to % SHARDS);
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        cr_assert_eq(ask(to % SHARDS, "EXISTS %s", name[0].text), 1);
        expect(RDL_ETIMEDOUT, rdl_try_lock(other, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

Test(cluster, C5_hold_moves_with_its_slot_and_is_renewed_and_given_back_there)
{
    rdl_lock_t *watched, *leased;

    start(OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    losses_init(&losses);
    watched = reentrant(client, name[0].text, NULL);
    leased = reentrant(client, cluster_name(cluster_first_slot(0), 1).text, NULL);
    expect(RDL_OK, rdl_on_lost(watched, losses_note, &losses, &err));
    expect(RDL_OK, rdl_on_lost(leased, losses_note, &losses, &err));
    for (int i = 0; i < 2; i++)
        expect(RDL_OK, rdl_lock(watched, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_try_lock(leased, 0, LEASE_MS, &err));
    cluster_move(cluster, cluster_first_slot(0), 1);
    let_pass_ms(3 * WATCHED_MS);
    cr_assert_gt(ask(1, "PTTL %s", name[0].text), 0);
    expect(RDL_OK, rdl_unlock(watched, &err));
    expect(1, rdl_hold_count(watched, &err));
    expect(RDL_OK, rdl_unlock(watched, &err));
    expect(RDL_OK, rdl_unlock(leased, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    rdl_lock_free(watched);
    rdl_lock_free(leased);
}

/* The client does not reach the master that the slot leaves, and cannot be told there. */
Test(cluster, C5_what_is_on_its_way_to_a_master_out_of_reach_follows_the_slot)
{
    struct actor *caller = actor_new();
    rdl_lock_t *watched, *wanted, *released;

    start_cluster(&(struct cluster_options){.proxied = true});
    client = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = LONG_WATCHED_MS, .command_timeout_ms = 1000));
    losses_init(&losses);
    watched = reentrant(client, name[0].text, NULL);
    wanted = reentrant(client, cluster_name(cluster_first_slot(0), 1).text, NULL);
    released = reentrant(client, cluster_name(cluster_first_slot(0), 2).text, NULL);
    expect(RDL_OK, rdl_on_lost(watched, losses_note, &losses, &err));
    expect(RDL_OK, rdl_lock(watched, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_lock(released, LEASE_MS, &err));
    cluster_bar_clients(cluster, 0, true);
    cr_assert_lt(rdl_unlock(released, &err), 0); /* which goes on */
    actor_try_lock(caller, wanted, PATIENT_MS, LEASE_MS);
    let_pass_ms(LONG_WATCHED_MS / 2); /* a renewal is on its way, too */
    cr_assert_not(actor_idle(caller));
    cluster_move(cluster, cluster_first_slot(0), 1);
    expect_result(RDL_OK, caller, HEAL_MS);
    cr_assert(WAIT_UNTIL(ask(1, "EXISTS %s", rdl_lock_name(released, NULL)) == 0, SOON_MS));
    let_pass_ms(LONG_WATCHED_MS);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    expect(RDL_OK, rdl_unlock(watched, &err));
    actor_unlock(caller, wanted);
    expect_result(RDL_OK, caller, SOON_MS);
    actor_free(caller);
    rdl_lock_free(watched);
    rdl_lock_free(wanted);
    rdl_lock_free(released);
}

static void expect_waiter_moves(bool sharded)
{
    struct actor *waiter = actor_new();
    rdl_lock_t *lock = reentrant(client, name[0].text, NULL);
    struct probe *p = probe_open(cluster->node[0]);
    char *channel = channel_of(name[0].text);

    foreign_take(p, name[0].text, LEASE_MS);
    actor_try_lock(waiter, lock, PATIENT_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers_of(p, sharded, channel) == 1, SOON_MS), "nobody listens");
    probe_close(p);
    cluster_move(cluster, cluster_first_slot(0), 1);
    p = probe_open(cluster->node[1]);
    cr_assert(!sharded || WAIT_UNTIL(probe_subscribers_of(p, sharded, channel) == 1, HEAL_MS),
              "nobody listens any more");
    cr_assert_not(actor_idle(waiter));
    cr_assert_geq(foreign_release_by(p, sharded ? "spublish" : "publish", name[0].text), sharded ? 1 : 0);
    expect_result(RDL_OK, waiter, WOKEN_MS);
    probe_close(p);
    actor_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    actor_free(waiter);
    rdl_lock_free(lock);
    free(channel);
}

Test(cluster, C5_waiter_listens_where_its_slot_has_moved)
{
    start(NULL);
    expect_waiter_moves(!server_is_old());
}

/* For the user app, whether the nodes' URI has one or not; to be freed. */
static char *uri_of_app(void)
{
    const char *user_ends = strchr(cluster->uri, '@');

    return must_format("cluster://app:secret@%s", user_ends != NULL ? user_ends + 1 : strstr(cluster->uri, "//") + 2);
}

/* Nodes with those lines of configuration, and a client that may do everything but for these rights. */
static void start_restricted(const char *config, const char *rights)
{
    char *uri;

    start_cluster(&(struct cluster_options){.patient = true, .config = config});
    for (int i = 0; i < CLUSTER_NODES; i++) {
        struct probe *p = probe_open(cluster->node[i]);

        (void)probe_text(p, "ACL SETUSER app on >secret ~* &* +@all %s", rights);
        probe_close(p);
    }
    limited = true;
    uri = uri_of_app();
    client = client_open(uri, NULL);
    free(uri);
}

static void skip_without_sharded_channels(void)
{
    if (server_is_old())
        cr_skip_test("Redis 6.2 has no sharded channels");
}

/* Where sharded channels are forbidden, or unknown, plain ones serve. */
Test(cluster, C5_waiter_is_woken_by_plain_channels_too)
{
    skip_without_sharded_channels();
    start_restricted(NULL, "-pubsub|shardnumsub -ssubscribe -spublish");
    expect_waiter_moves(false);
}

/* What cannot be asked counts as unknown. */
Test(cluster, C5_waiter_is_woken_by_plain_channels_where_nobody_may_ask_for_others)
{
    skip_without_sharded_channels();
    start_restricted(NULL, "-pubsub|shardnumsub");
    expect_waiter_moves(false);
}

Test(cluster, C5_waiter_of_resp2_is_woken_by_sharded_channels)
{
    start_restricted("rename-command HELLO \"\"", "");
    expect_waiter_moves(!server_is_old());
}

Test(cluster, C5_waiter_is_woken_where_administration_is_forbidden)
{
    start_restricted(
        NULL,
        "-@admin -@dangerous -client -info -script -config -wait -acl -role -ping -select -command -cluster +cluster|slots");
    expect_waiter_moves(!server_is_old());
}

Test(cluster, C5_slot_on_its_way_is_waited_for_where_asking_is_forbidden)
{
    unsigned slot = cluster_first_slot(0);
    struct actor *waiter = actor_new();
    rdl_lock_t *lock;

    start_restricted(NULL, "-asking");
    lock = reentrant(client, name[0].text, NULL);
    cluster_begin_move(cluster, slot, 1);
    actor_try_lock(waiter, lock, PATIENT_MS, LEASE_MS);
    let_pass_ms(300);
    cr_assert_not(actor_idle(waiter));
    cluster_end_move(cluster, slot, 1);
    expect_result(RDL_OK, waiter, SOON_MS);
    actor_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    actor_free(waiter);
    rdl_lock_free(lock);
}

Test(cluster, C5_free_lock_of_a_half_moved_slot_is_taken_where_the_slot_goes)
{
    unsigned slot = cluster_first_slot(0);
    rdl_lock_t *lock, *other;

    start(OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    lock = reentrant(client, name[0].text, NULL);
    other = reentrant(rival, name[0].text, NULL);
    cluster_begin_move(cluster, slot, 1);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    cr_assert_eq(ask(1, "EXISTS %s", name[0].text), 1);
    expect(RDL_ETIMEDOUT, rdl_try_lock(other, 0, LEASE_MS, &err));
    let_pass_ms(2 * WATCHED_MS);
    expect(1, rdl_is_held(lock, &err));
    cr_assert_gt(ask(1, "PTTL %s", name[0].text), 0);
    cluster_end_move(cluster, slot, 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_try_lock(other, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(other, &err));
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

/* One batch at a time waits for the replicas of a shard. One that is sent on to where a slot goes waits there. */
Test(cluster, C5_renewal_that_follows_its_slot_to_a_silent_master_holds_up_no_other)
{
    const rdl_lock_options_t *confirmed = LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 500);
    unsigned slot = cluster_first_slot(0);
    rdl_lock_t *moving, *staying;

    start(OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    moving = reentrant(client, name[0].text, confirmed);
    staying = reentrant(client, cluster_name(slot + 1, 0).text, confirmed);
    cluster_begin_move(cluster, slot, 1);
    expect(RDL_OK, rdl_try_lock(staying, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_try_lock(moving, 0, RDL_LEASE_AUTO, &err));
    cr_assert_eq(ask(1, "EXISTS %s", name[0].text), 1);
    cluster_pause(cluster, 1);
    let_pass_ms(3 * WATCHED_MS);
    expect(1, rdl_is_held(staying, &err));
    cluster_resume(cluster, 1);
    cluster_end_move(cluster, slot, 1);
    (void)rdl_unlock(moving, &err);
    expect(RDL_OK, rdl_unlock(staying, &err));
    rdl_lock_free(moving);
    rdl_lock_free(staying);
}

/* Its script needs keys that are not here yet and not there any more. */
Test(cluster, C5_reader_in_the_middle_of_a_move_waits_for_its_end)
{
    unsigned slot = cluster_first_slot(0);
    struct actor *reader = actor_new();
    rdl_lock_t *lock = NULL, *other = NULL;

    start(NULL);
    expect(RDL_OK, rdl_read_lock(client, name[0].text, NULL, &lock, &err));
    expect(RDL_OK, rdl_read_lock(rival, name[0].text, NULL, &other, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cluster_begin_move(cluster, slot, 1);
    actor_try_lock(reader, other, PATIENT_MS, LEASE_MS);
    let_pass_ms(200);
    cr_assert_not(actor_idle(reader), "it was answered in a slot that is not whole");
    cr_assert_eq(ask(0, "HLEN %s", name[0].text), 2, "something was written of a take that did not succeed");
    cr_assert_eq(cluster_move_keys(cluster, slot, 1), 2);
    cluster_end_move(cluster, slot, 1);
    expect_result(RDL_OK, reader, PATIENT_MS);
    actor_unlock(reader, other);
    expect_result(RDL_OK, reader, SOON_MS);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_lock_free(other);
    actor_free(reader);
}

/* The release names a channel beside the lock, so it cannot run before the slot is whole again. */
Test(cluster, C5_release_in_the_middle_of_a_move_waits_for_its_end_and_wakes)
{
    unsigned slot = cluster_first_slot(0);
    struct actor *holder = actor_new(), *waiter = actor_new();
    rdl_lock_t *lock, *other;
    int64_t ended;

    start(NULL);
    lock = reentrant(client, name[0].text, NULL);
    other = reentrant(rival, name[0].text, NULL);
    actor_try_lock(holder, lock, 0, LEASE_MS);
    expect_result(RDL_OK, holder, SOON_MS);
    actor_try_lock(waiter, other, PATIENT_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, 0, name[0].text) == 1, SOON_MS));
    cluster_begin_move(cluster, slot, 1);
    actor_unlock(holder, lock);
    let_pass_ms(100);
    cr_assert_not(actor_idle(holder), "it was released in a slot that is not whole");
    cr_assert_eq(cluster_move_keys(cluster, slot, 1), 1);
    let_pass_ms(100);
    cr_assert_not(actor_idle(holder), "it was released in a slot that is not whole");
    cluster_end_move(cluster, slot, 1);
    ended = now_us();
    expect_result(RDL_OK, holder, SOON_MS);
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert_lt(actor_ended_us(waiter) - ended, 1000 * WOKEN_MS);
    actor_unlock(waiter, other);
    expect_result(RDL_OK, waiter, SOON_MS);
    actor_free(holder);
    actor_free(waiter);
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

Test(cluster, C5_no_call_outlives_its_deadline_in_a_slot_that_stays_half_moved)
{
    rdl_lock_t *lock;
    int64_t began;

    start(OPTIONS(.command_timeout_ms = 500));
    left_behind = true;
    lock = reentrant(client, name[0].text, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cluster_begin_move(cluster, cluster_first_slot(0), 1);
    began = now_ms();
    cr_assert_lt(rdl_unlock(lock, &err), 0);
    cr_assert_lt(now_ms() - began, 500 + SLACK_MS);
    cluster_move_keys(cluster, cluster_first_slot(0), 1);
    cluster_end_move(cluster, cluster_first_slot(0), 1);
    cr_assert(WAIT_UNTIL(ask(1, "EXISTS %s", name[0].text) == 0, SOON_MS), "nobody has undone it");
    rdl_lock_free(lock);
}

/* ---- finding the cluster ---------------------------------------------------------------------------------------- */

static void expect_opens(const char *uri)
{
    rdl_client_t *c;
    int64_t began = now_ms();

    c = client_open(uri, NULL);
    cr_assert_lt(now_ms() - began, SOON_MS);
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(c, name[i].text, NULL);

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        rdl_lock_free(lock);
    }
    rdl_client_close(c);
}

Test(cluster, X1_one_seed_of_many_is_enough_be_it_a_replica)
{
    char *uri;

    start(NULL);
    cluster_pause(cluster, 3);
    uri = must_format("cluster://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", dead_port(), server_port(cluster->node[3]),
                      server_port(cluster->node[4]));
    expect_opens(uri);
    free(uri);
    cluster_resume(cluster, 3);
}

Test(cluster, X1_no_cluster_at_all_is_said_at_once_and_why)
{
    rdl_client_t *none = NULL;
    int64_t began = now_ms();
    char *uri = must_format("cluster://127.0.0.1:%d,127.0.0.1:%d", dead_port(), dead_port());

    expect(RDL_ECONN, rdl_client_open(uri, NULL, &none, &err));
    cr_assert_lt(now_ms() - began, SOON_MS);
    cr_assert_not_null(strstr(err.message, "Connection refused"), "%s", err.message);
    free(uri);
}

Test(cluster, X1_server_that_is_no_cluster_is_said_at_once)
{
    struct server *alone = server_start(&(struct server_options){.tcp = true});
    char *uri = must_format("cluster://127.0.0.1:%d", server_port(alone));
    rdl_client_t *none = NULL;
    int64_t began = now_ms();

    expect(RDL_ESERVER, rdl_client_open(uri, NULL, &none, &err));
    cr_assert_lt(now_ms() - began, SOON_MS);
    cr_assert_not_null(strstr(err.message, "cluster"), "%s", err.message);
    free(uri);
    server_stop(alone);
}

static bool knows_all_places(int node)
{
    struct probe *p = probe_open(cluster->node[node]);
    bool all = strstr(probe_text(p, "CLUSTER NODES"), "noaddr") == NULL;

    probe_close(p);
    return all;
}

/* Another server is where one was. The others wait for that one, and do not know where it is; what is theirs they
 * serve. */
Test(cluster, X1_master_whose_place_nobody_knows_keeps_nobody_from_the_others)
{
    struct probe *p;

    start_cluster(&(struct cluster_options){.partial = true});
    left_behind = true;
    cluster_kill(cluster, CLUSTER_REPLICA_OF(0));
    cluster_kill(cluster, 0);
    cluster_start_again(cluster, 0);
    p = probe_open(cluster->node[0]);
    (void)probe_text(p, "CLUSTER RESET HARD");
    probe_close(p);
    for (int i = 1; i < CLUSTER_NODES; i++)
        cr_assert(i == CLUSTER_REPLICA_OF(0) || WAIT_UNTIL(!knows_all_places(i), CLUSTER_FAILOVER_BOUND_MS));
    client = client_open(cluster->uri, NULL);
    expect_had_in_place(name[1].text);
    expect_had_in_place(name[2].text);
}

static uint64_t reconnects(const rdl_metrics_t *metrics)
{
    rdl_metric_value_t value;

    rdl_metrics_get(metrics, RDL_M_RECONNECTS, &value);
    return value.sum;
}

static void skip_without_names(void)
{
    if (server_is_old())
        cr_skip_test("nodes of Redis 6.2 have addresses and no names");
}

/* Each is where it was asked, and that has two names. */
Test(cluster, nodes_that_do_not_say_where_they_are_stay_where_they_were_found)
{
    rdl_metrics_t *metrics = rdl_metrics_new();
    char *uri;

    skip_without_names();
    start_cluster(
        &(struct cluster_options){.patient = true, .config = "cluster-preferred-endpoint-type unknown-endpoint"});
    uri = must_format("cluster://127.0.0.1:%d,localhost:%d", cluster->port[0], cluster->port[1]);
    client = client_open(uri, OPTIONS(.metrics = rdl_metrics_sink, .metrics_arg = metrics));
    for (int i = 0; i < SHARDS; i++)
        expect_had_in_place(name[i].text);
    let_pass_ms(PASSING_MS);
    cr_assert_eq(reconnects(metrics), 0, "%" PRIu64, reconnects(metrics));
    client = rdl_client_close(client);
    cr_assert_null(rdl_metrics_free(metrics));
    free(uri);
}

/* A node that is to be called by a name, and has been given none, tells its address beside. */
Test(cluster, nodes_that_have_no_name_yet_are_found_by_their_address)
{
    struct probe *p;
    char *uri;

    skip_without_names();
    start_cluster(&(struct cluster_options){.patient = true, .config = "cluster-preferred-endpoint-type hostname"});
    p = probe_open(cluster->node[0]);
    (void)probe_text(p, "CONFIG SET bind '127.0.0.1 127.0.0.2'");
    probe_close(p);
    uri = must_format("cluster://127.0.0.2:%d", cluster->port[0]);
    client = client_open(uri, NULL);
    for (int i = 0; i < SHARDS; i++)
        expect_had_in_place(name[i].text);
    free(uri);
}

Test(cluster, X7_password_is_that_of_all_nodes_and_is_told_to_nobody)
{
    rdl_client_t *none = NULL;
    char *uri;

    start_cluster(&(struct cluster_options){.password = "ofthenodes", .patient = true});
    uri = must_format("cluster://:ofthewrong@%s", strstr(cluster->uri, "//") + 2);
    expect(RDL_EAUTH, rdl_client_open(uri, NULL, &none, &err));
    cr_assert_null(strstr(err.message, "ofthe"), "%s", err.message);
    expect(RDL_EAUTH, rdl_client_open(cluster->uri, NULL, &none, &err));
    free(uri);
    uri = must_format("cluster://:ofthenodes@%s", strstr(cluster->uri, "//") + 2);
    expect_opens(uri);
    free(uri);
}

static void expect_all_run(const char *rules, void *arg)
{
    char *copy = must_format("%s", rules), *rest = copy;

    (void)arg;
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        int64_t calls = 0;

        for (int i = 0; word[0] == '+' && i < CLUSTER_MASTERS; i++) {
            struct probe *p = probe_open(cluster->node[i]);

            calls += probe_calls(p, word + 1);
            probe_close(p);
        }
        cr_expect(calls > 0 || word[0] != '+', "%s is allowed and was not needed", word);
    }
    free(copy);
}

Test(cluster, documented_rights_are_enough_to_wait_and_to_follow_a_slot_and_no_more)
{
    unsigned moving = cluster_first_slot(1);
    rdl_lock_t *lock;
    char *uri;

    skip_without_sharded_channels();
    start_cluster(&(struct cluster_options){.patient = true});
    for (int i = 0; i < CLUSTER_NODES; i++) {
        rights_grant(cluster->node[i], "Every program", "app");
        rights_grant(cluster->node[i], "In a cluster", "app");
        rights_grant(cluster->node[i], "Reentrant, non-reentrant and spin lock", "app");
    }
    uri = uri_of_app();
    client = client_open(uri, NULL);
    expect_waiter_moves(!server_is_old());
    lock = reentrant(client, cluster_name(moving, 1).text, NULL);
    cluster_begin_move(cluster, moving, 0);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cluster_end_move(cluster, moving, 0);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    cr_assert(cluster_is_clean(cluster, CLEAN_BOUND_MS));
    for (int i = 0; i < CLUSTER_NODES; i++)
        cr_expect_eq(rights_refused(cluster->node[i]), 0, "node %d", i);
    (void)rights_read("In a cluster", "app", expect_all_run, NULL);
    free(uri);
}

static int64_t connections(int node)
{
    struct probe *p = probe_open(cluster->node[node]);
    int64_t n = probe_clients(p, "redlatch");

    probe_close(p);
    return n;
}

/* All slots that one of them had in the beginning go to the other at once; there are no keys. */
static void give_slots(int whose, int from, int to)
{
    unsigned first = cluster_first_slot(whose), last = cluster_first_slot(whose + 1) - 1;
    struct probe *p;

    for (int i = 0; i < CLUSTER_NODES; i++) {
        p = probe_open(cluster->node[(from + i) % CLUSTER_NODES]);
        (void)probe_ask(p, "CLUSTER DELSLOTSRANGE %u %u", first, last);
        probe_close(p);
    }
    p = probe_open(cluster->node[to]);
    (void)probe_text(p, "CLUSTER ADDSLOTSRANGE %u %u", first, last);
    probe_close(p);
    cr_assert(cluster_wait_master(cluster, first, to, CLUSTER_FAILOVER_BOUND_MS));
}

/* A scout may stay with the one without slots. */
Test(cluster, connections_to_a_master_without_slots_are_closed_until_it_has_some)
{
    if (server_is_old())
        cr_skip_test("a master of Redis 6.2 that has lost its slots becomes a replica");
    start_cluster(&(struct cluster_options){.patient = true});
    client = client_open(cluster->uri, NULL);
    expect_had_in_place(name[1].text);
    cr_assert_geq(connections(1), 2);
    give_slots(1, 1, 0);
    cr_assert(WAIT_UNTIL(connections(1) <= 1, PATIENT_MS), "%" PRId64 " connections", connections(1));
    give_slots(1, 0, 1);
    expect_had_in_place(name[1].text);
    cr_assert_geq(connections(1), 2);
}

/* ---- servers that refuse, or are away --------------------------------------------------------------------------- */

Test(cluster, X1_no_call_outlives_its_deadline_while_the_cluster_is_down)
{
    rdl_lock_t *lock;
    int64_t began;

    start_cluster(NULL);
    client = client_open(cluster->uri, NULL);
    left_behind = true;
    lock = reentrant(client, name[1].text, NULL);
    cluster_kill(cluster, CLUSTER_REPLICA_OF(0));
    cluster_kill(cluster, 0);
    cr_assert(WAIT_UNTIL(ask(1, "CLUSTER COUNTKEYSINSLOT 0") == 0 && !cluster_says_ok(cluster, 1),
                         CLUSTER_FAILOVER_BOUND_MS));
    began = now_ms();
    cr_assert_lt(rdl_try_lock(lock, 700, LEASE_MS, &err), 0); /* CLUSTERDOWN */
    cr_assert_lt(now_ms() - began, 700 + SLACK_MS);
    for (int i = 0; i < CLUSTER_NODES; i++)
        cluster_kill(cluster, i);
    began = now_ms();
    cr_assert_lt(rdl_try_lock(lock, 700, LEASE_MS, &err), 0);
    expect_between(600, now_ms() - began, 700 + SLACK_MS);
    rdl_lock_free(lock);
}

static void expect_err_names_node(int node)
{
    char *place = must_format("127.0.0.1:%d", server_port(cluster->node[node]));

    cr_assert_str_eq(err.server, place);
    cr_assert_not_null(strstr(err.message, place), "%s", err.message);
    free(place);
}

Test(cluster, T9_error_names_the_server_that_cannot_be_reached)
{
    start(NULL);
    left_behind = true;
    cluster_kill(cluster, 1);
    for (int i = 0; i < 2; i++) { /* at first the connection breaks, then there is none */
        rdl_lock_t *lock = reentrant(client, name[1].text, NULL);

        cr_assert_lt(rdl_try_lock(lock, 300, LEASE_MS, &err), 0);
        expect_err_names_node(1);
        rdl_lock_free(lock);
    }
}

Test(cluster, X2_T9_what_a_shard_refuses_is_told_with_its_words_and_place)
{
    start(NULL);
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(client, name[i].text, NULL);
        struct probe *p = probe_open(cluster->node[i]);

        (void)probe_text(p, "SET %s text", name[i].text);
        expect(RDL_ESERVER, rdl_try_lock(lock, 0, LEASE_MS, &err));
        cr_assert_not_null(strstr(err.message, "WRONGTYPE"), "%s", err.message);
        expect_err_names(&err, RDL_ESERVER, name[i].text);
        expect_err_names_node(i);
        (void)probe_int(p, "DEL %s", name[i].text);
        probe_close(p);
        rdl_lock_free(lock);
    }
}

static void fill_memory(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET maxmemory 1");
}

static void free_memory(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET maxmemory 0");
}

static void want_replicas(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET min-replicas-to-write 5");
}

static void want_no_replicas(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET min-replicas-to-write 0");
}

static void fail_to_save(struct probe *p)
{
    char *path = must_format("%s/dump.rdb", probe_ask(p, "CONFIG GET dir")->items[1].text);

    (void)unlink(path); /* of a replica's beginning */
    cr_assert_eq(mkdir(path, 0700), 0);
    (void)probe_text(p, "CONFIG SET save '3600 1000000'");
    (void)probe_text(p, "BGSAVE");
    cr_assert(WAIT_UNTIL(strstr(probe_text(p, "INFO persistence"), "rdb_last_bgsave_status:err") != NULL, SOON_MS));
    free(path);
}

static void save_no_more(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET save ''");
}

static void forbid_scripts(struct probe *p)
{
    limited = true;
    (void)probe_text(p, "ACL SETUSER %s -evalsha -eval", server_user(cluster->node[0]));
}

static void allow_scripts(struct probe *p)
{
    (void)probe_text(p, "ACL SETUSER %s +evalsha +eval", server_user(cluster->node[0]));
}

static struct probe *busy;

static void run_a_script_without_end(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET lua-time-limit 20");
    busy = probe_open_at(probe_ask(p, "CONFIG GET unixsocket")->items[1].text);
    probe_send(busy, "EVAL 'while true do end' 0");
    cr_assert(WAIT_UNTIL(probe_ask(p, "PING")->kind == REPLY_ERROR, SOON_MS));
}

static void end_the_script(struct probe *p)
{
    (void)probe_text(p, "SCRIPT KILL");
    cr_assert_not_null(probe_next(busy, SOON_MS));
    probe_close(busy);
}

/* And the others take no notice. */
Test(cluster, X2_shard_that_refuses_says_why_and_holds_up_nobody_else)
{
    static const struct {
        const char *word;
        void (*cause)(struct probe *p), (*mend)(struct probe *p);
    } reasons[] = {
        {"OOM", fill_memory, free_memory},
        {"NOREPLICAS", want_replicas, want_no_replicas},
        {"MISCONF", fail_to_save, save_no_more},
        {"NOPERM", forbid_scripts, allow_scripts},
        {"BUSY", run_a_script_without_end, end_the_script},
    };

    start(NULL);
    for (int i = 0; i < SHARDS; i++)
        expect_had_in_place(name[i].text); /* who is busy lets nobody in */
    for (size_t r = 0; r < sizeof reasons / sizeof *reasons; r++) {
        const int there = (int)r % SHARDS;
        struct probe *p = probe_open(cluster->node[there]);

        reasons[r].cause(p);
        for (int i = 0; i < SHARDS; i++) {
            rdl_lock_t *lock = reentrant(client, name[i].text, NULL);

            expect(i == there ? RDL_ESERVER : RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
            cr_assert(i != there || strstr(err.message, reasons[r].word) != NULL, "%s", err.message);
            expect(i == there ? RDL_ENOTOWNER : RDL_OK, rdl_unlock(lock, &err));
            rdl_lock_free(lock);
        }
        reasons[r].mend(p);
        expect_had_in_place(name[there].text);
        probe_close(p);
    }
}

/* With its old place, before anybody takes it. What it has forgotten is nobody's any more. */
Test(cluster, M6_hold_on_a_master_that_comes_back_empty_is_lost_at_once)
{
    rdl_lock_t *lock[SHARDS];

    start(NULL);
    losses_init(&losses);
    for (int i = 0; i < SHARDS; i++) {
        lock[i] = reentrant(client, name[i].text, NULL);
        expect(RDL_OK, rdl_on_lost(lock[i], losses_note, &losses, &err));
        expect(RDL_OK, rdl_try_lock(lock[i], 0, LEASE_MS, &err));
    }
    cluster_kill(cluster, 0);
    cluster_start_again(cluster, 0);
    cr_assert(
        WAIT_UNTIL(cluster_says_ok(cluster, 0), SOON_MS)); /* a master that has just started waits before it serves */
    cr_assert(losses_wait(&losses, RDL_LOST, 1, HEAL_MS));
    cr_assert_eq(losses_get(&losses, RDL_LOST)->lock, lock[0]);
    cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_GONE);
    expect(RDL_ELOST, rdl_unlock(lock[0], &err));
    expect(RDL_OK, rdl_try_lock(lock[0], 0, LEASE_MS, &err));
    for (int i = 0; i < SHARDS; i++) {
        expect(RDL_OK, rdl_unlock(lock[i], &err));
        rdl_lock_free(lock[i]);
    }
}

static int64_t scripts_at(int node)
{
    struct probe *p = probe_open(cluster->node[node]);
    const char *field = strstr(probe_text(p, "INFO memory"), "number_of_cached_scripts:");
    int64_t n = field != NULL ? strtoll(strchr(field, ':') + 1, NULL, 10) : 0;

    probe_close(p);
    return n;
}

/* So no call has to send one along. */
Test(cluster, C3_every_master_has_the_scripts_before_they_are_wanted)
{
    start(NULL);
    for (int i = 0; i < SHARDS; i++)
        cr_assert(WAIT_UNTIL(scripts_at(i) > 0, SOON_MS), "node %d", i);
    for (int i = 0; i < SHARDS; i++) {
        struct probe *p = probe_open(cluster->node[i]);

        expect_had_in_place(name[i].text);
        cr_assert_eq(probe_calls(p, "eval"), 0);
        probe_close(p);
    }
}

Test(cluster, C3_scripts_that_are_forgotten_are_told_again)
{
    start(NULL);
    for (int i = 0; i < SHARDS; i++) {
        struct probe *p = probe_open(cluster->node[i]);

        (void)probe_text(p, "SCRIPT FLUSH");
        expect_had_in_place(name[i].text);
        probe_close(p);
    }
}

Test(cluster, C1_replicas_of_the_shard_acknowledge_or_the_hold_is_undone)
{
    start(NULL);
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(client, name[i].text, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 500));

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        cluster_pause(cluster, CLUSTER_REPLICA_OF(i));
        expect(RDL_ENOREPLICAS, rdl_try_lock(lock, 0, LEASE_MS, &err));
        cr_assert_not_null(strstr(err.message, "0 of 1 replicas"), "%s", err.message);
        cr_assert(WAIT_UNTIL(ask(i, "EXISTS %s", name[i].text) == 0, SOON_MS));
        cluster_resume(cluster, CLUSTER_REPLICA_OF(i));
        rdl_lock_free(lock);
    }
}

/* All on the first shard, in slots of their own, when its replica has confirmed them. */
static void take_confirmed_holds(void)
{
    losses_init(&losses);
    for (int i = 0; i < HOLDS; i++) {
        struct slot_name which = cluster_name(cluster_first_slot(0) + (unsigned)i, 0);

        hold[i] = reentrant(client, which.text, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 500));
        expect(RDL_OK, rdl_on_lost(hold[i], losses_note, &losses, &err));
        expect(RDL_OK, rdl_try_lock(hold[i], SOON_MS, RDL_LEASE_AUTO, &err));
    }
}

/* One by one they would take longer than the lease: each a round trip, and another one to the replica. */
Test(cluster, holds_of_a_shard_that_replicas_confirm_are_renewed_together)
{
    start_cluster(&(struct cluster_options){.proxied = true, .patient = true});
    client = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = 2 * WATCHED_MS));
    take_confirmed_holds();
    proxy_delay(cluster->front[0], PROXY_BOTH_WAYS, 15);
    cr_assert_not(losses_wait(&losses, RDL_AT_RISK, 1, 8 * WATCHED_MS));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    proxy_delay(cluster->front[0], PROXY_BOTH_WAYS, 0);
    give_back(-1);
}

/* Of a batch some scripts are for elsewhere, or all are unknown, and no hold is the worse for it. */
Test(cluster, holds_that_replicas_confirm_are_renewed_while_slots_move_and_scripts_are_forgotten)
{
    unsigned first = cluster_first_slot(0);
    struct probe *p;

    start(OPTIONS(.watchdog_lease_ms = 2 * WATCHED_MS));
    take_confirmed_holds();
    cluster_begin_move(cluster, first, 2);
    cr_assert_eq(cluster_move_keys(cluster, first, 2), 1);
    for (unsigned i = 1; i < HOLDS; i += 2)
        cluster_move(cluster, first + i, 1);
    p = probe_open(cluster->node[0]);
    (void)probe_text(p, "SCRIPT FLUSH");
    probe_close(p);
    cr_assert_not(losses_wait(&losses, RDL_LOST, 1, 6 * WATCHED_MS));
    cluster_end_move(cluster, first, 2);
    cr_assert_not(losses_wait(&losses, RDL_LOST, 1, 3 * WATCHED_MS));
    cr_assert_eq(losses_count(&losses, RDL_AT_RISK), 0);
    give_back(-1);
}

Test(cluster, C7_shard_that_forbids_waiting_is_an_error_there_alone_unless_the_lock_goes_on_without)
{
    rdl_lock_t *lenient[SHARDS];
    struct probe *p;

    start(NULL);
    p = probe_open(cluster->node[0]);
    (void)probe_text(p, "ACL SETUSER %s -wait", server_user(cluster->node[0]));
    limited = true;
    probe_close(p);
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(client, name[i].text, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 500));

        expect(i == 0 ? RDL_ENOREPLICAS : RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        cr_assert(i != 0 || strstr(err.message, "NOPERM") != NULL, "%s", err.message);
        cr_assert(WAIT_UNTIL(ask(i, "EXISTS %s", name[i].text) == (i == 0 ? 0 : 1), SOON_MS));
        expect(i == 0 ? RDL_ENOTOWNER : RDL_OK, rdl_unlock(lock, &err));
        rdl_lock_free(lock);
    }
    for (int i = 0; i < SHARDS; i++) {
        lenient[i] = reentrant(rival, name[i].text, LOCK_OPTIONS(.replicas = 1, .replicas_if_able = true));
        expect(RDL_OK, rdl_try_lock(lenient[i], 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lenient[i], &err));
    }
    cluster_pause(cluster, CLUSTER_REPLICA_OF(0));
    cluster_pause(cluster, CLUSTER_REPLICA_OF(1));
    expect(RDL_OK, rdl_try_lock(lenient[0], 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lenient[0], &err));
    expect(RDL_ENOREPLICAS, rdl_try_lock(lenient[1], 0, LEASE_MS, &err));
    cluster_resume(cluster, CLUSTER_REPLICA_OF(0));
    cluster_resume(cluster, CLUSTER_REPLICA_OF(1));
    for (int i = 0; i < SHARDS; i++)
        rdl_lock_free(lenient[i]);
}

Test(cluster, client_that_is_closed_ends_calls_on_all_shards)
{
    struct actor *waiter[SHARDS];
    struct outcome outcome[SHARDS] = {0};
    rdl_lock_t *lock[SHARDS];
    rdl_owner_t *owner;
    int64_t began;

    start(NULL);
    left_behind = true;
    expect(RDL_OK, rdl_owner_new(client, &owner, &err));
    for (int i = 0; i < SHARDS; i++) {
        struct probe *p = probe_open(cluster->node[i]);

        foreign_take(p, name[i].text, LEASE_MS);
        probe_close(p);
        lock[i] = reentrant(client, name[i].text, NULL);
        waiter[i] = actor_new();
        actor_lock(waiter[i], lock[i], LEASE_MS);
        expect(RDL_OK, rdl_lock_async(lock[i], owner, LEASE_MS, outcome_note, &outcome[i], NULL, &err));
        cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, i, name[i].text) == 1, SOON_MS));
    }
    cluster_pause(cluster, 2);
    began = now_ms();
    client = rdl_client_close(client);
    cr_assert_lt(now_ms() - began, 2000);
    for (int i = 0; i < SHARDS; i++) {
        expect_result(RDL_ECLOSED, waiter[i], SOON_MS);
        cr_assert_eq(atomic_load(&outcome[i].calls), 1);
        expect(RDL_ECLOSED, outcome[i].result);
        actor_free(waiter[i]);
        rdl_lock_free(lock[i]);
    }
    rdl_owner_free(owner);
    cluster_resume(cluster, 2);
}

/* ---- whose word counts ------------------------------------------------------------------------------------------ */

static atomic_uint followed; /* how often a shard was said to be played by node 0 */

/* "cluster HOST:PORT at HOST:PORT": that is where connections of a shard go from now on. */
static void note_place(rdl_log_level_t level, const char *line, void *arg)
{
    char place[64];
    const char *at;

    (void)arg;
    (void)snprintf(place, sizeof place, " at 127.0.0.1:%d", cluster->port[0]);
    if (level == RDL_LOG_INFO && (at = strstr(line, place)) != NULL && at[strlen(place)] == '\0')
        atomic_fetch_add(&followed, 1);
}

/* It goes on answering those who ask who has which slots, and takes itself for the master. */
Test(cluster, C2_word_of_a_master_that_was_cut_off_is_not_followed)
{
    rdl_lock_t *lock;

    start_cluster(&(struct cluster_options){.proxied = true});
    client = client_open(cluster->uri, OPTIONS(.log = note_place, .log_level = RDL_LOG_INFO));
    cr_assert_gt(atomic_load(&followed), 0);
    cluster_isolate(cluster, 0, true);
    cr_assert(cluster_wait_master(cluster, cluster_first_slot(0), CLUSTER_REPLICA_OF(0), CLUSTER_FAILOVER_BOUND_MS));
    lock = reentrant(client, name[0].text, NULL);
    expect(RDL_OK, rdl_try_lock(lock, PATIENT_MS, LEASE_MS, &err));
    cr_assert_eq(ask(CLUSTER_REPLICA_OF(0), "EXISTS %s", name[0].text), 1);
    atomic_store(&followed, 0);
    let_pass_ms(4000); /* in which all who are asked by turns are asked, node 0 among them */
    cr_assert_eq(atomic_load(&followed), 0);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* ---- speed ------------------------------------------------------------------------------------------------------ */

#define PROMISED_MS 200 /* from the moment at which the new master serves */
#define RARELY_MS                                                                                                      \
    300 /* between two questions; it asks at least every 100 to 200 ms, and every 1000 when all is well                \
         */

/* Waits for that of a replica, on a thread of its own: the moment at which it ends is that one. */
static int64_t see_it_serve(void *probe, rdl_err_t *why)
{
    (void)why;
    return WAIT_UNTIL(cluster_serves(probe), CLUSTER_FAILOVER_BOUND_MS);
}

/* How often those who run were asked what only clients ask, along with who has which slots. */
static int64_t questions(void)
{
    int64_t n = 0;

    for (int i = 0; i < CLUSTER_NODES; i++) {
        struct probe *p;

        if (!server_running(cluster->node[i]))
            continue;
        p = probe_open(cluster->node[i]);
        n += probe_calls(p, server_is_old() ? "pubsub" : "pubsub|shardnumsub");
        probe_close(p);
    }
    return n;
}

/* Nobody tells a client, and attempts at the dead master are rare: it has to ask. Masters die one after another. */
Test(cluster, C6_waiter_has_the_lock_soon_after_its_shard_has_a_new_master)
{
    struct actor *waiter = actor_new(), *herald = actor_new();
    int64_t asked = 0, without_ms = 0;

    start_cluster(NULL);
    client = client_open(cluster->uri, OPTIONS(.reconnect_min_ms = 60000, .reconnect_max_ms = 60000));
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(client, name[i].text, NULL);
        struct probe *master = probe_open(cluster->node[i]),
                     *replica = probe_open(cluster->node[CLUSTER_REPLICA_OF(i)]);
        int64_t died;

        foreign_take(master, name[i].text, 500); /* ends before the failover does */
        cr_assert_eq(probe_int(master, "WAIT 1 %d", SOON_MS), 1);
        actor_try_lock(waiter, lock, 2 * CLUSTER_FAILOVER_BOUND_MS, LEASE_MS);
        cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, i, name[i].text) == 1, SOON_MS));
        probe_close(master);
        cluster_kill(cluster, i);
        died = now_us();
        asked -= questions();
        actor_call(herald, see_it_serve, replica);
        expect_result(1, herald, CLUSTER_FAILOVER_BOUND_MS + SLACK_MS);
        expect_result(RDL_OK, waiter, 2 * CLUSTER_FAILOVER_BOUND_MS);
        asked += questions();
        without_ms += (actor_ended_us(herald) - died) / 1000;
        cr_assert_lt(actor_ended_us(waiter) - actor_ended_us(herald), 1000 * (PROMISED_MS + SLACK_MS));
        cr_assert(
            cluster_wait_master(cluster, cluster_first_slot(i), CLUSTER_REPLICA_OF(i), CLUSTER_FAILOVER_BOUND_MS));
        actor_unlock(waiter, lock);
        expect_result(RDL_OK, waiter, SOON_MS);
        probe_close(replica);
        rdl_lock_free(lock);
    }
    cr_assert_gt(asked, without_ms / RARELY_MS);
    actor_free(waiter);
    actor_free(herald);
}

/* ---- work through everything ------------------------------------------------------------------------------------ */

#define ROUNDS 50

static struct workload *work;

static void goes_on(void)
{
    cr_assert(workload_goes_on(work, ROUNDS, CLUSTER_FAILOVER_BOUND_MS));
}

static void start_work(const struct cluster_options *options)
{
    const char *names[SHARDS];

    for (int i = 0; i < SHARDS; i++) {
        name[i] = cluster_name(cluster_first_slot(i), 0);
        names[i] = name[i].text;
    }
    work = workload_start(&(struct workload_plan){.names = names, .locks = SHARDS, .processes = 3, .threads = 1});
    start_cluster(options);
    workload_begin(work, cluster->uri);
    goes_on();
}

/* Whoever clashed with another, one of them was told. */
static void expect_told(void)
{
    struct workload_sum sum = workload_stop(work);

    cr_assert_eq(sum.amiss, 0, "%" PRId64 " times two clashed who had one master", sum.amiss);
    cr_assert_eq(sum.strange, 0,
                 "%" PRId64 " times two clashed and neither was told; %" PRId64 " refused, %" PRId64 " met",
                 sum.strange, sum.refused, sum.overlaps);
}

/* name[i] goes to the i-th next of `masters`. */
static void move_on(const int *masters, int distance)
{
    for (int i = 0; i < SHARDS; i++)
        cluster_move(cluster, cluster_first_slot(i), masters[(i + distance) % SHARDS]);
    goes_on();
}

static void change_places(int replica)
{
    unsigned slot = cluster_first_slot(replica % SHARDS) + 1; /* one that no test moves */

    cluster_failover(cluster, replica);
    cr_assert(cluster_wait_master(cluster, slot, replica, CLUSTER_FAILOVER_BOUND_MS));
    goes_on();
}

Test(cluster, C2_C5_nobody_overlaps_through_moved_slots_and_arranged_failovers)
{
    static const int masters[SHARDS] = {0, 1, 2};
    struct workload_sum sum;

    start_work(NULL);
    for (int distance = 1; distance <= SHARDS; distance++)
        move_on(masters, distance);
    for (int i = 0; i < SHARDS; i++)
        change_places(CLUSTER_REPLICA_OF(i));
    sum = workload_stop(work);
    cr_assert_eq(sum.overlaps, 0);
    cr_assert_eq(sum.refused, 0);
    cr_assert_gt(sum.turns, sum.rounds / 10, "%" PRId64 " changes of owner in %" PRId64 " rounds", sum.turns,
                 sum.rounds);
}

/* A master dies, and its replica takes over; one is stopped until it is replaced; slots go to the new masters; and all
 * change places again. Writes may be lost, and then nobody may be left in the belief that he was alone. */
Test(cluster, C2_C5_X1_work_goes_on_through_kills_and_nobody_overlaps_unnoticed)
{
    static const int masters[SHARDS] = {3, 4, 2};

    start_work(NULL);
    workload_harm(work);
    cluster_kill(cluster, 0);
    cr_assert(cluster_wait_master(cluster, cluster_first_slot(0), 3, CLUSTER_FAILOVER_BOUND_MS));
    goes_on();
    cluster_start_again(cluster, 0);
    cluster_pause(cluster, 1);
    cr_assert(cluster_wait_master(cluster, cluster_first_slot(1), 4, CLUSTER_FAILOVER_BOUND_MS));
    goes_on();
    cluster_resume(cluster, 1);
    cr_assert(cluster_wait_whole(cluster, CLUSTER_FAILOVER_BOUND_MS));
    workload_calm(work);
    move_on(masters, 1);
    change_places(0);
    workload_harm(work);
    cluster_kill(cluster, 2);
    cr_assert(cluster_wait_master(cluster, cluster_first_slot(2) + 1, 5, CLUSTER_FAILOVER_BOUND_MS));
    workload_calm(work);
    goes_on();
    expect_told();
    left_behind = true; /* the last node is not there to be asked */
}

/* Clients reach it, the other nodes do not, and have the replica in its place. What it grants until it gives up is
 * lost. */
Test(cluster, C2_X1_master_without_the_others_stops_granting_and_nobody_overlaps_unnoticed)
{
    struct slot_name other = cluster_name(cluster_first_slot(0), 1);
    struct probe *p;

    start_work(&(struct cluster_options){.proxied = true});
    workload_harm(work);
    cluster_isolate(cluster, 0, true);
    cr_assert(WAIT_UNTIL(!cluster_says_ok(cluster, 0), 2 * CLUSTER_NODE_TIMEOUT_MS + SLACK_MS), "it goes on granting");
    cr_assert(cluster_wait_master(cluster, cluster_first_slot(0), CLUSTER_REPLICA_OF(0), CLUSTER_FAILOVER_BOUND_MS));
    workload_calm(work);
    goes_on();
    p = probe_open(cluster->node[0]);
    cr_assert_not_null(strstr(probe_ask(p, "SET %s grant NX", other.text)->text, "CLUSTERDOWN"));
    probe_close(p);
    cluster_isolate(cluster, 0, false);
    cr_assert(cluster_wait_whole(cluster, CLUSTER_FAILOVER_BOUND_MS));
    goes_on();
    expect_told();
}
