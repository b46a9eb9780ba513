-- SPDX-License-Identifier: MIT
-- Take the fair lock, or confirm and raise a hold that the caller has, or stand in the queue and give a sign of life
-- there.
--
-- KEYS     as in fair_queue.inc
-- ARGV[1]  field `U:n` of the caller       ARGV[2]  count wanted, 1 to 2^31-1
-- ARGV[3]  lease in ms, 1 to 2^40          ARGV[4]  '1': a fencing token is wanted; '0': not
-- ARGV[5]  life: a waiter is dead so long after its last sign of life, in ms, 3 to 2^40; '0': do not queue
-- ARGV[6]  place `U:k` of the caller       ARGV[7]  number of this sending, among all of this take
-- ARGV[8]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns -10 taken now; -11 held already; -12 count above 1 asked for, and the hold is gone; otherwise refused, and
-- the ms after which to look again and so to give the next sign of life, at most a third of a life. Not queued: the
-- holder's time to live in ms, -1 when it has none or the head of the queue is about to take the lock. A free lock that
-- is another's by order of arrival is passed on to that one. With a token wanted, count 1 answers the server's time in
-- microseconds in place of -10 and -11.
--
-- May be repeated and may come late: count and time to live only grow, a place in the queue is kept, and only count 1
-- creates or queues. An owner waits for one hold at a time: of two takes at one place the one with the greater n is the
-- one that counts, and begins to wait anew. What can be checked is checked before the first write; what is refused
-- later is taken back. Constant work for any number of waiters, but for those put back: a living waiter of ours that
-- peers have dropped, by their clock or by scores that they lowered, finds its score missing. They drop at the front
-- only, so there it goes again, with all others of ours in that plight, by arrival.

-- include arguments.inc
-- include holds.inc
-- include fair_queue.inc

local field, count, lease, life, place, sending = ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6], ARGV[7]
local publish = ARGV[8] or 'publish'

local wrong = bad_publish(publish)
if wrong then
    return wrong
end
if count ~= '1' and (not string.find(count, '^[1-9]%d*$') or tonumber(count) > 2147483647) then
    return redis.error_reply('ERR redlatch: count must be a whole number from 1 to 2147483647')
end
if not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 1099511627776 then
    return redis.error_reply('ERR redlatch: lease must be a whole number of ms from 1 to 1099511627776')
end
if life ~= '0'
    and (not string.find(life, '^[1-9]%d*$') or tonumber(life) < 3 or tonumber(life) > 1099511627776) then
    return redis.error_reply('ERR redlatch: life must be 0 or a whole number of ms from 3 to 1099511627776')
end
if not string.find(sending or '', '^%d+$') then
    return redis.error_reply('ERR redlatch: the sending must be a number')
end

local function granted(answer)
    if ARGV[4] == '1' and count == '1' then
        return time[1] * 1000000 + time[2]
    end
    return answer
end

-- Peers may lower a score by three of their waits and may be that far ahead before they drop a living waiter of ours.
local function last_moment()
    return now + life + 900000
end

-- What makes a key is followed by its time to live. So once a command has been refused, no other is run, and what was
-- made goes again. Of commands that answer numbers.
local refused = false

local function try(command, ...)
    local said = not refused and redis.pcall(command, ...)
    if type(said) == 'table' then
        refused = redis.error_reply(said.err .. ' (' .. command .. ')')
    end
end

local function last_for_a_while()
    for i = 3, 5 do
        try('pexpire', KEYS[i], digits(life + 3600000))
    end
end

local function put_back()
    local missing, all = {}, call('hgetall', waiters)
    for i = 1, #all, 2 do
        if (all[i] == place or life_left(all[i]) > 0) and not call('zscore', scores, all[i]) then
            missing[#missing + 1] = {name = all[i], arrival = tonumber(string.match(all[i + 1], '^%d+')) or 0}
        end
    end
    table.sort(missing, function(a, b)
        return a.arrival > b.arrival or (a.arrival == b.arrival and a.name > b.name)
    end)
    for i = 1, #missing do
        try('zadd', scores, digits(last_moment()), missing[i].name)
        try('lpush', queue, missing[i].name)
    end
    last_for_a_while()
    for i = refused and 1 or #missing + 1, #missing do
        call('zrem', scores, missing[i].name)
        call('lrem', queue, 1, missing[i].name)
    end
end

-- Behind everybody, in the sense of both clocks: no earlier score than the tail's, and a later arrival.
local function join()
    local score, arrival, tail = last_moment(), time[1] * 1000000 + time[2], call('lindex', queue, -1)
    if tail then
        score = math.max(score, tonumber(call('zscore', scores, tail) or 0))
        local before = string.match(call('hget', waiters, tail) or '', '^%d+')
        arrival = math.max(arrival, (before or 0) + 1)
    end
    try('zadd', scores, digits(score), place)
    try('rpush', queue, place)
    return digits(arrival)
end

local function stay(arrival)
    local score = call('zscore', scores, place)
    if not score then
        arrival = join()
    elseif tonumber(score) < last_moment() then
        try('zadd', scores, digits(last_moment()), place)
    end
    try('hset', waiters, place,
        table.concat({arrival or '0', digits(now + life), sending, ARGV[4] == '1' and '1' or '0', lease, field}, ':'))
    last_for_a_while()
    if refused then
        leave(place, -1)
    end
end

local ttl = call('pttl', lock)
local held = ttl ~= -2 and call('hget', lock, field)
if held then
    if (tonumber(held) or 0) < tonumber(count) then
        call('hset', lock, field, count)
    end
    -- no shorter than it was, and written in any case: a WAIT may follow
    call('pexpire', lock, ttl > tonumber(lease) and ttl or lease)
    return granted(-11)
end
wrong = other_type(ttl ~= -2 and call('hget', lock, 'mode'))
if wrong then
    return wrong
end
if count ~= '1' then
    return -12
end

local arrival, _, _, _, _, waiting = sign_of(place)
if waiting and waiting ~= field then
    local mine, theirs = string.match(field, '%d*$'), string.match(waiting, '%d*$')
    if #theirs > #mine or #theirs == #mine and theirs > mine then
        return math.max(ttl, -1) -- it comes late: nobody waits for this answer
    end
    leave(place, 1)
    arrival = nil
end
if arrival and not call('zscore', scores, place) then
    put_back()
    if refused then
        return refused
    end
end
local head, left = first_living(place)
if ttl == -2 and (not head or head == place) then
    if head then
        leave(place, 1)
    end
    return hold(field, lease) or granted(-10)
end
if ttl == -2 then
    local why = pass_on(publish)
    if type(why) == 'table' then
        return why
    end
    head, left = first_living(place)
    ttl = call('pttl', lock)
end
if life == '0' then
    return math.max(ttl, -1)
end
stay(arrival)
if refused then
    return refused
end
local look = math.floor(life / 3)
if left then
    look = math.min(look, left)
end
if ttl >= 0 then
    look = math.min(look, ttl)
end
return math.max(look, 1)
