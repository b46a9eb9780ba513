/* SPDX-License-Identifier: MIT */
/* keyspace.h - what a Redis server does with keys and scripts, in memory, without a server and without a clock.
 *
 * The simulator and the enumeration run the product's own Lua on it, by a real Lua 5.1. It answers as Redis 7.0 does,
 * down to the conversions between Lua and replies and to the first words of errors; test_keyspace.c holds it against a
 * real server. It has one database, no connections, no replication and no memory limit. Commands are those in
 * keyspace_commands.c; what a script may not call, and all else that belongs to a connection, is the business of
 * whoever stands for the server.
 *
 * Time is told to it, and stands still during a command, as in Redis. A key whose time is over is gone when it is next
 * touched; nothing announces it. As in Redis a key is still there in the millisecond in which its time ends.
 *
 * One keyspace belongs to one thread at a time; any number of them may live side by side. Lack of memory ends the test.
 */
#ifndef TESTS_SCRIPT_KEYSPACE_H
#define TESTS_SCRIPT_KEYSPACE_H

#include "tests/support/resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keyspace;

/* Text of a script's name, with its NUL. */
#define KS_SHA_SIZE 41

/* An empty keyspace. `now_us` is what its TIME says, microseconds since 1970. */
struct keyspace *ks_new(int64_t now_us);
struct keyspace *ks_free(struct keyspace *ks); /* NULL is fine; returns NULL */

int64_t ks_time(const struct keyspace *ks);
void ks_set_time(struct keyspace *ks, int64_t now_us); /* either way: clocks are stepped */
void ks_advance(struct keyspace *ks, int64_t us);

/* Called for each PUBLISH and SPUBLISH, inside the command; answers how many subscribers got the message. Must not use
 * the keyspace. NULL takes it off: nobody listens. */
typedef int64_t (*ks_publish_fn)(void *arg, bool sharded, const char *channel, size_t channel_len, const char *payload,
                                 size_t payload_len);
void ks_on_publish(struct keyspace *ks, ks_publish_fn fn, void *arg);

/* Run one command. `len` may be NULL: C strings. The answer is the caller's, to be freed with reply_free. */
struct reply *ks_command(struct keyspace *ks, size_t argc, const char *const *argv, const size_t *len);

/* The same for words that are C strings: ks_say(ks, "SET", "name", "value"). */
struct reply *ks_say_(struct keyspace *ks, const char *first, ...) __attribute__((sentinel));
#define ks_say(ks, ...) ks_say_(ks, __VA_ARGS__, (const char *)NULL)

/* SCRIPT LOAD. A body that does not compile ends the test. */
void ks_load(struct keyspace *ks, const char *body, size_t body_len, char ret_sha[KS_SHA_SIZE]);

/* The same of tests/script/naive/NAME.lua. Dies if it cannot be read. */
void ks_load_planted(struct keyspace *ks, const char *name, char ret_sha[KS_SHA_SIZE]);

/* Refuse what scripts call, as ACL does: the nth call of each run (1 is the first; 0: none), and every call of this
 * command (NULL: none). The names are those of the last run's calls, in order, and are the keyspace's. */
void ks_refuse(struct keyspace *ks, size_t nth, const char *command);
size_t ks_calls(const struct keyspace *ks);
const char *ks_called(const struct keyspace *ks, size_t nth);

/* The keys as text, in order: a line for each value, field, element or member, `name<TAB>what`, and for each key one
 * that ends in its time to live in ms, or -1. The caller frees it. */
char *ks_text(struct keyspace *ks);

/* ---- the whole state, for searching ------------------------------------------------------------------------------ */

/* An image holds time and keys, not the loaded scripts. Two states have equal images if no command can tell them apart:
 * keys are in order of their names, and what is over is left out. Fields of a hash are in order of arrival, since small
 * hashes of Redis show that order. */
void ks_save(struct keyspace *ks, struct bytes *to); /* appends */
void ks_restore(struct keyspace *ks, const char *image, size_t len);

/* A hash of bytes, for tables of images. */
uint64_t ks_hash(const void *at, size_t len);

#endif
