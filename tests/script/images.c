/* SPDX-License-Identifier: MIT */
#include "tests/script/images.h"
#include "scripts/scripts.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_US INT64_C(1700000000000000)
#define NO_IMAGE UINT32_MAX

struct image {
    size_t at; /* in im->bytes */
    size_t len;
    uint32_t next_tick; /* NO_IMAGE: not known yet */
    uint64_t holds;
    uint64_t places;
    int left;
    bool there; /* of locks that count: the number is */
    uint8_t tick;
};

/* What a command does to an image, remembered. */
struct memo {
    uint64_t key; /* image and command; 0: empty slot */
    uint32_t image;
    uint8_t outcome;
    uint8_t taken;
    bool unlike_reference;
    struct grant grant;
};

struct images {
    const struct lock_type *type;
    struct keyspace *ks;
    char shas[LOCK_VERBS][KS_SHA_SIZE];
    struct bytes bytes;
    struct image *all;
    uint32_t count, cap;
    uint32_t *slots; /* by hash of the bytes: number + 1, or 0 */
    size_t slot_count;
    struct memo *memos; /* a hash table as well */
    size_t memo_count, memo_slots;
    unsigned outcomes;
};

static int64_t tick_ms(const struct images *im)
{
    return im->type->tick_ms != 0 ? im->type->tick_ms : 1000;
}

/* ---- numbering the states of the keyspace ----------------------------------------------------------------------- */

void holder_name(char ret[LOCK_OWNER_SIZE], const struct lock_type *type, unsigned holder, enum lock_end end,
                 unsigned number)
{
    const char *ending = end == LOCK_ONE && type->ending != NULL ? type->ending : "";

    memset(ret, 0, LOCK_OWNER_SIZE);
    (void)snprintf(ret, LOCK_OWNER_SIZE, "%c:%u%s", (char)('A' + holder), number, ending);
}

uint64_t hold_bit(unsigned holder, enum lock_end end, unsigned number)
{
    return UINT64_C(1) << ((holder * LOCK_ENDS + end) * NUMBERS_MAX + number);
}

/* A bit for each owner of which `has` is true. */
static uint64_t find_owners(struct images *im, bool (*has)(struct keyspace *ks, const char *owner))
{
    unsigned names = HOLDERS_MAX * (im->type->ending != NULL ? LOCK_ENDS : 1) * NUMBERS_MAX;
    uint64_t holds = 0;
    char name[LOCK_OWNER_SIZE];

    for (unsigned i = 0; i < names; i++) {
        unsigned number = i % NUMBERS_MAX, holder = i / NUMBERS_MAX % HOLDERS_MAX;
        enum lock_end end = (enum lock_end)(i / NUMBERS_MAX / HOLDERS_MAX);

        holder_name(name, im->type, holder, end, number);
        if (has(im->ks, name))
            holds |= hold_bit(holder, end, number);
    }
    return holds;
}

static void count_left(struct images *im, struct image *image)
{
    struct lock_state state;

    (void)im->type->look(im->ks, &state);
    image->left = (int)state.count;
    image->there = state.held;
}

static uint32_t *slot_of(const struct images *im, const char *bytes, size_t len)
{
    size_t at = (size_t)ks_hash(bytes, len) & (im->slot_count - 1);

    for (;; at = (at + 1) & (im->slot_count - 1)) {
        const struct image *image;

        if (im->slots[at] == 0)
            return &im->slots[at];
        image = &im->all[im->slots[at] - 1];
        if (image->len == len && memcmp(im->bytes.at + image->at, bytes, len) == 0)
            return &im->slots[at];
    }
}

static void grow_slots(struct images *im)
{
    free(im->slots);
    im->slot_count *= 2;
    im->slots = must_alloc(im->slot_count * sizeof *im->slots);
    for (uint32_t i = 0; i < im->count; i++)
        *slot_of(im, im->bytes.at + im->all[i].at, im->all[i].len) = i + 1;
}

static void add_image(struct images *im, const struct bytes *bytes)
{
    if (im->count == im->cap) {
        im->cap = im->cap == 0 ? 256 : im->cap * 2;
        im->all = must_realloc(im->all, im->cap * sizeof *im->all);
    }
    im->all[im->count++] = (struct image){
        .at = im->bytes.len,
        .len = bytes->len,
        .next_tick = NO_IMAGE,
        .holds = im->type->holds != NULL ? find_owners(im, im->type->holds) : 0,
        .places = im->type->waits != NULL ? find_owners(im, im->type->waits) : 0,
        .tick = (uint8_t)((ks_time(im->ks) - START_US) / (tick_ms(im) * 1000)),
    };
    if (im->type->stock > 0)
        count_left(im, &im->all[im->count - 1]);
    bytes_add(&im->bytes, bytes->at, bytes->len);
}

