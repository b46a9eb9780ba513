/* SPDX-License-Identifier: MIT */
/* world.c - the event queue, processes and fibres.
 *
 * The queue is the library's own pairing heap: events are embedded in what they are about, so setting one needs no
 * memory. Equal times are served in an order that depends on the heap's shape alone, which is as good as any and the
 * same each time.
 *
 * Fibres are ucontexts on stacks that are kept from run to run. A fibre gives way by switching to the queue, which runs
 * events until the fibre's own wake-up comes. Only the first switch into a fibre is ucontext's, which sets the signal
 * mask each time, by a system call; _setjmp and _longjmp do not.
 *
 * A thread is a fibre that may be made to give way anywhere. When its wake-up comes it is ready; it runs when nothing
 * else is due and no thread with more urgency is ready. A wake-up that comes while it does not wait is kept for its
 * next wait.
 */
#include "tests/sim/world.h"

#include "core/base/entropy.h"
#include "tests/support/resp.h"
#include "tests/support/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_SIZE ((size_t)256 * 1024)
#define STACKS_KEPT 64
#define MOST_EVENTS 20000000
#define MOST_CHANGES 100 /* urgencies below are given later */
#define KEPT_LOSSES 512
#define LOSS_STEP_NS (100 * RDL__US)

struct stack {
    const void *at;
    size_t size;
};

struct place {
    ucontext_t context;
    jmp_buf jump;
};

enum doing { WAITS, READY, RUNS, FROZEN };

struct fibre {
    struct place place;
    bool started;
    bool thread;
    bool woken; /* a thread's: while it did not wait */
    enum doing doing;
    int64_t urgency;
    struct rdl__link ready;
    struct event thaw;
    int64_t frozen_ns;
    unsigned number;
    struct rdl__loop *loop; /* whose it is, or NULL */
    void *local;            /* the value of `own`, when it does not run */
    unsigned mutexes;       /* that it has locked */
    struct event wake;
    void (*body)(void *arg);
    void *arg;
    struct fibre *joiner;
    bool done;
    void *stack;
    void *fake_stack; /* AddressSanitizer's */
};

static struct {
    int64_t now;
    int64_t limit;
    int64_t events;
    struct rdl__heap queue;
    struct rdl__rand rand;
    void (*on_event)(void);
    struct process *process;
    struct rdl__loop *loop;
    struct fibre *fibre;
    struct place place; /* the queue's */
    void *fake_stack;
    struct stack stack; /* the queue's, as AddressSanitizer knows it */
    enum trace trace;
    struct bytes story;
    bool told;
    char violation[512];
    struct rdl__link ready; /* threads */
    unsigned threads;
    int64_t lag; /* lost, with what is being lost */
    struct {
        int64_t over; /* lost for certain */
        size_t count;
        struct {
            int64_t at, over;
        } kept[KEPT_LOSSES]; /* now and then, the last ones */
    } losses;
    bool quiet;
    void (*on_point)(const struct point *at);
} world;

static void **own; /* each fibre has a value of its own here; NULL: nobody has one */
static void (*own_ends)(void *slot);

static struct {
    void *kept[STACKS_KEPT];
    size_t count;
} stacks;

/* ---- a run ------------------------------------------------------------------------------------------------------ */

void world_begin(uint64_t seed)
{
    struct bytes story = world.story;
    enum trace trace = world.trace;

    memset(&world, 0, sizeof world);
    world.story = story;
    world.story.len = 0;
    world.trace = trace;
    world.limit = RDL__NEVER;
    rdl__list_init(&world.ready);
    world.rand.state = seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
    (void)rdl__rand_next(&world.rand);
}

void world_end(void)
{
    world.on_event = NULL;
}

int64_t world_now(void)
{
    return world.now;
}

int64_t world_events(void)
{
    return world.events;
}

void world_limit(int64_t at)
{
    world.limit = at;
}

void world_on_event(void (*fn)(void))
{
    world.on_event = fn;
}

static void enter(struct fibre *f);

/* The most urgent of the threads that could run; NULL: none could. */
static struct fibre *most_urgent(void)
{
    struct fibre *found = NULL;

    for (struct rdl__link *l = world.ready.next; l != &world.ready; l = l->next) {
        struct fibre *f = rdl__container(l, struct fibre, ready);

        if (found == NULL || f->urgency > found->urgency)
            found = f;
    }
    return found;
}

static bool is_due(const struct rdl__heap_node *first)
{
    return first != NULL && first->at <= world.now;
}

static void run_thread(struct fibre *f)
{
    rdl__list_remove(&f->ready);
    world.events++;
    world.process = f->wake.process;
    enter(f);
    world.process = NULL;
    world.loop = NULL;
    if (world.on_event != NULL)
        world.on_event();
}

