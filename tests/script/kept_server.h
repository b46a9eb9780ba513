/* SPDX-License-Identifier: MIT */
/* kept_server.h - the server of the enumeration of kept locks (enumerate_kept.h): the product's Lua on the keyspace.
 *
 * Its states and the commands that are sent to it are numbered; each command is run on each state once, and what came
 * of it remembered. No lease ends by itself: who holds renews, and server_leases_end is the end of those of the dead.
 */
#ifndef TESTS_SCRIPT_KEPT_SERVER_H
#define TESTS_SCRIPT_KEPT_SERVER_H

#include "tests/script/keyspace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEPT_NAME "N"
#define KEPT_LEASE_MS 5000 /* every lease */
#define KEPT_RECALLS 4     /* that one command may say */
#define KEPT_FIELD 64      /* bytes of a hold's field, its NUL among them */

struct server_recall {
    char client; /* the first letter of its id */
    uint8_t n;   /* of its hold, without the sign */
};

struct server_effect {
    uint32_t image; /* afterwards */
    int64_t answer;
    bool woke; /* something was published on the lock's channel */
    uint8_t recalls;
    struct server_recall recall[KEPT_RECALLS];
};

/* The digest of tests/script/naive/NAME.lua, which stands for another implementation's. It is loaded again each time.
 */
void server_load(const char *name, char ret_sha[KS_SHA_SIZE]);

void server_open(void);
void server_close(void);

/* The number of a command, as it is sent: one array of words. State 0 is the empty keyspace. */
uint16_t server_command(const char *frame, size_t len);
struct server_effect server_run(uint32_t image, uint16_t command);

bool server_has(uint32_t image, const char *field);
bool server_is_empty(uint32_t image);    /* of every key */
const char *server_text(uint32_t image); /* the fields of the lock, for people */

/* The leases of these fields end, while those of all others are renewed. */
uint32_t server_leases_end(uint32_t image, const char dead[][KEPT_FIELD], size_t count);

#endif
