/* SPDX-License-Identifier: MIT */
/* kinds.h - the lock types that the simulator has. A new type is one row in kinds.c. */
#ifndef TESTS_SIM_KINDS_H
#define TESTS_SIM_KINDS_H

#include "tests/script/keyspace.h"

#include <redlatch/redlatch.h>

struct kind {
    const char *name;
    int (*make)(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                rdl_err_t *err);
    /* The other end, which many hold at a time; NULL: there is none. */
    int (*make_shared)(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                       rdl_err_t *err);
    bool reentrant;
    bool plain;       /* others take it with SET NX PX, and announce nothing when they give it back */
    bool line;        /* its clients stand in line, each with a channel of its own */
    bool polls;       /* its waiters hear nothing of what is announced */
    int64_t pause_ms; /* the longest between two looks of its retry policy; 0: it has none */
    int64_t life_ms;  /* its waiters stand in a queue, and live so long after each sign; 0: there is none */
    int64_t mark_ms;  /* those who wait for it alone keep sharers out so long after each sign; 0: they do not */
    int64_t cache_ms; /* its clients keep it for so long after an unlock; 0: they do not */
    bool counted;     /* its holds have tokens always, counted by a key of their own */
    /* How many hold it by the keyspace, and the field of the first. Those who share are one. */
    size_t (*holders)(struct keyspace *ks, const char *name, const char **ret_field, size_t *ret_len);
    /* May one more come in who shares it? With make_shared. */
    bool (*admits)(struct keyspace *ks, const char *name);
    bool (*holds)(struct keyspace *ks, const char *name, const char *field); /* NULL: who is the first holder does */
};

extern const struct kind kinds[];
extern const size_t kind_count;
extern const struct kind kept_kinds[]; /* those that clients keep: runs of their own */
extern const size_t kept_kind_count;

const struct kind *kind_named(const char *name);

#endif
