-- One commit of one shard: all or nothing, at most once.
-- KEYS: meta, state, outbox (one hash tag)
-- ARGV: epoch, expected version, new version, watermark, commit id,
--       3 counts (names and values put, names deleted, chunks of messages), then those:
--       name,value.. name.. last ordinal,lengths,data..
-- Epochs and versions are integers below 2^53, which a Lua number holds exactly. Quantities are
-- opaque here; no arithmetic is done on them.
-- A script that fails half-way is not rolled back: everything that can refuse stands first, the
-- outbox (which refuses a position that is not after its last) before the state, meta at the end.
local CHUNK = 2000 -- arguments per call; unpack can push about 8000
local stored = redis.call('HMGET', KEYS[1], 'epoch', 'version', 'commit')
local epoch, version = stored[1] or '0', stored[2] or '0'
if tonumber(epoch) > tonumber(ARGV[1]) then
  return {'fenced', epoch}
end
if stored[3] == ARGV[5] then
  redis.call('HSET', KEYS[1], 'commit', ARGV[5]) -- a write, for WAITAOF to wait on
  return {'committed', version}
end
if tonumber(epoch) ~= tonumber(ARGV[1]) or tonumber(version) ~= tonumber(ARGV[2]) then
  return {'stale', version}
end

local first_put = 9
local first_delete = first_put + tonumber(ARGV[6])
local first_chunk = first_delete + tonumber(ARGV[7])
local past_chunks = first_chunk + 3 * tonumber(ARGV[8])

for at = first_chunk, past_chunks - 1, 3 do
  redis.call('XADD', KEYS[3], ARGV[3] .. '-' .. ARGV[at], 'l', ARGV[at + 1], 'd', ARGV[at + 2])
end
for at = first_put, first_delete - 1, CHUNK do
  redis.call('HSET', KEYS[2], unpack(ARGV, at, math.min(at + CHUNK, first_delete) - 1))
end
for at = first_delete, first_chunk - 1, CHUNK do
  redis.call('HDEL', KEYS[2], unpack(ARGV, at, math.min(at + CHUNK, first_chunk) - 1))
end
redis.call('HSET', KEYS[1], 'version', ARGV[3], 'watermark', ARGV[4], 'commit', ARGV[5])
return {'committed', ARGV[3]}