/* One event, or one thread until it gives way. False: there is none, or there were too many. */
static bool step(void)
{
    struct rdl__heap_node *first = rdl__heap_min(&world.queue);
    struct event *e;

    if (!rdl__list_empty(&world.ready) && !is_due(first) && world.events <= MOST_EVENTS) {
        run_thread(most_urgent());
        return true;
    }
    if (first == NULL) {
        violated("a run ends", "nothing is left to happen, and something still waits");
        return false;
    }
    if (first->at > world.limit || world.events++ > MOST_EVENTS) {
        violated("a run ends", "after %lld events and %lld ms something still waits", (long long)world.events,
                 (long long)(world.now / RDL__MS));
        return false;
    }
    e = rdl__container(first, struct event, node);
    rdl__heap_remove(&world.queue, first);
    if (first->at > world.now)
        world.now = first->at;
    if (e->process != NULL && e->process->stopped) {
        rdl__list_push_back(&e->process->waiting, &e->waiting);
        return true;
    }
    world.process = e->process;
    world.loop = NULL;
    e->run(e);
    world.process = NULL;
    world.loop = NULL;
    if (world.on_event != NULL)
        world.on_event();
    return true;
}

bool world_run(void (*body)(void *arg), void *arg)
{
    struct fibre *f = fibre_start(NULL, body, arg);

    while (!f->done)
        if (!step())
            return false;
    fibre_join(f);
    return true;
}

/* ---- chance ----------------------------------------------------------------------------------------------------- */

uint64_t draw(uint64_t bound)
{
    return rdl__rand_below(&world.rand, bound);
}

int64_t draw_from(int64_t least, int64_t most)
{
    return least + (int64_t)draw((uint64_t)(most - least) + 1);
}

bool chance(unsigned in, unsigned of)
{
    return draw(of) < in;
}

/* ---- what a run says -------------------------------------------------------------------------------------------- */

void world_trace(enum trace how)
{
    world.trace = how;
}

bool world_tracing(void)
{
    return world.trace != TRACE_OFF;
}

const char *world_story(size_t *ret_len)
{
    *ret_len = world.story.len;
    return world.story.at;
}

void say_(const char *format, ...)
{
    char line[512];
    va_list args;
    int len = snprintf(line, sizeof line, "%12.6f %-4s ", (double)world.now / (double)RDL__MS,
                       world.process == NULL ? "" : world.process->name);

    va_start(args, format);
    (void)vsnprintf(line + len, sizeof line - (size_t)len - 1, format, args);
    va_end(args);
    len = (int)strlen(line);
    line[len++] = '\n';
    if (world.trace == TRACE_SHOWN)
        (void)fwrite(line, 1, (size_t)len, stdout);
    else if (!world.told)
        bytes_add(&world.story, line, (size_t)len);
}

void violated(const char *claim, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say("VIOLATED  %s: %s", claim, text);
    world.told = true; /* a story that is kept ends here */
    if (world.violation[0] == '\0')
        (void)snprintf(world.violation, sizeof world.violation, "%s: %s", claim, text);
}

void check_callback(const struct fibre *starter, int64_t result, const rdl_err_t *err, const char *who,
                    const char *verb)
{
    if (starter != NULL && starter == fibre_here())
        violated("callbacks never run inside the call", "%s of %s", verb, who);
    if ((result < 0) != (err != NULL) || (err != NULL && err->code != result))
        violated("an error comes with its details", "%s of %s", verb, who);
}

