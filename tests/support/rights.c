/* SPDX-License-Identifier: MIT */
#include "tests/support/rights.h"

#include "tests/support/probe.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOCUMENT "docs/acl.md"

int rights_read(const char *heading, const char *user, void (*take)(const char *rules, void *arg), void *arg)
{
    FILE *file = fopen(DOCUMENT, "re");
    char *title = must_format("## %s\n", heading != NULL ? heading : ""), *begin = must_format("ACL SETUSER %s ", user);
    char line[1024];
    bool inside = heading == NULL;
    int found = 0;

    if (file == NULL)
        die(DOCUMENT ": %s", strerror(errno));
    while (fgets(line, sizeof line, file) != NULL) {
        if (heading != NULL && strncmp(line, "## ", 3) == 0)
            inside = strcmp(line, title) == 0;
        if (!inside || strncmp(line, begin, strlen(begin)) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        take(line + strlen(begin), arg);
        found++;
    }
    (void)fclose(file);
    free(begin);
    free(title);
    return found;
}

struct grant {
    struct probe *to;
    const char *user;
};

static void pass_on(const char *rules, void *arg)
{
    const struct grant *grant = arg;

    (void)probe_text(grant->to, "ACL SETUSER %s %s", grant->user, rules);
}

void rights_grant(const struct server *server, const char *heading, const char *user)
{
    struct grant grant = {.to = probe_open(server), .user = user};

    if (rights_read(heading, user, pass_on, &grant) == 0)
        die("%s grants %s nothing under '%s'", DOCUMENT, user, heading);
    probe_close(grant.to);
}

int64_t rights_refused(const struct server *server)
{
    struct probe *p = probe_open(server);
    const struct reply *log = probe_ask(p, "ACL LOG");
    int64_t n = (int64_t)log->count;

    if (log->kind != REPLY_ARRAY)
        die("ACL LOG: %s", log->text);
    probe_close(p);
    return n;
}
