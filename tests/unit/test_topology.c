/* SPDX-License-Identifier: MIT */
/* test_topology.c - which shard a server of a cluster has, from one answer to the next. */
#include "core/io/topology.h"
#include "tests/support/counting_alloc.h"

#include <criterion/criterion.h>
#include <string.h>

static struct counting_alloc counting;
static struct rdl__mem mem;
static struct rdl__topology topology;
static struct rdl__shard_numbers shards;
static unsigned most; /* shards that there can be */

static bool one_more(struct rdl__shard_numbers *p)
{
    if (p->count == most)
        return false;
    p->count++;
    return true;
}

static void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);

    rdl__mem_init(&mem, &hooks);
    rdl__topology_init(&topology, &mem);
    shards = (struct rdl__shard_numbers){.count = 1, .more = one_more};
    most = RDL__SHARDS_MAX;
}

static void tear_down(void)
{
    rdl__topology_done(&topology);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

TestSuite(topology, .init = set_up, .fini = tear_down, .timeout = 30);

#define TEXT(s) (&(struct rdl__reply){.type = RDL__REPLY_STRING, .str = (s), .len = strlen(s)})
#define NUMBER(n) (&(struct rdl__reply){.type = RDL__REPLY_INT, .integer = (n)})
#define LIST(...)                                                                                                      \
    (&(struct rdl__reply){.type = RDL__REPLY_ARRAY,                                                                    \
                          .len = sizeof((struct rdl__reply *[]){__VA_ARGS__}) / sizeof(void *),                        \
                          .elem = (struct rdl__reply *[]){__VA_ARGS__}})
#define SERVER(id, port) LIST(TEXT("h"), NUMBER(port), TEXT(id))

/* The next answer. */
static bool read_answer(const struct rdl__reply *slots)
{
    struct rdl__topology fresh;
    bool ok;

    rdl__topology_init(&fresh, &mem);
    ok = rdl__topology_read(&fresh, &topology, slots, "asked", &shards);
    if (!ok) {
        rdl__topology_done(&fresh);
        return false;
    }
    rdl__topology_done(&topology);
    topology = fresh;
    return true;
}

static void expect(const char *id, unsigned shard, bool master, int port)
{
    const struct rdl__server *p = rdl__topology_by_id(&topology, id);

    cr_assert_not_null(p, "%s", id);
    cr_assert_eq(p->shard, shard, "%s has %u", id, p->shard);
    cr_assert_eq(p->master, master, "%s", id);
    cr_assert_eq(p->at.port, port, "%s", id);
}

static unsigned invite(const char *host, int port)
{
    struct rdl__place at = {.port = port};
    struct rdl__topology fresh;
    unsigned shard;

    strcpy(at.host, host);
    rdl__topology_init(&fresh, &mem);
    cr_assert(rdl__topology_invite(&fresh, &topology, &at, &shards, &shard));
    rdl__topology_done(&topology);
    topology = fresh;
    return shard;
}

/* a and its replica ra, b and rb */
static void read_two(void)
{
    cr_assert(read_answer(LIST(LIST(NUMBER(0), NUMBER(99), SERVER("a", 1), SERVER("ra", 11)),
                               LIST(NUMBER(100), NUMBER(16383), SERVER("b", 2), SERVER("rb", 12)))));
}

Test(topology, masters_have_a_shard_each_and_replicas_that_of_their_master)
{
    read_two();
    expect("a", 0, true, 1);
    expect("ra", 0, false, 11);
    expect("b", 1, true, 2);
    expect("rb", 1, false, 12);
    cr_assert_eq(shards.count, 2);
    cr_assert_str_eq(rdl__topology_at(&topology, "h", 12)->id, "rb");
    cr_assert_null(rdl__topology_at(&topology, "h", 3));
    cr_assert_null(rdl__topology_at(&topology, "g", 12));
}

Test(topology, promoted_replica_has_the_shard_of_its_master)
{
    read_two();
    cr_assert(read_answer(LIST(LIST(NUMBER(0), NUMBER(99), SERVER("b", 2), SERVER("rb", 12)),
                               LIST(NUMBER(100), NUMBER(16383), SERVER("ra", 11), SERVER("a", 1)))));
    expect("ra", 0, true, 11);
    expect("a", 0, false, 1);
    expect("b", 1, true, 2);
    cr_assert_eq(shards.count, 2);
}

/* Unknown masters would get the shards in the order of the answer. */
Test(topology, replicas_promoted_at_once_have_the_shards_of_their_own_masters)
{
    read_two();
    cr_assert(read_answer(
        LIST(LIST(NUMBER(0), NUMBER(99), SERVER("rb", 12)), LIST(NUMBER(100), NUMBER(16383), SERVER("ra", 11)))));
    expect("ra", 0, true, 11);
    expect("rb", 1, true, 12);
    cr_assert_eq(shards.count, 2);
}

Test(topology, server_that_has_moved_keeps_its_shard)
{
    read_two();
    cr_assert(read_answer(LIST(LIST(NUMBER(0), NUMBER(16383), SERVER("b", 7)))));
    expect("b", 1, true, 7);
}

Test(topology, master_keeps_its_shard_when_its_replica_becomes_another_master)
{
    read_two();
    cr_assert(
        read_answer(LIST(LIST(NUMBER(0), NUMBER(9), SERVER("ra", 11)), LIST(NUMBER(10), NUMBER(99), SERVER("a", 1)),
                         LIST(NUMBER(100), NUMBER(16383), SERVER("b", 2)))));
    expect("a", 0, true, 1);
    expect("b", 1, true, 2);
    expect("ra", 2, true, 11);
}

Test(topology, unknown_master_gets_a_shard_that_has_no_master_any_more)
{
    read_two();
    cr_assert(read_answer(
        LIST(LIST(NUMBER(0), NUMBER(99), SERVER("c", 3)), LIST(NUMBER(100), NUMBER(16383), SERVER("b", 2)))));
    expect("c", 0, true, 3);
    expect("b", 1, true, 2);
    cr_assert_eq(shards.count, 2);
}

Test(topology, provisional_server_keeps_its_shard_when_it_becomes_a_master)
{
    read_two();
    cr_assert_eq(invite("h", 3), 2);
    cr_assert_eq(rdl__topology_at(&topology, "h", 3)->shard, 2);
    read_two();
    cr_assert_not_null(rdl__topology_at(&topology, "h", 3),
                       "a provisional server is not forgotten while it has no slots");
    cr_assert_eq(rdl__topology_at(&topology, "h", 3)->shard, 2);
    cr_assert(
        read_answer(LIST(LIST(NUMBER(0), NUMBER(98), SERVER("a", 1)), LIST(NUMBER(99), NUMBER(99), SERVER("c", 3)),
                         LIST(NUMBER(100), NUMBER(16383), SERVER("b", 2)))));
    expect("c", 2, true, 3);
    cr_assert_eq(topology.count, 3);
    cr_assert_eq(shards.count, 3);
}

/* The slots that were to be moved there stay where they are. */
Test(topology, provisional_server_that_nothing_names_for_long_is_forgotten)
{
    read_two();
    (void)invite("h", 3);
    for (int i = 0; i < RDL__PROVISIONAL_MAPS; i++)
        read_two();
    cr_assert_not_null(rdl__topology_at(&topology, "h", 3));
    read_two();
    cr_assert_null(rdl__topology_at(&topology, "h", 3));
}

Test(topology, provisional_server_that_becomes_a_replica_has_the_shard_of_its_master)
{
    read_two();
    (void)invite("h", 3);
    cr_assert(read_answer(LIST(LIST(NUMBER(0), NUMBER(99), SERVER("a", 1), SERVER("c", 3)),
                               LIST(NUMBER(100), NUMBER(16383), SERVER("b", 2)))));
    expect("c", rdl__topology_by_id(&topology, "a")->shard, false, 3);
    cr_assert_eq(topology.count, 3);
}

Test(topology, server_that_does_not_say_where_it_is_is_known_by_a_port_of_its_own)
{
    read_two();
    cr_assert_str_eq(rdl__topology_at(&topology, "", 2)->id, "b");
    cr_assert_null(rdl__topology_at(&topology, "", 3));
    (void)invite("elsewhere", 2);
    cr_assert_null(rdl__topology_at(&topology, "", 2));
}

Test(topology, empty_host_is_that_of_the_server_asked)
{
    cr_assert(read_answer(LIST(LIST(NUMBER(0), NUMBER(16383), LIST(TEXT(""), NUMBER(1), TEXT("a"))))));
    cr_assert_not_null(rdl__topology_at(&topology, "asked", 1));
}

Test(topology, master_at_an_unknown_place_keeps_its_shard_and_so_does_its_promoted_replica)
{
    struct rdl__reply *nowhere = LIST(TEXT(""), NUMBER(0), TEXT("b"));

    read_two();
    cr_assert(read_answer(LIST(LIST(NUMBER(0), NUMBER(9), SERVER("c", 3)), LIST(NUMBER(10), NUMBER(99), SERVER("a", 1)),
                               LIST(NUMBER(100), NUMBER(16383), nowhere, SERVER("rb", 12)))));
    expect("b", 1, true, 0);
    expect("rb", 1, false, 12);
    cr_assert(read_answer(
        LIST(LIST(NUMBER(0), NUMBER(99), SERVER("a", 1)), LIST(NUMBER(100), NUMBER(16383), SERVER("rb", 12)))));
    expect("rb", 1, true, 12);
}

Test(topology, what_is_no_map_or_has_no_room_changes_nothing)
{
    read_two();
    cr_assert(!read_answer(LIST(TEXT("x"))));
    cr_assert(!read_answer(TEXT("x")));
    cr_assert(!read_answer(
        LIST(LIST(NUMBER(0), NUMBER(16383), SERVER("a", 1)), LIST(NUMBER(0), NUMBER(16384), SERVER("b", 2)))));
    most = 2;
    cr_assert(
        !read_answer(LIST(LIST(NUMBER(0), NUMBER(9), SERVER("a", 1)), LIST(NUMBER(10), NUMBER(99), SERVER("b", 2)),
                          LIST(NUMBER(100), NUMBER(16383), SERVER("c", 3)))));
    counting_alloc_fail_at(&counting, 1);
    cr_assert(!read_answer(LIST(LIST(NUMBER(0), NUMBER(16383), SERVER("a", 1)))));
    expect("a", 0, true, 1);
    expect("b", 1, true, 2);
}
