-- SPDX-License-Identifier: MIT
-- Take the reentrant lock, or confirm and raise a hold that the caller has.
--
-- KEYS[1]  the lock, a hash of one field: the holder's, with its hold count
-- KEYS[2]  with ARGV[5]: the lock's channel, whose name the line has (line.inc)
-- ARGV[1]  field `U:n` of the caller       ARGV[2]  count wanted, 1 to 2^31-1
-- ARGV[3]  lease in ms, 1 to 2^40          ARGV[4]  '1': a fencing token is wanted; absent or '0': not
-- ARGV[5]  of who waits: 'again', it stands in the line if it is refused, and leaves it if it is not; 'yield', the
--          same, and a free lock that another was woken for is refused; 'turn', the same, and any free lock is: 4.
--          Absent: it does not wait, or has not tried before
-- ARGV[6]  with ARGV[5]: '1', other calls of its client wait, and go on to listen for all if that one does
-- Returns -10 taken now; -11 held already; -12 count above 1 asked for, and the hold is gone;
-- otherwise (>= -1) the present holder's time to live in ms, -1 when it has none; of a free lock after how many ms the
-- caller is to look. Who stands in line is answered {that, how, look}: how is 1 (and look is not there): the holder's
-- release will be published on the lock's channel alone; 3 (likewise): it does not stand there, as that was refused; 2:
-- the caller is to listen there for all in line; 0: it need not. Look: it is to try again after so many ms, whatever
-- the time to live; 0: it need not.
-- With a token wanted, count 1 answers the server's time in microseconds in place of -10 and -11.
--
-- May be repeated and may come late: count and time to live only grow, and only count 1 creates. A repetition writes
-- even where nothing changes: the WAIT behind it, maybe on another connection, is for what that connection has written.
-- Everything that can be checked is checked before the first write, and no lock is left without its time to live.
-- Numbers are plain digits, and are handed on as the text that they came in: exact, and nothing is formatted. The free
-- lock costs three commands, a refusal three.

-- include holds.inc

local call, key, field, count, lease = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if count ~= '1' and (not string.find(count, '^[1-9]%d*$') or tonumber(count) > 2147483647) then
    return redis.error_reply('ERR redlatch: count must be a whole number from 1 to 2147483647')
end
if not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 1099511627776 then
    return redis.error_reply('ERR redlatch: lease must be a whole number of ms from 1 to 1099511627776')
end

local client, waits, line, wanted, recalled = nil, ARGV[5], KEYS[2]
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
local answer
local ttl = call('pttl', key)
if ttl == -2 then
    if count ~= '1' then
        return -12
    end
    local refusal = waits and waits.give_way(key, line, client, waits)
    if refusal then
        return refusal
    end
    if wanted then
        call('hset', key, field, '1', wanted, '1')
    else
        call('hset', key, field, '1')
    end
    answer = last(key, lease) or -10
    if recalled and answer == -10 then
        -- and here: it is kept seldom
        -- include recall.inc
        recall(key, {field})
    end
else
    local held = call('hget', key, field)
    if not held then
        -- here, too
        -- include holds.inc
        -- include recall.inc
        local fields
        answer, fields = refused(key, ttl, count)
        local stands = waits and fields and type(answer) == 'number'
        return stands and waits.stand(key, line, client, ttl, fields, waits.l) or answer
    end
    if (tonumber(held) or 0) < tonumber(count) then
        call('hset', key, field, count)
    end
    call('pexpire', key, ttl > tonumber(lease) and ttl or lease)
    if wanted then
        call('hset', key, wanted, '1')
    end
    answer = -11
end
if waits and type(answer) == 'number' then
    waits.leave(call, line, waits.l, client, waits.among)
end
if ARGV[4] == '1' and count == '1' and type(answer) == 'number' then
    local now = call('time')
    return now[1] * 1000000 + now[2]
end
return answer
