-- SPDX-License-Identifier: MIT
-- The work of Redisson's unlock of a reentrant lock, to be timed. Its latch remembers the answer, so that a repeat
-- does not unlock twice; the client deletes it afterwards.
--
-- KEYS[1] lock hash    KEYS[2] channel     KEYS[3] latch
-- ARGV[1] message      ARGV[2] lease ms    ARGV[3] owner field    ARGV[4] the latch's time to live in ms
-- Returns 1 freed, 0 still held, nil not the owner's.
local answer = redis.call('get', KEYS[3])

if answer then
    return tonumber(answer)
end
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
    return nil
end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    redis.call('set', KEYS[3], 0, 'px', ARGV[4])
    return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], ARGV[1])
redis.call('set', KEYS[3], 1, 'px', ARGV[4])
return 1
