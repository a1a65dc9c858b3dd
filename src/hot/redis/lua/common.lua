-- common.lua - stands in front of every script but run.lua.
--
-- KEYS[1] is the hash of the cell, ARGV[1] the id of the process that the script runs in.

-- A whole number as Redis is to keep it: Lua would write large ones with an exponent.
local function text(number) return string.format('%.0f', number) end

local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Nobody reads or writes in a cell that is not open, or was opened in another process. The fields
-- that are asked for come second, if it is open.
local function cell_closed(...)
    local is = redis.call('HMGET', KEYS[1], 'state', 'run', ...)
    if is[1] ~= 'open' or is[2] ~= ARGV[1] then return true end
    table.remove(is, 1)
    table.remove(is, 1)
    return false, is
end

-- Is the sequence (e1, n1) behind (e2, n2)?
local function is_after(e1, n1, e2, n2) return e1 > e2 or (e1 == e2 and n1 > n2) end

-- Appends `count` events to the outbox, as core/event.h writes them, without a header. The cell is
-- open. Gives epoch and n of the last one.
local function emit(outbox, events, count, ms)
    local epoch = redis.call('HGET', KEYS[1], 'epoch')
    local n = redis.call('HINCRBY', KEYS[1], 'n', count)
    redis.call('XADD', outbox, epoch .. '-' .. text(n), 'f', text(n - count + 1), 't', text(ms),
               'b', events)
    return epoch, text(n)
end

-- `count` members were put into a hash that was empty: as run.lua's as_table().
local function as_table_if_large(key, count)
    if count > 63 then
        redis.call('HSET', key, '.pad', string.rep('.', 65))
        redis.call('HDEL', key, '.pad')
    end
end
