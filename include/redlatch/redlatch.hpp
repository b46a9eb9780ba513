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

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <redlatch/redlatch.h>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#if defined(__cpp_impl_coroutine) && defined(__has_include)
#if __has_include(<coroutine>)
#include <coroutine>
#define REDLATCH_HAS_COROUTINES 1
#endif
#endif

namespace redlatch
{

using milliseconds = std::chrono::duration<std::int64_t, std::milli>;

// Lease of a lock: renewed until it is unlocked. Lease of a permit: it does not return by itself. Wait: no limit.
inline constexpr milliseconds automatic_lease{RDL_LEASE_AUTO};
inline constexpr milliseconds endless_lease{RDL_LEASE_NEVER};
inline constexpr milliseconds forever{RDL_WAIT_FOREVER};

// ---- errors ---------------------------------------------------------------------------------------------------------

enum class errc {
    timed_out = RDL_ETIMEDOUT,
    not_owner = RDL_ENOTOWNER,
    lost = RDL_ELOST,
    unknown = RDL_EUNKNOWN,
    deadlock = RDL_EDEADLK,
    canceled = RDL_ECANCELED,
    no_quorum = RDL_ENOQUORUM,
    no_replicas = RDL_ENOREPLICAS,
    no_connection = RDL_ECONN,
    refused = RDL_ESERVER,
    invalid_argument = RDL_EINVAL,
    no_memory = RDL_ENOMEM,
    forked = RDL_EFORK,
    closed = RDL_ECLOSED,
    login = RDL_EAUTH,
    host = RDL_EHOST,
};

} // namespace redlatch

template <> struct std::is_error_code_enum<redlatch::errc> : std::true_type {
};

namespace redlatch
{

namespace detail
{

class error_category final : public std::error_category
{
  public:
    const char *name() const noexcept override
    {
        return "redlatch";
    }

    std::string message(int code) const override
    {
        return rdl_strerror(code);
    }

    std::error_condition default_error_condition(int code) const noexcept override
    {
        switch (code) {
        case RDL_ETIMEDOUT:
            return std::errc::timed_out;
        case RDL_ENOTOWNER:
            return std::errc::operation_not_permitted;
        case RDL_EDEADLK:
            return std::errc::resource_deadlock_would_occur;
        case RDL_ECANCELED:
            return std::errc::operation_canceled;
        case RDL_ECONN:
            return std::errc::not_connected;
        case RDL_EINVAL:
            return std::errc::invalid_argument;
        case RDL_ENOMEM:
            return std::errc::not_enough_memory;
        case RDL_EAUTH:
            return std::errc::permission_denied;
        default:
            return {code, *this};
        }
    }
};

} // namespace detail

inline const std::error_category &category() noexcept
{
    static const detail::error_category only;

    return only;
}

inline std::error_code make_error_code(errc code) noexcept
{
    return {static_cast<int>(code), category()};
}

// What a throwing function throws. what() is the library's message; details() has, as far as they are known, the server
// and the lock.
class error : public std::system_error
{
  public:
    explicit error(const rdl_err_t &err) : std::system_error(err.code, category()), err_(err)
    {
    }

    const char *what() const noexcept override
    {
        return err_.message;
    }

    const rdl_err_t &details() const noexcept
    {
        return err_;
    }

  private:
    rdl_err_t err_;
};

namespace detail
{

// The result of a C function: it throws, or sets `ec`.
template <typename Result> Result checked(Result result, const rdl_err_t &err)
{
    if (result < 0)
        throw error(err);
    return result;
}

template <typename Result> Result checked(Result result, std::error_code &ec) noexcept
{
    if (result < 0)
        ec.assign(static_cast<int>(result), category());
    else
        ec.clear();
    return result;
}

// The same for a call that may be refused because somebody else has it: true, false, or an error.
template <typename... Where> bool taken(int result, Where &&...where)
{
    if (result == RDL_ETIMEDOUT) {
        checked(0, where...);
        return false;
    }
    return checked(result, where...) == RDL_OK;
}

// Call a C function, whose last parameter is room for an error, and throw that.
template <typename Function, typename... Arguments> auto call(Function fn, Arguments... arguments)
{
    rdl_err_t err;

    return checked(fn(arguments..., &err), err);
}

template <typename Function, typename... Arguments> bool try_call(Function fn, Arguments... arguments)
{
    rdl_err_t err;

    return taken(fn(arguments..., &err), err);
}

// Both with a code in place of what is thrown.
template <typename Function, typename... Arguments>
auto call(std::error_code &ec, Function fn, Arguments... arguments) noexcept
{
    return checked(fn(arguments..., nullptr), ec);
}

template <typename Function, typename... Arguments>
bool try_call(std::error_code &ec, Function fn, Arguments... arguments) noexcept
{
    return taken(fn(arguments..., nullptr), ec);
}

// A duration in whole milliseconds, rounded up; what does not fit is `forever`, what is over is 0.
template <typename Rep, typename Period> std::int64_t ms(const std::chrono::duration<Rep, Period> &time) noexcept
{
    const auto about = std::chrono::duration<double, std::milli>(time).count();

    if (about >= 9e18)
        return RDL_WAIT_FOREVER;
    return about <= 0 ? 0 : std::chrono::ceil<milliseconds>(time).count();
}

// A C handle that is freed with its object.
template <typename Handle, Handle *(*Free)(Handle *)> struct freed {
    void operator()(Handle *handle) const noexcept
    {
        Free(handle);
    }
};

template <typename Handle, Handle *(*Free)(Handle *)> using unique = std::unique_ptr<Handle, freed<Handle, Free>>;

// Where a C function finds a name: not at NULL, and with its length, because a view has no NUL at its end.
template <typename Options> const char *named(std::string_view name, Options &options) noexcept
{
    options.name_len = name.size();
    return name.empty() ? "" : name.data();
}

// The functions that were given to on_lost, by number. A callback that is under way on another thread while its lock is
// freed finds the function here, or finds that it is gone.
template <typename Function> class registry
{
  public:
    std::uintptr_t add(Function fn)
    {
        auto held = std::make_shared<Function>(std::move(fn));
        std::lock_guard<std::mutex> guard(mu_);

        functions_.emplace(++last_, std::move(held));
        return last_;
    }

    void remove(std::uintptr_t number) noexcept
    {
        std::shared_ptr<Function> gone; // is destroyed outside of the mutex
        std::lock_guard<std::mutex> guard(mu_);

        if (const auto found = functions_.find(number); found != functions_.end()) {
            gone = std::move(found->second);
            functions_.erase(found);
        }
    }

    std::shared_ptr<Function> find(std::uintptr_t number)
    {
        std::lock_guard<std::mutex> guard(mu_);
        const auto found = functions_.find(number);

        return found == functions_.end() ? nullptr : found->second;
    }

    // The program's. Never destroyed: callbacks may come as long as it runs.
    static registry &only()
    {
        static auto *const only = new registry;

        return *only;
    }

  private:
    std::mutex mu_;
    std::unordered_map<std::uintptr_t, std::shared_ptr<Function>> functions_;
    std::uintptr_t last_ = 0;
};

} // namespace detail

// ---- client and owner -----------------------------------------------------------------------------------------------

// rdl_client_options_t with its defaults.
struct client_options : rdl_client_options_t {
    client_options() : rdl_client_options_t(RDL_CLIENT_OPTIONS_INIT)
    {
    }
};

class client
{
  public:
    explicit client(const std::string &uri, const client_options &options = client_options())
    {
        rdl_client_t *opened = nullptr;
        detail::call(rdl_client_open, uri.c_str(), &options, &opened);
        client_.reset(opened);
    }

