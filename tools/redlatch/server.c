#include "tools/redlatch/server.h"

#include "tools/redlatch/text.h"

#include <stdio.h>
#include <string.h>

/* The part of a URI that may be secret: from `from` up to, not including, the last '@'. Somebody who forgot to percent-encode
 * a '/' or an '@' in a password must not see it printed, so this looks beyond the authority. Empty without an '@'. */
struct secret {
    size_t from;
    size_t to;
};

static struct secret find_secret(const char *uri)
{
    const char *scheme_end = strstr(uri, "://");
    const char *at = strrchr(uri, '@');
    struct secret s = {0};

    if (at == NULL)
        return s;
    if (scheme_end != NULL && scheme_end < at)
        s.from = (size_t)(scheme_end - uri) + strlen("://");
    s.to = (size_t)(at - uri);
    return s;
}

void server_label(const char *uri, char *to, size_t cap)
{
    struct secret s = find_secret(uri);
    const char *rest = s.to > 0 ? uri + s.to + 1 : uri;
    char safe[TEXT_SAFE_CAP];

    snprintf(to, cap, "%.*s%s", (int)s.from, uri, text_safe(rest, strcspn(rest, "?"), safe));
}

void server_hide_secret(char *uri)
{
    struct secret s = find_secret(uri);

    memset(uri + s.from, 'x', s.to - s.from);
}
