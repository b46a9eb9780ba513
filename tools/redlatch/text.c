#include "tools/redlatch/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_CAP 1024

static const char ellipsis[] = "...";

const char *text_safe(const char *bytes, size_t len, char to[TEXT_SAFE_CAP])
{
    static const char hex[] = "0123456789abcdef";
    size_t at = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        size_t width = c >= 0x20 && c < 0x7f ? 1 : 4;

        if (at + width + sizeof ellipsis > TEXT_SAFE_CAP) {
            memcpy(to + at, ellipsis, sizeof ellipsis - 1);
            at += sizeof ellipsis - 1;
            break;
        }
        if (width == 1) {
            to[at] = (char)c;
        } else {
            to[at] = '\\';
            to[at + 1] = 'x';
            to[at + 2] = hex[c >> 4];
            to[at + 3] = hex[c & 0xf];
        }
        at += width;
    }
    to[at] = '\0';
    return to;
}

static void write_all(const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        bytes += n;
        len -= (size_t)n;
    }
}

void text_say(const char *format, ...)
{
    static const char prefix[] = "redlatch: ";
    char line[LINE_CAP];
    size_t at = sizeof prefix - 1;
    va_list args;
    int n;

    memcpy(line, prefix, at);
    va_start(args, format);
    n = vsnprintf(line + at, sizeof line - at - 1, format, args);
    va_end(args);
    if (n < 0)
        return;
    at += (size_t)n < sizeof line - at - 2 ? (size_t)n : sizeof line - at - 2;
    line[at++] = '\n';
    write_all(line, at);
}
