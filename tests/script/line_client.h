/* SPDX-License-Identifier: MIT */
/* line_client.h - a client of the enumeration of the line (enumerate_line.h), with one thread or two that want the
 * lock.
 *
 * What a request says of the line, and what is noted of it, is the library's own (core/call/line.c): a call is laid out
 * for each of its functions, and the notes are a part of the state. The rest is written here as the library does it:
 * the calls (by_caller.c, by_loop.c, acquire.c, release.c, undo.c), who sleeps on the client's own channel, its ear and
 * its timer (core/service/waiters*.c). The linker leads the library elsewhere (--wrap) where it would reach for its
 * loop.
 *
 * A thread sends its first try and its release on a connection of its own; the client's loop has one for the tries of
 * those who wait, and for undos. On each the server runs requests in order and answers in order, at any later time.
 */
#ifndef TESTS_SCRIPT_LINE_CLIENT_H
#define TESTS_SCRIPT_LINE_CLIENT_H

#include "tests/script/line_server.h"

#define LINE_THREADS 2
#define LINE_LANES (LINE_THREADS + 1)
#define LOOP_LANE LINE_THREADS
#define LINE_QUEUE 5
#define LINE_MESSAGES 12

enum line_phase {
    LINE_IDLE,
    LINE_TRIES,    /* its take was sent */
    LINE_HANDED,   /* refused, or without a try, on its way to the loop */
    LINE_ASLEEP,   /* among the waiters */
    LINE_HOLDS,    /* as far as it knows */
    LINE_RELEASES, /* its release was sent */
};

struct line_thread {
    uint8_t pc; /* in its program */
    uint8_t phase;
    uint8_t n; /* of its hold, or of what it wants */
    bool kept; /* that is negative */
    bool recalled;
    bool single;   /* it does not wait */
    bool by_loop;  /* its call is the loop's */
    bool tried;    /* its call was refused */
    bool counted;  /* among those that wait */
    bool woken;    /* and its try was not answered since */
    bool heard;    /* the channel's epoch has moved since its try was sent */
    bool news;     /* something was heard on the own channel since then, also before it has joined */
    uint8_t place; /* among those who wait, from 1 on; 0: it has not joined */
    uint8_t line;  /* enum rdl__line */
    uint8_t ear;   /* enum rdl__ear: of its refusal */
    uint8_t unused;
    uint16_t look; /* of its refusal, in ms; 0: when the lease is over */
};

enum line_kind {
    LINE_TRY = 1,      /* a thread waits for it */
    LINE_RELEASE,      /* likewise */
    LINE_LEFT_TRY,     /* given up; its undo is behind it */
    LINE_LEFT_RELEASE, /* given up, and the undo itself from then on */
    LINE_UNDO_TRY,
    LINE_UNDO_RELEASE,
};

/* A request on its way, or answered and not read. Compared as bytes: what is unused is 0. */
struct line_sent {
    uint16_t command;
    uint16_t look;
    uint8_t kind; /* 0: none */
    uint8_t thread;
    uint8_t n;
    uint8_t line; /* as the call has it */
    int8_t answer;
    uint8_t ear;
    bool ran : 1;
    bool resent : 1; /* was sent before, on a connection that broke */
    bool kept : 1;   /* of n: that is negative */
    uint8_t unused : 5;
    uint8_t unused_too;
};

/* What a channel is to the subscriber. */
enum line_topic { TOPIC_OFF, TOPIC_ASKED, TOPIC_SUBSCRIBED, TOPIC_CONFIRMED };

struct line_client {
    uint32_t notes; /* name->waiting */
    uint8_t drawn;  /* the last n */
    bool dead;
    uint8_t own, all; /* enum line_topic: its own channel, and the lock's */
    uint8_t reason;   /* enum rdl__ear: of its ear */
    bool ear_heard;   /* somebody, not long ago */
    bool by_name;     /* the next `0` there is none of its business */
    bool missed;      /* its turn, perhaps */
    bool left;        /* somebody has waited on its own channel since that was subscribed to */
    bool look_due, hint_due;
    uint8_t unused;
    uint16_t look, hint; /* ms: when the first that waits is woken without a message; 0: not */
    struct line_thread threads[LINE_THREADS];
    struct line_sent sent[LINE_LANES][LINE_QUEUE];
    uint8_t said[LINE_MESSAGES]; /* enum line_said, not read; 0: none */
};

/* Rules that are left out, to see what breaks. */
struct line_without {
    bool leaves_unheard;  /* 19: who hears its turn and has no call leaves */
    bool tries_instead;   /* 19: a call that does not sleep yet tries */
    bool undo_of_release; /* 19: what may have entered is undone */
    bool ear;             /* 11 and 17 */
    bool enters_again;    /* 12: by a release */
    bool retry;           /* 13: who waits when an undo is answered tries */
    bool next_is_woken;   /* 4 */
};

/* quick: who takes the lock again does so at once (19). */
void line_clients_open(bool quick, const struct line_without *leaves_out);

/* What follows happens to a client; its state is put in place, and taken away again. */
void line_load(unsigned i, struct line_client *c);
void line_unload(void);

/* A thread begins a take, or its release. */
void line_take(unsigned thread, bool waits, bool kept);
void line_release(unsigned thread);
void line_join(unsigned thread);         /* one that is handed to the loop */
void line_read(unsigned lane);           /* the first answer there */
bool line_may_time_out(unsigned thread); /* its wait is over */
void line_time_out(unsigned thread);
void line_give_up_release(unsigned thread);
void line_give_up_unsent(unsigned thread); /* a release, likewise, which had no connection */
bool line_may_break(unsigned lane);
void line_break(unsigned lane); /* the connection: what was not answered is sent again, behind a KILL */
void line_subscribe(bool own);  /* the server has the SUBSCRIBE */
void line_hear(void);           /* the first message */
void line_cut(void);            /* the connection of the subscriptions */
void line_timer(void);          /* it is due */
void line_linger_ends(void);
void line_die(bool unsent); /* unsent: what the server has not run it will not */

bool line_holds_idle(const struct line_thread *t); /* kept, and not recalled */
unsigned line_waiters(const struct line_client *of);
/* In how many ms does its timer wake somebody? 0: it does not. */
unsigned line_due_in(const struct line_client *of);
unsigned line_listeners(const struct line_client *of, unsigned i);

#define LINE_LOOK_MS 100
#define LINE_LONG_MS 5000

#endif
