// SPDX-License-Identifier: MIT
#include <mutex>
#include <redlatch/redlatch.hpp>

int main()
{
    redlatch::client client("redis://127.0.0.1:6379");
    redlatch::reentrant_lock lock(client, "ten");
    std::unique_lock guard(lock, std::chrono::seconds(3));
    return !guard;
}
