/* test_waiters.c - whom a message wakes, and that nobody sleeps beside a free lock (protocol.md, 5).
 *
 * The loop is a fake one, the subscriber is the one below: it only remembers what is subscribed, and the tests
 * acknowledge and publish by hand. The last part lets chance do that, against a server with one lock. */
#include "core/base/entropy.h"
#include "core/service/waiters.h"
#include "tests/support/counting_alloc.h"
#include "tests/unit/fake_loop.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- a subscriber ----------------------------------------------------------------------------------------------- */

enum { TOPICS_MAX = 10000 };

struct rdl__subscriber {
    struct rdl__topic *topics[TOPICS_MAX];
    size_t count;
};

void rdl__subscriber_add(struct rdl__subscriber *sub, struct rdl__topic *topic, int64_t now)
{
    (void)now;
    cr_assert_lt(sub->count, TOPICS_MAX);
    sub->topics[sub->count++] = topic;
}

void rdl__subscriber_drop(struct rdl__subscriber *sub, struct rdl__topic *topic)
{
    size_t i = 0;

    while (i < sub->count && sub->topics[i] != topic)
        i++;
    cr_assert_lt(i, sub->count);
    sub->topics[i] = sub->topics[--sub->count];
}

/* ---- people who wait -------------------------------------------------------------------------------------------- */

enum { ACTORS = 8, T0 = 1000000 };

/* What an actor does when it is told to go. */
enum reaction { TRIES, LEAVES, LEAVES_USED, LISTENS };

struct actor {
    struct rdl__waiter waiter;
    enum reaction reaction;
    int64_t went_at;
    int goes;
};

static struct counting_alloc counting;
static struct rdl__mem mem;
static struct rdl__loop loop;
static struct rdl__subscriber sub;
static struct rdl__waiters waiters;
static struct actor actors[ACTORS];
static char trail[64]; /* who was told to go, in order, as letters */

static void on_go(struct rdl__waiter *waiter, int64_t now)
{
    struct actor *a = rdl__container(waiter, struct actor, waiter);
    char letter[2] = {(char)('a' + (a - actors)), '\0'};

    strncat(trail, letter, sizeof trail - strlen(trail) - 1);
    a->goes++;
    a->went_at = now;
    if (a->reaction == LEAVES || a->reaction == LEAVES_USED) {
        rdl__waiter_leave(waiter, a->reaction == LEAVES_USED, now);
        return;
    }
    rdl__waiter_sent(waiter);
    if (a->reaction == LISTENS)
        cr_assert(rdl__waiter_refused(waiter, -1, now));
}

static const struct rdl__waiter_ops actor_ops = {.go = on_go};

static void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);

    rdl__mem_init(&mem, &hooks);
    fake_loop_init(&loop, T0);
    cr_assert_eq(rdl__waiters_init(&waiters, &mem, &loop, &sub), RDL_OK);
    for (int i = 0; i < ACTORS; i++)
        rdl__waiter_init(&actors[i].waiter, &actor_ops);
}

/* Everybody goes home; then no channel, subscription, timer or memory may be left. */
static void tear_down(void)
{
    for (int i = 0; i < ACTORS; i++)
        rdl__waiter_leave(&actors[i].waiter, true, loop.now);
    rdl__waiters_sweep(&waiters);
    cr_assert_eq(waiters.channels.count, 0);
    cr_assert_eq(sub.count, 0);
    cr_assert_null(rdl__heap_min(&loop.timers));
    rdl__waiters_done(&waiters);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

TestSuite(waiters, .init = set_up, .fini = tear_down, .timeout = 120);

static struct rdl__waiter *waiter(char letter)
{
    return &actors[letter - 'a'].waiter;
}

/* The end of the loop's turn: whoever was woken goes. */
static bool turn(void)
{
    return fake_loop_tasks(&loop);
}

static bool turns_end_by_chance; /* else with each thing that happens */

static void end_turn(void)
{
    if (!turns_end_by_chance)
        (void)turn();
}

static void go_away(char letter, bool used)
{
    rdl__waiter_leave(waiter(letter), used, loop.now);
    end_turn();
}

static void join_hint(char letter, int64_t hint_ms)
{
    cr_assert_eq(rdl__waiter_join(&waiters, waiter(letter), "ch", 2, true, hint_ms, loop.now), RDL_OK);
}

static void join(const char *letters)
{
    for (; *letters != '\0'; letters++)
        join_hint(*letters, -1);
}

static void acknowledge(void)
{
    cr_assert_eq(sub.count, 1);
    sub.topics[0]->ops->subscribed(sub.topics[0], loop.now);
    end_turn();
}

static void publish(const char *payload, size_t len)
{
    cr_assert_eq(sub.count, 1);
    sub.topics[0]->ops->message(sub.topics[0], payload, len, loop.now);
    end_turn();
}

static void message(const char *payload)
{
    publish(payload, strlen(payload));
}

/* Asleep on the acknowledged channel, in this order, with nothing on the trail. */
static void all_asleep(const char *letters)
{
    join(letters);
    acknowledge();
    cr_assert(rdl__waiter_refused(waiter(letters[0]), -1, loop.now));
    trail[0] = '\0';
}

static bool refused(char letter)
{
    bool asleep = rdl__waiter_refused(waiter(letter), -1, loop.now);

    end_turn();
    return asleep;
}

/* ---- rule 1: the epoch ------------------------------------------------------------------------------------------ */

Test(waiters, a_refusal_puts_to_sleep_when_nothing_came_since_the_try_was_sent)
{
    all_asleep("a");
    message("0");
    cr_assert_str_eq(trail, "a");
    cr_assert(refused('a'));
    message("0");
    cr_assert_str_eq(trail, "aa");
}

Test(waiters, a_refusal_that_a_message_has_overtaken_is_no_refusal)
{
    all_asleep("a");
    message("0");
    message("0"); /* while a's try is under way */
    cr_assert_not(refused('a'));
    rdl__waiter_sent(waiter('a'));
    cr_assert(refused('a'));
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_message_that_came_before_the_try_was_sent_does_not_count)
{
    all_asleep("a");
    message("0");
    message("0");
    rdl__waiter_sent(waiter('a')); /* only now */
    cr_assert(refused('a'));
}

Test(waiters, an_overtaken_refusal_counts_for_everybody_whose_try_is_under_way)
{
    all_asleep("abc");
    message("0");
    message("0");
    cr_assert_str_eq(trail, "ab");
    cr_assert_not(refused('a')); /* b's message came after a's try was sent */
    cr_assert(refused('b'));
}

/* ---- rule 2: acknowledgements ----------------------------------------------------------------------------------- */

Test(waiters, the_acknowledgement_of_the_subscription_makes_a_sleeper_try)
{
    join("a");
    cr_assert_str_eq(trail, "");
    acknowledge();
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_repeated_acknowledgement_makes_a_sleeper_try)
{
    all_asleep("ab");
    acknowledge();
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_refusal_that_an_acknowledgement_has_overtaken_is_no_refusal)
{
    all_asleep("a");
    message("0");
    acknowledge(); /* what was published while the subscription was away is not known */
    cr_assert_not(refused('a'));
}

/* ---- rule 3: the hint ------------------------------------------------------------------------------------------- */

Test(waiters, the_hint_wakes_the_first_at_its_moment)
{
    join_hint('a', 300);
    join("b");
    fake_loop_run(&loop, T0 + 300 * RDL__MS - 1);
    cr_assert_str_eq(trail, "");
    fake_loop_run(&loop, T0 + 300 * RDL__MS);
    cr_assert_str_eq(trail, "a");
}

Test(waiters, an_unknown_or_distant_hint_is_five_seconds)
{
    static const int64_t hints[] = {-1, 5001, 86400000, INT64_MAX};

    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        int64_t joined = loop.now;

        trail[0] = '\0';
        join_hint('a', hints[i]);
        fake_loop_run(&loop, joined + 5 * RDL__SEC - 1);
        cr_assert_str_eq(trail, "");
        fake_loop_run(&loop, joined + 5 * RDL__SEC);
        cr_assert_str_eq(trail, "a");
        go_away('a', false);
    }
}

