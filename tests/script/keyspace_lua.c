/* SPDX-License-Identifier: MIT */
/* keyspace_lua.c - scripts: a Lua 5.1 that sees what Redis shows to scripts.
 *
 * A script is a compiled chunk, run again and again. Its globals are an empty table that may not be written, in front
 * of the real ones (`base`), where KEYS and ARGV are put before each run. The stack of the state is empty but for two
 * things that every run needs:
 *
 *   1   on_error, which adds to an error where in the script it happened
 *   2   base
 *
 * Conversions are Redis': integers become numbers, nil becomes false, a status {ok=} and an error {err=}; on the way
 * back a number is cut to an integer, true is 1, false and nil are nil, and an array ends at its first nil.
 */
#include "tests/script/keyspace_impl.h"
#include "tests/script/sha1.h"
#include "tests/support/wait.h"

#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ON_ERROR 1
#define BASE 2

/* ---- redis.call and its like ------------------------------------------------------------------------------------ */

static struct keyspace *keyspace_of(lua_State *lua)
{
    return lua_touserdata(lua, lua_upvalueindex(1));
}

/* {err = text} on the stack. */
static void push_error(lua_State *lua, const char *text)
{
    lua_createtable(lua, 0, 1);
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, "err");
}

/* A number as text, as printf's %.17g has it. */
static void number_to_text(lua_State *lua, int at)
{
    char text[40];
    lua_Number n = lua_tonumber(lua, at);
    int len;

    if (fabs(n) < 1e15 && n == (lua_Number)(long long)n && n != 0)
        len = snprintf(text, sizeof text, "%lld", (long long)n);
    else
        len = snprintf(text, sizeof text, "%.17g", n);
    lua_pushlstring(lua, text, (size_t)len);
    lua_replace(lua, at);
}

static void reserve_words(struct keyspace *ks, size_t count)
{
    if (count <= ks->word_cap)
        return;
    ks->word_cap = count * 2;
    ks->words = must_realloc(ks->words, ks->word_cap * sizeof(const char *));
    ks->word_len = must_realloc(ks->word_len, ks->word_cap * sizeof(size_t));
}

/* What is wrong with the arguments on the stack, or NULL: they are in ks->words. */
static const char *take_words(struct keyspace *ks, lua_State *lua, size_t count)
{
    if (count == 0)
        return "ERR Please specify at least one argument for this redis lib call";
    reserve_words(ks, count);
    for (size_t i = 0; i < count; i++) {
        int at = (int)i + 1;

        if (lua_type(lua, at) == LUA_TNUMBER)
            number_to_text(lua, at);
        else if (lua_type(lua, at) != LUA_TSTRING)
            return "ERR Lua redis lib command arguments must be strings or integers";
        ks->words[i] = lua_tolstring(lua, at, &ks->word_len[i]);
    }
    return NULL;
}

static void note_call(struct keyspace *ks)
{
    if (ks->called_count == ks->called_cap) {
        ks->called_cap = ks->called_cap == 0 ? 16 : ks->called_cap * 2;
        ks->called = must_realloc(ks->called, ks->called_cap * sizeof *ks->called);
    }
    (void)snprintf(ks->called[ks->called_count++], sizeof *ks->called, "%.*s", (int)ks->word_len[0], ks->words[0]);
}

/* Is the call that was noted last one that nobody may make? */
static bool is_refused(const struct keyspace *ks)
{
    return ks->called_count == ks->refuse_nth ||
           (ks->refuse_command != NULL && strcmp(ks->called[ks->called_count - 1], ks->refuse_command) == 0);
}

/* Run the command; its answer, or the error's table, is then on the stack. */
static bool call_command(lua_State *lua)
{
    struct keyspace *ks = keyspace_of(lua);
    size_t argc = (size_t)lua_gettop(lua);
    const char *wrong = take_words(ks, lua, argc);
    struct call c = {.ks = ks, .argc = argc, .argv = ks->words, .len = ks->word_len, .lua = lua};

    if (wrong != NULL) {
        push_error(lua, wrong);
        return false;
    }
    note_call(ks);
    if (is_refused(ks)) {
        push_error(lua, "ERR The user executing the script can't run this command or subcommand");
        return false;
    }
    run_command(&c);
    if (c.failed)
        push_error(lua, ks->error);
    return !c.failed;
}

