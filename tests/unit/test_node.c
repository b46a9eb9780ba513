/* SPDX-License-Identifier: MIT */
/* test_node.c - what a node knows of its server's age. */
#include "core/io/node.h"

#include "core/base/clock.h"

#include <criterion/criterion.h>

#define NOW (1000 * RDL__SEC)

static struct rdl__node node;
static const char *told;

static void on_told(struct rdl__task *task, int64_t now)
{
    (void)task;
    (void)now;
    rdl__node_uptime(&node, told, NOW);
}

/* On a loop, which ends after it. */
static void tell(const char *uptime)
{
    struct rdl__mem mem;
    struct rdl__task task;

    rdl__mem_init(&mem, NULL);
    cr_assert_eq(rdl__loop_start(&mem, &node.loop, NULL), RDL_OK);
    rdl__task_init(&task, on_told);
    told = uptime;
    rdl__loop_post(node.loop, &task);
    node.loop = rdl__loop_stop(node.loop);
}

static int64_t seconds_after(const char *uptime)
{
    node.born_at = INT64_MIN;
    tell(uptime);
    return (NOW - node.born_at) / RDL__SEC;
}

/* The server subtracts whole seconds of its clock: one that started at 0.9 says 1 at 1.0. */
Test(node, server_is_believed_to_be_a_second_younger_than_it_says)
{
    cr_assert_eq(seconds_after("0"), 0);
    cr_assert_eq(seconds_after("1"), 0);
    cr_assert_eq(seconds_after("2"), 1);
    cr_assert_eq(seconds_after("3600"), 3599);
}

Test(node, server_that_says_nothing_of_its_age_is_new)
{
    cr_assert_eq(seconds_after(""), 0);
    cr_assert_eq(seconds_after("-7"), 0);
    cr_assert_eq(seconds_after("99999999999"), 0);
}

Test(node, server_never_gets_older_by_another_connection)
{
    node.born_at = NOW - RDL__SEC;
    tell("60");
    cr_assert_eq(node.born_at, NOW - RDL__SEC);
}
