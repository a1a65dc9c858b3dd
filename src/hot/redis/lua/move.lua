-- move.lua - pieces of what is spread: maps, moves, and what the pieces have counted.
--
-- A change of the map (hot/redis/map.h) is done in steps, each a call of this script, each safe to
-- be repeated by whoever goes on with it. What a step did must not be forgotten alone: it writes
-- an event that changes nothing into the cell's outbox, and the next step is taken when the log
-- has that; a cell that comes back without it is behind the log, and is emptied.
--
--   a piece more         reserve at B  map(j)  prepare at B                       map(-)
--   a move of slices     map(m)  prepare at B  freeze at A  scan/put  adopt at B  release at A  map(-)
--   one that is given up map(u)  prepare at B (no more adopting)  thaw at A       map(-)
--   a piece less         map(d)  stop at B    map(e): home takes its counts  erase at B  map(-)
--   a piece was lost     map(x)  wipe everywhere; the store has it all; gone at home
--
-- The steps and their order are decided in hot/redis/hand_over.c. A piece is only made where it was
-- reserved before the map named it: one that is missing later was lost with its cell, and nothing
-- may take its place but what the store has. tests/sim/nodes has a model of these verbs: keep
-- nodes_pieces.c like them.
--
-- Fields of a record that only this script uses:
--   .map  at home   .mv  its last version        .pc  a piece: its home is another cell
--   .rv   reserved for this version: serves nothing yet
--   .pv   version it was prepared for   .av  adopted last   .fv .fs .fo  frozen last: version,
--   "epoch-n" of that, what was owned    .dv .ds  the same of the stop     .h  when it was hot
--
-- KEYS[1] cell; ARGV[1] run id, ARGV[2] verb; the rest stands above each verb. Each may answer
-- 'closed' or 'none' (no such record); versions are decimal, those of a record never go back.
local record = KEYS[2]
local FIELDS = 2000 -- of one command
local TEMPORARY_MS = 120000
local RESERVED_MS = 3600000
local KEEP, GONE = '1', '-'

local closed, is = cell_closed('gen', 'ne', 'nn')
local gen = not closed and is[1] or redis.call('HGET', KEYS[1], 'gen')

local function type_of(key)
    local g = redis.call('HGET', key, '.g')
    if not g or string.sub(g, 1, -2) ~= gen then return nil end
    return string.sub(g, -1)
end

-- The same of a piece, or of home. What is only reserved is none: a mover that came late has
-- reserved it again where the piece was lost.
local function type_of_piece()
    local type = type_of(record)
    local has = type == 'F' and redis.call('HMGET', record, '.pc', '.rv')
    if has and has[2] and not has[1] then return nil end
    return type
end

local function version_of(map) return map and string.match(map, '^%d+') or '0' end

-- At home the map itself says whether a step comes too late: the record may have been loaded anew.
local function is_late_at_home(type, version)
    if not type or type == 'n' then return false end
    local has = redis.call('HMGET', record, '.pc', '.rv', '.map')
    return not has[1] and not has[2] and version_of(has[3]) ~= version
end

-- Sets the record's last event, so that it is saved when the store has that.
local function touch(epoch, n)
    local written = string.match(redis.call('HGET', record, '.w') or '0', '^%d+')
    redis.call('HSET', record, '.w', written .. ' ' .. epoch .. ' ' .. n)
end

local function note(events, ms, count)
    local epoch, n = emit(KEYS[3], events, count or 1, tonumber(ms))
    touch(epoch, n)
    return epoch, n
end

-- What a step has written down, "epoch-n", when the step is repeated. In a cell that was opened with
-- its data since, it is written down anew: the next step asks the log about the epoch that it is in.
local function noted(at, field, events, ms)
    local epoch, n = string.match(at, '^(%d+)-(%d+)$')
    if epoch ~= redis.call('HGET', KEYS[1], 'epoch') then
        epoch, n = note(events, ms)
        redis.call('HSET', record, field, epoch .. '-' .. n)
    end
    return epoch, n
