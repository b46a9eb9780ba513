/* SPDX-License-Identifier: MIT */
#include "core/service/scripts.h"

#include "scripts/scripts.h"

#include <stdlib.h>
#include <string.h>

#define CALL_LEN (sizeof "$7\r\nEVALSHA\r\n$40\r\n" - 1 + 40 + 2)

void rdl__script_begin(struct rdl__buf *to, int script, bool eval, size_t keys, size_t args)
{
    const struct rdl__script *s = &rdl__scripts[script];

    if (eval) {
        rdl__cmd_begin(to, 3 + keys + args);
        rdl__cmd_arg(to, "EVAL", 4);
        rdl__cmd_arg(to, s->body, s->body_len);
    } else {
        rdl__cmd_begin_with(to, 3 + keys + args, s->call, CALL_LEN);
    }
    rdl__cmd_int(to, (int64_t)keys);
}

void rdl__script_with_text(struct rdl__buf *to, int script, const char *call, size_t len)
{
    const struct rdl__script *s = &rdl__scripts[script];
    size_t head = (size_t)((const char *)memchr(call, '\n', len) + 1 - call); /* how many words it has */

    rdl__buf_put(to, call, head);
    rdl__cmd_arg(to, "EVAL", 4);
    rdl__cmd_arg(to, s->body, s->body_len);
    rdl__buf_put(to, call + head + CALL_LEN, len - head - CALL_LEN);
}

unsigned rdl__scripts_load(struct rdl__buf *to)
{
    for (int i = 1; i < RDL__SCRIPT_GREETING_END; i++) {
        rdl__cmd_begin(to, 3);
        rdl__cmd_arg(to, "SCRIPT", 6);
        rdl__cmd_arg(to, "LOAD", 4);
        rdl__cmd_arg(to, rdl__scripts[i].body, rdl__scripts[i].body_len);
    }
    return RDL__SCRIPT_GREETING_END - 1;
}

const char *rdl__script_line(const char *error, size_t *ret_len)
{
    static const char mark[] = "@user_script:";
    const char *at = strstr(error, mark), *line = NULL;

    for (int i = 1; i < RDL__SCRIPT_COUNT && at != NULL && line == NULL; i++)
        if (strstr(error, rdl__scripts[i].sha) != NULL)
            line = rdl__scripts[i].body;
    for (long number = line == NULL ? 1 : strtol(at + sizeof mark - 1, NULL, 10); number > 1 && line != NULL; number--)
        line = (line = strchr(line, '\n')) != NULL ? line + 1 : NULL;
    if (line != NULL)
        *ret_len = strcspn(line, "\n");
    return line;
}
