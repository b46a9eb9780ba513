/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/top_page.h"

#include "tools/redlatch/shown.h"
#include "tools/redlatch/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* From which height of a terminal on there is more than one line above the table, and one for hints below. */
#define HEIGHT_OF_HEAD 10
#define HEIGHT_OF_HINTS 6

const char top_page_keys[] = "Up, Down, j, k   select a lock\n"
                             "PgUp, PgDn       a page\n"
                             "Home, End, g, G  the first, the last\n"
                             "Enter            show everything about it\n"
                             "u                unlock it: evict who holds it\n"
                             "w c o s l n      order: waiters, changes of\n"
                             "                 holder, holders, since, time\n"
                             "                 left, name\n"
                             "r                the other way round\n"
                             "/                names that match a pattern\n"
                             "Space, p         pause\n"
                             "?, h             these keys\n"
                             "q                back, quit\n"
                             "\n"
                             "CHG/S: changes of holder per second, lately, as\n"
                             "seen; one at most is seen each time it looks.\n";

static const char *const order_names[TOP_ORDERS] = {
    [TOP_BY_WAITERS] = "waiters", [TOP_BY_CHANGES] = "changes", [TOP_BY_HOLDERS] = "holders",
    [TOP_BY_SINCE] = "since",     [TOP_BY_LEFT] = "time left",  [TOP_BY_NAME] = "name",
};

/* ---- lines ------------------------------------------------------------------------------------------------------ */

struct sheet {
    struct top_page *page;
    FILE *out;
    size_t size;
    int width, height, line; /* the next; beyond the height nothing is written */
};

static void put_text(struct sheet *s, enum top_style style, const char *text, int len)
{
    if (s->line >= s->height || s->line >= TOP_HEIGHT_MOST)
        return;
    s->page->style[s->line++] = style;
    fprintf(s->out, "%.*s\n", len < s->width ? len : s->width, text);
}