    client(const std::string &uri, const client_options &options, std::error_code &ec) noexcept
    {
        rdl_client_t *opened = nullptr;

        detail::checked(rdl_client_open(uri.c_str(), &options, &opened, nullptr), ec);
        client_.reset(opened);
    }

    // As the destructor: calls under way end with errc::closed, holds stay until their leases end.
    void close() noexcept
    {
        client_.reset();
    }

    // Its identity on the wire. Valid while the client is open; empty, if it is not.
    std::string_view id() const noexcept
    {
        return client_ == nullptr ? std::string_view() : std::string_view(rdl_client_id(client_.get()));
    }

    // With RDL_DISPATCH_FD: what to poll, and what runs the callbacks that are due; it returns how many those were.
    int fd() const noexcept
    {
        return rdl_client_fd(client_.get());
    }

    int dispatch() noexcept
    {
        return rdl_client_dispatch(client_.get());
    }

    explicit operator bool() const noexcept
    {
        return client_ != nullptr;
    }

    rdl_client_t *native_handle() const noexcept
    {
        return client_.get();
    }

  private:
    detail::unique<rdl_client_t, rdl_client_close> client_;
};

// Who holds a lock, if not a thread: for coroutines, thread pools, a hold that is handed on (owner.h).
class owner
{
  public:
    // A thread acts as the owner as long as this lives, and as itself afterwards. Belongs to one thread.
    class binding
    {
      public:
        binding(const binding &) = delete;
        binding &operator=(const binding &) = delete;
        ~binding()
        {
            rdl_owner_unbind(client_);
        }

      private:
        friend class owner;
        explicit binding(rdl_client_t *client) noexcept : client_(client)
        {
        }

        rdl_client_t *client_;
    };

    explicit owner(const client &client) : client_(client.native_handle())
    {
        rdl_owner_t *made = nullptr;
        detail::call(rdl_owner_new, client_, &made);
        owner_.reset(made);
    }

    // The calling thread acts as this owner until the end of the scope. The client must be open until then.
    [[nodiscard]] binding bind()
    {
        detail::call(rdl_owner_bind, owner_.get());
        return binding(client_);
    }

    // End its acquires that are under way: errc::canceled. Returns how many there were.
    int cancel() noexcept
    {
        return rdl_owner_cancel(owner_.get());
    }

    rdl_owner_t *native_handle() const noexcept
    {
        return owner_.get();
    }

  private:
    rdl_client_t *client_;
    detail::unique<rdl_owner_t, rdl_owner_free> owner_;
};

// ---- coroutines -----------------------------------------------------------------------------------------------------

#ifdef REDLATCH_HAS_COROUTINES
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
#endif

// ---- locks ----------------------------------------------------------------------------------------------------------

enum class hold_state {
    not_held = RDL_NOT_HELD,
    held = RDL_HELD,
    at_risk = RDL_AT_RISK,
    lost = RDL_LOST,
    degraded = RDL_DEGRADED,
};

// rdl_lock_options_t with its defaults, and the lease of the verbs that are given none. `release =
// RDL_RELEASE_UNCONFIRMED`: unlock(), and the end of a guard, do not wait for the server.
struct lock_options : rdl_lock_options_t {
    lock_options() : rdl_lock_options_t(RDL_LOCK_OPTIONS_INIT)
    {
    }

    milliseconds lease = automatic_lease;
};

// What every lock has. Made by the classes below.
class basic_lock
{
  public:
    using native_handle_type = rdl_lock_t *;
    // Is told of a hold that is at risk or lost, where the client's callbacks run. What it throws ends the program.
    using lost_function = std::function<void(const rdl_loss_t &)>;

    basic_lock(basic_lock &&) noexcept = default;
    basic_lock &operator=(basic_lock &&) noexcept = default;

    // Wait for it without a limit, or for as long as is said. The lease is the lock's own, if none is given. The ones
    // that return a bool return false when somebody else has it, and throw, or set `ec`, for everything else.
    void lock()
    {
        lock(lease_);
    }

    void lock(milliseconds lease)
    {
        detail::call(rdl_lock, lock_.get(), lease.count());
    }

    void lock(std::error_code &ec) noexcept
    {
        lock(lease_, ec);
    }

    void lock(milliseconds lease, std::error_code &ec) noexcept
    {
        detail::checked(rdl_lock(lock_.get(), lease.count(), nullptr), ec);
    }

    bool try_lock()
    {
        return try_lock_for(milliseconds(0));
    }

    bool try_lock(std::error_code &ec) noexcept
    {
        return try_lock_for(milliseconds(0), ec);
    }

    template <typename Rep, typename Period> bool try_lock_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return try_lock_for(wait, lease_);
    }

