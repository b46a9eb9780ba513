/* SPDX-License-Identifier: MIT */
/* test_cluster.c - redirections and slot maps, as servers write them and as they should not. */
#include "core/wire/cluster.h"

#include <criterion/criterion.h>
#include <string.h>

static struct rdl__redirect read_error(const char *text)
{
    const struct rdl__reply r = {.type = RDL__REPLY_ERROR, .str = text, .len = strlen(text)};

    return rdl__redirect_of(&r);
}

static void expect_redirect(const char *text, enum rdl__detour what, unsigned slot, const char *host, int port)
{
    struct rdl__redirect r = read_error(text);

    cr_assert_eq(r.what, what, "%s", text);
    cr_assert_eq(r.slot, slot, "%s", text);
    cr_assert_str_eq(r.host, host);
    cr_assert_eq(r.port, port, "%s", text);
}

Test(cluster, redirections_name_slot_and_place)
{
    expect_redirect("MOVED 3999 127.0.0.1:6381", RDL__DETOUR_MOVED, 3999, "127.0.0.1", 6381);
    expect_redirect("ASK 0 h:1", RDL__DETOUR_ASK, 0, "h", 1);
    expect_redirect("MOVED 16383 ::1:65535", RDL__DETOUR_MOVED, 16383, "::1", 65535);
    expect_redirect("MOVED 1 :6379", RDL__DETOUR_MOVED, 1, "", 6379);
    expect_redirect("ASK 1 ?:6379", RDL__DETOUR_ASK, 1, "", 6379);
    expect_redirect("TRYAGAIN Multiple keys request during rehashing of slot", RDL__DETOUR_LATER, 0, "", 0);
    expect_redirect("CLUSTERDOWN The cluster is down", RDL__DETOUR_LATER, 0, "", 0);
    expect_redirect(
        "ERR Error running script (call to f_1): @user_script:9: @user_script: 9: Lua script attempted to execute a "
        "write command while the cluster is down and readonly",
        RDL__DETOUR_LATER, 0, "", 0);
    expect_redirect("ERR Script attempted to access a non local key in a cluster node script: f, on @user_script:41.",
                    RDL__DETOUR_LATER, 0, "", 0);
}

Test(cluster, other_errors_and_replies_are_none)
{
    const struct rdl__reply text = {.type = RDL__REPLY_STRING, .str = "MOVED 1 h:1", .len = 11};

    expect_redirect("ERR MOVED 1 h:1", RDL__DETOUR_NONE, 0, "", 0);
    expect_redirect("MOVEDNOT 1 h:1", RDL__DETOUR_NONE, 0, "", 0);
    cr_assert_eq(rdl__redirect_of(&text).what, RDL__DETOUR_NONE);
}

Test(cluster, a_redirection_that_makes_no_sense_is_one_to_be_tried_again)
{
    static const char *const odd[] = {"MOVED",           "MOVED x",    "MOVED 1",     "MOVED 1 ",
                                      "MOVED 1 h",       "MOVED 1 h:", "MOVED 1 h:0", "MOVED 1 h:65536",
                                      "MOVED 16384 h:1", "ASK 1 h:x",  "ASK -1 h:1"};

    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        expect_redirect(odd[i], RDL__DETOUR_LATER, 0, "", 0);
}

/* ---- the map ---------------------------------------------------------------------------------------------------- */

#define TEXT(s) (&(struct rdl__reply){.type = RDL__REPLY_STRING, .str = (s), .len = strlen(s)})
#define NUMBER(n) (&(struct rdl__reply){.type = RDL__REPLY_INT, .integer = (n)})
#define NIL (&(struct rdl__reply){.type = RDL__REPLY_NIL})
#define LIST(...)                                                                                                      \
    (&(struct rdl__reply){.type = RDL__REPLY_ARRAY,                                                                    \
                          .len = sizeof((struct rdl__reply *[]){__VA_ARGS__}) / sizeof(void *),                        \
                          .elem = (struct rdl__reply *[]){__VA_ARGS__}})

