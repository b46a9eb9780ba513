// SPDX-License-Identifier: MIT
// consumer.cc - a program outside the tree, in C++: the headers are understood and the names are C's.
#include <iostream>
#include <redlatch/redlatch.h>

int main(int argc, char **argv)
{
    rdl_client_t *client = nullptr;
    rdl_lock_t *lock = nullptr;
    rdl_err_t err;
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    const rdl_tls_options_t tls = RDL_TLS_OPTIONS_INIT;
    const rdl_lock_options_t lock_options = RDL_LOCK_OPTIONS_INIT;
    const rdl_semaphore_options_t semaphore_options = RDL_SEMAPHORE_OPTIONS_INIT;
    const rdl_latch_options_t latch_options = RDL_LATCH_OPTIONS_INIT;

    if (tls.version != RDL_TLS_OPTIONS_VERSION || semaphore_options.version != RDL_SEMAPHORE_OPTIONS_VERSION ||
        latch_options.version != RDL_LATCH_OPTIONS_VERSION || lock_options.name_len != 0) {
        std::cerr << "options do not begin as they should\n";
        return 1;
    }
    options.client_name = "consumer";
    if (argc != 2 || rdl_client_open(argv[1], &options, &client, &err) < 0 ||
        rdl_simple_lock(client, "consumer++", &lock_options, &lock, &err) < 0 ||
        rdl_try_lock(lock, 1000, 5000, &err) < 0 || rdl_unlock(lock, &err) < 0) {
        std::cerr << rdl_strerror(err.code) << ": " << err.message << '\n';
        return 1;
    }
    rdl_lock_free(lock);
    rdl_client_close(client);
    return 0;
}
