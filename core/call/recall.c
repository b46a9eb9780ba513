/* SPDX-License-Identifier: MIT */
/* recall.c - who else wants a kept lock, and for how long the loop listens for that (cache.h).
 *
 * While the name is in use the loop is engaged: the topic, the timer and a reference to the name are there together.
 * The client's closing and the last rdl_lock_free end that, and give back what nobody uses.
 */
#include "core/call/cache.h"
#include "core/call/cached.h"

#include "core/wire/names.h"

#include <string.h>

#define LOOKS 8 /* at names, of which one makes room */

/* ---- timer ------------------------------------------------------------------------------------------------------ */

/* Does somebody wait for those who are inside and share it to leave?  @locks the name's */
static bool awaits_the_last(const struct rdl__cache *cache)
{
    rdl__assert_locked(&cache->name->mu);
    return !rdl__list_empty(&cache->queue) && rdl__keep_awaited_until(&cache->keep) != 0;
}

/* When the loop has to act by itself; RDL__NEVER: something else comes first.  @locks the name's */
static int64_t due_at(const struct rdl__cache *cache)
{
    rdl__assert_locked(&cache->name->mu);
    switch ((enum rdl__keep_state)cache->keep.state) {
    case RDL__KEEP_NONE:
        return rdl__after_ms(cache->used_at, cache->cache_ms);
    case RDL__KEEP_HELD:
        if (awaits_the_last(cache))
            return rdl__keep_awaited_until(&cache->keep);
        return cache->keep.until;
    case RDL__KEEP_PAUSING:
        return cache->keep.until;
    case RDL__KEEP_TAKING:
    case RDL__KEEP_GIVING:
        break;
    }
    return RDL__NEVER;
}

/* @thread loop  @locks none */
void rdl__cache_arm(struct rdl__cache *cache)
{
    struct rdl__loop *loop = rdl__client_loop(cache->name->client);
    int64_t at = RDL__NEVER;

    rdl__assert_on_loop(loop);
    rdl__mutex_lock(&cache->name->mu);
    if (cache->engaged)
        at = due_at(cache);
    rdl__mutex_unlock(&cache->name->mu);
    if (at != RDL__NEVER)
        rdl__loop_timer(loop, &cache->timer, at);
    else
        rdl__loop_timer_off(loop, &cache->timer);
}

bool rdl__cache_at_home(const struct rdl__cache *cache)
{
    const struct rdl__shard *shard = rdl__name_shard(cache->name);

    rdl__assert_on_loop(rdl__client_loop(cache->name->client));
    return atomic_load(&shard->node.run) == cache->run && shard->sub == cache->sub;
}

/* ---- recalls ---------------------------------------------------------------------------------------------------- */

static void on_subscribed(struct rdl__topic *topic, int64_t now)
{
    struct rdl__cache *cache = rdl__container(topic, struct rdl__cache, topic);

    (void)now;
    cache->run = atomic_load(&rdl__name_shard(cache->name)->node.run);
    rdl__mutex_lock(&cache->name->mu);
    rdl__keep_heard(&cache->keep);
    rdl__mutex_unlock(&cache->name->mu);
}

/* What was kept on its account goes back: at once if nobody is inside, else with the unlock. */
static void on_cut(struct rdl__topic *topic, int64_t now)
{
    struct rdl__cache *cache = rdl__container(topic, struct rdl__cache, topic);

    rdl__mutex_lock(&cache->name->mu);
    rdl__keep_unheard(&cache->keep);
    if (cache->keep.state == RDL__KEEP_HELD && cache->inside == 0)
        rdl__cache_next(cache, now);
    rdl__mutex_unlock(&cache->name->mu);
}

/* `n`: somebody wants it; with `:gone` behind it: somebody has evicted it, which the server is asked about, as anybody
 * may say so (evictions.c). */
