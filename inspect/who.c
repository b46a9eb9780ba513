/* SPDX-License-Identifier: MIT */
/* who.c - what clients say of themselves: descriptions (core/service/describe.h), in a cluster wherever the slot of
 * each is. */
#include "inspect/who.h"

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/service/describe.h"
#include "core/service/routing.h"
#include "inspect/ask.h"
#include "inspect/look.h"

#define KEPT_MOST 4096

struct entry {
    struct rdl__table_node node;
    struct rdl__link link; /* of those wanted */
    unsigned slot;
    char id[RDL_CLIENT_ID_ROOM];
    rdl_description_t by;
};

/* What one request asks for. */
struct batch {
    struct entry *entry[RDL__ASK_MOST];
    unsigned n;
};

int rdl__who_init(struct rdl__who *who, rdl_client_t *client)
{
    who->client = client;
    rdl__list_init(&who->wanted);
    return rdl__table_init(&who->known, &client->mem);
}

static void forget_all(struct rdl__who *who)
{
    struct rdl__table_node *node = rdl__table_next(&who->known, NULL), *next;

    for (; node != NULL; node = next) {
        struct entry *entry = rdl__container(node, struct entry, node);

        next = rdl__table_next(&who->known, node);
        rdl__table_remove(&who->known, node);
        rdl__free(&who->client->mem, entry, sizeof *entry);
    }
    rdl__list_init(&who->wanted);
}

void rdl__who_done(struct rdl__who *who)
{
    forget_all(who);
    rdl__table_done(&who->known);
}

static void want(struct rdl__who *who, const char *id)
{
    char key[RDL__DESCRIBE_KEY_MAX];
    struct entry *entry;

    if (id[0] == '\0' || rdl__table_find(&who->known, id, RDL__UUID_LEN) != NULL ||
        (entry = rdl__zalloc(&who->client->mem, sizeof *entry)) == NULL)
        return;
    memcpy(entry->id, id, sizeof entry->id);
    entry->node.key = entry->id;
    entry->node.key_len = RDL__UUID_LEN;
    entry->slot = rdl__ask_slot_of(who->client, key, rdl__describe_key(key, id));
    rdl__table_add(&who->known, &entry->node);
    rdl__list_push_back(&who->wanted, &entry->link);
}

void rdl__who_want(struct rdl__who *who, const rdl_inspection_t *inspection)
{
    if (rdl__list_empty(&who->wanted) && who->known.count > KEPT_MOST)
        forget_all(who);
    for (size_t i = 0; i < inspection->holder_count; i++)
        want(who, inspection->holder[i].client);
    for (size_t i = 0; i < inspection->waiter_count; i++)
        want(who, inspection->waiter[i].client);
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

static void put(void *arg, unsigned i, struct rdl__buf *to, bool eval)
{
    const struct batch *batch = arg;

    (void)eval;
    rdl__describe_ask(to, batch->entry[i]->id);
}

static void show(char *to, size_t room, const char *text)
{
    (void)rdl__printable(to, room, text, strlen(text));
}

static void take(void *arg, unsigned i, const struct rdl__reply *reply)
{
    rdl_description_t *by = &((const struct batch *)arg)->entry[i]->by;
    struct rdl__description said;

    *by = (rdl_description_t){.known = rdl__describe_decode(reply, &said), .pid = said.pid, .start_ms = said.start_ms};
    show(by->host, sizeof by->host, said.host);
    show(by->program, sizeof by->program, said.program);
    show(by->version, sizeof by->version, said.version);
    show(by->label, sizeof by->label, said.label);
    show(by->info, sizeof by->info, said.info);
}

/* Those of one server that are wanted, RDL__ASK_MOST at most. */
static void ask_some(struct rdl__who *who)
{
    struct batch batch = {.n = 0};
    struct rdl__shard *shard = NULL;
    struct rdl__link *link = who->wanted.next;

    while (link != &who->wanted && batch.n < RDL__ASK_MOST) {
        struct entry *entry = rdl__container(link, struct entry, link);
        struct rdl__shard *its = rdl__client_shard(who->client, entry->slot);

        link = link->next;
        if (shard != NULL && its != shard)
            continue;
        shard = its;
        rdl__list_remove(&entry->link);
        batch.entry[batch.n++] = entry;
    }
    (void)rdl__ask_shard(who->client, shard, &(struct rdl__ask){batch.n, put, take, &batch}, NULL);
}

void rdl__who_ask(struct rdl__who *who)
{
    while (!rdl__list_empty(&who->wanted))
        ask_some(who);
}

static void tell(const struct rdl__who *who, const char *id, rdl_description_t *by)
{
    const struct rdl__table_node *node = rdl__table_find(&who->known, id, RDL__UUID_LEN);

    if (id[0] != '\0' && node != NULL)
        *by = rdl__container(node, struct entry, node)->by;
}

void rdl__who_tell(const struct rdl__who *who, rdl_inspection_t *inspection)
{
    for (size_t i = 0; i < inspection->holder_count; i++)
        tell(who, inspection->holder[i].client, &rdl__inspection_holders(inspection)[i].by);
    for (size_t i = 0; i < inspection->waiter_count; i++)
        tell(who, inspection->waiter[i].client, &rdl__inspection_waiters(inspection)[i].by);
}
