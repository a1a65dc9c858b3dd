-- run.lua - does a group of ops in one cell, all or nothing, and writes their events down.
--
-- What is common costs least: many likes of one item are one HMGET and one HSET. No function is made
-- before it is needed, because a script's functions are made anew at each call.
--
-- KEYS   1 the cell's hash   2 its outbox   then those of each record, in the order of ARGV
-- ARGV   1 run id of the server   2 "call:<node>"   3 number of the call (0: it writes nothing)
--        4 now, ms   5 epoch that the node knows   6 outbox_max   7 idle_s of counters without their
--        own   8 keys_kept_ms   9 1 = there is no store   10 how many kinds   then their names
--        then records: id, then its runs; a run is a description and what belongs to it:
--
--   byte 1  what   L reactions of different users on a whole item   S the same on one slice of it
--                  A sums that are added to a counter   G any other single op
--        2  1 = the last run of this record      3 p|h|a: the node does not know that it is spread;
--                                                  it does, and this is its home; or is not
--        4  1 = the region follows               5 1 = all counts are wanted
--        6  op, 7  chr(48 + kind);  of L and S: R W T Q, or ~ for two bytes of each op, which follow
--        8, 9   L S A: how many, base 64 from chr(48)
--        8      G: 1 = keyed: key and fingerprint follow     9, 10  chr(48 + n): other arguments, keys
--   L [region] [codes] user...            user is chr(48 + slice) and the name; S: KEYS has the slice
--   A [region] sum, amounts as they go into the outbox
--   G [region] [key, fingerprint] argument...      KEYS: [key's [index of keys]] slices
--
-- What the keys hold, and the outbox entry `d`: see ../README.md and ../entry.h.
--
-- Answer  C closed   S overtaken by a later call   E<epoch> another epoch: nothing was done
--         O<epoch> <n> and an answer for each run:
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
local fields = {} -- of counts, by chr(48 + kind)
local out, o = {}, 0
local events, e = {}, 0 -- words of the outbox entry
local deleted = false
local numbers, generic -- made when they are needed

-- Of an item in slices, from one run to the next of the same record: its count of `kept_field` is
-- written once for all slices.
local kept_field, kept_count, kept_inc, kept_own
local kept_dirty = false

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

-- Writes what is kept; nothing of it holds afterwards.
local function settle(key)
    if kept_dirty then
        call('HSET', key, '.w', written .. format('%d', n), kept_field, format('%d', kept_count))
    end
    kept_field, kept_dirty = nil, false
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
        local answer = over or (what ~= 83 and rest or nil)
        if kept_field and what ~= 83 then
            settle(key)
        end
        if what == 76 or what == 83 then
            local codes
            if op == 126 then
                codes = argv[p]
                p = p + 1
            end
            local count, from = (high - 48) * 64 + low - 48, p
            p = p + count
            local home = key -- of the members
            if what == 83 then
                home = keys[k]
                k = k + 1
            end
            if not answer then
                local name = argv[kinds + kind - 48]
                local field = fields[kind]
                if not field then
                    field = '.c:' .. name
                    fields[kind] = field
                end
                local r, at, born
                if what == 76 then
                    r, at = try('HMGET', key, '.g', '.i', field, unpack(argv, from, p - 1)), 3
                    if r[1] ~= gi or place == 97 then
                        local t
                        if r.err then
                            answer = 'y'
                        else
                            answer, t = refusal(r[1], place)
                            born = t == 'n'
                        end
                    end
                else
                    at = 0
                    local slice = byte(argv[from])
                    if kept_field == field and op == 82 then
                        local state = sub(kept_own, slice - 47, slice - 47)
                        answer = state ~= '1' and (state == '0' and 'D' or state == '-' and 'V' or 'v')
                            or nil
                    else
                        settle(key)
                        r = try('HMGET', key, '.g', '.i', field, '.own')
                        answer = r.err and 'y' or refusal(r[1], place, slice, r[4])
                        kept_inc, kept_count, kept_own = r[2], tonumber(r[3] or 0), r[4]
                        if not answer and op == 82 then
                            kept_field = field
                        end
                    end
                end
                if answer == 'D' or answer == 'V' or answer == 'v' then
                    rest = answer -- other slices may be here
                else
                    over = answer
                end
                if not answer then
                    local incarnation, held
                    if what == 83 then
                        incarnation = kept_inc
                        r = call('HMGET', home, unpack(argv, from, p - 1))
                    else
                        incarnation, held = r[2], r[3]
                    end
                    if born then
                        incarnation, held = inc, nil
                        if r[1] then -- of another generation, or of something deleted
                            for j = at + 1, at + count do
                                r[j] = false
                            end
                        end
                    end
                    local set, m = {}, 0
                    local lists -- of those who held something before, for their events
                    local gone, sums, marks
                    local head = e -- where the event group of the others begins
                    if op == 82 then -- all hold the same from now on
                        e = e + 7
                        for j = 1, count do
                            local before = r[at + j]
                            if before ~= name then
                                local user = argv[from + j - 1]
                                set[m + 1], set[m + 2] = user, name
                                m = m + 2
                                if before then
                                    lists = lists or {}
                                    local list = lists[before]
                                    if not list then
                                        list = { before, name }
                                        lists[before] = list
                                    end
                                    list[#list + 1] = user
                                else
                                    e = e + 1
                                    events[e] = user
                                end
                            end
                        end
                        if e - head - 7 ~= count then
                            local yes, no = string.char(kind + kind - 47), string.char(kind + kind - 48)
                            marks = {}
                            for j = 1, count do
                                marks[j] = r[at + j] == name and no or yes
                            end
                        end
                    else -- each as it likes
                        if not numbers then
                            number_kinds()
                        end
                        gone, sums, marks, lists = {}, {}, {}, {}
                        for j = 1, count do
                            local verb, wanted = op, kind
                            if codes then
                                verb, wanted = byte(codes, j + j - 1, j + j)
                            end
                            local to, before = argv[kinds + wanted - 48], r[at + j] or nil
                            local after = before
                            if wanted == 48 then
                                to = before
                            end
                            if verb == 82 then
                                after = to
                            elseif verb == 87 then
                                after = before ~= to and before or nil
                            elseif verb == 84 then
                                after = before ~= to and to or nil
                            end
                            local user = argv[from + j - 1]
                            if before ~= after then
                                local pair = (before or '') .. '\0' .. (after or '')
                                local list = lists[pair]
                                if not list then
                                    list = { before or '', after or '' }
                                    lists[pair] = list
                                end
                                list[#list + 1] = user
                                if before then
                                    sums[before] = (sums[before] or 0) - 1
                                end
                                if after then
                                    sums[after] = (sums[after] or 0) + 1
                                    set[m + 1], set[m + 2] = user, after
                                    m = m + 2
                                else
                                    gone[#gone + 1] = user
                                end
                            end
                            local held_now = after and numbers[after] or 0
                            marks[j] = after and held_now == 0 and 'x'
                                or string.char(48 + 2 * held_now + (before ~= after and 1 or 0))
                        end
                    end
                    local changes = m > 0 or (gone and #gone > 0)
                    if not changes or busy then
                        while e > head do -- nothing has happened
                            events[e] = nil
                            e = e - 1
                        end
                        answer = changes and 'b' or nil
                    else
                        if born and r[1] then
                            call('DEL', key)
                        end
                        if op == 82 then
                            if e > head + 7 then
                                events[head + 1], events[head + 2] = 'l', id
                                events[head + 3], events[head + 4] = incarnation, region
                                events[head + 5], events[head + 6] = '', name
                                events[head + 7] = e - head - 7
                            else
                                e = head
                            end
                            n = n + m / 2
                            if what == 83 then
                                call('HSET', home, unpack(set, 1, m))
                                kept_count, kept_dirty = kept_count + m / 2, true
                            elseif born then
                                held = m / 2
                                call('HSET', key, '.g', gi, '.i', inc, '.w', written .. format('%d', n),
                                    field, format('%d', held), unpack(set, 1, m))
                            else
                                held = (tonumber(held) or 0) + m / 2
                                call('HSET', key, '.w', written .. format('%d', n), field,
                                    format('%d', held), unpack(set, 1, m))
                            end
                            if what == 76 and held > 63 and held - m / 2 < 64 then
                                -- From here on lookups in a list would cost more than a table.
                                call('HSET', key, '.pad', string.rep('.', 65))
                                call('HDEL', key, '.pad')
                            end
                            for before, list in pairs(lists or {}) do
                                call('HINCRBY', key, '.c:' .. before, 2 - #list)
                            end
                        else
                            for _, list in pairs(lists) do
                                n = n + #list - 2
                            end
                            if born then
                                call('HSET', key, '.g', gi, '.i', inc)
                            end
                            if m > 0 then
                                call('HSET', home, unpack(set, 1, m))
                            end
                            if #gone > 0 then
                                call('HDEL', home, unpack(gone))
                            end
                            call('HSET', key, '.w', written .. format('%d', n))
                            for name_of, sum in pairs(sums) do
                                if sum ~= 0 then
                                    call('HINCRBY', key, '.c:' .. name_of, sum)
                                end
                            end
                        end
                        for _, list in pairs(lists or {}) do
                            events[e + 1], events[e + 2], events[e + 3] = 'l', id, incarnation
                            events[e + 4], events[e + 5], events[e + 6] = region, list[1], list[2]
                            events[e + 7] = #list - 2
                            e = e + 7
                            for i = 3, #list do
                                e = e + 1
                                events[e] = list[i]
                            end
                        end
                    end
                    if not answer then
                        local is_large = what == 76 and changes and op == 82 and held > 2048
                            and call('HLEN', key) > 4112
                        if marks then
                            answer = (is_large and '~' or '=') .. concat(marks)
                        else
                            answer = is_large and '^' or '*'
                        end
                        if counted == 49 then
                            settle(key)
                            answer = answer .. all_counts(key)
                        end
                    end
                end
            end
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
        o = o + 1
        out[o] = answer
    until is_last
    settle(key)
end

local last_n = format('%d', n)
local reply = 'O' .. epoch .. ' ' .. last_n .. ' ' .. concat(out)
if n >= first then
    call('XADD', keys[2], epoch .. '-' .. last_n, 'f', format('%d', first), 't', now, 'd',
        cmsgpack.pack(events))
end
if number ~= '0' then
    call('HSET', keys[1], 'n', last_n, argv[2], number, 'answer' .. sub(argv[2], 5), reply)
    if deleted then
        call('HSET', keys[1], 'inc', inc)
    end
end
return reply
