// SPDX-License-Identifier: MIT
// test_verbs.cc - each verb of redlatch.hpp in the two forms that test_cpp.cc does not use: with an error code in place
// of an exception, and for co_await.
//
//     test_verbs SERVER
#include "tests/cpp/check.h"

#include <future>

namespace
{

// Did it set this code? `ec` is something else before.
template <typename Call> bool says(errc code, Call call)
{
    std::error_code ec = code == errc::closed ? errc::lost : errc::closed;

    call(ec);
    return ec == code;
}

// Is `ec` empty after it, whatever it was before?
template <typename Call> auto fine(Call call)
{
    std::error_code ec = errc::closed;
    auto result = call(ec);

    if (ec)
        std::printf("%s\n", ec.message().c_str());
    CHECK(!ec);
    return result;
}

template <typename Call> void done(Call call)
{
    fine([&](std::error_code &ec) {
        call(ec);
        return 0;
    });
}

const auto soon = [] { return std::chrono::steady_clock::now() + 60s; };

// ---- error codes ----------------------------------------------------------------------------------------------------

void codes_of_locks()
{
    auto client = anonymous();
    std::error_code ec = errc::closed;
    redlatch::fenced_lock lock(client, "verbs:lock", redlatch::lock_options(), ec);

    CHECK(!ec && lock.native_handle() != nullptr);
    CHECK(fine([&](auto &e) { return lock.state(e); }) == redlatch::hold_state::not_held);
    CHECK(fine([&](auto &e) { return lock.try_lock_until(soon(), e); }));
    CHECK(fine([&](auto &e) { return lock.state(e); }) == redlatch::hold_state::held);
    CHECK(fine([&](auto &e) { return lock.hold_count(e); }) == 1);
    CHECK(fine([&](auto &e) { return lock.token(e); }) == lock.token());
    CHECK(fine([&](auto &e) { return lock.remaining(e); }) > 0ms);
    CHECK(fine([&](auto &e) { return lock.is_locked(e); }));
    const std::string nobody = "00000000-0000-0000-0000-000000000000:1";
    CHECK(!fine([&](auto &e) { return lock.evict(nobody, e); }));
    CHECK(fine([&](auto &e) { return lock.force_unlock(e); }));
    CHECK(!fine([&](auto &e) { return lock.force_unlock(e); }));

    redlatch::fenced_lock none(client, "", redlatch::lock_options(), ec);
    CHECK(ec == errc::invalid_argument && none.native_handle() == nullptr);
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(none.state(e) == redlatch::hold_state::not_held); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(none.hold_count(e) < 0); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(none.token(e) < 0); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(none.remaining(e) < 0ms); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(!none.is_locked(e)); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(!none.force_unlock(e)); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(!none.evict(nobody, e)); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(!none.try_lock_until(soon(), e)); }));
    redlatch::owner self(client);
    CHECK(fine([&](auto &e) { return lock.state(self, e); }) == redlatch::hold_state::not_held);
    CHECK(says(errc::not_owner, [&](auto &e) { CHECK(lock.token(self, e) < 0); }));
    redlatch::multi_lock twice({lock.native_handle(), lock.native_handle()}, redlatch::lock_options(), ec);
    CHECK(ec == errc::invalid_argument && !twice.try_lock(ec) && ec == errc::invalid_argument);
    redlatch::red_lock nobody_grants({}, redlatch::lock_options(), ec);
    CHECK(ec == errc::invalid_argument);
    redlatch::simple_lock member(client, "verbs:member", redlatch::lock_options(), ec);
    redlatch::multi_lock both({member.native_handle()}, redlatch::lock_options(), ec);
    CHECK(!ec && both.try_lock(ec) && !ec);
    both.unlock();
    static_assert(noexcept(lock.state(ec)) &&noexcept(lock.evict(nobody, ec)) &&noexcept(lock.remaining(ec)));
}