/* The number of the keyspace's present state. */
static uint32_t number_now(struct images *im)
{
    struct bytes bytes = {0};
    uint32_t *slot;
    uint32_t number;

    ks_save(im->ks, &bytes);
    slot = slot_of(im, bytes.at, bytes.len);
    if (*slot == 0) {
        add_image(im, &bytes);
        *slot = im->count;
    }
    number = *slot - 1;
    bytes_done(&bytes);
    if (im->count * 2 > im->slot_count)
        grow_slots(im);
    return number;
}

static void restore(struct images *im, uint32_t image)
{
    ks_restore(im->ks, im->bytes.at + im->all[image].at, im->all[image].len);
}

uint32_t image_after_tick(struct images *im, uint32_t image)
{
    if (im->all[image].next_tick == NO_IMAGE) {
        uint32_t next;

        restore(im, image);
        ks_advance(im->ks, tick_ms(im) * 1000);
        next = number_now(im);
        im->all[image].next_tick = next;
    }
    return im->all[image].next_tick;
}

unsigned image_tick(const struct images *im, uint32_t image)
{
    return im->all[image].tick;
}

uint64_t image_holds(const struct images *im, uint32_t image)
{
    return im->all[image].holds;
}

uint64_t image_places(const struct images *im, uint32_t image)
{
    return im->all[image].places;
}

int image_left(const struct images *im, uint32_t image)
{
    return im->all[image].left;
}

bool image_has_number(const struct images *im, uint32_t image)
{
    return im->all[image].there;
}

unsigned images_outcomes(const struct images *im)
{
    return im->outcomes;
}

/* ---- running commands ------------------------------------------------------------------------------------------- */

static bool same_queue(const struct lock_state *a, const struct lock_state *b)
{
    bool same = a->waiting == b->waiting;

    for (size_t i = 0; same && i < a->waiting; i++)
        same = strcmp(a->queue[i].owner, b->queue[i].owner) == 0 &&
               a->queue[i].alive_until_ms == b->queue[i].alive_until_ms &&
               a->queue[i].lease_ms == b->queue[i].lease_ms && a->queue[i].sending == b->queue[i].sending;
    return same;
}

static bool same_each(const struct lock_hold *a, const struct lock_hold *b, size_t count)
{
    bool same = true;

    for (size_t i = 0; same && i < count; i++)
        same = strcmp(a[i].owner, b[i].owner) == 0 && a[i].count == b[i].count && a[i].until_ms == b[i].until_ms;
    return same;
}

static bool same_holds(const struct lock_state *a, const struct lock_state *b)
{
    return a->writing == b->writing && a->holders == b->holders && same_each(a->holds, b->holds, a->holders) &&
           a->guards.count == b->guards.count && same_each(a->guards.at, b->guards.at, a->guards.count);
}

static bool same_lock_state(const struct lock_state *a, const struct lock_state *b)
{
    if (a->token != b->token || !same_queue(a, b) || !same_holds(a, b))
        return false;
    if (!a->held || !b->held)
        return a->held == b->held;
    return strcmp(a->owner, b->owner) == 0 && a->count == b->count && a->expire_ms == b->expire_ms;
}

/* A message on a channel below the lock's names somebody; one on the lock's own is for all. */
static int64_t note_woken(void *arg, bool sharded, const char *channel, size_t channel_len, const char *payload,
                          size_t payload_len)
{
    static const char head[] = LOCK_CHANNEL ":";
    struct lock_answer *answer = arg;

    (void)sharded;
    if (payload_len < LOCK_SAID_SIZE && channel_len == sizeof head - 2 && memcmp(channel, head, channel_len) == 0)
        memcpy(answer->told, payload, payload_len);
    else if (payload_len < LOCK_SAID_SIZE && channel_len >= sizeof head &&
             channel_len - sizeof head + 2 <= LOCK_OWNER_SIZE && memcmp(channel, head, sizeof head - 1) == 0) {
        memcpy(answer->woken, channel + sizeof head - 1, channel_len - sizeof head + 1);
        memcpy(answer->said, payload, payload_len);
    }
    return 0;
}

static struct grant read_grant(const struct lock_answer *said)
{
    unsigned number, sending;

    if (sscanf(said->said, "%u:%u:", &number, &sending) != 2)
        return (struct grant){0};
    return (struct grant){
        .holder = (uint8_t)(said->woken[0] - 'A' + 1), .number = (uint8_t)number, .sending = (uint8_t)sending};
}

/* Run the call on the keyspace as it is, and on the reference; are they alike? */
static bool run_both(struct images *im, const struct lock_call *call, struct lock_answer *ret, struct grant *ret_grant)
{
    struct lock_state expected;
    struct lock_state found;
    struct lock_words words;
    struct lock_answer said = {0};
    struct lock_answer law;
    struct reply *reply;
    bool readable = im->type->look(im->ks, &expected);

    im->type->lay_out(call, im->shas[call->verb], &words);
    ks_on_publish(im->ks, note_woken, &said);
    reply = ks_command(im->ks, words.count, words.at, NULL);
    ks_on_publish(im->ks, NULL, NULL);
    *ret = im->type->read(call->verb, reply);
    reply_free(reply);
    *ret_grant = read_grant(&said);
    if (!readable || !im->type->look(im->ks, &found))
        return false;
    law = im->type->reference(&expected, call, ks_time(im->ks) / 1000);
    return ret->outcome == law.outcome && ret->ms == law.ms && strcmp(said.woken, law.woken) == 0 &&
           strcmp(said.said, law.said) == 0 && (!im->type->tells || strcmp(said.told, law.told) == 0) &&
           same_lock_state(&expected, &found);
}

