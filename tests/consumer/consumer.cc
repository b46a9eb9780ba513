// consumer.cc - a program outside the tree, in C++: the headers are understood and the names are C's.
#include <iostream>
#include <redlatch/redlatch.h>

int main(int argc, char **argv)
{
    rdl_client_t *client = nullptr;
    rdl_lock_t *lock = nullptr;
    rdl_err_t err;
    rdl_client_options_t options = {};

    options.version = RDL_CLIENT_OPTIONS_VERSION;
    options.client_name = "consumer";
    if (argc != 2 || rdl_client_open(argv[1], &options, &client, &err) < 0 ||
        rdl_simple_lock(client, "consumer++", nullptr, &lock, &err) < 0 || rdl_try_lock(lock, 1000, 5000, &err) < 0 ||
        rdl_unlock(lock, &err) < 0) {
        std::cerr << rdl_strerror(err.code) << ": " << err.message << '\n';
        return 1;
    }
    rdl_lock_free(lock);
    rdl_client_close(client);
    return 0;
}
