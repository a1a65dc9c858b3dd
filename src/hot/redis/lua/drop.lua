-- drop.lua - what is saved and idle leaves; what does not exist any more is removed.
--
-- KEYS  cell, then one of
--   'sweep': (record, token) of each candidate     'slices': record, token, the 64 slices
-- ARGV  run id, verb, retention_ms (0: at once), epoch, n (how far the store is), idle_s (counters
--       without an own setting), then of each candidate 1 if this cell is its home, else 0
-- -> '' (the cell is closed), or a letter for each candidate:
--   d dropped    g nothing was there     s it has slices: call it with them ('sweep' only)
--   l it is being loaded
--   u unsaved    c counter, i item: saved, and in use    n not there, and this has to be remembered
--   x a counter whose time is over: whoever looks at it makes that so
--   p spread: its parts are folded first
--
-- What is dropped is in the store that has come so far, and in no earlier one: `ne`, `nn` of the
-- cell remember that for load.lua.
local cell = KEYS[1]
local closed, is = cell_closed('gen', 'ne', 'nn')
if closed then return '' end
local gen = is[1]
local verb, retention = ARGV[2], tonumber(ARGV[3])
local saved_epoch, saved_n = tonumber(ARGV[4]), tonumber(ARGV[5])
local need_epoch, need_n = tonumber(is[2] or 0), tonumber(is[3] or 0)
local has_dropped = false

local now = now_ms()

local function remember(epoch, n)
    if is_after(epoch, n, need_epoch, need_n) then
        need_epoch, need_n, has_dropped = epoch, n, true
    end
end

-- shards policy has_floor floor idle_s deadline_ms
local function is_over(options, written)
    local idle, deadline = string.match(options or '', '^%S+ %S+ %S+ %S+ (%d+) (%d+)$')
    idle, deadline = tonumber(idle or 0), tonumber(deadline or 0)
    if idle == 0 then idle = tonumber(ARGV[6]) end
    return (deadline > 0 and deadline <= now) or (idle > 0 and written + idle * 1000 <= now)
end

local function remove(record, slices)
    redis.call('UNLINK', record, unpack(slices))
    return 'd'
end

local function look(record, lock, is_home, slices)
    local has = redis.call('HMGET', record, '.g', '.w', '.u', '.o', '.map', '.pc')
    if redis.call('EXISTS', lock) == 1 then return 'l' end
    if not has[1] then
        -- What a loader has left half done; or slices without their item.
        if slices == nil then
            return redis.call('EXISTS', record) == 1 and remove(record, {}) or 's'
        end
        return redis.call('UNLINK', record, unpack(slices)) > 0 and 'd' or 'g'
    end
    local type = string.sub(has[1], -1)
    local has_slices = type == 's' or type == 'S'
    if string.sub(has[1], 1, -2) ~= gen then
        if has_slices and slices == nil then return 's' end
        return remove(record, slices or {})
    end
    if has[5] or has[6] or not string.find(type, '[ncis]') or is_home ~= '1' then return 'p' end
    local written, epoch, n = string.match(has[2] or '0 0 0', '^(%d+) (%d+) (%d+)$')
    written, epoch, n = tonumber(written), tonumber(epoch), tonumber(n)
    if is_after(epoch, n, saved_epoch, saved_n) then return type == 'n' and 'n' or 'u' end
    local idle = now - math.max(written, tonumber(has[3] or 0))
    if type == 'n' then
        remember(epoch, n)
        remove(record, {})
        return 'g'
    end
    if type == 'c' and retention > 0 and is_over(has[4], written) then return 'x' end
    if idle < retention then return type == 'c' and 'c' or 'i' end
    if has_slices and slices == nil then return 's' end
    remember(epoch, n)
    return remove(record, slices or {})
end

local answer = {}
if verb == 'slices' then
    local slices = {}
    for i = 4, #KEYS do slices[#slices + 1] = KEYS[i] end
    answer[1] = look(KEYS[2], KEYS[3], ARGV[7], slices)
else
    for i = 2, #KEYS, 2 do
        answer[#answer + 1] = look(KEYS[i], KEYS[i + 1], ARGV[6 + i / 2], nil)
    end
end
if has_dropped then
    redis.call('HSET', cell, 'ne', text(need_epoch), 'nn', text(need_n))
end
return table.concat(answer)
