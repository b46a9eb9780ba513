/* SPDX-License-Identifier: MIT */
#include "core/wire/cluster.h"

#include <stdio.h>
#include <string.h>

enum { BEFORE_MEMBERS = 2, BESIDE = 3, PORT_MOST = 65535 };

/* ---- redirections ----------------------------------------------------------------------------------------------- */

/* `host:port` at the end of the reply; the host may hold colons itself, or be missing. */
static bool read_address(const char *at, struct rdl__redirect *ret)
{
    const char *colon = strrchr(at, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - at);
    struct rdl__reply port;
    int64_t value;

    if (colon == NULL || len >= sizeof ret->host)
        return false;
    port = (struct rdl__reply){.type = RDL__REPLY_STRING, .str = colon + 1, .len = strlen(colon + 1)};
    if (!rdl__reply_integer(&port, &value) || value < 1 || value > PORT_MOST)
        return false;
    if (len == 1 && *at == '?') /* the server has been told to give names, and knows none for that one */
        len = 0;
    memcpy(ret->host, at, len);
    ret->host[len] = '\0';
    ret->port = (int)value;
    return true;
}

/* `WORD slot host:port` */
static bool read_redirect(const char *text, struct rdl__redirect *ret)
{
    int at = 0;

    return sscanf(text, "%*s %u %n", &ret->slot, &at) == 1 && at > 0 && ret->slot < RDL__SLOTS &&
           read_address(text + at, ret);
}

struct rdl__redirect rdl__redirect_of(const struct rdl__reply *reply)
{
    struct rdl__redirect found = {.what = RDL__DETOUR_NONE};

    if (reply->type != RDL__REPLY_ERROR)
        return found;
    if (rdl__reply_is_error(reply, "MOVED"))
        found.what = RDL__DETOUR_MOVED;
    else if (rdl__reply_is_error(reply, "ASK"))
        found.what = RDL__DETOUR_ASK;
    else if (rdl__reply_is_error(reply, "TRYAGAIN") || rdl__reply_is_error(reply, "CLUSTERDOWN") ||
             strstr(reply->str, "attempted to access a non local key") != NULL ||
             strstr(reply->str, "while the cluster is down") != NULL)
        found.what = RDL__DETOUR_LATER;
    if ((found.what == RDL__DETOUR_MOVED || found.what == RDL__DETOUR_ASK) && !read_redirect(reply->str, &found))
        return (struct rdl__redirect){.what = RDL__DETOUR_LATER};
    return found;
}

/* ---- the map ---------------------------------------------------------------------------------------------------- */

static bool says(const struct rdl__reply *r, const char *word)
{
    return r->type == RDL__REPLY_STRING && strcmp(r->str, word) == 0;
}

/* The address that a member without the name it should have tells beside, in a list of names and values; empty: it does
 * not. */
static const char *address_beside(const struct rdl__reply *r)
{
    const struct rdl__reply *told = rdl__reply_at(r, BESIDE);

    for (size_t i = 0; rdl__reply_at(told, i + 1) != NULL; i += 2)
        if (says(rdl__reply_at(told, i), "ip") && rdl__reply_at(told, i + 1)->type == RDL__REPLY_STRING)
            return rdl__reply_at(told, i + 1)->str;
    return "";
}

/* {host, port, id, what else is told of it} */
static bool read_member(const struct rdl__reply *r, struct rdl__slot_node *ret)
{
    const struct rdl__reply *host = rdl__reply_at(r, 0), *id = rdl__reply_at(r, 2);
    int64_t port;

    if (host == NULL || (host->type != RDL__REPLY_STRING && host->type != RDL__REPLY_NIL) || id == NULL ||
        id->type != RDL__REPLY_STRING || id->len == 0 || id->len >= RDL__NODE_ID_MAX ||
        !rdl__reply_integer(rdl__reply_at(r, 1), &port) || port < 0 || port > PORT_MOST)
        return false;
    ret->host = host->type != RDL__REPLY_STRING ? "" : says(host, "?") ? address_beside(r) : host->str;
    ret->port = (int)port;
    ret->id = id->str;
    return true;
}

bool rdl__slot_range_at(const struct rdl__reply *slots, size_t i, struct rdl__slot_range *ret)
{
    const struct rdl__reply *r = rdl__reply_at(slots, i);
    int64_t first, last;

    if (r == NULL || rdl__reply_at(r, BEFORE_MEMBERS) == NULL || !rdl__reply_integer(rdl__reply_at(r, 0), &first) ||
        !rdl__reply_integer(rdl__reply_at(r, 1), &last) || first < 0 || last < first || last >= RDL__SLOTS ||
        !read_member(rdl__reply_at(r, BEFORE_MEMBERS), &ret->master))
        return false;
    ret->first = (unsigned)first;
    ret->last = (unsigned)last;
    ret->members = r;
    return true;
}

bool rdl__slot_range_replica(const struct rdl__slot_range *range, size_t i, struct rdl__slot_node *ret)
{
    const struct rdl__reply *r = rdl__reply_at(range->members, BEFORE_MEMBERS + 1 + i);

    return r != NULL && read_member(r, ret);
}
