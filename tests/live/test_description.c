/* SPDX-License-Identifier: MIT */
/* test_description.c - a client describes itself (wire.md, Descriptions), and nothing else depends on that.
 *
 * Where a test shows that something is not written, it waits for several pings of the idle connection, which are as far
 * apart as two descriptions would be. */
#include "tests/live/live.h"
#include "tests/support/cluster.h"
#include "tests/support/sentinels.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "job"
#define LEASE_MS 60000
#define OFTEN_MS 100
#define SELDOM_MS 60000 /* what is written again within a test was not written because of that */
#define DESCRIBED(...) (&(rdl_client_options_t){.version = RDL_CLIENT_OPTIONS_VERSION, __VA_ARGS__})

static rdl_client_t *client;
static rdl_lock_t *lock;
static struct sentinels *fleet;
static struct cluster *cluster;

static void fini(void)
{
    rdl_lock_free(lock);
    client = rdl_client_close(client);
    live_fini();
    sentinels_stop(fleet);
    cluster_stop(cluster);
}

TestSuite(description, .fini = fini, .timeout = 120);

static void begin(const rdl_client_options_t *options)
{
    stage_open(&st);
    left_behind = true; /* a description that could not be taken away goes with its time */
    client = client_open(server_uri(st.server), options);
    lock = reentrant(client, NAME, NULL);
}

static void end(void)
{
    client = rdl_client_close(client);
    lock = rdl_lock_free(lock);
}

static bool described_at(struct probe *p)
{
    return probe_int(p, "EXISTS redlatch_client:{%s}", rdl_client_id(client)) == 1;
}

static bool described(void)
{
    return described_at(st.probe);
}

static void expect_field(const char *name, const char *value)
{
    const char *found = probe_text(st.probe, "HGET redlatch_client:{%s} %s", rdl_client_id(client), name);

    cr_assert_not_null(found, "%s", name);
    cr_expect_str_eq(found, value, "%s", name);
}

static void take_and_be_described(void)
{
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert(WAIT_UNTIL(described(), SOON_MS));
}

static void see_pings(struct probe *p, int64_t count)
{
    int64_t before = probe_calls(p, "ping");

    cr_assert(WAIT_UNTIL(probe_calls(p, "ping") >= before + count, SOON_MS));
}

/* ---- what it says, and when ------------------------------------------------------------------------------------- */

Test(description, says_who_it_is_until_it_is_closed)
{
    char host[256], pid[24];
    int64_t since;

    begin(DESCRIBED(.label = "nightly backup", .info = "ticket 7\nsecond line", .describe_interval_ms = 20000));
    cr_assert_not(described(), "it holds nothing, and waits for nothing");
    take_and_be_described();
    cr_assert_eq(gethostname(host, sizeof host), 0);
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    expect_field("host", host);
    expect_field("pid", pid);
    expect_field("program", program_invocation_short_name);
    expect_field("version", rdl_version());
    expect_field("label", "nightly backup");
    expect_field("info", "ticket 7\nsecond line");
    since = probe_int(st.probe, "HGET redlatch_client:{%s} start_ms", rdl_client_id(client));
    expect_between(time(NULL) - 100, since / 1000, time(NULL) + 1);
    expect_between(30000, probe_int(st.probe, "PTTL redlatch_client:{%s}", rdl_client_id(client)), 60000);
    expect(RDL_OK, rdl_unlock(lock, &err));
    end();
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
}

