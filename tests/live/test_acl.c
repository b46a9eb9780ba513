/* SPDX-License-Identifier: MIT */
/* test_acl.c - the rights that docs/acl.md names are enough, and none too many.
 *
 * Each test gives a user the rights of the document's first section and of one more, as they stand there, and does with
 * that user what the section is for. Afterwards the server must have refused nothing, and every command that the
 * section allows must have been run. What clusters want is in test_cluster. The document is read from the folder that
 * tests/run starts programs in, the tree's own. */
#include "tests/live/live.h"
#include "tests/support/rights.h"
#include "tests/support/sentinels.h"

#include <ctype.h>
#include <stdio.h>

#define DOCUMENT "docs/acl.md"
#define EVERYBODY "Every program"
#define DESCRIPTION "Description"
#define REPLICAS "The option `replicas`"
#define CACHE "The option `cache_ms`"
#define GRANT "ACL SETUSER app "
#define NAME "orders:42"
#define LEASE_MS 20000
#define WAIT_MS 10000
#define LIFE_MS 300
#define QUEUE "redisson_lock_queue:{" NAME "}"
#define SCORES "redisson_lock_timeout:{" NAME "}"

LIVE_SUITE(acl, 60);

static struct caller *waiter;
static const char *for_repeats = ""; /* a command that only the repeat after a lost reply needs */

/* ---- the document ----------------------------------------------------------------------------------------------- */

static void for_each_grant(const char *heading, void (*fn)(const char *line))
{
    FILE *file = fopen(DOCUMENT, "r");
    char *title = must_format("## %s\n", heading);
    char line[1024];
    bool inside = false;
    int found = 0;

    cr_assert_not_null(file, "%s is not here", DOCUMENT);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "## ", 3) == 0)
            inside = strcmp(line, title) == 0;
        if (!inside || strncmp(line, GRANT, strlen(GRANT)) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        fn(line);
        found++;
    }
    (void)fclose(file);
    free(title);
    cr_assert_gt(found, 0, "%s grants nothing under '%s'", DOCUMENT, heading);
}

static void grant(const char *line)
{
    const struct reply *answer = probe_ask(st.probe, "%s", line);

    cr_assert_eq(answer->kind, REPLY_STATUS, "%s: %s", line, answer->text);
}

/* Redis 6.2 counts a command's subcommands together. */
static int64_t calls_of(const char *word)
{
    char *command = must_format("%.*s", (int)strcspn(word, server_is_old() ? "|" : ""), word);
    int64_t n = probe_calls(st.probe, command);

    free(command);
    return n;
}

static void expect_all_run(const char *line)
{
    char *copy = must_format("%s", line), *rest = copy;

    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        if (word[0] == '+' && strcmp(word + 1, for_repeats) != 0)
            cr_expect_gt(calls_of(word + 1), 0, "%s is allowed and was not needed", word + 1);
    free(copy);
}

static void open_with_rights_of(const char *heading)
{
    char *uri;

    st.server = server_start(&(struct server_options){.tcp = true, .config = "repl-diskless-sync-delay 0"});
    st.probe = probe_open(st.server);
    for_each_grant(EVERYBODY, grant);
    for_each_grant(heading, grant);
    uri = must_format("unix://app:secret@%s?db=0", server_socket(st.server));
    st.client = client_open(uri, OPTIONS(.watchdog_lease_ms = 2000));
    free(uri);
    waiter = caller_new();
}

static void expect_all_rights_of(const char *heading)
{
    const struct reply *log;

    caller_free(waiter);
    for_each_grant(heading, expect_all_run);
    log = probe_ask(st.probe, "ACL LOG");
    cr_assert_eq((int)log->count, 0, "something was tried and refused");
    left_behind = true; /* counters and guards */
}

/* ---- what each section is for ----------------------------------------------------------------------------------- */

static void see_a_renewal(void)
{
    int64_t before = probe_calls(st.probe, "time");

    cr_assert(WAIT_UNTIL(probe_calls(st.probe, "time") > before, SOON_MS));
}

static int64_t asked_by_another(void *lock, rdl_err_t *why)
{
    return rdl_is_locked(lock, why) == 1 && rdl_remaining_ms(lock, why) > 0;
}

static bool is(const rdl_lock_t *lock, const char *type)
{
    return strcmp(rdl_lock_type(lock), type) == 0;
}

static void take_again(rdl_lock_t *lock)
{
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
}

