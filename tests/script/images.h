/* SPDX-License-Identifier: MIT */
/* images.h - the states in which the enumeration's keyspace can be, numbered, and what time and commands make of them.
 *
 * The same few images come up again and again under different clients, so each command is run on each image once, by
 * the scripts and by the reference, and remembered. Number 0 is the keyspace at tick 0: empty, or with what there is to
 * take.
 *
 * Time counts in ticks. The server still has a key in the millisecond in which its time ends, so a lease of k ticks is
 * asked for as one millisecond less, and is over when k ticks are.
 */
#ifndef TESTS_SCRIPT_IMAGES_H
#define TESTS_SCRIPT_IMAGES_H

#include "tests/script/lock_model.h"

#include <stdbool.h>
#include <stdint.h>

struct images;

/* Owners are numbered; each draws numbers n for its holds. */
#define HOLDERS_MAX 4
#define NUMBERS_MAX 8

/* A verb as it is said to the server. */
struct image_command {
    enum lock_verb verb;
    uint8_t holder; /* below HOLDERS_MAX */
    uint8_t number; /* n, below NUMBERS_MAX */
    uint8_t mate;   /* LOCK_READ_TAKE: n of the holder's hold of LOCK_ONE; 0: none */
    uint8_t count;  /* at most 15, like the next */
    uint8_t sending;
    uint8_t lease; /* in ticks */
};

/* A message told that the lock was granted to a waiter. */
struct grant {
    uint8_t holder; /* and one; 0: nobody was told */
    uint8_t number;
    uint8_t sending;
};

struct effect {
    uint32_t image; /* afterwards */
    enum lock_outcome outcome;
    uint8_t taken;         /* of a take: how many */
    bool unlike_reference; /* the answer, the message, or the state afterwards */
    struct grant grant;
};

/* `planted` names scripts of tests/script/naive that stand in for the product's; NULL: the product's. */
struct images *images_open(const struct lock_type *type, const char *const planted[LOCK_VERBS]);
struct images *images_close(struct images *im); /* NULL is fine; returns NULL */

struct effect image_apply(struct images *im, uint32_t image, const struct image_command *command);
uint32_t image_after_tick(struct images *im, uint32_t image);

unsigned image_tick(const struct images *im, uint32_t image);
/* A bit for each hold that the keyspace has: hold_bit(holder, end, n). */
uint64_t image_holds(const struct images *im, uint32_t image);
/* The same for places in a queue. */
uint64_t image_places(const struct images *im, uint32_t image);
/* Of locks that count: how many are left, and whether that is said anywhere. */
int image_left(const struct images *im, uint32_t image);
bool image_has_number(const struct images *im, uint32_t image);
uint64_t hold_bit(unsigned holder, enum lock_end end, unsigned number);

/* A bit for each lock_outcome that occurred. */
unsigned images_outcomes(const struct images *im);

/* "A:1" */
void holder_name(char ret[LOCK_OWNER_SIZE], const struct lock_type *type, unsigned holder, enum lock_end end,
                 unsigned number);

#endif
