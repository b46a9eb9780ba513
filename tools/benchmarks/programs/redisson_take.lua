-- SPDX-License-Identifier: MIT
-- The work of Redisson's acquire (wire.md, reentrant), to be timed: counts up, whoever asks again.
--
-- KEYS[1] lock hash    ARGV[1] lease ms    ARGV[2] owner field
-- Returns nil when taken; otherwise ms left on the present lease.
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[1])
    return nil
end
return redis.call('pttl', KEYS[1])
