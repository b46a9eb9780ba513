/* SPDX-License-Identifier: MIT */
/* test_proxy.c - the fault proxy does what it is told, and nothing else: what it seems to prove about the library would
 * otherwise prove nothing. The client is a probe that speaks through it. */
#include "tests/support/probe.h"
#include "tests/support/proxy.h"
#include "tests/support/server.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define SOON_MS 5000 /* bound on what happens at once */
#define QUIET_MS 40  /* long enough to see that nothing happens */

static struct server *server;
static struct proxy *proxy;
static struct probe *direct;  /* to the server */
static struct probe *through; /* by way of the proxy */

static struct probe *open_through(void)
{
    return probe_open_at(proxy_uri(proxy) + strlen("unix:"));
}

static void set_up(void)
{
    server = server_start(NULL);
    proxy = proxy_start(server);
    direct = probe_open(server);
    through = open_through();
}

static void tear_down(void)
{
    probe_close(through);
    probe_close(direct);
    proxy_stop(proxy);
    server_stop(server);
}

TestSuite(proxy, .init = set_up, .fini = tear_down, .timeout = 30);

static const char *status(const struct reply *reply)
{
    return reply == NULL ? "(nothing)" : reply->text != NULL ? reply->text : "(no text)";
}

/* What the probe behind the proxy hears next. */
static const char *heard(int64_t bound_ms)
{
    return status(probe_next(through, bound_ms));
}

Test(proxy, passes_everything_on_unchanged_and_counts_it)
{
    size_t len = 300000;
    char *value = must_alloc(len + 1);
    const char *words[] = {"SET", "big", value};
    size_t lens[] = {3, 3, len};

    for (size_t i = 0; i < len; i++)
        value[i] = (char)(i * 7);
    cr_assert_str_eq(status(probe_ask_argv(through, 3, words, lens)), "OK");
    cr_assert_eq(probe_ask(through, "GET big")->len, len);
    cr_assert_eq(memcmp(probe_ask(through, "GET big")->text, value, len), 0);
    cr_assert_eq(proxy_requests(proxy), 3);
    cr_assert_eq(proxy_replies(proxy), 3);
    cr_assert_eq(proxy_accepted(proxy), 1);
    cr_assert_eq(proxy_open(proxy), 1);
    free(value);
}

Test(proxy, works_over_tcp)
{
    struct server *s = server_start(&(struct server_options){.tcp = true});
    struct proxy *p = proxy_start(s);

    cr_assert_eq(strncmp(proxy_uri(p), "redis://127.0.0.1:", 18), 0);
    cr_assert_str_neq(proxy_uri(p), server_uri(s));
    proxy_stop(p);
    server_stop(s);
}

Test(proxy, closes_one_side_when_the_other_closes)
{
    (void)probe_text(through, "CLIENT SETNAME through");
    probe_close(through);
    through = NULL;
    cr_assert(WAIT_UNTIL(probe_clients(direct, "through") == 0, SOON_MS));
    cr_assert(WAIT_UNTIL(proxy_open(proxy) == 0, SOON_MS));
    through = open_through();
    cr_assert_str_eq(status(probe_ask(through, "PING")), "PONG");
    server_kill(server);
    cr_assert(WAIT_UNTIL(proxy_open(proxy) == 0, SOON_MS));
}

Test(proxy, holds_a_request_and_what_follows_until_it_is_let_go)
{
    int rule = proxy_on(proxy, .action = PROXY_HOLD, .command = "set", .contains = "key2");

    cr_assert_str_eq(status(probe_ask(through, "SET key1 v")), "OK");
    probe_send(through, "SET key2 v");
    probe_send(through, "SET key3 v");
    cr_assert(proxy_wait(proxy, rule, 1, SOON_MS));
    cr_assert_str_eq(heard(QUIET_MS), "(nothing)");
    cr_assert_eq(probe_keys(direct), 1);
    proxy_let_go(proxy, rule);
    cr_assert_str_eq(heard(SOON_MS), "OK");
    cr_assert_str_eq(heard(SOON_MS), "OK");
    cr_assert_eq(probe_keys(direct), 3);
    cr_assert_eq(proxy_acted(proxy, rule), 1);
}

Test(proxy, delivers_a_held_request_after_its_client_has_gone)
{
    int rule = proxy_on(proxy, .action = PROXY_HOLD, .contains = "late");

    probe_send(through, "SET late v");
    cr_assert(proxy_wait(proxy, rule, 1, SOON_MS));
    probe_close(through);
    through = NULL;
    let_pass_ms(QUIET_MS);
    cr_assert_eq(proxy_open(proxy), 1);
    cr_assert_eq(probe_keys(direct), 0);
    proxy_let_go(proxy, rule);
    cr_assert(WAIT_UNTIL(probe_keys(direct) == 1, SOON_MS));
    cr_assert(WAIT_UNTIL(proxy_open(proxy) == 0, SOON_MS));
}

