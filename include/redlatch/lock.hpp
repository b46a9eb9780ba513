// SPDX-License-Identifier: MIT
// lock.hpp - a class for each lock type.
#ifndef REDLATCH_LOCK_HPP
#define REDLATCH_LOCK_HPP

#include <functional>
#include <redlatch/awaitable.hpp>
#include <redlatch/client.hpp>
#include <redlatch/lock.h>
#include <string>
#include <string_view>
#include <vector>

namespace redlatch
{

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

} // namespace redlatch

#endif
