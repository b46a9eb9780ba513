/* SPDX-License-Identifier: MIT */
/* top.c - `redlatch top`: the locks of a deployment, live on the terminal.
 *
 * What is known is the model's (top_model.c), which the watch fills on a thread of its own (top_watch.c); this thread
 * reads keys and paints pages (top_page.c, top_screen.c), and waits for nothing else. Whatever a server would have to
 * be asked for a key becomes a request to the watch. Without a terminal there is no thread: rounds are made and
 * printed.
 */
#include "tools/redlatch/access.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/shown.h"
#include "tools/redlatch/signals.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"
#include "tools/redlatch/top_screen.h"
#include "tools/redlatch/top_watch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTERVAL_MS 1000
#define INTERVAL_MIN_MS 100
#define TICK_MS 1000 /* the screen says how old it is */

struct top_options {
    struct access access; /* first */
    int64_t interval_ms;
    bool batch;
    int rounds; /* 0: without end */
};

static int apply_interval(void *to, const char *text, struct usage_error *why)
{
    return option_duration("interval", text, INTERVAL_MIN_MS, &((struct top_options *)to)->interval_ms, why);
}

static int apply_rounds(void *to, const char *text, struct usage_error *why)
{
    return option_number("rounds", text, 1, INT_MAX / 10, &((struct top_options *)to)->rounds, why);
}

static int apply_batch(void *to, const char *text, struct usage_error *why)
{
    (void)text;
    (void)why;
    ((struct top_options *)to)->batch = true;
    return 0;
}

static int apply_once(void *to, const char *text, struct usage_error *why)
{
    (void)text;
    (void)why;
    ((struct top_options *)to)->batch = true;
    ((struct top_options *)to)->rounds = 1;
    return 0;
}