static int redis_call(lua_State *lua)
{
    return call_command(lua) ? 1 : lua_error(lua);
}

static int redis_pcall(lua_State *lua)
{
    (void)call_command(lua);
    return 1;
}

/* An error reply has a code in front; a text without one gets ERR. */
static int redis_error_reply(lua_State *lua)
{
    const char *text;

    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
        push_error(lua, "ERR wrong number or type of arguments");
        return 1;
    }
    text = lua_tostring(lua, 1);
    if (text[0] == '-')
        text++;
    lua_pushfstring(lua, strchr(text, ' ') != NULL ? "%s" : "ERR %s", text);
    push_error(lua, lua_tostring(lua, -1));
    return 1;
}

static int redis_status_reply(lua_State *lua)
{
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
        push_error(lua, "ERR wrong number or type of arguments");
        return 1;
    }
    lua_createtable(lua, 0, 1);
    lua_pushvalue(lua, 1);
    lua_setfield(lua, -2, "ok");
    return 1;
}

static int redis_sha1hex(lua_State *lua)
{
    size_t len;
    const char *at = luaL_checklstring(lua, 1, &len);
    char sha[KS_SHA_SIZE];

    sha1_hex(at, len, sha);
    lua_pushstring(lua, sha);
    return 1;
}

static const luaL_Reg REDIS[] = {
    {"call", redis_call},       {"error_reply", redis_error_reply},   {"pcall", redis_pcall},
    {"sha1hex", redis_sha1hex}, {"status_reply", redis_status_reply},
};

/* ---- the state -------------------------------------------------------------------------------------------------- */

/* Any error becomes a table {err, source, line}. */
static int on_error(lua_State *lua)
{
    lua_Debug where;
    bool known = lua_getstack(lua, 1, &where) && lua_getinfo(lua, "Sl", &where);

    if (known && *where.what == 'C')
        known = lua_getstack(lua, 2, &where) && lua_getinfo(lua, "Sl", &where);
    if (!lua_istable(lua, 1)) {
        const char *text = lua_tostring(lua, 1);

        lua_pushfstring(lua, "ERR %s", text == NULL ? luaL_typename(lua, 1) : text);
        push_error(lua, lua_tostring(lua, -1));
        lua_replace(lua, 1);
        lua_settop(lua, 1);
    }
    if (known) {
        lua_pushstring(lua, where.source);
        lua_setfield(lua, 1, "source");
        lua_pushinteger(lua, where.currentline);
        lua_setfield(lua, 1, "line");
    }
    return 1;
}

static int no_such_global(lua_State *lua)
{
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'", lua_tostring(lua, 2));
}

static int no_new_global(lua_State *lua)
{
    return luaL_error(lua, "Attempt to modify a readonly table");
}

static int out_of_luck(lua_State *lua)
{
    die("keyspace: Lua: %s", lua_tostring(lua, -1));
}

static void open_libraries(lua_State *lua)
{
    static const luaL_Reg LIBRARIES[] = {{"", luaopen_base},
                                         {LUA_TABLIBNAME, luaopen_table},
                                         {LUA_STRLIBNAME, luaopen_string},
                                         {LUA_MATHLIBNAME, luaopen_math}};
    static const char *const NOT_FOR_SCRIPTS[] = {"dofile", "loadfile", "print"};

    for (size_t i = 0; i < sizeof LIBRARIES / sizeof LIBRARIES[0]; i++) {
        lua_pushcfunction(lua, LIBRARIES[i].func);
        lua_pushstring(lua, LIBRARIES[i].name);
        lua_call(lua, 1, 0);
    }
    for (size_t i = 0; i < sizeof NOT_FOR_SCRIPTS / sizeof NOT_FOR_SCRIPTS[0]; i++) {
        lua_pushnil(lua);
        lua_setglobal(lua, NOT_FOR_SCRIPTS[i]);
    }
}

/* base.redis */
static void open_redis(struct keyspace *ks)
{
    lua_State *lua = ks->lua;

    lua_newtable(lua);
    for (size_t i = 0; i < sizeof REDIS / sizeof REDIS[0]; i++) {
        lua_pushlightuserdata(lua, ks);
        lua_pushcclosure(lua, REDIS[i].func, 1);
        lua_setfield(lua, -2, REDIS[i].name);
    }
    lua_setfield(lua, BASE, "redis");
}

