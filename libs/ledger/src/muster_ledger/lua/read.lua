-- One shard as it stands, in one atomic step. KEYS: meta, state
return {
  redis.call('HMGET', KEYS[1], 'epoch', 'version', 'watermark', 'commit'),
  redis.call('HGETALL', KEYS[2]),
}
