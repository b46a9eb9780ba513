/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/holder.h"

#include "tools/redlatch/duration.h"
#include "tools/redlatch/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct out {
    char *to;
    size_t cap, len;
};

static void put(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct out *out, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(out->to + out->len, out->cap - out->len, format, args);
    va_end(args);
    out->len += (size_t)n < out->cap - out->len ? (size_t)n : out->cap - out->len - 1;
}

static void put_time(struct out *out, const char *before, int64_t ms, const char *after)
{
    char shown[32];

    duration_print(ms > 0 ? ms : 0, shown, sizeof shown);
    put(out, ", %s%s%s", before, shown, after);
}

static void put_who(struct out *out, const rdl_holder_t *holder)
{
    const rdl_description_t *by = &holder->by;
    const char *what = by->label[0] != '\0' ? by->label : by->program;
    char host[TEXT_SAFE_CAP], shown[TEXT_SAFE_CAP];

    if (by->known)
        put(out, "held by %s, pid %" PRId64 " (%s)", text_safe(by->host, strlen(by->host), host), by->pid,
            text_safe(what, strlen(what), shown));
    else
        put(out, "held by %s, which does not say who it is", text_safe(holder->owner, strlen(holder->owner), shown));
}

bool holder_print(const rdl_inspection_t *found, char *to, size_t cap)
{
    struct out out = {.to = to, .cap = cap};
    const rdl_holder_t *first = found->holder;

    to[0] = '\0';
    if (found->holder_count == 0)
        return false;
    put_who(&out, first);
    if (first->since_ms > 0)
        put_time(&out, "for ", found->now_ms - first->since_ms, "");
    if (first->left_ms >= 0)
        put_time(&out, "", first->left_ms, " left");
    if (found->holders > 1)
        put(&out, ", and %" PRId64 " more", found->holders - 1);
    if (found->waiters > 0)
        put(&out, ", %" PRId64 " wait", found->waiters);
    return true;
}

/* 1: it is held, 0: it is not, or -1: this server does not say. */
static int ask_for(rdl_client_t *client, const char *name, char *to, size_t cap)
{
    rdl_inspection_t *found = NULL;
    bool held;

    if (rdl_inspect(client, name, 0, &found, NULL) < 0)
        return -1;
    held = holder_print(found, to, cap);
    rdl_inspection_free(found);
    return held ? 1 : 0;
}

bool holder_ask(const struct run_options *o, rdl_client_t *const *clients, size_t count, char *to, size_t cap)
{
    int says = 0;

    to[0] = '\0';
    for (size_t i = 0; i < count && says == 0; i++)
        for (size_t k = 0; k < o->name_count && says == 0; k++)
            says = ask_for(clients[i], o->names[k], to, cap);
    return says > 0;
}
