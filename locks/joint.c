/* joint.c - several locks behind one handle: drives the machines of multi.c and red.c through ordinary calls.
 *
 * A composite is made of parts: handles of its own, of names that it shares with the members it was made from, which may be
 * freed. Every part is taken, renewed, released and lost as any lock is: call.c sees to repeats, undo and deadlines, each
 * member's own client to renewal. What is added here is when which part is asked for what, and what it all comes to.
 *
 * Who holds it. An owner is of one client, a composite may span several. So a composite has records of its own, one for each
 * owner in its first member's client (or whichever explicit owner was given), and a record has a seat at each part: the
 * owner that acts for it there. For a call without an explicit owner that is whoever the calling thread is in that client
 * (itself, or the owner that it is bound to); for one with an explicit owner, that owner in its own client, and in each
 * other client one made to stand for it, which lives as long as the record. Seats are found when the record is made, at the
 * outermost acquire, and stay: whoever acts for the record's owner later acts for the same seats.
 *
 * A seat counts the takes that are the composite's (`mine`), so that it gives back what it has taken and no more, whatever
 * the same owner holds of that lock besides. The rule at every moment: what a seat has above the record's wanted count is
 * released. That covers failing, giving up, stragglers and surplus alike.
 *
 * A call (struct call, around an rdl_op_t) is moved on by whoever brings news: its parts' loops, its own thread, the first
 * client's loop for an asynchronous one. All under the composite's mutex, which is taken before any other lock of ours;
 * nothing calls into this file with one held, except to cancel, and that only posts. It ends on its own thread (blocking),
 * or on that loop.
 *
 * One acquire, release or extend at a time on a record; later ones queue. An acquire that has its majority may leave
 * stragglers behind: the next call on that record cancels them and begins when they have ended, which takes no server's
 * answer.
 *
 * References: the handle's count is the user's, one for each part's handle, each record, each call. A call's are the user's
 * or caller's, one until it has ended, one for each question under way.
 */
#include "locks/joint.h"

#include "core/base/err.h"
#include "locks/verb.h"

#include <stdlib.h>
#include <string.h>

#define POST_NEWS 1u

struct rdl__part_handle {
    rdl_lock_t handle;
    struct rdl__joint *joint;
    unsigned index;
};

struct rdl__joint {
    rdl_lock_t handle; /* name NULL; fn and arg under mu */
    /* immutable */
    const struct rdl__plan_ops *ops;
    struct rdl__joint_options options;
    rdl_client_t *home;
    unsigned n, quorum;
    size_t size;
    char *name;
    size_t name_len;

    struct rdl__mutex mu;
    struct rdl__link records; /* under mu */
    struct rdl__part_handle part[];
};

struct seat {
    rdl_owner_t *owner; /* a reference */
    bool stands_in;     /* made for this record */
    bool young;
    int64_t mine; /* takes that are the composite's */
    int64_t n;    /* of the hold that they are part of */
};

/* What one owner has of a composite. Under its mu. */
struct record {
    struct rdl__link link;
    struct rdl__joint *joint;
    rdl_owner_t *owner; /* a reference */
    struct rdl__tie tie;
    bool tied;
    bool orphaned;
    bool lost;
    unsigned refs; /* list, tie, calls, event */
    int64_t count; /* as the user counts */
    int64_t want;  /* count, or one more while an acquire is under way */
    int64_t token;
    struct call *active;
    struct call *straggling; /* an acquire that has ended with questions still under way */
    struct rdl__link pending;
    struct rdl__callback event; /* its owner is gone: to be told */
    struct seat seat[];
};

struct question {
    struct call *call;
    unsigned index;
    rdl_op_t *op; /* under way */
    bool under_way;
    bool takes;
    bool answered;
    int64_t result;
};

struct call {
    rdl_op_t op; /* must be first; what of it is used: see init_op */
    struct record *rec;
    bool queued;
    bool begun;
    bool ended;
    bool was_lost;            /* before its release */
    unsigned asked, answered; /* of verbs other than acquire */
    rdl_err_t why;            /* the details of a part's failure that stands for the whole */
    char lost[160];           /* parts that were lost, for a person */
    struct rdl__plan plan;
    struct rdl__part *part;
    struct question question[];
};

static struct rdl__joint *joint_of(const rdl_lock_t *lock)
{
    return rdl__container(lock, struct rdl__joint, handle);
}

static struct call *call_of(rdl_op_t *op)
{
    return rdl__container(op, struct call, op);
}

rdl_client_t *rdl__lock_client(const rdl_lock_t *lock)
{
    return lock->name != NULL ? lock->name->client : joint_of(lock)->home;
}

const char *rdl__lock_name(const rdl_lock_t *lock, size_t *ret_len)
{
    *ret_len = lock->name != NULL ? lock->name->node.key_len : joint_of(lock)->name_len;
    return lock->name != NULL ? lock->name->bytes : joint_of(lock)->name;
}

static rdl_client_t *client_at(const struct rdl__joint *j, unsigned i)
{
    return j->part[i].handle.name->client;
}

/* ---- the handle ---------------------------------------------------------------------------------------------------------- */

static void joint_unref(struct rdl__joint *j)
{
    rdl_client_t *home = j->home;

    if (atomic_fetch_sub_explicit(&j->handle.refs, 1, memory_order_acq_rel) != 1)
        return;
    rdl__mutex_done(&j->mu);
    rdl__free(&home->mem, j, j->size);
    rdl__client_unref(home);
}

static struct rdl__joint *joint_ref(struct rdl__joint *j)
{
    atomic_fetch_add_explicit(&j->handle.refs, 1, memory_order_relaxed);
    return j;
}

void rdl__joint_part_gone(rdl_lock_t *part)
{
    joint_unref(rdl__container(part, struct rdl__part_handle, handle)->joint);
}

/* The order in which all multi-locks take what they have in common: by name, then by server. */
static int by_order(const void *left, const void *right)
{
    const struct rdl__name *a = (*(rdl_lock_t *const *)left)->name, *b = (*(rdl_lock_t *const *)right)->name;
    size_t shorter = a->node.key_len < b->node.key_len ? a->node.key_len : b->node.key_len;
    int order = memcmp(a->bytes, b->bytes, shorter);

    if (order == 0 && a->node.key_len != b->node.key_len)
        order = a->node.key_len < b->node.key_len ? -1 : 1;
    return order != 0 ? order : strcmp(a->client->node.label, b->client->node.label);
}

/* Twice the same lock would wait for itself or count twice; two votes of one server are no majority, nor are votes that each
 * server gives to many at a time. */
