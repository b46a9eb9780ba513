/* SPDX-License-Identifier: MIT */
#include "tests/script/line_inner.h"

#include "tests/support/wait.h"

#include <string.h>

bool __wrap_rdl__call_leave_line(struct rdl__name *name);
void __wrap_rdl__waiters_retry(struct rdl__waiters *ws, const char *channel, size_t len, int64_t now);
uint32_t __wrap_rdl__loop_sleep(const struct rdl__loop *loop);
bool __wrap_rdl__loop_here(const struct rdl__loop *loop);

/* ---- who waits -------------------------------------------------------------------------------------------------- */

unsigned line_waiters(const struct line_client *of)
{
    unsigned count = 0;

    for (unsigned k = 0; k < LINE_THREADS; k++)
        count += of->threads[k].place > 0;
    return count;
}

static unsigned sooner(unsigned a, unsigned b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

unsigned line_due_in(const struct line_client *of)
{
    return line_waiters(of) == 0 ? 0 : sooner(of->look, of->hint);
}

unsigned line_listeners(const struct line_client *of, unsigned i)
{
    return (of->own >= TOPIC_SUBSCRIBED ? LISTENS_OWN(i) : 0) | (of->all >= TOPIC_SUBSCRIBED ? LISTENS_ALL(i) : 0);
}

static void arm(unsigned ms)
{
    line_now->hint = ms == 0 || ms > LINE_LONG_MS ? LINE_LONG_MS : (uint16_t)ms;
    line_now->hint_due = false;
}

static void arm_sooner(unsigned ms)
{
    if (line_now->hint == 0 || (ms != 0 && ms < line_now->hint))
        arm(ms);
}

static void look_after(unsigned ms)
{
    line_now->look = (uint16_t)ms;
    line_now->look_due = false;
}

static void wake_first(void)
{
    struct line_thread *first = NULL;

    for (unsigned k = 0; k < LINE_THREADS; k++)
        if (line_now->threads[k].phase == LINE_ASLEEP && (first == NULL || line_now->threads[k].place < first->place))
            first = &line_now->threads[k];
    if (first == NULL)
        return;
    first->woken = true;
    line_send_try(LOOP_LANE, (unsigned)(first - line_now->threads));
}

/* Something was heard on the own channel; by an epoch: a refusal of before is out of date. */
static void note_heard(bool epoch)
{
    line_now->missed = false;
    for (unsigned k = 0; k < LINE_THREADS; k++) {
        struct line_thread *t = &line_now->threads[k];

        if (t->phase == LINE_IDLE || t->phase >= LINE_HOLDS)
            continue;
        t->news = true;
        t->heard = t->heard || (epoch && t->place > 0);
    }
}

static void retry(void)
{
    note_heard(true);
    if (line_waiters(line_now) == 0)
        line_now->missed = true;
    else
        wake_first();
}

static void forget_said(uint8_t from, uint8_t to, uint8_t ack)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < LINE_MESSAGES; i++)
        if (line_now->said[i] != 0 && line_now->said[i] != ack && (line_now->said[i] < from || line_now->said[i] > to))
            line_now->said[kept++] = line_now->said[i];
    memset(&line_now->said[kept], 0, LINE_MESSAGES - kept);
}

static void close_ear(void)
{
    line_now->all = TOPIC_OFF;
    line_now->by_name = false;
    forget_said(SAID_ALL_0, SAID_ALL_2, SAID_ACK_ALL);
}

static void set_ear(const struct line_thread *t)
{
    if (t->line == RDL__LINE_NOT || line_without.ear)
        return;
    if (t->ear == RDL__EAR_NOT && (line_now->reason == RDL__EAR_FOR_ALL || !line_now->ear_heard))
        close_ear();
    if (t->ear != RDL__EAR_FOR_ALL || line_now->all == TOPIC_OFF)
        line_now->reason = t->ear;
    else if (line_now->reason != RDL__EAR_FOR_ALL)
        line_now->reason = RDL__EAR_PEER;
    if (t->ear != RDL__EAR_NOT && line_now->all == TOPIC_OFF)
        line_now->all = TOPIC_ASKED;
}

static void linger(void)
{
    look_after(0);
    line_now->hint = 0;
    line_now->hint_due = false;
    if (line_now->reason == RDL__EAR_FOR_ALL) {
        close_ear();
        line_now->reason = RDL__EAR_NOT;
    }
}

static void leave(struct line_thread *t, bool used)
{
    bool was_woken = t->woken;

    if (t->place == 0)
        return;
    for (unsigned k = 0; k < LINE_THREADS; k++)
        if (line_now->threads[k].place > t->place)
            line_now->threads[k].place--;
    t->place = 0;
    t->woken = t->heard = false;
    line_now->left = true;
    if (was_woken && !used && !line_without.next_is_woken)
        wake_first();
    if (line_waiters(line_now) == 0)
        linger();
}

