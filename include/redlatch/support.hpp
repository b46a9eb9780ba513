// SPDX-License-Identifier: MIT
// support.hpp - what the classes share: times, C handles that are freed, and callbacks that are found by number.
#ifndef REDLATCH_SUPPORT_HPP
#define REDLATCH_SUPPORT_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <redlatch/lock.h>
#include <redlatch/semaphore.h>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace redlatch
{

using milliseconds = std::chrono::duration<std::int64_t, std::milli>;

// Lease of a lock: renewed until it is unlocked. Lease of a permit: it does not return by itself. Wait: no limit.
inline constexpr milliseconds automatic_lease{RDL_LEASE_AUTO};
inline constexpr milliseconds endless_lease{RDL_LEASE_NEVER};
inline constexpr milliseconds forever{RDL_WAIT_FOREVER};

namespace detail
{

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

} // namespace redlatch

#endif