const char *world_violation(void)
{
    return world.violation[0] == '\0' ? NULL : world.violation;
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

void process_init(struct process *p, const char *name, int64_t clock_base, int64_t clock_ppm)
{
    *p = (struct process){.clock_base = clock_base, .clock_ppm = clock_ppm};
    (void)snprintf(p->name, sizeof p->name, "%s", name);
    rdl__list_init(&p->waiting);
}

void process_stop(struct process *p)
{
    p->stopped = true;
    p->stop_began = world.now;
}

void process_go(struct process *p)
{
    struct rdl__link *l;
    int64_t at = world.now;

    p->stopped = false;
    p->went_on = world.now;
    while ((l = rdl__list_pop(&p->waiting)) != NULL)
        event_at(rdl__container(l, struct event, waiting), at++); /* in the order in which they came */
}

static int64_t clock_at(const struct process *p, int64_t now)
{
    return p->clock_base + p->clock_step + now + now / 1000 * p->clock_ppm / 1000;
}

int64_t process_clock(const struct process *p)
{
    return clock_at(p, world.now);
}

int64_t process_when(const struct process *p, int64_t local)
{
    int64_t since, at;

    if (local == RDL__NEVER)
        return RDL__NEVER;
    since = local - p->clock_base - p->clock_step;
    at = since - since / (1000000 + p->clock_ppm) * p->clock_ppm;
    while (clock_at(p, at) > local)
        at -= clock_at(p, at) - local;
    while (clock_at(p, at) < local)
        at += local - clock_at(p, at) > 4 ? (local - clock_at(p, at)) / 2 : 1;
    return at;
}

struct process *process_here(void)
{
    return world.process;
}

struct process *process_enter(struct process *p)
{
    struct process *before = world.process;

    world.process = p;
    if (world.fibre != NULL)
        world.fibre->wake.process = p;
    return before;
}

struct rdl__loop *loop_running(void)
{
    return world.loop;
}

void loop_runs(struct rdl__loop *loop)
{
    world.loop = loop;
    if (world.fibre != NULL)
        world.fibre->loop = loop;
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

void event_init(struct event *e, void (*run)(struct event *), struct process *process)
{
    *e = (struct event){.run = run, .process = process};
    rdl__list_init(&e->waiting);
}

bool event_set(const struct event *e)
{
    return rdl__heap_has(&e->node) || rdl__link_on(&e->waiting);
}

void event_at(struct event *e, int64_t at)
{
    rdl__list_remove(&e->waiting);
    rdl__heap_move(&world.queue, &e->node, at < world.now ? world.now : at);
}

void event_soon(struct event *e, int64_t at)
{
    if (rdl__link_on(&e->waiting) || (rdl__heap_has(&e->node) && e->node.at <= at))
        return;
    event_at(e, at);
}

void event_off(struct event *e)
{
    rdl__list_remove(&e->waiting);
    rdl__heap_remove(&world.queue, &e->node);
}

/* ---- fibres ----------------------------------------------------------------------------------------------------- */

static void *stack_take(void)
{
    return stacks.count > 0 ? stacks.kept[--stacks.count] : must_realloc(NULL, STACK_SIZE);
}

static void stack_give(void *stack)
{
    if (stacks.count < STACKS_KEPT)
        stacks.kept[stacks.count++] = stack;
    else
        free(stack);
}

/* AddressSanitizer wants to know of every change of stacks. */
static void leaving(void **fake_stack, const struct stack *to)
{
#ifdef SANITIZED
    __sanitizer_start_switch_fiber(fake_stack, to->at, to->size);
#else
    (void)fake_stack;
    (void)to;
#endif
}

static void arrived(void *fake_stack, struct stack *ret_from)
{
#ifdef SANITIZED
    __sanitizer_finish_switch_fiber(fake_stack, &ret_from->at, &ret_from->size);
#else
    (void)fake_stack;
    (void)ret_from;
#endif
}

/* Leave `from` and go on at `to`, which was left the same way, or is about to be entered for the first time. */
static void change(struct place *from, struct place *to, bool entered)
{
    if (_setjmp(from->jump) != 0)
        return;
    if (entered)
        _longjmp(to->jump, 1);
    (void)setcontext(&to->context);
}

static void to_queue(struct fibre *f)
{
    leaving(f->done ? NULL : &f->fake_stack, &world.stack);
    change(&f->place, &world.place, true);
    arrived(f->fake_stack, &world.stack);
}

static void run_body(void)
{
    struct fibre *f = world.fibre;

    arrived(NULL, &world.stack);
    f->started = true;
    f->body(f->arg);
    if (own != NULL && *own != NULL)
        own_ends(own);
    f->done = true;
    if (f->joiner != NULL)
        fibre_wake(f->joiner, 0);
    to_queue(f);
}

static void swap_local(struct fibre *f)
{
    void *of_queue;

    if (own == NULL)
        return;
    of_queue = *own;
    *own = f->local;
    f->local = of_queue;
}

/* Let it run until it gives way. */
static void enter(struct fibre *f)
{
    struct stack stack = {f->stack, STACK_SIZE};

    world.fibre = f;
    world.loop = f->loop;
    f->doing = RUNS;
    swap_local(f);
    leaving(&world.fake_stack, &stack);
    change(&world.place, &f->place, f->started);
    arrived(world.fake_stack, &stack);
    swap_local(f);
    world.fibre = NULL;
}

static void get_ready(struct fibre *f)
{
    f->doing = READY;
    rdl__list_push_back(&world.ready, &f->ready);
}

static void on_wake(struct event *e)
{
    struct fibre *f = rdl__container(e, struct fibre, wake);

    if (!f->thread)
        enter(f);
    else if (f->doing == WAITS)
        get_ready(f);
    else
        f->woken = true;
}

static void lost(int64_t ns, bool note)
{
    size_t count = world.losses.count, last = (count + KEPT_LOSSES - 1) % KEPT_LOSSES, next = count % KEPT_LOSSES;

    world.losses.over += ns;
    if (!note && count > 0 && world.now - world.losses.kept[last].at < LOSS_STEP_NS)
        return;
    world.losses.kept[next].at = world.now;
    world.losses.kept[next].over = world.losses.over;
    world.losses.count++;
}

static void on_thaw(struct event *e)
{
    struct fibre *f = rdl__container(e, struct fibre, thaw);

    lost(f->frozen_ns, true);
    get_ready(f);
}

struct fibre *fibre_start(struct process *process, void (*body)(void *arg), void *arg)
{
    struct fibre *f = must_alloc(sizeof *f);

    f->body = body;
    f->arg = arg;
    f->stack = stack_take();
    event_init(&f->wake, on_wake, process);
    event_init(&f->thaw, on_thaw, process);
    rdl__list_init(&f->ready);
    (void)getcontext(&f->place.context);
    f->place.context.uc_stack.ss_sp = f->stack;
    f->place.context.uc_stack.ss_size = STACK_SIZE;
    makecontext(&f->place.context, run_body, 0);
    event_at(&f->wake, world.now);
    return f;
}

struct fibre *thread_start(struct process *process, void (*body)(void *arg), void *arg)
{
    struct fibre *f = fibre_start(process, body, arg);

    f->thread = true;
    f->urgency = MOST_CHANGES + draw_from(0, INT32_MAX);
    f->number = ++world.threads;
    return f;
}

unsigned *fibre_mutexes(struct fibre *f)
{
    return &f->mutexes;
}

struct fibre *fibre_here(void)
{
    return world.fibre;
}

void fibre_wait(int64_t until)
{
    struct fibre *f = world.fibre;

    if (f == NULL)
        die("sim: only a fibre can wait");
    if (f->woken) {
        f->woken = false;
        return;
    }
    if (until != RDL__NEVER)
        event_soon(&f->wake, until);
    f->doing = WAITS;
    to_queue(f);
}

void fibre_wake(struct fibre *f, int64_t delay)
{
    event_soon(&f->wake, world.now + delay);
}

void fibre_sleep(int64_t ns)
{
    int64_t until = world.now + ns;

    while (world.now < until)
        fibre_wait(until);
}

void fibre_join(struct fibre *f)
{
    if (f == NULL)
        return;
    while (!f->done) {
        f->joiner = world.fibre;
        fibre_wait(RDL__NEVER);
    }
    event_off(&f->wake);
    stack_give(f->stack);
    free(f);
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

struct fibre *thread_here(void)
{
    return world.fibre != NULL && world.fibre->thread ? world.fibre : NULL;
}

unsigned thread_number(const struct fibre *f)
{
    return f == NULL ? 0 : f->number;
}

bool thread_is_pressed(void)
{
    const struct fibre *rival = most_urgent();

    return is_due(rdl__heap_min(&world.queue)) || (rival != NULL && rival->urgency > world.fibre->urgency);
}

void thread_give_way(void)
{
    get_ready(world.fibre);
    to_queue(world.fibre);
}

void thread_freeze(int64_t ns)
{
    struct fibre *f = world.fibre;

    world.lag += ns;
    f->frozen_ns = ns;
    event_at(&f->thaw, world.now + ns);
    f->doing = FROZEN;
    to_queue(f);
}

void thread_urgency(struct fibre *f, int64_t urgency)
{
    f->urgency = urgency;
}

void world_pass(int64_t ns)
{
    world.now += ns;
    world.lag += ns;
    lost(ns, false);
}

int64_t world_lag(int64_t since)
{
    size_t count = world.losses.count;

    for (size_t i = 0; i < KEPT_LOSSES && count > 0; i++, count--)
        if (world.losses.kept[(count - 1) % KEPT_LOSSES].at <= since)
            return world.lag - world.losses.kept[(count - 1) % KEPT_LOSSES].over;
    return world.lag;
}

void world_on_point(void (*fn)(const struct point *at))
{
    world.on_point = fn;
}

bool world_threaded(void)
{
    return world.on_point != NULL;
}

void point_(const char *what, bool outer, const char *file, int line)
{
    if (world.on_point != NULL && !world.quiet && thread_here() != NULL)
        world.on_point(&(struct point){what, outer, file, line});
}

void world_quiet(bool quiet)
{
    world.quiet = quiet;
}

bool world_is_quiet(void)
{
    return world.quiet;
}

void fibre_local(void **slot, void (*ends)(void *slot))
{
    own = slot;
    own_ends = ends;
}
