// SPDX-License-Identifier: MIT
#include <iostream>
#include <mutex>
#include <redlatch/redlatch.hpp>

int main(int argc, char **argv)
try {
    redlatch::client client(argc > 1 ? argv[1] : "redis://127.0.0.1:6379");
    redlatch::reentrant_lock lock(client, "orders:42");

    lock.on_lost([](const rdl_loss_t &loss) { std::clog << loss.owner << " must stop\n"; });
    if (std::unique_lock guard(lock, std::chrono::seconds(3)); guard) // renewed until the end of the scope
        std::cout << "nobody else is in here, on no machine\n";
    else
        std::cout << "somebody else has it\n";
    return 0;
} catch (const redlatch::error &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
