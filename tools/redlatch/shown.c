/* SPDX-License-Identifier: MIT */
/* shown.c - locks as text and as JSON. Names and all that holders say of themselves come from outside: nothing that a
 * terminal would obey is printed. */
#include "tools/redlatch/shown.h"

#include "tools/redlatch/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define MS_A_SECOND 1000

int shown_width(void)
{
    struct winsize size;

    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return SHOWN_UNBOUNDED;
    return size.ws_col;
}

/* ---- pieces of text --------------------------------------------------------------------------------------------- */

/* Print `len` bytes, everything but printable ASCII as \xHH, in `room` columns at most (0: any number). */
static void print_name(FILE *out, const char *bytes, size_t len, int room)
{
    size_t columns = 0;

    for (size_t i = 0; i < len; i++)
        columns += bytes[i] >= ' ' && bytes[i] <= '~' ? 1 : 4;
    for (size_t i = 0, at = 0; i < len; i++) {
        bool plain = bytes[i] >= ' ' && bytes[i] <= '~';

        at += plain ? 1 : 4;
        if (room > 0 && columns > (size_t)room && at >= (size_t)room) {
            fputs("…", out);
            return;
        }
        if (plain)
            fputc(bytes[i], out);
        else
            fprintf(out, "\\x%02x", (unsigned)(unsigned char)bytes[i]);
    }
}

const char *shown_time(int64_t ms, char to[24])
{
    int64_t s = (ms + MS_A_SECOND - 1) / MS_A_SECOND;

    if (ms < 0)
        (void)snprintf(to, 24, "-");
    else if (s < 100)
        (void)snprintf(to, 24, "%" PRId64 "s", s);
    else if (s < INT64_C(100) * 60)
        (void)snprintf(to, 24, "%" PRId64 "m", s / 60);
    else if (s < INT64_C(100) * 3600)
        (void)snprintf(to, 24, "%" PRId64 "h", s / 3600);
    else
        (void)snprintf(to, 24, "%" PRId64 "d", s / 86400);
    return to;
}

/* "db3 812 backup.sh", as far as it is known; else the owner as it stands on the wire. */
static const char *holder_name(const rdl_holder_t *holder, char to[SHOWN_HOLDER_ROOM])
{
    if (!holder->by.known)
        (void)snprintf(to, SHOWN_HOLDER_ROOM, "%s", holder->owner);
    else
        (void)snprintf(to, SHOWN_HOLDER_ROOM, "%s %" PRId64 " %s", holder->by.host, holder->by.pid, holder->by.program);
    return to;
}

const char *shown_holders(const rdl_inspection_t *lock, char to[SHOWN_HOLDER_ROOM])
{
    if (lock->number >= 0 && lock->holders == 0)
        (void)snprintf(to, SHOWN_HOLDER_ROOM, "%" PRId64 " left", lock->number);
    else if (lock->number >= 0)
        (void)snprintf(to, SHOWN_HOLDER_ROOM, "%" PRId64 " taken, %" PRId64 " left", lock->holders, lock->number);
    else if (lock->holders > 1)
        (void)snprintf(to, SHOWN_HOLDER_ROOM, "%" PRId64 " holders", lock->holders);
    else if (lock->holder_count == 0)
        (void)snprintf(to, SHOWN_HOLDER_ROOM, "-");
    else
        return holder_name(&lock->holder[0], to);
    return to;
}

/* ---- a table ---------------------------------------------------------------------------------------------------- */

enum column { TYPE, STATE, HOLDER, SINCE, LEFT, WAIT, CHANGES, COLUMNS };

/* From which width of a terminal on each is shown, and how wide it is. The name comes last, with the rest. */
static const struct {
    const char *head;
    int width, from;
} columns[COLUMNS] = {
    [TYPE] = {"TYPE", 16, 60}, [STATE] = {"STATE", 6, 20}, [HOLDER] = {"HOLDER", 24, 80}, [SINCE] = {"SINCE", 5, 100},
    [LEFT] = {"LEFT", 5, 40},  [WAIT] = {"WAIT", 4, 50},   [CHANGES] = {"CHG/S", 5, 70},
};

/* What is left for the name; 0: any number. */
static int name_room(int width, int last)
{
    int room = width;

    for (int c = 0; c < last; c++)
        if (width >= columns[c].from)
            room -= columns[c].width + 1;
    return width == SHOWN_UNBOUNDED ? 0 : room < 4 ? 4 : room;
}

static void print_column(FILE *out, enum column c, int width, const char *text)
{
    if (width == SHOWN_UNBOUNDED)
        fprintf(out, "%-*s ", columns[c].width, text);
    else if (width >= columns[c].from)
        fprintf(out, "%-*.*s ", columns[c].width, columns[c].width, text);
}

void shown_head(FILE *out, int width, bool changes)
{
    for (int c = 0; c < (changes ? COLUMNS : CHANGES); c++)
        print_column(out, (enum column)c, width, columns[c].head);
    fputs("NAME\n", out);
}

