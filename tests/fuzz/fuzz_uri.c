/* SPDX-License-Identifier: MIT */
/* fuzz_uri.c - whatever text stands where a URI should: an answer with sound parts, or an error with a place; no leak.
 */
#include "core/wire/uri.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_CAP = 8192 };

static bool is_line(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    }
    return true;
}

/* What is shown of a server can be read back as the same server, unless its name has bytes that are no text: a question
 * mark stands for each of these, which no host has. */
static void claim_node_reads_back(const struct rdl__mem *mem, const struct rdl__uri *uri)
{
    static char node[NODE_CAP];
    char *text;
    struct rdl__uri again;

    rdl__uri_node(uri, node, sizeof node);
    FUZZ_CLAIM(is_line(node));
    if (uri->scheme != RDL__SCHEME_TCP || strchr(uri->host, '%') != NULL || strchr(node, '?') != NULL)
        return;
    text = must_format("redis://%s", node);
    FUZZ_CLAIM(rdl__uri_parse(mem, text, &again, NULL) == RDL_OK);
    FUZZ_CLAIM(strcmp(again.host, uri->host) == 0 && again.port == uri->port);
    rdl__uri_done(&again);
    free(text);
}

static void claim_address(const char *host, int port)
{
    FUZZ_CLAIM(port >= 1 && port <= 65535);
    FUZZ_CLAIM(host[0] != '\0' && is_line(host) && strpbrk(host, " /?#@[]") == NULL);
}

static void claim_sound(const struct rdl__uri *uri)
{
    FUZZ_CLAIM(uri->db >= 0);
    if (uri->scheme == RDL__SCHEME_UNIX) {
        FUZZ_CLAIM(uri->host[0] == '/' && strlen(uri->host) <= 107);
        return;
    }
    if (uri->scheme == RDL__SCHEME_TCP) {
        claim_address(uri->host, uri->port);
        return;
    }
    if (uri->scheme == RDL__SCHEME_CLUSTER)
        FUZZ_CLAIM(uri->master == NULL && uri->db == 0);
    else
        FUZZ_CLAIM(uri->master[0] != '\0');
    FUZZ_CLAIM(uri->host == NULL && uri->seed_count >= 1 && uri->seed_count <= RDL__SEEDS_MAX);
    for (unsigned i = 0; i < uri->seed_count; i++)
        claim_address(uri->seeds[i].host, uri->seeds[i].port);
}

static void claim_place(const rdl_err_t *err, size_t len)
{
    const char *place = strstr(err->message, " at character ");
    char *end = NULL;
    unsigned long at = place != NULL ? strtoul(place + strlen(" at character "), &end, 10) : 0;

    FUZZ_CLAIM(err->code == RDL_EINVAL && is_line(err->message));
    FUZZ_CLAIM(at >= 1 && at <= len + 1 && *end == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct counting_alloc counting;
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    char *text = must_alloc(size + 1);
    struct rdl__mem mem;
    struct rdl__uri uri;
    rdl_err_t err = {0};
    int rc;

    memcpy(text, data, size);
    rdl__mem_init(&mem, &hooks);
    if (rdl__uri_parse(&mem, text, &uri, &err) == RDL_OK) {
        claim_sound(&uri);
        claim_node_reads_back(&mem, &uri);
        rdl__uri_done(&uri);
    } else {
        claim_place(&err, strlen(text));
    }
    FUZZ_CLAIM(counting_alloc_blocks(&counting) == 0);
    counting_alloc_fail_at(&counting, 1 + (int64_t)(size % 3));
    if ((rc = rdl__uri_parse(&mem, text, &uri, &err)) == RDL_OK)
        rdl__uri_done(&uri);
    FUZZ_CLAIM(rc == RDL_OK || rc == RDL_EINVAL || rc == RDL_ENOMEM);
    FUZZ_CLAIM(counting_alloc_blocks(&counting) == 0);
    counting_alloc_done(&counting);
    free(text);
    return 0;
}
