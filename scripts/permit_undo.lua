-- SPDX-License-Identifier: MIT
-- Give back whichever of these permits are taken: of a take in doubt, of an earlier sending of one, of a release that
-- goes on without its caller.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel         KEYS[4], KEYS[5]  of a fair one: queue and signs of life
-- ARGV[1]  not looked at                   ARGV[2]  'publish' or 'spublish'
-- ARGV[3]  of a fair one: the caller's place in the queue         ARGV[4]  '1': it is left
-- ARGV[5..]  the ids
-- Returns how many were given back.
--
-- May be repeated and may come late: ids are never used again.

-- include arguments.inc
-- include counts.inc
-- include permits.inc
-- include turns.inc

local call, publish, place, leaves = redis.call, ARGV[2], ARGV[3], ARGV[4] == '1'

local wrong, free, returned, _, room = return_expired(begin(bad_publish(publish) or bad_ids(5)))
if wrong then
    return wrong
end
local ids, entries, seen = {unpack(ARGV, 5)}, {}, {}
for i = 1, #ids do
    local ends = not seen[ids[i]] and call('zscore', taken, ids[i])
    seen[ids[i]] = true
    if ends then
        entries[#entries + 1], entries[#entries + 2] = ends, ids[i]
    end
end
local _, dropped = turn(place, true)
local back = #entries / 2
local more = math.min(back, room)
if leaves and leave_queue(place) or back > 0 or returned > 0 or dropped then
    -- nobody is told of an undo: where the message is refused it gives back all the same
    tell_total(redis.pcall, publish, KEYS[3], free + more)
end
if back > 0 then
    call('zrem', taken, unpack(ids))
    local said = redis.pcall('incrby', key, more)
    if type(said) == 'table' then
        put_back(entries)
        return redis.error_reply(said.err .. ' (incrby)')
    end
end
return back
