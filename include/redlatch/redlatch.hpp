// SPDX-License-Identifier: MIT
// redlatch.hpp - redlatch for C++17 and later: classes over the C headers, nothing to link beside libredlatch.
//
//   redlatch::client client("redis://localhost");
//   redlatch::reentrant_lock lock(client, "orders:42");
//   std::lock_guard guard(lock);
//
// One class a lock type. They meet the standard's requirements BasicLockable, Lockable and TimedLockable, the
// read-write lock SharedTimedLockable as well, so that std::unique_lock, std::shared_lock, std::scoped_lock and
// std::condition_variable_any work with them. What the verbs promise is said in the C headers (lock.h, semaphore.h,
// latch.h, async.h); here stands what C++ adds.
//
// Errors. A function comes twice: one throws redlatch::error, which has the library's message, the server and the
// lock; the one with a std::error_code & at the end never throws, and sets it (to zero when it succeeded). It returns
// false, a negative number, or nothing then; a constructor leaves an object whose verbs answer errc::invalid_argument.
// Codes are redlatch::errc, in redlatch::category(), and compare equal to the std::errc that means the same. bad_alloc
// is thrown where an argument is copied, and where there is no room for the ids of permits. Owners and their bindings,
// on_lost and guards throw only.
//
// Awaitables (C++20) begin with async_, and throw only.
//
// unlock() throws nothing, because guards call it in their destructors. What it could not do is repeated in the
// background, and a hold that was lost is told by on_lost; who wants to know here calls release() in its place.
//
// Times are any std::chrono duration; a fraction of a millisecond counts as a whole one. Objects are moved, not copied;
// they may be used by several threads at once where the C handle may, but not moved meanwhile. Objects made from a
// client may outlive it, and answer errc::closed then.
#ifndef REDLATCH_REDLATCH_HPP
#define REDLATCH_REDLATCH_HPP

#include <redlatch/latch.hpp>
#include <redlatch/lock.hpp>
#include <redlatch/redlatch.h>
#include <redlatch/semaphore.hpp>

#endif
