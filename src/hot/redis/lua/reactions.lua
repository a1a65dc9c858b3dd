-- reactions.lua - reactions of different users on one item, a run at a time. A part of run.lua, put
-- there when the program is built: it uses what stands above it.
--
-- By far the most are of users who hold nothing yet and want the same. Redis does as little as it can
-- for each of them: the users come packed, as they go into the outbox, and Lua only lays them between
-- the names of what they hold from now on.
local LISTS_UP_TO = 64 * 128 -- likes that an item has, while slices of it may be lists

-- user, name, user, name... of `count` users behind users[from]. The table is used again: it grows
-- for the largest slice, and not for all of them together.
local function with_name(pairs_of, users, from, count, name)
    for j = 1, count do
        pairs_of[j + j - 1], pairs_of[j + j] = users[from + j], name
    end
    return unpack(pairs_of, 1, count + count)
end

local function hold_nothing(before, from, to)
    for j = from, to do
        if before[j] then
            return false
        end
    end
    return true
end

-- Each as he likes: what is to be set, who is gone, what that does to the counts, users by what
-- they held and hold, and a mark for each.
local function weigh(users, from, count, held, at, op, kind, codes)
    local set, gone, sums, lists, marks, m, changes = {}, {}, {}, {}, {}, 0, 0
    if not numbers then
        number_kinds()
    end
    for j = 1, count do
        local verb, wanted = op, kind
        if codes then
            verb, wanted = byte(codes, 2 * (from + j) - 1, 2 * (from + j))
        end
        local to, before = argv[kinds + wanted - 48], held[at + j] or nil
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
        if before ~= after then
            local user, pair = users[from + j], (before or '') .. '\0' .. (after or '')
            local list = lists[pair]
            if not list then
                list = { before or '', after or '' }
                lists[pair] = list
            end
            list[#list + 1] = user
            changes = changes + 1
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
        local number = after and numbers[after] or 0
        marks[j] = after and number == 0 and 'x'
            or string.char(48 + 2 * number + (before ~= after and 1 or 0))
    end
    return set, gone, sums, lists, marks, changes
end

-- An event for each of users[from] to users[to].
local function note_words(id, incarnation, region, before, after, users, from, to)
    events[e + 1], events[e + 2], events[e + 3], events[e + 4] = 'l', id, incarnation, region
    events[e + 5], events[e + 6], events[e + 7] = before, after, to - from + 1
    e = e + 7
    for i = from, to do
        e = e + 1
        events[e] = users[i]
    end
end

-- The same of all users of a run, as they came.
local function note_packed(id, incarnation, region, after, count, packed)
    local i = #pieces
    if e > 0 then
        i = i + 1
        pieces[i] = cmsgpack.pack(events)
        events, e = {}, 0
    end
    pieces[i + 1] = '\144' .. cmsgpack.pack('l', id, incarnation, region, '', after, count)
    pieces[i + 2] = packed
end

-- Does a run whose arguments begin at p, keys at k; `refused` is the answer if it has to wait. Gives
-- where the next one begins, and what the record's other runs have to be answered: all of them, or
-- those that are not in slices.
local function react(id, key, place, region, is_sliced, is_counted, op, kind, p, k, refused)
    local codes, places
    if op == 126 then
        codes, p = argv[p], p + 1
    end
    if is_sliced then
        places, p = argv[p], p + 1
    end
    local packed, parts, first_key = argv[p], places and #places / 3 or 1, k
    p, k = p + 1, places and k + parts or k
    if refused then
        for i = 1, parts do
            out[o + i] = refused
        end
        o = o + parts
        return p, k
    end

    local name = argv[kinds + kind - 48]
    local field, users = '.c:' .. name, { cmsgpack.unpack(packed) }
    local r, at, is_plain
    if places then
        r, at = try('HMGET', key, '.g', '.i', field, '.own'), 0
        is_plain = r[1] == gs and r[4] and place ~= 97
    else
        r, at = try('HMGET', key, '.g', '.i', field, unpack(users)), 3
        is_plain = r[1] == gi and place ~= 97
    end
    local incarnation, held, own = r[2], tonumber(r[3] or 0), r[4]
    local n_before, first_out = n, o
    local born, over, rest, is_written
    local more, sums = 0, nil -- who have come to hold `name`; what became of other counts
    local fresh, scratch = op == 82, {}
    local fresh_parts, fresh_count = {}, 0 -- of users who held nothing: from, to
    local from = 0
    for i = 1, parts do
        local home, count, slice, answer, t = key, #users, nil, nil, nil
        if places then
            local high, low
            slice, high, low = byte(places, 3 * i - 2, 3 * i)
            home, count = keys[first_key + i - 1], (high - 48) * 64 + low - 48
        end
        if r.err then
            answer = 'y'
        elseif not is_plain or (slice and byte(own, slice - 47) ~= 49) then
            answer, t = refusal(r[1], place, slice, own)
        end
        if answer == 'D' or answer == 'V' or answer == 'v' then
            rest = answer -- other slices may be here
        elseif answer then
            over = answer
        else
            local before = r
            -- Of a slice's only user there is nothing else to be asked, if he held nothing.
            local is_set = places and fresh and count == 1 and not busy and
                call('HSETNX', home, users[from + 1], name) == 1
            if is_set then
                before = {}
            elseif places then
                before = call('HMGET', home, unpack(users, from + 1, from + count))
            elseif t == 'n' then
                born, incarnation, held = true, inc, 0
                before = r[1] and {} or r -- of another generation, or of something deleted
            end
            if fresh and hold_nothing(before, at + 1, at + count) then
                if busy then
                    answer = 'b'
                else
                    n, more = n + count, more + count
                    fresh_parts[fresh_count + 1], fresh_parts[fresh_count + 2] = from + 1, from + count
                    fresh_count = fresh_count + 2
                    if places then
                        if not is_set then
                            call('HSET', home, with_name(scratch, users, from, count, name))
                        end
                        local size = held < LISTS_UP_TO and call('HLEN', home) or 0
                        if size > 63 and size - count < 64 then
                            as_table(home)
                        end
                    elseif born then
                        if r[1] then
                            call('DEL', key)
                        end
                        call('HSET', key, '.g', gi, '.i', inc, '.w', written .. format('%d', n), field,
                            format('%d', count), with_name(scratch, users, 0, count, name))
                        is_written = true
                    else
                        call('HSET', key, '.w', written .. format('%d', n), field,
                            format('%d', held + count), with_name(scratch, users, 0, count, name))
                        is_written = true
                    end
                    answer = '*'
                end
            else
                local set, gone, differences, lists, marks, changes =
                    weigh(users, from, count, before, at, op, kind, codes)
                if changes > 0 and busy then
                    answer = 'b'
                else
                    answer = '=' .. concat(marks)
                end
                if changes > 0 and not busy then
                    n = n + changes
                    if born then
                        if r[1] then
                            call('DEL', key)
                        end
                        call('HSET', key, '.g', gi, '.i', inc)
                    end
                    if #set > 0 then
                        call('HSET', home, unpack(set))
                    end
                    if #gone > 0 then
                        call('HDEL', home, unpack(gone))
                    end
                    sums = sums or {}
                    for name_of, sum in pairs(differences) do
                        sums[name_of] = (sums[name_of] or 0) + sum
                    end
                    for _, list in pairs(lists) do
                        note_words(id, incarnation, region, list[1], list[2], list, 3, #list)
                    end
                end
            end
        end
        from = from + count
        out[first_out + i] = answer
    end
    o = first_out + parts

    if fresh_count == 2 * parts then
        note_packed(id, incarnation, region, name, #users, packed)
    else
        for i = 1, fresh_count, 2 do
            note_words(id, incarnation, region, '', name, users, fresh_parts[i], fresh_parts[i + 1])
        end
    end
    if sums and sums[name] then
        more, sums[name] = more + sums[name], nil
    end
    if n > n_before and not is_written then
        call('HSET', key, '.w', written .. format('%d', n))
        if more ~= 0 then
            call('HSET', key, field, format('%d', held + more))
        end
    end
    for name_of, sum in pairs(sums or {}) do
        if sum ~= 0 then
            call('HINCRBY', key, '.c:' .. name_of, sum)
        end
    end
    if not places and op == 82 and n > n_before then
        if held + more > 63 and held < 64 then
            as_table(key)
        end
        if held + more > 2048 and call('HLEN', key) > 4112 then
            out[o] = (out[o] == '*' and '^' or '~') .. sub(out[o], 2)
        end
    end
    if is_counted then
        local counts
        for i = first_out + 1, o do
            local head = byte(out[i])
            if head == 42 or head == 61 or head == 94 or head == 126 then
                counts = counts or all_counts(key)
                out[i] = out[i] .. counts
            end
        end
    end
    return p, k, over, rest
end