static const struct option_row rows[] = {
    {'i', "interval", "TIME", "between two looks (default 1, at least 100ms)", apply_interval},
    {'b', "batch", NULL, "write instead of painting, for no terminal", apply_batch},
    {'n', "rounds", "N", "end after so many", apply_rounds},
    {'1', "once", NULL, "the same as --batch --rounds 1", apply_once},
    ACCESS_JSON("with --batch: a JSON object a round"),
    ACCESS_ROWS,
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

_Static_assert(ROW_COUNT <= OPTIONS_MAX, "getopt_long's tables are too small");

static void top_help(FILE *out)
{
    fputs("Show the locks that there are, live on the terminal, the most contended first.\n"
          "\n"
          "Usage: redlatch top [options] [PATTERN]\n"
          "\n",
          out);
    options_print(out, rows, ROW_COUNT);
    fputs("\nPATTERN is what names have to match, as for ls. Keys:\n\n", out);
    fputs(top_page_keys, out);
    fputs("\n"
          "Exit status:\n"
          "    0  it was ended, or the rounds are over\n"
          "   64  the command line is wrong, or there is no terminal that can be painted on\n"
          "   69  no server, or no answer from it at the start\n"
          "   70  the server refused, or stdout cannot be written\n"
          "128+N  ended by signal N\n",
          out);
}

/* ---- without a terminal ----------------------------------------------------------------------------------------- */

static int print_round(struct top_watch *w, const struct top_options *o)
{
    struct top_model *model;
    struct top_state *state = top_watch_enter(w, &model);
    bool made = true;

    if (o->access.json)
        made = top_page_json(stdout, state, model, top_now());
    else
        top_page_print(stdout, state, model, shown_width(), top_now());
    top_watch_leave(w);
    if (!made)
        text_say("%s", rdl_strerror(RDL_ENOMEM));
    return made ? subcommand_written(EXITCODE_OK) : EXITCODE_TROUBLE;
}

/* The first has to succeed; what goes wrong later is in what is printed. */
static int print_rounds(struct top_watch *w, const struct top_options *o)
{
    for (int round = 0; o->rounds == 0 || round < o->rounds; round++) {
        int64_t due = top_now() + o->interval_ms, left;
        struct top_model *model;
        int status;

        if (top_watch_round(w) < 0 && round == 0) {
            status = access_failed(&top_watch_enter(w, &model)->trouble);
            top_watch_leave(w);
            return status;
        }
        if ((status = print_round(w, o)) != EXITCODE_OK)
            return status;
        while ((o->rounds == 0 || round + 1 < o->rounds) && (left = due - top_now()) > 0)
            (void)poll(NULL, 0, (int)left);
    }
    return EXITCODE_OK;
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

static void leave_lock(struct top_ui *ui)
{
    ui->seen = rdl_inspection_free(ui->seen);
    free(ui->text);
    ui->text = NULL;
    ui->first = 0;
    ui->at = TOP_AT_LIST;
    ui->prompt = TOP_NO_PROMPT;
}

static void say(struct top_ui *ui, const char *text)
{
    (void)snprintf(ui->message, sizeof ui->message, "%.*s", (int)strcspn(text, "\n"), text);
}

/* Ask about what is selected; `evict`: to take it from who holds it, after a question. */
static void ask_about(struct top_watch *w, struct top_ui *ui, bool evict)
{
    struct top_request request = {.what = TOP_SHOW, .ask = evict, .name_len = ui->selected_len};

    if (ui->selected == NULL)
        return;
    if ((request.name = malloc(ui->selected_len)) == NULL) {
        say(ui, rdl_strerror(RDL_ENOMEM));
        return;
    }
    memcpy(request.name, ui->selected, ui->selected_len);
    if (!top_watch_ask(w, &request)) {
        top_request_done(&request);
        say(ui, "the last question has not been answered yet");
        return;
    }
    say(ui, "asking the server");
}

static void show_text(struct top_ui *ui, const rdl_inspection_t *seen)
{
    size_t size;
    FILE *out;

    free(ui->text);
    ui->text = NULL;
    if ((out = open_memstream(&ui->text, &size)) == NULL)
        return;
    shown_all(out, seen);
    (void)fclose(out);
}

/* The answer to a request. */
static void hear(struct top_watch *w, struct top_ui *ui)
{
    struct top_request answer;

    if (!top_watch_answer(w, &answer))
        return;
    ui->message[0] = '\0';
    if (answer.failed || answer.what == TOP_EVICT) {
        say(ui, answer.said != NULL ? answer.said : rdl_strerror(RDL_ENOMEM));
    } else if (answer.seen != NULL) {
        leave_lock(ui);
        ui->at = TOP_AT_LOCK;
        ui->seen = answer.seen;
        answer.seen = NULL;
        show_text(ui, ui->seen);
        if (answer.ask && ui->seen->holder_count > 0)
            ui->prompt = TOP_PROMPT_EVICT;
        else if (answer.ask)
            say(ui, "nobody holds it");
    }
    top_request_done(&answer);
}

/* Those that were shown are evicted: the request has what is on the screen. */
static void agree(struct top_watch *w, struct top_ui *ui, bool yes)
{
    struct top_request request = {.what = TOP_EVICT, .seen = ui->seen};

    ui->prompt = TOP_NO_PROMPT;
    if (yes && top_watch_ask(w, &request)) {
        ui->seen = NULL;
        leave_lock(ui);
        say(ui, "asking the server");
    } else {
        leave_lock(ui);
        say(ui, yes ? "the last question has not been answered yet" : "nothing was done");
    }
}

static void type_pattern(struct top_watch *w, struct top_ui *ui, int key)
{
    size_t len = strlen(ui->typed);
    struct top_model *model;

    if (key == '\n' || key == 27) {
        ui->prompt = TOP_NO_PROMPT;
        if (key == 27)
            ui->typed[0] = '\0';
    } else if ((key == 0x7f || key == '\b') && len > 0) {
        ui->typed[len - 1] = '\0';
    } else if (key >= ' ' && key <= '~' && len + 1 < sizeof ui->typed) {
        ui->typed[len] = (char)key;
        ui->typed[len + 1] = '\0';
    }
    memcpy(top_watch_enter(w, &model)->view.pattern, ui->typed, sizeof ui->typed);
    top_watch_leave(w);
    top_watch_hurry(w);
}

/* Select what is in that row of the list, of which there are `count`. */
static void select_row(struct top_ui *ui, struct top_lock *const *locks, size_t count, size_t row)
{
    char *name;

    if (count == 0)
        return;
    row = row < count ? row : count - 1;
    if ((name = malloc(locks[row]->name_len)) == NULL)
        return;
    memcpy(name, locks[row]->name, locks[row]->name_len);
    free(ui->selected);
    ui->selected = name;
    ui->selected_len = locks[row]->name_len;
    ui->row = row;
}

static size_t moved(size_t at, int key, size_t page, size_t count)
{
    switch (key) {
    case TOP_KEY_UP:
    case 'k':
        return at > 0 ? at - 1 : 0;
    case TOP_KEY_DOWN:
    case 'j':
        return at + 1;
    case TOP_KEY_PAGE_UP:
        return at > page ? at - page : 0;
    case TOP_KEY_PAGE_DOWN:
        return at + page;
    case TOP_KEY_HOME:
    case 'g':
        return 0;
    case TOP_KEY_END:
    case 'G':
        return count;
    default:
        return at;
    }
}

static void move_in_list(struct top_watch *w, struct top_ui *ui, int key)
{
    struct top_lock *const *locks;
    struct top_model *model;
    struct top_state *state = top_watch_enter(w, &model);
    size_t count = top_model_view(model, &state->view, &locks);

    select_row(ui, locks, count, moved(ui->row, key, state->rows, count));
    top_watch_leave(w);
}

static void order_list(struct top_watch *w, int key)
{
    static const char keys[TOP_ORDERS + 1] = "wcosln";
    const char *found = strchr(keys, key);
    struct top_model *model;
    struct top_state *state = top_watch_enter(w, &model);

    if (key == 'r')
        state->view.reverse = !state->view.reverse;
    else if (key > 0 && found != NULL)
        state->view.order = (enum top_order)(found - keys);
    top_watch_leave(w);
    top_watch_hurry(w);
}

static void pause_list(struct top_watch *w)
{
    struct top_model *model;
    struct top_state *state = top_watch_enter(w, &model);

    state->paused = !state->paused;
    top_watch_leave(w);
    top_watch_hurry(w);
}

static void show_keys(struct top_ui *ui)
{
    leave_lock(ui);
    ui->text = strdup(top_page_keys);
    ui->at = TOP_AT_HELP;
}

/* False: quit. */
static bool on_list_key(struct top_watch *w, struct top_ui *ui, int key)
{
    switch (key) {
    case 'q':
        return false;
    case '/':
        ui->prompt = TOP_PROMPT_PATTERN;
        break;
    case '\n':
    case 'u':
        move_in_list(w, ui, TOP_KEY_NONE); /* where nothing is selected yet: the first */
        ask_about(w, ui, key == 'u');
        break;
    case ' ':
    case 'p':
        pause_list(w);
        break;
    case '?':
    case 'h':
        show_keys(ui);
        break;
    case 'r':
    case 'w':
    case 'c':
    case 'o':
    case 's':
    case 'l':
    case 'n':
        order_list(w, key);
        break;
    default:
        move_in_list(w, ui, key);
    }
    return true;
}

static bool on_key(struct top_watch *w, struct top_ui *ui, int key)
{
    if (ui->prompt == TOP_PROMPT_EVICT) {
        agree(w, ui, key == 'y' || key == 'Y');
        return true;
    }
    if (ui->prompt == TOP_PROMPT_PATTERN) {
        type_pattern(w, ui, key);
        return true;
    }
    ui->message[0] = '\0';
    if (ui->at == TOP_AT_LIST)
        return on_list_key(w, ui, key);
    if (key == 'q' || key == 27 || (ui->at == TOP_AT_HELP && (key == '?' || key == 'h')))
        leave_lock(ui);
    else if (ui->at == TOP_AT_LOCK && (key == '\n' || key == 'u'))
        ask_about(w, ui, key == 'u');
    else
        ui->first = moved(ui->first, key, 10, INT_MAX);
    return true;
}

/* ---- on the terminal -------------------------------------------------------------------------------------------- */

static void paint(struct top_watch *w, struct top_ui *ui)
{
    static struct top_page page; /* large */
    struct top_model *model;
    struct top_state *state;
    int width, height;

    top_screen_size(&width, &height);
    state = top_watch_enter(w, &model);
    top_page_make(&page, state, model, ui, width, height, top_now());
    top_watch_leave(w);
    top_screen_paint(&page);
    top_page_done(&page);
}

/* Returns the signal that ends it, or 0. */
static int on_signals(void)
{
    struct signal_event event;

    while (signals_read(&event)) {
        if (event.kind == SIGNAL_ENDS)
            return event.signo;
        if (event.kind == SIGNAL_STOPS) {
            top_screen_close();
            signals_stop_self();
        }
        if (event.kind == SIGNAL_STOPS || event.signo == SIGWINCH || event.signo == SIGCONT)
            top_screen_again();
    }
    return 0;
}

static bool is_over(struct top_watch *w, const struct top_options *o)
{
    struct top_model *model;
    const struct top_state *state = top_watch_enter(w, &model);
    bool over = o->rounds > 0 && state->rounds >= (uint64_t)o->rounds && state->walks > 0;

    top_watch_leave(w);
    return over;
}

/* Until a key or a signal ends it. Returns the exit status. */
static int view(struct top_watch *w, const struct top_options *o, struct top_ui *ui, int signals_fd)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = signals_fd, .events = POLLIN},
                               {.fd = top_watch_fd(w), .events = POLLIN}};
        int signo, key;

        signals_end_at_once(top_screen_leave); /* the terminal may not take what is painted */
        if ((signo = on_signals()) != 0)
            return EXITCODE_SIGNAL + signo;
        paint(w, ui);
        signals_defer();
        if (is_over(w, o))
            return EXITCODE_OK;
        (void)poll(fds, sizeof fds / sizeof *fds, TICK_MS);
        if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) /* the terminal is gone */
            return EXITCODE_SIGNAL + SIGHUP;
        top_watch_heard(w);
        hear(w, ui);
        while ((key = top_screen_key()) != TOP_KEY_NONE)
            if (!on_key(w, ui, key))
                return EXITCODE_OK;
    }
}

