/* SPDX-License-Identifier: MIT */
#include "core/service/refusals.h"

#include "core/base/err.h"
#include "core/service/scripts.h"

#include <string.h>

static const struct {
    const char *begins, *means;
} meanings[] = {
    {"READONLY", "this is a replica, which takes no writes: locks are taken at its master"},
    {"OOM", "the server has no memory left: raise its maxmemory"},
    {"MISCONF", "the server cannot write to its disk, and refuses all writes until it can"},
    {"NOREPLICAS", "the server misses replicas, and refuses all writes: see min-replicas-to-write"},
    {"LOADING", "the server is loading its data"},
    {"BUSY", "somebody's script does not end: SCRIPT KILL ends it"},
    {"MASTERDOWN", "this is a replica that has lost its master"},
    {"CLUSTERDOWN", "the cluster is down, or some of its slots are"},
    {"WRONGTYPE", "the name is in use for something else"},
    {"ERR unknown command", "the server, or a proxy before it, does not know a command that locks need"},
};

/* What our own scripts refuse by. */
static const char ours[] = "ERR redlatch: ";

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool rdl__refusal_of_rights(const char *error)
{
    return begins(error, "NOPERM") || begins(error, "ERR ACL failure") ||
           strstr(error, "user executing the script can't") != NULL;
}

static const char *meaning_of(const char *words)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (begins(words, meanings[i].begins))
            return meanings[i].means;
    return rdl__refusal_of_rights(words) ? "the user lacks a right, which redlatch doctor names" : NULL;
}

/* Redis 6.2 begins with where in the script it was, once or twice: "...: @user_script:7: @user_script: 7: The user
 * ...". Later ones end with it: "... script: <its hash>, on @user_script:7." */
const char *rdl__refusal_words(const char *error, size_t *ret_len)
{
    static const char mark[] = "@user_script:", hash[] = " script: ";
    const char *end = strstr(error, ", on @user_script:"), *at = error, *next = end == NULL ? error : NULL;

    while (end != NULL && end > error && !begins(end, hash))
        end--;
    while (next != NULL && (next = strstr(next, mark)) != NULL)
        if ((next = strstr(next + sizeof mark - 1, ": ")) != NULL)
            at = next += 2;
    *ret_len = end != NULL ? (size_t)(end - at) : strlen(at);
    return at;
}

size_t rdl__refusal_text(char *to, size_t cap, const char *error)
{
    size_t len, line_len = 0;
    const char *words = rdl__refusal_words(error, &len), *means = meaning_of(words), *line;
    int shown = (int)len;

    if (means != NULL)
        return rdl__line(to, cap, "%s (%.*s)", means, shown, words);
    if (begins(words, ours))
        return rdl__line(to, cap, "%.*s", shown - (int)(sizeof ours - 1), words + sizeof ours - 1);
    line = rdl__script_line(error, &line_len);
    return rdl__line(to, cap, "%.*s%s%.*s", shown, words, line != NULL ? ": " : "", (int)line_len,
                     line != NULL ? line : "");
}
