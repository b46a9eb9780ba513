/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/access.h"

#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/text.h"

#include <stdlib.h>
#include <string.h>

int access_json(void *to, const char *text, struct usage_error *why)
{
    (void)text;
    (void)why;
    ((struct access *)to)->json = true;
    return 0;
}

int access_server(void *to, const char *text, struct usage_error *why)
{
    if (text[0] == '\0')
        return usage_fail(why, "--server: URI is empty");
    ((struct access *)to)->server = (char *)text; /* argv's strings are a program's own to change */
    return 0;
}

int access_cacert(void *to, const char *text, struct usage_error *why)
{
    struct access *a = to;

    (void)why;
    a->tls = true;
    a->files.ca_file = text;
    return 0;
}

int access_cert(void *to, const char *text, struct usage_error *why)
{
    struct access *a = to;

    (void)why;
    a->tls = true;
    a->files.cert_file = text;
    return 0;
}

int access_key(void *to, const char *text, struct usage_error *why)
{
    struct access *a = to;

    (void)why;
    a->tls = true;
    a->files.key_file = text;
    return 0;
}

int access_insecure(void *to, const char *text, struct usage_error *why)
{
    struct access *a = to;

    (void)text;
    (void)why;
    a->tls = a->files.insecure = true;
    return 0;
}

int access_help(void *to, const char *text, struct usage_error *why)
{
    (void)text;
    (void)why;
    ((struct access *)to)->asked = ASKED_HELP;
    return 0;
}

int access_version(void *to, const char *text, struct usage_error *why)
{
    (void)text;
    (void)why;
    ((struct access *)to)->asked = ASKED_VERSION;
    return 0;
}

int access_parse(const struct option_row *rows, size_t count, int argc, char *const argv[], const char *word,
                 struct access *a, struct usage_error *why)
{
    int first = options_parse(rows, count, argc, argv, a, why), more, len = (int)strcspn(word + (word[0] == '['), "]");
    const char *what = word + (word[0] == '[');

    if (first < 0 || a->asked != ASKED_NOTHING)
        return first < 0 ? -1 : 0;
    if (first >= argc)
        return word[0] == '[' ? 0 : usage_fail(why, "%s is missing", what);
    if (argv[first][0] == '\0')
        return usage_fail(why, "%.*s is empty", len, what);
    a->word = argv[first];
    if ((more = options_parse(rows, count, argc - first, argv + first, a, why)) < 0)
        return -1;
    return a->asked != ASKED_NOTHING || first + more >= argc
               ? 0
               : usage_fail(why, "one %.*s is wanted, and there are two", len, what);
}

int access_failed(const rdl_err_t *err)
{
    text_say("%s", err->message[0] != '\0' ? err->message : rdl_strerror(err->code));
    return exitcode_of_error(err->code, EXITCODE_TROUBLE);
}

/* As a session says it. */
int access_not_opened(const struct access *a, const rdl_err_t *err)
{
    const char *where = a->server == NULL ? "REDLATCH_SERVER" : a->server == a->word ? "URI" : "--server";

    if (err->code != RDL_EINVAL)
        return access_failed(err);
    text_say("the address in %s%s is wrong: %s", where, a->tls ? ", or an option for TLS," : "", err->message);
    return EXITCODE_USAGE;
}

void access_options(const struct access *a, rdl_client_options_t *options)
{
    options->tls = a->tls ? &a->files : NULL;
    options->sentinel_username = getenv("REDLATCH_SENTINEL_USERNAME");
    options->sentinel_password = getenv("REDLATCH_SENTINEL_PASSWORD");
}

int access_open(const struct access *a, rdl_client_t **ret_client)
{
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_err_t err = {0};
    int status = EXITCODE_TROUBLE;
    char *uri = server_find(a->server, &status);

    if (uri == NULL)
        return status;
    access_options(a, &options);
    options.connections = 1;
    options.connect_timeout_ms = a->connect_ms;
    status = rdl_client_open(uri, &options, ret_client, &err) < 0 ? access_not_opened(a, &err) : EXITCODE_OK;
    free(uri);
    return status;
}