/* What scripts have as their globals, on the stack. */
static void push_globals(lua_State *lua)
{
    lua_newtable(lua);
    lua_newtable(lua);
    lua_pushvalue(lua, BASE);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, no_new_global);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, -2);
}

void lua_open_keyspace(struct keyspace *ks)
{
    lua_State *lua = luaL_newstate();

    if (lua == NULL)
        die("keyspace: no memory for Lua");
    ks->lua = lua;
    lua_atpanic(lua, out_of_luck);
    open_libraries(lua);
    lua_settop(lua, 0);
    lua_pushcfunction(lua, on_error);
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    open_redis(ks);

    lua_newtable(lua);
    lua_pushcfunction(lua, no_such_global);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, BASE);

    push_globals(lua);
    lua_replace(lua, LUA_GLOBALSINDEX); /* chunks compiled from now on have these */
}

void lua_close_keyspace(struct keyspace *ks)
{
    scripts_flush(ks);
    lua_close(ks->lua);
}

/* ---- scripts ---------------------------------------------------------------------------------------------------- */

const struct script *script_find(const struct keyspace *ks, const char *sha, size_t len)
{
    const struct script *s = ks->scripts;
    char lower[KS_SHA_SIZE - 1];

    if (len != sizeof lower)
        return NULL;
    for (size_t i = 0; i < len; i++)
        lower[i] = (char)(sha[i] >= 'A' && sha[i] <= 'Z' ? sha[i] | 0x20 : sha[i]);
    while (s != NULL && memcmp(s->sha, lower, len) != 0)
        s = s->next;
    return s;
}

const struct script *script_load(struct call *c, const char *body, size_t len)
{
    struct keyspace *ks = c->ks;
    char sha[KS_SHA_SIZE];
    const struct script *known;
    struct script *s;

    sha1_hex(body, len, sha);
    if ((known = script_find(ks, sha, strlen(sha))) != NULL)
        return known;
    if (luaL_loadbuffer(ks->lua, body, len, "@user_script") != 0) {
        answer_error(c, "ERR Error compiling script (new function): %s", lua_tostring(ks->lua, -1));
        lua_settop(ks->lua, BASE);
        return NULL;
    }
    s = must_alloc(sizeof *s);
    memcpy(s->sha, sha, sizeof sha);
    s->function = luaL_ref(ks->lua, LUA_REGISTRYINDEX);
    s->next = ks->scripts;
    ks->scripts = s;
    return s;
}

void ks_load(struct keyspace *ks, const char *body, size_t body_len, char ret_sha[KS_SHA_SIZE])
{
    struct call c = {.ks = ks};
    const struct script *s = script_load(&c, body, body_len);

    if (s == NULL)
        die("keyspace: %s", ks->error);
    memcpy(ret_sha, s->sha, KS_SHA_SIZE);
}

void ks_load_planted(struct keyspace *ks, const char *name, char ret_sha[KS_SHA_SIZE])
{
    char *path = must_format("tests/script/naive/%s.lua", name);
    char body[4096];
    FILE *f = fopen(path, "r");
    size_t len;

    if (f == NULL)
        die("enumeration: cannot read %s (tests run from the top of the tree)", path);
    len = fread(body, 1, sizeof body, f);
    if (len == sizeof body)
        die("enumeration: %s is too long", path);
    ks_load(ks, body, len, ret_sha);
    fclose(f);
    free(path);
}

void scripts_flush(struct keyspace *ks)
{
    for (struct script *s = ks->scripts, *next; s != NULL; s = next) {
        next = s->next;
        luaL_unref(ks->lua, LUA_REGISTRYINDEX, s->function);
        free(s);
    }
    ks->scripts = NULL;
}

/* ---- one run ---------------------------------------------------------------------------------------------------- */

/* A line of a reply holds no line breaks. */
static void set_line(struct reply *r, enum reply_kind kind, const char *at, size_t len)
{
    reply_set_text(r, kind, at, len);
    for (size_t i = 0; i < len; i++)
        if (r->text[i] == '\r' || r->text[i] == '\n')
            r->text[i] = ' ';
}

static void reply_from_lua(lua_State *lua, struct reply *r);

