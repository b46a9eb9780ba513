/* SPDX-License-Identifier: MIT */
/* line_server.h - the server of the enumeration of the line (enumerate_line.h): the product's Lua on the keyspace.
 *
 * Its states and the commands that are sent to it are numbered; what came of each command in each state, with the same
 * listeners, is remembered. Its clock stands still, so nothing expires by itself.
 */
#ifndef TESTS_SCRIPT_LINE_SERVER_H
#define TESTS_SCRIPT_LINE_SERVER_H

#include "tests/script/keyspace.h"

#include <stdbool.h>
#include <stdint.h>

#define LINE_NAME "N"
#define LINE_CHANNEL "redisson_lock__channel:{" LINE_NAME "}"
#define LINE_CLIENTS 4
#define LINE_UUID 36
#define LINE_FIRST_N INT64_C(1000000000000000) /* of 16 digits: its release reads the line */
#define LINE_TELLS 8                           /* messages that one command may publish */
#define LINE_JAVA LINE_CLIENTS                 /* stands for that client's number */
#define LINE_NOBODY 0xff

/* Who listens: a bit for each client's own channel, and for each that listens on the lock's. */
#define LISTENS_OWN(client) (1u << (client))
#define LISTENS_ALL(client) (1u << (LINE_CLIENTS + (client))) /* also of LINE_JAVA */

/* What is said, and on which channel. */
enum line_said {
    SAID_ACK_OWN = 1, /* these two by the server itself */
    SAID_ACK_ALL,
    SAID_OWN_0,
    SAID_OWN_3,
    SAID_OWN_4,
    SAID_ALL_0,
    SAID_ALL_2,
    SAID_RECALL = 0x40, /* and the hold's number */
};

struct line_tell {
    uint8_t to; /* a client; LINE_NOBODY: all who listen on the lock's channel */
    uint8_t what;
};

struct line_effect {
    uint32_t image; /* afterwards */
    int8_t answer;  /* of a release, -14 to 6; of a take LINE_GRANTED, LINE_REFUSED */
    uint8_t ear;    /* of a refusal: an enum rdl__ear */
    uint16_t look;  /* likewise: in so many ms the client is to look; 0: when the lease is over */
    uint8_t tells;
    struct line_tell tell[LINE_TELLS];
};

#define LINE_GRANTED 100
#define LINE_REFUSED 101

/* A part of a script that is left out, or replaced, to see what breaks without it. */
struct line_plant {
    const char *part, *by;
};

/* What is known of a state. */
struct line_facts {
    uint8_t holder; /* LINE_NOBODY: it is free */
    uint8_t n;      /* of its hold */
    bool line;      /* somebody stands in line, or is named there */
};

/* NULL: as it ships. State 0 is the empty keyspace. */
void line_server_open(const struct line_plant *plant);
void line_server_close(void);

/* The words of a command, a space between each: take, release, java_take or java_release, how many keys, keys, and
 * arguments. */
uint16_t line_command(const char *words);
const char *line_command_text(uint16_t command);
/* late: the microseconds of the server's clock, by which a release may say that it is others' turn, are odd. */
struct line_effect line_run(uint32_t image, uint16_t command, unsigned listeners, bool late);
struct line_facts line_facts(uint32_t image);
uint32_t line_lease_ends(uint32_t image); /* the lock is gone, and nobody says so */
const char *line_text(uint32_t image);    /* for people */

/* The client's id, and its number again. */
void line_uuid(char ret[LINE_UUID + 1], unsigned client);

#endif
