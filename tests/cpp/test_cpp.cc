// SPDX-License-Identifier: MIT
// test_cpp.cc - redlatch.hpp against a server: what its classes add to the C functions, which have tests of their own.
//
//     test_cpp SERVER
#include "tests/cpp/check.h"

#include <array>
#include <condition_variable>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace
{

// What another thread, which is another owner, makes of it.
template <typename Call> auto elsewhere(Call call)
{
    return std::async(std::launch::async, call).get();
}

template <typename Lock> bool is_free(Lock &lock)
{
    return elsewhere([&] {
        const bool got = lock.try_lock();

        if (got)
            lock.unlock();
        return got;
    });
}

// ---- errors ---------------------------------------------------------------------------------------------------------

void errors_have_codes_and_words()
{
    const std::error_code code = errc::lost;
    std::error_code ec = errc::closed;

    CHECK(code.category() == redlatch::category() && code.message() == rdl_strerror(RDL_ELOST));
    CHECK(std::string(code.category().name()) == "redlatch");
    CHECK(std::error_code(errc::timed_out) == std::errc::timed_out);
    CHECK(std::error_code(errc::deadlock) == std::errc::resource_deadlock_would_occur);
    CHECK(std::error_code(errc::not_owner) == std::errc::operation_not_permitted);
    CHECK(std::error_code(errc::invalid_argument) == std::errc::invalid_argument);
    CHECK(std::error_code(errc::lost) != std::errc::timed_out);

    CHECK(throws(errc::invalid_argument, [] { redlatch::client("no uri"); }));
    redlatch::client none("no uri", redlatch::client_options(), ec);
    CHECK(!none && ec == errc::invalid_argument && none.native_handle() == nullptr && none.id().empty());
    CHECK(throws(errc::invalid_argument, [&] { redlatch::reentrant_lock lock(none, "cpp:of-none"); }));
    CHECK(throws(errc::no_connection, [] { redlatch::client("unix:/nowhere/at/all"); }));
    try {
        redlatch::client("unix:/nowhere/at/all");
    } catch (const std::system_error &error) {
        CHECK(std::string(error.what()).find("/nowhere/at/all") != std::string::npos);
    }
}

// ---- locks ----------------------------------------------------------------------------------------------------------

template <typename Lock> void excludes(const char *type)
{
    auto client = anonymous();
    Lock lock(client, std::string("cpp:") + type);

    static_assert(!std::is_copy_constructible_v<Lock> && std::is_nothrow_move_constructible_v<Lock>);
    static_assert(noexcept(lock.unlock()));
    CHECK(lock.type() == std::string(type) && lock.name() == std::string("cpp:") + type);
    {
        std::lock_guard<Lock> guard(lock);

        CHECK(lock.is_held() && lock.hold_count() == 1 && lock.is_locked() && lock.remaining() > 0ms);
        CHECK(std::string_view(type) == "read" || !is_free(lock));
    }
    CHECK(!lock.is_held() && lock.state() == redlatch::hold_state::not_held && is_free(lock));
    {
        std::unique_lock<Lock> guard(lock, 60s);

        CHECK(guard.owns_lock());
        CHECK(std::string_view(type) == "read" || elsewhere([&] { return !lock.try_lock_for(0ms); }));
    }
    CHECK(lock.try_lock_until(std::chrono::steady_clock::now() + 60s));
    lock.release();
    CHECK(throws(errc::not_owner, [&] { lock.release(); }));
    CHECK(lock.try_lock_for(redlatch::forever, 20s) && lock.remaining() > 5s && lock.remaining() <= 20s);
    lock.extend(28s); // a read lock is never sure of more than 30 s
    CHECK(lock.remaining() > 20s);
    Lock moved(std::move(lock));
    CHECK(moved.is_held());
    moved.unlock();
    CHECK(is_free(moved));
}

void locks_of_every_type_exclude()
{
#define EXCLUDES(type, make, fencing, reentrant) excludes<redlatch::type##_lock>(#type);
    RDL_LOCK_TYPES(EXCLUDES)
    RDL_LOCK_ENDS(EXCLUDES)
#undef EXCLUDES
}

void codes_say_what_exceptions_do()
{
    auto client = anonymous();
    redlatch::nonreentrant_lock lock(client, "cpp:codes");
    std::error_code ec = errc::closed;

    CHECK(lock.try_lock(ec) && !ec);
    CHECK(!lock.try_lock(ec) && ec == errc::deadlock);
    CHECK(throws(errc::deadlock, [&] { lock.lock(); }));
    lock.lock(ec);
    CHECK(ec == errc::deadlock);
    lock.extend(60s, ec);
    CHECK(!ec);
    elsewhere([&] {
        std::error_code other = errc::closed;

        CHECK(!lock.try_lock_for(3s, other) && !other);
        lock.release(other);
        CHECK(other == errc::not_owner);
        return 0;
    });
    lock.release(ec);
    CHECK(!ec);
    CHECK(throws(errc::invalid_argument, [&] { lock.lock(redlatch::milliseconds(0)); }));
    client.close();
    CHECK(throws(errc::closed, [&] { lock.lock(); }));
    CHECK(!lock.try_lock(ec) && ec == errc::closed);
}

void durations_are_rounded_up()
{
    using redlatch::detail::ms;

    CHECK(ms(1ns) == 1 && ms(1ms) == 1 && ms(1001us) == 2 && ms(0s) == 0 && ms(-1s) == 0 && ms(2min) == 120000);
    CHECK(ms(std::chrono::hours::max()) == RDL_WAIT_FOREVER && ms(redlatch::forever) == RDL_WAIT_FOREVER);
    CHECK(ms(std::chrono::duration<double>(0.0015)) == 2);
}

void names_are_any_bytes()
{
    auto client = anonymous();
    const std::string name("cpp:nul\0inside", 14);
    redlatch::reentrant_lock lock(client, name), shorter(client, "cpp:nul");

    CHECK(lock.name() == name);
    std::lock_guard guard(lock);
    CHECK(is_free(shorter) && !is_free(lock));
    CHECK(throws(errc::invalid_argument, [&] { redlatch::reentrant_lock(client, ""); }));
    CHECK(throws(errc::invalid_argument, [&] { redlatch::reentrant_lock(client, std::string_view()); }));
}

void lease_of_the_options_is_the_verbs()
{
    auto client = anonymous();
    redlatch::lock_options options;

    options.lease = 100s;
    redlatch::reentrant_lock lock(client, "cpp:lease", options);
    std::lock_guard guard(lock);
    CHECK(lock.lease() == 100s && lock.remaining() > 50s && lock.remaining() <= 100s);
}

void ends_of_scopes_need_not_wait_for_the_server()
{
    auto client = anonymous();
    redlatch::lock_options options;

    options.release = RDL_RELEASE_UNCONFIRMED;
    redlatch::reentrant_lock lock(client, "cpp:unconfirmed", options);
    for (int i = 0; i < 100; i++) {
        std::unique_lock guard(lock, std::try_to_lock);

        CHECK(guard.owns_lock());
    }
    CHECK(elsewhere([&] { return std::unique_lock(lock, 60s).owns_lock(); }));
}

void ends_of_a_read_write_lock_are_one_object()
{
    auto client = anonymous();
    redlatch::read_write_lock lock(client, "cpp:ends");
    {
        std::shared_lock reading(lock);

        CHECK(elsewhere([&] { return lock.try_lock_shared() && (lock.unlock_shared(), true); }));
        CHECK(elsewhere([&] { return std::shared_lock(lock, 60s).owns_lock(); }));
        CHECK(!is_free(lock) && lock.read().is_held() && !lock.write().is_held());
    }
    std::unique_lock writing(lock);
    CHECK(elsewhere([&] { return !lock.try_lock_shared() && !lock.try_lock_shared_for(0ms); }));
    CHECK(elsewhere([&] { return !lock.try_lock_for(0ms); }));
    writing.unlock();
    CHECK(writing.try_lock_for(60s) && writing.owns_lock());
}

void several_are_locked_together()
{
    auto client = anonymous();
    redlatch::reentrant_lock a(client, "cpp:a"), b(client, "cpp:b");
    {
        std::scoped_lock both(a, b);

        CHECK(a.is_held() && b.is_held());
    }
    redlatch::multi_lock both(a, b);
    {
        std::lock_guard guard(both);

        CHECK(!is_free(a) && !is_free(b));
    }
    CHECK(is_free(a) && is_free(b));
    CHECK(throws(errc::invalid_argument, [&] { redlatch::multi_lock(a, a); }));
    redlatch::lock_options options;
    options.fencing = RDL_FENCING_TIME;
    redlatch::nonreentrant_lock member(client, "cpp:red", options);
    redlatch::lock_options here;
    here.min_uptime_ms = RDL_UPTIME_ANY;
    redlatch::red_lock red({member.native_handle()}, here);
    std::lock_guard guard(red);
    CHECK(red.token() > 0);
}

void condition_is_waited_for()
{
    auto client = anonymous();
    redlatch::reentrant_lock lock(client, "cpp:condition");
    std::condition_variable_any changed;
    bool ready = false; // under lock
    std::thread other([&] {
        std::unique_lock guard(lock);

        changed.wait(guard, [&] { return ready; });
        CHECK(lock.is_held());
    });
    {
        std::lock_guard guard(lock);

        ready = true;
    }
    changed.notify_all();
    other.join();
}

void tokens_grow()
{
    auto client = anonymous();
    redlatch::fenced_lock lock(client, "cpp:fenced");
    std::int64_t first = 0;

    lock.lock();
    first = lock.token();
    lock.unlock();
    CHECK(throws(errc::not_owner, [&] { (void)lock.token(); }));
    std::lock_guard guard(lock);
    CHECK(first > 0 && lock.token() > first);
}

// ---- loss -----------------------------------------------------------------------------------------------------------

void loss_is_told()
{
    auto client = anonymous(), other = anonymous();
    redlatch::reentrant_lock lock(client, "cpp:lost"), its(other, "cpp:lost");
    std::promise<std::string> told;
    std::error_code ec;

    lock.on_lost([&](const rdl_loss_t &loss) {
        if (loss.state == RDL_LOST)
            told.set_value(loss.owner);
    });
    lock.lock();
    CHECK(its.force_unlock() && !its.force_unlock());
    CHECK(told.get_future().get().rfind(client.id(), 0) == 0);
    CHECK(lock.state() == redlatch::hold_state::lost && !lock.is_held());
    lock.release(ec);
    CHECK(ec == errc::lost);

    lock.on_lost(nullptr); // else the promise would be kept twice
    lock.lock();
    CHECK(its.force_unlock() && is_free(its));
    lock.extend(60s, ec);
    CHECK(ec == errc::lost);
    lock.unlock();
}

// The function may go while it is called, and with its lock.
void functions_go_while_losses_come()
{
    auto client = anonymous();
    auto counted = std::make_shared<std::atomic<int>>(0);
    std::error_code ec;

    for (int round = 0; round < 30; ++round) {
        std::optional<redlatch::reentrant_lock> lock(std::in_place, client, "cpp:goes:" + std::to_string(round));

        lock->on_lost([counted](const rdl_loss_t &) { ++*counted; });
        lock->lock(redlatch::milliseconds(5 + round % 3), ec);
        CHECK(!ec || ec == errc::lost); // over before it could return
        while (!ec && round % 2 == 0 && lock->is_held())
            std::this_thread::yield();
        if (round % 3 == 0)
            lock->on_lost([counted](const rdl_loss_t &) { ++*counted; });
        lock.reset();
    }
    client.close();
    CHECK(counted.use_count() == 1 && *counted <= 60);
}

// ---- owners ---------------------------------------------------------------------------------------------------------

void hold_is_handed_on()
{
    auto client = anonymous();
    redlatch::reentrant_lock lock(client, "cpp:owner");
    redlatch::owner owner(client);
    {
        auto bound = owner.bind();

        lock.lock();
    }
    CHECK(!lock.is_held() && !is_free(lock));
    elsewhere([&] {
        auto bound = owner.bind();

        CHECK(lock.is_held());
        lock.release();
        return 0;
    });
    CHECK(is_free(lock) && owner.cancel() == 0);
}

// ---- semaphores and latch -------------------------------------------------------------------------------------------

void permits_are_given_back()
{
    auto client = anonymous();
    redlatch::semaphore pool(client, "cpp:pool");
    std::error_code ec = errc::closed;

    CHECK(!pool.try_acquire() && pool.try_set_permits(3) && !pool.try_set_permits(4) && pool.available() == 3);
    {
        redlatch::semaphore_guard two(pool, 2);

        CHECK(pool.available() == 1 && !pool.try_acquire_for(0ms, 2) && pool.try_acquire());
        CHECK(!pool.try_acquire_for(0ms, 1, ec) && !ec);
        redlatch::semaphore_guard third(pool, 1, std::adopt_lock);
    }
    CHECK(pool.available() == 3 && pool.drain() == 3);
    pool.release(3);
    pool.add_permits(-3);
    CHECK(pool.available() == 0);
    CHECK(throws(errc::invalid_argument, [&] { pool.acquire(0); }));
}

void permits_with_ids_are_given_back()
{
    auto client = anonymous();
    redlatch::permit_semaphore seats(client, "cpp:seats");
    std::vector<rdl_permit_t> kept;

    CHECK(seats.try_set_permits(3) && seats.available() == 3);
    {
        auto two = seats.acquire(2, 60s);

        CHECK(two.ids().size() == 2 && seats.acquired() == 2 && !seats.try_acquire(2));
        two.extend(120s);
        auto third = seats.try_acquire_for(60s);
        CHECK(third && seats.available() == 0);
        third->release();
        CHECK(seats.available() == 1);
        third = seats.try_acquire();
        CHECK(third.has_value());
        kept = third->detach();
    }
    CHECK(seats.available() == 2 && kept.size() == 1);
    seats.release(kept);
    CHECK(throws(errc::lost, [&] { seats.release(kept); }));
    CHECK(throws(errc::invalid_argument, [&] { (void)seats.acquire(0); }));
    CHECK(throws(errc::invalid_argument, [&] { (void)seats.acquire(RDL_PERMIT_IDS_MAX + 1); }));
    seats.set_permits(1);
    CHECK(seats.available() == 1);
}

void latch_opens()
{
    auto client = anonymous();
    redlatch::latch latch(client, "cpp:latch");

    CHECK(latch.try_wait() && latch.try_set_count(2) && !latch.try_set_count(2) && latch.count() == 2);
    CHECK(latch.count_down() == 1 && !latch.wait_for(0ms));
    std::thread other([&] { latch.wait(); });
    CHECK(latch.count_down() == 0 && latch.wait_for(60s));
    other.join();
}

// ---- callbacks on the program's own thread --------------------------------------------------------------------------

void callbacks_run_where_they_are_dispatched()
{
    redlatch::client_options options;
    const auto here = std::this_thread::get_id();
    bool told = false;

    options.anonymous = true;
    options.dispatch = RDL_DISPATCH_FD;
    redlatch::client client(server, options);
    auto other = anonymous();
    redlatch::reentrant_lock lock(client, "cpp:dispatch"), its(other, "cpp:dispatch");
    lock.on_lost([&](const rdl_loss_t &) { told = std::this_thread::get_id() == here; });
    lock.lock();
    CHECK(client.fd() >= 0 && its.force_unlock());
    while (!told && client.dispatch() >= 0)
        std::this_thread::yield();
    CHECK(told);
}

// ---- coroutines -----------------------------------------------------------------------------------------------------

#ifdef REDLATCH_HAS_COROUTINES
task take_turns(redlatch::client &client, int number, std::atomic<int> &inside, std::promise<void> &done)
{
    redlatch::owner self(client);
    redlatch::fair_lock lock(client, "cpp:turns");

    for (int turn = 0; turn < 5; ++turn) {
        if (turn % 2 == number % 2)
            co_await lock.async_lock(self);
        else
            CHECK(co_await lock.async_try_lock_for(self, 60s));
        CHECK(++inside == 1);
        co_await lock.async_extend(self, 60s);
        CHECK(co_await lock.async_is_locked(self) == 1);
        --inside;
        co_await lock.async_release(self);
    }
    done.set_value();
}

void coroutines_take_turns()
{
    auto client = anonymous();
    std::atomic<int> inside = 0;
    std::array<std::promise<void>, 4> done;

    for (int number = 0; number < 4; ++number)
        take_turns(client, number, inside, done[static_cast<std::size_t>(number)]);
    for (auto &one : done)
        one.get_future().get();
}

task meet_errors(redlatch::client &client, std::promise<void> &done)
{
    redlatch::owner self(client), other(client);
    redlatch::nonreentrant_lock lock(client, "cpp:meets");
    redlatch::semaphore pool(client, "cpp:few");
    redlatch::latch latch(client, "cpp:both");
    bool refused = false, invalid = false;

    co_await lock.async_lock(self, 60s);
    CHECK(!co_await lock.async_try_lock_for(other, 0ms));
    try {
        co_await lock.async_lock(self);
    } catch (const redlatch::error &error) {
        refused = error.code() == errc::deadlock;
    }
    try {
        co_await lock.async_lock(self, 0ms); // refused before it begins
    } catch (const redlatch::error &error) {
        invalid = error.code() == errc::invalid_argument;
    }
    CHECK(refused && invalid);
    co_await lock.async_release(self);
    co_await pool.async_release(self, 2);
    co_await pool.async_acquire(self);
    CHECK(!co_await pool.async_try_acquire_for(self, 0ms, 2) && co_await pool.async_try_acquire_for(self, 60s));
    CHECK(co_await latch.async_count_down(self) == 0 && co_await latch.async_wait_for(self, 60s));
    done.set_value();
}

void coroutines_meet_errors()
{
    auto client = anonymous();
    std::promise<void> done;

    meet_errors(client, done);
    done.get_future().get();
}

// As `task`, but its handle is there, and what it throws goes on.
struct loose_task {
    struct promise_type {
        loose_task get_return_object()
        {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_never initial_suspend() noexcept
        {
            return {};
        }
        std::suspend_always final_suspend() noexcept
        {
            return {};
        }
        void return_void()
        {
        }
        void unhandled_exception()
        {
            throw;
        }
    };
    std::coroutine_handle<promise_type> handle;
};

loose_task wait_for(redlatch::latch &latch, redlatch::owner &self)
{
    co_await latch.async_wait_for(self, redlatch::forever);
    throw std::runtime_error("the latch is open");
}

// Does that end the program by std::terminate? It runs in a child: fork wants that no client is open.
template <typename Call> bool terminates(Call call)
{
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        std::set_terminate([] { _exit(42); });
        try {
            redlatch::client_options options;
            options.anonymous = true;
            options.dispatch = RDL_DISPATCH_FD;
            redlatch::client client(server, options);
            redlatch::owner self(client);
            redlatch::latch latch(client, "cpp:nobody");
            call(client, latch, self);
        } catch (...) {
            _exit(1);
        }
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

void coroutines_end_as_they_may()
{
    CHECK(terminates([](auto &, auto &latch, auto &self) {
        latch.try_set_count(1);
        wait_for(latch, self).handle.destroy();
    }));
    CHECK(terminates([](auto &client, auto &latch, auto &self) {
        latch.try_set_count(1);
        auto waits = wait_for(latch, self);
        latch.count_down();
        while (!waits.handle.done())
            client.dispatch();
    }));
    CHECK(!terminates([](auto &client, auto &latch, auto &self) {
        latch.try_set_count(1);
        auto waits = [](auto &its, auto &who, bool &canceled) -> loose_task {
            try {
                co_await its.async_wait_for(who, redlatch::forever);
            } catch (const redlatch::error &error) {
                canceled = error.code() == errc::canceled;
            }
        };
        bool canceled = false;
        auto task = waits(latch, self, canceled);
        self.cancel();
        while (!task.handle.done())
            client.dispatch();
        task.handle.destroy();
        if (!canceled)
            std::terminate();
    }));
}
#endif

} // namespace

int main(int argc, char **argv)
{
    return count_what_holds(argc, argv, [] {
        errors_have_codes_and_words();
        locks_of_every_type_exclude();
        codes_say_what_exceptions_do();
        durations_are_rounded_up();
        names_are_any_bytes();
        lease_of_the_options_is_the_verbs();
        ends_of_a_read_write_lock_are_one_object();
        ends_of_scopes_need_not_wait_for_the_server();
        several_are_locked_together();
        condition_is_waited_for();
        tokens_grow();
        loss_is_told();
        functions_go_while_losses_come();
        hold_is_handed_on();
        permits_are_given_back();
        permits_with_ids_are_given_back();
        latch_opens();
        callbacks_run_where_they_are_dispatched();
#ifdef REDLATCH_HAS_COROUTINES
        coroutines_take_turns();
        coroutines_meet_errors();
        coroutines_end_as_they_may();
#endif
    });
}