static int check_members(const struct rdl__plan_ops *ops, rdl_lock_t *const *members, size_t n, rdl_err_t *err)
{
    for (size_t i = 0; i < n; i++) {
        if (rdl__lock_joint(members[i]))
            return rdl__err_set(err, RDL_EINVAL, "member %zu is a %s lock itself", i, rdl__joint_type(members[i]));
        if (ops->majority && members[i]->ops->shares)
            return rdl__err_set(err, RDL_EINVAL, "member %zu is a %s lock: a red lock wants members that exclude each other",
                                i, members[i]->ops->name);
        for (size_t k = 0; k < i; k++) {
            if (members[k]->name == members[i]->name)
                return rdl__err_set(err, RDL_EINVAL, "members %zu and %zu are the same lock", k, i);
            if (ops->majority && members[k]->name->client == members[i]->name->client)
                return rdl__err_set(err, RDL_EINVAL,
                                    "members %zu and %zu are of one client: a red lock wants servers that"
                                    " fail independently",
                                    k, i);
        }
    }
    return RDL_OK;
}

static size_t name_size(rdl_lock_t *const *members, size_t n)
{
    size_t size = 0;

    for (size_t i = 0; i < n; i++)
        size += members[i]->name->node.key_len + 1;
    return size;
}

static void join_names(struct rdl__joint *j)
{
    for (unsigned i = 0; i < j->n; i++) {
        const struct rdl__name *name = j->part[i].handle.name;

        if (i > 0)
            j->name[j->name_len++] = '+';
        memcpy(j->name + j->name_len, name->bytes, name->node.key_len);
        j->name_len += name->node.key_len;
    }
    j->name[j->name_len] = '\0';
}

static void on_part_lost(rdl_lock_t *part, const rdl_loss_t *loss, void *arg);

static void add_parts(struct rdl__joint *j, rdl_lock_t *const *members)
{
    rdl_lock_t *order[RDL__JOINT_MAX];

    memcpy(order, members, j->n * sizeof order[0]);
    if (!j->ops->majority)
        qsort(order, j->n, sizeof order[0], by_order);
    for (unsigned i = 0; i < j->n; i++) {
        struct rdl__part_handle *part = &j->part[i];

        part->joint = joint_ref(j);
        part->index = i;
        part->handle.part = true;
        part->handle.fn = on_part_lost;
        rdl__handle_twin(order[i], &part->handle);
    }
}

int rdl__joint_make(const struct rdl__plan_ops *ops, rdl_lock_t *const *members, size_t n,
                    const struct rdl__joint_options *options, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    rdl_client_t *home = rdl__lock_client(members[0]);
    int rc = check_members(ops, members, n, err);
    struct rdl__joint *j;
    size_t head, size;

    if (rc < 0)
        return rc;
    head = sizeof *j + n * sizeof j->part[0];
    size = head + name_size(members, n);
    if ((j = rdl__zalloc(&home->mem, size)) == NULL)
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    if (rdl__mutex_init(&j->mu) < 0) {
        rdl__free(&home->mem, j, size);
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    }
    atomic_init(&j->handle.refs, 1);
    j->ops = ops;
    j->options = *options;
    j->home = rdl__client_ref(home);
    j->n = (unsigned)n;
    j->quorum = ops->majority ? j->n / 2 + 1 : j->n;
    j->size = size;
    j->name = (char *)j + head;
    rdl__list_init(&j->records);
    add_parts(j, members);
    join_names(j);
    *ret_lock = &j->handle;
    return RDL_OK;
}

void rdl__joint_drop(rdl_lock_t *lock)
{
    struct rdl__joint *j = joint_of(lock);

    rdl__mutex_lock(&j->mu);
    lock->fn = NULL;
    rdl__mutex_unlock(&j->mu);
    for (unsigned i = 0; i < j->n; i++)
        rdl__handle_drop(&j->part[i].handle);
    joint_unref(j);
}

const char *rdl__joint_type(const rdl_lock_t *lock)
{
    return joint_of(lock)->ops->type;
}

int rdl__joint_on_lost(rdl_lock_t *lock, rdl_lost_fn fn, void *arg)
{
    struct rdl__joint *j = joint_of(lock);

    rdl__mutex_lock(&j->mu);
    lock->fn = fn;
    lock->arg = arg;
    rdl__mutex_unlock(&j->mu);
    return RDL_OK;
}

bool rdl__joint_knows(const rdl_lock_t *lock, const rdl_owner_t *owner)
{
    const struct rdl__joint *j = joint_of(lock);

    for (unsigned i = 0; i < j->n; i++)
        if (client_at(j, i) == owner->client)
            return true;
    return false;
}

const char *rdl__joint_tokenless(const rdl_lock_t *lock)
{
    const struct rdl__joint *j = joint_of(lock);

    if (!j->ops->majority)
        return "a multi-lock has no token of its own: each of its members may have one";
    for (unsigned i = 0; i < j->n; i++)
        if (j->part[i].handle.name->settings.fencing != RDL_FENCING_TIME)
            return "a red lock has a token only if all its members were made with RDL_FENCING_TIME: counters of several"
                   " servers do not grow together";
    return NULL;
}

/* ---- records ------------------------------------------------------------------------------------------------------------- */

static size_t record_size(const struct rdl__joint *j)
{
    return sizeof(struct record) + j->n * sizeof(struct seat);
}

static void leave_seats(struct record *rec)
{
    struct rdl__joint *j = rec->joint;

    for (unsigned i = 0; i < j->n; i++) {
        rdl_owner_t *owner = rec->seat[i].owner;

        if (owner != NULL && rec->seat[i].stands_in)
            (void)rdl_owner_free(owner);
        else if (owner != NULL)
            rdl__owner_unref(owner);
    }
}

/* @locks mu */
static void record_unref(struct record *rec)
{
    struct rdl__joint *j = rec->joint;

    if (--rec->refs > 0)
        return;
    leave_seats(rec);
    rdl__owner_unref(rec->owner);
    rdl__free(&j->home->mem, rec, record_size(j));
    (void)atomic_fetch_sub(&j->handle.refs, 1); /* not the last: the caller has one */
}

/* Off the list when there is nothing to remember.  @locks mu */
static void record_retire(struct record *rec)
{
    if (rec->active != NULL || rec->straggling != NULL || !rdl__list_empty(&rec->pending) ||
        (rec->count > 0 && !rec->orphaned) || !rdl__link_on(&rec->link))
        return;
    rdl__list_remove(&rec->link);
    if (rec->tied && rdl__owner_untie(rec->owner, &rec->tie)) {
        rec->tied = false;
        record_unref(rec);
    }
    record_unref(rec);
}