void codes_of_semaphores()
{
    auto client = anonymous();
    std::error_code ec = errc::closed;
    redlatch::semaphore pool(client, "verbs:pool", redlatch::semaphore_options(), ec);

    CHECK(!ec && fine([&](auto &e) { return pool.try_set_permits(3, e); }));
    CHECK(!fine([&](auto &e) { return pool.try_set_permits(4, e); }));
    done([&](auto &e) { pool.acquire(1, e); });
    CHECK(fine([&](auto &e) { return pool.try_acquire(1, e); }));
    CHECK(fine([&](auto &e) { return pool.try_acquire_until(soon(), 1, e); }));
    CHECK(!fine([&](auto &e) { return pool.try_acquire(1, e); }));
    done([&](auto &e) { pool.release(2, e); });
    done([&](auto &e) { pool.add_permits(1, e); });
    CHECK(fine([&](auto &e) { return pool.available(e); }) == 3 && fine([&](auto &e) { return pool.drain(e); }) == 3);

    redlatch::semaphore none(client, "", redlatch::semaphore_options(), ec);
    CHECK(ec == errc::invalid_argument);
    CHECK(says(errc::invalid_argument, [&](auto &e) { none.acquire(1, e); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(!none.try_acquire(1, e)); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(!none.try_acquire_until(soon(), 1, e)); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(none.available(e) < 0); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(none.drain(e) < 0); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(!none.try_set_permits(1, e)); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { none.add_permits(1, e); }));
}

void codes_of_permits()
{
    auto client = anonymous();
    std::error_code ec = errc::closed;
    redlatch::permit_semaphore seats(client, "verbs:seats", redlatch::semaphore_options(), ec);

    CHECK(!ec && fine([&](auto &e) { return seats.try_set_permits(2, e); }));
    done([&](auto &e) { seats.set_permits(3, e); });
    done([&](auto &e) { seats.add_permits(-1, e); });
    auto one = fine([&](auto &e) { return seats.acquire(1, 60s, e).detach(); });
    CHECK(one.size() == 1 && fine([&](auto &e) { return seats.acquired(e); }) == 1);
    done([&](auto &e) { seats.extend(one[0], 120s, e); });
    CHECK(fine([&](auto &e) { return seats.remaining(one[0], e); }) > 60s && seats.remaining(one[0]) <= 120s);
    seats.extend(one[0], 180s);
    auto other = seats.try_acquire_for(60s, 1, 60s, ec);
    CHECK(!ec && other && fine([&](auto &e) { return seats.available(e); }) == 0);
    CHECK(!seats.try_acquire(1, 60s, ec) && !ec);
    done([&](auto &e) { other->extend(120s, e); });
    done([&](auto &e) { other->release(e); });
    done([&](auto &e) { seats.release(one, e); });
    CHECK(says(errc::lost, [&](auto &e) { seats.release(one, e); }));
    CHECK(says(errc::lost, [&](auto &e) { seats.extend(one[0], 60s, e); }));
    CHECK(says(errc::lost, [&](auto &e) { CHECK(seats.remaining(one[0], e) < 0ms); }));
    {
        auto theirs = seats.adopt(one);

        CHECK(says(errc::lost, [&](auto &e) { theirs.extend(60s, e); }));
        CHECK(says(errc::lost, [&](auto &e) { theirs.release(e); }));
    }
    {
        auto mine = seats.adopt(seats.acquire().detach());

        CHECK(mine.ids().size() == 1 && seats.available() == 1);
    }
    CHECK(seats.available() == 2);
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(seats.acquire(0, 60s, e).ids().empty()); }));

    redlatch::permit_semaphore none(client, "", redlatch::semaphore_options(), ec);
    CHECK(ec == errc::invalid_argument);
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(!none.try_acquire(1, 60s, e)); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(none.available(e) < 0); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(none.acquired(e) < 0); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(!none.try_set_permits(1, e)); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { none.set_permits(1, e); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { none.add_permits(1, e); }));
}

void codes_of_latches()
{
    auto client = anonymous();
    std::error_code ec = errc::closed;
    redlatch::latch latch(client, "verbs:latch", ec);

    CHECK(!ec && fine([&](auto &e) { return latch.try_set_count(2, e); }));
    CHECK(!fine([&](auto &e) { return latch.try_set_count(1, e); }));
    CHECK(fine([&](auto &e) { return latch.count_down(e); }) == 1);
    CHECK(fine([&](auto &e) { return latch.count(e); }) == 1 && !fine([&](auto &e) { return latch.try_wait(e); }));
    CHECK(!fine([&](auto &e) { return latch.wait_for(500ms, e); }));
    latch.count_down();
    done([&](auto &e) { latch.wait(e); });

    redlatch::latch none(client, "", ec);
    CHECK(ec == errc::invalid_argument);
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(!none.try_set_count(1, e)); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(none.count_down(e) < 0); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(none.count(e) < 0); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { CHECK(!none.wait_for(1ms, e)); }));
    CHECK(says(errc::invalid_argument, [&](auto &e) { none.wait(e); }));
}

// ---- awaitables -----------------------------------------------------------------------------------------------------

