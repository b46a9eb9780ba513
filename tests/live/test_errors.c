/* SPDX-License-Identifier: MIT */
/* test_errors.c - X2: what the server refuses reaches the caller in the server's own words, changes nothing at the
 * server, and leaves the handle as usable as before. T9: errors name the lock and the server. */
#include "tests/live/live.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "denied"
#define LEASE_MS 20000

LIVE_SUITE(errors, 60);

static void expect_refused(int64_t rc, const char *word, const char *name)
{
    cr_assert_eq(rc, RDL_ESERVER, "%s: %s", code_name(rc), err.message);
    cr_assert_not_null(strstr(err.message, word), "'%s' does not say '%s'", err.message, word);
    expect_err_names(&err, RDL_ESERVER, name);
    cr_assert_str_eq(err.server + strlen("unix:"), stage_place(&st));
}

/* Every type is refused with that word, and works when the reason is gone. A red lock says what its majority came to.
 */
static void expect_acquire_refused(const char *word, void (*cause)(void), void (*mend)(void))
{
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock;
        struct outcome o = {0};

        if (kind->votes)
            continue;
        lock = kind->make(st.client, NAME, NULL);
        cause();
        expect_refused(rdl_try_lock(lock, 0, LEASE_MS, &err), word, rdl_lock_name(lock, NULL));
        expect_refused(rdl_try_lock(lock, 500, LEASE_MS, &err), word, rdl_lock_name(lock, NULL));
        expect(RDL_OK, rdl_try_lock_async(lock, NULL, 0, LEASE_MS, outcome_note, &o, NULL, &err));
        expect(RDL_ESERVER, outcome_wait(&o, SOON_MS));
        cr_assert_not_null(strstr(o.err.message, word), "%s", o.err.message);
        expect(0, rdl_is_held(lock, &err));
        mend();
        cr_assert_eq(lock_keys(st.probe, NAME), 0, "%s", kind->type);
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        lock_over(st.probe, lock);
    }
}

static void fill_memory(void)
{
    (void)probe_text(st.probe, "CONFIG SET maxmemory 1");
}

static void free_memory(void)
{
    (void)probe_text(st.probe, "CONFIG SET maxmemory 0");
}

Test(errors, out_of_memory)
{
    stage_open(&st);
    expect_acquire_refused("OOM", fill_memory, free_memory);
}

/* A full server must not keep what is held from being given back. */
Test(errors, out_of_memory_does_not_stop_a_release)
{
    stage_open(&st);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        fill_memory();
        expect(RDL_OK, rdl_unlock(lock, &err));
        free_memory();
        lock_over(st.probe, lock);
    }
}

/* Nor from being renewed. */
Test(errors, out_of_memory_does_not_stop_renewals)
{
    enum { WATCHED_MS = 3000 };
    rdl_lock_t **lock = must_alloc(kind_count * sizeof *lock);

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    for (size_t i = 0; i < kind_count; i++) {
        char *name = must_format("%s:%s", NAME, kinds[i].type);

        lock[i] = kinds[i].make(st.client, name, NULL);
        expect(RDL_OK, rdl_try_lock(lock[i], 0, RDL_LEASE_AUTO, &err));
        free(name);
    }
    fill_memory();
    let_pass_ms(WATCHED_MS * 6 / 5);
    for (size_t i = 0; i < kind_count; i++)
        cr_expect_eq(rdl_is_held(lock[i], &err), 1, "%s: %s", kinds[i].type, err.message);
    free_memory();
    for (size_t i = 0; i < kind_count; i++) {
        expect(RDL_OK, rdl_unlock(lock[i], &err));
        lock_over(st.probe, lock[i]);
    }
    free(lock);
}

static void become_replica(void)
{
    (void)probe_text(st.probe, "REPLICAOF 127.0.0.1 1");
}

static void become_master(void)
{
    (void)probe_text(st.probe, "REPLICAOF NO ONE");
}

Test(errors, read_only_replica)
{
    stage_open(&st);
    expect_acquire_refused("READONLY", become_replica, become_master);
}

static void forbid(void)
{
    stage_limit(&st, "-evalsha -eval -set");
}

static void allow(void)
{
    stage_limit(&st, "+evalsha +eval +set");
}

Test(errors, no_permission)
{
    stage_open(&st);
    expect_acquire_refused("NOPERM", forbid, allow);
}

static void forbid_key(void)
{
    stage_limit(&st, "resetkeys ~other");
}

static void allow_key(void)
{
    stage_limit(&st, "allkeys");
}

Test(errors, no_permission_for_the_key)
{
    stage_open(&st);
    expect_acquire_refused("NOPERM", forbid_key, allow_key);
}

/* What cannot be had from a real server at will is said by the proxy. */
static int faked;