    template <typename Rep, typename Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait, milliseconds lease)
    {
        return detail::try_call(rdl_try_lock, lock_.get(), detail::ms(wait), lease.count());
    }

    template <typename Rep, typename Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait, std::error_code &ec) noexcept
    {
        return try_lock_for(wait, lease_, ec);
    }

    template <typename Rep, typename Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait, milliseconds lease, std::error_code &ec) noexcept
    {
        return detail::taken(rdl_try_lock(lock_.get(), detail::ms(wait), lease.count(), nullptr), ec);
    }

    template <typename Clock, typename Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end)
    {
        return try_lock_for(end - Clock::now());
    }

    template <typename Clock, typename Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end, std::error_code &ec) noexcept
    {
        return try_lock_for(end - Clock::now(), ec);
    }

    void unlock() noexcept
    {
        rdl_unlock(lock_.get(), nullptr);
    }

    // unlock, and what became of it.
    void release()
    {
        detail::call(rdl_unlock, lock_.get());
    }

    void release(std::error_code &ec) noexcept
    {
        detail::checked(rdl_unlock(lock_.get(), nullptr), ec);
    }

    void extend(milliseconds lease)
    {
        detail::call(rdl_extend, lock_.get(), lease.count());
    }

    void extend(milliseconds lease, std::error_code &ec) noexcept
    {
        detail::checked(rdl_extend(lock_.get(), lease.count(), nullptr), ec);
    }

    // The caller's hold, by local judgement. is_held is false, and remaining is 0, for a lost one.
    hold_state state() const
    {
        return static_cast<hold_state>(detail::call(rdl_hold_state, lock_.get()));
    }

    hold_state state(std::error_code &ec) const noexcept
    {
        const int now = detail::call(ec, rdl_hold_state, lock_.get());

        return now < 0 ? hold_state::not_held : static_cast<hold_state>(now);
    }

    // Of an owner that the calling thread is not bound to, as in a coroutine.
    hold_state state(const owner &who) const
    {
        return static_cast<hold_state>(detail::call(rdl_owner_hold_state, who.native_handle(), lock_.get()));
    }

    hold_state state(const owner &who, std::error_code &ec) const noexcept
    {
        const int now = detail::call(ec, rdl_owner_hold_state, who.native_handle(), lock_.get());

        return now < 0 ? hold_state::not_held : static_cast<hold_state>(now);
    }

    bool is_held() const
    {
        const auto now = state();

        return now == hold_state::held || now == hold_state::at_risk;
    }

    std::int64_t hold_count() const
    {
        return detail::call(rdl_hold_count, lock_.get());
    }

    std::int64_t hold_count(std::error_code &ec) const noexcept
    {
        return detail::call(ec, rdl_hold_count, lock_.get());
    }

    std::int64_t token() const
    {
        return detail::call(rdl_token, lock_.get());
    }

    std::int64_t token(std::error_code &ec) const noexcept
    {
        return detail::call(ec, rdl_token, lock_.get());
    }

    std::int64_t token(const owner &who) const
    {
        return detail::call(rdl_owner_token, who.native_handle(), lock_.get());
    }

    std::int64_t token(const owner &who, std::error_code &ec) const noexcept
    {
        return detail::call(ec, rdl_owner_token, who.native_handle(), lock_.get());
    }

    // How long the caller's hold is valid; of a lock that it does not hold, the server's word.
    milliseconds remaining() const
    {
        return milliseconds(detail::call(rdl_remaining_ms, lock_.get()));
    }

    milliseconds remaining(std::error_code &ec) const noexcept
    {
        return milliseconds(detail::call(ec, rdl_remaining_ms, lock_.get()));
    }

    // Does anybody hold it? The server is asked.
    bool is_locked() const
    {
        return detail::call(rdl_is_locked, lock_.get()) == 1;
    }

    bool is_locked(std::error_code &ec) const noexcept
    {
        return detail::call(ec, rdl_is_locked, lock_.get()) == 1;
    }

    // Free it whoever holds it, or end the hold of one owner. Whether there was one.
    bool force_unlock()
    {
        return detail::call(rdl_force_unlock, lock_.get()) == 1;
    }

    bool force_unlock(std::error_code &ec) noexcept
    {
        return detail::call(ec, rdl_force_unlock, lock_.get()) == 1;
    }

    bool evict(const std::string &owner)
    {
        return detail::call(rdl_evict, lock_.get(), owner.c_str()) == 1;
    }

    bool evict(const std::string &owner, std::error_code &ec) noexcept
    {
        return detail::call(ec, rdl_evict, lock_.get(), owner.c_str()) == 1;
    }

    // An empty function removes the former one, which may still be running on another thread.
    void on_lost(lost_function fn)
    {
        const bool wanted = fn != nullptr;
        listener next(wanted ? detail::registry<lost_function>::only().add(std::move(fn)) : 0);
        detail::call(rdl_on_lost, lock_.get(), wanted ? tell : nullptr, reinterpret_cast<void *>(next.number));
        std::swap(listener_.number, next.number);
    }

    std::string_view name() const noexcept
    {
        std::size_t length = 0;
        const char *name = rdl_lock_name(lock_.get(), &length);

        return name == nullptr ? std::string_view() : std::string_view(name, length);
    }

    const char *type() const noexcept
    {
        return rdl_lock_type(lock_.get());
    }

    milliseconds lease() const noexcept
    {
        return lease_;
    }

    native_handle_type native_handle() const noexcept
    {
        return lock_.get();
    }