Test(cluster, ranges_have_a_master_and_its_replicas)
{
    const struct rdl__reply *map =
        LIST(LIST(NUMBER(0), NUMBER(99), LIST(TEXT("h"), NUMBER(1), TEXT("a"), LIST(TEXT("x"))),
                  LIST(TEXT("i"), NUMBER(2), TEXT("b"))),
             LIST(NUMBER(100), NUMBER(16383), LIST(NIL, NUMBER(3), TEXT("c"))));
    struct rdl__slot_range range;
    struct rdl__slot_node member;

    cr_assert(rdl__slot_range_at(map, 0, &range));
    cr_assert(range.first == 0 && range.last == 99 && range.master.port == 1);
    cr_assert_str_eq(range.master.host, "h");
    cr_assert_str_eq(range.master.id, "a");
    cr_assert(rdl__slot_range_replica(&range, 0, &member));
    cr_assert_str_eq(member.id, "b");
    cr_assert(!rdl__slot_range_replica(&range, 1, &member));
    cr_assert(rdl__slot_range_at(map, 1, &range));
    cr_assert(range.first == 100 && range.last == 16383);
    cr_assert_str_eq(range.master.host, "", "of the server that was asked");
    cr_assert(!rdl__slot_range_at(map, 2, &range));
}

Test(cluster, master_whose_place_nobody_knows_has_its_slots_all_the_same)
{
    struct rdl__slot_range range;

    cr_assert(rdl__slot_range_at(LIST(LIST(NUMBER(1), NUMBER(2), LIST(TEXT(""), NUMBER(0), TEXT("a")))), 0, &range));
    cr_assert_eq(range.master.port, 0);
    cr_assert_str_eq(range.master.id, "a");
}

/* What is told beside is a map, and a list in RESP2. */
Test(cluster, member_without_the_name_it_should_have_is_at_its_address)
{
    const struct rdl__reply *beside[] = {LIST(TEXT("ip"), TEXT("10.0.0.1")),
                                         LIST(TEXT("x"), TEXT("ip"), TEXT("ip"), NIL), LIST(TEXT("ip")), TEXT("ip"),
                                         NIL};
    static const char *const host[] = {"10.0.0.1", "", "", "", ""};
    struct rdl__slot_range range;

    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        struct rdl__reply *member = LIST(TEXT("?"), NUMBER(1), TEXT("a"), (struct rdl__reply *)beside[i]);

        cr_assert(rdl__slot_range_at(LIST(LIST(NUMBER(1), NUMBER(2), member)), 0, &range), "%zu", i);
        cr_assert_str_eq(range.master.host, host[i], "%zu", i);
    }
    cr_assert(rdl__slot_range_at(
        LIST(LIST(NUMBER(1), NUMBER(2), LIST(NIL, NUMBER(1), TEXT("a"), LIST(TEXT("ip"), TEXT("10.0.0.1"))))), 0,
        &range));
    cr_assert_str_eq(range.master.host, "", "it is behind whatever was asked");
}

Test(cluster, ranges_that_make_no_sense_are_none)
{
    struct rdl__slot_range range;
    struct rdl__reply *good = LIST(TEXT("h"), NUMBER(1), TEXT("a"));

    cr_assert(rdl__slot_range_at(LIST(LIST(NUMBER(1), NUMBER(2), good)), 0, &range));
    cr_assert(!rdl__slot_range_at(LIST(LIST(NUMBER(2), NUMBER(1), good)), 0, &range));
    cr_assert(!rdl__slot_range_at(LIST(LIST(NUMBER(-1), NUMBER(1), good)), 0, &range));
    cr_assert(!rdl__slot_range_at(LIST(LIST(NUMBER(1), NUMBER(16384), good)), 0, &range));
    cr_assert(!rdl__slot_range_at(LIST(LIST(NUMBER(1), NUMBER(2))), 0, &range));
    cr_assert(!rdl__slot_range_at(LIST(LIST(NUMBER(1), NUMBER(2), LIST(TEXT("h"), NUMBER(-1), TEXT("a")))), 0, &range));
    cr_assert(
        !rdl__slot_range_at(LIST(LIST(NUMBER(1), NUMBER(2), LIST(TEXT("h"), NUMBER(65536), TEXT("a")))), 0, &range));
    cr_assert(!rdl__slot_range_at(LIST(LIST(NUMBER(1), NUMBER(2), LIST(TEXT("h"), NUMBER(1)))), 0, &range));
    cr_assert(!rdl__slot_range_at(LIST(TEXT("x")), 0, &range));
    cr_assert(!rdl__slot_range_at(NIL, 0, &range));
}
