/* SPDX-License-Identifier: MIT */
/* names.c - names in a cluster: what has its keys in several slots, and what is taken together and lies apart. */
#include "core/wire/names.h"
#include "core/base/err.h"
#include "inspect/visit.h"

#include <stdio.h>
#include <string.h>

static const char apart[] =
    "A multi-lock of them asks one server after another, and is lost when one of these is: the others' locks with it.";

/* A name with whole braces. */
static void tell_split(const struct rdl__doctor *d, const char *server, const char *name)
{
    char shown[96], what[256];

    (void)rdl__printable(shown, sizeof shown, name, strlen(name));
    (void)rdl__line(what, sizeof what, "the keys of a lock called %s would lie in several slots", shown);
    rdl__tell_of(d, server, RDL_SEVERITY_CRITICAL, "names",
                 "A cluster has no lock of such a name: the client refuses it.",
                 "{orders}:42   # whole braces, with something in them; or none", what);
}

void rdl__doctor_names(const struct rdl__doctor *d, const char *server)
{
    const char *first = d->name_count > 0 ? d->names[0] : d->name, *other = NULL;
    char shown[2][96], what[320];
    bool split = false;

    if (first == NULL || d->reach.uri.scheme != RDL__SCHEME_CLUSTER)
        return;
    for (size_t i = 0; i == 0 || i < d->name_count; i++) {
        const char *name = i == 0 ? first : d->names[i];
        bool whole = rdl__name_one_slot(name, strlen(name));

        if (!whole)
            tell_split(d, server, name);
        else if (other == NULL && rdl__slot(name, strlen(name)) != rdl__slot(first, strlen(first)))
            other = name;
        split = split || !whole;
    }
    if (other != NULL) {
        (void)rdl__printable(shown[0], sizeof shown[0], first, strlen(first));
        (void)rdl__printable(shown[1], sizeof shown[1], other, strlen(other));
        (void)rdl__line(what, sizeof what, "%s and %s lie in different slots", shown[0], shown[1]);
        rdl__tell_of(d, server, RDL_SEVERITY_NOTE, "names", apart, "{orders}:1 {orders}:2   # the same tag in all",
                     what);
    } else if (!split) {
        rdl__tell_of(d, server, RDL_SEVERITY_OK, "names", "", "",
                     d->name_count > 1 ? "they lie in one slot" : "its keys lie in one slot");
    }
}

void rdl__doctor_untagged(const struct rdl__doctor *d, const char *server, long long untagged, int masters)
{
    char what[256];

    if (d->name_count > 1 || untagged < 2 || masters < 2)
        return;
    (void)rdl__line(what, sizeof what, "%lld locks have names without a hash tag, and lie at %d masters", untagged,
                    masters);
    rdl__tell_of(d, server, RDL_SEVERITY_NOTE, "names", apart,
                 "redlatch doctor --name NAME --name NAME   # whether these lie in one slot", what);
}