#ifdef REDLATCH_HAS_COROUTINES
    // The same, for co_await. `who` owns the hold. It, the lock and the coroutine must be there until the verb has
    // ended: owner.cancel() ends an acquire, close() of the client ends every verb. A coroutine that is destroyed while
    // it waits ends the program, and so does an exception that leaves it after it has waited.
    auto async_lock(const owner &who, milliseconds lease)
    {
        return detail::verb_of(lock_.get(), who, detail::as_nothing, rdl_lock_async, lease.count());
    }

    auto async_lock(const owner &who)
    {
        return async_lock(who, lease_);
    }

    template <typename Rep, typename Period>
    auto async_try_lock_for(const owner &who, const std::chrono::duration<Rep, Period> &wait, milliseconds lease)
    {
        return detail::verb_of(lock_.get(), who, detail::as_taken, rdl_try_lock_async, detail::ms(wait), lease.count());
    }

    template <typename Rep, typename Period>
    auto async_try_lock_for(const owner &who, const std::chrono::duration<Rep, Period> &wait)
    {
        return async_try_lock_for(who, wait, lease_);
    }

    auto async_try_lock(const owner &who)
    {
        return async_try_lock_for(who, milliseconds(0), lease_);
    }

    auto async_release(const owner &who)
    {
        return detail::verb_of(lock_.get(), who, detail::as_nothing, rdl_unlock_async);
    }

    auto async_extend(const owner &who, milliseconds lease)
    {
        return detail::verb_of(lock_.get(), who, detail::as_nothing, rdl_extend_async, lease.count());
    }

    auto async_force_unlock(const owner &who)
    {
        return detail::verb_of(lock_.get(), who, detail::as_done, rdl_force_unlock_async);
    }

    auto async_remaining(const owner &who)
    {
        return detail::verb_of(lock_.get(), who, detail::as_time, rdl_remaining_ms_async);
    }

    auto async_is_locked(const owner &who)
    {
        return detail::verb_of(lock_.get(), who, detail::as_number, rdl_is_locked_async);
    }
#endif

  protected:
    // `make` is one of the constructors of lock.h.
    template <typename Make>
    basic_lock(Make make, const client &client, std::string_view name, lock_options options) : lease_(options.lease)
    {
        const char *bytes = detail::named(name, options);
        rdl_lock_t *made = nullptr;
        detail::call(make, client.native_handle(), bytes, &options, &made);
        lock_.reset(made);
    }

    template <typename Make>
    basic_lock(Make make, const client &client, std::string_view name, lock_options options,
               std::error_code &ec) noexcept
        : lease_(options.lease)
    {
        const char *bytes = detail::named(name, options);
        rdl_lock_t *made = nullptr;
        detail::call(ec, make, client.native_handle(), bytes, &options, &made);
        lock_.reset(made);
    }

    // Of several: rdl_multi_lock or rdl_red_lock.
    template <typename Make>
    basic_lock(Make make, const std::vector<rdl_lock_t *> &members, const lock_options &options) : lease_(options.lease)
    {
        rdl_lock_t *made = nullptr;
        detail::call(make, members.data(), members.size(), &options, &made);
        lock_.reset(made);
    }

    template <typename Make>
    basic_lock(Make make, const std::vector<rdl_lock_t *> &members, const lock_options &options,
               std::error_code &ec) noexcept
        : lease_(options.lease)
    {
        rdl_lock_t *made = nullptr;
        detail::call(ec, make, members.data(), members.size(), &options, &made);
        lock_.reset(made);
    }

    ~basic_lock() = default;

  private:
    static void tell(rdl_lock_t *, const rdl_loss_t *loss, void *number) noexcept
    {
        if (const auto fn = detail::registry<lost_function>::only().find(reinterpret_cast<std::uintptr_t>(number)))
            (*fn)(*loss);
    }

    // A function of the registry's that goes when the lock has gone.
    struct listener {
        explicit listener(std::uintptr_t its_number = 0) noexcept : number(its_number)
        {
        }

        listener(listener &&other) noexcept : number(std::exchange(other.number, 0))
        {
        }

        listener &operator=(listener &&other) noexcept
        {
            std::swap(number, other.number);
            return *this;
        }

        ~listener()
        {
            if (number != 0)
                detail::registry<lost_function>::only().remove(number);
        }

        std::uintptr_t number;
    };

    milliseconds lease_ = automatic_lease;
    listener listener_;
    detail::unique<rdl_lock_t, rdl_lock_free> lock_; // is freed first
};

// reentrant_lock, nonreentrant_lock, simple_lock, spin_lock, fenced_lock, fair_lock; read_lock and write_lock are the
// two ends of a read-write lock. From a client and a name, which may have any bytes.
#define REDLATCH_LOCK_CLASS_(type, make, fencing, reentrant)                                                           \
    class type##_lock : public basic_lock                                                                              \
    {                                                                                                                  \
      public:                                                                                                          \
        type##_lock(const client &client, std::string_view name, const lock_options &options = lock_options())         \
            : basic_lock(make, client, name, options)                                                                  \
        {                                                                                                              \
        }                                                                                                              \
        type##_lock(const client &client, std::string_view name, const lock_options &options,                          \
                    std::error_code &ec) noexcept                                                                      \
            : basic_lock(make, client, name, options, ec)                                                              \
        {                                                                                                              \
        }                                                                                                              \
    };
RDL_LOCK_TYPES(REDLATCH_LOCK_CLASS_)
RDL_LOCK_ENDS(REDLATCH_LOCK_CLASS_)
#undef REDLATCH_LOCK_CLASS_

// Both ends: lock and unlock are the writer's, lock_shared and unlock_shared a reader's.
class read_write_lock
{
  public:
    read_write_lock(const client &client, std::string_view name, const lock_options &options = lock_options())
        : write_(client, name, options), read_(client, name, options)
    {
    }

    void lock()
    {
        write_.lock();
    }

    bool try_lock()
    {
        return write_.try_lock();
    }

    template <typename Rep, typename Period> bool try_lock_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return write_.try_lock_for(wait);
    }

    template <typename Clock, typename Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end)
    {
        return write_.try_lock_until(end);
    }

    void unlock() noexcept
    {
        write_.unlock();
    }

    void lock_shared()
    {
        read_.lock();
    }

    bool try_lock_shared()
    {
        return read_.try_lock();
    }

    template <typename Rep, typename Period> bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return read_.try_lock_for(wait);
    }

    template <typename Clock, typename Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &end)
    {
        return read_.try_lock_until(end);
    }

    void unlock_shared() noexcept
    {
        read_.unlock();
    }

    // Everything else is the ends': error codes, awaitables, state.
    write_lock &write() noexcept
    {
        return write_;
    }

    read_lock &read() noexcept
    {
        return read_;
    }

  private:
    write_lock write_;
    read_lock read_;
};

