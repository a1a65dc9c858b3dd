-- outbox.lua - what the relay asks of a cell: the lease, the entries, and how far the log is.
--
-- KEYS  cell, outbox (cell 0, for 'nodes': the hash of nodes)
-- ARGV  run id, then one of
--   'nodes', node                     -> how many nodes have shown up of late, this one included
--   'gone', node                      it does not relay any more
--   'lease', node, what, prune (0|1)  what: hold (take or renew), leave, look
--                                     -> {whose lease it is ('' = nobody's), state, entries}
--   'read', epoch, n, limit           -> entries behind it, as XRANGE gives them
--   'relayed', epoch, n, opening      opening: 0, or the epoch that the cell is being opened in
--                                     -> 'ok' | 'stale'
--   'saved', epoch, n                 the store has come so far -> 'ok' | 'lost'
--   'progress'                        -> {'<epoch>-<n>', state}
--   'note', ms, event                 as core/event.h writes it -> {'ok', epoch, n} | {'closed'}
-- Each may be sent twice but 'note', of which a repetition is one more note.
local LEASE_MS = 3000
local NODE_MS = 3000
local CALLS_KEPT_MS = 600000

local cell = KEYS[1]
local verb = ARGV[2]

-- By far the most frequent.
if verb == 'read' then
    return redis.call('XRANGE', KEYS[2], '(' .. ARGV[3] .. '-' .. ARGV[4], '+', 'COUNT', ARGV[5])
end

local verbs = {}

function verbs.nodes()
    local now = now_ms()
    redis.call('HSET', KEYS[2], ARGV[3], text(now))
    local all = redis.call('HGETALL', KEYS[2])
    local live = 0
    for i = 1, #all, 2 do
        if now - tonumber(all[i + 1]) < NODE_MS then
            live = live + 1
        else
            redis.call('HDEL', KEYS[2], all[i])
        end
    end
    return live
end

function verbs.gone()
    redis.call('HDEL', KEYS[2], ARGV[3])
    return 0
end

-- Answers to calls that nobody will send again.
local function prune(now)
    local all = redis.call('HGETALL', cell)
    for i = 1, #all, 2 do
        local node = string.match(all[i], '^call:(.*)$')
        -- A call's number is the time when it was made, and ten bits more.
        if node and now - tonumber(all[i + 1]) / 1024 > CALLS_KEPT_MS then
            redis.call('HDEL', cell, all[i], 'answer:' .. node)
        end
    end
end

function verbs.lease()
    local node, what = ARGV[3], ARGV[4]
    local now = now_ms()
    local is = redis.call('HMGET', cell, 'relay', 'relay_ms', 'state', 'opener', 'run')
    local holder = is[1] or ''
    if holder ~= '' and now - tonumber(is[2] or 0) >= LEASE_MS then holder = '' end
    if what == 'hold' and (holder == '' or holder == node) then
        redis.call('HSET', cell, 'relay', node, 'relay_ms', text(now))
        holder = node
    elseif what == 'leave' and holder == node then
        redis.call('HDEL', cell, 'relay', 'relay_ms')
        holder = ''
    end
    -- Whoever opens the cell is still there.
    if is[3] == 'opening' and is[4] == node then
        redis.call('HSET', cell, 'opener_ms', text(now))
    end
    if ARGV[5] == '1' then prune(now) end
    local state = is[3] or 'nothing'
    if state == 'open' and is[5] ~= ARGV[1] then state = 'other' end
    return {holder, state, redis.call('XLEN', KEYS[2])}
end

-- What the data has, and the log, is in the log before the EPOCH event of any later epoch: whoever
-- opens a cell carries over all of its outbox first. Unless the cell was opened in another process
-- meanwhile; of that the relay makes sure, but not of what it carries over while it opens the cell.
function verbs.relayed()
    local epoch, n = tonumber(ARGV[3]), tonumber(ARGV[4])
    local is = redis.call('HMGET', cell, 'state', 'epoch', 'n', 'de', 'dn', 'relayed')
    local is_opening = is[1] == 'opening'
    local data_epoch = tonumber((is_opening and is[4] or is[2]) or 0)
    local data_n = tonumber((is_opening and is[5] or is[3]) or 0)
    if ARGV[5] ~= '0' and not (is_opening and is[2] == ARGV[5]) then return 'stale' end
    if data_epoch ~= epoch then return 'stale' end
    if n > data_n then
        -- The log has what the data does not: it has gone back, and nobody has said so.
        if is[1] == 'open' then redis.call('HSET', cell, 'state', 'lost') end
        return 'stale'
    end
    redis.call('XTRIM', KEYS[2], 'MINID', '=', ARGV[3] .. '-' .. text(n + 1))
    local e, m = string.match(is[6] or '0-0', '^(%d+)-(%d+)$')
    if is_after(epoch, n, tonumber(e), tonumber(m)) then
        redis.call('HSET', cell, 'relayed', ARGV[3] .. '-' .. ARGV[4])
    end
    return 'ok'
end

-- The cell was opened in another process since, or this one was asleep: nothing that it does counts.
-- Or its data has gone back, in a process that was replaced and has come back as itself.
function verbs.saved()
    local is = redis.call('HMGET', cell, 'state', 'epoch', 'n')
    if is[1] ~= 'open' or
       not is_after(tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(is[2]), tonumber(is[3])) then
        return 'ok'
    end
    redis.call('HSET', cell, 'state', 'lost')
    return 'lost'
end

function verbs.progress()
    local is = redis.call('HMGET', cell, 'relayed', 'state')
    return {is[1] or '0-0', is[2] or 'nothing'}
end

function verbs.note()
    if cell_closed() then return {'closed'} end
    return {'ok', emit(KEYS[2], ARGV[4], 1, tonumber(ARGV[3]))}
end

return verbs[verb]()