static void tell_orphaned(struct rdl__callback *callback)
{
    struct record *rec = rdl__container(callback, struct record, event);
    struct rdl__joint *j = joint_ref(rec->joint);
    char field[RDL__FIELD_MAX + 1];
    rdl_loss_t loss = {.state = RDL_LOST, .reason = RDL_LOSS_THREAD_EXIT, .owner = field};
    rdl_lost_fn fn;
    void *arg;

    rdl__mutex_lock(&j->mu);
    field[rdl__field(field, &client_at(j, 0)->uuid, rec->seat[0].n)] = '\0';
    loss.token = rec->token;
    fn = j->handle.fn;
    arg = j->handle.arg;
    record_unref(rec);
    rdl__mutex_unlock(&j->mu);
    if (fn != NULL)
        fn(&j->handle, &loss, arg);
    joint_unref(j);
}

/* Its owner is gone; so are the holds of its seats, which their own clients see to. */
static void orphan(struct rdl__tie *tie)
{
    struct record *rec = rdl__container(tie, struct record, tie);
    struct rdl__joint *j = joint_ref(rec->joint);

    rdl__mutex_lock(&j->mu);
    rec->tied = false;
    rec->orphaned = true;
    if (rec->count > 0 && !rec->lost && rdl__client_call_begins(j->home) == RDL_OK) {
        rec->refs++;
        rdl__dispatch_push(&j->home->dispatch, &rec->event);
        rdl__client_call_ends(j->home);
    }
    rec->lost = true;
    record_retire(rec);
    record_unref(rec);
    rdl__mutex_unlock(&j->mu);
    joint_unref(j);
}

static struct record *record_find(const struct rdl__joint *j, const rdl_owner_t *owner)
{
    for (struct rdl__link *l = j->records.next; l != &j->records; l = l->next) {
        struct record *rec = rdl__container(l, struct record, link);

        if (rec->owner == owner && !rec->orphaned)
            return rec;
    }
    return NULL;
}

/* Who acts at part i: see the top. `given`: the caller named the record's owner. */
static int take_seat(struct record *rec, unsigned i, bool given)
{
    struct rdl__joint *j = rec->joint;
    rdl_client_t *client = client_at(j, i);
    rdl_owner_t *owner = NULL;
    int rc;

    if (given && rec->owner->client == client)
        owner = rec->owner;
    for (unsigned k = 0; k < i && owner == NULL; k++)
        if (client_at(j, k) == client)
            owner = rec->seat[k].owner;
    if (owner == NULL && given) {
        rec->seat[i].stands_in = true;
        return rdl_owner_new(client, &rec->seat[i].owner, NULL);
    }
    if (owner == NULL && ((rc = rdl__client_check(client, NULL)) < 0 || (rc = rdl__owner_self(client, &owner)) < 0))
        return rc;
    rec->seat[i].owner = rdl__owner_ref(owner);
    return RDL_OK;
}

/* @locks mu */
static int record_make(struct rdl__joint *j, rdl_owner_t *owner, bool given, struct record **ret)
{
    struct record *rec = rdl__zalloc(&j->home->mem, record_size(j));
    int rc = RDL_OK;

    if (rec == NULL)
        return RDL_ENOMEM;
    rec->joint = joint_ref(j);
    rec->owner = rdl__owner_ref(owner);
    rec->refs = 1;
    rec->tie.orphan = orphan;
    rec->event.run = tell_orphaned;
    rdl__list_init(&rec->link);
    rdl__list_init(&rec->tie.link);
    rdl__list_init(&rec->pending);
    rdl__list_init(&rec->event.link);
    for (unsigned i = 0; i < j->n && rc == RDL_OK; i++)
        rc = take_seat(rec, i, given);
    if (rc == RDL_OK && !rdl__owner_tie(owner, &rec->tie))
        rc = RDL_ENOMEM;
    if (rc < 0) {
        record_unref(rec);
        return rc;
    }
    rec->tied = true;
    rec->refs++;
    rdl__list_push_back(&j->records, &rec->link);
    *ret = rec;
    return RDL_OK;
}

/* ---- what is held -------------------------------------------------------------------------------------------------------- */

/* The seat's hold, if it is still the one that the composite took. */
static struct rdl__view view_seat(const struct record *rec, unsigned i, int64_t now)
{
    const struct seat *seat = &rec->seat[i];
    struct rdl__joint *j = rec->joint;
    struct rdl__view view = {.state = RDL_NOT_HELD};

    if (seat->mine == 0 || rdl__client_call_begins(client_at(j, i)) < 0)
        return view;
    view = rdl__record_view(j->part[i].handle.name, seat->owner, j->part[i].handle.ops, now);
    rdl__client_call_ends(client_at(j, i));
    if (view.n != seat->n || view.state == RDL_LOST)
        view.state = RDL_NOT_HELD;
    return view;
}

static int longest_first(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return a < b ? 1 : a > b ? -1 : 0;
}

/* The whole. Once too few seats hold it is lost for good.  @locks mu */
static struct rdl__view view_record(struct record *rec, int64_t now)
{
    struct rdl__joint *j = rec->joint;
    struct rdl__view view = {.state = RDL_NOT_HELD, .count = rec->count, .token = rec->token};
    int64_t left[RDL__JOINT_MAX];
    unsigned held = 0, well = 0;

    if (rec->count == 0)
        return view;
    for (unsigned i = 0; i < j->n; i++) {
        struct rdl__view seat = view_seat(rec, i, now);

        if (seat.state == RDL_NOT_HELD || rec->seat[i].young)
            continue;
        left[held++] = seat.left;
        well += seat.state == RDL_HELD;
    }
    rec->lost = rec->lost || held < j->quorum;
    if (rec->lost) {
        view.state = RDL_LOST;
        return view;
    }
    qsort(left, held, sizeof left[0], longest_first);
    view.left = left[j->quorum - 1];
    view.state = well < j->quorum ? RDL_AT_RISK : RDL_HELD;
    return view;
}

struct rdl__view rdl__joint_view(rdl_lock_t *lock, const rdl_owner_t *owner, int64_t now)
{
    struct rdl__joint *j = joint_of(lock);
    struct rdl__view view = {.state = RDL_NOT_HELD};
    struct record *rec;

    rdl__mutex_lock(&j->mu);
    if ((rec = record_find(j, owner)) != NULL)
        view = view_record(rec, now);
    rdl__mutex_unlock(&j->mu);
    return view;
}