/* The call waits no more. The next verb of the program. */
static void end_call(unsigned thread, bool granted)
{
    struct line_thread *t = &line_now->threads[thread];
    struct line_thread next = {.pc = (uint8_t)(t->pc + (granted ? 1 : 2))};

    t->phase = LINE_IDLE;
    if (t->counted)
        atomic_fetch_sub(&line_name()->waiting, 1);
    t->counted = false;
    leave(t, granted);
    if (granted) {
        next.phase = LINE_HOLDS;
        next.n = t->n;
        next.kept = t->kept;
        next.recalled = t->recalled;
    }
    *t = next;
}

/* True: asleep. */
static bool join(struct line_thread *t)
{
    bool first = line_waiters(line_now) == 0, heard = t->news || line_now->missed;
    bool entered = t->line != RDL__LINE_NOT, sleeps;

    if (line_without.tries_instead && t->line == RDL__LINE_STOOD)
        heard = false;
    if (line_now->own == TOPIC_OFF) {
        line_now->own = TOPIC_ASKED;
        line_now->missed = line_now->left = false;
    }
    t->place = (uint8_t)(line_waiters(line_now) + 1);
    arm_sooner(t->look);
    sleeps = line_now->own != TOPIC_CONFIRMED || !first || (entered && !heard);
    if (!sleeps) {
        note_heard(false);
        t->woken = true;
    }
    if (!t->counted)
        atomic_fetch_add(&line_name()->waiting, 1);
    t->counted = true;
    set_ear(t);
    return sleeps;
}

/* Refused, it sleeps, or tries again. */
static void wait_on(unsigned thread)
{
    struct line_thread *t = &line_now->threads[thread];
    bool sleeps;

    t->by_loop = true;
    if (t->place == 0) {
        t->phase = LINE_TRIES; /* and no sleeper yet */
        sleeps = join(t);
    } else if ((sleeps = !t->heard)) {
        t->woken = false;
        set_ear(t);
        arm(t->look);
    }
    if (sleeps)
        t->phase = LINE_ASLEEP;
    else
        line_send_try(LOOP_LANE, thread);
}

void line_join(unsigned thread)
{
    wait_on(thread);
}

/* ---- verbs ------------------------------------------------------------------------------------------------------ */

static bool has_undo(unsigned lane)
{
    for (unsigned i = 0; i < LINE_QUEUE; i++)
        if (line_now->sent[lane][i].kind > LINE_LEFT_TRY)
            return true;
    return false;
}

/* A first try goes behind undos. */
static unsigned lane_behind_undos(unsigned thread)
{
    if (has_undo(thread))
        return thread;
    for (unsigned lane = 0; lane < LINE_LANES; lane++)
        if (has_undo(lane))
            return lane;
    return thread;
}

void line_take(unsigned thread, bool waits, bool kept)
{
    struct line_thread *t = &line_now->threads[thread];
    bool others_wait = waits && (atomic_load(&line_name()->waiting) & (RDL__AHEAD - 1)) > 0, stands;
    struct rdl__call call;
    unsigned lane;

    *t = (struct line_thread){.pc = t->pc, .n = ++line_now->drawn, .single = !waits, .kept = kept};
    line_lay_out(&call, &rdl__verb_take, t);
    stands = rdl__line_take_place(&call, NOW);
    t->counted = call.counted;
    t->line = call.line;
    if (stands || others_wait) {
        t->phase = LINE_HANDED;
        t->look = stands ? LINE_LOOK_MS : 0;
        return;
    }
    lane = lane_behind_undos(thread);
    t->by_loop = lane == LOOP_LANE;
    line_send_try(lane, thread);
}

void line_release(unsigned thread)
{
    struct line_thread *t = &line_now->threads[thread];

    t->phase = LINE_RELEASES;
    line_send_release(thread);
}

/* Do others of the client wait at the server? A hold to be kept counts as recalled then (protocol.md, 11). */
static bool others_wait_at_server(const struct line_thread *t)
{
    for (unsigned k = 0; k < LINE_THREADS; k++)
        if (&line_now->threads[k] != t && line_now->threads[k].phase >= LINE_TRIES &&
            line_now->threads[k].phase <= LINE_ASLEEP)
            return true;
    return false;
}

static void read_take(const struct line_sent *sent)
{
    struct line_thread *t = &line_now->threads[sent->thread];
    struct rdl__call call;

    line_lay_out(&call, &rdl__verb_take, t);
    if (sent->answer == LINE_GRANTED) {
        rdl__line_granted(&call);
        t->recalled = t->kept && (t->recalled || others_wait_at_server(t));
        end_call(sent->thread, true);
        return;
    }
    rdl__line_refused(&call);
    t->tried = true;
    t->ear = sent->ear;
    t->look = sent->look;
    if (t->single)
        end_call(sent->thread, false);
    else if (t->by_loop)
        wait_on(sent->thread);
    else
        t->phase = LINE_HANDED;
}

