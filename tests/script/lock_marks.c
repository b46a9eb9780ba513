/* SPDX-License-Identifier: MIT */
/* lock_marks.c - for the enumeration: marks of those who wait, in a sorted set by the moment at which each ends.
 *
 * In lock_state they are the queue, in the order in which they end, and those at one moment in the order of their
 * names.
 */
#include "tests/script/lock_model.h"
#include "tests/support/wait.h"

#include <stdlib.h>
#include <string.h>

/* ---- the reference ---------------------------------------------------------------------------------------------- */

bool mark_drop(struct lock_state *s, const char *mark)
{
    size_t at = 0;

    while (at < s->waiting && strcmp(s->queue[at].owner, mark) != 0)
        at++;
    if (at == s->waiting)
        return false;
    s->waiting--;
    memmove(&s->queue[at], &s->queue[at + 1], (s->waiting - at) * sizeof s->queue[0]);
    return true;
}

void mark_put(struct lock_state *s, const char *mark, int64_t until_ms)
{
    size_t at = 0;

    (void)mark_drop(s, mark);
    if (s->waiting == LOCK_QUEUE_MAX)
        die("enumeration: more than %d marks", LOCK_QUEUE_MAX);
    while (at < s->waiting && (s->queue[at].alive_until_ms < until_ms ||
                               (s->queue[at].alive_until_ms == until_ms && strcmp(s->queue[at].owner, mark) < 0)))
        at++;
    memmove(&s->queue[at + 1], &s->queue[at], (s->waiting - at) * sizeof s->queue[0]);
    s->waiting++;
    s->queue[at] = (struct lock_waiter){.alive_until_ms = until_ms};
    memcpy(s->queue[at].owner, mark, strlen(mark));
}

/* ---- the keyspace ----------------------------------------------------------------------------------------------- */

bool marks_look(struct keyspace *ks, struct lock_state *ret)
{
    struct reply *r = ks_say(ks, "ZRANGE", MARKS, "0", "-1", "withscores");
    int64_t now_ms = ks_time(ks) / 1000;
    bool well = r->kind == REPLY_ARRAY;

    for (size_t i = 0; well && i + 1 < r->count; i += 2) {
        char mark[LOCK_OWNER_SIZE] = {0};
        int64_t until = atoll(r->items[i + 1].text);

        well = r->items[i].len < LOCK_OWNER_SIZE && until <= now_ms + MARK_LIFE_MS;
        if (well && until > now_ms) {
            memcpy(mark, r->items[i].text, r->items[i].len);
            mark_put(ret, mark, until);
        }
    }
    reply_free(r);
    return well;
}

bool marks_waits(struct keyspace *ks, const char *mark)
{
    struct lock_state s = {0};

    return marks_look(ks, &s) && mark_drop(&s, mark);
}
