-- open.lua - a cell begins a new epoch, and is opened.
--
-- A cell is open when its hash says so and names the process that it was opened on. Everything
-- else is closed: no hash, a hash from another process (restart, failover, the slot has moved),
-- one that is being opened, or one whose data was found to have gone back ("lost").
--
--   open | lost | nothing --begin--> opening --open--> open
--                                     ^  | begin, by the same node, or 5 s after the last sign of it
--                                     +--+
--
-- What is done to its data meanwhile (move.lua) is written down as its first event: `owes`. Data
-- that is thrown away needs none: the log has an event behind it already.
--
-- While it is being opened, de and dn say what the last event of its data is. A generation is the
-- epoch in which data was last thrown away: records of another one do not exist.
--
-- KEYS  cell, outbox, pieces
-- ARGV  run id, 'begin', node, epoch         epoch: the new one is above it
--       -> {'new', epoch, de, dn, since} | {'busy'} | {'open'}      since: of the first begin, ms
--       run id, 'open', node, epoch, keep (0|1), incarnations, n: of the epoch, in the log already,
--       events, count: AFTER events, one for each other cell, if the data is not kept
--       -> {'ok'} | {'busy'} | {'left', entries}
-- Sent twice, 'begin' begins once more, and 'open' says ok.
local OPENER_MS = 5000

local cell, out, pieces = KEYS[1], KEYS[2], KEYS[3]
local run, verb, node = ARGV[1], ARGV[2], ARGV[3]

local is = redis.call('HMGET', cell, 'state', 'run', 'epoch', 'n', 'opener', 'opener_ms', 'inc',
                      'opener_run')
local state, epoch = is[1], tonumber(is[3] or 0)

if verb == 'begin' then
    if state == 'open' and is[2] == run then return {'open'} end
    if state == 'opening' and is[5] ~= node and now_ms() - tonumber(is[6] or 0) < OPENER_MS then
        return {'busy'}
    end
    local begun = math.max(epoch, tonumber(ARGV[4])) + 1
    if state ~= 'opening' then
        redis.call('HSET', cell, 'de', is[3] or 0, 'dn', is[4] or 0, 'since', text(now_ms()))
        redis.call('HDEL', cell, 'owes')
    end
    redis.call('HSET', cell, 'state', 'opening', 'epoch', text(begun), 'n', 0, 'opener', node,
               'opener_ms', text(now_ms()), 'opener_run', run)
    redis.call('HDEL', cell, 'run')
    local data = redis.call('HMGET', cell, 'de', 'dn', 'since')
    return {'new', text(begun), data[1], data[2], data[3] or '0'}
end

if epoch ~= tonumber(ARGV[4]) or is[5] ~= node then return {'busy'} end
if state == 'open' then
    return is[2] == run and {'ok'} or {'busy'}
end
-- Another process than the one that was asked for the data's last event: it may have gone back.
if state ~= 'opening' or is[8] ~= run then return {'busy'} end
local left = redis.call('XLEN', out)
if left > 0 then return {'left', left} end

if ARGV[5] == '0' then
    -- Nothing of the old data counts any more; what is left of it is removed when it is met.
    local dead = {}
    for _, field in ipairs(redis.call('HKEYS', cell)) do
        if string.find(field, '^call:') or string.find(field, '^answer:') then
            dead[#dead + 1] = field
        end
    end
    for from = 1, #dead, 1000 do
        redis.call('HDEL', cell, unpack(dead, from, math.min(#dead, from + 999)))
    end
    redis.call('UNLINK', pieces)
    -- A store that is not as far as this would bring back what is older.
    redis.call('HSET', cell, 'gen', text(epoch), 'lost_ms', text(now_ms()), 'ne', text(epoch),
               'nn', 0)
end
redis.call('DEL', out) -- an empty stream remembers its last id
local owes = redis.call('HGET', cell, 'owes')
redis.call('HSET', cell, 'state', 'open', 'run', run, 'n', ARGV[7], 'relayed',
           text(epoch) .. '-' .. ARGV[7], 'inc',
           text(math.max(tonumber(is[7] or 0), tonumber(ARGV[6]))))
redis.call('HDEL', cell, 'de', 'dn', 'since', 'opener_ms', 'opener_run', 'owes')
redis.call('HSETNX', cell, 'gen', text(epoch))
if owes and ARGV[5] ~= '0' then emit(out, owes, 1, now_ms()) end
if ARGV[9] ~= '0' then
    -- A store that fails over may forget what the released pieces have written. It has forgotten
    -- these events then, too, and nothing is loaded from it until it has them again.
    local at, n = emit(out, ARGV[8], tonumber(ARGV[9]), now_ms())
    redis.call('HSET', cell, 'ne', at, 'nn', n)
end
return {'ok'}
