// SPDX-License-Identifier: MIT
// check.h - what the tests in C++ share: a count of what holds, a client, and a coroutine. No framework: they run under
// ThreadSanitizer, too.
#ifndef TESTS_CPP_CHECK_H
#define TESTS_CPP_CHECK_H

#include <atomic>
#include <cstdio>
#include <redlatch/redlatch.hpp>
#include <string>

using namespace std::chrono_literals;
using redlatch::errc;

inline std::atomic<unsigned> passed, failed;
inline std::string server;

inline void check(bool holds, const char *what, int line)
{
    ++(holds ? passed : failed);
    if (!holds)
        std::printf("line %d: not so: %s\n", line, what);
}

#define CHECK(what) check((what), #what, __LINE__)

// Does `call` throw this code?
template <typename Call> bool throws(errc code, Call call)
{
    try {
        call();
    } catch (const redlatch::error &error) {
        return error.code() == code && error.details().code == static_cast<int>(code);
    }
    return false;
}

inline redlatch::client anonymous()
{
    redlatch::client_options options;

    options.anonymous = true;
    return redlatch::client(server, options);
}

#ifdef REDLATCH_HAS_COROUTINES
// Runs at once; what it throws ends the program.
struct task {
    struct promise_type {
        task get_return_object()
        {
            return {};
        }
        std::suspend_never initial_suspend() noexcept
        {
            return {};
        }
        std::suspend_never final_suspend() noexcept
        {
            return {};
        }
        void return_void()
        {
        }
        void unhandled_exception()
        {
            std::terminate();
        }
    };
};
#endif

// The program: `tests` at the server that its argument names.
template <typename Tests> int count_what_holds(int argc, char **argv, Tests tests)
try {
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s SERVER\n", argv[0]);
        return 2;
    }
    server = argv[1];
    tests();
    std::printf("%u passed, %u failed\n", passed.load(), failed.load());
    return failed == 0 ? 0 : 1;
} catch (const std::exception &error) {
    std::printf("%s\n", error.what());
    return 1;
}

#endif