// All of the members or none; the members need not stay.
class multi_lock : public basic_lock
{
  public:
    template <typename... Members>
    explicit multi_lock(const basic_lock &first, const Members &...others)
        : multi_lock(std::vector<rdl_lock_t *>{first.native_handle(), others.native_handle()...})
    {
    }

    explicit multi_lock(const std::vector<rdl_lock_t *> &members, const lock_options &options = lock_options())
        : basic_lock(rdl_multi_lock, members, options)
    {
    }

    multi_lock(const std::vector<rdl_lock_t *> &members, const lock_options &options, std::error_code &ec) noexcept
        : basic_lock(rdl_multi_lock, members, options, ec)
    {
    }
};

// A majority of the members, each at a server of its own.
class red_lock : public basic_lock
{
  public:
    template <typename... Members>
    explicit red_lock(const basic_lock &first, const Members &...others)
        : red_lock(std::vector<rdl_lock_t *>{first.native_handle(), others.native_handle()...})
    {
    }

    explicit red_lock(const std::vector<rdl_lock_t *> &members, const lock_options &options = lock_options())
        : basic_lock(rdl_red_lock, members, options)
    {
    }

    red_lock(const std::vector<rdl_lock_t *> &members, const lock_options &options, std::error_code &ec) noexcept
        : basic_lock(rdl_red_lock, members, options, ec)
    {
    }
};

// ---- semaphores -----------------------------------------------------------------------------------------------------

struct semaphore_options : rdl_semaphore_options_t {
    semaphore_options() : rdl_semaphore_options_t(RDL_SEMAPHORE_OPTIONS_INIT)
    {
    }
};

// Permits that are a number: std::counting_semaphore's names.
class semaphore
{
  public:
    semaphore(const client &client, std::string_view name, semaphore_options options = semaphore_options())
    {
        const char *bytes = detail::named(name, options);
        rdl_semaphore_t *made = nullptr;
        detail::call(rdl_semaphore, client.native_handle(), bytes, &options, &made);
        semaphore_.reset(made);
    }

    semaphore(const client &client, std::string_view name, semaphore_options options, std::error_code &ec) noexcept
    {
        const char *bytes = detail::named(name, options);
        rdl_semaphore_t *made = nullptr;
        detail::call(ec, rdl_semaphore, client.native_handle(), bytes, &options, &made);
        semaphore_.reset(made);
    }

    void acquire(std::int64_t permits = 1)
    {
        detail::call(rdl_semaphore_acquire, semaphore_.get(), permits);
    }

    void acquire(std::int64_t permits, std::error_code &ec) noexcept
    {
        detail::call(ec, rdl_semaphore_acquire, semaphore_.get(), permits);
    }

    bool try_acquire(std::int64_t permits = 1)
    {
        return try_acquire_for(milliseconds(0), permits);
    }

    bool try_acquire(std::int64_t permits, std::error_code &ec) noexcept
    {
        return try_acquire_for(milliseconds(0), permits, ec);
    }

    template <typename Rep, typename Period>
    bool try_acquire_for(const std::chrono::duration<Rep, Period> &wait, std::int64_t permits = 1)
    {
        return detail::try_call(rdl_semaphore_try_acquire, semaphore_.get(), permits, detail::ms(wait));
    }

    template <typename Rep, typename Period>
    bool try_acquire_for(const std::chrono::duration<Rep, Period> &wait, std::int64_t permits,
                         std::error_code &ec) noexcept
    {
        return detail::try_call(ec, rdl_semaphore_try_acquire, semaphore_.get(), permits, detail::ms(wait));
    }

    template <typename Clock, typename Duration>
    bool try_acquire_until(const std::chrono::time_point<Clock, Duration> &end, std::int64_t permits = 1)
    {
        return try_acquire_for(end - Clock::now(), permits);
    }

    template <typename Clock, typename Duration>
    bool try_acquire_until(const std::chrono::time_point<Clock, Duration> &end, std::int64_t permits,
                           std::error_code &ec) noexcept
    {
        return try_acquire_for(end - Clock::now(), permits, ec);
    }

    void release(std::int64_t permits = 1)
    {
        detail::call(rdl_semaphore_release, semaphore_.get(), permits);
    }

    void release(std::int64_t permits, std::error_code &ec) noexcept
    {
        detail::call(ec, rdl_semaphore_release, semaphore_.get(), permits);
    }

    std::int64_t available() const
    {
        return detail::call(rdl_semaphore_available, semaphore_.get());
    }

    std::int64_t available(std::error_code &ec) const noexcept
    {
        return detail::call(ec, rdl_semaphore_available, semaphore_.get());
    }

    std::int64_t drain()
    {
        return detail::call(rdl_semaphore_drain, semaphore_.get());
    }

    std::int64_t drain(std::error_code &ec) noexcept
    {
        return detail::call(ec, rdl_semaphore_drain, semaphore_.get());
    }

    // False: they were set before.
    bool try_set_permits(std::int64_t permits)
    {
        return detail::call(rdl_semaphore_try_set_permits, semaphore_.get(), permits) == 1;
    }

    bool try_set_permits(std::int64_t permits, std::error_code &ec) noexcept
    {
        return detail::call(ec, rdl_semaphore_try_set_permits, semaphore_.get(), permits) == 1;
    }

    void add_permits(std::int64_t permits)
    {
        detail::call(rdl_semaphore_add_permits, semaphore_.get(), permits);
    }

    void add_permits(std::int64_t permits, std::error_code &ec) noexcept
    {
        detail::call(ec, rdl_semaphore_add_permits, semaphore_.get(), permits);
    }

