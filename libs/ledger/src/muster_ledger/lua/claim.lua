-- Raise the fence of one shard. Epochs are integers below 2^53, exact as Lua numbers.
-- KEYS: meta   ARGV: epoch   Answers the epoch that the shard has now.
local stored = redis.call('HGET', KEYS[1], 'epoch') or '0'
if tonumber(stored) >= tonumber(ARGV[1]) then
  return stored
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
return ARGV[1]
