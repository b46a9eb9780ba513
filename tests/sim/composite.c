/* SPDX-License-Identifier: MIT */
/* composite.c - random runs of composite locks: several servers, parties that have a client at each, and callers who
 * take multi-locks over sets of names that overlap, or one red lock.
 *
 * The members of a composite are ordinary locks, which plan.c uses before all checkers. What is claimed here is
 * what is added: whoever believes to hold a composite excludes all who have a name in common with it; what is free is
 * taken; what failed or was given back leaves nothing; every call is answered once. A caller believes from the answer
 * until it calls its unlock, or until its client says otherwise.
 *
 * Servers crash and come back, of a red lock's also empty; they stop; parties stop, crash, are cut off and closed. What
 * a multi-lock holds a server must not forget: there they come back as they were. A red lock's server that comes back
 * empty does not count before it is old enough, so a world's servers begin old.
 *
 * In half of the runs of a red lock in which nothing goes wrong, pauses are longer than the run, and no lease ends by
 * itself: who waits must be woken.
 *
 * In a world of threads callers are some, clients are opened without interruptions, and the only faults are those of
 * connections, where the scheduler says.
 *
 * Names are few and runs are short, as in plan.c. To add a fault: a function and a row in `faults`.
 */
#include "tests/sim/composite.h"

#include "tests/sim/composite_impl.h"
#include "tests/sim/kinds.h"
#include "tests/sim/mishaps.h"
#include "tests/sim/net.h"
#include "tests/sim/seams.h"
#include "tests/sim/server.h"
#include "tests/sim/world.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <string.h>

struct composite_run composite;
static const struct composite_threads *threads; /* of this run; NULL: none */
static bool even_seed;                          /* so that nothing else is drawn for it */
static struct counting_alloc memory;
static rdl_allocator_t hooks;

/* How long until everybody knows what is there, after the last fault. */
static int64_t find_out_ns(void)
{
    return (composite.options.connect_timeout_ms + 2 * composite.options.command_timeout_ms +
            composite.options.ping_interval_ms + composite.options.reconnect_max_ms) *
               RDL__MS +
           4 * net_connect_time() + 4 * net_round_trip();
}

/* ---- verbs ------------------------------------------------------------------------------------------------------ */

static void on_answer(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct caller *caller = arg;

    (void)lock;
    check_callback(caller->starter, result, err, caller->name, "the call");
    if (++caller->answers > 1)
        violated("each asynchronous call calls back once", "%s", caller->name);
    caller->answered = true;
    caller->result = result;
    if (caller->waiter != NULL)
        fibre_wake(caller->waiter, 0);
}

enum verb { TAKE, RELEASE, EXTEND, IS_LOCKED };

static const char *const verbs[] = {"take", "release", "extend", "is_locked"};

static int64_t call_blocking(const struct caller *caller, enum verb verb, int64_t wait_ms, int64_t lease_ms)
{
    rdl_lock_t *lock = caller->party->lock[caller->lock];

    switch (verb) {
    case TAKE:
        return rdl_try_lock(lock, wait_ms, lease_ms, NULL);
    case RELEASE:
        return rdl_unlock(lock, NULL);
    case EXTEND:
        return rdl_extend(lock, lease_ms, NULL);
    case IS_LOCKED:
        break;
    }
    return rdl_is_locked(lock, NULL);
}

static int start(struct caller *caller, enum verb verb, int64_t wait_ms, int64_t lease_ms, rdl_op_t **ret_op)
{
    rdl_lock_t *lock = caller->party->lock[caller->lock];

    switch (verb) {
    case TAKE:
        return rdl_try_lock_async(lock, caller->owner, wait_ms, lease_ms, on_answer, caller, ret_op, NULL);
    case RELEASE:
        return rdl_unlock_async(lock, caller->owner, on_answer, caller, ret_op, NULL);
    case EXTEND:
        return rdl_extend_async(lock, caller->owner, lease_ms, on_answer, caller, ret_op, NULL);
    case IS_LOCKED:
        break;
    }
    return rdl_is_locked_async(lock, caller->owner, on_answer, caller, ret_op, NULL);
}

struct cancellation {
    struct event event;
    int64_t ns;
    rdl_op_t *op;
};

static void on_cancellation(struct event *e)
{
    rdl_op_cancel(rdl__container(e, struct cancellation, event)->op);
}

static void cancel_later(void *arg)
{
    const struct cancellation *c = arg;

    fibre_sleep(c->ns);
    rdl_op_cancel(c->op);
}

