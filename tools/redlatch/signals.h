/* SPDX-License-Identifier: MIT */
/* signals.h - the process's signals, as events in a poll loop.
 *
 * Handlers write into a pipe; everything else happens in the loop. The state is the process's own, like the signals.
 * What the caller of this program had ignored (nohup, a shell's background job) stays ignored, here and in the command.
 */
#ifndef REDLATCH_TOOL_SIGNALS_H
#define REDLATCH_TOOL_SIGNALS_H

#include <stdbool.h>

enum signal_kind {
    SIGNAL_CHILD, /* a child of ours changed */
    SIGNAL_ENDS,  /* its default is to end a process */
    SIGNAL_STOPS, /* SIGTSTP */
    SIGNAL_TELLS, /* its default does nothing to a running process: SIGWINCH, SIGCONT */
};

struct signal_event {
    int signo;
    enum signal_kind kind;
    bool from_terminal; /* sent by the kernel, as for Ctrl-C: to the whole foreground process group, not to us alone */
};

/* Install the handlers. Until signals_defer a signal that ends ends the process at once, with status 128+n: nothing is
 * held yet. Returns the descriptor to poll, or -1 with errno set. */
int signals_open(void);

/* From now on every signal is an event. */
void signals_defer(void);

/* The opposite, around what may take for ever: from now on a signal that ends does so at once, after `last`, which is
 * async-signal-safe; NULL: nothing. Those that came before are still to be read. */
void signals_end_at_once(void (*last)(void));

/* Take one event. False when there is none. */
bool signals_read(struct signal_event *ret);

/* Stop as SIGTSTP would have stopped us. Returns when continued (at once where its default is to do nothing). */
void signals_stop_self(void);

/* Around fork: nothing is delivered between hold and release. */
void signals_hold(void);
void signals_release(void);

/* In the child, before exec: dispositions and mask as this program found them. Async-signal-safe. */
void signals_restore(void);

#endif
