/* SPDX-License-Identifier: MIT */
/* test_ident.c - identities on the wire (wire.md, Identity). */
#include "core/wire/ident.h"

#include <criterion/criterion.h>
#include <redlatch/error.h>
#include <string.h>

TestSuite(ident, .timeout = 10);

Test(ident, uuid_is_36_lower_case_characters_of_version_4)
{
    for (int round = 0; round < 200; round++) {
        struct rdl__uuid u;

        cr_assert_eq(rdl__uuid_make(&u), RDL_OK);
        cr_assert_eq(strlen(u.text), RDL__UUID_LEN);
        for (int i = 0; i < RDL__UUID_LEN; i++) {
            bool dash = i == 8 || i == 13 || i == 18 || i == 23;

            cr_assert(dash ? u.text[i] == '-' : strchr("0123456789abcdef", u.text[i]) != NULL);
        }
        cr_assert_eq(u.text[14], '4');
        cr_assert_not_null(strchr("89ab", u.text[19]));
    }
}

Test(ident, no_two_uuids_are_alike)
{
    enum { COUNT = 300 };
    static struct rdl__uuid made[COUNT];

    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(rdl__uuid_make(&made[i]), RDL_OK);
        for (int j = 0; j < i; j++)
            cr_assert_str_neq(made[i].text, made[j].text);
    }
}

Test(ident, field_is_the_uuid_and_the_number)
{
    static const struct rdl__uuid u = {.text = "8e03978e-40d5-43e8-bc93-6894a57f9324"};
    static const struct {
        int64_t n;
        const char *field;
    } cases[] = {
        {.n = 0, .field = "8e03978e-40d5-43e8-bc93-6894a57f9324:0"},
        {.n = 42, .field = "8e03978e-40d5-43e8-bc93-6894a57f9324:42"},
        {.n = -1, .field = "8e03978e-40d5-43e8-bc93-6894a57f9324:-1"},
        {.n = INT64_MAX, .field = "8e03978e-40d5-43e8-bc93-6894a57f9324:9223372036854775807"},
        {.n = INT64_MIN, .field = "8e03978e-40d5-43e8-bc93-6894a57f9324:-9223372036854775808"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char to[RDL__FIELD_MAX + 1];
        size_t len;

        memset(to, '#', sizeof to);
        len = rdl__field(to, &u, cases[i].n);
        cr_assert_eq(len, strlen(cases[i].field));
        cr_assert_arr_eq(to, cases[i].field, len);
        cr_assert_eq(to[len], '#');
    }
}