static struct memo *memo_slot(const struct images *im, uint64_t key)
{
    size_t at = (size_t)ks_hash(&key, sizeof key) & (im->memo_slots - 1);

    while (im->memos[at].key != 0 && im->memos[at].key != key)
        at = (at + 1) & (im->memo_slots - 1);
    return &im->memos[at];
}

static void grow_memos(struct images *im)
{
    struct memo *old = im->memos;
    size_t old_slots = im->memo_slots;

    im->memo_slots *= 2;
    im->memos = must_alloc(im->memo_slots * sizeof *im->memos);
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].key != 0)
            *memo_slot(im, old[i].key) = old[i];
    free(old);
}

static struct memo run(struct images *im, uint64_t key, uint32_t image, const struct image_command *command)
{
    struct lock_call call = {
        .verb = command->verb,
        .count = command->count,
        .lease_ms = command->lease * tick_ms(im) - 1,
        .sending = command->sending,
    };
    struct memo memo = {.key = key};
    struct lock_answer answer;

    holder_name(call.owner, im->type, command->holder, lock_end(command->verb), command->number);
    if (command->mate != 0)
        holder_name(call.mate, im->type, command->holder, LOCK_ONE, command->mate);
    restore(im, image);
    memo.unlike_reference = !run_both(im, &call, &answer, &memo.grant);
    memo.outcome = (uint8_t)answer.outcome;
    memo.taken = command->verb == LOCK_DRAIN ? (uint8_t)answer.ms : command->count;
    memo.image = number_now(im);
    im->outcomes |= 1u << answer.outcome;
    return memo;
}

struct effect image_apply(struct images *im, uint32_t image, const struct image_command *command)
{
    uint64_t key = (uint64_t)image << 32 | (uint64_t)(command->verb + 1) << 28 | (uint64_t)command->holder << 24 |
                   (uint64_t)command->number << 20 | (uint64_t)command->mate << 16 | (uint64_t)command->sending << 12 |
                   (uint64_t)command->count << 8 | command->lease;
    struct memo memo = *memo_slot(im, key);

    if (command->count > 15 || command->sending > 15)
        die("enumeration: a count or a sending above 15");
    if (memo.key == 0) {
        memo = run(im, key, image, command);
        *memo_slot(im, key) = memo;
        if (++im->memo_count * 2 > im->memo_slots)
            grow_memos(im);
    }
    return (struct effect){
        .image = memo.image,
        .outcome = (enum lock_outcome)memo.outcome,
        .taken = memo.taken,
        .unlike_reference = memo.unlike_reference,
        .grant = memo.grant,
    };
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static void load_product(struct images *im, enum lock_verb verb, const char *name)
{
    for (size_t i = 1; i < RDL__SCRIPT_COUNT; i++) {
        if (strcmp(rdl__scripts[i].name, name) == 0) {
            ks_load(im->ks, rdl__scripts[i].body, rdl__scripts[i].body_len, im->shas[verb]);
            return;
        }
    }
    die("enumeration: the product has no script %s", name);
}

static void put_stock(struct images *im)
{
    char stock[16];

    (void)snprintf(stock, sizeof stock, "%d", im->type->stock);
    reply_free(ks_say(im->ks, "SET", LOCK_NAME, stock));
}

struct images *images_open(const struct lock_type *type, const char *const planted[LOCK_VERBS])
{
    struct images *im = must_alloc(sizeof *im);

    *im = (struct images){.type = type, .ks = ks_new(START_US), .slot_count = 1024, .memo_slots = 4096};
    im->slots = must_alloc(im->slot_count * sizeof *im->slots);
    im->memos = must_alloc(im->memo_slots * sizeof *im->memos);
    for (int verb = 0; verb < LOCK_VERBS; verb++) {
        if (planted[verb] != NULL)
            ks_load_planted(im->ks, planted[verb], im->shas[verb]);
        else if (type->scripts[verb] != NULL)
            load_product(im, (enum lock_verb)verb, type->scripts[verb]);
    }
    if (type->stock > 0 && !type->bare)
        put_stock(im);
    (void)number_now(im);
    return im;
}

struct images *images_close(struct images *im)
{
    if (im == NULL)
        return NULL;
    ks_free(im->ks);
    bytes_done(&im->bytes);
    free(im->all);
    free(im->slots);
    free(im->memos);
    free(im);
    return NULL;
}
