/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/nearest.h"

#include <ctype.h>
#include <string.h>

#define LETTERS_MAX 32 /* of words that are compared */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int lower(char c)
{
    return tolower((unsigned char)c);
}

/* What turns the first i letters of `a` into the first k of `b` stands in row i, column k. */
static size_t count_slips(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t slips[LETTERS_MAX + 1][LETTERS_MAX + 1];

    for (size_t i = 0; i <= a_len; i++)
        for (size_t k = 0; k <= b_len; k++) {
            if (i == 0 || k == 0) {
                slips[i][k] = i + k;
                continue;
            }
            slips[i][k] = least(slips[i - 1][k] + 1, slips[i][k - 1] + 1);
            slips[i][k] = least(slips[i][k], slips[i - 1][k - 1] + (lower(a[i - 1]) != lower(b[k - 1])));
            if (i > 1 && k > 1 && lower(a[i - 1]) == lower(b[k - 2]) && lower(a[i - 2]) == lower(b[k - 1]))
                slips[i][k] = least(slips[i][k], slips[i - 2][k - 2] + 1);
        }
    return slips[a_len][b_len];
}

void nearest_try(struct nearest *n, const char *typed, const char *candidate)
{
    size_t typed_len = strlen(typed), len = strlen(candidate), slips;

    if (typed_len > LETTERS_MAX || len > LETTERS_MAX)
        return;
    slips = count_slips(typed, typed_len, candidate, len);
    if (slips > (typed_len < 3 ? 1 : typed_len / 3) || slips >= len || (n->word != NULL && slips >= n->slips))
        return;
    *n = (struct nearest){.word = candidate, .slips = slips};
}
