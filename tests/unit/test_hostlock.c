/* SPDX-License-Identifier: MIT */
/* test_hostlock.c - locks among the processes of a host. */
#include "core/base/hostlock.h"
#include "tests/support/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[] = "/tmp/redlatch-hostlock-XXXXXX";
static int dir = RDL__HOSTLOCK_NONE;

static void set_up(void)
{
    rdl_err_t err = {0};

    cr_assert_not_null(mkdtemp(path));
    cr_assert_eq(rdl__hostlock_dir(path, &dir, &err), RDL_OK, "%s", err.message);
}

static void tear_down(void)
{
    rdl__hostlock_leave(dir);
    cr_assert(folder_remove(path));
}

TestSuite(hostlock, .init = set_up, .fini = tear_down, .timeout = 10);

static int try_it(const char *name, int *ret_lock)
{
    return rdl__hostlock_try(dir, name, strlen(name), ret_lock);
}

Test(hostlock, is_one_owners_at_a_time_within_a_process_too)
{
    int one = -1, other = -1, third = -1;

    cr_assert_eq(try_it("a", &one), RDL_OK);
    cr_assert_eq(try_it("a", &other), RDL_ETIMEDOUT);
    cr_assert_eq(try_it("b", &third), RDL_OK);
    rdl__hostlock_leave(one);
    cr_assert_eq(try_it("a", &other), RDL_OK);
    rdl__hostlock_leave(other);
    rdl__hostlock_leave(third);
    rdl__hostlock_leave(RDL__HOSTLOCK_NONE);
}

/* Each name has a file of its own, whatever is in it and however long it is. */
Test(hostlock, names_that_differ_are_locks_that_differ)
{
    static char longs[3][4000];
    const char *names[] = {"", "a", "A", "a/b", "a%2fb", "..", ".", "a.lock", "\xff", longs[0], longs[1], longs[2]};
    enum { NAMES = sizeof names / sizeof *names };
    int lock[NAMES], again;

    for (int i = 0; i < 3; i++)
        memset(longs[i], 'x', sizeof longs[i] - 1);
    longs[1][3000] = 'y';
    longs[2][3998] = '\0';
    for (int i = 0; i < NAMES; i++)
        cr_assert_eq(try_it(names[i], &lock[i]), RDL_OK, "%d: %s", i, strerror(errno));
    for (int i = 0; i < NAMES; i++) {
        cr_assert_eq(try_it(names[i], &again), RDL_ETIMEDOUT);
        rdl__hostlock_leave(lock[i]);
    }
}

Test(hostlock, is_freed_when_its_process_is_killed_and_is_not_inherited_by_what_it_runs)
{
    int lock = -1, status, ready[2];
    char byte = 0;
    pid_t child;

    cr_assert_eq(pipe(ready), 0);
    if ((child = fork()) == 0) {
        if (try_it("a", &lock) != RDL_OK)
            _exit(1);
        if (fork() == 0)
            execl("/bin/sh", "sh", "-c", "exec sleep 3", (char *)NULL);
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(2);
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    cr_assert_eq(try_it("a", &lock), RDL_ETIMEDOUT);
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, &status, 0), child);
    for (int i = 0; i < 1000 && try_it("a", &lock) != RDL_OK; i++) /* its child may be about to run another program */
        usleep(1000);
    cr_assert_geq(lock, 0);
    rdl__hostlock_leave(lock);
}

