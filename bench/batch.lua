-- wrk: each request is 1,000 likes by users who were not there before, a line each.
local user = 0
local lines = {}

function init(args)
    user = tonumber(args[1]) or 0
    wrk.headers["Content-Type"] = "application/x-ndjson"
end

function request()
    for i = 1, 1000 do
        user = user + 1
        lines[i] = '{"op":"like","item":"video1","user":"' .. (1000000000 + user) .. '"}'
    end
    return wrk.format("POST", nil, nil, table.concat(lines, "\n"))
end
