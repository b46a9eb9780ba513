/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/server.h"

#include "tools/redlatch/exitcode.h"

#include <errno.h>
#include <redlatch/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_MAX 8192 /* bytes of a file's first line */

/* The part of a URI that may be secret: from `from` up to, not including, the last '@'. Somebody who forgot to
 * percent-encode a '/' or an '@' in a password must not see it printed, so this looks beyond the authority. Empty
 * without an '@'. */
struct secret {
    size_t from;
    size_t to;
};

static struct secret find_secret(const char *uri)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *at = strrchr(uri, '@');
    size_t scheme = strspn(uri, letters);
    struct secret s = {0};

    if (at == NULL || (strncmp(uri, "unix:/", 6) == 0 && (uri[6] != '/' || uri[7] == '/'))) /* a path has none */
        return s;
    if (strncmp(uri + scheme, "://", 3) == 0)
        s.from = scheme + 3;
    s.to = (size_t)(at - uri);
    return s;
}

const char *server_label(const char *uri, char to[TEXT_SAFE_CAP])
{
    struct secret s = find_secret(uri);
    const char *rest = uri[s.to] == '@' ? uri + s.to + 1 : uri;
    char shown[2 * TEXT_SAFE_CAP]; /* what does not fit here would not be shown anyway */

    snprintf(shown, sizeof shown, "%.*s%.*s", (int)s.from, uri, (int)strcspn(rest, "?"), rest);
    return text_safe(shown, strlen(shown), to);
}

char *server_without_secret(const char *uri)
{
    struct secret s = find_secret(uri);
    char *without = strdup(uri);

    if (without != NULL && uri[s.to] == '@')
        memcpy(without + s.from, uri + s.to + 1, strlen(uri + s.to + 1) + 1);
    return without;
}

void server_hide_secret(char *uri)
{
    struct secret s = find_secret(uri);

    memset(uri + s.from, 'x', s.to - s.from);
}

void server_hide_secrets(char *list)
{
    if (strchr(list, '@') != NULL)
        memset(list, 'x', strlen(list));
}

const char *server_inherited(void)
{
    const char *inherited = getenv("REDLATCH_SERVER");

    return inherited != NULL && inherited[0] != '\0' ? inherited : SERVER_DEFAULT;
}

char *server_read(const char *path)
{
    char line[ADDRESS_MAX + 2] = "", shown[TEXT_SAFE_CAP];
    FILE *file = fopen(path, "re");
    const char *why = NULL;
    char *found = NULL;

    errno = file == NULL ? errno : 0;
    if (file != NULL && fgets(line, sizeof line, file) != NULL && strlen(line) > ADDRESS_MAX)
        why = "its first line is too long";
    line[strcspn(line, " \t\r\n")] = '\0';
    if (why == NULL && line[0] == '\0')
        why = errno != 0 ? strerror(errno) : "its first line is empty";
    if (why == NULL && (found = strdup(line)) == NULL)
        why = rdl_strerror(RDL_ENOMEM);
    if (why != NULL)
        text_say("no server address in '%s': %s", text_safe(path, strlen(path), shown), why);
    if (file != NULL)
        fclose(file);
    return found;
}

char *server_find(char *given, int *ret_status)
{
    const char *uri = given != NULL ? given : server_inherited();
    char *found = uri[0] == '@' ? server_read(uri + 1) : strdup(uri);

    if (found == NULL) {
        *ret_status = uri[0] == '@' ? EXITCODE_USAGE : EXITCODE_TROUBLE;
        if (uri[0] != '@')
            text_say("%s", rdl_strerror(RDL_ENOMEM));
    }
    if (given != NULL)
        server_hide_secret(given);
    return found;
}