Test(waiters, a_hint_of_nothing_does_not_spin)
{
    join_hint('a', 0);
    fake_loop_run(&loop, T0);
    cr_assert_str_eq(trail, "");
    fake_loop_run(&loop, T0 + RDL__MS);
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_refusal_sets_the_hint_anew)
{
    join_hint('a', 100);
    fake_loop_run(&loop, T0 + 100 * RDL__MS);
    cr_assert(rdl__waiter_refused(waiter('a'), 250, loop.now));
    fake_loop_run(&loop, T0 + 350 * RDL__MS - 1);
    cr_assert_str_eq(trail, "a");
    fake_loop_run(&loop, T0 + 350 * RDL__MS);
    cr_assert_str_eq(trail, "aa");
}

Test(waiters, the_hint_goes_on_for_the_others_when_the_woken_one_gets_no_answer)
{
    join_hint('a', 100);
    join("b");
    fake_loop_run(&loop, T0 + 100 * RDL__MS);
    cr_assert_str_eq(trail, "a");
    fake_loop_run(&loop, T0 + 100 * RDL__MS + 5 * RDL__SEC);
    cr_assert_str_eq(trail, "ab");
}

Test(waiters, the_hint_is_the_channels_and_outlives_who_brought_it)
{
    join_hint('a', 100);
    join("b");
    go_away('a', false);
    fake_loop_run(&loop, T0 + 100 * RDL__MS);
    cr_assert_str_eq(trail, "b");
}

/* ---- rule 4: handing on ----------------------------------------------------------------------------------------- */

Test(waiters, who_leaves_with_an_unused_wake_up_hands_it_on)
{
    all_asleep("abc");
    message("0");
    go_away('a', false);
    cr_assert_str_eq(trail, "ab");
    go_away('b', false);
    cr_assert_str_eq(trail, "abc");
}

Test(waiters, who_leaves_from_inside_the_wake_up_hands_it_on)
{
    all_asleep("abc");
    actors[0].reaction = actors[1].reaction = LEAVES;
    message("0");
    cr_assert_str_eq(trail, "abc");
    cr_assert(refused('c'));
}

Test(waiters, who_was_let_in_hands_nothing_on)
{
    all_asleep("ab");
    message("0");
    go_away('a', true);
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_wake_up_that_was_answered_by_a_refusal_is_used)
{
    all_asleep("ab");
    message("0");
    cr_assert(refused('a'));
    go_away('a', false);
    cr_assert_str_eq(trail, "a");
}

Test(waiters, a_wake_up_whose_refusal_was_overtaken_is_unused)
{
    all_asleep("ab");
    message("0");
    acknowledge(); /* wakes b */
    cr_assert_not(refused('a'));
    cr_assert(refused('b'));
    go_away('a', false);
    cr_assert_str_eq(trail, "abb");
}

Test(waiters, who_leaves_asleep_wakes_nobody)
{
    all_asleep("ab");
    go_away('a', false);
    cr_assert_str_eq(trail, "");
    message("0");
    cr_assert_str_eq(trail, "b");
}