static void undo_by_loop(enum line_kind kind, const struct line_sent *sent)
{
    line_send_undo(
        LOOP_LANE,
        (struct line_sent){
            .kind = (uint8_t)kind, .thread = sent->thread, .n = sent->n, .kept = sent->kept, .line = sent->line});
}

static void read_release(const struct line_sent *sent)
{
    struct line_thread *t = &line_now->threads[sent->thread];
    struct rdl__call call;
    bool undo;

    line_lay_out_sent(&call, &rdl__verb_release, sent);
    undo = (sent->answer != RDL__NO_HOLD || sent->resent) && rdl__line_released(&call);
    if (undo && !(line_without.undo_of_release && sent->answer == RDL__NO_HOLD))
        undo_by_loop(LINE_UNDO_RELEASE, sent);
    *t = (struct line_thread){.pc = (uint8_t)(t->pc + 1)};
}

/* Of an undo, or of a release that was given up. */
static void read_undo(const struct line_sent *sent)
{
    struct rdl__call call;
    bool takes = sent->kind == LINE_UNDO_TRY;

    line_lay_out_sent(&call, takes ? &rdl__verb_take : &rdl__verb_release, sent);
    if (rdl__line_left_over(&call))
        undo_by_loop(takes ? LINE_UNDO_TRY : LINE_UNDO_RELEASE, sent);
    else if (!line_without.retry)
        rdl__line_undone(&call, NOW);
}

void line_read(unsigned lane)
{
    struct line_sent sent = line_now->sent[lane][0];

    line_drop_sent(lane, 0);
    switch ((enum line_kind)sent.kind) {
    case LINE_TRY:
        read_take(&sent);
        break;
    case LINE_RELEASE:
        read_release(&sent);
        break;
    case LINE_LEFT_TRY:
        break;
    default:
        read_undo(&sent);
    }
}

/* ---- giving up -------------------------------------------------------------------------------------------------- */

bool line_may_time_out(unsigned thread)
{
    const struct line_thread *t = &line_now->threads[thread];

    return !t->single && t->phase >= LINE_TRIES && t->phase <= LINE_ASLEEP;
}

/* The request of the thread that is under way: its lane, and its place there. */
static unsigned find_sent(unsigned thread, enum line_kind kind, unsigned *ret_at)
{
    for (unsigned lane = 0; lane < LINE_LANES; lane++)
        for (unsigned i = 0; i < LINE_QUEUE; i++)
            if (line_now->sent[lane][i].kind == kind && line_now->sent[lane][i].thread == thread) {
                *ret_at = i;
                return lane;
            }
    die("enumeration: nothing is under way");
}

static struct line_sent undo_of(enum line_kind kind, unsigned thread)
{
    const struct line_thread *t = &line_now->threads[thread];

    return (struct line_sent){
        .kind = (uint8_t)kind, .thread = (uint8_t)thread, .n = t->n, .kept = t->kept, .line = t->line};
}

void line_time_out(unsigned thread)
{
    struct line_thread was = line_now->threads[thread];
    unsigned lane = LOOP_LANE, at;
    bool sent = was.phase == LINE_TRIES;

    if (sent) {
        lane = find_sent(thread, LINE_TRY, &at);
        line_now->sent[lane][at].kind = LINE_LEFT_TRY;
    }
    line_now->threads[thread].phase = LINE_IDLE;
    if (was.counted)
        atomic_fetch_sub(&line_name()->waiting, 1);
    line_now->threads[thread].counted = false;
    if (sent || rdl__name_take_unused_place(line_name()))
        line_send_undo(lane, undo_of(LINE_UNDO_TRY, thread));
    leave(&line_now->threads[thread], false);
    line_now->threads[thread] = (struct line_thread){.pc = (uint8_t)(was.pc + 2)};
}

void line_give_up_release(unsigned thread)
{
    unsigned at, lane = find_sent(thread, LINE_RELEASE, &at);

    line_now->sent[lane][at].kind = LINE_LEFT_RELEASE;
    line_now->threads[thread] = (struct line_thread){.pc = (uint8_t)(line_now->threads[thread].pc + 1)};
}

void line_give_up_unsent(unsigned thread)
{
    struct line_sent undo = undo_of(LINE_UNDO_RELEASE, thread);

    undo.line = RDL__LINE_NOT;
    line_now->threads[thread] = (struct line_thread){.pc = (uint8_t)(line_now->threads[thread].pc + 1)};
    line_send_undo(thread, undo);
}

/* ---- what breaks ---------------------------------------------------------------------------------------------- */

