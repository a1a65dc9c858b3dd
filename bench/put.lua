-- wrk: each request is a reaction by a user who was not there before.
local user = 0

function init(args)
    user = tonumber(args[1]) or 0
end

function request()
    user = user + 1
    return wrk.format("PUT", "/v1/items/video1/reactions/" .. (1000000000 + user))
end
