/* SPDX-License-Identifier: MIT */
#include "tests/support/notes.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <string.h>

/* ---- asynchronous calls ----------------------------------------------------------------------------------------- */

void outcome_note(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *outcome)
{
    struct outcome *o = outcome;

    o->at_us = now_us();
    o->lock = lock;
    o->result = result;
    o->had_err = err != NULL;
    if (err != NULL)
        o->err = *err;
    o->thread = pthread_self();
    atomic_fetch_add(&o->calls, 1);
}

int64_t outcome_wait(struct outcome *o, int64_t bound_ms)
{
    if (!WAIT_UNTIL(atomic_load(&o->calls) > 0, bound_ms))
        die("a callback has not come after %lld ms", (long long)bound_ms);
    return o->result;
}

/* ---- losses ----------------------------------------------------------------------------------------------------- */

void losses_init(struct losses *l)
{
    memset(l, 0, sizeof *l);
    pthread_mutex_init(&l->mu, NULL);
    cond_init(&l->more);
}

void losses_note(rdl_lock_t *lock, const rdl_loss_t *loss, void *losses)
{
    struct losses *l = losses;
    struct loss_note *note;

    pthread_mutex_lock(&l->mu);
    if (l->count == LOSSES_MAX)
        die("too many losses");
    note = &l->notes[l->count++];
    note->state = loss->state;
    note->reason = loss->reason;
    note->token = loss->token;
    note->remaining_ms = loss->remaining_ms;
    note->at_us = now_us();
    note->lock = lock;
    (void)snprintf(note->owner, sizeof note->owner, "%s", loss->owner != NULL ? loss->owner : "");
    pthread_cond_broadcast(&l->more);
    pthread_mutex_unlock(&l->mu);
}

/* @locks mu held */
static unsigned count_losses(const struct losses *l, rdl_hold_state_t state)
{
    unsigned n = 0;

    for (unsigned i = 0; i < l->count; i++)
        n += l->notes[i].state == state;
    return n;
}

unsigned losses_count(struct losses *l, rdl_hold_state_t state)
{
    unsigned n;

    pthread_mutex_lock(&l->mu);
    n = count_losses(l, state);
    pthread_mutex_unlock(&l->mu);
    return n;
}

bool losses_wait(struct losses *l, rdl_hold_state_t state, unsigned n, int64_t bound_ms)
{
    struct timespec end = until_ms(bound_ms);
    bool in_time = true;
    bool met;

    pthread_mutex_lock(&l->mu);
    while (!(met = count_losses(l, state) >= n) && in_time)
        in_time = pthread_cond_timedwait(&l->more, &l->mu, &end) == 0;
    pthread_mutex_unlock(&l->mu);
    return met;
}

const struct loss_note *losses_get(struct losses *l, rdl_hold_state_t state)
{
    const struct loss_note *found = NULL;

    pthread_mutex_lock(&l->mu);
    for (unsigned i = 0; i < l->count && found == NULL; i++) {
        if (l->notes[i].state == state)
            found = &l->notes[i];
    }
    pthread_mutex_unlock(&l->mu);
    return found;
}
