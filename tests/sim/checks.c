/* SPDX-License-Identifier: MIT */
/* checks.c - the list of checkers. A new one is a row. */
#include "tests/sim/checks.h"

#include "tests/support/wait.h"

#include <string.h>

const struct check *const lock_checks[] = {
    &check_holds,  &check_tokens,   &check_losses,  &check_answers,   &check_wakes, &check_idles,
    &check_strays, &check_renewals, &check_returns, &check_leftovers, &check_order, NULL,
};

const struct check *const outage_checks[] = {
    &check_holds,   &check_tokens,    &check_losses, &check_answers, &check_wakes,     &check_strays,   &check_renewals,
    &check_returns, &check_leftovers, &check_order,  &check_hosts,   &check_returning, &check_patience, NULL,
};

static const struct check *const *checks; /* of this run */

#define EACH(member, ...)                                                                                              \
    for (size_t i = 0; checks[i] != NULL; i++)                                                                         \
        if (checks[i]->member != NULL)                                                                                 \
    checks[i]->member(__VA_ARGS__)

static void on_event(void)
{
    note_patience();
    EACH(event, );
}

static void on_ran(const struct ran *ran)
{
    EACH(ran, ran);
}

void checks_begin(const struct check *const *list)
{
    checks = list;
    world_on_event(on_event);
    server_on_ran(on_ran);
}

void checks_called(const struct lock_call *call)
{
    EACH(called, call);
}

void checks_answered(const struct lock_call *call)
{
    EACH(answered, call);
}

void checks_granted(struct caller *caller, size_t end)
{
    EACH(granted, caller, end);
}

void checks_alone(struct caller *caller, size_t end)
{
    EACH(alone, caller, end);
}

void checks_told(struct caller *caller, size_t end, const rdl_loss_t *loss)
{
    EACH(told, caller, end, loss);
}

void checks_at_rest(void)
{
    EACH(at_rest, );
}

void checks_at_end(void)
{
    EACH(at_end, );
}

/* Looked up once an event and server command, for it is asked often. */
bool time_to_connect(void)
{
    return sim.options.command_timeout_ms * RDL__MS > net_connect_time() + 8 * net_round_trip();
}

bool shown(struct name *name, const char **ret_field, size_t *ret_len)
{
    int64_t version = world_events() + server_commands();

    if (name->seen_at != version) {
        name->seen_at = version;
        name->holders = name->kind->holders(server_keys(), name->text, &name->holder, &name->holder_len);
        if (name->holders > 1)
            violated("one holder", "%s has %zu in the keyspace", name->text, name->holders);
    }
    *ret_field = name->holder;
    *ret_len = name->holder_len;
    return name->holders > 0;
}

bool shows(struct name *name, const char *field)
{
    const char *at;
    size_t len;

    if (name->kind->holds != NULL)
        return name->kind->holds(server_keys(), name->text, field);
    return shown(name, &at, &len) && strlen(field) == len && memcmp(at, field, len) == 0;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

bool ends_in(const char *text, const char *tail)
{
    size_t len = strlen(text), tail_len = strlen(tail);

    return len >= tail_len && strcmp(text + len - tail_len, tail) == 0;
}

struct name *ran_name(const struct ran *ran, size_t word)
{
    for (size_t n = 0; n < sim.name_count; n++)
        if (strlen(sim.names[n].text) == ran->len[word] &&
            memcmp(sim.names[n].text, ran->argv[word], ran->len[word]) == 0)
            return &sim.names[n];
    die("sim: a script of no name of ours");
}

bool ran_word_is(const struct ran *ran, size_t word, const char *text)
{
    return ran->len[word] == strlen(text) && memcmp(ran->argv[word], text, ran->len[word]) == 0;
}

void ran_copy_word(char to[FIELD_SIZE], const struct ran *ran, size_t word)
{
    size_t len = ran->len[word] < FIELD_SIZE ? ran->len[word] : FIELD_SIZE - 1;

    memcpy(to, ran->argv[word], len);
    to[len] = '\0';
}
