// SPDX-License-Identifier: MIT
// coroutines.cc - asynchronous verbs as C++20 awaitables: a hundred coroutines take turns on the client's thread.
//
//     coroutines redis://127.0.0.1:6379
//
// Where the compiler has no coroutines, it says so.
#include <iostream>
#include <redlatch/redlatch.hpp>

#ifdef REDLATCH_HAS_COROUTINES
#include <latch>

namespace
{

// Begins at once, and frees itself at its end; the program has its own, or its framework's.
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

// A coroutine is no thread, so each has an owner of its own. It goes on where the client's callbacks run.
task count_one(redlatch::client &client, int &counter, std::latch &done)
{
    redlatch::owner self(client);
    redlatch::fair_lock lock(client, "counter");

    try {
        co_await lock.async_lock(self);
        ++counter;
        co_await lock.async_release(self);
    } catch (const redlatch::error &error) {
        std::cerr << error.what() << '\n';
    }
    done.count_down();
}

} // namespace

int main(int argc, char **argv)
try {
    redlatch::client client(argc > 1 ? argv[1] : "redis://127.0.0.1:6379");
    std::latch done(100);
    int counter = 0; // under the lock

    for (int i = 0; i < 100; ++i)
        count_one(client, counter, done);
    done.wait();
    std::cout << counter << " coroutines had their turn\n";
    return counter == 100 ? 0 : 1;
} catch (const redlatch::error &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
#else
int main()
{
    std::cout << "this compiler has no coroutines\n";
    return 0;
}
#endif