/* Release one take of the composite's at part i; nobody waits for it. False: no memory, or the client is closed; the next
 * time that things are settled it is tried again. */
static bool give_back(struct record *rec, unsigned i)
{
    struct rdl__order order = {
        .verb = &rdl__verb_release, .lock = &rec->joint->part[i].handle, .owner = rec->seat[i].owner, .direct = true};

    if (rdl__call_async(&order, NULL, NULL) < 0)
        return false;
    rec->seat[i].mine--;
    return true;
}

/* What is above the wanted count goes back; all of it, when a majority that was lost leaves a rest.  @locks mu */
static void settle(struct record *rec)
{
    int64_t want = rec->lost && rec->joint->ops->majority ? 0 : rec->want;

    for (unsigned i = 0; i < rec->joint->n; i++)
        while (rec->seat[i].mine > want && give_back(rec, i))
            ;
}

/* The record whose hold at that part bears this field.  @locks mu */
static struct record *record_of_field(const struct rdl__joint *j, unsigned i, const char *field)
{
    char text[RDL__FIELD_MAX + 1];

    for (struct rdl__link *l = j->records.next; l != &j->records; l = l->next) {
        struct record *rec = rdl__container(l, struct record, link);

        text[rdl__field(text, &client_at(j, i)->uuid, rec->seat[i].n)] = '\0';
        if (rec->seat[i].mine > 0 && rec->count > 0 && strcmp(text, field) == 0)
            return rec;
    }
    return NULL;
}

static void on_part_lost(rdl_lock_t *part, const rdl_loss_t *loss, void *arg)
{
    struct rdl__part_handle *handle = rdl__container(part, struct rdl__part_handle, handle);
    struct rdl__joint *j = handle->joint; /* which the part's handle keeps */
    rdl_loss_t news = *loss;
    rdl_lost_fn fn = NULL;
    struct record *rec;

    rdl__mutex_lock(&j->mu);
    if ((rec = record_of_field(j, handle->index, loss->owner)) != NULL) {
        struct rdl__view view = view_record(rec, rdl__now());

        news.member = part;
        news.state = view.state == RDL_LOST ? RDL_LOST : RDL_AT_RISK;
        news.remaining_ms = view.left / RDL__MS;
        fn = j->handle.fn;
        arg = j->handle.arg;
        settle(rec);
    }
    rdl__mutex_unlock(&j->mu);
    if (fn != NULL)
        fn(&j->handle, &news, arg);
}

/* ---- calls: life --------------------------------------------------------------------------------------------------------- */

static size_t call_size(const struct rdl__joint *j)
{
    return sizeof(struct call) + j->n * (sizeof(struct question) + sizeof(struct rdl__part));
}

static void call_ref(struct call *call)
{
    atomic_fetch_add_explicit(&call->op.refs, 1, memory_order_relaxed);
}

static void call_free(struct call *call)
{
    struct rdl__joint *j = joint_of(call->op.lock);

    rdl__mutex_lock(&j->mu);
    record_unref(call->rec);
    rdl__mutex_unlock(&j->mu);
    rdl__owner_unref(call->op.owner);
    rdl__free(&j->home->mem, call, call_size(j));
    joint_unref(j);
}

static void call_gone(rdl_op_t *op)
{
    call_free(call_of(op));
}

/* @locks none, or mu when it is not the last */
static void call_unref(struct call *call)
{
    if (atomic_fetch_sub_explicit(&call->op.refs, 1, memory_order_acq_rel) == 1)
        call_free(call);
}

/* One for each verb, to tell them apart; `acquires`, `on_record` as theirs. */
static const struct rdl__verb joint_take = {.acquires = true, .on_record = true, .gone = call_gone};
static const struct rdl__verb joint_release = {.on_record = true, .gone = call_gone};
static const struct rdl__verb joint_extend = {.on_record = true, .gone = call_gone};
static const struct rdl__verb joint_force = {.gone = call_gone};
static const struct rdl__verb joint_is_locked = {.gone = call_gone};
static const struct rdl__verb joint_remaining = {.gone = call_gone};

static const struct {
    const struct rdl__verb *part, *whole;
} verbs[] = {
    {&rdl__verb_take, &joint_take},   {&rdl__verb_release, &joint_release},     {&rdl__verb_extend, &joint_extend},
    {&rdl__verb_force, &joint_force}, {&rdl__verb_is_locked, &joint_is_locked}, {&rdl__verb_remaining, &joint_remaining},
};

static const struct rdl__verb *whole_of(const struct rdl__verb *part)
{
    size_t i = 0;

    while (verbs[i].part != part)
        i++;
    return verbs[i].whole;
}

static const struct rdl__verb *part_of(const struct rdl__verb *whole)
{
    size_t i = 0;

    while (verbs[i].whole != whole)
        i++;
    return verbs[i].part;
}

static void on_task(struct rdl__task *task, int64_t now);
static void on_timer(struct rdl__timer *timer, int64_t now);
static void run_callback(struct rdl__callback *callback);
static void on_cancel(struct rdl__underway *underway, int code);

static void init_op(rdl_op_t *op, const struct rdl__order *order, struct rdl__joint *j, rdl_owner_t *home_owner)
{
    op->verb = whole_of(order->verb);
    op->lock = &joint_ref(j)->handle;
    op->owner = rdl__owner_ref(home_owner); /* whose cancellation, and whose client's closing, ends it */
    op->fn = order->fn;
    op->arg = order->arg;
    op->wait_ms = order->wait_ms;
    op->lease_ms = order->lease_ms;
    op->started_at = rdl__now();
    op->underway.cancel = on_cancel;
    atomic_init(&op->refs, 2); /* the caller's, and until it has ended */
    rdl__list_init(&op->underway.link);
    rdl__list_init(&op->pending);
    rdl__task_init(&op->task, on_task);
    rdl__timer_init(&op->timer, on_timer);
    rdl__parker_init(&op->done);
    rdl__list_init(&op->callback.link);
    op->callback.run = run_callback;
}

static struct call *call_make(const struct rdl__order *order, struct rdl__joint *j, struct record *rec, bool blocking)
{
    struct call *call = rdl__zalloc(&j->home->mem, call_size(j));

    if (call == NULL)
        return NULL;
    init_op(&call->op, order, j, rec->seat[0].owner);
    call->op.blocking = blocking;
    call->rec = rec;
    rec->refs++;
    call->part = (struct rdl__part *)(void *)&call->question[j->n];
    for (unsigned i = 0; i < j->n; i++) {
        call->question[i].call = call;
        call->question[i].index = i;
    }
    return call;
}

