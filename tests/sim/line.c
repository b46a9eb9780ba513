/* SPDX-License-Identifier: MIT */
#include "tests/sim/line.h"

#include "tests/sim/server.h"
#include "tests/sim/world.h"

#include <string.h>

static int64_t server_ms(void)
{
    return ks_time(server_keys()) / 1000;
}

/* line->count: nowhere. */
static size_t find(const struct line *line, const char *who)
{
    size_t at = 0;

    while (at < line->count && strcmp(line->places[at].who, who) != 0)
        at++;
    return at;
}

static void forget(struct line *line, size_t at)
{
    if (at == line->count)
        return;
    line->count--;
    memmove(&line->places[at], &line->places[at + 1], (line->count - at) * sizeof line->places[0]);
}

void line_void(struct line *line, int64_t at)
{
    for (size_t i = 0; line->void_at != at && i < line->count; i++)
        line->places[i].vague = true;
    line->void_at = at;
}

void line_refused(struct line *line, const char *text, const char *who, const char *spot, int64_t life_ms)
{
    size_t at = find(line, who);

    if (at == MOST_PLACES) {
        violated("first come, first served", "%s has more waiters than the check can count", text);
        return;
    }
    if (at == line->count) {
        line->places[at] = (struct place){0};
        memcpy(line->places[at].who, who, FIELD_SIZE);
        memcpy(line->places[at].spot, spot, FIELD_SIZE);
        line->count++;
    } else if (line->places[at].alive_until_ms <= server_ms()) {
        line->places[at].vague = true;
    }
    line->places[at].alive_until_ms = server_ms() + life_ms;
}

void line_let_in(struct line *line, const char *text, const char *who)
{
    size_t at = find(line, who);
    bool known = at == line->count || !line->places[at].vague;

    for (size_t i = 0; known && i < at; i++)
        if (!line->places[i].vague && line->places[i].alive_until_ms > server_ms())
            violated("first come, first served", "%s lets %s in before %s", text, who, line->places[i].who);
    forget(line, at);
}

void line_unsure(struct line *line, const char *who)
{
    size_t at = find(line, who);

    if (at < line->count)
        line->places[at].vague = true;
}

void line_left(struct line *line, const char *who)
{
    forget(line, find(line, who));
}