static void on_recall(struct rdl__topic *topic, const char *payload, size_t len, int64_t now)
{
    struct rdl__cache *cache = rdl__container(topic, struct rdl__cache, topic);
    const char *gone = memchr(payload, ':', len);
    const struct rdl__reply text = {
        .type = RDL__REPLY_STRING, .str = payload, .len = gone == NULL ? len : (size_t)(gone - payload)};
    bool recalled, suspected = false;
    int64_t n;

    if (!rdl__reply_integer(&text, &n))
        return;
    rdl__mutex_lock(&cache->name->mu);
    recalled = rdl__keep_recalled(&cache->keep, n, now);
    if (recalled && cache->inside == 0)
        rdl__cache_next(cache, now);
    if (gone != NULL)
        suspected = rdl__keep_suspected(&cache->keep, n);
    rdl__mutex_unlock(&cache->name->mu);
    if (recalled)
        rdl__name_metric(cache->name, RDL_M_RECALLS, 1);
    if (suspected)
        rdl__watchdog_verify(rdl__cache_watchdog(cache), n);
}

static const struct rdl__topic_ops topic_ops = {
    .subscribed = on_subscribed, .message = on_recall, .interrupted = on_cut};

/* ---- engaged ---------------------------------------------------------------------------------------------------- */

/* @thread loop  @locks none */
static void engage(struct rdl__cache *cache, int64_t now)
{
    rdl_client_t *client = cache->name->client;

    rdl__assert_on_loop(rdl__client_loop(client));
    rdl__name_ref(cache->name);
    atomic_fetch_add(&client->cached_names, 1);
    cache->sub = rdl__name_shard(cache->name)->sub;
    rdl__list_push_back(&client->debts, &cache->debt.link);
    rdl__list_push_back(&client->cached, &cache->room);
    rdl__subscriber_add(cache->sub, &cache->topic, now);
}

/* @thread loop  @locks none */
static void disengage(struct rdl__cache *cache)
{
    rdl_client_t *client = cache->name->client;

    rdl__assert_on_loop(rdl__client_loop(client));
    rdl__loop_timer_off(rdl__client_loop(client), &cache->timer);
    rdl__list_remove(&cache->debt.link);
    rdl__list_remove(&cache->room);
    rdl__subscriber_drop(cache->sub, &cache->topic);
    atomic_fetch_sub(&client->cached_names, 1);
    rdl__name_unref(cache->name);
}

/* Is nothing at the server, and nobody in need of it? Then the loop stops listening.  @locks the name's */
static bool is_unused(const struct rdl__cache *cache, int64_t now)
{
    rdl__assert_locked(&cache->name->mu);
    return cache->engaged && cache->keep.state == RDL__KEEP_NONE && rdl__list_empty(&cache->queue) &&
           (cache->keep.closed || cache->leaves || now >= due_at(cache));
}

/* @thread loop  @locks none */
static void disengage_unused(struct rdl__cache *cache, int64_t now)
{
    bool unused;

    rdl__assert_on_loop(rdl__client_loop(cache->name->client));
    rdl__mutex_lock(&cache->name->mu);
    if ((unused = is_unused(cache, now))) {
        rdl__keep_unheard(&cache->keep);
        cache->engaged = cache->leaves = false;
    }
    rdl__mutex_unlock(&cache->name->mu);
    if (unused)
        disengage(cache);
    else
        rdl__cache_arm(cache);
}

/* Could the name make room for another?  @locks the name's */
static bool may_leave(const struct rdl__cache *cache)
{
    rdl__assert_locked(&cache->name->mu);
    return (cache->keep.state == RDL__KEEP_NONE || cache->keep.state == RDL__KEEP_HELD) && cache->inside == 0 &&
           rdl__list_empty(&cache->queue);
}

/* It is to; what it keeps is given back first, and until then it stands first in the list. True: it has left.  @thread
 * loop  @locks none */
static bool leave(struct rdl__cache *cache)
{
    bool at_once = false;

    rdl__assert_on_loop(rdl__client_loop(cache->name->client));
    rdl__mutex_lock(&cache->name->mu);
    if (may_leave(cache) && cache->keep.state == RDL__KEEP_HELD) {
        cache->leaves = true;
        rdl__keep_give(&cache->keep, RDL__END_ROOM);
        rdl__cache_post(cache);
        rdl__list_remove(&cache->room);
        rdl__list_push_front(&cache->name->client->cached, &cache->room);
    } else if (may_leave(cache)) {
        at_once = true;
        cache->engaged = cache->leaves = false;
        rdl__keep_unheard(&cache->keep);
    }
    rdl__mutex_unlock(&cache->name->mu);
    if (at_once)
        disengage(cache);
    return at_once;
}