/* cancel_ns: when to cancel it; 0: not at all. */
static int64_t call_async(struct caller *caller, enum verb verb, int64_t wait_ms, int64_t lease_ms, int64_t cancel_ns)
{
    struct cancellation c = {.ns = cancel_ns};
    struct fibre *canceler = NULL;
    int rc;

    caller->answered = false;
    caller->answers = 0;
    caller->starter = fibre_here();
    rc = start(caller, verb, wait_ms, lease_ms, &c.op);
    caller->starter = NULL;
    if (rc < 0)
        return rc;
    event_init(&c.event, on_cancellation, &caller->party->process);
    if (cancel_ns > 0 && threads != NULL)
        canceler = thread_start(&caller->party->process, cancel_later, &c);
    else if (cancel_ns > 0)
        event_at(&c.event, world_now() + cancel_ns);
    while (!caller->answered) {
        caller->waiter = fibre_here();
        fibre_wait(RDL__NEVER);
        caller->waiter = NULL;
    }
    event_off(&c.event);
    fibre_join(canceler);
    (void)rdl_op_free(c.op);
    return caller->result;
}

static int64_t call_and_wait(struct caller *caller, enum verb verb, int64_t wait_ms, int64_t lease_ms,
                             int64_t cancel_ns)
{
    int64_t result;

    composite.operations++;
    say("%s calls %s %zu, wait %lld, lease %lld", caller->name, verbs[verb], caller->lock, (long long)wait_ms,
        (long long)lease_ms);
    result = caller->owner != NULL ? call_async(caller, verb, wait_ms, lease_ms, cancel_ns)
                                   : call_blocking(caller, verb, wait_ms, lease_ms);
    say("%s: %s %zu answers %s", caller->name, verbs[verb], caller->lock,
        result > 0 ? "yes" : rdl_err_name((int)result));
    return result;
}

/* ---- what callers do -------------------------------------------------------------------------------------------- */

static bool goes_on(const struct caller *caller)
{
    return !caller->party->dead && !caller->party->ending;
}

static int64_t any_wait(void)
{
    static const int64_t longest[] = {0, 10, 200};
    unsigned which = (unsigned)draw(6);

    return which < 3 ? (int64_t)draw((uint64_t)longest[which] + 1) : RDL_WAIT_FOREVER;
}

static int64_t any_lease(void)
{
    uint64_t which = draw(8);

    switch (composite.unasked ? 7 : which) {
    case 0:
        return draw_from(20, 60);
    case 1:
    case 2:
        return draw_from(100, 400);
    case 3:
        return draw_from(1000, LONGEST_LEASE_MS);
    default:
        return RDL_LEASE_AUTO;
    }
}

static bool may_be(int64_t result, bool canceled)
{
    static const int codes[] = {RDL_OK, RDL_ETIMEDOUT, RDL_ENOQUORUM, RDL_EUNKNOWN, RDL_ECLOSED, RDL_ECONN, RDL_ELOST};

    if (result == RDL_ECANCELED)
        return canceled;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (result == codes[i])
            return true;
    return false;
}

static void take(struct caller *caller)
{
    int64_t wait_ms = any_wait(), cancel_ns = caller->owner != NULL && chance(1, 6) ? draw_ms(1, 40) : 0, result;

    caller->waits = wait_ms == RDL_WAIT_FOREVER;
    result = call_and_wait(caller, TAKE, wait_ms, any_lease(), cancel_ns);
    caller->waits = false;
    if (!may_be(result, cancel_ns > 0))
        violated("a take is granted or refused", "%s answers %s", caller->name, rdl_err_name((int)result));
    if (result == RDL_OK)
        caller->count++;
}

static void release(struct caller *caller)
{
    bool sure = composite.calm && composite_believes(caller);
    int64_t left_ms = 0, result;

    if (sure && caller->owner == NULL)
        left_ms = rdl_remaining_ms(caller->party->lock[caller->lock], NULL);
    caller->count--;
    result = call_and_wait(caller, RELEASE, 0, 0, 0);
    if (sure && left_ms > 50 && result != RDL_OK)
        violated("what is held can be given back", "%s answers %s", caller->name, rdl_err_name((int)result));
}

static void use(struct caller *caller)
{
    fibre_sleep(chance(1, 8) ? draw_ms(0, 200) : draw_ms(0, 15));
    switch (goes_on(caller) ? draw(8) : 7) {
    case 0:
        (void)call_and_wait(caller, EXTEND, 0, draw_from(1, 500), 0);
        break;
    case 1:
        take(caller);
        break;
    case 2:
        (void)call_and_wait(caller, IS_LOCKED, 0, 0, 0);
        break;
    default:
        break;
    }
    while (goes_on(caller) && caller->count > 0)
        release(caller);
}

