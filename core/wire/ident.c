/* SPDX-License-Identifier: MIT */
/* ident.c - identities on the wire. */
#include "core/wire/ident.h"

#include "core/base/entropy.h"
#include "core/wire/buf.h"

#include <redlatch/error.h>
#include <string.h>

int rdl__uuid_make(struct rdl__uuid *uuid)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bytes[16];
    char *at = uuid->text;
    int rc;

    if ((rc = rdl__entropy(bytes, sizeof bytes)) < 0)
        return rc;
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40); /* version 4: random */
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80); /* the variant of RFC 4122 */
    for (size_t i = 0; i < sizeof bytes; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = hex[bytes[i] >> 4];
        *at++ = hex[bytes[i] & 0xf];
    }
    *at = '\0';
    return RDL_OK;
}

size_t rdl__field(char *to, const struct rdl__uuid *uuid, int64_t n)
{
    memcpy(to, uuid->text, RDL__UUID_LEN);
    to[RDL__UUID_LEN] = ':';
    return RDL__UUID_LEN + 1 + rdl__itoa(to + RDL__UUID_LEN + 1, n);
}

_Static_assert(RDL__UUID_LEN >= 10 && RDL__FIELD_MAX <= 99, "rdl__cmd_open");

void rdl__cmd_field(struct rdl__buf *b, const struct rdl__uuid *uuid, int64_t n)
{
    char *field = rdl__cmd_open(b, RDL__FIELD_MAX);

    if (field != NULL)
        rdl__cmd_close(b, rdl__field(field, uuid, n));
}
