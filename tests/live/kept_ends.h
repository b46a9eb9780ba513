/* SPDX-License-Identifier: MIT */
/* kept_ends.h - what tests of a read-write lock that stays with its client (option cache_ms) share. */
#ifndef TESTS_LIVE_KEPT_ENDS_H
#define TESTS_LIVE_KEPT_ENDS_H

#include "tests/live/kept.h"

#define CACHE_MS 60000
#define LEASE_MS 10000

static rdl_lock_t *reads, *writes; /* of the client that keeps it */
static rdl_client_t *other;        /* a client that does not */
static rdl_lock_t *reads_there, *writes_there;

static inline void make_kept(rdl_client_t *client)
{
    reads = read_end(client, NAME, LOCK_OPTIONS(.cache_ms = CACHE_MS));
    writes = write_end(client, NAME, LOCK_OPTIONS(.cache_ms = CACHE_MS));
}

static inline void make_ends(void)
{
    make_kept(st.client);
    other = client_open(stage_uri(&st), NULL);
    reads_there = read_end(other, NAME, NULL);
    writes_there = write_end(other, NAME, NULL);
}

static inline void free_ends(void)
{
    rdl_lock_free(reads_there);
    rdl_lock_free(writes_there);
    rdl_client_close(other);
    rdl_lock_free(reads);
    lock_over(st.probe, writes);
}

enum whose { OWNERS, KEPT }; /* holds: of owners, `U:n`; that are kept, `U:-n` */

/* How many such holds of that end the server has. */
static inline int holds(enum whose whose, const rdl_lock_t *end)
{
    const struct reply *keys = probe_ask(st.probe, "HKEYS " NAME);
    int count = 0;

    for (size_t i = 0; i < keys->count; i++)
        count += strlen(keys->items[i].text) > 37 && (keys->items[i].text[37] == '-') == (whose == KEPT) &&
                 (strstr(keys->items[i].text, ":write") == NULL) == (end == reads);
    return count;
}

/* Use the end until it stays, and is idle. */
static inline void make_idle_end(rdl_lock_t *end)
{
    for (int i = 0; i < 5000 && holds(KEPT, end) == 0; i++) {
        take(end);
        give(end);
    }
    cr_assert_eq(holds(KEPT, end), 1, "the end is never kept");
    cr_assert_eq(holds(KEPT, end == reads ? writes : reads), 0, "both are");
}

static inline struct caller *inside(rdl_lock_t *end)
{
    struct caller *caller = caller_new();

    caller_lock(caller, end, RDL_LEASE_AUTO);
    expect_result(RDL_OK, caller, SOON_MS);
    return caller;
}

static inline void leaves(struct caller *caller, rdl_lock_t *lock, int result)
{
    caller_unlock(caller, lock);
    expect_result(result, caller, SOON_MS);
}

#endif