Test(proxy, holds_a_reply_after_the_server_has_run_the_request)
{
    int rule = proxy_on(proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "INCR", .nth = 2);

    cr_assert_eq(probe_int(through, "INCR n"), 1);
    probe_send(through, "INCR n");
    cr_assert(proxy_wait(proxy, rule, 1, SOON_MS));
    cr_assert_eq(probe_int(direct, "GET n"), 2);
    cr_assert_null(probe_next(through, QUIET_MS));
    proxy_let_go(proxy, rule);
    cr_assert_eq(probe_next(through, SOON_MS)->integer, 2);
}

Test(proxy, holds_a_reply_by_the_request_that_it_answers)
{
    int rule = proxy_on(proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .contains = "second");

    probe_send(through, "ECHO first");
    probe_send(through, "ECHO second");
    probe_send(through, "ECHO third");
    cr_assert_str_eq(heard(SOON_MS), "first");
    cr_assert(proxy_wait(proxy, rule, 1, SOON_MS));
    cr_assert_str_eq(heard(QUIET_MS), "(nothing)");
    proxy_let_go(proxy, rule);
    cr_assert_str_eq(heard(SOON_MS), "second");
    cr_assert_str_eq(heard(SOON_MS), "third");
}

Test(proxy, cuts_a_request_at_any_byte)
{
    static const char frame[] = "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n";

    for (size_t at = 0; at <= sizeof frame - 1; at++) {
        int rule = proxy_on(proxy, .action = PROXY_CUT, .command = "INCR", .at = at);
        int64_t before = probe_int(direct, "EXISTS n");

        probe_send(through, "INCR n");
        cr_assert(proxy_wait_cuts(proxy, (unsigned)at + 1, SOON_MS));
        cr_assert_str_eq(heard(SOON_MS), "(nothing)");
        cr_assert(WAIT_UNTIL(probe_int(direct, "EXISTS n") == (at == sizeof frame - 1), SOON_MS));
        cr_assert_eq(before, 0);
        proxy_let_go(proxy, rule);
        probe_close(through);
        through = open_through();
    }
}

Test(proxy, cuts_a_reply_at_any_byte_after_the_request_has_run)
{
    static const char frame[] = "$5\r\nvalue\r\n";

    (void)probe_text(direct, "SET k value");
    for (size_t at = 0; at <= sizeof frame - 1; at++) {
        const char *expected = at == sizeof frame - 1 ? "value" : "(nothing)";

        (void)proxy_on(proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .contains = "GET", .at = at);
        probe_send(through, "GET k");
        cr_assert_str_eq(heard(SOON_MS), expected);
        cr_assert_eq(proxy_cuts(proxy), at + 1);
        probe_close(through);
        through = open_through();
    }
}

Test(proxy, cuts_after_a_number_of_bytes_whatever_they_are)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";

    proxy_cut_after(proxy, PROXY_TO_SERVER, 2 * (sizeof ping - 1) + 3);
    cr_assert_str_eq(status(probe_ask(through, "PING")), "PONG");
    cr_assert_str_eq(status(probe_ask(through, "PING")), "PONG");
    probe_send(through, "PING");
    cr_assert_str_eq(heard(SOON_MS), "(nothing)");
    cr_assert_eq(proxy_cuts(proxy), 1);
    probe_close(through);
    through = open_through();
    proxy_cut_after(proxy, PROXY_TO_CLIENT, strlen("+PONG\r\n") + 2);
    cr_assert_str_eq(status(probe_ask(through, "PING")), "PONG");
    probe_send(through, "PING");
    cr_assert_str_eq(heard(SOON_MS), "(nothing)");
    cr_assert_eq(proxy_cuts(proxy), 2);
}

Test(proxy, answers_in_the_servers_place_and_in_order)
{
    (void)proxy_on(proxy, .action = PROXY_ANSWER, .command = "INCR", .answer = "-OOM nothing left\r\n");
    probe_send(through, "ECHO before");
    probe_send(through, "INCR n");
    probe_send(through, "INCR n");
    cr_assert_str_eq(heard(SOON_MS), "before");
    cr_assert_str_eq(heard(SOON_MS), "OOM nothing left");
    cr_assert_eq(probe_next(through, SOON_MS)->integer, 1);
}