static void loading(void)
{
    faked = proxy_on(st.proxy, .action = PROXY_ANSWER, .contains = NAME, .every = true,
                     .answer = "-LOADING Redis is loading the dataset in memory\r\n");
}

static void misconf(void)
{
    faked = proxy_on(st.proxy, .action = PROXY_ANSWER, .contains = NAME, .every = true,
                     .answer = "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to\r\n");
}

static void true_again(void)
{
    proxy_let_go(st.proxy, faked);
}

Test(errors, loading)
{
    stage_open(&st, .proxied = true);
    expect_acquire_refused("LOADING", loading, true_again);
}

Test(errors, misconfigured_persistence)
{
    stage_open(&st, .proxied = true);
    expect_acquire_refused("MISCONF", misconf, true_again);
}

/* A server whose snapshot failed refuses writes; this one is real. */
Test(errors, failed_snapshot)
{
    rdl_lock_t *lock;
    char *path;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    path = must_format("%s/dump.rdb", server_dir(st.server));
    cr_assert_eq(mkdir(path, 0700), 0); /* where the file should go */
    (void)probe_text(st.probe, "CONFIG SET save '3600 1000000'");
    (void)probe_text(st.probe, "BGSAVE");
    cr_assert(
        WAIT_UNTIL(strstr(probe_text(st.probe, "INFO persistence"), "rdb_last_bgsave_status:err") != NULL, SOON_MS));
    expect_refused(rdl_try_lock(lock, 0, LEASE_MS, &err), "MISCONF", NAME);
    (void)probe_text(st.probe, "CONFIG SET save ''");
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    free(path);
    rdl_lock_free(lock);
}

Test(errors, busy_with_a_foreign_script)
{
    struct probe *busy;
    rdl_lock_t *lock;

    stage_open(&st, .server = {.config = "lua-time-limit 20"});
    busy = probe_open(st.server);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err)); /* the connection is up before the server is busy */
    expect(RDL_OK, rdl_unlock(lock, &err));
    probe_send(busy, "EVAL 'while true do end' 0");
    cr_assert(WAIT_UNTIL(probe_ask(st.probe, "GET x")->kind == REPLY_ERROR, SOON_MS));
    expect_refused(rdl_try_lock(lock, 0, LEASE_MS, &err), "BUSY", NAME);
    (void)probe_text(st.probe, "SCRIPT KILL");
    cr_assert_not_null(probe_next(busy, SOON_MS));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    probe_close(busy);
    rdl_lock_free(lock);
}

/* A plain string under a reentrant lock's name, a list under a simple lock's: refused, and left as it is. */
Test(errors, value_of_another_type)
{
    rdl_lock_t *lock, *other;

    stage_open(&st);
    lock = reentrant(st.client, "a-string", NULL);
    other = simple(st.client, "a-list", NULL);
    (void)probe_text(st.probe, "SET a-string 1");
    (void)probe_int(st.probe, "RPUSH a-list 1");
    expect_refused(rdl_try_lock(lock, 0, LEASE_MS, &err), "WRONGTYPE", "a-string");
    expect_refused(rdl_try_lock(other, 100, LEASE_MS, &err), "WRONGTYPE", "a-list");
    cr_assert_eq(probe_int(st.probe, "GET a-string"), 1);
    cr_assert_eq(probe_int(st.probe, "LLEN a-list"), 1);
    (void)probe_int(st.probe, "DEL a-string a-list");
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

/* The hold is gone when its key became something else; its neighbours are renewed all the same. */
Test(errors, held_key_that_became_another_type_is_a_loss_of_its_own)
{
    struct losses losses;
    rdl_lock_t *locks[5];

    losses_init(&losses);
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 4500));
    for (int i = 0; i < 5; i++) {
        char *name = must_format("neighbour%d", i);

        locks[i] = reentrant(st.client, name, NULL);
        expect(RDL_OK, rdl_on_lost(locks[i], losses_note, &losses, &err));
        expect(RDL_OK, rdl_try_lock(locks[i], 0, RDL_LEASE_AUTO, &err));
        free(name);
    }
    (void)probe_text(st.probe, "SET neighbour2 x");
    let_pass_ms(4000);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 1);
    cr_assert_eq(losses_get(&losses, RDL_LOST)->lock, locks[2]);
    for (int i = 0; i < 5; i++) {
        int rc = rdl_unlock(locks[i], &err);

        if (i == 2)
            cr_assert(rc == RDL_ELOST, "%s", code_name(rc));
        else
            cr_assert_eq(rc, RDL_OK, "%s: %s", code_name(rc), err.message);
        rdl_lock_free(locks[i]);
    }
    cr_assert_str_eq(probe_text(st.probe, "GET neighbour2"), "x");
    (void)probe_int(st.probe, "DEL neighbour2");
}

