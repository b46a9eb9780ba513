-- SPDX-License-Identifier: MIT
-- Take several reentrant locks, to be timed: the take's own script for each.
--
-- KEYS[i]  a lock        ARGV[3i-2], ARGV[3i-1], ARGV[3i]  field, count and lease, as for one
-- Returns the answers, in order.
local keys, args = {}, {}
local function take()
    local KEYS, ARGV = keys, args
-- include reentrant_take.lua
end

local answers = {}
for i = 1, #KEYS do
    keys[1], args[1], args[2], args[3] = KEYS[i], ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
    answers[i] = take()
end
return answers
