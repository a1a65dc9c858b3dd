-- The like of a Redis user who keeps likers and dislikers as sets and a count in shards: the rival of LIKE.
-- KEYS: likers, dislikers, the counter's shard. ARGV: the user. 1 when the like counted, 0 when it was there.
local fromDisLike = redis.call('SREM', KEYS[2], ARGV[1])
if fromDisLike == 1 then
    redis.call('INCRBY', KEYS[3], -1)
end
local added = redis.call('SADD', KEYS[1], ARGV[1])
if added == 1 then
    redis.call('INCRBY', KEYS[3], 1)
    return 1
end
return 0