static void unlock_before_a_waiter(rdl_lock_t *lock)
{
    caller_try_lock(waiter, lock, WAIT_MS, LEASE_MS);
    if (!is(lock, "spin"))
        cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
}

/* Every verb. */
static void use(rdl_lock_t *lock)
{
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    see_a_renewal();
    if (!is(lock, "simple") && !is(lock, "nonreentrant"))
        take_again(lock);
    expect(RDL_OK, rdl_extend(lock, 2 * LEASE_MS, &err));
    caller_call(waiter, asked_by_another, lock);
    expect_result(1, waiter, SOON_MS);
    if (is(lock, "read"))
        expect(RDL_OK, rdl_unlock(lock, &err)); /* another reader would not wait */
    else
        unlock_before_a_waiter(lock);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(1, rdl_force_unlock(lock, &err));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
}

static void use_and_free(rdl_lock_t *lock)
{
    use(lock);
    rdl_lock_free(lock);
}

/* ---- what is for every type ------------------------------------------------------------------------------------- */

/* In a database of its own; an answer is lost, the scripts are forgotten, and once more where HELLO is unknown. */
Test(acl, of_every_program_is_enough_and_no_more)
{
    rdl_lock_t *lock;
    char *uri;

    st.server = server_start(NULL);
    st.proxy = proxy_start(st.server);
    st.probe = probe_open(st.server);
    for_each_grant(EVERYBODY, grant);
    for_each_grant("Reentrant, non-reentrant and spin lock", grant);
    uri = must_format("unix://app:secret@%s?db=1", strchr(proxy_uri(st.proxy), '/'));
    waiter = caller_new();
    for (int unknown = 0; unknown < 2; unknown++) {
        st.client = client_open(uri, OPTIONS(.watchdog_lease_ms = 2000));
        lock = reentrant(st.client, NAME, NULL);
        use(lock);
        (void)probe_text(st.probe, "SCRIPT FLUSH");
        take_again(lock);
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA");
        expect(RDL_OK, rdl_try_lock(lock, WAIT_MS, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
        rdl_lock_free(lock);
        (void)proxy_on(st.proxy, .action = PROXY_ANSWER, .command = "HELLO", .answer = "-ERR unknown command\r\n",
                       .every = true);
        if (unknown == 0)
            st.client = rdl_client_close(st.client);
    }
    free(uri);
    expect_all_rights_of(EVERYBODY);
}

static struct {
    struct proxy *way;
    int count;
    struct {
        char *word;
        int rule;
    } right[32];
} watched;

/* Whether a sentinel was asked it does not say itself. */
static void watch_for(const char *rules, void *arg)
{
    char *copy = must_format("%s", rules), *rest = copy;

    (void)arg;
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *second, *told;

        if (word[0] != '+')
            continue;
        for (char *at = ++word; *at != '\0'; at++)
            *at = (char)toupper(*at);
        watched.right[watched.count].word = must_format("%s", word);
        second = strchr(word, '|');
        told = must_format("\r\n%s\r\n", second != NULL ? second + 1 : word);
        word[strcspn(word, "|")] = '\0';
        watched.right[watched.count++].rule =
            proxy_on(watched.way, .action = PROXY_WATCH, .command = word, .contains = told);
        free(told);
    }
    free(copy);
}

/* The first sentinel is asked in the newer protocol and in the older one, and names the others. */
Test(acl, behind_sentinel_is_enough_and_no_more)
{
    static const char heading[] = "Behind Sentinel";
    struct sentinels *fleet = sentinels_start(NULL);
    rdl_lock_t *lock;
    char *uri;

    for (int i = 0; i < 2; i++) {
        rights_grant(fleet->data[i], EVERYBODY, "app");
        rights_grant(fleet->data[i], heading, "app");
        rights_grant(fleet->data[i], "Reentrant, non-reentrant and spin lock", "app");
    }
    for (int i = 0; i < SENTINELS; i++)
        rights_grant(fleet->sentinel[i], heading, "finder");
    watched.way = proxy_start(fleet->sentinel[0]);
    (void)rights_read(heading, "finder", watch_for, NULL);
    uri = must_format("sentinel://app:secret@127.0.0.1:%d/" SENTINEL_MASTER, proxy_port(watched.way));
    for (int unknown = 0; unknown < 2; unknown++) {
        rdl_client_t *client = client_open(uri, OPTIONS(.sentinel_username = "finder", .sentinel_password = "secret"));

        lock = reentrant(client, NAME, NULL);
        take_again(lock);
        rdl_lock_free(lock);
        for (int i = 0; unknown == 1 && i < watched.count; i++)
            cr_expect(proxy_wait(watched.way, watched.right[i].rule, 1, SOON_MS), "%s is allowed and was not needed",
                      watched.right[i].word);
        rdl_client_close(client);
        proxy_let_go(watched.way, watched.right[0].rule); /* HELLO was seen */
        (void)proxy_on(watched.way, .action = PROXY_ANSWER, .command = "HELLO", .answer = "-ERR unknown command\r\n",
                       .every = true);
    }
    st.probe = probe_open(fleet->data[0]);
    cr_expect_gt(probe_calls(st.probe, "role"), 0);
    cr_assert_eq(rights_refused(fleet->data[0]), 0);
    for (int i = 0; i < SENTINELS; i++)
        cr_assert_eq(rights_refused(fleet->sentinel[i]), 0);
    proxy_stop(watched.way);
    sentinels_stop(fleet);
    free(uri);
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

Test(acl, of_reentrant_nonreentrant_and_spin_locks_is_enough_and_no_more)
{
    open_with_rights_of("Reentrant, non-reentrant and spin lock");
    use_and_free(reentrant(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME)));
    use_and_free(nonreentrant(st.client, NAME "n", NULL));
    use_and_free(spin(st.client, NAME "s", NULL));
    expect_all_rights_of("Reentrant, non-reentrant and spin lock");
}

Test(acl, of_the_option_replicas_is_enough_and_no_more)
{
    struct server *replica;
    char *config;

    open_with_rights_of("Reentrant, non-reentrant and spin lock");
    for_each_grant(REPLICAS, grant);
    config = must_format("replicaof 127.0.0.1 %d\nrepl-ping-replica-period 1", server_port(st.server));
    replica = server_start(&(struct server_options){.config = config});
    free(config);
    cr_assert(probe_followed(st.probe, 1, 2 * SOON_MS));
    use_and_free(reentrant(st.client, NAME, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 1000)));
    expect_all_rights_of(REPLICAS);
    server_stop(replica);
}

