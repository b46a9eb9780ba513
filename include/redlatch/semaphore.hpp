// SPDX-License-Identifier: MIT
// semaphore.hpp - permits that are a number, and permits with ids and leases.
#ifndef REDLATCH_SEMAPHORE_HPP
#define REDLATCH_SEMAPHORE_HPP

#include <optional>
#include <redlatch/awaitable.hpp>
#include <redlatch/client.hpp>
#include <redlatch/semaphore.h>
#include <string_view>
#include <vector>

namespace redlatch
{

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
    bool try_set_permits(std::int64_t number)
    {
        return detail::call(rdl_permit_semaphore_try_set_permits, semaphore_.get(), number) == 1;
    }

    bool try_set_permits(std::int64_t number, std::error_code &ec) noexcept
    {
        return detail::call(ec, rdl_permit_semaphore_try_set_permits, semaphore_.get(), number) == 1;
    }

    void set_permits(std::int64_t number)
    {
        detail::call(rdl_permit_semaphore_set_permits, semaphore_.get(), number);
    }

    void set_permits(std::int64_t number, std::error_code &ec) noexcept
    {
        detail::call(ec, rdl_permit_semaphore_set_permits, semaphore_.get(), number);
    }

    void add_permits(std::int64_t number)
    {
        detail::call(rdl_permit_semaphore_add_permits, semaphore_.get(), number);
    }

    void add_permits(std::int64_t number, std::error_code &ec) noexcept
    {
        detail::call(ec, rdl_permit_semaphore_add_permits, semaphore_.get(), number);
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

    auto async_try_set_permits(const owner &who, std::int64_t number)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_done, rdl_permit_semaphore_try_set_permits_async,
                               number);
    }

    auto async_set_permits(const owner &who, std::int64_t number)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_nothing, rdl_permit_semaphore_set_permits_async,
                               number);
    }

    auto async_add_permits(const owner &who, std::int64_t number)
    {
        return detail::verb_of(semaphore_.get(), who, detail::as_nothing, rdl_permit_semaphore_add_permits_async,
                               number);
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

} // namespace redlatch

#endif
