/* SPDX-License-Identifier: MIT */
/* leftovers.c - what a list of all locks shows to the doctor: those that nothing will free, and names. */
#include "core/base/err.h"
#include "inspect/visit.h"

#include <redlatch/inspect.h>
#include <stdio.h>
#include <string.h>

#define KEYS_MAX 10000 /* no more are gone through, about */

struct leftovers {
    long long keys, locks, endless, untagged;
    bool more;       /* there are keys that were not looked at */
    char first[128]; /* the name of one without a lease */
};

/* Holds of locks end; permits and latches may be for ever. */
static bool is_endless(const rdl_inspection_t *found)
{
    bool lock = strstr(found->type, "semaphore") == NULL && strcmp(found->type, "latch") != 0 &&
                strcmp(found->type, "counter") != 0;

    for (size_t i = 0; lock && i < found->holder_count; i++)
        if (found->holder[i].left_ms < 0)
            return true;
    return false;
}

static int on_lock(const rdl_inspection_t *found, const rdl_list_progress_t *progress, void *arg)
{
    struct leftovers *l = arg;

    l->keys = (long long)progress->keys;
    l->locks = (long long)progress->locks;
    l->more = progress->keys >= KEYS_MAX && progress->keys < progress->keys_total;
    if (found == NULL)
        return l->more;
    l->untagged += memchr(found->name, '{', found->name_len) == NULL;
    if (is_endless(found) && l->endless++ == 0)
        (void)rdl__printable(l->first, sizeof l->first, found->name, found->name_len);
    return 0;
}

static void tell_leftovers(const struct rdl__doctor *d, const char *server, const struct leftovers *l)
{
    const char *among = l->more ? ", among the first keys" : "";
    char what[512];

    if (l->endless > 0) {
        (void)rdl__line(what, sizeof what, "%lld lock%s held without a lease%s: %s", l->endless,
                        l->endless == 1 ? " is" : "s are", among, l->first);
        rdl__tell_of(d, server, RDL_SEVERITY_WARNING, "leases",
                     "When its holder dies it is held for ever. No lock of redlatch or Redisson is taken so: somebody "
                     "removed its time to live.",
                     "PEXPIRE NAME 30000   # where nobody renews it any more", what);
    }
    if (l->endless == 0) {
        (void)rdl__line(what, sizeof what, "%lld locks in %lld keys, all with a lease%s", l->locks, l->keys, among);
        rdl__tell_of(d, server, RDL_SEVERITY_OK, "leases", "", "", what);
    }
}

void rdl__doctor_leftovers(const struct rdl__doctor *d, const char *uri, const char *server)
{
    rdl_client_options_t options = d->reach.options;
    struct leftovers l = {.keys = 0};
    rdl_client_t *client = NULL;

    options.anonymous = true;
    if (rdl_client_open(uri, &options, &client, NULL) < 0) /* why, the other checks have said */
        return;
    if (rdl_list(client, NULL, on_lock, &l, NULL) >= 0) {
        tell_leftovers(d, server, &l);
        if (d->reach.uri.scheme == RDL__SCHEME_CLUSTER)
            rdl__doctor_untagged(d, server, l.untagged, rdl_masters(client, NULL, 0, NULL));
    }
    (void)rdl_client_close(client);
}
