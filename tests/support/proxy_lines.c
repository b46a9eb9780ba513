/* SPDX-License-Identifier: MIT */
/* proxy_lines.c - the proxy's frames, rules and queues, see proxy_impl.h. All under mu. */
#include "tests/support/proxy_impl.h"
#include "tests/support/wait.h"

#include <stdlib.h>
#include <string.h>

/* ---- queues ----------------------------------------------------------------------------------------------------- */

struct way *way_of(struct proxy *p, const struct lane *lane)
{
    return lane->way == PROXY_TO_SERVER ? &p->to_server : &p->to_client;
}

void queue_piece(struct proxy *p, struct lane *lane, const char *at, size_t len, int held_by, bool cut_after)
{
    struct way *way = way_of(p, lane);
    struct piece *piece;

    if (lane->lost || way->swallow) {
        lane->lost = true;
        return;
    }
    if (way->cut_after != UNLIMITED && len >= way->cut_after) {
        len = way->cut_after;
        cut_after = true;
        way->cut_after = UNLIMITED;
    } else if (way->cut_after != UNLIMITED) {
        way->cut_after -= len;
    }
    piece = must_alloc(sizeof *piece);
    piece->at = must_alloc(len + 1);
    memcpy(piece->at, at, len);
    piece->len = len;
    piece->due_us = now_us() + way->delay_us;
    piece->held_by = held_by;
    piece->cut_after = cut_after;
    *lane->last = piece;
    lane->last = &piece->next;
}

void drop_first_piece(struct lane *lane)
{
    struct piece *piece = lane->first;

    if ((lane->first = piece->next) == NULL)
        lane->last = &lane->first;
    free(piece->at);
    free(piece);
}

void lane_init(struct lane *lane, int way, int from, int to)
{
    *lane = (struct lane){.way = way, .from = from, .to = to};
    lane->last = &lane->first;
}

void lane_empty(struct lane *lane)
{
    while (lane->first != NULL)
        drop_first_piece(lane);
    bytes_drop(&lane->in, lane->in.len);
}

void lane_done(struct lane *lane)
{
    lane_empty(lane);
    bytes_done(&lane->in);
}

static void await_reply(struct link *link, unsigned replies, uint64_t rules, const char *answer)
{
    struct awaited *a = must_alloc(sizeof *a);

    a->replies = replies;
    a->rules = rules;
    a->answer = answer;
    *link->last = a;
    link->last = &a->next;
}

void drop_first_awaited(struct link *link)
{
    struct awaited *a = link->first;

    if ((link->first = a->next) == NULL)
        link->last = &link->first;
    free(a);
}

/* ---- rules ------------------------------------------------------------------------------------------------------ */

static bool word_is(const char *frame, size_t len, const char *word)
{
    size_t word_len = 0;
    const char *at = resp_word(frame, len, 0, &word_len);

    return at != NULL && word_len == strlen(word) && strncasecmp(at, word, word_len) == 0;
}

static bool matches(const struct proxy_rule *rule, const char *frame, size_t len)
{
    if (rule->command != NULL && !word_is(frame, len, rule->command))
        return false;
    return rule->contains == NULL || memmem(frame, len, rule->contains, rule->contains_len) != NULL;
}

static void has_acted(struct proxy *p, int rule)
{
    p->rules[rule].acted++;
    pthread_cond_broadcast(&p->happened);
}

/* Count the frame with every rule that it matches; returns those whose turn it is, a bit each. */
static uint64_t trigger(struct proxy *p, bool message, const char *frame, size_t len)
{
    uint64_t triggered = 0;

    for (int i = 0; i < p->rule_count; i++) {
        struct rule *rule = &p->rules[i];

        if (rule->gone || (rule->is.part == PROXY_MESSAGE) != message || !matches(&rule->is, frame, len))
            continue;
        rule->matched++;
        if (rule->matched == rule->is.nth || (rule->is.every && rule->matched > rule->is.nth))
            triggered |= UINT64_C(1) << i;
    }
    return triggered;
}

/* Of the triggered rules for this part: count those that only watch, return the first that acts, or NO_RULE. */
static int acting_rule(struct proxy *p, uint64_t triggered, enum proxy_part part)
{
    int acting = NO_RULE;

    for (int i = 0; i < p->rule_count; i++) {
        const struct rule *rule = &p->rules[i];

        if ((triggered >> i & 1) == 0 || rule->gone || rule->is.part != part)
            continue;
        if (rule->is.action == PROXY_WATCH)
            has_acted(p, i);
        else if (acting == NO_RULE)
            acting = i;
    }
    return acting;
}

