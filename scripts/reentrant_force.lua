-- Free the reentrant lock from the holder that was seen, whoever asks; a holder that came since is left alone.
--
-- KEYS[1]  the lock, a hash                KEYS[2]  the lock's channel
-- ARGV[1]  the field that was seen         ARGV[2]  absent or 'publish'; 'spublish' as in release
-- Returns 1 freed, and `0` published; 2 the same, and to tell was refused; 0 that holder is gone.
local publish = ARGV[2] or 'publish'

-- include publishes.inc
local call, key = redis.call, KEYS[1]
-- include other_type.inc
if call('hexists', key, ARGV[1]) == 0 then
    return 0
end
call('del', key)
return type(redis.pcall(publish, KEYS[2], '0')) == 'table' and 2 or 1
