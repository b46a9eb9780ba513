/* SPDX-License-Identifier: MIT */
/* fuzz_args.c - whatever somebody types behind `redlatch run`: options that make sense, or one line that says what is
 * wrong.
 *
 * The input is the arguments, each ended by a NUL. */
#include "tests/fuzz/fuzz.h"
#include "tests/support/wait.h"
#include "tools/redlatch/duration.h"
#include "tools/redlatch/run_options.h"
#include "tools/redlatch/server.h"

#include <stdlib.h>
#include <string.h>

enum { ARGS_MAX = 64 };

static void claim_line(const char *text)
{
    FUZZ_CLAIM(text[0] != '\0');
    for (; *text != '\0'; text++)
        FUZZ_CLAIM(*text >= 0x20 && *text < 0x7f);
}

static bool is_time(int64_t ms, int64_t min_ms)
{
    return ms >= min_ms && ms <= DURATION_MAX_MS;
}

/* What is shown of the address has no user or password in it, and is the same when argv has been cleaned. A path has
 * neither. */
static void claim_no_secret(char *server)
{
    bool path = strncmp(server, "unix:/", 6) == 0 && (server[6] != '/' || server[7] == '/');
    char before[TEXT_SAFE_CAP];
    char after[TEXT_SAFE_CAP];

    FUZZ_CLAIM(strchr(server_label(server, before), '@') == NULL || path);
    server_hide_secret(server);
    FUZZ_CLAIM(strcmp(server_label(server, after), before) == 0);
}

static void claim_sound(const struct run_options *o)
{
    FUZZ_CLAIM(o->name_count >= 1 && o->name_count <= NAMES_MAX);
    for (size_t i = 0; i < o->name_count; i++)
        FUZZ_CLAIM(o->names[i][0] != '\0' && strlen(o->names[i]) <= NAMES_LEN_MAX);
    FUZZ_CLAIM((o->command == NULL) != (o->shell == NULL));
    FUZZ_CLAIM(o->command == NULL || o->command[0] != NULL);
    FUZZ_CLAIM(o->wait_ms == RDL_WAIT_FOREVER || is_time(o->wait_ms, 0));
    FUZZ_CLAIM(o->lease_ms == 0 || is_time(o->lease_ms, 30));
    FUZZ_CLAIM(is_time(o->max_hold_ms, 0) && is_time(o->grace_ms, 0));
    FUZZ_CLAIM(o->conflict_code >= 0 && o->conflict_code <= 255);
    FUZZ_CLAIM(o->type == lock_type_shared() || o->type == lock_type_exclusive() ||
               (o->type != NULL && lock_type_find(o->type->name) == o->type));
    FUZZ_CLAIM(o->permits >= 0 && o->permits <= PERMITS_MAX);
    FUZZ_CLAIM(o->redlock == NULL || (o->server == NULL && o->permits == 0 && o->name_count == 1));
    if (o->server != NULL)
        claim_no_secret(o->server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = must_alloc(size + 1);
    char *argv[ARGS_MAX + 2] = {(char *)"run"};
    struct run_options options;
    struct usage_error why;
    int argc = 1;

    memcpy(text, data, size);
    for (size_t at = 0; at < size && argc <= ARGS_MAX; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    if (run_options_parse(argc, argv, &options, &why) < 0)
        claim_line(why.text);
    else if (options.asked == ASKED_NOTHING)
        claim_sound(&options);
    free(text);
    return 0;
}
