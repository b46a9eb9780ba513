-- SPDX-License-Identifier: MIT
-- Take several locks of types that are told, to be timed: each type's own script for its locks.
--
-- KEYS     those of all locks, one after another
-- ARGV[1]  a letter for each lock: r reentrant, f fenced     further arguments: those of all locks, one after another
-- Returns the answers, in order.
local keys, args = {}, {}
local function reentrant()
    local KEYS, ARGV = keys, args
-- include reentrant_take.lua
end
local function fenced()
    local KEYS, ARGV = keys, args
-- include fenced_take.lua
end

local all_keys, all_args, answers, key, arg = KEYS, ARGV, {}, 0, 1
for i = 1, #all_args[1] do
    local type = string.sub(all_args[1], i, i)
    keys[1], args[1], args[2], args[3] = all_keys[key + 1], all_args[arg + 1], all_args[arg + 2], all_args[arg + 3]
    if type == 'r' then
        args[4], key, arg = nil, key + 1, arg + 3
        answers[i] = reentrant()
    else
        keys[2], args[4], key, arg = all_keys[key + 2], all_args[arg + 4], key + 2, arg + 4
        answers[i] = fenced()
    end
end
return answers