/* A child that was forked and goes on has the parent's descriptor: leaving is an unlock, whoever has that. */
Test(hostlock, what_is_left_is_free_whatever_a_forked_child_has)
{
    int lock = -1, again = -1, status;
    pid_t child;

    cr_assert_eq(try_it("a", &lock), RDL_OK);
    if ((child = fork()) == 0)
        for (;;)
            pause();
    rdl__hostlock_leave(lock);
    cr_assert_eq(try_it("a", &again), RDL_OK);
    rdl__hostlock_leave(again);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

Test(hostlock, a_file_that_was_removed_or_is_left_over_or_of_somebody_who_plans_evil)
{
    int lock = -1, other = -1;

    cr_assert_eq(try_it("a", &lock), RDL_OK);
    rdl__hostlock_leave(lock);
    cr_assert_eq(try_it("a", &lock), RDL_OK); /* left over */
    rdl__hostlock_leave(lock);
    cr_assert_eq(unlinkat(dir, "a.lock", 0), 0);
    cr_assert_eq(try_it("a", &other), RDL_OK); /* made anew */
    rdl__hostlock_leave(other);
    cr_assert_eq(unlinkat(dir, "a.lock", 0), 0);
    cr_assert_eq(symlinkat("/etc/passwd", dir, "a.lock"), 0);
    cr_assert_eq(try_it("a", &lock), RDL_EHOST);
    cr_assert_eq(errno, ELOOP);
}

Test(hostlock, says_the_name_inside)
{
    char text[16] = "", file[64];
    int lock = -1, fd;

    cr_assert_eq(try_it("or/der", &lock), RDL_OK);
    snprintf(file, sizeof file, "%s/or%%2fder.lock", path);
    fd = open(file, O_RDONLY);
    cr_assert_geq(fd, 0);
    cr_assert_eq(read(fd, text, sizeof text - 1), 7);
    cr_assert_str_eq(text, "or/der\n");
    close(fd);
    rdl__hostlock_leave(lock);
}

/* As a user who is in `group` beside his own: what trying comes to. */
static int try_as(uid_t user, gid_t group, const char *name)
{
    int lock = -1, status = -1;
    pid_t child = fork();

    if (child == 0)
        _exit(setgroups(1, &group) == 0 && setgid(user) == 0 && setuid(user) == 0 ? -try_it(name, &lock) : 1);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    return -WEXITSTATUS(status);
}

/* Whoever made the file, and whatever that user's own group is. Changing users takes root. */
Test(hostlock, is_one_for_all_users_in_the_group_of_its_directory)
{
    enum { GROUP = 4710, ONE = 4711, OTHER = 4712 };
    int lock = -1;

    if (geteuid() != 0)
        cr_skip_test("only root may be somebody else");
    cr_assert_eq(chown(path, 0, GROUP), 0);
    cr_assert_eq(chmod(path, 0770), 0);
    cr_assert_eq(try_as(ONE, GROUP, "a"), RDL_OK);
    cr_assert_eq(try_as(OTHER, GROUP, "a"), RDL_OK);
    cr_assert_eq(try_it("a", &lock), RDL_OK);
    cr_assert_eq(try_as(ONE, GROUP, "a"), RDL_ETIMEDOUT);
    rdl__hostlock_leave(lock);
    cr_assert_eq(try_it("roots", &lock), RDL_OK);
    rdl__hostlock_leave(lock);
    cr_assert_eq(try_as(OTHER, GROUP, "roots"), RDL_OK);
}

/* Take a lock after the other, each when the other process is about to: how many of them could not be used. */
static int race_as(uid_t user, gid_t group, atomic_int *arrived, int rounds)
{
    int failed = 0;

    if (setgroups(1, &group) != 0 || setgid(user) != 0 || setuid(user) != 0)
        return rounds;
    for (int i = 0; i < rounds; i++) {
        char name[16];
        int lock = -1;

        snprintf(name, sizeof name, "%d", i);
        atomic_fetch_add(arrived, 1);
        while (atomic_load(arrived) < 2 * (i + 1))
            sched_yield();
        failed += try_it(name, &lock) == RDL_EHOST;
        rdl__hostlock_leave(lock);
    }
    return failed;
}

/* How many names the directory has, without drafts. */
static int named(void)
{
    char pattern[sizeof path + 2];
    glob_t found = {0};
    int count;

    (void)snprintf(pattern, sizeof pattern, "%s/*", path);
    count = glob(pattern, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return count;
}

static int opened_to_a_group, named_before;

/* In place of the C library's: what others find in the directory before its group may open a new file. */
int fchown(int fd, uid_t owner, gid_t group)
{
    opened_to_a_group++;
    named_before += named();
    return (int)syscall(SYS_fchown, fd, owner, group);
}

Test(hostlock, has_its_name_when_it_is_whole)
{
    int lock = -1;

    cr_assert_eq(try_it("a", &lock), RDL_OK);
    cr_assert_eq(opened_to_a_group, 1);
    cr_assert_eq(named_before, 0);
    cr_assert_eq(named(), 1);
    rdl__hostlock_leave(lock);
}

/* Neither finds a file that the other has made and not yet opened to the group. */
Test(hostlock, is_had_or_not_by_users_who_make_it_at_the_same_time)
{
    enum { GROUP = 4710, ONE = 4711, ROUNDS = 200 };
    atomic_int *arrived = mmap(NULL, sizeof *arrived, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;

    if (geteuid() != 0)
        cr_skip_test("only root may be somebody else");
    cr_assert_neq(arrived, MAP_FAILED);
    cr_assert_eq(chown(path, 0, GROUP), 0);
    cr_assert_eq(chmod(path, 0770), 0);
    for (uid_t i = 0; i < 2; i++)
        if (fork() == 0)
            _exit(race_as(ONE + i, GROUP, arrived, ROUNDS));
    while (wait(&status) > 0)
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d failed", WEXITSTATUS(status));
}

/* The kernel would end it by SIGXFSZ. */
Test(hostlock, a_process_that_may_write_no_file_lives_on)
{
    const struct rlimit none = {0};
    int lock = -1, status;
    pid_t child = fork();

    if (child == 0)
        _exit(setrlimit(RLIMIT_FSIZE, &none) == 0 ? -try_it("a", &lock) : 1);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == RDL_OK, "%x", (unsigned)status);
}
