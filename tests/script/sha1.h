/* SPDX-License-Identifier: MIT */
/* sha1.h - the hash by which EVALSHA names scripts. FIPS 180-4; written for the tests' server, not for secrets. */
#ifndef TESTS_SCRIPT_SHA1_H
#define TESTS_SCRIPT_SHA1_H

#include <stddef.h>

/* 40 lower-case hexadecimal digits and a NUL. */
void sha1_hex(const void *at, size_t len, char ret[41]);

#endif
