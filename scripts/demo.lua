-- One step of a small shop: customers order, workers handle jobs, sellers rise on a leaderboard. scripts/demo.sh runs
-- five steps a second. A real shop would have programs for this, with workers that wait for jobs. A script cannot wait.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
math.randomseed(time[1] * 1000003 % 2147483647 + time[2])

local function one_of(list) return list[math.random(#list)] end

-- Commands may fail, for example if a queue is full. The demo then goes on.
local call = redis.pcall

local customers = {'ann', 'bob', 'cem', 'dora', 'emil', 'flo', 'gus', 'hana'}
local sellers = {'Books & Co', 'Garden World', 'Tea House', 'Bike Barn', 'Toy Box', 'Lamp Light', 'Shoe Loft'}
local workers = {'packer-1', 'packer-2', 'packer-3', 'packer-4', 'mailer-1', 'mailer-2'}
local errors = {
    'PaymentError: card declined', 'PaymentError: card declined', 'TimeoutError: warehouse does not answer', 'KeyError: no such article',
}

if redis.call('EXISTS', 'orders') == 0 then
    redis.call('ZQ.CONFIG', 'orders', 'MAXATTEMPTS', 3, 'BACKOFF', '2s', '10s', 'MAXLEN', 5000, 'DEADLEN', 500, 'GROUPCONCURRENCY', 2)
    redis.call('ZQ.CONFIG', 'mails', 'MAXATTEMPTS', 2, 'MAXLEN', 5000, 'DEADLEN', 500, 'RATE', 20, '10s')
    redis.call('ZQ.CONFIG', 'invoices', 'MAXLEN', 5000, 'PAUSED', 'yes')
    redis.call('ZLB.CREATE', 'sellers', 'DIM', 'revenue', 'DIM', 'orders')
    redis.call('ZQ.PUSH', 'reports', '{"report":"sales"}', 'ID', 'sales', 'EVERY', '1m')
end

-- Customers search. A customer that searches too often is denied. At times, a customer sends many orders at once, and
-- the workers serve the customers in turns.
for _ = 1, math.random(2, 8) do
    local customer = math.random(3) == 1 and 'eve' or one_of(customers)
    call('ZEXP.ADD', 'visitors', '30s', customer .. ':' .. math.random(20))
    local check = call('ZRL.CHECK', 'search:' .. customer, 20, '10s')
    if check[1] == 1 and math.random(10) == 1 then
        for _ = 1, math.random(40) == 1 and 30 or 1 do
            local order = {customer = customer, seller = one_of(sellers), lines = {{sku = 'A-' .. math.random(99), count = math.random(3)}}}
            call('ZQ.PUSH', 'orders', cjson.encode(order), 'GROUP', customer)
        end
    end
end

-- The hash demo:held has the job of each worker: its queue, ID, token, and the time at which the worker finishes it.
for _, worker in ipairs(workers) do
    local held = redis.call('HGET', 'demo:held', worker)
    if held then
        local job = cjson.decode(held)
        if now >= job.until_ms then
            redis.call('HDEL', 'demo:held', worker)
            -- Gus has little money.
            if math.random(100) <= (job.customer == 'gus' and 80 or 12) then
                call('ZQ.NACK', job.queue, job.id, job.token, 'ERROR', job.customer == 'gus' and errors[1] or one_of(errors))
            elseif call('ZQ.ACK', job.queue, job.id, job.token) == 1 and job.queue == 'orders' then
                call('ZLB.INCR', 'sellers', job.seller, 'revenue', math.random(5, 90), 'orders', 1)
                call('ZQ.PUSH', 'mails', cjson.encode({to = job.customer .. '@example.org', about = job.id}), 'DELAY', math.random(2, 20))
                call('ZQ.PUSH', 'invoices', cjson.encode({order = job.id}))
            end
        end
    else
        local queue = worker:find('packer') and 'orders' or one_of({'mails', 'reports'})
        local claimed = call('ZQ.CLAIM', 1, queue, 'LEASE', '15s', 'AS', worker)[1]
        if claimed then
            local payload = cjson.decode(claimed[6])
            -- Some jobs take longer than their leases.
            local job = {
                queue = queue, id = claimed[2], token = string.format('%.0f', claimed[3]), seller = payload.seller,
                customer = payload.customer, until_ms = now + math.random(200, 3000) + (math.random(80) == 1 and 20000 or 0),
            }
            redis.call('HSET', 'demo:held', worker, cjson.encode(job))
        end
    end
end
