/* SPDX-License-Identifier: MIT */
/* fuzz_reader.c - any bytes as replies: the same ones however they are cut, and no more memory than a reply may take.
 *
 * An input is what a server says. */
#include "core/io/reader.h"

#include "tests/fuzz/fuzz.h"
#include "tests/support/resp.h"
#include "tests/support/wait.h"

#include <redlatch/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t allocated;

static void *count_alloc(size_t size, void *arg)
{
    (void)arg;
    allocated += size;
    return malloc(size);
}

static void count_free(void *block, size_t size, void *arg)
{
    (void)arg;
    allocated -= size;
    free(block);
}

static void add(struct bytes *to, const struct rdl__reply *r)
{
    char head[64];

    bytes_add(to, head,
              (size_t)snprintf(head, sizeof head, "%d:%d:%lld:%zu ", (int)r->type, (int)r->push, (long long)r->integer,
                               r->len));
    if (r->type == RDL__REPLY_STRING || r->type == RDL__REPLY_ERROR)
        bytes_add(to, r->str, r->len);
    for (size_t i = 0; r->type == RDL__REPLY_ARRAY && i < r->len; i++)
        add(to, r->elem[i]);
}

/* In pieces of that size: what comes out, and whether it went well. `quick`: integers by the way for those. */
static bool read_in(const uint8_t *data, size_t size, size_t piece, bool quick, struct bytes *out)
{
    const rdl_allocator_t hooks = {.alloc = count_alloc, .free = count_free};
    struct rdl__mem mem;
    struct rdl__reader *reader;
    const struct rdl__reply *reply = NULL;
    int rc = RDL_OK;

    rdl__mem_init(&mem, &hooks);
    allocated = 0;
    FUZZ_CLAIM((reader = rdl__reader_new(&mem, "x")) != NULL);
    for (size_t at = 0; at < size && rc == RDL_OK; at += piece) {
        const char *from = (const char *)data + at, *end = from + (size - at < piece ? size - at : piece);

        while (quick && rdl__reader_integer(reader, &from, end, &reply))
            add(out, reply);
        rc = rdl__reader_feed(reader, from, (size_t)(end - from));
        while (rc == RDL_OK && (rc = rdl__reader_next(reader, &reply)) == RDL_OK && reply != NULL)
            add(out, reply);
        FUZZ_CLAIM(allocated <= 2 * RDL__REPLY_BYTES_MAX);
    }
    FUZZ_CLAIM(rc == RDL_OK || rdl__reader_why(reader)[0] != '\0');
    (void)rdl__reader_free(reader);
    FUZZ_CLAIM(allocated == 0);
    return rc == RDL_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes whole = {0}, bytewise = {0}, cut = {0};
    bool well = read_in(data, size, size + 1, false, &whole), well_bytewise = read_in(data, size, 1, false, &bytewise);

    FUZZ_CLAIM(well == well_bytewise);
    FUZZ_CLAIM(whole.len == bytewise.len ||
               (!well && whole.len < bytewise.len)); /* of a piece that is bad nothing is given out */
    FUZZ_CLAIM(whole.len == 0 || memcmp(whole.at, bytewise.at, whole.len) == 0);
    if (well) { /* the way for integers takes more for one: 007 */
        FUZZ_CLAIM(read_in(data, size, 7, true, &cut) && cut.len == whole.len);
        FUZZ_CLAIM(whole.len == 0 || memcmp(whole.at, cut.at, cut.len) == 0);
    }
    bytes_done(&whole);
    bytes_done(&bytewise);
    bytes_done(&cut);
    return 0;
}
