/* SPDX-License-Identifier: MIT */
/* redlatch.h - distributed locks on Redis and Valkey, compatible on the wire with Java's Redisson.
 *
 * Include this one. The parts, each readable by itself:
 *   error.h      result codes and rdl_err_t
 *   client.h     connecting, options, callbacks on your own loop
 *   owner.h      who holds a lock: a thread, unless you say otherwise
 *   lock.h       lock types and their verbs, blocking
 *   async.h      the same verbs without waiting
 *   semaphore.h  permits, with and without ids and leases
 *   latch.h      a count-down latch
 *   inspect.h    who holds a lock, who waits, which locks there are
 *   observe.h    log and metrics sinks
 *   doctor.h     is this deployment safe for locks
 *
 * redlatch.hpp, which C++ programs include in its place, has classes for all of that.
 *
 * Rules that hold everywhere
 *   Times are milliseconds in an int64_t. A deadline is fixed when a call starts and covers everything the call does.
 *   Every `rdl_err_t *` and every options pointer may be NULL. A `ret_` output is written only on success.
 *   Every function may be called from any thread unless its comment says otherwise.
 *   A child made by fork() gets RDL_EFORK from every handle it inherited; freeing such a handle there is safe.
 *   The library prints nothing, handles no signal, never aborts.
 */
#ifndef REDLATCH_REDLATCH_H
#define REDLATCH_REDLATCH_H

#include <redlatch/async.h>
#include <redlatch/client.h>
#include <redlatch/doctor.h>
#include <redlatch/error.h>
#include <redlatch/inspect.h>
#include <redlatch/latch.h>
#include <redlatch/lock.h>
#include <redlatch/observe.h>
#include <redlatch/owner.h>
#include <redlatch/semaphore.h>
#include <redlatch/version.h>

#endif
