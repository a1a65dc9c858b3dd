-- singles.lua - everything that is not a simple reaction or sum: one op at a time. A part of run.lua,
-- put there when the program is built: it uses what stands above it.
local function make_generic()
    local region, is_keyed, main -- of the op at hand; where the event that carries its key begins

    local function note(is_main, kind_of_event, event_id, incarnation, ...)
        local words = { 'x', select('#', ...), kind_of_event, event_id, incarnation,
            is_main and region or '', '', '', '', '', '', ... }
        n = n + 1
        main = is_main and e or main
        for i = 1, #words do
            events[e + i] = words[i]
        end
        e = e + #words
    end

    -- Decimals of any size. Up to 15 digits doubles are exact; beyond, limbs of 7 digits.
    local function limbs(digits)
        local list, i = {}, 0
        for at = #digits, 1, -7 do
            i = i + 1
            list[i] = tonumber(sub(digits, at > 6 and at - 6 or 1, at))
        end
        return list
    end

    local function join(list)
        local text = {}
        for i = #list, 1, -1 do
            text[#text + 1] = format('%07d', list[i])
        end
        return (string.gsub(concat(text), '^0+(%d)', '%1'))
    end

    local function is_less(a, b) -- magnitudes
        return #a < #b or (#a == #b and a < b)
    end

    local function combine(a, b, sign) -- magnitudes, a not below b: a + sign * b
        local x, y, carry = limbs(a), limbs(b), 0
        for i = 1, #x do
            local limb = x[i] + sign * (y[i] or 0) + carry
            carry = 0
            if limb >= 10000000 then
                limb, carry = limb - 10000000, 1
            elseif limb < 0 then
                limb, carry = limb + 10000000, -1
            end
            x[i] = limb
        end
        if carry == 1 then
            x[#x + 1] = 1
        end
        return join(x)
    end

    local function negate(a)
        if a == '0' then
            return a
        end
        return sub(a, 1, 1) == '-' and sub(a, 2) or '-' .. a
    end

    local function add(a, b)
        if #a <= 15 and #b <= 15 then
            return format('%d', tonumber(a) + tonumber(b))
        end
        local minus_a, minus_b = sub(a, 1, 1) == '-', sub(b, 1, 1) == '-'
        local x, y = minus_a and sub(a, 2) or a, minus_b and sub(b, 2) or b
        if is_less(x, y) then
            x, y, minus_a, minus_b = y, x, minus_b, minus_a
        end
        local sum = combine(x, y, minus_a == minus_b and 1 or -1)
        return minus_a and sum ~= '0' and '-' .. sum or sum
    end

    local function is_below(a, b)
        return sub(add(a, negate(b)), 1, 1) == '-'
    end

    -- What is there: the record's type and fields, or nil and the answer.
    local function look(key, place)
        local r = try('HMGET', key, '.g', '.i', '.v', '.o', '.w', '.own')
        if r.err then
            return nil, 'y'
        end
        local t = type_of(r[1])
        if not t then
            return nil, 'M'
        elseif t == 'F' then
            return nil, place == 112 and 'V' or 'v'
        elseif t == 'C' or t == 'S' then
            if place == 112 then
                return nil, 'V'
            end
        elseif place == 97 then
            return nil, 'V'
        end
        local record = { t = t, g = r[1], i = r[2], v = r[3] or '0', w = r[5] or '0 0 0', own = r[6] }
        record.shards, record.policy, record.has_floor, record.floor, record.idle, record.deadline =
            string.match(r[4] or '1 0 0 0 0 0', '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
        record.wrote = string.match(record.w, '^%d+')
        return record
    end

    local function is_over(record)
        if record.t ~= 'c' then
            return false -- a part does not know about the others
        end
        local deadline = tonumber(record.deadline)
        if deadline ~= 0 and tonumber(now) >= deadline then
            return true
        end
        local idle = tonumber(record.idle)
        if idle == 0 then
            idle = tonumber(argv[7])
        end
        return idle ~= 0
            and math.floor(tonumber(now) / 1000) >= math.floor(tonumber(record.wrote) / 1000) + idle
    end

    -- The record goes; what is made in this cell from now on is of a later incarnation. That there
    -- is nothing is remembered: the store does not know it yet.
    local function delete(id, key, record, is_main)
        if tonumber(inc) < 4294967295 then
            inc = format('%d', tonumber(inc) + 1)
        end
        deleted = true
        note(is_main, '3', id, record.i, inc)
        call('DEL', key)
        call('HSET', key, '.g', gen .. 'n', '.w', written .. format('%d', n))
        record.t, record.g = 'n', gen .. 'n'
    end

    local function options(record)
        return concat({ record.shards, record.policy, record.has_floor, record.floor, record.idle,
            record.deadline }, ' ')
    end

    -- The counter that a write is for; born is said when it was made.
    local function counter_for_write(id, key, record)
        if record.t ~= 'c' and record.t ~= 'C' and record.t ~= 'n' then
            return 't'
        end
        if is_over(record) then
            delete(id, key, record, false)
        end
        if record.t == 'n' then
            record.born, record.i, record.v, record.deadline, record.has_floor = true, inc, '0', '0', '0'
        end
    end

    local function put_counter(key, record, wrote)
        if record.born then
            if record.g then
                call('DEL', key)
            end
            call('HSET', key, '.g', gc, '.i', inc, '.v', record.v, '.w', wrote .. format('%d', n))
        else
            call('HSET', key, '.v', record.v, '.w', wrote .. format('%d', n))
        end
    end

    local function ok(changed, held, value)
        return 'o', changed and '1' or '0', held or '', value or '0', ''
    end

    local does = {}

    does[65] = function(id, key, record, a) -- add
        local refused = counter_for_write(id, key, record)
        if refused then
            return refused
        end
        local sum = add(record.v, argv[a])
        if record.has_floor == '1' and sub(argv[a], 1, 1) == '-' and is_below(sum, record.floor) then
            return 'f'
        end
        local changed = record.born or argv[a] ~= '0'
        record.v = sum
        if changed or is_keyed then
            note(true, '1', id, record.i, argv[a])
            put_counter(key, record, written)
        end
        return ok(changed, nil, sum)
    end

    does[83] = function(id, key, record, a) -- set
        local refused = counter_for_write(id, key, record)
        if refused then
            return refused
        end
        if record.has_floor == '1' and is_below(argv[a], record.floor) then
            return 'f'
        end
        local difference = add(argv[a], negate(record.v))
        record.v = argv[a]
        note(true, '2', id, record.i, difference)
        -- A value that is set afresh lives for ever again, as Redis has it.
        if record.deadline ~= '0' then
            record.deadline = '0'
            note(false, '5', id, record.i, '0')
            call('HSET', key, '.o', options(record))
        end
        put_counter(key, record, written)
        return ok(record.born or difference ~= '0', nil, argv[a])
    end

    does[68] = function(id, key, record, _, from_key, end_key) -- delete
        if record.t == 'n' then
            return ok(false)
        end
        if record.t == 's' then
            if end_key - from_key < 64 then
                return 'Z'
            end
            for i = end_key - 64, end_key - 1 do
                call('UNLINK', keys[i])
            end
        end
        local changed = not is_over(record)
        delete(id, key, record, true)
        return ok(changed)
    end

    does[67] = function(id, key, record, a, from_key, end_key, kind) -- create
        if record.t ~= 'n' and not is_over(record) then
            return 'e'
        end
        local shards, policy, idle, has_floor, floor = unpack(argv, a, a + 4)
        if has_floor == '1' and tonumber(floor) > 0 then
            return 'i' -- it would begin below its floor
        end
        if record.t ~= 'n' then
            delete(id, key, record, false)
        end
        local g = kind == 0 and gc or shards == '1' and gi or gs
        note(true, '4', kind == 0 and id or id .. '/' .. argv[kinds + kind], inc, shards, policy, idle,
            has_floor, floor)
        if record.g then
            call('DEL', key)
        end
        call('HSET', key, '.g', g, '.i', inc, '.w', written .. format('%d', n))
        if g == gs then
            for i = end_key - 64, end_key - 1 do
                call('UNLINK', keys[i]) -- of an earlier generation
            end
            call('HSET', key, '.own', string.rep('1', 64))
        end
        if kind == 0 or shards ~= '1' then
            call('HSET', key, '.o', concat({ shards, policy, has_floor, floor, idle, '0' }, ' '))
        end
        return ok(true)
    end

    does[88] = function(id, key, record, a) -- expire
        if record.t == 'n' then
            return ok(false)
        elseif record.t ~= 'c' then
            return 't'
        elseif is_over(record) then
            return ok(false)
        elseif argv[a] ~= '0' and tonumber(argv[a]) <= tonumber(now) then
            delete(id, key, record, true)
        elseif argv[a] ~= record.deadline then
            record.deadline = argv[a]
            note(true, '5', id, record.i, argv[a])
            call('HSET', key, '.o', options(record), '.w', record.wrote .. ' ' .. epoch .. ' ' .. format('%d', n))
        end
        return ok(true)
    end

    does[89] = function(id, key, record) -- sweep
        local over = is_over(record)
        if over then
            delete(id, key, record, false)
        end
        return ok(over)
    end

    -- Reads: is there something of this name? "item/kind" names an item's counter only.
    local function missing(record, kind)
        return record.t == 'n' or (record.t == 'c' and (kind ~= 0 or is_over(record)))
    end

    does[71] = function(_, key, record, _, _, _, kind) -- get
        if missing(record, kind) then
            return 'n'
        elseif record.t == 'c' then
            return ok(false, nil, record.v)
        elseif kind == 0 then
            return 't'
        end
        return ok(false, nil, call('HGET', key, '.c:' .. argv[kinds + kind]) or '0')
    end

    does[69] = function(_, _, record, _, _, _, kind) -- exists
        return ok(not missing(record, kind))
    end

    does[76] = function(_, _, record, _, _, _, kind) -- deadline
        if missing(record, kind) then
            return 'n'
        end
        local code, changed, held, value = ok(false)
        return code, changed, held, value, record.deadline .. ' '
    end

    does[73] = function(_, key, record, _, _, _, kind) -- describe
        if missing(record, kind) then
            return 'n'
        end
        local code, changed, held, value = ok(false)
        return code, changed, held, value, concat({ record.t, record.i, options(record), record.wrote,
            call('HGET', key, '.ch') or '0 0', '' }, ' ')
    end

    does[79] = function(_, key, record) -- counts
        if record.t == 'c' and not is_over(record) then
            return 't'
        end
        local is_there = record.t == 'i' or record.t == 's'
        local code, changed, held, value = ok(is_there)
        return code, changed, held, value, is_there and all_counts(key) or string.rep('0 ', kind_count)
    end

    does[77] = function(_, key, record, a, from_key, end_key, kind) -- members
        local slice, cursor, limit = byte(argv[a]), argv[a + 1], argv[a + 2]
        local code, changed, held, value = ok(false)
        if record.t == 'c' and not is_over(record) then
            return 't'
        elseif record.t == 'n' or record.t == 'c' then
            return code, changed, held, value, '0 0 '
        end
        local refused = refusal(record.g, 104, end_key > from_key and slice or nil, record.own)
        if refused then
            return refused
        end
        local page = call('HSCAN', end_key > from_key and keys[from_key] or key, cursor, 'COUNT', limit)
        local users, name, list = {}, argv[kinds + kind], page[2]
        for i = 1, #list, 2 do
            if list[i + 1] == name and byte(list[i]) ~= 46 then
                users[#users + 1] = list[i]
            end
        end
        local packed = cmsgpack.pack(users)
        return code, changed, held, value, page[1] .. ' ' .. #packed .. ' ' .. packed
    end

    -- A whole item that has grown large is cut into slices, which are the first characters.
    does[80] = function(_, key, record, _, from_key)
        if record.t ~= 'i' or call('HLEN', key) <= 4112 then
            return ok(false)
        end
        local all, slices = call('HGETALL', key), {}
        for i = 1, #all, 2 do
            local slice = byte(all[i]) - 48
            if slice >= 0 then
                local list = slices[slice]
                if not list then
                    list = {}
                    slices[slice] = list
                end
                list[#list + 1] = all[i]
                list[#list + 1] = all[i + 1]
            end
        end
        for slice = 0, 63 do
            call('DEL', keys[from_key + slice])
            local list = slices[slice] or {}
            for i = 1, #list, 1000 do
                local last = i + 999 < #list and i + 999 or #list
                call('HSET', keys[from_key + slice], unpack(list, i, last))
            end
            as_table(keys[from_key + slice])
            for i = 1, #list, 2 do
                call('HDEL', key, list[i])
            end
        end
        call('HSET', key, '.g', gs, '.own', string.rep('1', 64))
        return ok(true)
    end

    local function react(id, key, record, a, from_key, end_key, kind, op)
        local user = argv[a]
        local slice_key = end_key > from_key and keys[end_key - 1]
        if record.t == 'c' and not is_over(record) then
            return 't'
        elseif record.t == 'C' then
            return 'V'
        end
        local home, before = slice_key or key, nil
        if record.t ~= 'c' then
            local refused = refusal(record.g, 104, slice_key and byte(user) or nil, record.own)
            if refused then
                return refused
            end
            before = record.t ~= 'n' and call('HGET', home, user) or nil
        elseif slice_key then
            return 'W'
        end
        local wanted, after = argv[kinds + kind], before
        if kind == 0 then
            wanted = before
        end
        if op == 82 then
            after = wanted
        elseif op == 87 then
            after = before ~= wanted and before or nil
        elseif op == 84 then
            after = before ~= wanted and wanted or nil
        end
        if before ~= after then
            if record.t == 'c' then
                delete(id, key, record, false)
            end
            if record.t == 'n' then
                record.i = inc
                if record.g then
                    call('DEL', key)
                end
                call('HSET', key, '.g', gi, '.i', inc)
            end
            note(true, '6', id, record.i, sub(user, 2), before or '', after or '')
            if after then
                call('HSET', home, user, after)
                call('HINCRBY', key, '.c:' .. after, 1)
            else
                call('HDEL', home, user)
            end
            if before then
                call('HINCRBY', key, '.c:' .. before, -1)
            end
            call('HSET', key, '.w', written .. format('%d', n))
        end
        return ok(before ~= after, after)
    end
    does[82], does[87], does[84], does[81] = react, react, react, react

    local function held_number(name)
        if name == '' then
            return '0'
        end
        if not numbers then
            number_kinds()
        end
        return numbers[name] and string.char(48 + numbers[name])
    end

    local function is_write(op)
        return op == 65 or op == 83 or op == 68 or op == 67 or op == 88 or op == 82 or op == 87
            or op == 84 or op == 89
    end

    -- The first answer of the key: the whole answer, or nil when it is new.
    local function repeated(id_key, key, record, fingerprint, wants_counts)
        local of, first_answer = string.match(call('GET', id_key) or '', '^(%d+) (.*)$')
        if of ~= gen then -- none, or of events that may have been lost since
            local lost = cell[7]
            if lost and not storeless and tonumber(now) - tonumber(lost) < tonumber(argv[8]) then
                return 'k'
            end
            return nil
        elseif first_answer == '-' then
            return nil
        end
        local print_of, changed, value, held = string.match(first_answer, '^(%x+) (%d) (%S+) (.*)$')
        if print_of ~= fingerprint then
            return 'u'
        end
        local counts = ''
        if wants_counts then
            local is_item = record.t == 'i' or record.t == 's' or record.t == 'S'
            counts = is_item and all_counts(key) or string.rep('0 ', kind_count)
        end
        held = held_number(held)
        return held and 'r' .. changed .. held .. value .. ' ' .. counts or 'x'
    end

    return function(id, key, place, op_region, wants_counts, op, kind, keyed, a, from_key, end_key)
        region, is_keyed, main = op_region, keyed, nil
        local record, refused = look(key, place)
        if refused then
            return refused
        end
        local has_user = op == 82 or op == 87 or op == 84 or op == 81
        if (record.t == 'C' and op ~= 65) or (record.t == 'S' and not has_user and op ~= 77) then
            return 'V' -- that concerns the whole
        end
        local id_key, index_key = keys[from_key], keys[from_key + 1]
        local key_text, fingerprint = argv[a], argv[a + 1]
        if keyed then
            a, from_key = a + 2, from_key + (has_user and 2 or 1)
            local answer = repeated(id_key, key, record, fingerprint, wants_counts)
            if answer then
                return answer
            end
        end
        if busy and is_write(op) then
            return 'b'
        end
        local code, changed, held, value, more =
            does[op](id, key, record, a, from_key, end_key, kind, op)
        if code ~= 'o' then
            return code
        end
        if keyed then
            if not main then
                note(true, '7', id, '0')
            end
            events[main + 7], events[main + 8], events[main + 9] = key_text, fingerprint, changed
            events[main + 10], events[main + 11] = held, value
            call('SET', id_key, gen .. ' ' .. fingerprint .. ' ' .. changed .. ' ' .. value .. ' ' .. held,
                'PX', argv[8])
            if has_user then
                call('HSET', index_key, sub(id_key, -32), sub(argv[a], 1, 1))
                call('PEXPIRE', index_key, argv[8])
            end
        end
        if wants_counts and has_user then
            more = record.t == 'n' and not (main and events[main + 3] == '6') and string.rep('0 ', kind_count)
                or all_counts(key)
        end
        held = held_number(held)
        return held and 'o' .. changed .. held .. value .. ' ' .. more or 'x'
    end
end
