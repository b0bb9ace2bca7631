-- wrk FLAGS URL -- METHOD PATH BODY DEPTH WANT: DEPTH requests in one piece, every response checked; the totals as one line.
local threads = {}
function setup(thread) threads[#threads + 1] = thread end

function init(args)
  local method, path, body, depth = args[1], args[2], args[3], tonumber(args[4])
  want, wrong, right = args[5], 0, 0
  if body == "" then body = nil end
  local one = wrk.format(method, path, nil, body)
  request_text = string.rep(one, depth)
end

function request() return request_text end

function response(status, _, body)
  local good = status == 200
  if tonumber(want) then good = good and #body == tonumber(want) else good = good and body == want end
  if good then right = right + 1 else wrong = wrong + 1 end
end

function done(summary)
  local right, wrong, e = 0, 0, summary.errors
  for _, t in ipairs(threads) do
    right, wrong = right + t:get("right"), wrong + t:get("wrong")
  end
  io.write(string.format("TOTAL right=%d wrong=%d connect=%d read=%d write=%d timeout=%d status=%d\n",
    right, wrong, e.connect, e.read, e.write, e.timeout, e.status))
end
