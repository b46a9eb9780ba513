// SPDX-License-Identifier: MIT
// error.hpp - what fails in C++: codes, what is thrown, and calls of C functions that do either.
#ifndef REDLATCH_ERROR_HPP
#define REDLATCH_ERROR_HPP

#include <redlatch/error.h>
#include <string>
#include <system_error>
#include <utility>

namespace redlatch
{

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

} // namespace detail

} // namespace redlatch

#endif
