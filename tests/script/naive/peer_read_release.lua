-- SPDX-License-Identifier: MIT
-- Planted: the read end, as another implementation gives it back: while others hold it, it lives as long as the longest
-- of them. KEYS and ARGV as in read_release.
local key, field, most = KEYS[1], ARGV[1], 0
if redis.call('hdel', key, field) == 0 then
    return -14
end
redis.call('del', '{' .. key .. '}:' .. field .. ':rwlock_timeout:1')
for _, other in ipairs(redis.call('hkeys', key)) do
    most = math.max(most, redis.call('pttl', '{' .. key .. '}:' .. other .. ':rwlock_timeout:1'))
end
if most > 0 then
    redis.call('pexpire', key, most)
    return 0
end
redis.call('del', key)
redis.call('publish', KEYS[2], '0')
return 1
