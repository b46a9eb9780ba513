/* SPDX-License-Identifier: MIT */
/* test_list.c - which locks there are: found among other keys, once each, by commands that hold up nobody. */
#include "tests/live/live.h"
#include "tests/support/scripted.h"
#include "tests/support/sentinels.h"

#include <stdio.h>

#define LEASE_MS 60000
#define FIELD "9f1c8a54-0000-4000-8000-0123456789ab:1"
#define MANY 100000
#define MANY_LOCKS 10000

LIVE_SUITE(list, 120);

struct found {
    int64_t locks, steps;
    char names[16][32];
    char types[16][24];
    int64_t stop_after; /* 0: never */
};

static int note(const rdl_inspection_t *lock, const rdl_list_progress_t *progress, void *arg)
{
    struct found *found = arg;

    if (lock == NULL) {
        found->steps++;
        return progress->keys > progress->keys_total;
    }
    if (found->locks < 16) {
        (void)snprintf(found->names[found->locks], sizeof found->names[0], "%s", lock->name);
        (void)snprintf(found->types[found->locks], sizeof found->types[0], "%s", lock->type);
    }
    found->locks++;
    cr_assert_eq(progress->locks, found->locks);
    return found->locks == found->stop_after;
}

static const char *type_of(const struct found *found, const char *name)
{
    const char *type = NULL;

    for (int i = 0; i < 16; i++)
        if (strcmp(found->names[i], name) == 0) {
            cr_assert_null(type, "%s is listed twice", name);
            type = found->types[i];
        }
    return type != NULL ? type : "nothing";
}

static void expect_listed(const struct found *found, const char *name, const char *type)
{
    cr_assert_str_eq(type_of(found, name), type, "%s is listed as %s", name, type_of(found, name));
}

static struct found list(rdl_client_t *client, const char *pattern, int64_t count)
{
    struct found found = {.locks = 0};

    expect(count, rdl_list(client, pattern, note, &found, &err));
    cr_assert_eq(found.locks, count);
    return found;
}