    rdl_semaphore_t *native_handle() const noexcept
    {
        return semaphore_.get();
    }

#ifdef REDLATCH_HAS_COROUTINES
    auto async_available(const owner &who)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_number, rdl_semaphore_available_async);
    }

    auto async_drain(const owner &who)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_number, rdl_semaphore_drain_async);
    }

    auto async_try_set_permits(const owner &who, std::int64_t permits)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_done, rdl_semaphore_try_set_permits_async, permits);
    }

    auto async_add_permits(const owner &who, std::int64_t permits)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_nothing, rdl_semaphore_add_permits_async, permits);
    }

    auto async_acquire(const owner &who, std::int64_t permits = 1)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_nothing, rdl_semaphore_acquire_async, permits);
    }

    template <typename Rep, typename Period>
    auto async_try_acquire_for(const owner &who, const std::chrono::duration<Rep, Period> &wait,
                               std::int64_t permits = 1)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_taken, rdl_semaphore_try_acquire_async, permits,
                               detail::ms(wait));
    }

    auto async_try_acquire(const owner &who, std::int64_t permits = 1)
    {
        return async_try_acquire_for(who, milliseconds(0), permits);
    }

    auto async_release(const owner &who, std::int64_t permits = 1)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_nothing, rdl_semaphore_release_async, permits);
    }
#endif

  private:
    detail::unique<rdl_semaphore_t, rdl_semaphore_free> semaphore_;
};

// Permits with ids and leases.
class permit_semaphore
{
  public:
    // Permits that are given back with their object, unless it has let go of them. Errors are not seen then: release
    // throws them. Must not outlive the semaphore.
    class permits
    {
      public:
        permits(permits &&other) noexcept
            : semaphore_(std::exchange(other.semaphore_, nullptr)), ids_(std::move(other.ids_))
        {
        }

        permits &operator=(permits &&other) noexcept
        {
            std::swap(semaphore_, other.semaphore_);
            std::swap(ids_, other.ids_);
            return *this;
        }

        ~permits()
        {
            if (semaphore_ != nullptr)
                rdl_permit_semaphore_release(semaphore_, count(), ids_.data(), nullptr);
        }

        const std::vector<rdl_permit_t> &ids() const noexcept
        {
            return ids_;
        }

        void release()
        {
            detail::call(rdl_permit_semaphore_release, std::exchange(semaphore_, nullptr), count(), ids_.data());
        }

        void release(std::error_code &ec) noexcept
        {
            detail::call(ec, rdl_permit_semaphore_release, std::exchange(semaphore_, nullptr), count(), ids_.data());
        }

        // They stay taken, and are whoever's has the ids.
        std::vector<rdl_permit_t> detach() noexcept
        {
            semaphore_ = nullptr;
            return std::move(ids_);
        }

        // Each to at least `lease` from now.
        void extend(milliseconds lease)
        {
            for (const rdl_permit_t &id : ids_)
                detail::call(rdl_permit_semaphore_extend, semaphore_, &id, lease.count());
        }

        // Up to the first that cannot be.
        void extend(milliseconds lease, std::error_code &ec) noexcept
        {
            ec.clear();
            for (const rdl_permit_t &id : ids_)
                if (detail::call(ec, rdl_permit_semaphore_extend, semaphore_, &id, lease.count()) < 0)
                    return;
        }

      private:
        friend class permit_semaphore;
        permits(rdl_permit_semaphore_t *semaphore, std::vector<rdl_permit_t> ids) noexcept
            : semaphore_(semaphore), ids_(std::move(ids))
        {
        }

        std::int64_t count() const noexcept
        {
            return static_cast<std::int64_t>(ids_.size());
        }

        rdl_permit_semaphore_t *semaphore_; // NULL: there is nothing to give back
        std::vector<rdl_permit_t> ids_;
    };

    permit_semaphore(const client &client, std::string_view name, semaphore_options options = semaphore_options())
    {
        const char *bytes = detail::named(name, options);
        rdl_permit_semaphore_t *made = nullptr;
        detail::call(rdl_permit_semaphore, client.native_handle(), bytes, &options, &made);
        semaphore_.reset(made);
    }

    permit_semaphore(const client &client, std::string_view name, semaphore_options options,
                     std::error_code &ec) noexcept
    {
        const char *bytes = detail::named(name, options);
        rdl_permit_semaphore_t *made = nullptr;
        detail::call(ec, rdl_permit_semaphore, client.native_handle(), bytes, &options, &made);
        semaphore_.reset(made);
    }

    [[nodiscard]] permits acquire(std::int64_t count = 1, milliseconds lease = endless_lease)
    {
        auto ids = room(count);
        detail::call(rdl_permit_semaphore_acquire, semaphore_.get(), count, lease.count(), ids.data());
        return permits(semaphore_.get(), std::move(ids));
    }

    // None, with an error.
    [[nodiscard]] permits acquire(std::int64_t count, milliseconds lease, std::error_code &ec)
    {
        auto ids = room(count);

        if (detail::call(ec, rdl_permit_semaphore_acquire, semaphore_.get(), count, lease.count(), ids.data()) < 0)
            return permits(nullptr, {});
        return permits(semaphore_.get(), std::move(ids));
    }

    // Nothing: they are taken by others.
    template <typename Rep, typename Period>
    [[nodiscard]] std::optional<permits> try_acquire_for(const std::chrono::duration<Rep, Period> &wait,
                                                         std::int64_t count = 1, milliseconds lease = endless_lease)
    {
        auto ids = room(count);

        if (!detail::try_call(rdl_permit_semaphore_try_acquire, semaphore_.get(), count, detail::ms(wait),
                              lease.count(), ids.data()))
            return std::nullopt;
        return permits(semaphore_.get(), std::move(ids));
    }

    template <typename Rep, typename Period>
    [[nodiscard]] std::optional<permits> try_acquire_for(const std::chrono::duration<Rep, Period> &wait,
                                                         std::int64_t count, milliseconds lease, std::error_code &ec)
    {
        auto ids = room(count);

        if (!detail::try_call(ec, rdl_permit_semaphore_try_acquire, semaphore_.get(), count, detail::ms(wait),
                              lease.count(), ids.data()))
            return std::nullopt;
        return permits(semaphore_.get(), std::move(ids));
    }

    [[nodiscard]] std::optional<permits> try_acquire(std::int64_t count = 1, milliseconds lease = endless_lease)
    {
        return try_acquire_for(milliseconds(0), count, lease);
    }

    [[nodiscard]] std::optional<permits> try_acquire(std::int64_t count, milliseconds lease, std::error_code &ec)
    {
        return try_acquire_for(milliseconds(0), count, lease, ec);
    }