/* Send a frame on its way, under a rule or NO_RULE. */
static void pass(struct proxy *p, struct lane *lane, int rule, const char *frame, size_t len)
{
    const struct proxy_rule *is;

    if (rule == NO_RULE) {
        queue_piece(p, lane, frame, len, NO_RULE, false);
        return;
    }
    is = &p->rules[rule].is;
    if (is->action == PROXY_HOLD)
        queue_piece(p, lane, frame, len, rule, false);
    else if (is->action == PROXY_CUT)
        queue_piece(p, lane, frame, is->at < len ? is->at : len, NO_RULE, true);
    else
        queue_piece(p, lane, is->answer, strlen(is->answer), NO_RULE, false);
    has_acted(p, rule);
}

/* Answers of our own that are next in line. */
static void queue_own_answers(struct proxy *p, struct link *link)
{
    while (link->first != NULL && link->first->answer != NULL) {
        queue_piece(p, &link->down, link->first->answer, strlen(link->first->answer), NO_RULE, false);
        drop_first_awaited(link);
    }
}

/* ---- frames ----------------------------------------------------------------------------------------------------- */

static bool ends_with_subscribe(const char *frame, size_t len)
{
    static const char tail[] = "subscribe";
    size_t word_len = 0;
    const char *word = resp_word(frame, len, 0, &word_len);

    return word != NULL && word_len >= sizeof tail - 1 &&
           strncasecmp(word + word_len - (sizeof tail - 1), tail, sizeof tail - 1) == 0;
}

/* How many frames will answer this request? */
static unsigned replies_to(const char *frame, size_t len)
{
    unsigned words = 1;
    size_t ignored;

    if (!ends_with_subscribe(frame, len))
        return 1;
    while (resp_word(frame, len, words, &ignored) != NULL)
        words++;
    return words > 1 ? words - 1 : 1;
}

static void take_request(struct proxy *p, struct link *link, const char *frame, size_t len)
{
    uint64_t triggered = trigger(p, false, frame, len);
    int rule = acting_rule(p, triggered, PROXY_REQUEST);

    p->requests++;
    link->subscriber = link->subscriber || ends_with_subscribe(frame, len);
    if (rule != NO_RULE && p->rules[rule].is.action == PROXY_ANSWER) {
        await_reply(link, 1, 0, p->rules[rule].is.answer);
        has_acted(p, rule);
        queue_own_answers(p, link);
        return;
    }
    await_reply(link, replies_to(frame, len), triggered, NULL);
    pass(p, &link->up, rule, frame, len);
}

static bool is_message(const char *frame, size_t len)
{
    if (frame[0] == '>')
        return !ends_with_subscribe(frame, len);
    return frame[0] == '*' &&
           (word_is(frame, len, "message") || word_is(frame, len, "pmessage") || word_is(frame, len, "smessage"));
}

static void take_reply(struct proxy *p, struct link *link, const char *frame, size_t len)
{
    if (is_message(frame, len)) {
        pass(p, &link->down, acting_rule(p, trigger(p, true, frame, len), PROXY_MESSAGE), frame, len);
        return;
    }
    p->replies++;
    pass(p, &link->down, link->first != NULL ? acting_rule(p, link->first->rules, PROXY_REPLY) : NO_RULE, frame, len);
    if (link->first != NULL && --link->first->replies == 0)
        drop_first_awaited(link);
    queue_own_answers(p, link);
}

void take_frames(struct proxy *p, struct link *link, struct lane *lane)
{
    size_t used = 0;

    if (p->blind) {
        queue_piece(p, lane, lane->in.at, lane->in.len, NO_RULE, false);
        bytes_drop(&lane->in, lane->in.len);
        return;
    }
    for (;;) {
        ssize_t frame = resp_frame(lane->in.at + used, lane->in.len - used);

        if (frame < 0)
            die("proxy: not RESP: %.40s", lane->in.at + used);
        if (frame == 0)
            break;
        if (lane == &link->up)
            take_request(p, link, lane->in.at + used, (size_t)frame);
        else
            take_reply(p, link, lane->in.at + used, (size_t)frame);
        used += (size_t)frame;
    }
    bytes_drop(&lane->in, used);
}
