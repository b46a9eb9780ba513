/* SPDX-License-Identifier: MIT */
/* fuzz.h - what a fuzz target is here.
 *
 * A target is a file with LLVMFuzzerTestOneInput. In the ordinary test run driver.c gives it every file of its corpus,
 * and then those files mutated at random. libFuzzer can drive it instead: clang -fsanitize=fuzzer,address,undefined,
 * the target, counting_alloc.c and wait.c of tests/support, and the files of core/base and core/wire.
 *
 * An input that once broke something goes into the corpus.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Try one input. Returns 0; what must not be ends the program. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* End the program, naming the claim, unless it holds. */
#define FUZZ_CLAIM(claim)                                                                                              \
    do {                                                                                                               \
        if (!(claim))                                                                                                  \
            die("%s:%d: not so: %s", __FILE__, __LINE__, #claim);                                                      \
    } while (0)

#endif