Test(waiters, a_wake_up_by_the_hint_is_handed_on_as_well)
{
    join_hint('a', 100);
    join("b");
    fake_loop_run(&loop, T0 + 100 * RDL__MS);
    go_away('a', false);
    cr_assert_str_eq(trail, "ab");
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

Test(waiters, zero_wakes_one_and_in_order)
{
    all_asleep("abc");
    message("0");
    message("0");
    cr_assert_str_eq(trail, "ab");
}

Test(waiters, one_wakes_all_who_sleep_now)
{
    all_asleep("abcd");
    message("1");
    cr_assert_str_eq(trail, "abcd");
    message("1");
    cr_assert_str_eq(trail, "abcd");
}

Test(waiters, one_wakes_all_although_some_leave_meanwhile)
{
    all_asleep("abcd");
    actors[0].reaction = LEAVES;
    actors[2].reaction = LEAVES_USED;
    message("1");
    cr_assert_str_eq(trail, "abcd");
    cr_assert(refused('b'));
}

Test(waiters, one_wakes_all_and_the_last_to_leave_takes_the_channel_along)
{
    all_asleep("abc");
    for (int i = 0; i < 3; i++)
        actors[i].reaction = LEAVES;
    message("1");
    cr_assert_str_eq(trail, "abc");
    cr_assert_eq(sub.count, 0);
    cr_assert_eq(waiters.channels.count, 0);
}

Test(waiters, other_payloads_mean_nothing)
{
    static const struct {
        const char *bytes;
        size_t len;
    } payloads[] = {
        {.bytes = "", .len = 0},   {.bytes = "2", .len = 1},   {.bytes = "00", .len = 2}, {.bytes = "1\n", .len = 2},
        {.bytes = "-1", .len = 2}, {.bytes = "0\0", .len = 2}, {.bytes = "\0", .len = 1}, {.bytes = "x", .len = 1},
    };

    all_asleep("ab");
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++)
        publish(payloads[i].bytes, payloads[i].len);
    cr_assert_str_eq(trail, "");
    message("0");
    publish("2", 1);
    cr_assert(refused('a')); /* nor do they overtake a refusal */
}

Test(waiters, who_goes_back_to_sleep_keeps_its_place)
{
    all_asleep("abc");
    message("0");
    cr_assert(refused('a'));
    message("0");
    cr_assert_str_eq(trail, "aa");
}

/* ---- channels --------------------------------------------------------------------------------------------------- */

Test(waiters, a_channel_is_subscribed_while_somebody_waits)
{
    join("a");
    cr_assert_eq(sub.count, 1);
    cr_assert_eq(sub.topics[0]->node.key_len, 2);
    cr_assert_arr_eq(sub.topics[0]->node.key, "ch", 2);
    join("b");
    cr_assert_eq(sub.count, 1);
    go_away('a', false);
    cr_assert_eq(sub.count, 1);
    go_away('b', false);
    cr_assert_eq(sub.count, 0);
}

Test(waiters, those_who_only_poll_meet_without_a_subscription_and_are_told_one_by_one)
{
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('a'), "ch", 2, false, 30, T0), RDL_OK);
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('b'), "ch", 2, false, 50, T0), RDL_OK);
    cr_assert_eq(sub.count, 0);
    fake_loop_run(&loop, T0 + 29 * RDL__MS);
    cr_assert_str_eq(trail, "");
    fake_loop_run(&loop, T0 + 30 * RDL__MS);
    cr_assert_str_eq(trail, "a");
    cr_assert(rdl__waiter_refused(waiter('a'), 40, loop.now));
    fake_loop_run(&loop, T0 + 70 * RDL__MS);
    cr_assert_str_eq(trail, "aa");
    go_away('a', false); /* its wake-up goes to the next */
    cr_assert_str_eq(trail, "aab");
}

Test(waiters, names_are_bytes_and_channels_do_not_mix)
{
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('a'), "x\0y", 3, true, -1, T0), RDL_OK);
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('b'), "x\0z", 3, true, -1, T0), RDL_OK);
    cr_assert_eq(sub.count, 2);
    sub.topics[1]->ops->message(sub.topics[1], "1", 1, T0);
    (void)turn();
    cr_assert_str_eq(trail, "b");
}

Test(waiters, leaving_without_having_joined_is_nothing)
{
    rdl__waiter_sent(waiter('a'));
    go_away('a', false);
    go_away('a', true);
}

Test(waiters, joining_without_memory_fails_and_leaves_nothing)
{
    counting_alloc_fail_at(&counting, 1);
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('a'), "ch", 2, true, -1, T0), RDL_ENOMEM);
    cr_assert_eq(sub.count, 0);
    go_away('a', false);
    join("a");
    cr_assert_eq(sub.count, 1);
}

Test(waiters, ten_thousand_channels_come_and_go)
{
    static struct actor many[TOPICS_MAX];

    for (int i = 0; i < TOPICS_MAX; i++) {
        char name[16];
        size_t len = (size_t)snprintf(name, sizeof name, "ch:%d", i);

        rdl__waiter_init(&many[i].waiter, &actor_ops);
        cr_assert_eq(rdl__waiter_join(&waiters, &many[i].waiter, name, len, true, -1, T0), RDL_OK);
    }
    cr_assert_eq(sub.count, TOPICS_MAX);
    for (int i = 0; i < TOPICS_MAX; i++)
        rdl__waiter_leave(&many[i].waiter, false, T0);
    cr_assert_eq(sub.count, 0);
}

/* ---- 100,000 who wait ------------------------------------------------------------------------------------------- */

/* N3. What befalls all of them at once takes no stack for each, and time by their number, not by its square: a tenth of
 * them goes first, to compare. */

enum { CROWD = 100000, TENTH = CROWD / 10 };

static struct actor crowd[CROWD];

static void on_crowd_go(struct rdl__waiter *waiter, int64_t now)
{
    struct actor *a = rdl__container(waiter, struct actor, waiter);

    a->goes++;
    if (a->reaction == TRIES)
        rdl__waiter_sent(waiter);
    else
        rdl__waiter_leave(waiter, a->reaction == LEAVES_USED, now);
}

static const struct rdl__waiter_ops crowd_ops = {.go = on_crowd_go};

