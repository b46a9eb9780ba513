/* SPDX-License-Identifier: MIT */
/* checks.h - what must hold in every run.
 *
 * A checker is a few functions and one row in checks.c. It looks at what is in apps.h, at the server's keys, and at
 * each command that the server has run; it changes nothing but its own fields.
 */
#ifndef TESTS_SIM_CHECKS_H
#define TESTS_SIM_CHECKS_H

#include "tests/sim/apps.h"
#include "tests/sim/server.h"

struct check {
    void (*event)(void);                /* after each event */
    void (*ran)(const struct ran *ran); /* after each command of the server's, at the same moment */
    void (*called)(const struct lock_call *call);
    void (*answered)(const struct lock_call *call);     /* before anybody acts on it */
    void (*granted)(struct caller *caller, size_t end); /* a hold begins, or is the server's again */
    void (*alone)(struct caller *caller, size_t end);   /* it is the host's alone */
    void (*told)(struct caller *caller, size_t end, const rdl_loss_t *loss); /* by rdl_on_lost */
    void (*at_rest)(void); /* every call is answered, nothing disturbs, and time has passed */
    void (*at_end)(void);  /* clients are closed, leases are over */
};

extern const struct check check_holds, check_tokens, check_losses;      /* check_holds.c */
extern const struct check check_answers;                                /* check_calls.c */
extern const struct check check_order;                                  /* check_order.c */
extern const struct check check_hosts, check_returning, check_patience; /* check_outage.c */
extern const struct check check_wakes, check_idles, check_strays, check_renewals, check_returns,
    check_leftovers; /* check_server.c */

extern const struct check *const lock_checks[];   /* all of them that locks are held to, and NULL */
extern const struct check *const outage_checks[]; /* and in outages */

void checks_begin(const struct check *const *list);
void checks_called(const struct lock_call *call);
void checks_answered(const struct lock_call *call);
void checks_granted(struct caller *caller, size_t end);
void checks_alone(struct caller *caller, size_t end);
void checks_told(struct caller *caller, size_t end, const rdl_loss_t *loss);
void checks_at_rest(void);
void checks_at_end(void);

/* The next end of a lock that there is. */
static inline size_t end_after(size_t end)
{
    end++;
    if (end % MOST_NAMES < sim.name_count)
        return end;
    return end < MOST_NAMES ? MOST_NAMES : MOST_ENDS;
}

#define EACH_HOLD(who, n, h)                                                                                           \
    for (struct caller *who = sim.callers; who < sim.callers + sim.caller_count; who++)                                \
        for (size_t n = 0; n < MOST_ENDS; n = end_after(n))                                                            \
            for (struct hold *h = &who->holds[n]; h != NULL && h->count > 0; h = NULL)

/* Is a call given the time for a new connection, and for the server to be told its script? */
bool time_to_connect(void);

/* The field that the keyspace shows for a name; false: nobody holds it. */
bool shown(struct name *name, const char **ret_field, size_t *ret_len);
bool shows(struct name *name, const char *field);

/* Words of a command that the server has run. */
struct name *ran_name(const struct ran *ran, size_t word);
bool ran_word_is(const struct ran *ran, size_t word, const char *text);
void ran_copy_word(char to[FIELD_SIZE], const struct ran *ran, size_t word);
bool ends_in(const char *text, const char *tail);

#endif
