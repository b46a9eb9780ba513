-- Free the reentrant lock from the holder that was seen, whoever asks; a holder that came since is left alone.
--
-- KEYS[1]  the lock, a hash                KEYS[2]  the lock's channel
-- ARGV[1]  the field that was seen         ARGV[2]  absent or 'publish'; 'spublish' as in release
-- Returns 1 freed, and `0` published; 0 that holder is gone.
local publish = ARGV[2] or 'publish'

-- include publishes.inc
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end
redis.call('del', KEYS[1])
redis.call(publish, KEYS[2], '0')
return 1