/* The i-th to wait. */
static struct rdl__waiter *one_of(int i)
{
    return &crowd[i].waiter;
}

static void crowd_joins(int n, enum rdl__news news, enum reaction reaction)
{
    for (int i = 0; i < n; i++) {
        rdl__waiter_init(one_of(i), &crowd_ops);
        one_of(i)->news = (unsigned char)news;
        one_of(i)->shares = news == RDL__NEWS_SIDES;
        one_of(i)->wish = news == RDL__NEWS_TOTAL && i % 2 == 0 ? CROWD : 1;
        crowd[i].reaction = reaction;
        crowd[i].goes = 0;
        cr_assert_eq(rdl__waiter_join(&waiters, one_of(i), "ch", 2, true, -1, loop.now), RDL_OK);
    }
}

static void crowd_leaves(int n)
{
    for (int i = 0; i < n; i++)
        rdl__waiter_leave(one_of(i), false, loop.now);
    (void)turn();
    cr_assert_eq(sub.count, 0);
}

static int crowd_goes(int n)
{
    int goes = 0;

    for (int i = 0; i < n; i++)
        goes += crowd[i].goes;
    return goes;
}

static void each_hands_the_wake_up_on(int n)
{
    crowd_joins(n, RDL__NEWS_WAKE, LEAVES);
    message("0");
    cr_assert_eq(crowd_goes(n), n);
    crowd_leaves(n);
}

static void each_ends_before_it_could_go(int n)
{
    turns_end_by_chance = true;
    crowd_joins(n, RDL__NEWS_WAKE, TRIES);
    message("0");
    crowd_leaves(n);
    turns_end_by_chance = false;
    cr_assert_eq(crowd_goes(n), 0);
}

static void the_first_to_share_lets_the_others_in(int n)
{
    crowd_joins(n, RDL__NEWS_SIDES, LEAVES_USED);
    message("");
    cr_assert_eq(crowd_goes(n), n);
    crowd_leaves(n);
}

static void all_try_and_are_refused(int n)
{
    crowd_joins(n, RDL__NEWS_ALL, TRIES);
    for (int round = 1; round <= 3; round++) {
        message("");
        cr_assert_eq(crowd_goes(n), round * n);
        for (int i = 0; i < n; i++)
            cr_assert(rdl__waiter_refused(one_of(i), -1, loop.now));
    }
    crowd_leaves(n);
}

/* Every second one wants more than there will ever be. */
static void all_who_fit_try_and_are_refused(int n)
{
    char total[24];

    (void)snprintf(total, sizeof total, "%d", n / 2);
    crowd_joins(n, RDL__NEWS_TOTAL, TRIES);
    acknowledge(); /* wakes the first, who wants too much */
    rdl__waiter_told(one_of(0), 0);
    cr_assert(rdl__waiter_refused(one_of(0), -1, loop.now));
    for (int round = 1; round <= 3; round++) {
        message(total);
        cr_assert_eq(crowd_goes(n), 1 + round * (n / 2));
        for (int i = 0; i < n; i++) {
            if (!crowd[i].waiter.woken)
                continue;
            rdl__waiter_told(one_of(i), 0);
            cr_assert(rdl__waiter_refused(one_of(i), -1, loop.now));
        }
    }
    message(total);
    crowd_leaves(n);
}

static int64_t cpu_us(void)
{
    struct timespec spent;

    cr_assert_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent), 0);
    return spent.tv_sec * 1000000 + spent.tv_nsec / 1000;
}

static void expect_linear(void (*befall)(int n), const char *what)
{
    int64_t start = cpu_us(), tenth;

    befall(TENTH);
    tenth = cpu_us() - start;
    befall(CROWD);
    cr_assert_lt(cpu_us() - start - tenth, 50 * tenth + 100000, "%s", what); /* a square would be 100 */
}

#define EXPECT_LINEAR(befall) expect_linear(befall, #befall)

Test(waiters, N3_a_crowd_is_woken_and_leaves_without_recursion_in_linear_time)
{
    EXPECT_LINEAR(each_hands_the_wake_up_on);
    EXPECT_LINEAR(each_ends_before_it_could_go);
    EXPECT_LINEAR(the_first_to_share_lets_the_others_in);
}

Test(waiters, N3_a_crowd_that_tries_in_vain_is_back_in_its_places_in_linear_time)
{
    EXPECT_LINEAR(all_try_and_are_refused);
    EXPECT_LINEAR(all_who_fit_try_and_are_refused);
}

/* ---- a world where chance decides what happens next ------------------------------------------------------------- */

/* A server with one lock and a subscription, and a process with some callers. Requests, answers and messages are under
 * way for any time; the subscription breaks and comes back; callers cancel. The hint timer never fires here: messages
 * and acknowledgements alone must get everybody in. */

enum { CALLERS = 4, QUEUE_MAX = 64, STEPS = 400 };

enum phase { IDLE, TRYING, ASLEEP, HOLDING, GAVE_UP /* and its request may still be under way */ };
enum request { NOTHING, TRY, TRY_UNDONE /* a try and, behind it, what undoes it */, GRANTED, REFUSED };
enum news { SUBSCRIBED, MESSAGE_0, MESSAGE_1 };

struct caller {
    struct rdl__waiter waiter;
    enum phase phase;
    enum request request;
};

static struct {
    struct rdl__rand rand;
    struct caller callers[CALLERS];
    int waiting;            /* callers that have not got in, as the process counts them */
    struct caller *holder;  /* at the server; NULL: free, or the stranger has it */
    bool stranger;          /* another process holds it */
    bool connected;         /* the subscriber is */
    bool asked, subscribed; /* SUBSCRIBE is under way; the server has carried it out */
    enum news queue[QUEUE_MAX];
    size_t queued;
    int grants;
} world;

static size_t chance(size_t bound)
{
    return (size_t)rdl__rand_below(&world.rand, bound);
}