static void run_caller(void *arg)
{
    struct caller *caller = arg;
    size_t steps = 2 + draw(5);

    for (size_t i = 0; i < steps && goes_on(caller); i++) {
        fibre_sleep(chance(1, 8) ? draw_ms(0, 100) : draw_ms(0, 8));
        if (!goes_on(caller))
            break;
        caller->lock = draw(composite.lock_count);
        take(caller);
        if (caller->count > 0)
            use(caller);
    }
    caller->count = 0;
    caller->owner = rdl_owner_free(caller->owner);
}

/* ---- parties ---------------------------------------------------------------------------------------------------- */

static void must(int rc, const rdl_err_t *err)
{
    if (rc < 0)
        die("sim: %s", err->message);
}

static void open_clients(struct party *party)
{
    rdl_err_t err = {0};

    for (unsigned n = 0; n < composite.servers; n++) {
        char uri[32];

        (void)snprintf(uri, sizeof uri, "unix:/simulated%u", n);
        must(rdl_client_open(uri, &composite.options, &party->client[n], &err), &err);
    }
}

static void make_multis(struct party *party)
{
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    rdl_err_t err = {0};

    options.retry = (rdl_retry_t){.kind = RDL_RETRY_RANDOM, .min_ms = LONGEST_PAUSE_MS / 2, .max_ms = LONGEST_PAUSE_MS};
    for (unsigned i = 0; i < MOST_NAMES; i++)
        must(rdl_reentrant_lock(party->client[i % composite.servers], names[i], NULL, &party->member[i], &err), &err);
    for (size_t k = 0; k < composite.lock_count; k++) {
        rdl_lock_t *of[MOST_NAMES];

        for (unsigned i = 0; i < sets[k].count; i++)
            of[i] = party->member[sets[k].name[i]];
        must(rdl_multi_lock(of, sets[k].count, &options, &party->lock[k], &err), &err);
    }
}

static void make_red(struct party *party)
{
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    rdl_err_t err = {0};

    options.retry = (rdl_retry_t){.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 5, .max_ms = LONGEST_PAUSE_MS};
    if (composite.unasked)
        options.retry = (rdl_retry_t){.kind = RDL_RETRY_FIXED, .min_ms = UNASKED_PAUSE_MS, .max_ms = UNASKED_PAUSE_MS};
    options.node_timeout_ms = NODE_MS;
    options.min_uptime_ms = LONGEST_LEASE_MS;
    for (unsigned n = 0; n < composite.servers; n++)
        must(rdl_reentrant_lock(party->client[n], names[0], NULL, &party->member[n], &err), &err);
    must(rdl_red_lock(party->member, composite.servers, &options, &party->lock[0], &err), &err);
}

static void free_locks(struct party *party)
{
    for (size_t k = 0; k < MOST_LOCKS; k++)
        party->lock[k] = rdl_lock_free(party->lock[k]);
    for (size_t n = 0; n < MOST_SERVERS; n++)
        party->member[n] = rdl_lock_free(party->member[n]);
}

static void close_party(void *arg)
{
    struct party *party = arg;
    unsigned first = (unsigned)draw(composite.servers);

    say("%s closes", party->process.name);
    party->ending = true;
    for (unsigned i = 0; i < composite.servers; i++) {
        rdl_client_t **client = &party->client[(first + i) % composite.servers];

        if (rdl_client_close(*client) != NULL)
            violated("a client can be closed", "rdl_client_close refuses");
        *client = NULL;
    }
}

static struct caller *caller_join(struct party *party, bool blocking)
{
    struct caller *caller = &composite.callers[composite.caller_count++];
    rdl_err_t err = {0};

    (void)snprintf(caller->name, sizeof caller->name, "a%u", (unsigned)composite.caller_count);
    caller->party = party;
    if (!blocking)
        must(rdl_owner_new(party->client[composite.red ? draw(composite.servers) : 1 % composite.servers],
                           &caller->owner, &err),
             &err);
    return caller;
}

static void open_party(void *arg)
{
    struct party *party = arg;

    open_clients(party);
    if (composite.red)
        make_red(party);
    else
        make_multis(party);
}

