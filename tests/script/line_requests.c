/* SPDX-License-Identifier: MIT */
/* line_requests.c - what a client of the enumeration of the line sends (line_client.h): the library says how. */
#include "tests/script/line_inner.h"

#include "core/wire/names.h"
#include "tests/support/wait.h"

#include <redlatch/lock.h>
#include <stdio.h>
#include <string.h>

#define LEASE_MS 60000

/* What the library has of a client that is no part of the state. */
static struct shell {
    rdl_client_t client;
    rdl_lock_t *handle;
    struct rdl__record record;
} shells[LINE_CLIENTS];

static bool opened;
static int64_t held_since;
static struct shell *shell;
static unsigned self;

struct line_client *line_now;
struct line_without line_without;

/* ---- what the library is asked ---------------------------------------------------------------------------------- */

struct rdl__name *line_name(void)
{
    return shell->handle->name;
}

int64_t line_signed_n(uint8_t n, bool kept)
{
    return kept ? -(LINE_FIRST_N + n) : LINE_FIRST_N + n;
}

/* A call as line.c looks at it. */
void line_lay_out(struct rdl__call *ret, const struct rdl__verb *verb, const struct line_thread *t)
{
    static char joined;

    memset(ret, 0, sizeof *ret);
    ret->op.lock = shell->handle;
    ret->ops = shell->handle->ops;
    ret->verb = verb;
    ret->op.wait_ms = t->single ? 0 : 1000; /* an undo is of a take that waits */
    ret->one_try = t->single;
    ret->take.one_try = t->single;
    ret->take.tries = t->tried;
    ret->count = verb->acquires ? 1 : 0;
    ret->n = line_signed_n(t->n, t->kept);
    ret->line = t->line;
    ret->counted = t->counted;
    ret->rec = &shell->record;
    shell->record.held_since = held_since;
    if (t->place > 0)
        ret->waiter.channel = (struct rdl__channel *)(void *)&joined;
}

void line_lay_out_sent(struct rdl__call *ret, const struct rdl__verb *verb, const struct line_sent *sent)
{
    struct line_thread t = {.n = sent->n, .kept = sent->kept, .line = sent->line};

    line_lay_out(ret, verb, &t);
    ret->answer = (int64_t)sent->answer;
    ret->req.resent = sent->resent;
}

/* ---- sending ---------------------------------------------------------------------------------------------------- */

static struct line_sent *push(unsigned lane, struct line_sent sent)
{
    for (unsigned i = 0; i < LINE_QUEUE; i++)
        if (line_now->sent[lane][i].kind == 0) {
            line_now->sent[lane][i] = sent;
            return &line_now->sent[lane][i];
        }
    die("enumeration: more than %d requests on a connection", LINE_QUEUE);
}

void line_drop_sent(unsigned lane, unsigned at)
{
    memmove(&line_now->sent[lane][at], &line_now->sent[lane][at + 1],
            (LINE_QUEUE - 1 - at) * sizeof line_now->sent[lane][0]);
    memset(&line_now->sent[lane][LINE_QUEUE - 1], 0, sizeof line_now->sent[lane][0]);
}

static void field_of(char ret[80], uint8_t n, bool kept)
{
    char uuid[LINE_UUID + 1];

    line_uuid(uuid, self);
    (void)snprintf(ret, 80, "%s:%lld", uuid, (long long)line_signed_n(n, kept));
}

static uint16_t take_command(enum rdl__line line, uint8_t n, bool kept)
{
    char words[256], field[80];

    field_of(field, n, kept);
    if (line == RDL__LINE_NOT)
        (void)snprintf(words, sizeof words, "take 1 " LINE_NAME " %s 1 %d", field, LEASE_MS);
    else
        (void)snprintf(words, sizeof words, "take 2 " LINE_NAME " " LINE_CHANNEL " %s 1 %d 0 %s%s", field, LEASE_MS,
                       rdl__line_word(line), line == RDL__LINE_AMONG ? " 1" : "");
    return line_command(words);
}

static uint16_t release_command(enum rdl__line line, uint8_t n, bool kept)
{
    char words[256], field[80];

    field_of(field, n, kept);
    if (line == RDL__LINE_NOT || (line == RDL__LINE_STAYS && line_without.enters_again))
        (void)snprintf(words, sizeof words, "release 2 " LINE_NAME " " LINE_CHANNEL " %s 0", field);
    else
        (void)snprintf(words, sizeof words, "release 2 " LINE_NAME " " LINE_CHANNEL " %s 0 publish %s", field,
                       rdl__line_word(line));
    return line_command(words);
}