static void enqueue(enum news news)
{
    if (!world.subscribed)
        return;
    cr_assert_lt(world.queued, QUEUE_MAX);
    world.queue[world.queued++] = news;
}

static void send_try(struct caller *c)
{
    cr_assert_eq(c->request, NOTHING);
    rdl__waiter_sent(&c->waiter);
    c->phase = TRYING;
    c->request = TRY;
}

static void on_caller_go(struct rdl__waiter *w, int64_t now)
{
    (void)now;
    send_try(rdl__container(w, struct caller, waiter));
}

static const struct rdl__waiter_ops caller_ops = {.go = on_caller_go};

static void fall_asleep(struct caller *c)
{
    size_t before = sub.count;

    cr_assert_eq(rdl__waiter_join(&waiters, &c->waiter, "ch", 2, true, -1, loop.now), RDL_OK);
    c->phase = ASLEEP;
    if (before == 0)
        world.asked = world.connected;
}

static void forget_subscription_if_unused(void)
{
    if (sub.count != 0)
        return;
    world.asked = world.subscribed = false;
    world.queued = 0;
}

static void start(struct caller *c)
{
    if (c->phase != IDLE)
        return;
    if (world.waiting++ > 0)
        fall_asleep(c);
    else
        send_try(c);
}

static void leave(struct caller *c, bool used)
{
    world.waiting--;
    rdl__waiter_leave(&c->waiter, used, loop.now);
    forget_subscription_if_unused();
}

static void cancel(struct caller *c)
{
    if (c->phase == ASLEEP) {
        c->phase = IDLE;
        leave(c, false);
    } else if (c->phase == TRYING) {
        c->phase = GAVE_UP;
        if (c->request == TRY)
            c->request = TRY_UNDONE;
        leave(c, false);
    }
}

static bool is_free(void)
{
    return world.holder == NULL && !world.stranger;
}

static void release_at_server(void)
{
    world.holder = NULL;
    world.stranger = false;
    enqueue(chance(8) == 0 ? MESSAGE_1 : MESSAGE_0);
}

/* The server carries a request out. */
static void serve(struct caller *c)
{
    if (c->request == TRY) {
        c->request = is_free() ? GRANTED : REFUSED;
        if (c->request == GRANTED)
            world.holder = c;
    } else if (c->request == TRY_UNDONE) {
        c->request = NOTHING;
        c->phase = IDLE;
        if (is_free())
            release_at_server();
    }
}

/* An answer arrives. */
static void answer(struct caller *c)
{
    enum request got = c->request;

    if (got != GRANTED && got != REFUSED)
        return;
    c->request = NOTHING;
    if (c->phase == GAVE_UP) {
        c->phase = IDLE;
        if (got == GRANTED)
            release_at_server();
    } else if (got == GRANTED) {
        c->phase = HOLDING;
        world.grants++;
        leave(c, true);
    } else if (c->waiter.channel == NULL) {
        fall_asleep(c);
    } else if (rdl__waiter_refused(&c->waiter, -1, loop.now)) {
        c->phase = ASLEEP;
    } else {
        send_try(c);
    }
}

static void unlock(struct caller *c)
{
    if (c->phase != HOLDING)
        return;
    c->phase = IDLE;
    release_at_server();
}

/* The subscriber's connection: SUBSCRIBE is carried out, a message is read, the connection breaks, or comes back. */
static void subscribe_at_server(void)
{
    if (!world.asked)
        return;
    world.asked = false;
    world.subscribed = true;
    enqueue(SUBSCRIBED);
}

static void read_news(void)
{
    enum news news = world.queue[0];

    if (world.queued == 0)
        return;
    world.queued--;
    memmove(world.queue, world.queue + 1, world.queued * sizeof *world.queue);
    if (news == SUBSCRIBED)
        acknowledge();
    else
        message(news == MESSAGE_0 ? "0" : "1");
}

static void disconnect(void)
{
    world.connected = world.asked = world.subscribed = false;
    world.queued = 0;
}

static void reconnect(void)
{
    if (world.connected)
        return;
    world.connected = true;
    world.asked = sub.count != 0;
}

static void any_step(void)
{
    struct caller *c = &world.callers[chance(CALLERS)];

    switch (chance(16)) {
    case 0:
    case 1:
        start(c);
        break;
    case 2:
        cancel(c);
        break;
    case 3:
    case 4:
        unlock(c);
        break;
    case 5:
    case 6:
    case 7:
        serve(c);
        break;
    case 8:
    case 9:
        answer(c);
        break;
    case 10:
    case 11:
        read_news();
        break;
    case 12:
        subscribe_at_server();
        break;
    case 13:
        if (chance(4) == 0)
            disconnect();
        break;
    case 14:
        reconnect();
        break;
    default:
        if (world.stranger)
            release_at_server();
        else if (is_free() && chance(3) == 0)
            world.stranger = true;
        break;
    }
}

static bool settled(void)
{
    bool any = world.queued != 0 || world.asked || world.stranger;

    for (int i = 0; i < CALLERS; i++)
        any = any || world.callers[i].request != NOTHING || world.callers[i].phase == HOLDING;
    return !any;
}

/* Nobody comes any more, and everything that is under way arrives. */
static void let_settle(void)
{
    reconnect();
    for (int rounds = 0; turn() || !settled(); rounds++) {
        cr_assert_lt(rounds, 1000);
        if (world.stranger)
            release_at_server();
        subscribe_at_server();
        read_news();
        for (int i = 0; i < CALLERS; i++) {
            serve(&world.callers[i]);
            answer(&world.callers[i]);
            unlock(&world.callers[i]);
        }
    }
}