Test(list, finds_each_type_once_and_nothing_that_stands_beside)
{
    rdl_permit_semaphore_t *permits = NULL;
    rdl_semaphore_t *semaphore = NULL;
    struct caller *waiter = caller_new();
    rdl_lock_t *lock[5], *queued;
    rdl_client_t *other;
    struct found found;
    rdl_permit_t permit;

    stage_open(&st);
    left_behind = true; /* counters and guards */
    (void)list(st.client, NULL, 0);
    other = client_open(stage_uri(&st), NULL);
    lock[0] = reentrant(st.client, "a:reentrant", NULL);
    lock[1] = fenced(st.client, "a:fenced", NULL);
    lock[2] = simple(st.client, "a:simple", NULL);
    lock[3] = read_end(st.client, "b:read", NULL);
    lock[4] = fair(st.client, "b:fair", NULL);
    for (int i = 0; i < 5; i++)
        expect(RDL_OK, rdl_try_lock(lock[i], 0, LEASE_MS, &err));
    queued = fair(other, "b:fair", NULL);
    caller_lock(waiter, queued, LEASE_MS);
    cr_assert(WAIT_UNTIL(rdl_waiters(lock[4], NULL, 0, NULL, &err) == 1, SOON_MS));
    expect(RDL_OK, rdl_permit_semaphore(st.client, "c:permits", NULL, &permits, &err));
    expect(1, rdl_permit_semaphore_try_set_permits(permits, 2, &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(permits, 1, 0, LEASE_MS, &permit, &err));
    expect(RDL_OK, rdl_semaphore(st.client, "{c}:semaphore", NULL, &semaphore, &err));
    expect(1, rdl_semaphore_try_set_permits(semaphore, 2, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(semaphore, 1, 0, &err));
    cr_assert_eq(probe_int(st.probe, "HSET d:java " FIELD " 1"), 1);
    cr_assert_eq(probe_int(st.probe, "HSET e:profile name ann"), 1);
    cr_assert_str_eq(probe_text(st.probe, "SET e:page hello"), "OK");
    cr_assert_eq(probe_int(st.probe, "INCR e:visits"), 1);
    cr_assert_eq(probe_int(st.probe, "RPUSH e:list 1"), 1);
    found = list(st.client, NULL, 8);
    expect_listed(&found, "a:reentrant", "lock");
    expect_listed(&found, "a:fenced", "fenced");
    expect_listed(&found, "a:simple", "simple");
    expect_listed(&found, "b:read", "read-write");
    expect_listed(&found, "b:fair", "fair");
    expect_listed(&found, "c:permits", "permit-semaphore");
    expect_listed(&found, "{c}:semaphore", "counter");
    expect_listed(&found, "d:java", "lock");
    cr_assert_gt(found.steps, 0);
    found = list(st.client, "[ab]:f*", 2);
    expect_listed(&found, "a:fenced", "fenced");
    expect_listed(&found, "b:fair", "fair");
    found = (struct found){.stop_after = 3};
    expect(3, rdl_list(st.client, "*", note, &found, &err));
    expect(RDL_OK, rdl_unlock(lock[4], &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_unlock(waiter, queued);
    expect_result(RDL_OK, waiter, SOON_MS);
    for (int i = 0; i < 4; i++)
        expect(RDL_OK, rdl_unlock(lock[i], &err));
    for (int i = 0; i < 5; i++)
        rdl_lock_free(lock[i]);
    caller_free(waiter);
    rdl_lock_free(queued);
    rdl_semaphore_free(semaphore);
    rdl_permit_semaphore_free(permits);
    rdl_client_close(other);
}

Test(list, finds_the_locks_among_many_keys_without_long_commands)
{
    static const char fill[] =
        "for i = 1, ARGV[1] do if i % (ARGV[1] / ARGV[2]) == 0 then redis.call('hset', 'job:' .. i, ARGV[3], 1) "
        "else redis.call('set', 'cache:' .. i, 'x') end end return 1";
    const char *const words[] = {"EVAL", fill, "0", "100000", "10000", FIELD};
    const size_t lens[] = {4, sizeof fill - 1, 1, 6, 5, sizeof FIELD - 1};
    int64_t scans;

    stage_open(&st);
    left_behind = true;
    cr_assert_eq(probe_ask_argv(st.probe, 6, words, lens)->integer, 1);
    (void)list(st.client, "job:*", MANY_LOCKS);
    scans = probe_calls(st.probe, "scan");
    expect_between(2 * MANY / 200, scans, 2 * MANY / 50); /* each goes through some hundred keys */
    cr_assert_eq(probe_calls(st.probe, "keys"), 0);
}

Test(list, leaves_out_what_the_user_may_not_read_and_says_what_is_not_allowed)
{
    rdl_client_t *limited;
    struct found found = {.locks = 0};
    char *uri;

    stage_open(&st);
    left_behind = true;
    cr_assert_eq(probe_int(st.probe, "HSET a:1 " FIELD " 1"), 1);
    cr_assert_eq(probe_int(st.probe, "HSET b:1 " FIELD " 1"), 1);
    (void)probe_text(st.probe, "ACL SETUSER partly reset resetchannels on >secret ~a:* ~*{a:*}* &* +@all");
    uri = must_format("unix://partly:secret@%s?db=0", server_socket(st.server));
    limited = client_open(uri, NULL);
    found = list(limited, NULL, 1);
    expect_listed(&found, "a:1", "lock");
    (void)probe_text(st.probe, "ACL SETUSER partly -scan");
    expect(RDL_ESERVER, rdl_list(limited, NULL, note, &found, &err));
    cr_assert_not_null(strstr(err.message, "docs/acl.md, Inspection"), "%s", err.message);
    expect(RDL_EINVAL, rdl_list(limited, NULL, NULL, NULL, &err));
    rdl_client_close(limited);
    free(uri);
}

static void answer_ok(void *arg, const char *request, size_t len, struct bytes *to)
{
    (void)arg;
    (void)request;
    (void)len;
    scripted_say(to, "+OK\r\n");
}

Test(list, an_answer_that_is_none_is_an_error_and_not_an_empty_list)
{
    struct scripted *odd = scripted_start(answer_ok, NULL);
    char *uri = must_format("redis://127.0.0.1:%d", scripted_port(odd));
    rdl_client_t *client = client_open(uri, NULL);
    struct found found = {.locks = 0};

    expect(RDL_ESERVER, rdl_list(client, NULL, note, &found, &err));
    cr_assert_not_null(strstr(err.message, "an answer that is none"), "%s", err.message);
    rdl_client_close(client);
    free(uri);
    scripted_stop(odd);
}

Test(list, a_server_that_lacks_a_command_is_not_one_without_locks)
{
    static const char *const lacks[] = {"HRANDFIELD", "GETRANGE"};

    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        char *config = must_format("rename-command %s \"\"", lacks[i]);
        struct found found = {.locks = 0};

        stage_open(&st, .server = {.config = config});
        left_behind = true;
        cr_assert_eq(probe_int(st.probe, "HSET a:1 " FIELD " 1"), 1);
        (void)probe_text(st.probe, "SET b:1 " FIELD);
        expect(RDL_ESERVER, rdl_list(st.client, NULL, note, &found, &err));
        cr_assert_not_null(strstr(err.message, "unknown command"), "%s", err.message);
        if (i == 0)
            stage_close(&st);
        free(config);
    }
}

Test(list, known_names_are_told_of_whatever_they_are_by_now_and_no_key_is_gone_through)
{
    static const rdl_name_t names[] = {{"a:1", 3}, {"gone", 4}, {"list", 4}, {"b\0c", 3}, {"a:1", 3}};
    struct found found = {.locks = 0};

    stage_open(&st);
    left_behind = true;
    cr_assert_eq(probe_int(st.probe, "HSET a:1 " FIELD " 1"), 1);
    cr_assert_eq(probe_int(st.probe, "RPUSH list 1"), 1);
    expect(4, rdl_list_names(st.client, names, 5, note, &found, &err));
    cr_assert_str_eq(found.types[0], "lock");
    cr_assert_str_eq(found.types[1], "none");
    cr_assert_str_eq(found.types[2], "none");
    cr_assert_str_eq(found.types[3], "lock");
    cr_assert_eq(found.steps, 0);
    cr_assert_eq(probe_calls(st.probe, "scan"), 0);
    expect(0, rdl_list_names(st.client, NULL, 0, note, &found, &err));
    expect(RDL_EINVAL, rdl_list_names(st.client, NULL, 1, note, &found, &err));
    expect(RDL_EINVAL, rdl_list_names(st.client, &(rdl_name_t){"", 0}, 1, note, &found, &err));
    expect(RDL_EINVAL, rdl_list_names(st.client, names, 1, NULL, NULL, &err));
}

Test(list, the_master_is_told_with_its_keys_clock_and_round_trip)
{
    rdl_master_t master[2];
    rdl_client_t *limited;
    char *uri;

    stage_open(&st);
    left_behind = true;
    cr_assert_eq(probe_int(st.probe, "HSET a:1 " FIELD " 1"), 1);
    expect(1, rdl_masters(st.client, master, 2, &err));
    cr_assert_eq(master[0].rc, RDL_OK);
    cr_assert_eq(master[0].keys, 1);
    cr_assert_geq(master[0].round_trip_us, 0);
    cr_assert_geq(master[0].now_ms, (int64_t)1600000000000);
    cr_assert_not_null(strstr(master[0].server, server_socket(st.server)));
    expect(1, rdl_masters(st.client, NULL, 0, &err));
    expect(RDL_EINVAL, rdl_masters(st.client, NULL, 1, &err));
    (void)probe_text(st.probe, "ACL SETUSER partly reset resetchannels on >secret ~* &* +@all -dbsize");
    uri = must_format("unix://partly:secret@%s?db=0", server_socket(st.server));
    limited = client_open(uri, NULL);
    expect(1, rdl_masters(limited, master, 1, &err));
    cr_assert_eq(master[0].keys, -1);
    rdl_client_close(limited);
    free(uri);
    server_pause(st.server);
    cr_assert_lt(rdl_masters(st.client, master, 1, &err), 0); /* in the time of a command */
    server_resume(st.server);
}

Test(list, finds_what_the_master_has_that_sentinels_name)
{
    struct sentinels *fleet = sentinels_start(NULL);
    rdl_client_t *client = client_open(fleet->uri, NULL);
    rdl_lock_t *lock = reentrant(client, "a:lock", NULL);
    rdl_holder_t holder;
    struct found found;

    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    found = list(client, NULL, 1);
    expect_listed(&found, "a:lock", "lock");
    expect(1, rdl_holders(lock, &holder, 1, &err));
    cr_assert_str_eq(holder.client, rdl_client_id(client));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_client_close(client);
    sentinels_stop(fleet);
}
