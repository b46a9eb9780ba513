/* SPDX-License-Identifier: MIT */
/* test_cluster_support.c - the harness' clusters do what their tests believe them to do. */
#include "tests/support/cluster.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOON_MS 5000

static struct cluster *c;

static void fini(void)
{
    cluster_stop(c);
}

TestSuite(cluster_support, .fini = fini, .timeout = 60);

/* What a node says to a command that it answers by words, an error too; valid until the next. */
static const char *said(int node, const char *command)
{
    static char text[200];
    struct probe *p = probe_open(c->node[node]);
    const struct reply *r = probe_ask(p, "%s", command);

    (void)snprintf(text, sizeof text, "%s", r->text != NULL ? r->text : "no words");
    probe_close(p);
    return text;
}

Test(cluster_support, slots_are_computed_as_the_servers_do)
{
    static const char *const keys[] = {"orders", "a{b}c", "{}x", "a{b", "a}b{c}d", "{a}{b}", "\xff\xfe"};
    struct probe *p;

    c = cluster_start(NULL);
    p = probe_open(c->node[0]);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_expect_eq(probe_int(p, "CLUSTER KEYSLOT %s", keys[i]), cluster_slot(keys[i]), "%s", keys[i]);
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        struct slot_name name = cluster_name(cluster_first_slot(i), 1);

        cr_expect_eq(cluster_slot(name.text), cluster_first_slot(i));
        cr_expect_eq(cluster_master(c, cluster_first_slot(i)), i);
        cr_expect_eq(cluster_master(c, cluster_first_slot(i + 1) - 1), i);
    }
    probe_close(p);
}

static unsigned epoch_of(int node)
{
    struct probe *p = probe_open(c->node[node]);
    const char *own = strstr(probe_text(p, "CLUSTER INFO"), "cluster_my_epoch:");
    unsigned epoch = own == NULL ? 0 : (unsigned)strtoul(own + strlen("cluster_my_epoch:"), NULL, 10);

    probe_close(p);
    return epoch;
}

/* Of two that have one epoch a voter refuses the replica of either, until they have agreed on others. */
Test(cluster_support, masters_have_taken_over_with_an_epoch_each)
{
    c = cluster_start(&(struct cluster_options){.patient = true});
    for (int i = 0; i < CLUSTER_MASTERS; i++)
        cr_expect_eq(epoch_of(i), 10 * (unsigned)(i + 1) + 1, "node %d: %u", i, epoch_of(i));
}

Test(cluster_support, write_reaches_the_replica_that_is_promoted_when_its_master_dies)
{
    const unsigned slot = cluster_first_slot(1);
    const struct slot_name name = cluster_name(slot, 0);
    struct probe *p;

    c = cluster_start(&(struct cluster_options){.password = "pw"});
    p = cluster_probe(c, slot);
    (void)probe_text(p, "SET %s v", name.text);
    cr_assert_eq(probe_int(p, "WAIT 1 %d", SOON_MS), 1);
    probe_close(p);
    cluster_kill(c, 1);
    cr_assert_eq(cluster_master(c, slot), -1);
    cr_assert(cluster_wait_master(c, slot, CLUSTER_REPLICA_OF(1), CLUSTER_FAILOVER_BOUND_MS));
    cr_assert(cluster_wait_whole(c, SOON_MS));
    p = cluster_probe(c, slot);
    cr_assert_str_eq(probe_text(p, "GET %s", name.text), "v");
    probe_close(p);
    cluster_start_again(c, 1);
    cr_assert(cluster_wait_whole(c, CLUSTER_FAILOVER_BOUND_MS));
    cluster_failover(c, 1);
    cr_assert(cluster_wait_master(c, slot, 1, CLUSTER_FAILOVER_BOUND_MS));
}

Test(cluster_support, replica_that_is_cut_off_takes_over_without_what_it_missed)
{
    const unsigned slot = cluster_first_slot(2);
    const struct slot_name name = cluster_name(slot, 0);
    struct probe *p;

    c = cluster_start(NULL);
    cluster_cut_off(c, CLUSTER_REPLICA_OF(2));
    p = cluster_probe(c, slot);
    (void)probe_text(p, "SET %s v", name.text);
    probe_close(p);
    cluster_kill(c, 2);
    cluster_resume(c, CLUSTER_REPLICA_OF(2));
    cr_assert(cluster_wait_master(c, slot, CLUSTER_REPLICA_OF(2), CLUSTER_FAILOVER_BOUND_MS));
    p = cluster_probe(c, slot);
    cr_assert_null(probe_text(p, "GET %s", name.text));
    probe_close(p);
}

Test(cluster_support, slot_moves_by_steps_and_the_servers_say_ASK_TRYAGAIN_and_MOVED)
{
    const unsigned slot = cluster_first_slot(0);
    const struct slot_name here = cluster_name(slot, 0), absent = cluster_name(slot, 1);
    char *get_here = must_format("GET %s", here.text), *get_absent = must_format("GET %s", absent.text);
    char *get_both = must_format("MGET %s %s", here.text, absent.text);
    char *set = must_format("SET %s v", here.text);

    c = cluster_start(&(struct cluster_options){.password = "pw", .patient = true});
    cr_assert_str_eq(said(0, set), "OK");
    cr_assert(strncmp(said(1, get_here), "MOVED ", 6) == 0);
    cluster_begin_move(c, slot, 1);
    cr_assert_str_eq(said(0, get_here), "v");
    cr_assert(strncmp(said(0, get_absent), "ASK ", 4) == 0);
    cr_assert(strncmp(said(0, get_both), "TRYAGAIN", 8) == 0);
    cr_assert_eq(cluster_master(c, slot), 0);
    cr_assert_eq(cluster_move_keys(c, slot, 1), 1);
    cr_assert_eq(cluster_move_keys(c, slot, 1), 0);
    cr_assert(strncmp(said(0, get_here), "ASK ", 4) == 0);
    cluster_end_move(c, slot, 1);
    cr_assert_str_eq(said(1, get_here), "v");
    cr_assert(strncmp(said(0, get_here), "MOVED ", 6) == 0);
    cluster_move(c, slot, 2);
    cr_assert_str_eq(said(2, get_here), "v");
    free(get_here);
    free(get_absent);
    free(get_both);
    free(set);
}

Test(cluster_support, stopped_master_is_replaced_or_not_as_the_test_wants)
{
    c = cluster_start(NULL);
    cluster_pause(c, 0);
    cr_assert(cluster_wait_master(c, 0, CLUSTER_REPLICA_OF(0), CLUSTER_FAILOVER_BOUND_MS));
    cluster_resume(c, 0);
    cr_assert(cluster_wait_whole(c, CLUSTER_FAILOVER_BOUND_MS));
    cr_assert_eq(cluster_master(c, 0), CLUSTER_REPLICA_OF(0));
}