Test(waiters, nobody_sleeps_beside_a_free_lock_whatever_chance_does)
{
    int grants = 0;

    turns_end_by_chance = true;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        memset(&world, 0, sizeof world);
        world.rand.state = seed;
        world.connected = true;
        for (int i = 0; i < CALLERS; i++)
            rdl__waiter_init(&world.callers[i].waiter, &caller_ops);
        for (int i = 0; i < STEPS; i++) {
            any_step();
            if (chance(4) > 0)
                (void)turn();
        }
        let_settle();
        for (int i = 0; i < CALLERS; i++)
            cr_assert_eq(world.callers[i].phase, IDLE, "seed %llu: caller %d sleeps, the lock is free",
                         (unsigned long long)seed, i);
        cr_assert_eq(sub.count, 0);
        grants += world.grants;
    }
    cr_assert_gt(grants, 50000, "%d grants are too few to mean anything", grants);
}

/* ---- wishes: a semaphore's channel ------------------------------------------------------------------------------ */

/* What the messages and answers are about: so much is free. */
static void wish(const char *letters, uint32_t much, enum rdl__news news, bool in_order)
{
    for (; *letters != '\0'; letters++) {
        waiter(*letters)->wish = much;
        waiter(*letters)->news = (unsigned char)news;
        waiter(*letters)->in_order = in_order;
    }
}

static void refused_with(char letter, int64_t total)
{
    rdl__waiter_told(waiter(letter), total);
    cr_assert(refused(letter));
}

Test(waiters, total_wakes_in_order_all_whose_wishes_fit)
{
    wish("a", 5, RDL__NEWS_TOTAL, false);
    wish("bcd", 1, RDL__NEWS_TOTAL, false);
    join("abcd");
    message("2");
    cr_assert_str_eq(trail, "bc");
}

Test(waiters, answer_tells_the_others_what_is_left)
{
    wish("a", 3, RDL__NEWS_SOME, false);
    wish("bc", 1, RDL__NEWS_SOME, false);
    join("abc");
    message("7");
    cr_assert_str_eq(trail, "a");
    refused_with('a', 2);
    cr_assert_str_eq(trail, "abc");
    refused_with('c', 0);
    cr_assert_str_eq(trail, "abc");
}

Test(waiters, nobody_passes_in_order_and_who_is_next_looks_when_the_first_has_left)
{
    wish("a", 3, RDL__NEWS_TOTAL, true);
    wish("b", 1, RDL__NEWS_TOTAL, true);
    join("ab");
    message("2");
    cr_assert_str_eq(trail, "");
    message("3");
    cr_assert_str_eq(trail, "a");
    rdl__waiter_told(waiter('a'), 0);
    go_away('a', true);
    cr_assert_str_eq(trail, "ab");
}

Test(waiters, news_for_all_wakes_all_and_odd_totals_nobody)
{
    wish("abc", 1, RDL__NEWS_ALL, false);
    join("abc");
    message("0");
    cr_assert_str_eq(trail, "abc");
    for (const char *letter = "abc"; *letter != '\0'; letter++)
        go_away(*letter, true);
    trail[0] = '\0';
    wish("a", 1, RDL__NEWS_TOTAL, false);
    join("a");
    message("0");
    message("-3");
    message("x");
    cr_assert_str_eq(trail, "");
}

/* A world by chance: a server with so many permits, callers who want some, a line each for requests, replies and
 * messages. Hints never come. When all lines are empty, nobody may sleep beside what it wants. */
enum { GUESTS = 5, LINE = 512 };

enum guest_state { AWAY, ON_LINE, IN_BED, INSIDE };

struct guest {
    struct rdl__waiter waiter;
    enum guest_state state;
};

static struct {
    struct rdl__rand rand;
    struct guest guests[GUESTS];
    bool in_order, unacknowledged;
    enum rdl__news news;
    int64_t free;
    struct guest *requests[LINE];
    struct {
        struct guest *guest;
        bool taken;
        int64_t total;
    } replies[LINE];
    int64_t messages[LINE];
    size_t requests_at, requests_end, replies_at, replies_end, messages_at, messages_end;
} inn;

static void guest_sends(struct guest *g)
{
    g->state = ON_LINE;
    rdl__waiter_sent(&g->waiter);
    inn.requests[inn.requests_end++ % LINE] = g;
}

static void guest_leaves(struct guest *g, enum guest_state state)
{
    g->state = state;
    rdl__waiter_leave(&g->waiter, state == INSIDE, loop.now);
}

static void guest_goes(struct rdl__waiter *w, int64_t now)
{
    struct guest *g = rdl__container(w, struct guest, waiter);

    (void)now;
    if (rdl__rand_below(&inn.rand, 8) == 0)
        guest_leaves(g, AWAY);
    else
        guest_sends(g);
}

static const struct rdl__waiter_ops guest_ops = {.go = guest_goes};

static void guest_joins(struct guest *g)
{
    bool first = sub.count == 0;
    int rc;

    g->state = IN_BED;
    rc = rdl__waiter_join(&waiters, &g->waiter, "inn", 3, true, -1, loop.now);
    cr_assert_geq(rc, 0);
    inn.unacknowledged = inn.unacknowledged || first;
    if (rc == 1)
        guest_sends(g);
}

static bool somebody_waits(void)
{
    return sub.count > 0;
}

static void guest_comes(struct guest *g)
{
    rdl__waiter_init(&g->waiter, &guest_ops);
    g->waiter.wish = 1 + (uint32_t)rdl__rand_below(&inn.rand, 4);
    g->waiter.news = (unsigned char)inn.news;
    g->waiter.in_order = inn.in_order;
    if (inn.in_order && somebody_waits())
        guest_joins(g);
    else
        guest_sends(g);
}

static void more_is_free(int64_t much)
{
    inn.free += much;
    inn.messages[inn.messages_end++ % LINE] = inn.news == RDL__NEWS_TOTAL ? inn.free : much;
}