static void encode_try(struct line_sent *sent)
{
    struct line_thread *t = &line_now->threads[sent->thread];
    struct rdl__call call;

    line_lay_out(&call, &rdl__verb_take, t);
    sent->line = (uint8_t)rdl__line_note_take(&call);
    t->line = sent->line;
    t->heard = t->news = false;
    sent->command = take_command((enum rdl__line)sent->line, sent->n, sent->kept);
}

static void encode_release(struct line_sent *sent)
{
    struct line_thread *t = &line_now->threads[sent->thread];
    struct rdl__call call;

    line_lay_out(&call, &rdl__verb_release, t);
    t->line = sent->line = (uint8_t)rdl__line_note_release(&call);
    sent->command = release_command((enum rdl__line)sent->line, sent->n, sent->kept);
}

static void encode_undo(struct line_sent *sent)
{
    struct rdl__call call;

    line_lay_out_sent(&call, sent->kind == LINE_UNDO_TRY ? &rdl__verb_take : &rdl__verb_release, sent);
    sent->line = (uint8_t)rdl__line_note_undo(&call);
    sent->command = release_command((enum rdl__line)sent->line, sent->n, sent->kept);
}

void line_send_undo(unsigned lane, struct line_sent undo)
{
    encode_undo(push(lane, undo));
}

/* Of the thread's n. */
static struct line_sent request(enum line_kind kind, unsigned thread)
{
    const struct line_thread *t = &line_now->threads[thread];

    return (struct line_sent){.kind = (uint8_t)kind, .thread = (uint8_t)thread, .n = t->n, .kept = t->kept};
}

void line_send_try(unsigned lane, unsigned thread)
{
    line_now->threads[thread].phase = LINE_TRIES;
    encode_try(push(lane, request(LINE_TRY, thread)));
}

bool line_may_break(unsigned lane)
{
    return line_now->sent[lane][0].kind != 0;
}

void line_break(unsigned lane)
{
    for (unsigned i = 0; i < LINE_QUEUE && line_now->sent[lane][i].kind != 0; i++) {
        struct line_sent *sent = &line_now->sent[lane][i];

        if (sent->kind == LINE_LEFT_TRY) {
            line_drop_sent(lane, i--);
            continue;
        }
        sent->ran = false;
        sent->answer = 0;
        sent->look = sent->ear = 0;
        sent->resent = true;
        if (sent->kind == LINE_LEFT_RELEASE)
            sent->kind = LINE_UNDO_RELEASE;
        if (sent->kind == LINE_TRY)
            encode_try(sent);
        else if (sent->kind == LINE_RELEASE)
            encode_release(sent);
        else
            encode_undo(sent);
    }
}

void line_send_release(unsigned thread)
{
    encode_release(push(thread, request(LINE_RELEASE, thread)));
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static void open_shell(struct shell *s, unsigned i)
{
    rdl_client_t *client = &s->client;

    rdl__mem_init(&client->mem, NULL);
    line_uuid(client->uuid.text, i);
    client->forkmark.page = (const volatile unsigned char *)"\1";
    client->home.client = client;
    atomic_store(&client->refs, 1000);
    if (rdl__mutex_init(&client->names_mu) < 0 || rdl__table_init(&client->names, &client->mem) < 0 ||
        rdl_reentrant_lock(client, LINE_NAME, NULL, &s->handle, NULL) < 0)
        die("enumeration: no lock");
}

void line_clients_open(bool quick, const struct line_without *leaves_out)
{
    for (unsigned i = 0; !opened && i < LINE_CLIENTS; i++)
        open_shell(&shells[i], i);
    opened = true;
    line_without = *leaves_out;
    held_since = quick ? NOW : 0;
}

void line_load(unsigned i, struct line_client *client)
{
    line_now = client;
    self = i;
    shell = &shells[i];
    atomic_store(&line_name()->waiting, line_now->notes);
}

void line_unload(void)
{
    line_now->notes = atomic_load(&line_name()->waiting);
}

/* The client's own channel of the lock is told that it is its turn, and nobody waits. */
bool line_turn_unheard(void)
{
    char channel[sizeof LINE_CHANNEL + LINE_UUID + 4], uuid[LINE_UUID + 1];

    line_uuid(uuid, self);
    (void)snprintf(channel, sizeof channel, LINE_CHANNEL ":{%s}", uuid);
    return rdl__line_unheard(&shell->client, channel, strlen(channel));
}