end

local function need(epoch, n)
    epoch, n = tonumber(epoch), tonumber(n)
    if is_after(epoch, n, tonumber(is[2] or 0), tonumber(is[3] or 0)) then
        redis.call('HSET', KEYS[1], 'ne', text(epoch), 'nn', text(n))
    end
end

local function selected(mask)
    local slices = {}
    for i = 1, 64 do
        if string.sub(mask, i, i) ~= GONE then slices[#slices + 1] = i end
    end
    return slices
end

local function chars(own)
    local list = {}
    for i = 1, 64 do list[i] = string.sub(own, i, i) end
    return list
end

local function unlink(first, last)
    if last >= first then redis.call('UNLINK', unpack(KEYS, first, last)) end
end

-- ---- decimals of any size ----

local function magnitude_is_less(a, b) return #a < #b or (#a == #b and a < b) end

local function digit(number, place)
    return place < #number and string.byte(number, #number - place) - 48 or 0
end

local function add_magnitudes(a, b, sign)
    local digits, carry = {}, 0
    for i = 0, math.max(#a, #b) do
        local sum = digit(a, i) + sign * digit(b, i) + carry
        carry = math.floor(sum / 10)
        digits[#digits + 1] = sum % 10
    end
    local sum = string.gsub(string.reverse(table.concat(digits)), '^0+', '')
    return sum == '' and '0' or sum
end

local function add(a, b)
    local a_minus, b_minus = string.sub(a, 1, 1) == '-', string.sub(b, 1, 1) == '-'
    a, b = string.gsub(a, '^-', ''), string.gsub(b, '^-', '')
    local minus, sum = a_minus, nil
    if a_minus == b_minus then
        sum = add_magnitudes(a, b, 1)
    elseif magnitude_is_less(a, b) then
        minus, sum = b_minus, add_magnitudes(b, a, -1)
    else
        sum = add_magnitudes(a, b, -1)
    end
    return (minus and sum ~= '0') and '-' .. sum or sum
end

-- Of two .w the first, with the time of the one that was written last.
local function later(a, b)
    local ms = math.max(tonumber(string.match(a, '^%d+')), tonumber(string.match(b, '^%d+')))
    return text(ms) .. (string.match(a, ' .*$') or ' 0 0')
end

-- What was counted here, as fields and values.
local function counted()
    local list, all = {}, redis.call('HGETALL', record)
    for i = 1, #all, 2 do
        if all[i] == '.v' or string.sub(all[i], 1, 3) == '.c:' then
            list[#list + 1] = all[i]
            list[#list + 1] = all[i + 1]
        end
    end
    return list
end

local verbs = {}

-- ---- at home ----

-- -> type, incarnation, map, last version, options
function verbs.read()
    local type = type_of(record)
    if not type or type == 'n' then return 'none' end
    local has = redis.call('HMGET', record, '.i', '.map', '.mv', '.o', '.h')
    return {type, has[1] or '0', has[2] or '', has[3] or '0', has[4] or '', has[5] or '0'}
end

-- KEYS the 64 slices. A whole item is cut into slices.
function verbs.split()
    local type = type_of(record)
    if type ~= 'i' then return type or 'none' end
    unlink(3, #KEYS) -- of an earlier generation
    local all, slices, fields = redis.call('HGETALL', record), {}, {}
    for i = 1, #all, 2 do
        if string.sub(all[i], 1, 1) ~= '.' then
            local s = string.byte(all[i]) - 48
            slices[s] = slices[s] or {}
            table.insert(slices[s], all[i])
            table.insert(slices[s], all[i + 1])
            fields[#fields + 1] = all[i]
        end
    end
    for s, members in pairs(slices) do
        for i = 1, #members, FIELDS do
            redis.call('HSET', KEYS[3 + s], unpack(members, i, math.min(#members, i + FIELDS - 1)))
        end
        as_table_if_large(KEYS[3 + s], #members / 2)
    end
    for i = 1, #fields, FIELDS do
        redis.call('HDEL', record, unpack(fields, i, math.min(#fields, i + FIELDS - 1)))
    end
    redis.call('HSET', record, '.own', string.rep(KEEP, 64), '.g', gen .. 's')
    return 's'
end

-- KEYS outbox; ARGV the version that the map has, the next one, the map ('' = none any more: the
-- record notes why and since when it is in one piece), the type from now on, events, ms, how many,
-- incarnation, the slices that are at home by it, (field, amount)... to be added.
-- -> ok epoch n | stale map version | odd (home lacks such a slice: it has forgotten that it has
-- adopted it). One that was made or loaded anew meanwhile is another.
function verbs.map()
    local type = type_of(record)
    if not type or type == 'n' then return 'none' end
    local has = redis.call('HMGET', record, '.map', '.mv', '.i', '.own')
    if version_of(has[1]) ~= ARGV[3] or tonumber(has[2] or 0) >= tonumber(ARGV[4]) or
       (has[3] or '0') ~= ARGV[10] or (type == 'i' and ARGV[6] ~= 'i') then
        return {'stale', has[1] or '', has[2] or '0'}
    end
    for i = 1, has[4] and 64 or 0 do
        if string.sub(ARGV[11], i, i) ~= GONE and string.sub(has[4], i, i) == GONE then
            return {'odd', has[4]}
        end
    end
    for i = 12, #ARGV, 2 do
        local before = redis.call('HGET', record, ARGV[i]) or '0'
        redis.call('HSET', record, ARGV[i],
                   ARGV[i] == '.w' and later(before, ARGV[i + 1]) or add(before, ARGV[i + 1]))
    end
    redis.call('HSET', record, '.mv', ARGV[4], '.g', gen .. ARGV[6])
    if ARGV[5] == '' then
        redis.call('HDEL', record, '.map', '.h')
        local reason, ms = string.match(has[1] or '', '^%S+ %S+ %S+ (%d+) (%d+)')
        if reason then redis.call('HSET', record, '.ch', reason .. ' ' .. ms) end
    else
        redis.call('HSET', record, '.map', ARGV[5])
    end
    local epoch, n = note(ARGV[7], ARGV[8], tonumber(ARGV[9]))
    return {'ok', epoch, n}
end

-- ARGV ms
function verbs.hot()
    if not type_of(record) then return 'none' end
    redis.call('HSET', record, '.h', ARGV[3])
    return 'ok'
end

-- KEYS index of keys, the 64 slices, outbox; ARGV version, ms, events, count: that home comes after what
-- the pieces have written. Everything of it is in the store.
function verbs.gone()
    if not type_of(record) then return 'none' end
    local has = redis.call('HMGET', record, '.map', '.w')
    if version_of(has[1]) ~= ARGV[3] then return 'stale' end
    local epoch, n = string.match(has[2] or '0 0 0', '^%d+ (%d+) (%d+)$')
    local count = tonumber(ARGV[6])
    if count > 0 then epoch, n = emit(KEYS[#KEYS], ARGV[5], count, tonumber(ARGV[4])) end
    need(epoch, n)
    redis.call('HSET', KEYS[1], 'lost_ms', ARGV[4]) -- keys of the pieces are known to the store
    unlink(2, #KEYS - 1)
    return 'ok'
end

-- ---- pieces ----

-- KEYS pieces; ARGV version, "home:id", incarnation. The map is going to name this cell.
function verbs.reserve()
    local version = tonumber(ARGV[3])
    local has = redis.call('HMGET', record, '.rv', '.pv', '.fv', '.dv', '.pc', '.i')
    local type = type_of(record)
    if type and type ~= 'n' then
        for i = 1, 4 do
            if tonumber(has[i] or 0) > version then return {'stale', has[i]} end
        end
        if not has[1] and not has[5] then return {'odd', type} end
    end
    if not type or not has[5] or has[4] or has[6] ~= ARGV[5] then
        redis.call('UNLINK', record)
        redis.call('HSET', record, '.g', gen .. 'F', '.i', ARGV[5])
        redis.call('PEXPIRE', record, RESERVED_MS)
    end
    redis.call('HSET', record, '.rv', ARGV[3])
    redis.call('SADD', KEYS[3], ARGV[4])
    return 'ok'
end

-- ARGV version, the type of a piece that was reserved ('' = there is one) -> ok, version adopted
-- last, epoch | stale, version
function verbs.prepare()
    local type = type_of(record)
    if not type or type == 'n' then return 'none' end
    if is_late_at_home(type, ARGV[3]) then return 'stale' end
    local has = redis.call('HMGET', record, '.pc', '.rv', '.pv', '.av', '.dv')
    local version = tonumber(ARGV[3])
    if tonumber(has[3] or 0) > version or tonumber(has[2] or 0) > version then
        return {'stale', text(math.max(tonumber(has[3] or 0), tonumber(has[2] or 0)))}
    end
    if has[2] and not has[1] then
        if ARGV[4] == '' or has[2] ~= ARGV[3] then return 'none' end
        redis.call('PERSIST', record)
        redis.call('HSET', record, '.g', gen .. ARGV[4], '.pc', '1', '.w', '0 0 0', '.fv', ARGV[3])
        if ARGV[4] == 'S' then redis.call('HSET', record, '.own', string.rep(GONE, 64)) end
    elseif has[5] then
        return {'odd', type}
    end
    redis.call('HDEL', record, '.rv')
    redis.call('HSET', record, '.pv', ARGV[3])
    return {'ok', has[4] or '0', redis.call('HGET', KEYS[1], 'epoch')}
end

-- KEYS outbox, the slices'; ARGV version, slices, event, ms -> ok epoch n owned lost_ms (size of each)...
function verbs.freeze()
    local type = type_of_piece()
    if not type then return 'none' end
    local has = redis.call('HMGET', record, '.own', '.fv', '.fs', '.fo')
    local version, last = tonumber(ARGV[3]), tonumber(has[2] or 0)
    if not has[1] or last > version or is_late_at_home(type, ARGV[3]) then return 'stale' end
    local epoch, n, owned
    if last == version and has[4] then
        local own = chars(has[1])
        for _, i in ipairs(selected(has[4])) do -- what was released is not there to be copied
            if own[i] ~= 'm' and own[i] ~= 'n' then return {'odd', has[1]} end
        end
        epoch, n = noted(has[3], '.fs', ARGV[5], ARGV[6])
        owned = has[4]
    else
        local own, before = chars(has[1]), chars(string.rep(GONE, 64))
        for _, i in ipairs(selected(ARGV[4])) do
            if own[i] ~= '1' and own[i] ~= '0' then return {'odd', has[1]} end
            before[i] = own[i]
            own[i] = own[i] == '1' and 'm' or 'n'
        end
        owned = table.concat(before)
        epoch, n = note(ARGV[5], ARGV[6])
        redis.call('HSET', record, '.own', table.concat(own), '.fv', ARGV[3], '.fs',
                   epoch .. '-' .. n, '.fo', owned)
    end
    local answer = {'ok', epoch, n, owned, redis.call('HGET', KEYS[1], 'lost_ms') or '0'}
    for i = 4, #KEYS do answer[#answer + 1] = redis.call('HLEN', KEYS[i]) end
    return answer
end

-- KEYS (in the place of the record) members of a slice; ARGV cursor, count -> cursor, list
function verbs.scan() return redis.call('HSCAN', KEYS[2], ARGV[3], 'COUNT', ARGV[4]) end

-- KEYS (in the place of the record) where they are kept meanwhile; ARGV members and kinds
function verbs.put()
    for i = 3, #ARGV, FIELDS do
        redis.call('HSET', KEYS[2], unpack(ARGV, i, math.min(#ARGV, i + FIELDS - 1)))
    end
    as_table_if_large(KEYS[2], (#ARGV - 2) / 2)
    redis.call('PEXPIRE', KEYS[2], TEMPORARY_MS)
    return 'ok'
end

-- KEYS index of keys; ARGV cursor, slices -> cursor, list of keys and slices
function verbs.keys()
    local page = redis.call('HSCAN', KEYS[2], ARGV[3], 'COUNT', 500)
    local list = {}
    for i = 1, #page[2], 2 do
        local s = string.byte(page[2][i + 1]) - 47
        if string.sub(ARGV[4], s, s) ~= GONE then
            list[#list + 1] = page[2][i]
            list[#list + 1] = page[2][i + 1]
        end
    end
    return {page[1], list}
end

-- KEYS[2...] keys -> of each its answer and the milliseconds that it is kept for. An answer stands
-- behind the generation of its cell: another one's is not worth anything.
function verbs.fetch()
    local list, gen = {}, redis.call('HGET', KEYS[1], 'gen')
    for i = 2, #KEYS do
        local of, answer = string.match(redis.call('GET', KEYS[i]) or '', '^(%d+) (.*)$')
        list[#list + 1] = of == gen and answer or ''
        list[#list + 1] = redis.call('PTTL', KEYS[i])
    end
    return list
end

-- KEYS index of keys, keys; ARGV (key, slice, answer, ms) of each
function verbs.keep()
    local gen = redis.call('HGET', KEYS[1], 'gen')
    for i = 3, #KEYS do
        local at = 3 + (i - 3) * 4
        local ms = tonumber(ARGV[at + 3])
        if ARGV[at + 2] ~= '' and ms > 0 then
            redis.call('SET', KEYS[i], gen .. ' ' .. ARGV[at + 2], 'PX', text(ms))
            redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 1])
            if redis.call('PTTL', KEYS[2]) < ms then redis.call('PEXPIRE', KEYS[2], text(ms)) end
        end
    end
    return 'ok'
end

-- KEYS outbox, of each slice where it was put and where it goes; ARGV version, owned, event, ms,
-- size of each, lost_ms there, the epoch that it was prepared in -> ok | again (something is missing)
function verbs.adopt()
    local type = type_of_piece()
    if not type then return 'none' end
    if is_late_at_home(type, ARGV[3]) then return 'stale' end
    local has = redis.call('HMGET', record, '.own', '.pv', '.av', '.fv')
    if tonumber(has[3] or 0) >= tonumber(ARGV[3]) then return 'ok' end
    if has[2] ~= ARGV[3] or not has[1] then return 'stale' end
    -- A cell that was opened anew may have forgotten that the move was given up.
    if ARGV[#ARGV] ~= redis.call('HGET', KEYS[1], 'epoch') then return 'stale' end
    local slices, own = selected(ARGV[4]), chars(has[1])
    for k, i in ipairs(slices) do
        if own[i] == '1' or own[i] == '0' then return {'odd', has[1]} end
        if string.sub(ARGV[4], i, i) == '1' and
            redis.call('HLEN', KEYS[2 + 2 * k]) ~= tonumber(ARGV[6 + k]) then
            return 'again'
        end
    end
    local lacks = false
    for k, i in ipairs(slices) do
        own[i] = string.sub(ARGV[4], i, i)
        redis.call('UNLINK', KEYS[3 + 2 * k])
        if own[i] == '0' then
            lacks = true
        elseif tonumber(ARGV[6 + k]) > 0 then
            redis.call('RENAME', KEYS[2 + 2 * k], KEYS[3 + 2 * k])
            redis.call('PERSIST', KEYS[3 + 2 * k])
        end
    end
    redis.call('HSET', record, '.own', table.concat(own), '.av', ARGV[3])
    if tonumber(has[4] or 0) < tonumber(ARGV[3]) then
        redis.call('HSET', record, '.fv', ARGV[3])
        redis.call('HDEL', record, '.fo')
    end
    -- Keys that the cell they come from would have asked the store for are asked for here, too.
    local lost_ms = ARGV[7 + #slices]
    if tonumber(lost_ms) > tonumber(redis.call('HGET', KEYS[1], 'lost_ms') or 0) then
        redis.call('HSET', KEYS[1], 'lost_ms', lost_ms)
    end
    local epoch, n = note(ARGV[5], ARGV[6])
    if lacks then need(epoch, n) end -- the store has come so far: then it has the slice, too
    return 'ok'
end

-- KEYS the slices; ARGV version, slices
function verbs.release()
    local type = type_of_piece()
    if not type then return 'none' end
    if is_late_at_home(type, ARGV[3]) then return 'stale' end
    local has = redis.call('HMGET', record, '.own', '.fv')
    if has[2] ~= ARGV[3] then return 'stale' end
    local own = chars(has[1])
    for _, i in ipairs(selected(ARGV[4])) do
        if own[i] == 'm' or own[i] == 'n' then own[i] = GONE end
    end
    redis.call('HSET', record, '.own', table.concat(own))
    unlink(3, #KEYS)
    return 'ok'
end

-- KEYS the slices; ARGV version, that of the move, slices, what its target has adopted last. Gives
-- the move up, or what is left of it if it was done already. -> thawed | moved
function verbs.thaw()
    local type = type_of_piece()
    if not type then return 'none' end
    if is_late_at_home(type, ARGV[3]) or
       tonumber(redis.call('HGET', record, '.fv') or 0) > tonumber(ARGV[3]) then
        return 'stale'
    end
    local has = redis.call('HMGET', record, '.own', '.fv')
    local was_adopted = tonumber(ARGV[6]) >= tonumber(ARGV[4])
    if has[2] == ARGV[4] then
        local own = chars(has[1])
        for _, i in ipairs(selected(ARGV[5])) do
            if own[i] == 'm' or own[i] == 'n' then
                own[i] = was_adopted and GONE or (own[i] == 'm' and '1' or '0')
            end
        end
        redis.call('HSET', record, '.own', table.concat(own))
        if was_adopted then unlink(3, #KEYS) end
    end
    if tonumber(has[2] or 0) < tonumber(ARGV[3]) then
        redis.call('HSET', record, '.fv', ARGV[3])
        redis.call('HDEL', record, '.fo')
    end
    return was_adopted and 'moved' or 'thawed'
end

-- KEYS outbox; ARGV version, event, ms -> ok epoch n .w its-time (field, value)...
function verbs.stop()
    if not type_of_piece() then return 'none' end
    local has = redis.call('HMGET', record, '.own', '.dv', '.ds', '.pc')
    if not has[4] or tonumber(has[2] or 0) > tonumber(ARGV[3]) then return 'stale' end
    if has[1] and string.find(has[1], '[10]') then return {'odd', has[1]} end
    local epoch, n
    if has[2] == ARGV[3] then
        epoch, n = noted(has[3], '.ds', ARGV[4], ARGV[5])
    else
        epoch, n = note(ARGV[4], ARGV[5])
        redis.call('HSET', record, '.dv', ARGV[3], '.ds', epoch .. '-' .. n, '.g', gen .. 'F')
    end
    local list = counted()
    return {'ok', epoch, n, '.w', redis.call('HGET', record, '.w'), unpack(list)}
end

-- KEYS pieces, outbox; ARGV version, "home:id", event, ms -> ok epoch n. Home has its counts: a cell
-- that comes back with the piece is behind the event, and is emptied.
function verbs.erase()
    if type_of(record) and redis.call('HGET', record, '.dv') ~= ARGV[3] then return 'stale' end
    redis.call('UNLINK', record)
    redis.call('SREM', KEYS[3], ARGV[4])
    local epoch, n = emit(KEYS[4], ARGV[5], 1, tonumber(ARGV[6]))
    return {'ok', epoch, n}
end

-- ---- also while the cell is being opened ----

local always = {}

-- A cell that nobody has begun to open may be behind the log, or empty: what it says about itself
-- means nothing. With its new epoch it says enough: who waits for that waits for all before it.
local function is_unknown()
    return closed and redis.call('HGET', KEYS[1], 'state') ~= 'opening'
end

-- A cell that is being opened cannot write: it will when it is open, or its data is thrown away and
-- the log has an event behind it (open.lua). It may come back with other data before that.
local function sequence_with_debt(event)
    if closed then redis.call('HSET', KEYS[1], 'owes', event) end
    local at = redis.call('HMGET', KEYS[1], 'epoch', 'n')
    return {at[1] or '0', closed and '1' or at[2] or '0'}
end

-- KEYS index of keys, the 64 slices, outbox; ARGV the version of the map that gives them up ('' = of
-- any, home is lost), event, ms: what was made since stays. A cell that comes back with the piece is
-- behind the event, and is emptied. -> epoch n
function always.wipe()
    if is_unknown() then return 'closed' end
    local has = redis.call('HMGET', record, '.pc', '.rv', '.pv')
    local is_later = ARGV[3] ~= '' and
        math.max(tonumber(has[2] or 0), tonumber(has[3] or 0)) > tonumber(ARGV[3])
    if (has[1] or has[2]) and not is_later then
        unlink(2, #KEYS - 1)
        if not closed then emit(KEYS[#KEYS], ARGV[4], 1, tonumber(ARGV[5])) end
    end
    return sequence_with_debt(ARGV[4])
end

-- ARGV event. How far the cell is, and if it is being opened: with the event that says that what is
-- given up there is gone. -> epoch n
function always.fence()
    if is_unknown() then return 'closed' end
    return sequence_with_debt(ARGV[3])
end

-- KEYS pieces; ARGV "home:id" -> ok | stale (it is there again)
function always.unlist()
    if is_unknown() then return 'closed' end
    local has = redis.call('HMGET', record, '.pc', '.rv')
    if has[1] or has[2] then return 'stale' end
    redis.call('SREM', KEYS[3], ARGV[3])
    return 'ok'
end

-- KEYS (in the place of the record) pieces; ARGV "home:"
function always.pieces()
    local list = {}
    for _, piece in ipairs(redis.call('SMEMBERS', KEYS[2])) do
        if string.sub(piece, 1, #ARGV[3]) == ARGV[3] then list[#list + 1] = piece end
    end
    return list
end

-- -> epoch n relayed
function always.progress()
    if is_unknown() then return 'closed' end
    local at = redis.call('HMGET', KEYS[1], 'epoch', 'n', 'relayed')
    return {at[1] or '0', at[2] or '0', at[3] or '0-0'}
end

-- KEYS[2...] records -> of each '' (none) or type, incarnation, map, options, written, and if it is
-- spread (field, value)... What is only reserved: R, incarnation, the version that it is reserved for.
function verbs.tell()
    local answer = {}
    for i = 2, #KEYS do
        record = KEYS[i]
        local type = type_of(record)
        local rv = type == 'F' and redis.call('HEXISTS', record, '.pc') == 0 and
            redis.call('HGET', record, '.rv')
        if not type or type == 'n' then
            answer[#answer + 1] = ''
        elseif rv then
            answer[#answer + 1] = {'R', redis.call('HGET', record, '.i') or '0', rv, '', '0'}
        else
            local has = redis.call('HMGET', record, '.i', '.map', '.o', '.w')
            local counts = string.find('CSF', type, 1, true) and counted() or {}
            answer[#answer + 1] = {type, has[1] or '0', has[2] or '', has[3] or '', has[4] or '0',
                                   unpack(counts)}
        end
    end
    return answer
end

local verb = ARGV[2]
if always[verb] then return always[verb]() end
if closed then return 'closed' end
return verbs[verb]()
