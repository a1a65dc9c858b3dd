-- load.lua - what the store has goes where it is missing.
--
-- One loader at a time: whoever wants to load takes a token first, and only with it something is
-- put there. Between the token and the putting nobody else makes the record, so what the store
-- said in between is all there is. A loader that was asleep meanwhile finds another's token, or
-- one of another epoch, or the record itself, and is refused.
--
-- A store may be behind what it said before (a standby that took over). What was dropped from a
-- cell is in a store that has come as far as `ne`-`nn`: an older one is not believed.
--
-- KEYS  cell, record (or key), token, members of the slice
-- ARGV  run id, then one of
--   'claim', token, slice ('' = the record)     -> yes | no (another loads it) | there
--   'target', token, epoch, n, type, ttl_ms, (field, value)...
--   'slice', token, epoch, n, slice, first (0|1), last (0|1), (member, kind)...
--   'key', epoch, n, value, ttl_ms
--     epoch, n: how far the store was; '' = as far as ever
--                                               -> ok | there | refused (the token) | behind
-- And each may answer closed. Sent twice, they say `there` or `refused` the second time.
local TOKEN_MS = 5000
local FIELDS = 2000 -- of one command

local record, lock = KEYS[2], KEYS[3]
local closed, is = cell_closed('epoch', 'gen', 'ne', 'nn')
if closed then return 'closed' end
local epoch, gen = is[1], is[2]

-- The type of the record that is there; nil: none of this generation.
local function type_of()
    local g = redis.call('HGET', record, '.g')
    if not g or string.sub(g, 1, -2) ~= gen then return nil end
    return string.sub(g, -1)
end

-- Does the slice lack its members, and are they to be here?
local function is_wanted(slice)
    local type = type_of()
    if type ~= 's' and type ~= 'S' then return false end
    local own = redis.call('HGET', record, '.own') or ''
    return string.sub(own, slice + 1, slice + 1) == '0'
end

local function is_behind(e, n)
    if e == '' or not is[3] then return false end
    return is_after(tonumber(is[3]), tonumber(is[4]), tonumber(e), tonumber(n))
end

local function put(key, from)
    for i = from, #ARGV, FIELDS do
        redis.call('HSET', key, unpack(ARGV, i, math.min(#ARGV, i + FIELDS - 1)))
    end
    as_table_if_large(key, (#ARGV - from + 1) / 2)
end

-- It is there by now, or has gone: whoever lacks it the next time does not wait for us.
local function let_go(is_ours)
    if is_ours then redis.call('DEL', lock) end
    return 'there'
end

local verbs = {}

function verbs.claim()
    local slice = ARGV[4]
    if slice == '' then
        if type_of() then return 'there' end
    elseif not is_wanted(tonumber(slice)) then
        return 'there'
    end
    local mine = ARGV[3] .. ' ' .. epoch
    local holder = redis.call('GET', lock)
    if holder then
        -- "<node>.<number> <epoch>": an earlier one of the same node has come to its end.
        local node, of = string.match(holder, '^(.*)%.%d+ (%d+)$')
        if of == epoch and node ~= string.match(mine, '^(.*)%.%d+ ') then return 'no' end
    end
    redis.call('SET', lock, mine, 'PX', TOKEN_MS)
    return 'yes'
end

function verbs.target()
    local is_ours = redis.call('GET', lock) == ARGV[3] .. ' ' .. epoch
    if type_of() then return let_go(is_ours) end
    if not is_ours then return 'refused' end
    if is_behind(ARGV[4], ARGV[5]) then return 'behind' end
    redis.call('DEL', record, lock)
    redis.call('HSET', record, '.g', gen .. ARGV[6])
    -- What is made on top of nothing was not loaded.
    if ARGV[6] ~= 'n' then redis.call('HSET', record, '.u', text(now_ms())) end
    put(record, 8)
    if ARGV[7] ~= '0' then redis.call('PEXPIRE', record, ARGV[7]) end
    return 'ok'
end

function verbs.slice()
    local slice = tonumber(ARGV[6])
    local is_ours = redis.call('GET', lock) == ARGV[3] .. ' ' .. epoch
    if not is_wanted(slice) then return let_go(is_ours) end
    if not is_ours then return 'refused' end
    if is_behind(ARGV[4], ARGV[5]) then return 'behind' end
    if ARGV[7] == '1' then
        redis.call('UNLINK', KEYS[4])
    elseif redis.call('EXISTS', KEYS[4]) == 0 then
        redis.call('DEL', lock) -- dropped meanwhile, with what was put there before
        return 'refused'
    end
    put(KEYS[4], 9)
    redis.call('PEXPIRE', lock, TOKEN_MS)
    if ARGV[8] == '1' then
        local own = redis.call('HGET', record, '.own')
        redis.call('HSET', record, '.own', string.sub(own, 1, slice) .. '1' ..
                   string.sub(own, slice + 2), '.u', text(now_ms()))
        redis.call('DEL', lock)
    end
    return 'ok'
end

function verbs.key()
    if is_behind(ARGV[3], ARGV[4]) then return 'behind' end
    if string.match(redis.call('GET', record) or '', '^%d+') ~= gen then
        redis.call('SET', record, gen .. ' ' .. ARGV[5], 'PX', ARGV[6])
    end
    return 'ok'
end

return verbs[ARGV[2]]()
