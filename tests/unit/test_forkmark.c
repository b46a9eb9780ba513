/* SPDX-License-Identifier: MIT */
/* test_forkmark.c - a child knows that it is one. */
#include "core/base/forkmark.h"

#include <criterion/criterion.h>
#include <redlatch/error.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rdl__forkmark mark;

static void tear_down(void)
{
    rdl__forkmark_done(&mark);
}

TestSuite(forkmark, .fini = tear_down, .timeout = 10);

/* What a child, `generations` forks away, sees. */
static bool seen_by_descendant(int generations)
{
    int status = 0;
    pid_t child = fork();

    cr_assert_geq(child, 0);
    if (child == 0)
        _exit(generations > 1 ? seen_by_descendant(generations - 1) : rdl__forked(&mark));
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status) != 0;
}

Test(forkmark, is_seen_by_the_child_and_not_by_the_parent)
{
    cr_assert_eq(rdl__forkmark_init(&mark), RDL_OK);
    cr_assert_not(rdl__forked(&mark));
    cr_assert(seen_by_descendant(1));
    cr_assert_not(rdl__forked(&mark));
}

Test(forkmark, is_seen_by_a_grandchild)
{
    cr_assert_eq(rdl__forkmark_init(&mark), RDL_OK);
    cr_assert(seen_by_descendant(2));
}

Test(forkmark, made_in_the_child_is_the_childs_own)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        _exit(rdl__forkmark_init(&mark) == RDL_OK ? rdl__forked(&mark) : 2);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

Test(forkmark, without_a_page_compares_process_ids)
{
    mark = (struct rdl__forkmark){.page = NULL, .pid = getpid()};
    cr_assert_not(rdl__forked(&mark));
    cr_assert(seen_by_descendant(1));
}

Test(forkmark, done_takes_a_zeroed_mark)
{
    struct rdl__forkmark zeroed = {0};

    rdl__forkmark_done(&zeroed);
    cr_assert_null(zeroed.page);
}