    // Permits that came from elsewhere, to be given back with the object.
    [[nodiscard]] permits adopt(std::vector<rdl_permit_t> ids) noexcept
    {
        return permits(semaphore_.get(), std::move(ids));
    }

    // Permits whose ids came from elsewhere: errc::lost, and none is given back, if one has returned by itself.
    void release(const std::vector<rdl_permit_t> &ids)
    {
        detail::call(rdl_permit_semaphore_release, semaphore_.get(), static_cast<std::int64_t>(ids.size()), ids.data());
    }

    void release(const std::vector<rdl_permit_t> &ids, std::error_code &ec) noexcept
    {
        detail::call(ec, rdl_permit_semaphore_release, semaphore_.get(), static_cast<std::int64_t>(ids.size()),
                     ids.data());
    }

    // One of them, to at least `lease` from now.
    void extend(const rdl_permit_t &id, milliseconds lease)
    {
        detail::call(rdl_permit_semaphore_extend, semaphore_.get(), &id, lease.count());
    }

    void extend(const rdl_permit_t &id, milliseconds lease, std::error_code &ec) noexcept
    {
        detail::call(ec, rdl_permit_semaphore_extend, semaphore_.get(), &id, lease.count());
    }

    // How long it lasts, or endless_lease.
    milliseconds remaining(const rdl_permit_t &id) const
    {
        return milliseconds(detail::call(rdl_permit_semaphore_remaining_ms, semaphore_.get(), &id));
    }

    milliseconds remaining(const rdl_permit_t &id, std::error_code &ec) const noexcept
    {
        return milliseconds(detail::call(ec, rdl_permit_semaphore_remaining_ms, semaphore_.get(), &id));
    }

    std::int64_t available() const
    {
        return detail::call(rdl_permit_semaphore_available, semaphore_.get());
    }

    std::int64_t available(std::error_code &ec) const noexcept
    {
        return detail::call(ec, rdl_permit_semaphore_available, semaphore_.get());
    }

    std::int64_t acquired() const
    {
        return detail::call(rdl_permit_semaphore_acquired, semaphore_.get());
    }

    std::int64_t acquired(std::error_code &ec) const noexcept
    {
        return detail::call(ec, rdl_permit_semaphore_acquired, semaphore_.get());
    }

    // False: they were set before.
    bool try_set_permits(std::int64_t permits)
    {
        return detail::call(rdl_permit_semaphore_try_set_permits, semaphore_.get(), permits) == 1;
    }

    bool try_set_permits(std::int64_t permits, std::error_code &ec) noexcept
    {
        return detail::call(ec, rdl_permit_semaphore_try_set_permits, semaphore_.get(), permits) == 1;
    }

    void set_permits(std::int64_t permits)
    {
        detail::call(rdl_permit_semaphore_set_permits, semaphore_.get(), permits);
    }

    void set_permits(std::int64_t permits, std::error_code &ec) noexcept
    {
        detail::call(ec, rdl_permit_semaphore_set_permits, semaphore_.get(), permits);
    }

    void add_permits(std::int64_t permits)
    {
        detail::call(rdl_permit_semaphore_add_permits, semaphore_.get(), permits);
    }

    void add_permits(std::int64_t permits, std::error_code &ec) noexcept
    {
        detail::call(ec, rdl_permit_semaphore_add_permits, semaphore_.get(), permits);
    }

    rdl_permit_semaphore_t *native_handle() const noexcept
    {
        return semaphore_.get();
    }

#ifdef REDLATCH_HAS_COROUTINES
    // The ids, which nothing gives back but async_release, or `adopt` on a thread that may wait: a coroutine's scope
    // may end where the callbacks run, and nothing may wait there.
    auto async_acquire(const owner &who, std::int64_t count = 1, milliseconds lease = endless_lease)
    {
        auto ids = std::make_shared<std::vector<rdl_permit_t>>(room(count));

        return detail::verb_of(
            semaphore_.get(), who,
            [ids](std::int64_t result, const rdl_err_t &err) {
                detail::checked(result, err);
                return std::move(*ids);
            },
            rdl_permit_semaphore_acquire_async, count, lease.count(), ids->data());
    }

    // Nothing: they are taken by others.
    template <typename Rep, typename Period>
    auto async_try_acquire_for(const owner &who, const std::chrono::duration<Rep, Period> &wait, std::int64_t count = 1,
                               milliseconds lease = endless_lease)
    {
        auto ids = std::make_shared<std::vector<rdl_permit_t>>(room(count));

        return detail::verb_of(
            semaphore_.get(), who,
            [ids](std::int64_t result, const rdl_err_t &err) {
                return detail::as_taken(result, err) ? std::optional(std::move(*ids)) : std::nullopt;
            },
            rdl_permit_semaphore_try_acquire_async, count, detail::ms(wait), lease.count(), ids->data());
    }

    auto async_try_acquire(const owner &who, std::int64_t count = 1, milliseconds lease = endless_lease)
    {
        return async_try_acquire_for(who, milliseconds(0), count, lease);
    }

    auto async_release(const owner &who, std::vector<rdl_permit_t> ids)
    {
        return detail::awaited<rdl_permit_semaphore_t>(
            [semaphore = semaphore_.get(), who = who.native_handle(), ids = std::move(ids)](rdl_permit_semaphore_fn fn,
                                                                                            void *arg, rdl_err_t *err) {
                return rdl_permit_semaphore_release_async(semaphore, who, static_cast<std::int64_t>(ids.size()),
                                                          ids.data(), fn, arg, nullptr, err);
            },
            detail::as_nothing);
    }

    auto async_extend(const owner &who, const rdl_permit_t &id, milliseconds lease)
    {
        return detail::awaited<rdl_permit_semaphore_t>(
            [semaphore = semaphore_.get(), who = who.native_handle(), id, lease](rdl_permit_semaphore_fn fn, void *arg,
                                                                                 rdl_err_t *err) {
                return rdl_permit_semaphore_extend_async(semaphore, who, &id, lease.count(), fn, arg, nullptr, err);
            },
            detail::as_nothing);
    }