/* An error in the middle of a hold is not a loss: the server refuses to renew for a while, then does. */
Test(errors, refused_renewals_put_a_hold_at_risk_only)
{
    struct losses losses;
    rdl_lock_t *lock;

    losses_init(&losses);
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 4500));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    stage_limit(&st, "-evalsha -eval");
    cr_assert(losses_wait(&losses, RDL_AT_RISK, 1, SOON_MS));
    stage_limit(&st, "+evalsha +eval +set");
    cr_assert(WAIT_UNTIL(rdl_hold_state(lock, &err) == RDL_HELD, SOON_MS));
    let_pass_ms(1000);
    expect(1, rdl_is_held(lock, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* A release that the server refuses: the hold is over for the caller, and says why. */
Test(errors, refused_release_says_so_and_is_over)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    forbid();
    expect_refused(rdl_unlock(lock, &err), "NOPERM", NAME);
    expect(0, rdl_is_held(lock, &err));
    allow();
    (void)probe_int(st.probe, "DEL " NAME);
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* ---- a release that is refused, of a hold that lives for much longer at the server than it did at first --------- */

#define BRIEF_MS 1200
#define RELEASE "{" NAME "}" /* its channel: no other command names it */

static void refuse_writes(void)
{
    (void)probe_text(st.probe, "CONFIG SET min-replicas-to-write 1");
}

static void expect_gone(void)
{
    cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, 2 * SOON_MS), "nobody holds it, and its key stays");
}

/* Undos go at once and 0.1, 0.3, 1, 3 s after one another: with the fourth, which is refused as well, a brief lease is
 * over. */
#define BRIEF_UNDOS 4

static void expect_refused_release_is_repeated(rdl_lock_t *lock)
{
    struct monitor *m = monitor_start(st.server);

    refuse_writes();
    expect_refused(rdl_unlock(lock, &err), "NOREPLICAS", NAME);
    cr_assert(monitor_wait(m, 0, RELEASE, 1 + BRIEF_UNDOS, SOON_MS));
    cr_assert_neq(lock_keys(st.probe, NAME), 0);
    (void)probe_text(st.probe, "CONFIG SET min-replicas-to-write 0");
    expect_gone();
    monitor_stop(m);
    rdl_lock_free(lock);
}

Test(errors, refused_release_of_an_extended_hold_is_repeated_as_long_as_that_may_last)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, BRIEF_MS, &err));
    expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
    expect_refused_release_is_repeated(lock);
}

Test(errors, refused_release_of_a_hold_that_a_nested_one_prolonged_is_repeated_as_long_as_that_may_last)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, BRIEF_MS, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_refused_release_is_repeated(lock);
}

/* It is believed in for less than its lease. */
Test(errors, refused_release_of_a_read_hold_is_repeated_as_long_as_that_may_last)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = read_end(st.client, NAME, LOCK_OPTIONS(.peer_watchdog_ms = BRIEF_MS));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect_refused_release_is_repeated(lock);
}

/* Nobody heard what became of the extend. */
Test(errors, refused_release_is_repeated_as_long_as_an_extend_may_have_made_it_last)
{
    rdl_lock_t *lock;
    int late;

    stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = BRIEF_MS, .command_timeout_ms = 1500));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    late = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = "20000");
    expect(RDL_EUNKNOWN, rdl_extend(lock, LEASE_MS, &err));
    cr_assert_eq(proxy_acted(st.proxy, late), 1);
    proxy_let_go(st.proxy, late);
    expect_refused_release_is_repeated(lock);
}

/* Lost, because it could not be confirmed, and still there. */
Test(errors, read_hold_that_is_lost_is_given_back_as_long_as_it_may_last)
{
    struct losses losses;
    rdl_lock_t *lock;
    int given_back;

    losses_init(&losses);
    stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = BRIEF_MS));
    lock = read_end(st.client, NAME, LOCK_OPTIONS(.peer_watchdog_ms = BRIEF_MS));
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    given_back =
        proxy_on(st.proxy, .action = PROXY_ANSWER, .contains = RELEASE, .every = true, .answer = "-MISCONF no\r\n");
    misconf();
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    cr_assert(proxy_wait(st.proxy, given_back, BRIEF_UNDOS, SOON_MS));
    cr_assert_neq(lock_keys(st.probe, NAME), 0);
    true_again();
    proxy_let_go(st.proxy, given_back);
    expect_gone();
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* T9: long and strange names are cut and escaped, and the message is one line. */
Test(errors, errors_name_the_lock_and_the_server_in_one_printable_line)
{
    static const char odd[] = "odd\r\nname\x01\xff";
    rdl_lock_t *lock;

    stage_open(&st, .server = {.tcp = true});
    lock = reentrant(st.client, odd, NULL);
    expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
    cr_assert_str_eq(err.lock, "odd\\x0d\\x0aname\\x01\\xff");
    for (const char *at = err.message; *at != '\0'; at++)
        cr_assert(*at >= ' ' && *at <= '~', "%s", err.message);
    become_replica();
    expect(RDL_ESERVER, rdl_try_lock(lock, 0, LEASE_MS, &err));
    become_master();
    cr_assert_str_eq(err.server, stage_place(&st));
    rdl_lock_free(lock);
}