void line_cut(void)
{
    memset(line_now->said, 0, sizeof line_now->said);
    line_now->own = line_now->own == TOPIC_OFF ? TOPIC_OFF : TOPIC_ASKED;
    line_now->all = line_now->all == TOPIC_OFF ? TOPIC_OFF : TOPIC_ASKED;
    line_now->by_name = false;
    for (unsigned k = 0; k < LINE_THREADS; k++)
        line_now->threads[k].recalled = line_now->threads[k].recalled || line_now->threads[k].kept;
}

void line_die(bool unsent)
{
    struct line_client dead = {.dead = true, .drawn = line_now->drawn};

    for (unsigned lane = 0; !unsent && lane < LINE_LANES; lane++)
        memcpy(dead.sent[lane], line_now->sent[lane], sizeof dead.sent[lane]);
    *line_now = dead;
    atomic_store(&line_name()->waiting, 0);
}

/* ---- messages and timers ---------------------------------------------------------------------------------------- */

void line_subscribe(bool own)
{
    uint8_t *topic = own ? &line_now->own : &line_now->all;
    unsigned i = 0;

    *topic = TOPIC_SUBSCRIBED;
    while (line_now->said[i] != 0)
        if (++i == LINE_MESSAGES)
            die("enumeration: more than %d messages", LINE_MESSAGES);
    line_now->said[i] = own ? SAID_ACK_OWN : SAID_ACK_ALL;
}

static void on_ear(void)
{
    line_now->ear_heard = true;
    note_heard(true);
    wake_first();
}

/* The own channel's turn, and nobody waits. */
static bool unheard(void)
{
    return !line_now->left || line_turn_unheard();
}

static void hear_own(uint8_t what)
{
    note_heard(what != SAID_OWN_3);
    if (line_waiters(line_now) == 0) {
        if (what != SAID_OWN_3 && !unheard())
            line_now->missed = true;
    } else if (what == SAID_OWN_0) {
        wake_first();
    } else {
        look_after(what == SAID_OWN_3 ? LINE_LOOK_MS : RDL__TURN_MS);
    }
}

static void hear_recall(uint8_t n)
{
    for (unsigned k = 0; k < LINE_THREADS; k++)
        if (line_now->threads[k].kept && line_now->threads[k].n == n)
            line_now->threads[k].recalled = true;
}

void line_hear(void)
{
    uint8_t what = line_now->said[0];
    bool by_name = line_now->by_name;

    memmove(&line_now->said[0], &line_now->said[1], LINE_MESSAGES - 1);
    line_now->said[LINE_MESSAGES - 1] = 0;
    if (what >= SAID_RECALL) {
        hear_recall(what & (SAID_RECALL - 1));
    } else if (what == SAID_ACK_OWN) {
        line_now->own = TOPIC_CONFIRMED;
        retry();
    } else if (what == SAID_ACK_ALL) {
        line_now->all = TOPIC_CONFIRMED;
        on_ear();
    } else if (what < SAID_ALL_0) {
        hear_own(what);
    } else {
        line_now->by_name = what == SAID_ALL_2;
        if (what == SAID_ALL_0 && !by_name)
            on_ear();
    }
}

void line_timer(void)
{
    line_now->look = 0;
    line_now->look_due = false;
    arm(0);
    wake_first();
}

void line_linger_ends(void)
{
    if (line_now->own == TOPIC_OFF) {
        rdl__line_dropped(line_name());
        return;
    }
    (void)unheard();
    close_ear();
    line_now->own = TOPIC_OFF;
    line_now->missed = line_now->left = false;
    forget_said(SAID_OWN_0, SAID_OWN_4, SAID_ACK_OWN);
}

bool line_holds_idle(const struct line_thread *t)
{
    return t->phase == LINE_HOLDS && t->kept && !t->recalled;
}

/* ---- where the library is led elsewhere ------------------------------------------------------------------------- */

/* A place that no call of the client uses is given up. */
bool __wrap_rdl__call_leave_line(struct rdl__name *name)
{
    (void)name;
    if (!line_without.leaves_unheard)
        line_send_undo(LOOP_LANE, (struct line_sent){.kind = LINE_UNDO_RELEASE,
                                                     .thread = LINE_THREADS,
                                                     .n = ++line_now->drawn,
                                                     .line = RDL__LINE_BACK});
    return true;
}

void __wrap_rdl__waiters_retry(struct rdl__waiters *ws, const char *channel, size_t len, int64_t now)
{
    (void)ws;
    (void)channel;
    (void)len;
    (void)now;
    if (line_now->own != TOPIC_OFF)
        retry();
}

uint32_t __wrap_rdl__loop_sleep(const struct rdl__loop *loop)
{
    (void)loop;
    return 0;
}

bool __wrap_rdl__loop_here(const struct rdl__loop *loop)
{
    (void)loop;
    return true;
}
