/* SPDX-License-Identifier: MIT */
/* notes.h - what the library's callbacks have said, written down, and waited for with a bound. */
#ifndef TESTS_SUPPORT_NOTES_H
#define TESTS_SUPPORT_NOTES_H

#include <pthread.h>
#include <redlatch/redlatch.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- asynchronous calls ----------------------------------------------------------------------------------------- */

struct outcome {
    atomic_uint calls; /* of the callback: more than 1 is a defect */
    int64_t result;    /* valid once calls is not 0 */
    rdl_err_t err;
    bool had_err;
    rdl_lock_t *lock;
    pthread_t thread; /* on which it ran */
    int64_t at_us;
};

void outcome_note(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *outcome); /* rdl_done_fn */
int64_t outcome_wait(struct outcome *o, int64_t bound_ms); /* death when it does not come */

/* ---- losses ----------------------------------------------------------------------------------------------------- */

#define LOSSES_MAX 64

struct loss_note {
    rdl_hold_state_t state;
    rdl_loss_reason_t reason;
    int64_t token;
    int64_t remaining_ms;
    int64_t at_us;
    char owner[80];
    rdl_lock_t *lock;
};

struct losses {
    pthread_mutex_t mu;
    pthread_cond_t more;
    unsigned count; /* under mu, like the notes */
    struct loss_note notes[LOSSES_MAX];
};

void losses_init(struct losses *l);
void losses_note(rdl_lock_t *lock, const rdl_loss_t *loss, void *losses); /* rdl_lost_fn */
unsigned losses_count(struct losses *l, rdl_hold_state_t state);
bool losses_wait(struct losses *l, rdl_hold_state_t state, unsigned n, int64_t bound_ms);
const struct loss_note *losses_get(struct losses *l, rdl_hold_state_t state); /* the first such; NULL */

#endif