/* Recalled by another program with the same rights, and forced open. */
Test(acl, of_the_option_cache_ms_is_enough_and_no_more)
{
    rdl_client_t *other;
    rdl_lock_t *lock, *elsewhere;
    char *uri;

    open_with_rights_of("Reentrant, non-reentrant and spin lock");
    for_each_grant(CACHE, grant);
    uri = must_format("unix://app:secret@%s?db=0", server_socket(st.server));
    other = client_open(uri, OPTIONS(.watchdog_lease_ms = 2000));
    free(uri);
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.cache_ms = 1000));
    elsewhere = reentrant(other, NAME, NULL);
    for (int i = 0; i < 1000; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 3000, RDL_LEASE_AUTO, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        if (probe_ask(st.probe, "HKEYS " NAME)->count == 1)
            break; /* it is kept */
    }
    expect(RDL_OK, rdl_try_lock(elsewhere, 900, RDL_LEASE_AUTO, &err)); /* before it would be given back */
    expect(RDL_OK, rdl_unlock(elsewhere, &err));
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
    use_and_free(lock);
    expect_all_rights_of(CACHE);
}

Test(acl, of_the_fenced_lock_is_enough_and_no_more)
{
    open_with_rights_of("Fenced lock");
    use_and_free(fenced(st.client, NAME, NULL));
    use_and_free(fenced(st.client, NAME "t", LOCK_OPTIONS(.fencing = RDL_FENCING_TIME)));
    for_repeats = "get"; /* answers the same token again */
    expect_all_rights_of("Fenced lock");
}

Test(acl, of_the_simple_lock_is_enough_and_no_more)
{
    open_with_rights_of("Simple lock");
    use_and_free(simple(st.client, NAME, NULL));
    expect_all_rights_of("Simple lock");
}

/* What peers may do to our waiters is done to one, too: it puts itself back. */
Test(acl, of_the_fair_lock_is_enough_and_no_more)
{
    rdl_lock_t *lock;

    open_with_rights_of("Fair lock");
    lock = fair(st.client, NAME, LOCK_OPTIONS(.waiter_life_ms = LIFE_MS));
    use(lock);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    caller_try_lock(waiter, lock, WAIT_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "LLEN " QUEUE) == 1, SOON_MS));
    (void)probe_int(st.probe, "DEL " QUEUE " " SCORES);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "LLEN " QUEUE) == 1, SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    rdl_lock_free(lock);
    expect_all_rights_of("Fair lock");
}

