-- look.lua - looking at what there is, and putting it right.
--
-- KEYS  cell, then as each verb says
-- ARGV  run id, then one of
--   'scan', cursor, count, pattern   of all keys of this server, also of other cells
--                                    -> {cursor, {key...}}
--   'records', kinds, (kind)...      KEYS: records.  -> of each false (there is none), or
--                                    {.g, .i, .w, .v, .o, .u, .map, .own, (count)...}
--   'held', (member)...              KEYS: (record, its slice)... -> of each the kind, '' = none,
--                                    '*' = perhaps, in another cell
--   'count', limit, kinds, (kind)... KEYS: record, the 64 slices -> as 'records', then for each
--                                    kind the members; own '*': they are more than `limit`, or
--                                    not all here. Last come epoch and n of the cell.
--   'mend', .g, .u, field, is, shall KEYS: record. Sets the field if it is still so
--                                    -> ok | busy
-- All but 'scan' may answer 'closed'.
local verbs = {}

local function type_of(g, gen)
    if not g or string.sub(g, 1, -2) ~= gen then return nil end
    return string.sub(g, -1)
end

local function look(record, gen, first)
    local fields = {'.g', '.i', '.w', '.v', '.o', '.u', '.map', '.own'}
    for i = first, #ARGV do fields[#fields + 1] = '.c:' .. ARGV[i] end
    local is = redis.call('HMGET', record, unpack(fields))
    local type = type_of(is[1], gen)
    if not type then return false end
    for i = 2, #fields do is[i] = is[i] or '' end
    return is, type
end

function verbs.records(gen)
    local answer = {}
    for i = 2, #KEYS do answer[#answer + 1] = look(KEYS[i], gen, 4) end
    return answer
end

function verbs.held(gen)
    local answer = {}
    for i = 2, #KEYS, 2 do
        local is = redis.call('HMGET', KEYS[i], '.g', '.own')
        local type, member = type_of(is[1], gen), ARGV[2 + i / 2]
        local slice = string.byte(member) - 47
        local held
        if type == 'i' then
            held = redis.call('HGET', KEYS[i], member)
        elseif type == 'S' and not string.find(string.sub(is[2], slice, slice), '[1m]') then
            held = '*'
        elseif type == 's' or type == 'S' then
            held = redis.call('HGET', KEYS[i + 1], member)
        end
        answer[#answer + 1] = held or ''
    end
    return answer
end

local function add_members(key, counts)
    local all = redis.call('HGETALL', key)
    for i = 1, #all, 2 do
        if string.sub(all[i], 1, 1) ~= '.' then
            counts[all[i + 1]] = (counts[all[i + 1]] or 0) + 1
        end
    end
end

function verbs.count(gen, epoch, n)
    local is, type = look(KEYS[2], gen, 5)
    if not is then return false end
    local counts, all = {}, 0
    if type == 's' or type == 'S' then
        local here = {} -- what moves here is not ours yet
        for i = 3, #KEYS do
            if string.find(string.sub(is[8], i - 2, i - 2), '[1m]') then here[#here + 1] = KEYS[i] end
        end
        for _, key in ipairs(here) do all = all + redis.call('HLEN', key) end
        if all > tonumber(ARGV[3]) or string.find(is[8], '[0n]') then
            is[8] = '*'
        else
            for _, key in ipairs(here) do add_members(key, counts) end
        end
    elseif type == 'i' then
        add_members(KEYS[2], counts)
    end
    for i = 5, #ARGV do is[#is + 1] = text(counts[ARGV[i]] or 0) end
    is[#is + 1] = epoch
    is[#is + 1] = n
    return is
end

function verbs.mend()
    local is = redis.call('HMGET', KEYS[2], '.g', '.u', ARGV[5])
    if is[1] ~= ARGV[3] or (is[2] or '') ~= ARGV[4] or (is[3] or '0') ~= ARGV[6] then
        return 'busy'
    end
    redis.call('HSET', KEYS[2], ARGV[5], ARGV[7])
    return 'ok'
end

if ARGV[2] == 'scan' then
    return redis.call('SCAN', ARGV[3], 'COUNT', ARGV[4], 'MATCH', ARGV[5])
end
local closed, is = cell_closed('gen', 'epoch', 'n')
if closed then return 'closed' end
return verbs[ARGV[2]](is[1], is[2], is[3])