static void serve_guest(void)
{
    struct guest *g = inn.requests[inn.requests_at++ % LINE];
    bool taken = inn.free >= g->waiter.wish;

    if (taken)
        inn.free -= g->waiter.wish;
    inn.replies[inn.replies_end % LINE].guest = g;
    inn.replies[inn.replies_end % LINE].taken = taken;
    inn.replies[inn.replies_end++ % LINE].total = inn.free;
}

static void hear_reply(void)
{
    size_t i = inn.replies_at++ % LINE;
    struct guest *g = inn.replies[i].guest;

    rdl__waiter_told(&g->waiter, inn.replies[i].total);
    if (inn.replies[i].taken) {
        guest_leaves(g, INSIDE);
    } else if (g->waiter.channel == NULL) {
        guest_joins(g);
    } else {
        g->state = IN_BED;
        if (!rdl__waiter_refused(&g->waiter, -1, loop.now))
            guest_sends(g);
    }
}

static void hear_message(void)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRId64, inn.messages[inn.messages_at++ % LINE]);
    if (sub.count > 0 && sub.topics[0]->confirmed)
        message(text);
}

static void hear_acknowledgement(void)
{
    inn.unacknowledged = false;
    if (sub.count == 0)
        return;
    sub.topics[0]->confirmed = true;
    acknowledge();
}

static bool something_is_on_its_way(void)
{
    switch (rdl__rand_below(&inn.rand, 4)) {
    case 0:
        if (inn.requests_at != inn.requests_end)
            serve_guest();
        break;
    case 1:
        if (inn.replies_at != inn.replies_end)
            hear_reply();
        break;
    case 2:
        if (inn.messages_at != inn.messages_end)
            hear_message();
        break;
    default:
        if (inn.unacknowledged)
            hear_acknowledgement();
        break;
    }
    return inn.requests_at != inn.requests_end || inn.replies_at != inn.replies_end ||
           inn.messages_at != inn.messages_end || inn.unacknowledged;
}

static void somebody_acts(void)
{
    struct guest *g = &inn.guests[rdl__rand_below(&inn.rand, GUESTS)];

    if (g->state == AWAY) {
        guest_comes(g);
    } else if (g->state == INSIDE) {
        g->state = AWAY;
        more_is_free(g->waiter.wish);
    } else if (g->state == IN_BED && rdl__rand_below(&inn.rand, 8) == 0) {
        guest_leaves(g, AWAY);
    }
}

static void nobody_sleeps_beside_what_it_wants(uint64_t seed)
{
    const struct guest *first = NULL;

    for (size_t i = 0; i < GUESTS; i++) {
        const struct guest *g = &inn.guests[i];

        if (g->state != IN_BED)
            continue;
        if (first == NULL || (int32_t)(g->waiter.place - first->waiter.place) < 0)
            first = g;
        if (!inn.in_order)
            cr_assert_gt(g->waiter.wish, inn.free, "seed %" PRIu64, seed);
    }
    if (first != NULL)
        cr_assert_gt(first->waiter.wish, inn.free, "seed %" PRIu64, seed);
}

static void play_inn(uint64_t seed)
{
    memset(&inn, 0, sizeof inn);
    inn.rand.state = seed;
    inn.in_order = rdl__rand_below(&inn.rand, 2) == 0;
    inn.news = rdl__rand_below(&inn.rand, 2) == 0 ? RDL__NEWS_TOTAL : RDL__NEWS_SOME;
    inn.free = (int64_t)rdl__rand_below(&inn.rand, 6);
    for (size_t i = 0; i < GUESTS; i++)
        rdl__waiter_init(&inn.guests[i].waiter, &guest_ops);
    for (int round = 0; round < 6; round++) {
        for (int step = 0; step < 20; step++) {
            if (rdl__rand_below(&inn.rand, 3) == 0)
                somebody_acts();
            (void)something_is_on_its_way();
            if (rdl__rand_below(&inn.rand, 4) > 0)
                (void)turn();
        }
        while (something_is_on_its_way() || turn())
            ;
        nobody_sleeps_beside_what_it_wants(seed);
    }
    for (size_t i = 0; i < GUESTS; i++)
        rdl__waiter_leave(&inn.guests[i].waiter, true, loop.now);
    for (size_t i = 0; i < GUESTS; i++) /* whoever was woken by that */
        rdl__waiter_leave(&inn.guests[i].waiter, true, loop.now);
}

Test(waiters, nobody_sleeps_beside_permits_that_would_do)
{
    turns_end_by_chance = true;
    for (uint64_t seed = 1; seed <= 20000; seed++)
        play_inn(seed);
}

/* ---- a channel of one's own ------------------------------------------------------------------------------------- */

/* Come to one's own channel after a try that was sent at `tried_at` and refused. */
static int come_home(char letter, int64_t tried_at)
{
    waiter(letter)->news = RDL__NEWS_OWN;
    waiter(letter)->tried_at = tried_at;
    return rdl__waiter_join(&waiters, waiter(letter), "home", 4, true, -1, loop.now);
}

static void acknowledge_now(void)
{
    sub.topics[0]->confirmed = true;
    acknowledge();
}

/* It has waited there, and left. */
static void has_been_home(char letter)
{
    cr_assert_eq(come_home(letter, loop.now), RDL_OK);
    acknowledge_now();
    go_away(letter, true);
    trail[0] = '\0';
}

static void expect_said(char letter, const char *words)
{
    size_t len;
    const char *said = rdl__waiter_said(waiter(letter), &len);

    cr_assert_eq(len, strlen(words));
    cr_assert(len == 0 || memcmp(said, words, len) == 0);
}