static int view_on_terminal(struct top_watch *w, const struct top_options *o)
{
    struct top_ui ui = {.at = TOP_AT_LIST};
    int signals_fd = signals_open(), rc, status;

    if (signals_fd < 0 || (rc = top_watch_start(w)) != 0) {
        text_say("cannot start: %s", strerror(signals_fd < 0 ? errno : rc));
        return EXITCODE_TROUBLE;
    }
    signals_end_at_once(top_screen_leave);
    if (top_screen_open()) {
        status = view(w, o, &ui, signals_fd);
        signals_end_at_once(top_screen_leave);
        if (status == EXITCODE_OK)
            top_screen_close();
        else
            top_screen_leave();
        signals_end_at_once(NULL);
    } else {
        text_say("%s", rdl_strerror(RDL_ENOMEM));
        status = EXITCODE_TROUBLE;
    }
    leave_lock(&ui);
    free(ui.selected);
    return status;
}

/* ---- top --------------------------------------------------------------------------------------------------------- */

static int watch(rdl_client_t *client, const struct top_options *o)
{
    struct top_watch *w = top_watch_new(client, o->access.word, o->interval_ms);
    int status;

    if (w == NULL) {
        text_say("%s", rdl_strerror(RDL_ENOMEM));
        return EXITCODE_TROUBLE;
    }
    status = o->batch ? print_rounds(w, o) : view_on_terminal(w, o);
    if (!top_watch_end(w)) { /* a server hangs; who quits does not wait for it */
        text_flush();
        _exit(status);
    }
    (void)top_watch_free(w);
    return status;
}

static int top_main(int argc, char **argv)
{
    struct top_options o = {.access = ACCESS_INIT, .interval_ms = INTERVAL_MS};
    struct usage_error why;
    rdl_client_t *client = NULL;
    const char *refused;
    int status;

    if (access_parse(rows, ROW_COUNT, argc, argv, "[PATTERN]", &o.access, &why) < 0)
        return subcommand_misused(subcommand_top.name, &why);
    if (o.access.asked != ASKED_NOTHING)
        return subcommand_asked(o.access.asked, top_help);
    o.batch = o.batch || o.access.json;
    if (!o.batch && (refused = top_screen_refuses()) != NULL) {
        (void)usage_fail(&why, "%s", refused);
        return subcommand_misused(subcommand_top.name, &why);
    }
    if ((status = access_open(&o.access, &client)) == EXITCODE_OK)
        status = watch(client, &o);
    rdl_client_close(client);
    return status;
}

const struct subcommand subcommand_top = {
    .name = "top",
    .summary = "show the locks live on the terminal",
    .main = top_main,
    .help = top_help,
};