Test(proxy, replaces_the_reply_of_a_request_that_ran)
{
    (void)proxy_on(proxy, .action = PROXY_ANSWER, .part = PROXY_REPLY, .command = "INCR", .every = true,
                   .answer = ":77\r\n");
    cr_assert_eq(probe_int(through, "INCR n"), 77);
    cr_assert_eq(probe_int(through, "INCR n"), 77);
    cr_assert_eq(probe_int(direct, "GET n"), 2);
}

Test(proxy, acts_on_the_nth_match_or_on_all_from_there)
{
    int watch = proxy_on(proxy, .action = PROXY_WATCH, .contains = "k", .every = true);
    int third = proxy_on(proxy, .action = PROXY_ANSWER, .command = "INCR", .nth = 3, .answer = ":-3\r\n");
    int rest = proxy_on(proxy, .action = PROXY_ANSWER, .command = "INCR", .nth = 5, .every = true, .answer = ":-5\r\n");
    int64_t expected[] = {1, 2, -3, 3, -5, -5};

    for (size_t i = 0; i < 6; i++)
        cr_assert_eq(probe_int(through, "INCR k"), expected[i]);
    cr_assert_eq(proxy_acted(proxy, watch), 6);
    cr_assert_eq(proxy_acted(proxy, third), 1);
    cr_assert_eq(proxy_acted(proxy, rest), 2);
}

Test(proxy, tells_messages_and_acknowledgements_from_replies)
{
    int ack = proxy_on(proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "SUBSCRIBE");
    int second = proxy_on(proxy, .action = PROXY_HOLD, .part = PROXY_MESSAGE, .contains = "news", .nth = 2);

    probe_send(through, "SUBSCRIBE news sport");
    cr_assert(proxy_wait(proxy, ack, 1, SOON_MS));
    cr_assert_eq(probe_subscribers(direct, "news"), 1);
    cr_assert_null(probe_next(through, QUIET_MS));
    proxy_let_go(proxy, ack);
    cr_assert_str_eq(probe_next(through, SOON_MS)->items[1].text, "news");
    cr_assert_str_eq(probe_next(through, SOON_MS)->items[1].text, "sport");
    (void)probe_int(direct, "PUBLISH news one");
    cr_assert_str_eq(probe_next(through, SOON_MS)->items[2].text, "one");
    (void)probe_int(direct, "PUBLISH news two");
    cr_assert(proxy_wait(proxy, second, 1, SOON_MS));
    cr_assert_null(probe_next(through, QUIET_MS));
    proxy_let_go(proxy, second);
    cr_assert_str_eq(probe_next(through, SOON_MS)->items[2].text, "two");
}

Test(proxy, can_lose_a_message)
{
    (void)proxy_on(proxy, .action = PROXY_ANSWER, .part = PROXY_MESSAGE, .answer = "");
    (void)probe_ask(through, "SUBSCRIBE news");
    (void)probe_int(direct, "PUBLISH news one");
    (void)probe_int(direct, "PUBLISH news two");
    cr_assert_str_eq(probe_next(through, SOON_MS)->items[2].text, "two");
}

Test(proxy, delays_each_way)
{
    int64_t start;

    proxy_delay(proxy, PROXY_TO_SERVER, 120);
    proxy_delay(proxy, PROXY_TO_CLIENT, 80);
    start = now_ms();
    cr_assert_str_eq(status(probe_ask(through, "PING")), "PONG");
    cr_assert_geq(now_ms() - start, 200);
    proxy_delay(proxy, PROXY_BOTH_WAYS, 0);
    start = now_ms();
    for (int i = 0; i < 50; i++) /* which would take 10 s */
        cr_assert_str_eq(status(probe_ask(through, "PING")), "PONG");
    cr_assert_lt(now_ms() - start, SOON_MS);
}

Test(proxy, freezes_and_thaws_each_way)
{
    struct probe *later;

    proxy_freeze(proxy, PROXY_TO_SERVER);
    probe_send(through, "SET a 1");
    later = open_through();
    probe_send(later, "SET b 1");
    cr_assert_str_eq(heard(QUIET_MS), "(nothing)");
    cr_assert_eq(probe_keys(direct), 0);
    proxy_thaw(proxy, PROXY_TO_SERVER);
    cr_assert_str_eq(heard(SOON_MS), "OK");
    cr_assert_str_eq(status(probe_next(later, SOON_MS)), "OK");
    proxy_freeze(proxy, PROXY_TO_CLIENT);
    probe_send(through, "SET c 1");
    cr_assert(WAIT_UNTIL(probe_keys(direct) == 3, SOON_MS));
    cr_assert_str_eq(heard(QUIET_MS), "(nothing)");
    proxy_thaw(proxy, PROXY_TO_CLIENT);
    cr_assert_str_eq(heard(SOON_MS), "OK");
    probe_close(later);
}