/* Whoever drives the call should look at it.  @locks mu, or the owner's (then the call is under way, and is not freed) */
static void nudge(struct call *call)
{
    if (call->op.blocking)
        rdl__parker_post(&call->op.done, POST_NEWS);
    else
        rdl__loop_post(call->op.owner->client->node.loop, &call->op.task);
}

static void on_cancel(struct rdl__underway *underway, int code)
{
    struct call *call = call_of(rdl__container(underway, rdl_op_t, underway));
    int none = RDL_OK;

    if ((!call->op.verb->acquires && code == RDL_ECANCELED) ||
        !atomic_compare_exchange_strong(&call->op.cancel_code, &none, code))
        return;
    nudge(call);
}

/* ---- calls: asking the parts --------------------------------------------------------------------------------------------- */

static void on_answer(rdl_lock_t *part, int64_t result, const rdl_err_t *err, void *arg);

/* Begin a call on a part. RDL_OK: on_answer will run.  @locks mu */
static int ask(struct call *call, unsigned i, const struct rdl__verb *verb, int64_t wait_ms, bool once)
{
    struct question *q = &call->question[i];
    struct rdl__order order = {
        .verb = verb,
        .lock = &joint_of(call->op.lock)->part[i].handle,
        .owner = call->rec->seat[i].owner,
        .wait_ms = wait_ms,
        .lease_ms = call->op.lease_ms,
        .fn = (rdl__callback_fn *)on_answer,
        .arg = q,
        .once = once,
        .direct = true,
    };
    int rc = rdl__call_async(&order, &q->op, &call->why);

    if (rc < 0)
        return rc;
    q->under_way = true;
    q->takes = verb == &rdl__verb_take;
    call_ref(call);
    return RDL_OK;
}

static void feed(struct call *call, const struct rdl__plan_event *ev);

static void cancel_questions(struct call *call)
{
    for (unsigned i = 0; i < joint_of(call->op.lock)->n; i++)
        if (call->question[i].under_way && call->question[i].takes)
            rdl_op_cancel(call->question[i].op);
}

/* Carry out one order of the machine's. An error is the part's answer. */
static int obey(struct call *call, unsigned i)
{
    struct rdl__part *part = &call->part[i];
    enum rdl__part_order order = (enum rdl__part_order)part->order;

    part->order = RDL__PART_NOTHING;
    switch (order) {
    case RDL__PART_TRY:
    case RDL__PART_WAIT:
        return ask(call, i, &rdl__verb_take, part->bound_ms, order == RDL__PART_TRY);
    case RDL__PART_EXTEND:
        return ask(call, i, &rdl__verb_extend, 0, false);
    case RDL__PART_CANCEL:
        if (call->question[i].under_way)
            rdl_op_cancel(call->question[i].op);
        break;
    case RDL__PART_RELEASE:
        if (call->rec->seat[i].mine >= call->rec->want)
            (void)give_back(call->rec, i);
        break;
    case RDL__PART_NOTHING:
        break;
    }
    return RDL_OK;
}

static void obey_all(struct call *call)
{
    for (unsigned i = 0; i < call->plan.n; i++) {
        struct rdl__plan_event failed = {.kind = RDL__PLAN_ANSWER, .part = i, .now = call->op.started_at};

        if ((failed.code = obey(call, i)) < 0)
            feed(call, &failed); /* which obeys anew, from the first part on */
    }
}

/* Too few, or too late.  @locks mu */
static bool still_held(struct call *call)
{
    struct record *rec = call->rec;

    rec->count = rec->want;
    return !rec->orphaned && view_record(rec, rdl__now()).state != RDL_LOST;
}

static void end(struct call *call, int64_t result);

/* The largest of the parts'.  @locks mu */
static int64_t token_of(const struct record *rec, int64_t now)
{
    int64_t token = 0;

    for (unsigned i = 0; i < rec->joint->n && rdl__joint_tokenless(&rec->joint->handle) == NULL; i++) {
        struct rdl__view view = view_seat(rec, i, now);

        if (view.state != RDL_NOT_HELD && view.token > token)
            token = view.token;
    }
    return token;
}

static void end_take(struct call *call)
{
    struct record *rec = call->rec;
    int rc = call->plan.rc;
    int64_t before = rec->count;

    if (rc == RDL_OK && !still_held(call)) {
        rc = RDL_ELOST;
        rec->count = before;
    }
    if (rc == RDL_OK && before == 0)
        rec->token = token_of(rec, rdl__now());
    if (rc < 0) {
        rec->want = rec->count;
        rec->lost = rec->lost && rec->count > 0;
        cancel_questions(call);
    }
    settle(rec);
    end(call, rc);
}

/* An event for the machine, and all that follows from it at once.  @locks mu */
static void feed(struct call *call, const struct rdl__plan_event *ev)
{
    bool done = call->plan.phase == RDL__PLAN_DONE;

    joint_of(call->op.lock)->ops->on(&call->plan, ev);
    obey_all(call);
    if (!done && call->plan.phase == RDL__PLAN_DONE && !call->ended)
        end_take(call);
    else
        nudge(call); /* its timer */
}

/* ---- calls: verbs that ask all parts and add the answers up ---------------------------------------------------------------- */

static unsigned count_of(const struct call *call, int64_t result)
{
    unsigned count = 0;

    for (unsigned i = 0; i < joint_of(call->op.lock)->n; i++)
        count += call->question[i].answered && call->question[i].result == result;
    return count;
}

/* The code of a part that failed, other than by loss if there is such; RDL_OK: none. */
static int worst_code(const struct call *call)
{
    int code = RDL_OK;

    for (unsigned i = 0; i < joint_of(call->op.lock)->n; i++) {
        const struct question *q = &call->question[i];

        if (q->answered && q->result < 0 && (code == RDL_OK || code == RDL_ELOST))
            code = (int)q->result;
    }
    return code;
}

static unsigned failures(const struct call *call)
{
    unsigned count = 0;

    for (unsigned i = 0; i < joint_of(call->op.lock)->n; i++)
        count += call->question[i].answered && call->question[i].result < 0;
    return count;
}

/* Too few parts have answered as they should. */
static int too_few(const struct call *call)
{
    const struct rdl__joint *j = joint_of(call->op.lock);

    if (!j->ops->majority)
        return worst_code(call);
    return count_of(call, RDL_ELOST) > j->n - j->quorum ? RDL_ELOST : RDL_ENOQUORUM;
}

/* 1: the verdict is in, *ret; 0: more answers are needed. A multi-lock's release and extend wait for all of them, to say
 * which parts were lost. */