Test(description, is_written_again_before_it_expires)
{
    int64_t before;

    begin(DESCRIBED(.describe_interval_ms = OFTEN_MS));
    take_and_be_described();
    (void)probe_int(st.probe, "DEL redlatch_client:{%s}", rdl_client_id(client));
    cr_assert(WAIT_UNTIL(described(), SOON_MS));
    expect_between(1, probe_int(st.probe, "PTTL redlatch_client:{%s}", rdl_client_id(client)), 3 * OFTEN_MS);
    before = probe_calls(st.probe, "pexpire");
    cr_assert(WAIT_UNTIL(probe_calls(st.probe, "pexpire") >= before + 4, SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
}

Test(description, of_one_who_only_waits_is_there)
{
    struct caller *waiter = caller_new();
    char *channel = channel_of(NAME);

    begin(DESCRIBED(.describe_interval_ms = SELDOM_MS));
    foreign_take(st.probe, NAME, LEASE_MS);
    caller_try_lock(waiter, lock, LEASE_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(described() && probe_listeners_of(st.probe, false, channel) == 1, SOON_MS));
    cr_assert_eq(foreign_release(st.probe, NAME), 1);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    free(channel);
}

Test(description, costs_nothing_where_nothing_is_held)
{
    begin(DESCRIBED(.describe_interval_ms = OFTEN_MS, .ping_interval_ms = OFTEN_MS));
    expect(0, rdl_is_locked(lock, &err));
    see_pings(st.probe, 5);
    cr_assert_eq(probe_calls(st.probe, "evalsha") + probe_calls(st.probe, "eval"), 0);
    cr_assert_eq(probe_keys(st.probe), 0);
}

/* Somebody may still be at work under them, and somebody else may want to know who. */
Test(description, stays_for_a_while_when_locks_are_left)
{
    char *key;

    begin(DESCRIBED(.describe_interval_ms = SELDOM_MS));
    take_and_be_described();
    key = must_format("redlatch_client:{%s}", rdl_client_id(client));
    end();
    cr_assert_gt(probe_int(st.probe, "PTTL %s", key), 0);
    free(key);
    left_behind = true;
}

/* It is given back, and nothing is left. */
Test(description, goes_with_a_lock_that_is_kept)
{
    bool kept = false;

    begin(DESCRIBED(.describe_interval_ms = SELDOM_MS));
    lock = rdl_lock_free(lock);
    lock = reentrant(client, NAME, LOCK_OPTIONS(.cache_ms = LEASE_MS));
    for (int i = 0; i < 1000 && !kept; i++) {
        expect(RDL_OK, rdl_try_lock(lock, SOON_MS, RDL_LEASE_AUTO, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        kept = probe_int(st.probe, "EXISTS " NAME) == 1;
    }
    cr_assert(kept, "the lock is never kept");
    cr_assert(WAIT_UNTIL(described(), SOON_MS));
    end();
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
}

Test(description, is_not_made_by_who_is_anonymous)
{
    begin(DESCRIBED(.anonymous = true, .label = "nobody", .describe_interval_ms = OFTEN_MS,
                    .ping_interval_ms = OFTEN_MS));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    see_pings(st.probe, 5);
    cr_assert_not(described());
    cr_assert_gt(probe_clients(st.probe, "redlatch"), 0);
    expect(RDL_OK, rdl_unlock(lock, &err));
}

static void expect_named(const rdl_client_options_t *options, const char *program)
{
    char host[65] = "", *name;

    begin(options);
    cr_assert_eq(gethostname(host, sizeof host - 1), 0);
    name = must_format("redlatch:%s:%d:%s", host, (int)getpid(), program);
    cr_expect_gt(probe_clients(st.probe, name), 0, "%s", name);
    free(name);
    end();
}

Test(description, is_in_the_connections_name)
{
    expect_named(DESCRIBED(.label = ""), program_invocation_short_name);
    live_again();
    expect_named(DESCRIBED(.label = "two words\r\n\xc3\xa4"), "two_words____");
}

Test(description, is_bounded)
{
    char text[1026];

    stage_open(&st);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    expect(RDL_EINVAL, rdl_client_open(server_uri(st.server), DESCRIBED(.info = text), &client, &err));
    cr_assert_not_null(strstr(err.message, "info"), "%s", err.message);
    expect(RDL_EINVAL, rdl_client_open(server_uri(st.server), DESCRIBED(.label = text), &client, &err));
    cr_assert_not_null(strstr(err.message, "label"), "%s", err.message);
}

/* ---- what goes wrong -------------------------------------------------------------------------------------------- */

static _Atomic int lines;

static void count_lines(rdl_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    if (level == RDL_LOG_INFO && strstr(line, "not described") != NULL)
        atomic_fetch_add(&lines, 1);
}

static void connect_anew(void)
{
    (void)probe_int(st.probe, "CLIENT KILL USER limited");
    expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
}

static bool was_refused(void)
{
    return (int)probe_ask(st.probe, "ACL LOG")->count > 0;
}

/* One line in the log, one attempt a connection; and when the right is there, a description. */
Test(description, that_is_refused_is_said_once_and_harms_nothing)
{
    char *uri;

    stage_open(&st);
    (void)probe_text(st.probe, "ACL SETUSER limited on >secret +@all ~" NAME "* ~redisson* &*");
    uri = must_format("unix://limited:secret@%s", server_socket(st.server));
    client = client_open(uri, DESCRIBED(.log = count_lines, .log_level = RDL_LOG_INFO, .describe_interval_ms = OFTEN_MS,
                                        .ping_interval_ms = OFTEN_MS));
    free(uri);
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert(WAIT_UNTIL(atomic_load(&lines) == 1, SOON_MS));
    (void)probe_text(st.probe, "ACL LOG RESET");
    see_pings(st.probe, 5);
    cr_assert_not(was_refused(), "it is tried again on the same connection");
    connect_anew();
    cr_assert(WAIT_UNTIL(was_refused(), SOON_MS));
    cr_assert_eq(atomic_load(&lines), 1);
    (void)probe_text(st.probe, "ACL SETUSER limited ~redlatch_client:*");
    connect_anew();
    cr_assert(WAIT_UNTIL(described(), SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
}

Test(description, that_stumbles_over_another_key_harms_nothing)
{
    begin(DESCRIBED(.log = count_lines, .log_level = RDL_LOG_INFO, .describe_interval_ms = OFTEN_MS));
    (void)probe_text(st.probe, "SET redlatch_client:{%s} x", rdl_client_id(client));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert(WAIT_UNTIL(atomic_load(&lines) == 1, SOON_MS));
    (void)probe_int(st.probe, "DEL redlatch_client:{%s}", rdl_client_id(client));
    cr_assert(WAIT_UNTIL(described(), SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
}

Test(description, is_written_to_a_server_that_was_started_empty)
{
    begin(DESCRIBED(.describe_interval_ms = SELDOM_MS));
    take_and_be_described();
    probe_close(st.probe);
    server_kill(st.server);
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    cr_assert(WAIT_UNTIL(described(), SOON_MS));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

Test(description, is_left_alone_by_a_child_that_closes)
{
    int status;
    pid_t child;

    begin(DESCRIBED(.describe_interval_ms = SELDOM_MS));
    take_and_be_described();
    if ((child = fork()) == 0)
        _exit(rdl_client_close(client) == NULL ? 0 : 1);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    cr_assert(described());
    expect(RDL_OK, rdl_unlock(lock, &err));
}

/* Tells who it is, holds the lock, and forks when it is told to. */
static void be_a_parent(const int to[2], const int from[2])
{
    char byte;
    rdl_client_t *own = client_open(server_uri(st.server), DESCRIBED(.describe_interval_ms = OFTEN_MS));
    rdl_lock_t *held = reentrant(own, NAME, NULL);
    pid_t child;

    if (rdl_try_lock(held, 0, LEASE_MS, NULL) < 0 || read(to[0], &byte, 1) != 1)
        _exit(1);
    if ((child = fork()) == 0)
        _exit(read(to[0], &byte, 1) == 1 ? 0 : 1);
    (void)!write(from[1], &child, sizeof child);
    pause();
}

/* Its child lives on. */
Test(description, of_one_who_was_killed_expires)
{
    int to[2], from[2];
    pid_t parent, child = 0;

    stage_open(&st);
    cr_assert_eq(pipe(to) | pipe(from), 0);
    if ((parent = fork()) == 0)
        be_a_parent(to, from);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 2, SOON_MS));
    cr_assert_eq(write(to[1], "x", 1), 1);
    cr_assert_eq(read(from[0], &child, sizeof child), (ssize_t)sizeof child);
    cr_assert_eq(kill(parent, SIGKILL), 0);
    cr_assert_eq(waitpid(parent, NULL, 0), parent);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 1, SOON_MS));
    cr_assert_eq(kill(child, 0), 0, "the child is gone");
    cr_assert_eq(write(to[1], "x", 1), 1);
    left_behind = true; /* its lock */
}

/* ---- other masters ---------------------------------------------------------------------------------------------- */

static bool described_by(struct server *server)
{
    struct probe *p = probe_open(server);
    bool is = described_at(p);

    probe_close(p);
    return is;
}

/* Which has never heard of it. */
Test(description, is_written_again_at_a_new_master)
{
    fleet = sentinels_start(NULL);
    sentinels_cut_off(fleet, 1);
    client = client_open(fleet->uri, DESCRIBED(.describe_interval_ms = SELDOM_MS));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert(WAIT_UNTIL(described_by(fleet->data[0]), SOON_MS));
    server_kill(fleet->data[0]);
    server_resume(fleet->data[1]);
    cr_assert(sentinels_wait_master(fleet, 1, FAILOVER_BOUND_MS));
    cr_assert(WAIT_UNTIL(described_by(fleet->data[1]), FAILOVER_BOUND_MS));
}

Test(description, is_at_the_master_of_its_slot_whoever_that_is)
{
    unsigned slot;
    int master;

    cluster = cluster_start(NULL);
    client = client_open(cluster->uri, DESCRIBED(.describe_interval_ms = SELDOM_MS));
    slot = cluster_slot(rdl_client_id(client));
    master = cluster_master(cluster, slot);
    cluster_cut_off(cluster, CLUSTER_REPLICA_OF(master));
    lock = reentrant(client, cluster_name(cluster_first_slot((master + 1) % CLUSTER_MASTERS), 0).text, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert(WAIT_UNTIL(described_by(cluster->node[master]), SOON_MS));
    cluster_kill(cluster, master);
    cluster_resume(cluster, CLUSTER_REPLICA_OF(master));
    cr_assert(cluster_wait_master(cluster, slot, CLUSTER_REPLICA_OF(master), CLUSTER_FAILOVER_BOUND_MS));
    cr_assert(WAIT_UNTIL(described_by(cluster->node[CLUSTER_REPLICA_OF(master)]), CLUSTER_FAILOVER_BOUND_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
    lock = rdl_lock_free(lock);
    client = rdl_client_close(client);
    cr_assert(WAIT_UNTIL(cluster_keys(cluster) == 0, SOON_MS));
}

/* The client learns it by its own write. */
Test(description, follows_its_slot)
{
    struct probe *p;
    unsigned slot;
    int master, other;

    cluster = cluster_start(&(struct cluster_options){.patient = true});
    client = client_open(cluster->uri, DESCRIBED(.describe_interval_ms = OFTEN_MS));
    slot = cluster_slot(rdl_client_id(client));
    master = cluster_master(cluster, slot);
    other = (master + 1) % CLUSTER_MASTERS;
    lock = reentrant(client, cluster_name(cluster_first_slot(other), 0).text, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert(WAIT_UNTIL(described_by(cluster->node[master]), SOON_MS));
    cluster_move(cluster, slot, other);
    p = cluster_probe(cluster, slot);
    (void)probe_int(p, "DEL redlatch_client:{%s}", rdl_client_id(client));
    probe_close(p);
    cr_assert(WAIT_UNTIL(described_by(cluster->node[other]), SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
}