static void run_party(void *arg)
{
    struct party *party = arg;
    struct fibre *fibres[MOST_CALLERS];
    size_t count = 1 + draw(MOST_CALLERS);

    open_party(party);
    for (size_t i = 0; i < count;
         i++) /* all fibres are one thread to the library: only one of a party may act as itself */
        fibres[i] = fibre_start(&party->process, run_caller, caller_join(party, i == 0 && chance(1, 2)));
    for (size_t i = 0; i < count; i++)
        fibre_join(fibres[i]);
}

/* ---- faults ----------------------------------------------------------------------------------------------------- */

static struct party *any_party(void)
{
    struct party *party = &composite.parties[draw(composite.party_count)];

    return party->dead || party->ending || party->process.stopped || party->lock[0] == NULL ? NULL : party;
}

static void hold_up(void)
{
    struct conn *conn = net_any(NULL);
    int64_t ns;

    if (conn == NULL)
        return;
    ns = draw_ms(1, 150);
    net_hold(conn, chance(1, 2) ? UP : DOWN, world_now() + ns);
}

static void cut_off(void)
{
    struct party *party = any_party();

    if (party != NULL)
        net_partition(&party->process, world_now() + draw_ms(1, 200));
}

static void stop_party(void)
{
    struct party *party = any_party();

    if (party == NULL)
        return;
    process_stop(&party->process);
    fibre_sleep(draw_ms(1, 400));
    if (party->process.stopped && !party->dead)
        process_go(&party->process);
}

static void crash_party(void)
{
    struct party *party = any_party();

    if (party == NULL)
        return;
    say("%s crashes", party->process.name);
    party->dead = true;
    net_bury(&party->process);
    process_stop(&party->process);
}

static void close_some_party(void)
{
    struct party *party = any_party();

    if (party != NULL)
        fibre_join(fibre_start(&party->process, close_party, party));
}

static void crash_server(void)
{
    unsigned n = (unsigned)draw(composite.servers), before = server_select(n);
    bool was_up = server_up();

    if (was_up)
        server_crash();
    (void)server_select(before);
    if (!was_up)
        return;
    fibre_sleep(draw_ms(0, 100));
    before = server_select(n);
    server_restart(composite.red && chance(2, 3));
    (void)server_select(before);
}

static void stop_server(void)
{
    unsigned n = (unsigned)draw(composite.servers), before = server_select(n);
    struct process *process = server_up() ? server_process() : NULL;

    (void)server_select(before);
    if (process == NULL)
        return;
    process_stop(process);
    fibre_sleep(draw_ms(1, 300));
    process_go(process);
}

static void flush_scripts(void)
{
    unsigned before = server_select((unsigned)draw(composite.servers));

    server_flush_scripts();
    (void)server_select(before);
}

static const struct fault faults[] = {
    {fault_cut, 6},   {fault_cut_after, 10}, {hold_up, 6},      {cut_off, 4},     {stop_party, 5},
    {crash_party, 2}, {close_some_party, 2}, {crash_server, 8}, {stop_server, 5}, {flush_scripts, 2},
};