    auto async_remaining(const owner &who, const rdl_permit_t &id)
    {
        return detail::awaited<rdl_permit_semaphore_t>(
            [semaphore = semaphore_.get(), who = who.native_handle(), id](rdl_permit_semaphore_fn fn, void *arg,
                                                                          rdl_err_t *err) {
                return rdl_permit_semaphore_remaining_ms_async(semaphore, who, &id, fn, arg, nullptr, err);
            },
            detail::as_time);
    }

    auto async_available(const owner &who)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_number, rdl_permit_semaphore_available_async);
    }

    auto async_acquired(const owner &who)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_number, rdl_permit_semaphore_acquired_async);
    }

    auto async_try_set_permits(const owner &who, std::int64_t permits)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_done, rdl_permit_semaphore_try_set_permits_async,
                               permits);
    }

    auto async_set_permits(const owner &who, std::int64_t permits)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_nothing, rdl_permit_semaphore_set_permits_async,
                               permits);
    }

    auto async_add_permits(const owner &who, std::int64_t permits)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_nothing, rdl_permit_semaphore_add_permits_async,
                               permits);
    }
#endif

  private:
    // The library refuses a number that is out of range; there is room for one in any case.
    static std::vector<rdl_permit_t> room(std::int64_t count)
    {
        return std::vector<rdl_permit_t>(count >= 1 && count <= RDL_PERMIT_IDS_MAX ? static_cast<std::size_t>(count)
                                                                                   : 1);
    }

    detail::unique<rdl_permit_semaphore_t, rdl_permit_semaphore_free> semaphore_;
};

// A semaphore's permits for a scope.
class semaphore_guard
{
  public:
    explicit semaphore_guard(semaphore &semaphore, std::int64_t permits = 1) : semaphore_(semaphore), permits_(permits)
    {
        semaphore_.acquire(permits_);
    }

    // They are the caller's already.
    semaphore_guard(semaphore &semaphore, std::int64_t permits, std::adopt_lock_t) noexcept
        : semaphore_(semaphore), permits_(permits)
    {
    }

    semaphore_guard(const semaphore_guard &) = delete;
    semaphore_guard &operator=(const semaphore_guard &) = delete;

    ~semaphore_guard()
    {
        std::error_code ignored;

        semaphore_.release(permits_, ignored);
    }

  private:
    semaphore &semaphore_;
    const std::int64_t permits_;
};

// ---- latch ----------------------------------------------------------------------------------------------------------

class latch
{
  public:
    latch(const client &client, std::string_view name)
    {
        rdl_latch_options_t options = RDL_LATCH_OPTIONS_INIT;
        const char *bytes = detail::named(name, options);
        rdl_latch_t *made = nullptr;
        detail::call(rdl_latch, client.native_handle(), bytes, &options, &made);
        latch_.reset(made);
    }

    latch(const client &client, std::string_view name, std::error_code &ec) noexcept
    {
        rdl_latch_options_t options = RDL_LATCH_OPTIONS_INIT;
        const char *bytes = detail::named(name, options);
        rdl_latch_t *made = nullptr;
        detail::call(ec, rdl_latch, client.native_handle(), bytes, &options, &made);
        latch_.reset(made);
    }

    // False: it was set before.
    bool try_set_count(std::int64_t count)
    {
        return detail::call(rdl_latch_try_set_count, latch_.get(), count) == 1;
    }

    bool try_set_count(std::int64_t count, std::error_code &ec) noexcept
    {
        return detail::call(ec, rdl_latch_try_set_count, latch_.get(), count) == 1;
    }

    // The count that is left.
    std::int64_t count_down()
    {
        return detail::call(rdl_latch_count_down, latch_.get());
    }

    std::int64_t count_down(std::error_code &ec) noexcept
    {
        return detail::call(ec, rdl_latch_count_down, latch_.get());
    }

    std::int64_t count() const
    {
        return detail::call(rdl_latch_count, latch_.get());
    }

    std::int64_t count(std::error_code &ec) const noexcept
    {
        return detail::call(ec, rdl_latch_count, latch_.get());
    }

    void wait() const
    {
        detail::call(rdl_latch_await, latch_.get(), RDL_WAIT_FOREVER);
    }

    void wait(std::error_code &ec) const noexcept
    {
        detail::call(ec, rdl_latch_await, latch_.get(), RDL_WAIT_FOREVER);
    }

    // False: it is still closed.
    template <typename Rep, typename Period> bool wait_for(const std::chrono::duration<Rep, Period> &wait) const
    {
        return detail::try_call(rdl_latch_await, latch_.get(), detail::ms(wait));
    }

    template <typename Rep, typename Period>
    bool wait_for(const std::chrono::duration<Rep, Period> &wait, std::error_code &ec) const noexcept
    {
        return detail::try_call(ec, rdl_latch_await, latch_.get(), detail::ms(wait));
    }

    bool try_wait() const
    {
        return wait_for(milliseconds(0));
    }

    bool try_wait(std::error_code &ec) const noexcept
    {
        return wait_for(milliseconds(0), ec);
    }

    rdl_latch_t *native_handle() const noexcept
    {
        return latch_.get();
    }

#ifdef REDLATCH_HAS_COROUTINES
    template <typename Rep, typename Period>
    auto async_wait_for(const owner &who, const std::chrono::duration<Rep, Period> &wait)
    {
        return detail::verb_of(latch_.get(), who, detail::as_taken, rdl_latch_await_async, detail::ms(wait));
    }

    auto async_wait(const owner &who)
    {
        return async_wait_for(who, forever);
    }

    auto async_try_set_count(const owner &who, std::int64_t count)
    {
        return detail::verb_of(latch_.get(), who, detail::as_done, rdl_latch_try_set_count_async, count);
    }

    auto async_count(const owner &who)
    {
        return detail::verb_of(latch_.get(), who, detail::as_number, rdl_latch_count_async);
    }

    auto async_count_down(const owner &who)
    {
        return detail::verb_of(latch_.get(), who, detail::as_number, rdl_latch_count_down_async);
    }
#endif

  private:
    detail::unique<rdl_latch_t, rdl_latch_free> latch_;
};

} // namespace redlatch

#endif
