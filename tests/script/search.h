/* SPDX-License-Identifier: MIT */
/* search.h - breadth-first search over explicit states: is there a bad one, and by which shortest way is it reached?
 *
 * A model is a first state and what may happen next. States are plain bytes of one size, and two states are the same
 * when their bytes are, so a model writes every byte of them (zero what is unused).
 *
 * What is kept of a state that was seen is its 64-bit fingerprint, its parent and which of the parent's ways led there:
 * 12 bytes, and the table. The states themselves are kept for two levels only, and the way to a bad one is found by
 * walking it again from the start. Two states with one fingerprint would hide one of them: at 10 million states the
 * odds are 1 to 300,000.
 */
#ifndef TESTS_SCRIPT_SEARCH_H
#define TESTS_SCRIPT_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct search;

struct search_model {
    size_t state_size;
    void *world; /* given to the functions */
    void (*first)(void *world, void *ret_state);
    /* Call search_reach for each state that can follow, always in the same order. */
    void (*expand)(void *world, const void *state, struct search *s);
    /* What is wrong with the state, in one word, or NULL. */
    const char *(*wrong)(void *world, const void *state);
};

/* What happened on the way to `next` is said in printf's manner; it is formatted only when somebody will read it. */
void search_reach(struct search *s, const void *next, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Will it be read? What is dear to write may be left out otherwise. */
bool search_is_read(const struct search *s);

struct search_result {
    const char *verdict; /* NULL: no bad state, and all were seen; SEARCH_LIMIT: not all were */
    size_t states;
    size_t steps;   /* to the bad state */
    char *schedule; /* one step a line; NULL when there is none; freed by search_done */
};

#define SEARCH_LIMIT "LIMIT"

/* At most `limit` states are looked at. */
struct search_result search_run(const struct search_model *model, size_t limit);
void search_done(struct search_result *result);

#endif