static bool add_up_done(const struct call *call, int64_t *ret)
{
    const struct rdl__joint *j = joint_of(call->op.lock);
    unsigned ok = count_of(call, RDL_OK);

    if (call->answered < call->asked && !(j->ops->majority && (call->was_lost || ok >= j->quorum)))
        return false;
    if (call->was_lost)
        *ret = RDL_ELOST;
    else if (ok >= j->quorum)
        *ret = RDL_OK;
    else
        *ret = count_of(call, RDL_ELOST) > 0 ? RDL_ELOST : too_few(call);
    return true;
}

/* Held are so many that nobody else can have it, or free so many that somebody can. */
static bool add_up_locked(const struct call *call, int64_t *ret)
{
    const struct rdl__joint *j = joint_of(call->op.lock);

    if (count_of(call, 1) > j->n - j->quorum)
        *ret = 1;
    else if (count_of(call, 0) >= j->quorum)
        *ret = 0;
    else if (call->answered < call->asked)
        return false;
    else
        *ret = too_few(call);
    return true;
}

static bool add_up_force(const struct call *call, int64_t *ret)
{
    const struct rdl__joint *j = joint_of(call->op.lock);

    if (call->answered < call->asked)
        return false;
    if (j->n - failures(call) < j->quorum)
        *ret = too_few(call);
    else
        *ret = count_of(call, 1) > 0;
    return true;
}

/* When enough of them will be free. */
static bool add_up_remaining(const struct call *call, int64_t *ret)
{
    const struct rdl__joint *j = joint_of(call->op.lock);
    int64_t left[RDL__JOINT_MAX];
    unsigned n = 0;

    if (call->answered < call->asked)
        return false;
    for (unsigned i = 0; i < j->n; i++)
        if (call->question[i].result >= 0)
            left[n++] = call->question[i].result;
    if (n < j->quorum) {
        *ret = too_few(call);
        return true;
    }
    qsort(left, n, sizeof left[0], longest_first);
    *ret = left[n - j->quorum];
    return true;
}

static bool add_up(const struct call *call, int64_t *ret)
{
    if (call->op.verb == &joint_is_locked)
        return add_up_locked(call, ret);
    if (call->op.verb == &joint_force)
        return add_up_force(call, ret);
    if (call->op.verb == &joint_remaining)
        return add_up_remaining(call, ret);
    return add_up_done(call, ret);
}

/* What is lost, by name. */
static void note_lost(struct call *call, unsigned i)
{
    const struct rdl__name *name = joint_of(call->op.lock)->part[i].handle.name;
    size_t used = strlen(call->lost);

    if (used + 16 > sizeof call->lost)
        return;
    if (used > 0)
        call->lost[used++] = ' ';
    (void)rdl__printable(call->lost + used, sizeof call->lost - used, name->bytes, name->node.key_len);
}

static void take_answer(struct call *call, unsigned i, int64_t result, const rdl_err_t *err)
{
    struct question *q = &call->question[i];

    q->answered = true;
    q->result = result;
    call->answered++;
    if (result == RDL_ELOST || result == RDL_ENOTOWNER) {
        q->result = RDL_ELOST; /* who does not hold what the composite took has lost it */
        note_lost(call, i);
    }
    if (result < 0 && err != NULL)
        call->why = *err;
    if (!call->ended && add_up(call, &result))
        end(call, result);
}

/* Which parts does the verb concern? Taken off the seat at once, when released. */
static bool concerns(struct call *call, unsigned i)
{
    struct seat *seat = &call->rec->seat[i];

    if (call->op.verb == &joint_extend)
        return seat->mine > 0;
    if (call->op.verb != &joint_release)
        return true;
    if (seat->mine <= call->rec->want)
        return false;
    seat->mine--;
    return true;
}

static void ask_all(struct call *call)
{
    unsigned n = joint_of(call->op.lock)->n;
    bool ask_it[RDL__JOINT_MAX];
    int64_t result;

    for (unsigned i = 0; i < n; i++)
        call->asked += ask_it[i] = concerns(call, i);
    for (unsigned i = 0; i < n; i++) {
        int rc = ask_it[i] ? ask(call, i, part_of(call->op.verb), 0, false) : RDL_OK;

        if (rc < 0)
            take_answer(call, i, rc, NULL);
    }
    if (call->asked == 0 && add_up(call, &result))
        end(call, result);
}

/* ---- calls: beginning and ending ------------------------------------------------------------------------------------------- */

static void begin_take(struct call *call, int64_t now)
{
    struct rdl__joint *j = joint_of(call->op.lock);
    struct rdl__plan *p = &call->plan;
    struct record *rec = call->rec;
    struct rdl__plan_event start = {.kind = RDL__PLAN_START, .now = now};
    int64_t lease_ms = call->op.lease_ms == RDL_LEASE_AUTO ? j->home->watchdog_lease_ms : call->op.lease_ms;

    if (rec->lost) {
        end(call, RDL_ELOST);
        return;
    }
    *p = (struct rdl__plan){
        .part = call->part,
        .n = j->n,
        .quorum = j->quorum,
        .once = call->op.wait_ms == 0,
        .renewed = call->op.lease_ms == RDL_LEASE_AUTO,
        .part_timeout_ms = j->options.part_timeout_ms < lease_ms ? j->options.part_timeout_ms : lease_ms,
        .most_hold_ms = lease_ms / 3,
        .retry = j->options.retry,
        .rand.state = j->home->serial ^ (uint64_t)now,
        .wake_at = RDL__NEVER,
    };
    if (!p->once)
        p->deadline =
            call->op.wait_ms == RDL_WAIT_FOREVER ? RDL__NEVER : rdl__after_ms(call->op.started_at, call->op.wait_ms);
    rec->want = rec->count + 1;
    feed(call, &start);
}

static void begin_release(struct call *call, int64_t now)
{
    struct record *rec = call->rec;

    if (rec->count == 0) {
        end(call, RDL_ENOTOWNER);
        return;
    }
    call->was_lost = view_record(rec, now).state == RDL_LOST;
    rec->want = --rec->count;
    if (rec->count == 0)
        rec->lost = false;
    ask_all(call);
}