/* ---- names of other types --------------------------------------------------------------------------------------- */

static bool has_ends(const struct kind *kind)
{
    return kind->constructor == rdl_read_lock || kind->constructor == rdl_write_lock;
}

static void expect_of_another_type(rdl_lock_t *lock)
{
    static const char words[] = "the name is held as a lock of another type";

    expect_refused(rdl_try_lock(lock, 0, LEASE_MS, &err), words, NAME);
    expect_refused(rdl_try_lock(lock, 2000, LEASE_MS, &err), words, NAME);
    cr_assert_leq(rdl_force_unlock(lock, &err), 0); /* of one end while only the other could be meant: nobody has it */
}

/* The reply to the next request is late: `call` does not know, and says what becomes of what it has sent. */
#define expect_unanswered(call, says)                                                                                  \
    do {                                                                                                               \
        int late = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .contains = NAME);                    \
                                                                                                                       \
        expect(RDL_EUNKNOWN, call);                                                                                    \
        cr_expect_not_null(strstr(err.message, says), "%s", err.message);                                              \
        proxy_let_go(st.proxy, late);                                                                                  \
    } while (0)

Test(errors, no_answer_says_what_becomes_of_the_request)
{
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true, .client = OPTIONS(.command_timeout_ms = 1000));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect_unanswered(rdl_extend(lock, 2 * LEASE_MS, &err), "it was done or not");
    expect_unanswered(rdl_is_locked(lock, &err), "did not answer in time");
    cr_expect_null(strstr(err.message, "undone"), "a question: %s", err.message);
    expect_unanswered(rdl_unlock(lock, &err), "it goes on in the background");
    expect_unanswered(rdl_force_unlock(lock, &err), "it was done or not");
    expect_unanswered(rdl_try_lock(lock, 0, LEASE_MS, &err), "is being undone");
    lock_over(st.probe, lock);
}

/* A hash is a lock of some type: a read-write lock's has a mode, and one with another mode is nobody's. */
Test(errors, N12_name_that_is_held_as_a_lock_of_another_type)
{
    static const char *const with_mode[] = {
        "HSET " NAME " mode read 11111111-1111-1111-1111-111111111111:5 1",
        "HSET " NAME " mode write 11111111-1111-1111-1111-111111111111:5:write 1",
    };
    static const char *const without[] = {
        "HSET " NAME " 11111111-1111-1111-1111-111111111111:5 1",
        "HSET " NAME " mode exclusive 11111111-1111-1111-1111-111111111111:5 1",
        "HSET " NAME " mode '' owner me",
    };

    stage_open(&st);
    FOR_EACH_SINGLE_KIND(kind)
    {
        const char *const *as = has_ends(kind) ? without : with_mode;
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);

        for (size_t i = 0; strcmp(kind->type, "simple") != 0 && i < (has_ends(kind) ? 3 : 2); i++) {
            cr_assert_geq(probe_int(st.probe, "%s", as[i]), 2 - has_ends(kind));
            expect_of_another_type(lock);
            cr_expect_eq(probe_int(st.probe, "DEL " NAME), 1, "%s on %s", kind->type, as[i]);
        }
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        lock_over(st.probe, lock);
    }
}

/* What Java leaves is a lock that is taken: also by a transaction, and by numbers of any sign. */
Test(errors, N12_fields_of_peers_are_holds)
{
    static const char *const fields[] = {"11111111-1111-1111-1111-111111111111:-9223372036854775808",
                                         "11111111-1111-1111-1111-111111111111:7:0123456789abcdef0123456789abcdef",
                                         "U:word"};

    stage_open(&st);
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);

        for (size_t i = 0; i < 3; i++) {
            (void)probe_int(st.probe, has_ends(kind) ? "HSET " NAME " mode write %s:write 1" : "HSET " NAME " %s 1",
                            fields[i]);
            (void)probe_int(st.probe, "PEXPIRE " NAME " 30000");
            expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LEASE_MS, &err));
            (void)probe_int(st.probe, "DEL " NAME);
        }
        lock_over(st.probe, lock);
    }
}