static void one_fault(void *arg)
{
    (void)arg;
    fault_strikes(faults, sizeof faults / sizeof faults[0], SPAN_NS);
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

static void close_early(void *arg)
{
    fibre_sleep(draw_ms(0, 20));
    close_party(arg);
}

static void run_threads(void)
{
    struct fibre *all[MOST_PARTIES * (MOST_CALLERS + 1)];
    size_t count = 0;

    for (size_t i = 0; i < composite.party_count; i++)
        fibre_join(fibre_start(&composite.parties[i].process, open_party, &composite.parties[i]));
    for (size_t i = 0; i < composite.party_count; i++) {
        struct party *party = &composite.parties[i];
        size_t callers = i == 0 ? 2 : 1;

        for (size_t k = 0; k < callers; k++)
            all[count++] = thread_start(&party->process, run_caller, caller_join(party, chance(1, 2)));
        if (chance(1, 6))
            all[count++] = thread_start(&party->process, close_early, party);
    }
    threads->arm(true);
    for (size_t i = 0; i < count; i++)
        fibre_join(all[i]);
    threads->arm(false);
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static void draw_options(void)
{
    if (hooks.alloc == NULL)
        hooks = counting_alloc_init(&memory);
    composite.options = (rdl_client_options_t)RDL_CLIENT_OPTIONS_INIT;
    composite.options.lazy = true;
    composite.options.anonymous = true;
    composite.options.connect_timeout_ms = 200;
    composite.options.command_timeout_ms = draw_from(70, 140);
    composite.options.outage_timeout_ms = 2000;
    composite.options.watchdog_lease_ms = draw_from(100, 300);
    composite.options.close_timeout_ms = 50;
    composite.options.reconnect_min_ms = 1;
    composite.options.reconnect_max_ms = draw_from(2, 20);
    composite.options.ping_interval_ms = 100;
    composite.options.connections = 1;
    composite.options.allocator = &hooks;
}

static void draw_world(void)
{
    static const int64_t delays_us[] = {100, 500, 2000};
    int64_t delay_ns = delays_us[draw(3)] * RDL__US;
    struct net_config config = {
        .delay_ns = delay_ns,
        .jitter_ns = delay_ns,
        .late_of_16 = 6,
        .lost_of_4 = 1,
        .late_ns = draw_ms(1, 1000),
        .room = 1 << 20,
    };
    const struct server_traits traits = {.old = false};

    memset(&composite, 0, sizeof composite);
    composite.free_since = -1;
    composite.red = chance(1, 2);
    composite.servers = composite.red ? 3 + 2 * (unsigned)draw(threads != NULL ? 1 : 2) : 1 + (unsigned)draw(3);
    composite.lock_count = composite.red ? 1 : MOST_LOCKS;
    composite.party_count = 1 + draw(threads != NULL ? 2 : MOST_PARTIES);
    for (unsigned n = composite.servers; n-- > 0;) {
        (void)server_select(n);
        server_begin(&traits, draw_from(0, 4000));
    }
    net_begin(&config);
    draw_options();
    for (size_t i = 0; i < composite.party_count; i++) {
        char name[8];

        (void)snprintf(name, sizeof name, "P%u", (unsigned)i % 9 + 1);
        process_init(&composite.parties[i].process, name, CLOCK_BASE, draw_from(0, 4000));
    }
}

static bool some_died(void)
{
    for (size_t i = 0; i < composite.party_count; i++)
        if (composite.parties[i].dead || composite.parties[i].ending)
            return true;
    return false;
}

/* Parties that crashed come to their ends without any server. */
static void close_all(struct fibre **fibres)
{
    for (size_t i = 0; i < composite.party_count; i++) {
        struct party *party = &composite.parties[i];

        if (party->dead)
            process_go(&party->process);
        if (!party->ending)
            fibre_join(fibre_start(&party->process, close_party, party));
        if (party->dead)
            fibre_join(fibres[i]);
        (void)process_enter(&party->process);
        free_locks(party);
        (void)process_enter(NULL);
    }
}

static void whole_run(void *arg)
{
    struct fibre *party_fibres[MOST_PARTIES], *fault_fibres[MOST_FAULTS];
    size_t fault_count = chance(1, 4) || threads != NULL ? 0 : 1 + draw(MOST_FAULTS);

    (void)arg;
    draw_world();
    composite.calm = fault_count == 0 && threads == NULL;
    composite.unasked = composite.calm && composite.red && even_seed;
    world_on_event(composite_on_event);
    if (threads != NULL)
        run_threads();
    for (size_t i = 0; i < composite.party_count; i++)
        party_fibres[i] =
            threads != NULL ? NULL : fibre_start(&composite.parties[i].process, run_party, &composite.parties[i]);
    for (size_t i = 0; i < fault_count; i++)
        fault_fibres[i] = fibre_start(NULL, one_fault, NULL);
    for (size_t i = 0; i < fault_count; i++)
        fibre_join(fault_fibres[i]);
    for (size_t i = 0; i < composite.party_count; i++)
        if (!composite.parties[i].dead)
            fibre_join(party_fibres[i]);
    fibre_sleep(composite.calm ? 100 * RDL__MS : find_out_ns());
    if (!some_died())
        composite_check_nothing_left("when all have gone");
    close_all(party_fibres);
    fibre_sleep((LONGEST_LEASE_MS + 100) * RDL__MS * 102 / 100);
    composite_check_nothing_left("when all leases are over");
    if (counting_alloc_blocks(&memory) != 0)
        violated("nothing is left behind", "closed clients keep %lld blocks of memory",
                 (long long)counting_alloc_blocks(&memory));
}

struct outcome composite_run(uint64_t seed, const struct composite_threads *how)
{
    struct outcome outcome;

    threads = how;
    even_seed = seed % 2 == 0;
    world_begin(seed);
    world_limit(600 * RDL__SEC);
    if (threads != NULL)
        threads->begin();
    outcome.over = world_run(whole_run, NULL);
    outcome.broken = world_violation();
    outcome.operations = composite.operations;
    outcome.events = world_events();
    world_on_event(NULL);
    server_end();
    net_end();
    world_end();
    return outcome;
}
