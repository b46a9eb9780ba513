/* check_order.c - where waiters stand in a queue, nobody is let in before one who came earlier and lives.
 *
 * The order of arrival and the signs of life are read off the commands that the server runs, and not off its keys: who was refused
 * has a place from then on, until it is let in or releases. Who was dead for a while, or waited when the server
 * lost what it knew, may have lost its place; then it is left out, on both sides.
 */
#include "tests/sim/checks.h"

#include <stdlib.h>
#include <string.h>

#define TOKEN_LEAST (INT64_C(1) << 40)

static int64_t server_ms(void)
{
    return ks_time(server_keys()) / 1000;
}

/* place_count: nowhere. */
static size_t find(const struct name *name, const char *field)
{
    size_t at = 0;

    while (at < name->place_count && strcmp(name->places[at].field, field) != 0)
        at++;
    return at;
}

static void forget(struct name *name, size_t at)
{
    if (at == name->place_count)
        return;
    name->place_count--;
    memmove(&name->places[at], &name->places[at + 1], (name->place_count - at) * sizeof name->places[0]);
}

static void refused(struct name *name, const char *field, int64_t life_ms)
{
    size_t at = find(name, field);

    if (at == MOST_PLACES)
        violated("first come, first served", "%s has more waiters than the check can count", name->text);
    if (at == MOST_PLACES)
        return;
    if (at == name->place_count) {
        name->places[at] = (struct place){0};
        memcpy(name->places[at].field, field, FIELD_SIZE);
        name->place_count++;
    } else if (name->places[at].alive_until_ms <= server_ms()) {
        name->places[at].vague = true;
    }
    name->places[at].alive_until_ms = server_ms() + life_ms;
}

static void let_in(struct name *name, const char *field)
{
    size_t at = find(name, field);
    bool known = at == name->place_count || !name->places[at].vague;

    if (strcmp(name->granted_last, field) == 0)
        return; /* a repeat, or a nested take */
    memcpy(name->granted_last, field, FIELD_SIZE);
    for (size_t i = 0; known && i < at; i++)
        if (!name->places[i].vague && name->places[i].alive_until_ms > server_ms())
            violated("first come, first served", "%s lets %s in before %s", name->text, field, name->places[i].field);
    forget(name, at);
}

static void ran(const struct ran *ran)
{
    char field[FIELD_SIZE] = {0};
    struct name *name;
    int64_t life_ms;

    if (ran->script == NULL || ran->reply->kind != REPLY_INTEGER ||
        (!ends_in(ran->script, "_take") && !ends_in(ran->script, "_release")))
        return;
    name = ran_name(ran, ran->first_key);
    if (name->kind->life_ms == 0)
        return;
    if (name->places_void_at != name->void_at)
        for (size_t i = 0; i < name->place_count; i++)
            name->places[i].vague = true; /* the server may have lost its queue */
    name->places_void_at = name->void_at;
    ran_copy_word(field, ran, ran->first_arg);
    if (ends_in(ran->script, "_release")) {
        if (ran_word_is(ran, ran->first_arg + 1, "0"))
            forget(name, find(name, field));
        return;
    }
    life_ms = strtoll(ran->argv[ran->first_arg + 4], NULL, 10);
    if (ran->reply->integer == -10 || ran->reply->integer > TOKEN_LEAST)
        let_in(name, field);
    else if (ran->reply->integer >= -1 && life_ms > 0)
        refused(name, field, life_ms);
}

const struct check check_order = {.ran = ran};
