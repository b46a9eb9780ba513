-- SPDX-License-Identifier: MIT
-- Planted: whoever says how many there are is believed, whatever others have said.
redis.call('set', KEYS[1], ARGV[1])
return 1
