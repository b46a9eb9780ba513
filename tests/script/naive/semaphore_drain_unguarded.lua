-- SPDX-License-Identifier: MIT
-- Planted: a drain that does not know its repeats.
local taken = math.max(0, tonumber(redis.call('get', KEYS[1]) or '0'))
redis.call('set', KEYS[3], tostring(taken), 'px', ARGV[2])
redis.call('decrby', KEYS[1], taken)
return taken