/* A writer downgrades, and another gives up beside the reader that it has become. */
static void use_both_ends(const rdl_lock_options_t *options)
{
    rdl_lock_t *reader = read_end(st.client, NAME, options), *writer = write_end(st.client, NAME, options);

    use(reader);
    use(writer);
    expect(RDL_OK, rdl_try_lock(writer, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(reader, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(writer, &err));
    caller_try_lock(waiter, writer, 1500, LEASE_MS);
    expect_result(RDL_ETIMEDOUT, waiter, SOON_MS);
    expect(RDL_OK, rdl_unlock(reader, &err));
    rdl_lock_free(reader);
    rdl_lock_free(writer);
}

Test(acl, of_the_read_write_lock_is_enough_and_no_more)
{
    open_with_rights_of("Read-write lock");
    use_both_ends(NULL);
    expect_all_rights_of("Read-write lock");
}

Test(acl, of_the_read_write_lock_that_prefers_writers_is_enough_and_no_more)
{
    open_with_rights_of("Read-write lock that prefers writers");
    use_both_ends(LOCK_OPTIONS(.prefer_writers = true));
    expect_all_rights_of("Read-write lock that prefers writers");
}

static int64_t wait_for_permit(void *pool, rdl_err_t *why)
{
    return rdl_semaphore_try_acquire(pool, 1, WAIT_MS, why);
}

static void use_semaphore(const rdl_semaphore_options_t *options)
{
    rdl_semaphore_t *pool = NULL;

    expect(RDL_OK, rdl_semaphore(st.client, NAME, options, &pool, &err));
    expect(1, rdl_semaphore_try_set_permits(pool, 1, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(pool, 1, 0, &err));
    caller_call(waiter, wait_for_permit, pool);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(RDL_OK, rdl_semaphore_release(pool, 1, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    expect(RDL_ETIMEDOUT, rdl_semaphore_try_acquire(pool, 1, 1500, &err)); /* gives its place up */
    expect(RDL_OK, rdl_semaphore_add_permits(pool, 2, &err));
    expect(2, rdl_semaphore_available(pool, &err));
    expect(2, rdl_semaphore_drain(pool, &err));
    rdl_semaphore_free(pool);
}

Test(acl, of_the_semaphore_is_enough_and_no_more)
{
    open_with_rights_of("Semaphore");
    use_semaphore(NULL);
    expect_all_rights_of("Semaphore");
}

/* A process that has died stands at the head of the queue, and is dropped. */
Test(acl, of_the_fair_semaphore_is_enough_and_no_more)
{
    open_with_rights_of("Fair semaphore");
    (void)probe_int(st.probe, "ZADD redlatch_semaphore_queue:{" NAME "} 1 dead");
    use_semaphore(&(rdl_semaphore_options_t){.version = RDL_SEMAPHORE_OPTIONS_VERSION, .fair = true});
    expect_all_rights_of("Fair semaphore");
}

static int64_t wait_for_seat(void *seats, rdl_err_t *why)
{
    rdl_permit_t seat;

    return rdl_permit_semaphore_try_acquire(seats, 1, WAIT_MS, LEASE_MS, &seat, why);
}

Test(acl, of_the_permit_semaphore_is_enough_and_no_more)
{
    rdl_permit_semaphore_t *seats = NULL;
    rdl_permit_t seat;

    open_with_rights_of("Permit semaphore");
    expect(RDL_OK, rdl_permit_semaphore(st.client, NAME, NULL, &seats, &err));
    expect(1, rdl_permit_semaphore_try_set_permits(seats, 1, &err));
    (void)probe_int(st.probe, "PEXPIRE " NAME " 600000"); /* then the permits get it as well */
    (void)probe_int(st.probe, "DECR " NAME);
    (void)probe_int(st.probe, "ZADD {" NAME "}:timeout 1 0123456789abcdef"); /* which has expired, and returns */
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(seats, 1, 0, LEASE_MS, &seat, &err));
    expect(RDL_OK, rdl_permit_semaphore_extend(seats, &seat, 2 * LEASE_MS, &err));
    expect_between(LEASE_MS, rdl_permit_semaphore_remaining_ms(seats, &seat, &err), 2 * LEASE_MS);
    caller_call(waiter, wait_for_seat, seats);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(RDL_OK, rdl_permit_semaphore_release(seats, 1, &seat, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    expect(RDL_OK, rdl_permit_semaphore_set_permits(seats, 3, &err));
    expect(RDL_OK, rdl_permit_semaphore_add_permits(seats, 1, &err));
    expect(3, rdl_permit_semaphore_available(seats, &err));
    expect(1, rdl_permit_semaphore_acquired(seats, &err));
    rdl_permit_semaphore_free(seats);
    expect_all_rights_of("Permit semaphore");
}

static int64_t await(void *latch, rdl_err_t *why)
{
    return rdl_latch_await(latch, WAIT_MS, why);
}

/* Of one who waits at a latch, which wants none of these rights. */
Test(acl, of_the_description_is_enough_and_no_more)
{
    rdl_latch_t *latch = NULL;
    char *uri;

    st.server = server_start(NULL);
    st.probe = probe_open(st.server);
    for_each_grant(EVERYBODY, grant);
    for_each_grant("Latch", grant);
    for_each_grant(DESCRIPTION, grant);
    uri = must_format("unix://app:secret@%s", server_socket(st.server));
    st.client = client_open(uri, &(rdl_client_options_t){.version = RDL_CLIENT_OPTIONS_VERSION});
    free(uri);
    waiter = caller_new();
    expect(RDL_OK, rdl_latch(st.client, NAME, NULL, &latch, &err));
    expect(1, rdl_latch_try_set_count(latch, 1, &err));
    caller_call(waiter, await, latch);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS redlatch_client:{%s}", rdl_client_id(st.client)), SOON_MS));
    expect(0, rdl_latch_count_down(latch, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    rdl_latch_free(latch);
    st.client = rdl_client_close(st.client);
    cr_assert(WAIT_UNTIL(probe_calls(st.probe, "pexpire") == 3, SOON_MS));
    expect_all_rights_of(DESCRIPTION);
}

Test(acl, of_the_latch_is_enough_and_no_more)
{
    rdl_latch_t *latch = NULL;

    open_with_rights_of("Latch");
    expect(RDL_OK, rdl_latch(st.client, NAME, NULL, &latch, &err));
    expect(1, rdl_latch_try_set_count(latch, 2, &err));
    caller_call(waiter, await, latch);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(1, rdl_latch_count_down(latch, &err));
    expect(1, rdl_latch_count(latch, &err));
    expect(0, rdl_latch_count_down(latch, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    rdl_latch_free(latch);
    expect_all_rights_of("Latch");
}

static void look_at(const char *name, const char *type)
{
    rdl_inspection_t *seen = NULL;

    expect(RDL_OK, rdl_inspect(st.client, name, 0, &seen, &err));
    cr_assert_str_eq(seen->type, type);
    cr_assert_eq(seen->waiters, strcmp(type, "fair") == 0);
    rdl_inspection_free(seen);
}

static int count(const rdl_inspection_t *found, const rdl_list_progress_t *progress, void *arg)
{
    (void)found;
    (void)progress;
    (void)arg;
    return 0;
}

/* What is looked at, others have made. */
Test(acl, of_inspection_is_enough_and_no_more)
{
    static const char holder[] = "9f1c8a54-0000-4000-8000-0123456789ab:1";
    rdl_master_t master;

    open_with_rights_of("Inspection");
    (void)probe_int(st.probe, "HSET " NAME " mode read %s 1", holder);
    (void)probe_text(st.probe, "SET {" NAME "}:%s:rwlock_timeout:1 1 PX 60000", holder);
    look_at(NAME, "read-write");
    (void)probe_int(st.probe, "HSET " NAME "f %s 1", holder);
    (void)probe_int(st.probe, "RPUSH redisson_lock_queue:{" NAME "f} %s", holder);
    look_at(NAME "f", "fair");
    (void)probe_text(st.probe, "SET " NAME "p 2");
    (void)probe_int(st.probe, "ZADD {" NAME "p}:timeout 922337203685477 0123456789abcdef");
    look_at(NAME "p", "permit-semaphore");
    expect(3, rdl_list(st.client, NULL, count, NULL, &err));
    expect(1, rdl_list_names(st.client, &(rdl_name_t){NAME, strlen(NAME)}, 1, count, NULL, &err));
    expect(1, rdl_masters(st.client, &master, 1, &err));
    cr_assert_gt(master.keys, 0);
    cr_assert_gt(master.now_ms, 0);
    expect_all_rights_of("Inspection");
}