void shown_row(FILE *out, const struct shown_row *row, int width, bool changes)
{
    char safe[TEXT_SAFE_CAP], left[24], since[24], number[24] = "?";

    if (row->waiters >= 0)
        (void)snprintf(number, sizeof number, "%" PRId64, row->waiters);
    print_column(out, TYPE, width, row->type);
    print_column(out, STATE, width, row->state);
    print_column(out, HOLDER, width, text_safe(row->holders, strlen(row->holders), safe));
    print_column(out, SINCE, width, shown_time(row->since_ms, since));
    print_column(out, LEFT, width, shown_time(row->left_ms, left));
    print_column(out, WAIT, width, number);
    (void)snprintf(number, sizeof number, "%.1f", row->changes);
    if (changes)
        print_column(out, CHANGES, width, number);
    print_name(out, row->name, row->name_len, name_room(width, changes ? COLUMNS : CHANGES));
    fputc('\n', out);
}

int64_t shown_since(const rdl_inspection_t *lock)
{
    return lock->holder_count == 1 && lock->holder[0].since_ms > 0 ? lock->now_ms - lock->holder[0].since_ms : -1;
}

void shown_line(FILE *out, const rdl_inspection_t *lock, int width)
{
    char holders[SHOWN_HOLDER_ROOM];

    shown_row(out,
              &(struct shown_row){
                  .type = lock->type,
                  .state = lock->state,
                  .holders = shown_holders(lock, holders),
                  .name = lock->name,
                  .name_len = lock->name_len,
                  .since_ms = shown_since(lock),
                  .left_ms = lock->ttl_ms,
                  .waiters = lock->waiters,
              },
              width, false);
}

/* ---- one -------------------------------------------------------------------------------------------------------- */

static void print_time(FILE *out, const char *what, int64_t ms)
{
    time_t s = (time_t)(ms / MS_A_SECOND);
    char text[40] = "";
    struct tm utc;

    if (ms > 0 && gmtime_r(&s, &utc) != NULL && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0)
        fprintf(out, ", %s %s", what, text);
}

static void print_text(FILE *out, const char *what, const char *text)
{
    if (text[0] == '\0')
        return;
    fprintf(out, "          %s ", what);
    print_name(out, text, strlen(text), 0);
    fputc('\n', out);
}

static void print_description(FILE *out, const rdl_description_t *by)
{
    char host[TEXT_SAFE_CAP], program[TEXT_SAFE_CAP], version[TEXT_SAFE_CAP];

    if (!by->known)
        return;
    fprintf(out, "          %s, pid %" PRId64 ", %s, redlatch %s", text_safe(by->host, strlen(by->host), host), by->pid,
            text_safe(by->program, strlen(by->program), program), text_safe(by->version, strlen(by->version), version));
    print_time(out, "since", by->start_ms);
    fputc('\n', out);
    print_text(out, "label", by->label);
    print_text(out, "info", by->info);
}

static void print_holder(FILE *out, const rdl_inspection_t *lock, const rdl_holder_t *holder)
{
    static const char *const ends[] = {[RDL_END_NONE] = "", [RDL_END_READ] = ", reads", [RDL_END_WRITE] = ", writes"};

    fprintf(out, "holder    %s%s", holder->owner, ends[holder->end]);
    if (holder->count != 1)
        fprintf(out, ", %" PRId64 " times", holder->count);
    if (holder->token != 0)
        fprintf(out, ", token %" PRId64, holder->token);
    if (holder->since_ms > 0)
        fprintf(out, ", for %" PRId64 " s", (lock->now_ms - holder->since_ms) / MS_A_SECOND);
    if (holder->left_ms >= 0)
        fprintf(out, ", %.1f s left\n", (double)holder->left_ms / MS_A_SECOND);
    else
        fputs(", without an end\n", out);
    print_description(out, &holder->by);
}

static void print_waiter(FILE *out, const rdl_inspection_t *lock, const rdl_waiter_t *waiter)
{
    fprintf(out, "waits     %s", waiter->owner);
    if (waiter->since_ms > 0)
        fprintf(out, ", for %" PRId64 " s", (lock->now_ms - waiter->since_ms) / MS_A_SECOND);
    fputc('\n', out);
    print_description(out, &waiter->by);
}

/* Who is kept out of a read-write lock that nobody holds, by the mode that is left of it. */
static const char *left_mode(const rdl_inspection_t *lock)
{
    if (strcmp(lock->type, "read-write") != 0 || lock->holders > 0)
        return "";
    return strcmp(lock->state, "read") == 0 ? ", but its mode is left, and keeps writers out"
                                            : ", but its mode is left, and keeps all out";
}

