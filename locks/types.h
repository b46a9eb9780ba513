/* types.h - the lock types: one const table each, in a file of its own.
 *
 * Types whose scripts have the common shape (see scripts/reentrant_*.lua) say no more than their names there; those
 * that live in the same hash take its scripts from hash.h as well. To add a type: write its scripts, fill in a table,
 * add its constructor to lock.c.
 */
#ifndef REDLATCH_LOCKS_TYPES_H
#define REDLATCH_LOCKS_TYPES_H

#include "core/call/handle.h"
#include "core/call/type.h"

extern const struct rdl__lock_ops rdl__reentrant_ops;
extern const struct rdl__lock_ops rdl__nonreentrant_ops;
extern const struct rdl__lock_ops rdl__simple_ops;
extern const struct rdl__lock_ops rdl__spin_ops;
extern const struct rdl__lock_ops rdl__fenced_ops;
extern const struct rdl__lock_ops rdl__fair_ops;
extern const struct rdl__lock_ops rdl__read_ops;
extern const struct rdl__lock_ops rdl__write_ops;
extern const struct rdl__lock_ops rdl__semaphore_ops;
extern const struct rdl__lock_ops rdl__permit_semaphore_ops;
extern const struct rdl__lock_ops rdl__latch_ops;

#endif