/* Of a few of the names in use the one that was wanted least lately leaves, as a list of all by their last use would
 * cost each take here the client's mutex. True: there is room now; else there will be for whoever comes next. While
 * what one keeps is given back no other leaves: a name that is wanted again and again meanwhile would empty the list.
 * @thread loop  @locks none */
static bool makes_room(rdl_client_t *client)
{
    struct rdl__cache *least = NULL;
    int64_t used_at = 0;

    rdl__assert_on_loop(rdl__client_loop(client));
    for (int looks = 0; looks < LOOKS && !rdl__list_empty(&client->cached); looks++) {
        struct rdl__cache *cache = rdl__container(client->cached.next, struct rdl__cache, room);
        bool leaving;

        rdl__mutex_lock(&cache->name->mu);
        leaving = cache->leaves && cache->keep.state == RDL__KEEP_GIVING;
        if (may_leave(cache) && (least == NULL || cache->used_at < used_at)) {
            least = cache;
            used_at = cache->used_at;
        }
        rdl__mutex_unlock(&cache->name->mu);
        if (leaving)
            return false;
        rdl__list_remove(&cache->room);
        rdl__list_push_back(&client->cached, &cache->room);
    }
    return least != NULL && leave(least);
}

/* Is the loop to listen for this name?  @thread loop  @locks none */
static bool has_room(rdl_client_t *client)
{
    rdl__assert_on_loop(rdl__client_loop(client));
    return atomic_load(&client->cached_names) < client->cache_names || makes_room(client);
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    struct rdl__cache *cache = rdl__container(timer, struct rdl__cache, timer);

    rdl__mutex_lock(&cache->name->mu);
    if (rdl__keep_pause_over(&cache->keep, now))
        rdl__cache_anew(cache, now);
    else if (cache->keep.state == RDL__KEEP_HELD && cache->inside == 0)
        rdl__cache_next(cache, now);
    else if (awaits_the_last(cache) && now >= rdl__keep_awaited_until(&cache->keep))
        rdl__cache_all_ask(cache);
    if (cache->keep.state == RDL__KEEP_HELD && cache->keep.until <= now) { /* its owner gives it back when it leaves */
        rdl__mutex_unlock(&cache->name->mu);
        return;
    }
    rdl__mutex_unlock(&cache->name->mu);
    disengage_unused(cache, now);
}

/* A handle of the name, with a reference; NULL: the last one has gone.  @locks none */
static rdl_lock_t *any_handle(struct rdl__name *name)
{
    rdl_lock_t *lock;

    rdl__mutex_lock(&name->mu);
    lock = rdl__name_any_handle(name);
    rdl__mutex_unlock(&name->mu);
    return lock;
}

static void on_task(struct rdl__task *task, int64_t now)
{
    struct rdl__cache *cache = rdl__container(task, struct rdl__cache, task);
    struct rdl__name *name = cache->name;
    bool engages, takes, gives, confirms;
    rdl_lock_t *lock;
    int64_t n;

    rdl__mutex_lock(&name->mu);
    cache->posted = false;
    engages = cache->to_engage && !cache->engaged && !cache->keep.closed;
    cache->to_engage = false;
    rdl__mutex_unlock(&name->mu);
    engages = engages && !atomic_load(&name->client->closing) && has_room(name->client);
    rdl__mutex_lock(&name->mu);
    engages = engages && !cache->keep.closed;
    cache->engaged = cache->engaged || engages;
    takes = cache->keep.state == RDL__KEEP_TAKING && !cache->keep.begun;
    gives = cache->keep.state == RDL__KEEP_GIVING && !cache->keep.begun;
    cache->keep.begun = cache->keep.begun || takes;
    confirms = cache->confirms == RDL__CONFIRM_WANTED && cache->keep.state == RDL__KEEP_HELD;
    if (cache->confirms == RDL__CONFIRM_WANTED)
        cache->confirms = confirms ? RDL__CONFIRM_SENT : RDL__CONFIRM_NONE;
    n = cache->keep.n;
    rdl__mutex_unlock(&name->mu);
    if (engages)
        engage(cache, now);
    if (takes || gives || confirms) {
        lock = any_handle(name);
        if (confirms)
            rdl__cache_confirm(cache, lock, n);
        else if (takes && lock == NULL)
            rdl__cache_cannot(cache);
        else if (takes)
            rdl__cache_take(cache, lock);
        else if (lock != NULL) /* else whoever drops the last one releases it */
            rdl__cache_release(cache, lock);
        if (lock != NULL)
            rdl__handle_unref(lock);
    }
    disengage_unused(cache, now);
    rdl__name_unref(name);
}