void shown_all(FILE *out, const rdl_inspection_t *lock)
{
    fputs("name      ", out);
    print_name(out, lock->name, lock->name_len, 0);
    fprintf(out, "\ntype      %s\nstate     %s\n", lock->type, lock->state);
    if (lock->number >= 0)
        fprintf(out, "%s %" PRId64 "\n", strcmp(lock->type, "latch") == 0 ? "count    " : "free     ", lock->number);
    if (lock->token != 0)
        fprintf(out, "token     %" PRId64 "\n", lock->token);
    fprintf(out, "holders   %" PRId64 "%s\n", lock->holders, left_mode(lock));
    for (size_t i = 0; i < lock->holder_count; i++)
        print_holder(out, lock, &lock->holder[i]);
    if (lock->waiters < 0)
        fputs("waiters   not known: the user may not ask\n", out);
    else
        fprintf(out, "waiters   %" PRId64 "%s\n", lock->waiters, lock->in_order ? ", in this order:" : "");
    for (size_t i = 0; i < lock->waiter_count; i++)
        print_waiter(out, lock, &lock->waiter[i]);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

/* null for a number that is not known, or that there is none of. */
static json_t *number_from(int64_t number, int64_t least)
{
    return number < least ? json_null() : json_integer((json_int_t)number);
}

static json_t *text_or_null(const char *text)
{
    return text[0] == '\0' ? json_null() : json_string(text);
}

static json_t *description_json(const rdl_description_t *by)
{
    if (!by->known)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "host", text_or_null(by->host), "pid",
                     number_from(by->pid, 1), "program", text_or_null(by->program), "version",
                     text_or_null(by->version), "label", text_or_null(by->label), "info", text_or_null(by->info),
                     "start_ms", number_from(by->start_ms, 1));
}

static json_t *holder_json(const rdl_holder_t *holder)
{
    static const char *const ends[] = {[RDL_END_NONE] = "", [RDL_END_READ] = "read", [RDL_END_WRITE] = "write"};

    return json_pack("{s:s, s:o, s:o, s:I, s:o, s:o, s:o, s:o}", "owner", holder->owner, "client",
                     text_or_null(holder->client), "end", text_or_null(ends[holder->end]), "count",
                     (json_int_t)holder->count, "left_ms", number_from(holder->left_ms, 0), "token",
                     number_from(holder->token, 1), "since_ms", number_from(holder->since_ms, 1), "by",
                     description_json(&holder->by));
}

static json_t *waiter_json(const rdl_waiter_t *waiter)
{
    return json_pack("{s:s, s:o, s:o, s:o}", "owner", waiter->owner, "client", text_or_null(waiter->client), "since_ms",
                     number_from(waiter->since_ms, 1), "by", description_json(&waiter->by));
}

json_t *shown_name_json(const char *bytes, size_t len, char **ret_hex)
{
    json_t *name = json_stringn(bytes, len);
    char *text = NULL;
    size_t size;
    FILE *to;

    *ret_hex = NULL;
    if (name != NULL || (to = open_memstream(&text, &size)) == NULL)
        return name;
    print_name(to, bytes, len, 0);
    (void)fclose(to);
    name = text != NULL ? json_string(text) : NULL;
    free(text);
    if ((*ret_hex = calloc(2, len + 1)) != NULL)
        for (size_t i = 0; i < len; i++)
            (void)snprintf(*ret_hex + 2 * i, 3, "%02x", (unsigned)(unsigned char)bytes[i]);
    return name;
}

bool shown_json(FILE *out, const rdl_inspection_t *lock, bool wide)
{
    json_t *holders = json_array(), *waiters = json_array(), *root;
    char *hex = NULL;
    json_t *name = shown_name_json(lock->name, lock->name_len, &hex);
    bool done;

    for (size_t i = 0; i < lock->holder_count; i++)
        (void)json_array_append_new(holders, holder_json(&lock->holder[i]));
    for (size_t i = 0; i < lock->waiter_count; i++)
        (void)json_array_append_new(waiters, waiter_json(&lock->waiter[i]));
    root = json_pack("{s:o, s:o, s:s, s:s, s:o, s:I, s:I, s:o, s:o, s:o, s:b, s:o, s:o}", "name", name, "name_hex",
                     hex != NULL ? json_string(hex) : json_null(), "type", lock->type, "state", lock->state, "ttl_ms",
                     number_from(lock->ttl_ms, 0), "now_ms", (json_int_t)lock->now_ms, "holders",
                     (json_int_t)lock->holders, "number", number_from(lock->number, 0), "waiters",
                     number_from(lock->waiters, 0), "token", number_from(lock->token, 1), "in_order",
                     (int)lock->in_order, "holder_list", holders, "waiter_list", waiters);
    free(hex);
    done = root != NULL && json_array_size(holders) == lock->holder_count &&
           json_array_size(waiters) == lock->waiter_count;
    if (done) {
        (void)json_dumpf(root, out, wide ? JSON_INDENT(2) : JSON_COMPACT);
        fputc('\n', out);
    }
    json_decref(root);
    return done;
}
