// SPDX-License-Identifier: MIT
// latch.hpp - the count-down latch.
#ifndef REDLATCH_LATCH_HPP
#define REDLATCH_LATCH_HPP

#include <redlatch/awaitable.hpp>
#include <redlatch/client.hpp>
#include <redlatch/latch.h>
#include <string_view>

namespace redlatch
{

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
