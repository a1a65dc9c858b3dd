-- run.lua - does a group of ops in one cell, all or nothing, and writes their events down.
--
-- What is common costs least: many likes of one item are one HMGET and one HSET, or those of each
-- slice. What is rare is made when it is needed, because a script's functions are made anew at each
-- call.
--
-- KEYS   1 the cell's hash   2 its outbox   then those of each record, in the order of ARGV
-- ARGV   1 run id of the server   2 "call:<node>"   3 number of the call (0: it writes nothing)
--        4 now, ms   5 epoch that the node knows   6 outbox_max   7 idle_s of counters without their
--        own   8 keys_kept_ms   9 1 = there is no store   10 how many kinds   then their names
--        then records: id, then its runs; a run is a description and what belongs to it:
--
--   byte 1  what   L reactions of different users on a whole item   S the same on one in slices
--                  A sums that are added to a counter   G any other single op
--        2  1 = the last run of this record      3 p|h|a: the node does not know that it is spread;
--                                                  it does, and this is its home; or is not
--        4  1 = the region follows               5 1 = all counts are wanted
--        6  op, 7  chr(48 + kind);  of L and S: R W T Q, or ~ for two bytes of each op, which follow
--        8, 9   A: how many, base 64 from chr(48)
--        8      G: 1 = keyed: key and fingerprint follow     9, 10  chr(48 + n): other arguments, keys
--   L [region] [codes] users       users are strings of msgpack in a row: chr(48 + slice) and the name
--   S [region] [codes] places users       places: three bytes for each slice, itself and how many of its
--                                         users follow, base 64; KEYS has the slices
--   A [region] sum, amounts as they go into the outbox
--   G [region] [key, fingerprint] argument...      KEYS: [key's [index of keys]] slices
--
-- What the keys hold, and the outbox entry `d`: see ../README.md and ../entry.h.
--
-- Answer  C closed   S overtaken by a later call   E<epoch> another epoch: nothing was done
--         O<epoch> <n> and an answer for each run; of S for each slice:
--   L S   *  all changed, and held nothing before
--         =  a character for each: chr(48 + 2 * kind held now + changed), x = held an unknown kind
--         ^  and ~ are the same, and the item has grown large
--         then the counts, if wanted, each followed by a blank
--   A     +<value>_ added   %<value>_ created first
--   G     o or r (repeated) <changed><chr(48 + held)><value>_ and what the op tells more
--   all   M missing   Z in slices   W whole   D slice is not loaded   V elsewhere   v moving
--         R do it one by one   k ask the store for the key   b busy   y damaged
--         n not found   e exists   t wrong type   f below floor   u key reused   i invalid   x kind
-- After one of the first two lines of these nothing more of the record is done: the same answer.
local call, try, byte, sub = redis.call, redis.pcall, string.byte, string.sub
local concat, format = table.concat, string.format
local argv, keys = ARGV, KEYS
local number, now = argv[3], argv[4]
local cell = call('HMGET', keys[1], 'state', 'run', 'epoch', 'n', 'gen', 'inc', 'lost_ms', argv[2])
if cell[1] ~= 'open' or cell[2] ~= argv[1] then
    return 'C'
end
if number ~= '0' and cell[8] then
    if cell[8] == number then
        return call('HGET', keys[1], 'answer' .. sub(argv[2], 5))
    end
    if tonumber(cell[8]) > tonumber(number) then
        return 'S'
    end
end
local epoch = cell[3]
if epoch ~= argv[5] then
    return 'E' .. epoch
end

local gen, inc = cell[5], cell[6]
local gi, gs, gc = gen .. 'i', gen .. 's', gen .. 'c'
local n = tonumber(cell[4])
local first = n + 1
local storeless = argv[9] == '1'
local busy = number ~= '0' and call('XLEN', keys[2]) >= tonumber(argv[6])
local kinds, kind_count = 10, tonumber(argv[10])
local written = now .. ' ' .. epoch .. ' ' -- .w of a record, but for n
local out, o = {}, 0
local events, e = {}, 0 -- words of the outbox entry,
local pieces = {} -- and what stands in front of them, packed
local deleted = false
local numbers, generic -- made when they are needed

-- The type of a record that is of this generation; nil if it is not there.
local function type_of(g)
    if g and sub(g, 1, -2) == gen then
        return sub(g, -1)
    end
    return storeless and 'n' or nil
end

-- Why reactions cannot be done as they came; nil: they can, and the type.
local function refusal(g, place, slice, own)
    local t = type_of(g)
    if not t then
        return 'M'
    elseif t == 'F' then
        return place == 112 and 'V' or 'v'
    elseif t == 'C' or t == 'S' then
        if place == 112 or t == 'C' then
            return 'V'
        end
    elseif place == 97 then
        return 'V'
    end
    if t == 'c' then
        return 'R'
    elseif t == 'i' or t == 'n' then
        return slice and 'W' or nil, t
    elseif not slice then
        return 'Z'
    end
    local state = own and sub(own, slice - 47, slice - 47)
    if state == '1' then
        return nil, t
    end
    return state == '0' and 'D' or state == '-' and 'V' or state == '' and 'y' or 'v'
end

-- From 64 members on, lookups in a list cost more than a table; Redis would keep it up to 512.
local function as_table(key)
    call('HSET', key, '.pad', string.rep('.', 65))
    call('HDEL', key, '.pad')
end

local function number_kinds()
    numbers = {}
    for i = 1, kind_count do
        numbers[argv[kinds + i]] = i
    end
end

local function all_counts(key)
    local names = {}
    for i = 1, kind_count do
        names[i] = '.c:' .. argv[kinds + i]
    end
    local counts = call('HMGET', key, unpack(names))
    for i = 1, kind_count do
        counts[i] = counts[i] or '0'
    end
    return concat(counts, ' ') .. ' '
end

--@ reactions.lua

--@ singles.lua

local p, k = kinds + kind_count + 1, 3
local stop = #argv
while p <= stop do
    local id, key = argv[p], keys[k]
    local over, is_last -- the answer of the rest of the record, if it has to wait;
    local rest -- or of that part of it which is not in slices
    p, k = p + 1, k + 1
    repeat
        local what, last, place, regional, counted, op, kind, high, low, more = byte(argv[p], 1, 10)
        local region = ''
        is_last = last == 49
        p = p + 1
        if regional == 49 then
            region = argv[p]
            p = p + 1
        end
        local answer = over or rest
        if what == 76 or what == 83 then
            local over_now, rest_now
            p, k, over_now, rest_now = react(id, key, place, region, what == 83, counted == 49, op, kind,
                p, k, over or (what == 76 and rest))
            over, rest = over or over_now, rest_now or rest
        elseif what == 65 then
            local sum, amounts = argv[p], argv[p + 1]
            p = p + 2
            if not answer then
                local r = try('HMGET', key, '.g', '.i', '.v', '.o')
                local g, value = r[1], r[3] or '0'
                local t = 'c'
                if g ~= gc or place == 97 then
                    t = not r.err and type_of(g)
                    if r.err then
                        answer = 'y'
                    elseif not t then
                        answer = 'M'
                    elseif t == 'F' then
                        answer = place == 112 and 'V' or 'v'
                    elseif t == 'C' and place == 112 or t ~= 'C' and place == 97 or t == 'S' then
                        answer = 'V'
                    elseif t ~= 'C' and t ~= 'n' then
                        answer = 'R'
                    elseif t == 'n' then
                        value = '0'
                    end
                end
                if not answer and t ~= 'n' and r[4] and not string.find(r[4], ' 0 0 0 0$') then
                    answer = 'R'
                elseif not answer and (#value > 15 or #sum > 15) then
                    answer = 'R'
                end
                over = answer
                if not answer and busy then
                    answer = 'b'
                elseif not answer then
                    value = format('%d', tonumber(value) + tonumber(sum))
                    n = n + (high - 48) * 64 + low - 48
                    local wrote = written .. format('%d', n)
                    events[e + 1], events[e + 2], events[e + 3] = 'a', id, r[2]
                    events[e + 4], events[e + 5] = region, amounts
                    if t == 'n' then
                        if g then
                            call('DEL', key)
                        end
                        call('HSET', key, '.g', gc, '.i', inc, '.v', value, '.w', wrote)
                        events[e + 3] = inc
                        answer = '%' .. value .. ' '
                    else
                        call('HSET', key, '.v', value, '.w', wrote)
                        answer = '+' .. value .. ' '
                    end
                    e = e + 5
                end
            end
        else
            local from, from_key = p, k
            p = p + low - 48 + (high == 49 and 2 or 0)
            k = k + more - 48
            if not answer then
                if not generic then
                    generic = make_generic()
                end
                answer = generic(id, key, place, region, counted == 49, op, kind - 48, high == 49,
                    from, from_key, k)
                local head = byte(answer)
                -- M Z W D V v R k y: what follows of the record waits
                if head < 91 or head == 118 or head == 107 or head == 121 then
                    over = answer
                end
            end
        end
        if what ~= 76 and what ~= 83 then
            o = o + 1
            out[o] = answer
        end
    until is_last
end

local last_n = format('%d', n)
local reply = 'O' .. epoch .. ' ' .. last_n .. ' ' .. concat(out)
if n >= first then
    if e > 0 then
        pieces[#pieces + 1] = cmsgpack.pack(events)
    end
    call('XADD', keys[2], epoch .. '-' .. last_n, 'f', format('%d', first), 't', now, 'd',
        concat(pieces))
end
if number ~= '0' then
    call('HSET', keys[1], 'n', last_n, argv[2], number, 'answer' .. sub(argv[2], 5), reply)
    if deleted then
        call('HSET', keys[1], 'inc', inc)
    end
end
return reply
