/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/top_screen.h"

#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

/* Last: its macros have names that others use. */
#include <curses.h>
#include <term.h>

static SCREEN *screen;
static bool colours;

/* What is written to leave it, and how it was. */
static char leave[256];
static size_t leave_len;
static struct termios modes;
static bool modes_known;

const char *top_screen_refuses(void)
{
    int found = 0;
    bool able;

    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1)
        return "this is no terminal: --once or --batch writes without one";
    if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
        return "TERM does not name a terminal that this system knows: --once or --batch writes without one";
    able = tigetstr("cup") != NULL && tigetstr("clear") != NULL;
    (void)del_curterm(cur_term);
    return able ? NULL : "this terminal (TERM) has no cursor to move: --once or --batch writes without one";
}

/* Names that are cut end in "…", as everywhere; nothing else is not ASCII. */
static void want_utf8(void)
{
    (void)setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        (void)setlocale(LC_CTYPE, "C.UTF-8");
}

static void prepare(void)
{
    const char *unwanted = getenv("NO_COLOR");

    (void)cbreak();
    (void)noecho();
    (void)nonl();
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)curs_set(0);
    set_escdelay(100);
    colours =
        (unwanted == NULL || unwanted[0] == '\0') && has_colors() && start_color() == OK && use_default_colors() == OK;
    if (colours) {
        (void)init_pair(1, COLOR_YELLOW, -1);
        (void)init_pair(2, COLOR_RED, -1);
        (void)init_pair(3, COLOR_CYAN, -1);
    }
}

static int put_leave(int c)
{
    if (leave_len < sizeof leave)
        leave[leave_len++] = (char)c;
    return c;
}

/* CAN ends a sequence that was cut off. */
static void prepare_leave(void)
{
    const char *ends[] = {exit_attribute_mode, keypad_local, exit_ca_mode, cursor_normal};

    leave_len = 0;
    (void)put_leave('\x18');
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i] != NULL)
            (void)tputs(ends[i], 1, put_leave);
    (void)put_leave('\r');
    (void)put_leave('\n');
}

bool top_screen_open(void)
{
    want_utf8();
    if (!modes_known)
        modes_known = tcgetattr(STDOUT_FILENO, &modes) == 0;
    if (screen == NULL && (screen = newterm(NULL, stdout, stdin)) == NULL)
        return false;
    prepare();
    prepare_leave();
    top_screen_again();
    return true;
}

void top_screen_close(void)
{
    if (screen == NULL)
        return;
    (void)endwin();
    delscreen(screen);
    screen = NULL;
}

void top_screen_leave(void)
{
    int flags = fcntl(STDOUT_FILENO, F_GETFL);

    if (modes_known)
        (void)tcsetattr(STDOUT_FILENO, TCSANOW, &modes);
    (void)tcflow(STDOUT_FILENO, TCOOFF); /* so that TCOON goes on, if Ctrl-S has stopped it */
    (void)tcflow(STDOUT_FILENO, TCOON);
    (void)tcflush(STDOUT_FILENO, TCOFLUSH);
    if (flags < 0 || fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK) < 0)
        return;
    (void)!write(STDOUT_FILENO, leave, leave_len);
    (void)fcntl(STDOUT_FILENO, F_SETFL, flags);
}

void top_screen_again(void)
{
    struct winsize size;

    if (screen == NULL && !top_screen_open())
        return;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        (void)resizeterm(size.ws_row, size.ws_col);
    (void)clearok(stdscr, TRUE);
}

void top_screen_size(int *ret_width, int *ret_height)
{
    getmaxyx(stdscr, *ret_height, *ret_width);
}

static attr_t attribute_of(enum top_style style)
{
    switch (style) {
    case TOP_TITLE:
        return A_BOLD;
    case TOP_COLUMNS:
        return A_REVERSE;
    case TOP_SELECTED:
        return A_REVERSE | (colours ? (attr_t)COLOR_PAIR(3) : 0);
    case TOP_WAITED:
        return colours ? (attr_t)COLOR_PAIR(1) : A_BOLD;
    case TOP_TROUBLE:
        return A_BOLD | (colours ? (attr_t)COLOR_PAIR(2) : 0);
    case TOP_PROMPT:
        return A_BOLD;
    case TOP_PLAIN:
    case TOP_STYLES:
        break;
    }
    return A_NORMAL;
}

/* Each character is one column wide. */
static void paint_line(int row, int width, const char *line, size_t len)
{
    wchar_t wide[512];
    mbstate_t state = {0};
    int n = 0;

    while (len > 0 && n < width && n < (int)(sizeof wide / sizeof *wide)) {
        size_t used = mbrtowc(&wide[n], line, len, &state);

        if (used == 0 || used > len) { /* no UTF-8 here */
            wide[n] = L'~';
            used = 1;
            memset(&state, 0, sizeof state);
        }
        line += used;
        len -= used;
        n++;
    }
    (void)mvaddnwstr(row, 0, wide, n);
}

void top_screen_paint(const struct top_page *page)
{
    const char *at = page->text != NULL ? page->text : "";
    int width, height;

    top_screen_size(&width, &height);
    (void)erase();
    for (int row = 0; row < height && *at != '\0'; row++) {
        size_t len = strcspn(at, "\n");
        attr_t attribute = attribute_of(page->style[row < TOP_HEIGHT_MOST ? row : 0]);

        (void)attrset((int)attribute);
        paint_line(row, width, at, len);
        if (page->style[row] == TOP_COLUMNS || page->style[row] == TOP_SELECTED)
            (void)mvchgat(row, 0, -1, attribute, (short)(PAIR_NUMBER(attribute)), NULL);
        at += len + (at[len] == '\n');
    }
    (void)attrset(A_NORMAL);
    (void)refresh();
}

int top_screen_key(void)
{
    int key = getch();

    switch (key) {
    case ERR:
        return TOP_KEY_NONE;
    case KEY_UP:
        return TOP_KEY_UP;
    case KEY_DOWN:
        return TOP_KEY_DOWN;
    case KEY_PPAGE:
        return TOP_KEY_PAGE_UP;
    case KEY_NPAGE:
        return TOP_KEY_PAGE_DOWN;
    case KEY_HOME:
        return TOP_KEY_HOME;
    case KEY_END:
        return TOP_KEY_END;
    case KEY_BACKSPACE:
        return 0x7f;
    case KEY_ENTER:
    case '\r':
        return '\n';
    default:
        return key >= 0 && key < 256 ? key : TOP_KEY_OTHER;
    }
}
