-- SPDX-License-Identifier: MIT
-- Take the fenced lock, or confirm and raise a hold that the caller has.
--
-- KEYS[1]  the lock, a hash of one field: the holder's, with its hold count
-- KEYS[2]  the counter: the token of the last hold, without a time to live
-- KEYS[3]  with ARGV[5]: the lock's channel, whose name the line has (line.inc)
-- ARGV[1]  field `U:n` of the caller       ARGV[2]  count wanted, 1 to 2^31-1
-- ARGV[3]  lease in ms, 1 to 2^40
-- ARGV[4]  '1': the token is at least the server's time in microseconds; absent or '0': not
-- ARGV[5]  absent: one token is drawn; so many are, 1 to 2^20, of which the first is answered; with KEYS[3], as in
--          reentrant_take, and so is ARGV[6]; then ARGV[7] is how many tokens are drawn
-- Returns, to count 1, -1000 less the hold's token: taken, or held already; -11 a nested hold is confirmed; -12 count
-- above 1 asked for, and the hold is gone; otherwise (>= -1) the present holder's time to live in ms, -1 when it has
-- none; or as in reentrant_take to who stands in line.
--
-- May be repeated and may come late: count and time to live only grow, only count 1 creates, and the repeat answers the
-- token of the first, because the counter moves only when the lock changes hands. Everything that can fail comes before
-- the first write of the lock: a raised counter without a hold is a token that nobody has, and no harm. Tokens stay
-- below 2^53, so numbers carry them exactly: a counter that somebody has set to anything else, below 1 too, is an
-- error. The free lock costs four commands, a refusal three.

-- include holds.inc

local call, key, field, count, lease = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if count ~= '1' and (not string.find(count, '^[1-9]%d*$') or tonumber(count) > 2147483647) then
    return redis.error_reply('ERR redlatch: count must be a whole number from 1 to 2147483647')
end
if not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 1099511627776 then
    return redis.error_reply('ERR redlatch: lease must be a whole number of ms from 1 to 1099511627776')
end

local waits, line = KEYS[3] and ARGV[5], KEYS[3]
local draws = ARGV[waits and 7 or 5]
local more = draws and draws - 1 or 0
if draws and (not string.find(draws, '^[1-9]%d*$') or more >= 1048576) then
    return redis.error_reply('ERR redlatch: tokens to be drawn must be a whole number from 1 to 1048576')
end

-- The first of those that are drawn.
local function next_token()
    local token = (more > 0 and call('incrby', KEYS[2], more + 1) or call('incr', KEYS[2])) - more
    if ARGV[4] == '1' then
        local now = call('time')
        local floor = now[1] * 1000000 + now[2]
        if token < floor then
            token = floor
            call('set', KEYS[2], string.format('%.0f', token + more))
        end
    end
    return token
end

-- As it is answered; what is none is an error.
local function said(token)
    if token < 1 or token > 9007199254730000 then
        return redis.error_reply('ERR redlatch: the counter of fencing tokens is not between 1 and 9007199254730000')
    end
    return -1000 - token
end

local client, wanted, recalled
if waits then
    -- included here: who does not wait would pay for it
    -- include line.inc
    client = client_of(field)
    waits = {how = waits, among = ARGV[6] == '1', l = read_line(line, client), leave = leave, give_way = give_way}
    wanted = others_stand(waits.l) and field .. ':wanted'
    -- a hold that its client keeps: those that stand in line already will not try until it is released
    recalled = wanted and string.find(field, ':-', 1, true)
    waits.stand = function(...)
        -- and here: who is granted would
        -- include line_queue.inc
        return stand(...)
    end
end
local ttl = call('pttl', key)
if ttl == -2 then
    if count ~= '1' then
        return -12
    end
    local refusal = waits and waits.give_way(key, line, client, waits)
    if refusal then
        return refusal
    end
    local token = said(next_token())
    if type(token) == 'table' then
        return token
    end
    if wanted then
        call('hset', key, field, '1', wanted, '1')
    else
        call('hset', key, field, '1')
    end
    local failed = last(key, lease)
    if waits and not failed then
        waits.leave(call, line, waits.l, client, waits.among)
    end
    if recalled and not failed then
        -- here, too
        -- include recall.inc
        recall(key, {field})
    end
    return failed or token
end
local held = call('hget', key, field)
if not held then
    -- here, too
    -- include holds.inc
    -- include recall.inc
    local answer, fields = refused(key, ttl, count)
    local stands = waits and fields and type(answer) == 'number'
    return stands and waits.stand(key, line, client, ttl, fields, waits.l) or answer
end
local last_token = count == '1' and tonumber(call('get', KEYS[2]))
local token = count == '1' and said(last_token and last_token - more or next_token()) or -11
if type(token) == 'table' then
    return token
end
if (tonumber(held) or 0) < tonumber(count) then
    call('hset', key, field, count)
end
-- no shorter than it was, and written in any case: a WAIT may follow
call('pexpire', key, ttl > tonumber(lease) and ttl or lease)
if wanted then
    call('hset', key, wanted, '1')
end
if waits then
    waits.leave(call, line, waits.l, client, waits.among)
end
return token