/* The table on the stack has text under `name`: it is that kind of reply. */
static bool line_from_field(lua_State *lua, struct reply *r, const char *name, enum reply_kind kind)
{
    bool found;

    lua_getfield(lua, -1, name);
    found = lua_type(lua, -1) == LUA_TSTRING;
    if (found) {
        size_t len;
        const char *at = lua_tolstring(lua, -1, &len);

        set_line(r, kind, at, len);
    }
    lua_pop(lua, 1);
    return found;
}

static void reply_from_table(lua_State *lua, struct reply *r)
{
    size_t cap = 0;

    if (line_from_field(lua, r, "err", REPLY_ERROR) || line_from_field(lua, r, "ok", REPLY_STATUS))
        return;
    if (!lua_checkstack(lua, 2))
        die("keyspace: a script's answer nests too deeply");
    r->kind = REPLY_ARRAY;
    for (;; r->count++) {
        lua_rawgeti(lua, -1, (int)r->count + 1);
        if (lua_isnil(lua, -1))
            break;
        if (r->count == cap) {
            cap = cap == 0 ? 4 : cap * 2;
            r->items = must_realloc(r->items, cap * sizeof *r->items);
        }
        r->items[r->count] = (struct reply){0};
        reply_from_lua(lua, &r->items[r->count]);
        lua_pop(lua, 1);
    }
    lua_pop(lua, 1);
}

/* Towards zero; what does not fit becomes what x86 makes of it. */
static int64_t integer_of(lua_Number n)
{
    return n >= -0x1p63 && n < 0x1p63 ? (int64_t)n : INT64_MIN;
}

/* From the value on the stack, which stays there. */
static void reply_from_lua(lua_State *lua, struct reply *r)
{
    const char *at;
    size_t len;

    switch (lua_type(lua, -1)) {
    case LUA_TNUMBER:
        r->kind = REPLY_INTEGER;
        r->integer = integer_of(lua_tonumber(lua, -1));
        break;
    case LUA_TSTRING:
        at = lua_tolstring(lua, -1, &len);
        reply_set_text(r, REPLY_STRING, at, len);
        break;
    case LUA_TTABLE:
        reply_from_table(lua, r);
        break;
    case LUA_TBOOLEAN:
        r->kind = lua_toboolean(lua, -1) ? REPLY_INTEGER : REPLY_NIL;
        r->integer = lua_toboolean(lua, -1);
        break;
    default:
        r->kind = REPLY_NIL;
        break;
    }
}

/* The error's table is on the stack. */
static void reply_from_error(struct call *c, const struct script *script)
{
    lua_State *lua = c->ks->lua;
    const char *line;

    lua_getfield(lua, -1, "err");
    lua_getfield(lua, -2, "source");
    lua_getfield(lua, -3, "line");
    if (lua_isstring(lua, -1))
        lua_pushfstring(lua, ", on %s:%s", lua_tostring(lua, -2), lua_tostring(lua, -1));
    else
        lua_pushliteral(lua, "");
    line = lua_pushfstring(lua, "%s script: %s%s.", lua_tostring(lua, -4), script->sha, lua_tostring(lua, -1));
    set_line(c->reply, REPLY_ERROR, line, strlen(line));
}

/* A table of words [first, end) as global `name`. */
static void set_words(struct call *c, const char *name, size_t first, size_t end)
{
    lua_State *lua = c->ks->lua;

    lua_createtable(lua, (int)(end - first), 0);
    for (size_t i = first; i < end; i++) {
        lua_pushlstring(lua, c->argv[i], c->len[i]);
        lua_rawseti(lua, -2, (int)(i - first) + 1);
    }
    lua_setfield(lua, BASE, name);
}

void script_run(struct call *c, const struct script *script)
{
    lua_State *lua = c->ks->lua;
    int64_t keys;

    c->ks->called_count = 0;
    (void)parse_integer(c->argv[2], c->len[2], &keys);
    set_words(c, "KEYS", 3, 3 + (size_t)keys);
    set_words(c, "ARGV", 3 + (size_t)keys, c->argc);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, script->function);
    if (lua_pcall(lua, 0, 1, ON_ERROR) != 0)
        reply_from_error(c, script);
    else
        reply_from_lua(lua, c->reply);
    lua_settop(lua, BASE);
}
