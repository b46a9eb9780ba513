/* SPDX-License-Identifier: MIT */
#include "core/base/glob.h"

/* Is c in the class that begins behind *at's bracket? *at goes behind the class. One that is not closed ends with the
 * pattern. */
static bool in_class(const char **at, const char *end, unsigned char c)
{
    const char *p = *at + 1;
    bool inverted = p < end && *p == '^', found = false;

    for (p += inverted; p < end && *p != ']'; p++) {
        unsigned char low, high;

        if (*p == '\\' && p + 1 < end)
            p++;
        low = high = (unsigned char)*p;
        if (p + 2 < end && p[1] == '-') {
            high = (unsigned char)p[2];
            p += 2;
        }
        found = found || (low <= high ? low <= c && c <= high : high <= c && c <= low);
    }
    *at = p < end ? p + 1 : end;
    return found != inverted;
}

/* Does the pattern's next element, which is no star, mean c? Then *at goes behind it. */
static bool means(const char **at, const char *end, char c)
{
    const char *p = *at;
    bool yes;

    if (p == end)
        return false;
    if (*p == '[') {
        yes = in_class(&p, end, (unsigned char)c);
    } else {
        yes = *p == '?';
        p += *p == '\\' && p + 1 < end;
        yes = yes || *p == c;
        p++;
    }
    if (yes)
        *at = p;
    return yes;
}

bool rdl__glob(const char *pattern, size_t pattern_len, const char *text, size_t len)
{
    const char *p = pattern, *p_end = pattern + pattern_len, *t = text, *t_end = text + len;
    const char *star = NULL, *tried = NULL; /* the last star, and what it has eaten of the text */

    while (t < t_end) {
        if (p < p_end && *p == '*') {
            star = ++p;
            tried = t;
        } else if (means(&p, p_end, *t)) {
            t++;
        } else if (star != NULL) {
            p = star;
            t = ++tried;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*')
        p++;
    return p == p_end;
}
