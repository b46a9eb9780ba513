// SPDX-License-Identifier: MIT
// awaitable.hpp - asynchronous verbs as C++20 awaitables, where the compiler has them.
#ifndef REDLATCH_AWAITABLE_HPP
#define REDLATCH_AWAITABLE_HPP

#include <atomic>
#include <cstdint>
#include <exception>
#include <redlatch/async.h>
#include <redlatch/client.hpp>
#include <utility>

#if defined(__cpp_impl_coroutine) && defined(__has_include)
#if __has_include(<coroutine>)
#include <coroutine>
#define REDLATCH_HAS_COROUTINES 1
#endif
#endif

#ifdef REDLATCH_HAS_COROUTINES
namespace redlatch
{

namespace detail
{

// An asynchronous verb that a coroutine waits for. `Start` begins it, with the callback, its argument and room for an
// error; `Finish` makes of its result what co_await returns. The coroutine goes on where the client's callbacks run.
// One that is destroyed meanwhile ends the program, as a std::thread does that nobody joined: the callback would write
// to what is gone, and the verb may have taken a lock that nobody gives back.
template <typename Handle, typename Start, typename Finish> class operation
{
  public:
    operation(Start start, Finish finish) : start_(std::move(start)), finish_(std::move(finish))
    {
    }

    operation(const operation &) = delete;
    operation &operator=(const operation &) = delete;

    ~operation()
    {
        if (under_way_.load(std::memory_order_acquire))
            std::terminate();
    }

    bool await_ready() const noexcept
    {
        return false;
    }

    // Once the verb has begun the coroutine may be going on already, on another thread, and this object be gone.
    bool await_suspend(std::coroutine_handle<> waiter)
    {
        rdl_err_t err;

        waiter_ = waiter;
        under_way_.store(true, std::memory_order_relaxed);
        if (const int begun = start_(done, this, &err); begun < 0) {
            under_way_.store(false, std::memory_order_relaxed);
            result_ = begun;
            err_ = err;
            return false;
        }
        return true;
    }

    decltype(auto) await_resume()
    {
        return finish_(result_, err_);
    }

  private:
    // What leaves the coroutine here would unwind the library: it ends the program.
    static void done(Handle *, std::int64_t result, const rdl_err_t *err, void *self) noexcept
    {
        auto *ended = static_cast<operation *>(self);

        ended->result_ = result;
        if (err != nullptr)
            ended->err_ = *err;
        ended->under_way_.store(false, std::memory_order_release);
        ended->waiter_.resume();
    }

    Start start_;
    Finish finish_;
    std::coroutine_handle<> waiter_;
    std::int64_t result_ = 0;
    rdl_err_t err_ = {};
    std::atomic<bool> under_way_ = false;
};

template <typename Handle, typename Start, typename Finish> auto awaited(Start start, Finish finish)
{
    return operation<Handle, Start, Finish>(std::move(start), std::move(finish));
}

// `verb` of `handle`, one of the C functions that end in _async, for `who`.
template <typename Verb, typename Finish, typename Handle, typename... Arguments>
auto verb_of(Handle *handle, const owner &who, Finish finish, Verb verb, Arguments... arguments)
{
    return awaited<Handle>(
        [=, who = who.native_handle()](auto fn, void *arg, rdl_err_t *err) {
            return verb(handle, who, arguments..., fn, arg, nullptr, err);
        },
        std::move(finish));
}

// What co_await returns: nothing, a number, whether it was taken, or whether it was done. Errors are thrown.
inline void as_nothing(std::int64_t result, const rdl_err_t &err)
{
    checked(result, err);
}

inline std::int64_t as_number(std::int64_t result, const rdl_err_t &err)
{
    return checked(result, err);
}

inline bool as_taken(std::int64_t result, const rdl_err_t &err)
{
    return taken(static_cast<int>(result), err);
}

inline bool as_done(std::int64_t result, const rdl_err_t &err)
{
    return checked(result, err) == 1;
}

inline milliseconds as_time(std::int64_t result, const rdl_err_t &err)
{
    return milliseconds(checked(result, err));
}

} // namespace detail

} // namespace redlatch
#endif

#endif