/* @locks mu */
static void begin(struct call *call, int64_t now)
{
    struct rdl__view view = view_record(call->rec, now);

    call->begun = true;
    if (call->op.verb == &joint_take) {
        begin_take(call, now);
    } else if (call->op.verb == &joint_release) {
        begin_release(call, now);
    } else if (call->op.verb == &joint_extend && view.state == RDL_NOT_HELD) {
        end(call, RDL_ENOTOWNER);
    } else if (call->op.verb != &joint_extend && (call->op.verb != &joint_remaining || view.state == RDL_NOT_HELD)) {
        ask_all(call);
    } else if (view.state == RDL_LOST) {
        end(call, RDL_ELOST);
    } else if (call->op.verb == &joint_remaining) {
        end(call, rdl__ms_until(view.left, 0));
    } else {
        ask_all(call);
    }
}

/* Let the record's next call begin, once nothing of the last one is under way.  @locks mu */
static void next_call(struct record *rec)
{
    struct rdl__link *l;

    if (rec->active != NULL || (l = rdl__list_first(&rec->pending)) == NULL)
        return;
    if (rec->straggling != NULL) {
        cancel_questions(rec->straggling);
        return;
    }
    rdl__list_remove(l);
    rec->active = call_of(rdl__container(l, rdl_op_t, pending));
    rec->active->queued = false;
    begin(rec->active, rdl__now());
}

static bool asking(const struct call *call)
{
    for (unsigned i = 0; i < joint_of(call->op.lock)->n; i++)
        if (call->question[i].under_way)
            return true;
    return false;
}

/* The outcome is decided; whoever drives the call will conclude it.  @locks mu */
static void end(struct call *call, int64_t result)
{
    struct record *rec = call->rec;

    call->ended = true;
    call->op.result = result;
    if (call->op.verb == &joint_take && asking(call)) {
        rec->straggling = call;
        call_ref(call);
    }
    if (rec->active == call)
        rec->active = NULL;
    nudge(call);
    next_call(rec);
}

/* All that it asked has been answered, too.  @locks mu */
static void straggled(struct call *call)
{
    struct record *rec = call->rec;

    if (rec->straggling != call || asking(call))
        return;
    rec->straggling = NULL;
    next_call(rec);
    record_retire(rec);
    call_unref(call); /* the question that was just answered has one, too */
}

/* May the server have forgotten a holder whose lease still runs? (PROTOCOL.md, 8)  @locks mu */
static bool young(const struct call *call, unsigned i, int64_t now)
{
    const struct rdl__joint *j = joint_of(call->op.lock);
    int64_t lease_ms = call->op.lease_ms == RDL_LEASE_AUTO ? client_at(j, i)->watchdog_lease_ms : call->op.lease_ms;
    int64_t least_ms = j->options.min_uptime_ms > lease_ms ? j->options.min_uptime_ms : lease_ms;
    int64_t born_at = atomic_load(&client_at(j, i)->node.born_at);
    int64_t up_ms = born_at == INT64_MIN ? 0 : (now - born_at) / RDL__MS;

    return j->ops->majority && j->options.min_uptime_ms >= 0 && up_ms < least_ms;
}

/* A part was taken: whether the machine still wants it or not, it is in the count.  @locks mu */
static void note_taken(struct call *call, unsigned i, struct rdl__plan_event *ev)
{
    struct seat *seat = &call->rec->seat[i];
    struct rdl__view view;

    ev->young = young(call, i, ev->now);
    if (seat->mine++ == 0)
        seat->young = ev->young;
    view = rdl__record_view(joint_of(call->op.lock)->part[i].handle.name, seat->owner,
                            joint_of(call->op.lock)->part[i].handle.ops, ev->now);
    seat->n = view.n;
    ev->until = ev->now + view.left;
}

static void take_answered(struct call *call, unsigned i, int64_t result, const rdl_err_t *err)
{
    struct rdl__plan_event ev = {.kind = RDL__PLAN_ANSWER, .part = i, .code = (int)result, .now = rdl__now()};

    if (result == RDL_OK && call->question[i].takes)
        note_taken(call, i, &ev);
    else if (result == RDL_OK)
        ev.until = ev.now + view_seat(call->rec, i, ev.now).left;
    else if (err != NULL && (call->why.code == 0 || result != RDL_ECANCELED))
        call->why = *err;
    if (!call->ended)
        feed(call, &ev);
    else
        settle(call->rec);
}

/* @thread the part's loop  @locks none */
static void on_answer(rdl_lock_t *part, int64_t result, const rdl_err_t *err, void *arg)
{
    struct question *q = arg;
    struct call *call = q->call;
    struct rdl__joint *j = joint_ref(joint_of(call->op.lock));
    rdl_op_t *op;

    (void)part;
    rdl__mutex_lock(&j->mu);
    op = q->op;
    q->op = NULL;
    q->under_way = false;
    if (call->op.verb == &joint_take)
        take_answered(call, q->index, result, err);
    else
        take_answer(call, q->index, result, err);
    straggled(call);
    rdl__mutex_unlock(&j->mu);
    (void)rdl_op_free(op);
    call_unref(call);
    joint_unref(j);
}

/* ---- calls: their own driver ----------------------------------------------------------------------------------------------- */

/* Look what is due. True: the call has ended.  @locks mu */
static bool look(struct call *call, int64_t now)
{
    int code = atomic_load(&call->op.cancel_code);
    struct rdl__plan_event stop = {.kind = RDL__PLAN_STOP, .code = code, .now = now};
    struct rdl__plan_event timer = {.kind = RDL__PLAN_TIMER, .now = now};
    int64_t deadline = rdl__after_ms(call->op.started_at, call->op.wait_ms);

    if (call->queued && call->op.verb->acquires && code == RDL_OK && call->op.wait_ms > 0 && now >= deadline)
        code = RDL_ETIMEDOUT;
    if (call->ended)
        return true;
    if (call->queued && code != RDL_OK) {
        call->queued = false;
        rdl__list_remove(&call->op.pending);
        end(call, code);
    } else if (call->begun && call->op.verb->acquires && code != RDL_OK) {
        feed(call, &stop);
    } else if (call->begun && call->op.verb->acquires && now >= call->plan.wake_at) {
        feed(call, &timer);
    }
    return call->ended;
}

/* When to look next, if nothing happens.  @locks mu */
static int64_t next_look(const struct call *call)
{
    if (call->queued && call->op.verb->acquires && call->op.wait_ms > 0)
        return rdl__after_ms(call->op.started_at, call->op.wait_ms);
    return call->begun && call->op.verb->acquires ? call->plan.wake_at : RDL__NEVER;
}

/* Last thing but for the callback.  @locks mu */
static void conclude(struct call *call)
{
    rdl__owner_end(call->op.owner, &call->op.underway);
    if (!call->op.blocking) {
        rdl_client_t *home = call->op.owner->client;

        rdl__loop_unpost(home->node.loop, &call->op.task);
        rdl__loop_timer_off(home->node.loop, &call->op.timer);
        call_ref(call);
        rdl__dispatch_push(&home->dispatch, &call->op.callback);
    }
    record_retire(call->rec);
}

