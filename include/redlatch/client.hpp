// SPDX-License-Identifier: MIT
// client.hpp - the client, and who holds a lock.
#ifndef REDLATCH_CLIENT_HPP
#define REDLATCH_CLIENT_HPP

#include <redlatch/client.h>
#include <redlatch/error.hpp>
#include <redlatch/owner.h>
#include <redlatch/support.hpp>
#include <string>
#include <string_view>

namespace redlatch
{

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

} // namespace redlatch

#endif