Test(waiters, own_channel_stays_subscribed_for_a_while_for_who_comes_again)
{
    has_been_home('a');
    cr_assert_eq(sub.count, 1);
    fake_loop_run(&loop, T0 + (RDL__LINGER_MS - 1) * RDL__MS);
    cr_assert_eq(sub.count, 1);
    fake_loop_run(&loop, T0 + RDL__LINGER_MS * RDL__MS);
    cr_assert_eq(sub.count, 0);
    cr_assert_str_eq(trail, "");
}

Test(waiters, who_comes_again_sleeps_if_nothing_was_heard_since_its_try_and_then_the_channel_stays)
{
    has_been_home('a');
    fake_loop_run(&loop, T0 + 4000 * RDL__MS);
    cr_assert_eq(come_home('a', T0 + 1), RDL_OK);
    fake_loop_run(&loop, T0 + RDL__LINGER_MS * RDL__MS);
    cr_assert_eq(sub.count, 1);
    cr_assert_str_eq(trail, "");
    message("7:1:0");
    cr_assert_str_eq(trail, "a");
    expect_said('a', "7:1:0");
}

Test(waiters, who_comes_again_looks_at_once_if_anything_was_heard_since_its_try)
{
    has_been_home('a');
    cr_assert_eq(come_home('a', T0), 1); /* acknowledged at that moment, or after it */
    go_away('a', true);
    loop.now = T0 + 10;
    message("7:1:0");
    cr_assert_eq(come_home('a', T0 + 5), 1);
    expect_said('a', "7:1:0");
    go_away('a', true);
    cr_assert_eq(come_home('a', T0 + 11), RDL_OK);
}

Test(waiters, who_comes_again_without_a_try_looks_at_once)
{
    has_been_home('a');
    cr_assert_eq(come_home('a', 0), 1);
}

Test(waiters, who_comes_again_to_a_broken_subscription_is_woken_by_its_acknowledgement)
{
    has_been_home('a');
    sub.topics[0]->confirmed = false;
    cr_assert_eq(come_home('a', T0), RDL_OK);
    acknowledge_now();
    cr_assert_str_eq(trail, "a");
}

Test(waiters, words_are_kept_as_they_came_and_cut_where_they_are_too_long)
{
    char many[RDL__SAID_MAX + 2];

    memset(many, 'x', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    expect_said('a', "");
    cr_assert_eq(come_home('a', T0), RDL_OK);
    expect_said('a', "");
    message(many);
    many[RDL__SAID_MAX] = '\0';
    expect_said('a', many);
    message("0");
    expect_said('a', "0");
}

Test(waiters, no_more_than_so_many_channels_linger_and_the_oldest_go)
{
    static struct actor many[RDL__LINGER_MAX + 1];
    char name[24];

    for (int i = 0; i <= RDL__LINGER_MAX; i++) {
        (void)snprintf(name, sizeof name, "home:%02d", i);
        rdl__waiter_init(&many[i].waiter, &actor_ops);
        many[i].waiter.news = RDL__NEWS_OWN;
        cr_assert_eq(rdl__waiter_join(&waiters, &many[i].waiter, name, strlen(name), true, -1, T0), RDL_OK);
    }
    for (int i = 0; i <= RDL__LINGER_MAX; i++)
        rdl__waiter_leave(&many[i].waiter, true, T0);
    cr_assert_eq(sub.count, RDL__LINGER_MAX);
    for (size_t i = 0; i < sub.count; i++)
        cr_assert_neq(memcmp(sub.topics[i]->node.key, "home:00", 7), 0);
    rdl__waiters_sweep(&waiters);
    cr_assert_eq(sub.count, 0);
}

Test(waiters, nothing_lingers_when_that_is_closed)
{
    has_been_home('a');
    rdl__waiters_close(&waiters);
    cr_assert_eq(sub.count, 0);
    has_been_home('a');
    cr_assert_eq(sub.count, 0);
}

/* ---- listeners -------------------------------------------------------------------------------------------------- */

static void listens(char letter)
{
    actors[letter - 'a'].reaction = LISTENS;
    waiter(letter)->listens = true;
}

Test(waiters, listeners_hear_every_message_and_acknowledgement_and_take_nobodys_turn)
{
    listens('a');
    listens('d');
    join("abcd");
    acknowledge();
    cr_assert_str_eq(trail, "bad");
    cr_assert(refused('b'));
    trail[0] = '\0';
    message("0");
    cr_assert_str_eq(trail, "bad");
    message("0");
    cr_assert_str_eq(trail, "badcad");
    message("something else");
    cr_assert_str_eq(trail, "badcadad");
}

Test(waiters, listener_hears_nothing_of_the_hint_and_sets_none)
{
    listens('a');
    join("a");
    join_hint('b', 100);
    acknowledge();
    cr_assert(rdl__waiter_refused(waiter('b'), 100, loop.now));
    message("something else"); /* after which the listener goes back to sleep */
    trail[0] = '\0';
    fake_loop_run(&loop, loop.now + 100 * RDL__MS);
    cr_assert_str_eq(trail, "b");
}

/* A message that came after its refusal found only the listener. */
Test(waiters, first_to_join_a_listener_tries_once_more)
{
    listens('a');
    join("a");
    acknowledge();
    sub.topics[0]->confirmed = true;
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('b'), "ch", 2, true, -1, loop.now), 1);
    rdl__waiter_sent(waiter('b'));
    cr_assert(refused('b'));
    join("c"); /* what wakes the other reaches it in turn */
}

Test(waiters, who_joins_to_listen_to_a_confirmed_channel_is_told_at_once)
{
    all_asleep("b");
    sub.topics[0]->confirmed = true;
    listens('a');
    cr_assert_eq(rdl__waiter_join(&waiters, waiter('a'), "ch", 2, true, -1, loop.now), 1);
}

Test(waiters, listener_that_leaves_when_told_takes_the_channel_along)
{
    listens('a');
    join("a");
    actors[0].reaction = LEAVES;
    acknowledge();
    cr_assert_eq(sub.count, 0);
}
