/* SPDX-License-Identifier: MIT */
/* access.h - the server of a subcommand that looks at one or changes something there, and the options that say which.
 *
 * Such a subcommand's struct begins with a struct access, its table of options has ACCESS_ROWS, and ACCESS_JSON where
 * it knows --json.
 */
#ifndef REDLATCH_TOOL_ACCESS_H
#define REDLATCH_TOOL_ACCESS_H

#include "tools/redlatch/options.h"

#include <redlatch/client.h>
#include <redlatch/error.h>
#include <stdbool.h>

struct access {
    enum asked asked;
    bool json;
    char *word;   /* in argv: the NAME, PATTERN or URI; NULL: not given */
    char *server; /* in argv; NULL: not given */
    bool tls;     /* any of the next was given */
    rdl_tls_options_t files;
    int64_t connect_ms; /* bound on reaching the server; 0: the library's */
};

#define ACCESS_INIT                                                                                                    \
    {                                                                                                                  \
        .files = RDL_TLS_OPTIONS_INIT                                                                                  \
    }

int access_json(void *to, const char *text, struct usage_error *why);
int access_server(void *to, const char *text, struct usage_error *why);
int access_cacert(void *to, const char *text, struct usage_error *why);
int access_cert(void *to, const char *text, struct usage_error *why);
int access_key(void *to, const char *text, struct usage_error *why);
int access_insecure(void *to, const char *text, struct usage_error *why);
int access_help(void *to, const char *text, struct usage_error *why);
int access_version(void *to, const char *text, struct usage_error *why);

#define ACCESS_JSON(help)                                                                                              \
    {                                                                                                                  \
        '\0', "json", NULL, help, access_json                                                                          \
    }

#define ACCESS_ROWS                                                                                                    \
    {'\0', "server", "URI", "as for run, like the next", access_server},                                               \
        {'\0', "cacert", "FILE", "certificates of those who may vouch for a rediss:// server", access_cacert},         \
        {'\0', "cert", "FILE", "our own certificate, for a server that wants one", access_cert},                       \
        {'\0', "key", "FILE", "and its key, without a passphrase", access_key},                                        \
        {'\0', "insecure", NULL, "believe any rediss:// server; for tests only", access_insecure},                     \
        {'h', "help", NULL, "show this help", access_help},                                                            \
    {                                                                                                                  \
        'V', "version", NULL, "show the version", access_version                                                       \
    }

/* Read options, and the one word, before which or behind which they stand. `a` begins the subcommand's struct; `word`
 * is what help calls it, in brackets where it may be left out: "NAME", "[PATTERN]". Returns 0, or -1 with `why` filled
 * in.
 */
int access_parse(const struct option_row *rows, size_t count, int argc, char *const argv[], const char *word,
                 struct access *a, struct usage_error *why);

/* The client's options that `a` and the environment say: TLS, and credentials for sentinels. They point into both. */
void access_options(const struct access *a, rdl_client_options_t *options);

/* Connect. Returns EXITCODE_OK, or the exit status, and it was said why. */
int access_open(const struct access *a, rdl_client_t **ret_client);

/* Say why something could not be done, in the library's words. Returns the exit status. */
int access_failed(const rdl_err_t *err);

/* The same, of opening a client: where the address is wrong, which one. */
int access_not_opened(const struct access *a, const rdl_err_t *err);

#endif
