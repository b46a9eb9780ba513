/* SPDX-License-Identifier: MIT */
/* check_order.c - where waiters stand in a queue, nobody is let in before one who came earlier and lives.
 *
 * The order of arrival and the signs of life are read off the commands that the server runs, and not off the queue
 * (line.h): who was refused has a place from then on, until it is let in, by whatever command, or releases, or its
 * owner waits for another hold.
 */
#include "tests/sim/checks.h"

#include <stdlib.h>
#include <string.h>

static int64_t number_of(const char *field)
{
    const char *colon = strrchr(field, ':');

    return colon == NULL ? 0 : strtoll(colon + 1, NULL, 10);
}

/* An owner waits for one hold at a time, its last: a take of an earlier one comes late. (A nested one waits for none,
 * and leaves a place that a late take has there.) */
static bool comes_late(struct name *name, const char *field, const char *spot)
{
    for (size_t i = name->line.count; i-- > 0;) {
        const struct place *other = &name->line.places[i];

        if (strcmp(other->spot, spot) != 0 || strcmp(other->who, field) == 0)
            continue;
        if (number_of(other->who) > number_of(field))
            return true;
        line_left(&name->line, other->who);
    }
    return false;
}

static void let_in(struct name *name, const char *field)
{
    if (strcmp(name->granted_last, field) == 0)
        return; /* since a while */
    memcpy(name->granted_last, field, FIELD_SIZE);
    line_let_in(&name->line, name->text, field);
}

/* Who has it after the command. */
static void see_holder(struct name *name)
{
    char holder[FIELD_SIZE] = {0};
    const char *field;
    size_t len;

    if (!shown(name, &field, &len) || len >= FIELD_SIZE)
        return;
    memcpy(holder, field, len);
    let_in(name, holder);
}

static void take_ran(struct name *name, const struct ran *ran, const char *field)
{
    int64_t life_ms = strtoll(ran->argv[ran->first_arg + 4], NULL, 10);
    char spot[FIELD_SIZE] = {0};
    bool late;

    ran_copy_word(spot, ran, ran->first_arg + 5);
    late = ran_word_is(ran, ran->first_arg + 1, "1") && comes_late(name, field, spot);
    see_holder(name);
    if (!late && life_ms > 0 && ran->reply->integer >= -1 && !shows(name, field))
        line_refused(&name->line, name->text, field, spot, life_ms);
}

static void ran(const struct ran *ran)
{
    char field[FIELD_SIZE] = {0};
    struct name *name;

    if (ran->script == NULL || ran->reply->kind != REPLY_INTEGER ||
        (!ends_in(ran->script, "_take") && !ends_in(ran->script, "_release") && !ends_in(ran->script, "_force")))
        return;
    name = ran_name(ran, ran->first_key);
    if (name->kind->life_ms == 0)
        return;
    line_void(&name->line, name->void_at);
    ran_copy_word(field, ran, ran->first_arg);
    if (ends_in(ran->script, "_release") && ran_word_is(ran, ran->first_arg + 1, "0"))
        line_left(&name->line, field);
    if (ends_in(ran->script, "_take"))
        take_ran(name, ran, field);
    else
        see_holder(name);
}

const struct check check_order = {.ran = ran};
