/* SPDX-License-Identifier: MIT */
/* glob.h - patterns as Redis has them: * ? [a-z] [^a] and \ before what is meant literally. Bytes, any of them. */
#ifndef REDLATCH_BASE_GLOB_H
#define REDLATCH_BASE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

bool rdl__glob(const char *pattern, size_t pattern_len, const char *text, size_t len);

#endif