static void put(struct sheet *s, enum top_style style, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void put(struct sheet *s, enum top_style style, const char *format, ...)
{
    char text[512], safe[TEXT_SAFE_CAP];
    va_list args;
    size_t at = 0, len;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* What servers say is in it. */
    for (len = strlen(text); at < len && text[at] >= ' ' && text[at] <= '~';)
        at++;
    if (at < len)
        (void)snprintf(text, sizeof text, "%s", text_safe(text, len, safe));
    put_text(s, style, text, (int)strlen(text));
}

/* ---- above the table -------------------------------------------------------------------------------------------- */

static void server_words(const struct top_state *state, char *to, size_t room)
{
    const rdl_master_t *first = &state->master[0];
    int64_t keys = 0, slowest = -1;
    time_t seconds = (time_t)(first->now_ms / 1000);
    char clock[32] = "";
    int count = state->masters < TOP_MASTERS_MOST ? state->masters : TOP_MASTERS_MOST, silent = 0, n;
    struct tm utc;

    for (int i = 0; i < count; i++) {
        silent += state->master[i].rc != RDL_OK;
        keys += state->master[i].keys > 0 ? state->master[i].keys : 0;
        if (state->master[i].round_trip_us > slowest)
            slowest = state->master[i].round_trip_us;
    }
    if (first->now_ms > 0 && gmtime_r(&seconds, &utc) != NULL)
        (void)strftime(clock, sizeof clock, ", %Y-%m-%d %H:%M:%S UTC", &utc);
    if (count == 1)
        n = snprintf(to, room, "%s", first->server);
    else
        n = snprintf(to, room, "%d masters", state->masters);
    if (silent > 0 && n >= 0 && (size_t)n < room)
        n += snprintf(to + n, room - (size_t)n, ", %d without an answer", silent);
    if (slowest >= 0 && n >= 0 && (size_t)n < room)
        (void)snprintf(to + n, room - (size_t)n, ", round trip %.1f ms, %" PRId64 " key%s%s", (double)slowest / 1000,
                       keys, keys == 1 ? "" : "s", clock);
}

static void lock_words(const struct top_state *state, const struct top_model *model, char *to, size_t room)
{
    const struct top_view *view = &state->view;
    struct top_count count = top_model_count(model);
    int n = snprintf(to, room, "%zu lock%s, %zu held, %" PRId64 " wait for %zu; by %s%s", count.locks,
                     count.locks == 1 ? "" : "s", count.held, count.waiters, count.waited_for, order_names[view->order],
                     view->reverse ? ", reversed" : "");

    if (view->pattern[0] != '\0' && n >= 0 && (size_t)n < room)
        (void)snprintf(to + n, room - (size_t)n, "; only %s", view->pattern);
}

/* How old it is, and why. */
static enum top_style age_words(const struct top_state *state, int64_t now_ms, char *to, size_t room)
{
    int64_t age = (now_ms - state->answered_ms) / 1000;
    char old[48] = "nothing is known yet";

    if (state->answered_ms != 0 && age > 1)
        (void)snprintf(old, sizeof old, "%" PRId64 " s old", age);
    else if (state->answered_ms != 0)
        (void)snprintf(old, sizeof old, "up to date");
    if (state->trouble_ms != 0) {
        (void)snprintf(to, room, "%s: %s", old,
                       state->trouble.message[0] != '\0' ? state->trouble.message : rdl_strerror(state->trouble.code));
        return TOP_TROUBLE;
    }
    if (state->answered_ms != 0 && age > 2 && !state->paused) {
        (void)snprintf(to, room, "%s: no answer", old);
        return TOP_TROUBLE;
    }
    if (state->paused)
        (void)snprintf(to, room, "paused, %s", old);
    else if (state->no_memory)
        (void)snprintf(to, room, "%s; out of memory: some locks are missing", old);
    else if (state->walk_total > 0 && state->walks == 0)
        (void)snprintf(to, room, "%s; %" PRId64 " of %" PRId64 " keys gone through", old, state->walk_keys,
                       state->walk_total);
    else
        (void)snprintf(to, room, "%s", old);
    return state->paused ? TOP_PROMPT : TOP_PLAIN;
}

static void put_head(struct sheet *s, const struct top_state *state, const struct top_model *model, int64_t now_ms)
{
    char server[256], locks[256], age[512];
    enum top_style style = age_words(state, now_ms, age, sizeof age);

    server_words(state, server, sizeof server);
    lock_words(state, model, locks, sizeof locks);
    if (s->height < HEIGHT_OF_HEAD) {
        if (style == TOP_PLAIN)
            put(s, TOP_TITLE, "%s", locks);
        else
            put(s, style, "%s", age);
        return;
    }
    put(s, TOP_TITLE, "redlatch top: %s", state->masters > 0 ? server : "no server has answered yet");
    put(s, TOP_PLAIN, "%s", locks);
    put(s, style, "%s", age);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static struct shown_row row_of(const struct top_lock *lock)
{
    return (struct shown_row){
        .type = lock->type,
        .state = lock->state,
        .holders = lock->holder,
        .name = lock->name,
        .name_len = lock->name_len,
        .since_ms = lock->since_ms,
        .left_ms = lock->left_ms,
        .waiters = lock->waiters,
        .changes = lock->changes,
    };
}

static bool is_selected(const struct top_ui *ui, const struct top_lock *lock)
{
    return ui->selected != NULL && ui->selected_len == lock->name_len &&
           memcmp(ui->selected, lock->name, lock->name_len) == 0;
}

/* What was selected may have moved, or be gone: then it is what stands there now. */
static void follow(struct top_state *state, struct top_ui *ui, struct top_lock *const *locks, size_t count, int rows)
{
    for (size_t i = 0; ui->selected != NULL && i < count; i++)
        if (is_selected(ui, locks[i])) {
            ui->row = i;
            break;
        }
    if (ui->selected == NULL)
        ui->row = 0;
    if (ui->row >= count)
        ui->row = count > 0 ? count - 1 : 0;
    state->rows = rows > 0 ? (size_t)rows : 1;
    if (ui->row < state->first)
        state->first = ui->row;
    if (ui->row >= state->first + state->rows)
        state->first = ui->row - state->rows + 1;
    if (state->first > 0 && count <= state->rows)
        state->first = 0;
}

/* A line of the sheet, without the newline that a table's function ends it with: the sheet counts. */
static void put_row(struct sheet *s, enum top_style style, const struct top_lock *lock)
{
    struct shown_row row;

    if (s->line >= s->height || s->line >= TOP_HEIGHT_MOST)
        return;
    s->page->style[s->line++] = style;
    if (lock == NULL) {
        shown_head(s->out, s->width, true);
        return;
    }
    row = row_of(lock);
    shown_row(s->out, &row, s->width, true);
}

static void put_list(struct sheet *s, struct top_state *state, struct top_model *model, struct top_ui *ui, int bottom)
{
    struct top_lock *const *locks;
    size_t count = top_model_view(model, &state->view, &locks);

    put_row(s, TOP_COLUMNS, NULL);
    follow(state, ui, locks, count, bottom - s->line);
    for (size_t i = state->first; i < count && s->line < bottom; i++)
        put_row(s, i == ui->row ? TOP_SELECTED : locks[i]->waiters > 0 ? TOP_WAITED : TOP_PLAIN, locks[i]);
}

/* ---- text, from ui->first on ------------------------------------------------------------------------------------ */

static void put_wrapped(struct sheet *s, struct top_ui *ui, int bottom)
{
    size_t lines = 0, room = bottom > s->line ? (size_t)(bottom - s->line) : 1;

    for (int pass = 0; pass < 2; pass++) {
        const char *at = ui->text != NULL ? ui->text : "";
        size_t line = 0;

        while (*at != '\0') {
            int len = (int)strcspn(at, "\n"), part = len < s->width ? len : s->width;

            if (pass == 1 && line >= ui->first && s->line < bottom)
                put_text(s, TOP_PLAIN, at, part);
            line++;
            at += part;
            at += *at == '\n' && part == len;
        }
        lines = line;
        if (ui->first + room > lines)
            ui->first = lines > room ? lines - room : 0;
    }
}

/* ---- a page ----------------------------------------------------------------------------------------------------- */

static const char *hints(const struct top_ui *ui)
{
    switch (ui->at) {
    case TOP_AT_LIST:
        return "q quit  ? keys  / pattern  Enter show  u unlock  p pause";
    case TOP_AT_LOCK:
        return "q back  u unlock  Enter look again";
    case TOP_AT_HELP:
        break;
    }
    return "q back";
}

static void put_bottom(struct sheet *s, const struct top_ui *ui)
{
    if (ui->prompt == TOP_PROMPT_PATTERN)
        put(s, TOP_PROMPT, "Pattern: %s_", ui->typed);
    else if (ui->prompt == TOP_PROMPT_EVICT)
        put(s, TOP_PROMPT, "Evict %s? [y/N]", ui->seen->holder_count == 1 ? "this holder" : "all of these");
    else if (ui->message[0] != '\0')
        put(s, TOP_PROMPT, "%s", ui->message);
    else
        put(s, TOP_TITLE, "%s", hints(ui));
}

static bool has_bottom(const struct top_ui *ui, int height)
{
    return height > 1 && (height >= HEIGHT_OF_HINTS || ui->prompt != TOP_NO_PROMPT || ui->message[0] != '\0');
}

void top_page_make(struct top_page *page, struct top_state *state, struct top_model *model, struct top_ui *ui,
                   int width, int height, int64_t now_ms)
{
    struct sheet s = {.page = page, .width = width, .height = height < TOP_HEIGHT_MOST ? height : TOP_HEIGHT_MOST};
    int bottom = s.height - has_bottom(ui, s.height);

    page->text = NULL;
    if ((s.out = open_memstream(&page->text, &s.size)) == NULL)
        return;
    if (ui->at != TOP_AT_HELP && (ui->at == TOP_AT_LIST || s.height >= HEIGHT_OF_HEAD))
        put_head(&s, state, model, now_ms);
    if (ui->at == TOP_AT_LIST)
        put_list(&s, state, model, ui, bottom);
    else
        put_wrapped(&s, ui, bottom);
    while (s.line < bottom)
        put_text(&s, TOP_PLAIN, "", 0);
    if (has_bottom(ui, s.height))
        put_bottom(&s, ui);
    (void)fclose(s.out);
}

void top_page_done(struct top_page *page)
{
    free(page->text);
    page->text = NULL;
}

/* ---- without a terminal ----------------------------------------------------------------------------------------- */

void top_page_print(FILE *out, const struct top_state *state, struct top_model *model, int width, int64_t now_ms)
{
    struct top_lock *const *locks;
    size_t count = top_model_view(model, &state->view, &locks);
    char words[512];

    server_words(state, words, sizeof words);
    fprintf(out, "redlatch top: %s\n", state->masters > 0 ? words : "no server has answered yet");
    lock_words(state, model, words, sizeof words);
    fprintf(out, "%s\n", words);
    (void)age_words(state, now_ms, words, sizeof words);
    fprintf(out, "%s\n", words);
    shown_head(out, width, true);
    for (size_t i = 0; i < count; i++) {
        struct shown_row row = row_of(locks[i]);

        shown_row(out, &row, width, true);
    }
    fputc('\n', out);
}

static json_t *from(int64_t number, int64_t least)
{
    return number < least ? json_null() : json_integer((json_int_t)number);
}

static json_t *lock_json(const struct top_lock *lock)
{
    char *hex = NULL;
    json_t *name = shown_name_json(lock->name, lock->name_len, &hex), *made;

    made = json_pack("{s:o, s:o, s:s, s:s, s:I, s:s, s:o, s:o, s:o, s:f}", "name", name, "name_hex",
                     hex != NULL ? json_string(hex) : json_null(), "type", lock->type, "state", lock->state, "holders",
                     (json_int_t)lock->holders, "holder", lock->holder, "waiters", from(lock->waiters, 0), "held_ms",
                     from(lock->since_ms, 0), "ttl_ms", from(lock->left_ms, 0), "changes_per_s", lock->changes);
    free(hex);
    return made;
}

static json_t *master_json(const rdl_master_t *master)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "server", master->server, "error",
                     master->rc < 0 ? json_string(rdl_strerror(master->rc)) : json_null(), "keys",
                     from(master->keys, 0), "now_ms", from(master->now_ms, 1), "round_trip_us",
                     from(master->round_trip_us, 0));
}

bool top_page_json(FILE *out, const struct top_state *state, struct top_model *model, int64_t now_ms)
{
    json_t *masters = json_array(), *list = json_array(), *root;
    struct top_lock *const *locks;
    size_t count = top_model_view(model, &state->view, &locks), n = 0;
    bool done;

    for (int i = 0; i < state->masters && i < TOP_MASTERS_MOST; i++, n++)
        (void)json_array_append_new(masters, master_json(&state->master[i]));
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, lock_json(locks[i]));
    done = json_array_size(masters) == n && json_array_size(list) == count;
    root = json_pack("{s:o, s:o, s:o, s:o}", "age_ms",
                     state->answered_ms != 0 ? json_integer(now_ms - state->answered_ms) : json_null(), "error",
                     state->trouble_ms != 0 ? json_string(state->trouble.message) : json_null(), "masters", masters,
                     "locks", list);
    done = done && root != NULL && json_dumpf(root, out, JSON_COMPACT) == 0;
    fputc('\n', out);
    json_decref(root);
    return done;
}