void rdl__cache_post(struct rdl__cache *cache)
{
    rdl__assert_locked(&cache->name->mu);
    if (cache->posted)
        return;
    cache->posted = true;
    rdl__name_ref(cache->name);
    rdl__loop_post(rdl__client_loop(cache->name->client), &cache->task);
}

/* The client closes: what nobody uses is given back. What somebody is inside of ends with its lease. */
static void on_close(struct rdl__debt *debt)
{
    struct rdl__cache *cache = rdl__container(debt, struct rdl__cache, debt);
    struct rdl__name *name = cache->name;
    rdl_lock_t *lock = any_handle(name);
    int64_t now = rdl__now();

    rdl__mutex_lock(&name->mu);
    cache->keep.closed = true;
    rdl__keep_unheard(&cache->keep);
    if (cache->keep.state == RDL__KEEP_HELD && cache->inside == 0)
        rdl__cache_next(cache, now);
    cache->engaged = false;
    rdl__mutex_unlock(&name->mu);
    if (lock != NULL) {
        rdl__cache_release(cache, lock);
        rdl__handle_unref(lock);
    }
    disengage(cache);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------ */

int rdl__cache_make(rdl_lock_t *lock, int64_t cache_ms)
{
    struct rdl__name *name = lock->name;
    const struct rdl__mem *mem = &name->client->mem;
    size_t channel_len = rdl__name_prefix_len(RDL__RECALL_PREFIX, name->bytes, name->node.key_len) + 1 + RDL__UUID_LEN;
    struct rdl__cache *cache = rdl__zalloc(mem, sizeof *cache + channel_len);
    struct rdl__buf channel;
    int rc = RDL_ENOMEM;

    if (cache == NULL)
        return RDL_ENOMEM;
    cache->size = sizeof *cache + channel_len;
    cache->name = name;
    cache->ops = lock->ops->other_end != NULL && !rdl__news_shares(lock->ops->news) ? lock->ops->other_end : lock->ops;
    cache->keep.shared = rdl__news_shares(cache->ops->news);
    cache->cache_ms = cache_ms;
    cache->lease_ms = rdl__keep_lease_ms(cache_ms, cache->ops->trusted_ms(name, name->client->watchdog_lease_ms));
    rdl__list_init(&cache->queue);
    rdl__list_init(&cache->others);
    rdl__list_init(&cache->debt.link);
    rdl__list_init(&cache->room);
    cache->debt.pay = on_close;
    rdl__task_init(&cache->task, on_task);
    rdl__timer_init(&cache->timer, on_timer);
    rdl__buf_init(&channel, mem);
    rdl__name_prefix(&channel, RDL__RECALL_PREFIX, name->bytes, name->node.key_len);
    rdl__buf_put(&channel, ":", 1);
    rdl__buf_put(&channel, name->client->uuid.text, RDL__UUID_LEN);
    if (rdl__buf_failed(&channel) || (rc = rdl_owner_new(name->client, &cache->keeper, NULL)) < 0)
        goto out;
    memcpy(cache->channel, channel.data, channel_len);
    cache->topic = (struct rdl__topic){.ops = &topic_ops, .plain = true};
    cache->topic.node.key = cache->channel;
    cache->topic.node.key_len = (uint32_t)channel_len;
    rdl__mutex_lock(&name->mu);
    if (name->cache == NULL) {
        name->cache = cache;
        cache = NULL;
    } else {
        name->cache->keep.closed = false; /* another handle was the last when it was freed, and this one came */
    }
    rc = name->cache->cache_ms == cache_ms ? RDL_OK : RDL_EINVAL;
    rdl__mutex_unlock(&name->mu);
out:
    rdl__buf_done(&channel);
    if (cache != NULL) {
        (void)rdl_owner_free(cache->keeper);
        rdl__free(mem, cache, cache->size);
    }
    return rc;
}

void rdl__cache_unused(struct rdl__name *name)
{
    struct rdl__cache *cache = name->cache;

    name->cache = NULL;
    if (cache == NULL)
        return;
    (void)rdl_owner_free(cache->keeper);
    rdl__free(&name->client->mem, cache, cache->size);
}