Test(proxy, swallows_a_way_for_good)
{
    proxy_swallow(proxy, PROXY_TO_CLIENT, true);
    probe_send(through, "SET a 1");
    cr_assert(WAIT_UNTIL(probe_keys(direct) == 1, SOON_MS));
    cr_assert_str_eq(heard(QUIET_MS), "(nothing)");
    proxy_swallow(proxy, PROXY_TO_CLIENT, false);
    probe_send(through, "SET b 1");
    cr_assert(WAIT_UNTIL(probe_keys(direct) == 2, SOON_MS));
    cr_assert_str_eq(heard(QUIET_MS), "(nothing)");
    probe_close(through);
    through = open_through();
    cr_assert_str_eq(status(probe_ask(through, "PING")), "PONG");
}

Test(proxy, cuts_subscribers_or_the_others)
{
    struct probe *listener = open_through();

    (void)probe_ask(listener, "SUBSCRIBE news");
    cr_assert_str_eq(status(probe_ask(through, "PING")), "PONG");
    proxy_cut(proxy, PROXY_SUBSCRIBERS);
    cr_assert(WAIT_UNTIL(probe_channels(direct) == 0, SOON_MS));
    cr_assert_str_eq(status(probe_ask(through, "PING")), "PONG");
    probe_close(listener);
    listener = open_through();
    (void)probe_ask(listener, "SUBSCRIBE news");
    proxy_cut(proxy, PROXY_COMMANDERS);
    cr_assert(WAIT_UNTIL(proxy_open(proxy) == 1, SOON_MS));
    cr_assert_eq(probe_channels(direct), 1);
    proxy_cut(proxy, PROXY_ALL);
    cr_assert(WAIT_UNTIL(proxy_open(proxy) == 0, SOON_MS));
    cr_assert_eq(proxy_cuts(proxy), 3);
    probe_close(listener);
}

Test(proxy, can_leave_a_client_speaking_to_nobody)
{
    (void)probe_text(through, "CLIENT SETNAME through");
    cr_assert_eq(probe_clients(direct, "through"), 1);
    proxy_cut_server_side(proxy, PROXY_ALL);
    cr_assert(WAIT_UNTIL(probe_clients(direct, "through") == 0, SOON_MS));
    probe_send(through, "SET k v");
    cr_assert_str_eq(heard(QUIET_MS), "(nothing)");
    cr_assert_eq(proxy_open(proxy), 1);
    cr_assert_eq(probe_keys(direct), 0);
    probe_close(through);
    through = NULL;
    cr_assert(WAIT_UNTIL(proxy_open(proxy) == 0, SOON_MS));
}

Test(proxy, can_break_the_clients_side_and_still_deliver_what_it_held)
{
    int rule = proxy_on(proxy, .action = PROXY_HOLD, .contains = "late");

    (void)probe_text(through, "CLIENT SETNAME through");
    probe_send(through, "SET late v");
    cr_assert(proxy_wait(proxy, rule, 1, SOON_MS));
    proxy_cut_client_side(proxy, PROXY_ALL);
    cr_assert_str_eq(heard(SOON_MS), "(nothing)");
    cr_assert_eq(probe_clients(direct, "through"), 1);
    cr_assert_eq(probe_keys(direct), 0);
    proxy_let_go(proxy, rule);
    cr_assert(WAIT_UNTIL(probe_keys(direct) == 1, SOON_MS));
    cr_assert(WAIT_UNTIL(probe_clients(direct, "through") == 0, SOON_MS));
}

Test(proxy, drops_what_it_holds_when_the_server_kills_the_connection)
{
    int rule = proxy_on(proxy, .action = PROXY_HOLD, .contains = "late");
    int64_t id = probe_int(through, "CLIENT ID");

    probe_send(through, "SET late v");
    cr_assert(proxy_wait(proxy, rule, 1, SOON_MS));
    proxy_cut_client_side(proxy, PROXY_ALL);
    cr_assert_eq(probe_int(direct, "CLIENT KILL ID %lld", (long long)id), 1);
    cr_assert(WAIT_UNTIL(proxy_open(proxy) == 0, SOON_MS));
    proxy_let_go(proxy, rule);
    let_pass_ms(QUIET_MS);
    cr_assert_eq(probe_keys(direct), 0);
}

Test(proxy, refuses_new_connections_and_keeps_the_old)
{
    cr_assert_str_eq(status(probe_ask(through, "PING")), "PONG");
    proxy_refuse(proxy, true);
    cr_assert_not(probe_answers(proxy_uri(proxy) + strlen("unix:")));
    cr_assert_str_eq(status(probe_ask(through, "PING")), "PONG");
    proxy_refuse(proxy, false);
    cr_assert(probe_answers(proxy_uri(proxy) + strlen("unix:")));
}