static void explain(struct call *call, rdl_err_t *err)
{
    const struct rdl__joint *j = joint_of(call->op.lock);
    int code = (int)call->op.result;
    const char *words = call->why.code == code ? call->why.message : rdl_strerror(code);
    unsigned taken = 0, refused = 0, infant = 0;

    if (err == NULL)
        return;
    for (unsigned i = 0; i < j->n; i++) {
        taken += call->part[i].code == RDL_OK && call->part[i].until > 0;
        infant += call->part[i].code == RDL_OK && call->part[i].until > 0 && call->part[i].young;
        refused += call->part[i].code == RDL_ETIMEDOUT;
    }
    if (call->op.verb == &joint_take && j->ops->majority && (code == RDL_ENOQUORUM || code == RDL_ETIMEDOUT))
        (void)rdl__err_set(err, code,
                           "%s lock of %u: %u granted it (%u of them up for less than a lease, which does not "
                           "count), %u refused, %u did not answer in time; %u are needed",
                           j->ops->type, j->n, taken, infant, refused, j->n - taken - refused, j->quorum);
    else if (code == RDL_ELOST && call->lost[0] != '\0')
        (void)rdl__err_set(err, code, "%s lock of %u: %u lost: %s", j->ops->type, j->n, count_of(call, RDL_ELOST),
                           call->lost);
    else
        (void)rdl__err_set(err, code, "%s lock of %u: %s", j->ops->type, j->n, words);
    rdl__err_where(err, call->why.code == code ? call->why.server : NULL, j->name, j->name_len);
}

static void run_callback(struct rdl__callback *callback)
{
    struct call *call = call_of(rdl__container(callback, rdl_op_t, callback));
    rdl_err_t err = {0};

    if (call->op.result < 0)
        explain(call, &err);
    if (call->op.fn != NULL)
        ((rdl_done_fn)call->op.fn)(call->op.lock, call->op.result, call->op.result < 0 ? &err : NULL, call->op.arg);
    call_unref(call);
}

/* @thread the first client's loop */
static void drive(struct call *call, int64_t now)
{
    struct rdl__joint *j = joint_ref(joint_of(call->op.lock));
    rdl_client_t *home = j->home;
    bool ended;

    rdl__mutex_lock(&j->mu);
    ended = look(call, now);
    if (!ended && next_look(call) != RDL__NEVER)
        rdl__loop_timer(home->node.loop, &call->op.timer, next_look(call));
    else if (!ended)
        rdl__loop_timer_off(home->node.loop, &call->op.timer);
    else
        conclude(call);
    rdl__mutex_unlock(&j->mu);
    if (ended) {
        rdl__client_call_ends(home);
        call_unref(call);
    }
    joint_unref(j);
}

static void on_task(struct rdl__task *task, int64_t now)
{
    drive(call_of(rdl__container(task, rdl_op_t, task)), now);
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    drive(call_of(rdl__container(timer, rdl_op_t, timer)), now);
}

/* Everything up to the beginning. An error: nothing was done. *ret_call has two references. */
static int prepare(const struct rdl__order *order, bool blocking, struct call **ret_call)
{
    struct rdl__joint *j = joint_of(order->lock);
    rdl_owner_t *owner = order->owner;
    struct record *rec;
    struct call *call = NULL;
    int rc;

    if (owner == NULL && (rc = rdl__owner_self(j->home, &owner)) < 0)
        return rc;
    rdl__mutex_lock(&j->mu);
    if ((rec = record_find(j, owner)) == NULL && (rc = record_make(j, owner, order->owner != NULL, &rec)) < 0)
        goto out;
    rc = RDL_ENOMEM;
    if ((call = call_make(order, j, rec, blocking)) == NULL) {
        record_retire(rec);
        goto out;
    }
    rc = RDL_OK;
    rdl__owner_begin(call->op.owner, &call->op.underway);
    *ret_call = call;
    if (call->op.verb->on_record) {
        call->queued = true;
        rdl__list_push_back(&rec->pending, &call->op.pending);
        next_call(rec);
    } else {
        begin(call, call->op.started_at);
    }
    if (!blocking)
        nudge(call);
out:
    rdl__mutex_unlock(&j->mu);
    return rc;
}

static bool on_some_loop(const struct rdl__joint *j)
{
    bool here = false;

    for (unsigned i = 0; i < j->n && !here; i++) {
        if (rdl__client_call_begins(client_at(j, i)) < 0)
            continue;
        here = rdl__loop_here(client_at(j, i)->node.loop);
        rdl__client_call_ends(client_at(j, i));
    }
    return here;
}

int64_t rdl__joint_call(const struct rdl__order *order, rdl_err_t *err)
{
    struct rdl__joint *j = joint_of(order->lock);
    struct call *call = NULL;
    int64_t result;
    int rc;

    if (on_some_loop(j))
        return rdl__err_set(err, RDL_EDEADLK, "a blocking verb on a client's loop thread would wait for itself");
    if ((rc = rdl__client_call_begins(j->home)) < 0)
        return rdl__err_set(err, rc, NULL);
    if ((rc = prepare(order, true, &call)) < 0) {
        rdl__client_call_ends(j->home);
        return rdl__err_set(err, rc, NULL);
    }
    rdl__mutex_lock(&j->mu);
    for (;;) {
        int64_t until;

        rdl__parker_unmark(&call->op.done, POST_NEWS);
        if (look(call, rdl__now()))
            break;
        until = next_look(call);
        rdl__mutex_unlock(&j->mu);
        (void)rdl__park(&call->op.done, until);
        rdl__mutex_lock(&j->mu);
    }
    conclude(call);
    result = call->op.result;
    if (result < 0)
        explain(call, err);
    rdl__mutex_unlock(&j->mu);
    rdl__client_call_ends(j->home);
    call_unref(call);
    call_unref(call);
    return result;
}

int rdl__joint_call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__joint *j = joint_of(order->lock);
    struct call *call = NULL;
    int rc = rdl__client_call_begins(j->home);

    if (rc < 0)
        return rdl__err_set(err, rc, NULL);
    if ((rc = prepare(order, false, &call)) < 0) {
        rdl__client_call_ends(j->home);
        return rdl__err_set(err, rc, NULL);
    }
    if (ret_op != NULL)
        *ret_op = &call->op;
    else
        call_unref(call);
    return RDL_OK;
}
