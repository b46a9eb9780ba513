/* SPDX-License-Identifier: MIT */
/* test_support.c - the harness keeps its own promises: a test that leans on it may believe what it says. */
#include "tests/support/probe.h"
#include "tests/support/server.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(support, .timeout = 20);

Test(support, server_answers_on_its_socket_and_its_port)
{
    struct server *s = server_start(&(struct server_options){.tcp = true});
    struct probe *p = probe_open(s);

    cr_assert_str_eq(probe_text(p, "SET k 'two words'"), "OK");
    cr_assert_str_eq(probe_text(p, "GET k"), "two words");
    cr_assert_eq(probe_int(p, "STRLEN k"), 9);
    cr_assert_eq(probe_int(p, "GET nothing"), -1);
    cr_assert_null(probe_text(p, "GET nothing"));
    cr_assert_eq(probe_ask(p, "FROB")->kind, REPLY_ERROR);
    cr_assert_eq(probe_keys(p), 1);
    cr_assert(server_port(s) > 0);
    probe_close(p);
    server_stop(s);
}

Test(support, restart_keeps_the_place_and_loses_the_data)
{
    struct server *s = server_start(&(struct server_options){.tcp = true, .password = "pw"});
    int port = server_port(s);
    struct probe *p = probe_open(s);

    (void)probe_text(p, "SET k v");
    probe_close(p);
    server_kill(s);
    cr_assert_not(probe_answers(server_socket(s)));
    server_start_again(s);
    p = probe_open(s);
    cr_assert_eq(probe_keys(p), 0);
    cr_assert_eq(server_port(s), port);
    probe_close(p);
    server_stop(s);
}

Test(support, paused_server_answers_only_after_it_is_resumed)
{
    struct server *s = server_start(NULL);
    struct probe *p = probe_open(s);

    server_pause(s);
    probe_send(p, "PING");
    cr_assert_null(probe_next(p, 30));
    server_resume(s);
    cr_assert_str_eq(probe_next(p, 5000)->text, "PONG");
    probe_close(p);
    server_stop(s);
}

Test(support, crashed_test_leaves_no_server_and_no_directory)
{
    int report[2];
    char dir[256] = "";
    pid_t child;

    cr_assert_eq(pipe(report), 0);
    if ((child = fork()) == 0) {
        struct server *s = server_start(NULL);

        if (write(report[1], server_dir(s), strlen(server_dir(s))) < 0)
            _exit(1);
        raise(SIGKILL);
    }
    close(report[1]);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_gt(read(report[0], dir, sizeof dir - 1), 0);
    cr_assert(WAIT_UNTIL(access(dir, F_OK) != 0, 5000));
    close(report[0]);
}

Test(support, monitor_tells_commands_of_clients_from_those_of_scripts)
{
    struct server *s = server_start(NULL);
    struct probe *p = probe_open(s);
    struct monitor *m = monitor_start(s);
    size_t mark = monitor_mark(m);

    (void)probe_text(p, "SET k v");
    (void)probe_int(p, "EVAL 'return redis.call(\"incr\", KEYS[1])' 1 n");
    (void)monitor_mark(m);
    cr_assert_eq(monitor_count(m, mark, "\"set\"|\"k\""), 1);
    cr_assert_eq(monitor_count(m, mark, "\"incr\"|\"n\""), 0);
    cr_assert_eq(monitor_count_lua(m, mark, "\"incr\"|\"n\""), 1);
    cr_assert_not(monitor_wait(m, mark, "nobody", 1, 10));
    monitor_stop(m);
    probe_close(p);
    server_stop(s);
}

Test(support, subscribed_probe_gets_messages_and_is_counted)
{
    struct server *s = server_start(NULL);
    struct probe *listener = probe_open(s);
    struct probe *p = probe_open(s);
    const struct reply *message;

    (void)probe_ask(listener, "SUBSCRIBE news");
    cr_assert_eq(probe_subscribers(p, "news"), 1);
    cr_assert_eq(probe_channels(p), 1);
    cr_assert_eq(probe_int(p, "PUBLISH news 0"), 1);
    message = probe_next(listener, 5000);
    cr_assert_not_null(message);
    cr_assert_str_eq(message->items[2].text, "0");
    probe_close(listener);
    cr_assert(WAIT_UNTIL(probe_channels(p) == 0, 5000));
    probe_close(p);
    server_stop(s);
}