#ifdef REDLATCH_HAS_COROUTINES
#define REFUSED(why, what)                                                                                             \
    do {                                                                                                               \
        bool refused_ = false;                                                                                         \
        try {                                                                                                          \
            co_await what;                                                                                             \
        } catch (const redlatch::error &error) {                                                                       \
            refused_ = error.code() == (why);                                                                          \
        }                                                                                                              \
        check(refused_, #what, __LINE__);                                                                              \
    } while (false)

task await_a_lock(redlatch::client &client, std::promise<void> &ended)
{
    redlatch::owner self(client), other(client);
    redlatch::fenced_lock lock(client, "verbs:awaited");

    CHECK(co_await lock.async_try_lock(self) && !co_await lock.async_try_lock(other));
    CHECK(lock.state(self) == redlatch::hold_state::held && lock.state(other) == redlatch::hold_state::not_held);
    CHECK(lock.token(self) > 0 && throws(errc::not_owner, [&] { (void)lock.token(other); }));
    CHECK(co_await lock.async_remaining(self) > 0ms && co_await lock.async_remaining(other) > 0ms);
    CHECK(co_await lock.async_force_unlock(other) && !co_await lock.async_force_unlock(other));
    REFUSED(errc::lost, lock.async_release(self));
    ended.set_value();
}

task await_permits(redlatch::client &client, std::promise<void> &ended)
{
    redlatch::owner self(client);
    redlatch::semaphore pool(client, "verbs:awaited-pool");

    CHECK(co_await pool.async_try_set_permits(self, 2) && !co_await pool.async_try_set_permits(self, 2));
    CHECK(co_await pool.async_try_acquire(self, 2) && !co_await pool.async_try_acquire(self));
    co_await pool.async_add_permits(self, 3);
    CHECK(co_await pool.async_available(self) == 3 && co_await pool.async_drain(self) == 3);
    REFUSED(errc::invalid_argument, pool.async_acquire(self, 0));
    ended.set_value();
}

task await_permits_with_ids(redlatch::client &client, std::promise<void> &ended)
{
    redlatch::owner self(client);
    redlatch::permit_semaphore seats(client, "verbs:awaited-seats");

    CHECK(co_await seats.async_try_set_permits(self, 1));
    co_await seats.async_set_permits(self, 4);
    co_await seats.async_add_permits(self, -1);
    auto two = co_await seats.async_acquire(self, 2, 60s);
    CHECK(two.size() == 2 && std::string(two[0].id).size() == 32 && std::string(two[0].id) != two[1].id);
    CHECK(co_await seats.async_acquired(self) == 2 && co_await seats.async_available(self) == 1);
    co_await seats.async_extend(self, two[0], 120s);
    CHECK(co_await seats.async_remaining(self, two[0]) > 60s && co_await seats.async_remaining(self, two[1]) <= 60s);
    const auto third = co_await seats.async_try_acquire_for(self, 60s);
    CHECK(third && third->size() == 1 && !co_await seats.async_try_acquire(self));
    CHECK(co_await seats.async_remaining(self, third->front()) == redlatch::endless_lease);
    co_await seats.async_release(self, two);
    REFUSED(errc::lost, seats.async_release(self, two));
    REFUSED(errc::lost, seats.async_extend(self, two[0], 60s));
    REFUSED(errc::lost, seats.async_remaining(self, two[0]));
    REFUSED(errc::invalid_argument, seats.async_acquire(self, 0));
    REFUSED(errc::invalid_argument, seats.async_try_acquire(self, RDL_PERMIT_IDS_MAX + 1));
    REFUSED(errc::invalid_argument, seats.async_release(self, {}));
    co_await seats.async_release(self, *third);
    CHECK(co_await seats.async_available(self) == 3);
    ended.set_value();
}

// One waits, and gets what another gives back; a wait that is called off takes nothing.
task wait_for_a_permit(redlatch::permit_semaphore &seats, redlatch::owner &self, std::promise<void> &had,
                       std::promise<void> &ended)
{
    auto got = co_await seats.async_acquire(self, 1, 60s);

    co_await seats.async_release(self, std::move(got));
    had.set_value();
    REFUSED(errc::canceled, seats.async_acquire(self, 2, 60s));
    ended.set_value();
}

task await_a_latch(redlatch::client &client, std::promise<void> &ended)
{
    redlatch::owner self(client);
    redlatch::latch latch(client, "verbs:awaited-latch");

    CHECK(co_await latch.async_try_set_count(self, 1) && !co_await latch.async_try_set_count(self, 1));
    CHECK(co_await latch.async_count(self) == 1 && co_await latch.async_count_down(self) == 0);
    co_await latch.async_wait(self);
    REFUSED(errc::invalid_argument, latch.async_try_set_count(self, 0));
    ended.set_value();
}

void awaitables_do_what_the_verbs_do()
{
    auto client = anonymous();

    for (auto begin : {await_a_lock, await_permits, await_permits_with_ids, await_a_latch}) {
        std::promise<void> ended;

        begin(client, ended);
        ended.get_future().get();
    }
}

void permits_are_waited_for()
{
    auto client = anonymous();
    redlatch::owner self(client);
    redlatch::permit_semaphore seats(client, "verbs:waited-for");
    std::promise<void> had, ended;
    auto over = ended.get_future();

    seats.set_permits(1);
    auto mine = seats.acquire();
    wait_for_a_permit(seats, self, had, ended);
    auto got = had.get_future();
    CHECK(got.wait_for(0s) != std::future_status::ready);
    mine.release();
    got.get();
    while (over.wait_for(1ms) != std::future_status::ready)
        self.cancel(); // who waits for two, of which there is one
    CHECK(seats.available() == 1);
}
#endif

} // namespace

int main(int argc, char **argv)
{
    return count_what_holds(argc, argv, [] {
        codes_of_locks();
        codes_of_semaphores();
        codes_of_permits();
        codes_of_latches();
#ifdef REDLATCH_HAS_COROUTINES
        awaitables_do_what_the_verbs_do();
        permits_are_waited_for();
#endif
    });
}
