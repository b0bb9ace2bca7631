package main

import (
	"fmt"
	"slices"
)

// The targets of the design for speed, by subject. more compares requests per processor second.

func (all found) echoTargets() (list []goal) {
	for _, c := range []testCase{{conns: 1, pipeline: 1}, {conns: 100, pipeline: 1}, {conns: 1000, pipeline: 1}, {conns: 100, pipeline: 16}, {conns: 100, pipeline: 1, size: 16 << 10}} {
		t := all.table("echo", c.conns, c.pipeline, c.size, 1)
		what := fmt.Sprintf("echo, %d connections, %d in flight on each", c.conns, c.pipeline)
		if c.size > 0 {
			what += fmt.Sprintf(", %d B", c.size)
		}
		list = append(list, more(what, 0.97, t, oneLoop, cTuned.Name))
		peer := 1.0
		if c.conns == 1 {
			peer = 1.05
		}
		list = append(list, more("the same", peer, t, oneLoop, gnetEcho.Name), all.ahead("the same: ahead of every other Go peer", t, netEcho, netpollEcho, nbioEcho))
	}
	for _, conns := range []int{100, 1000} {
		what := fmt.Sprintf("echo by 2 loops on 2 processors, the client beside, %d connections: requests a second", conns)
		list = append(list, moreOf(rates, what, 1.1, all.table("loops", conns, 1, 0, 2), eddyTwoLoops, gnetTwoLoops))
	}
	return list
}

// ahead returns the goal to be ahead of all peers, measured by the best of them.
func (all found) ahead(what string, t *table, peers ...contender) goal {
	x := goal{what, "> the best", notMeasured, notMeasured}
	var least *span
	for _, peer := range peers {
		if s, ok := t.ratio(oneLoop, peer.Name, perCPUSecond); ok && (least == nil || s.mid < least.mid) {
			least = &s
			x.measured = s.String() + " × " + peer.Name
		}
	}
	if least != nil {
		x.holds = least.verdict(func(v float64) bool { return v > 1 })
	}
	return x
}

// partLoadTargets compare the processor time for the same requests. A ratio of requests per processor second is one of time, turned round.
func (all found) partLoadTargets() (list []goal) {
	rep := all["part-load"]
	for _, hog := range []bool{false, true} {
		for _, share := range shares {
			what := fmt.Sprintf("open loop at %d %% of capacity", share)
			if hog {
				what = fmt.Sprintf("open loop at %d %% of half the capacity, a busy process beside", share)
			}
			var t *table
			if rep != nil {
				if i := slices.IndexFunc(rep.Tables, func(t *table) bool { return t.Share == share && t.Hog == hog }); i >= 0 {
					t = rep.Tables[i]
				}
			}
			const ours, theirs = "eddy, hop to a pool", "gnet v2, hop to a pool"
			list = append(list,
				more(what+": requests per CPU second", 1, t, oneLoop, gnetEcho.Name),
				more("the same", 1/1.08, t, oneLoop, cLoop.Name),
				more("the same, with a hop to a pool", 1, t, ours, theirs),
				t.tail("the same: p99 and p99.9", oneLoop, gnetEcho.Name),
				t.tail("the same, with a hop to a pool: p99 and p99.9", ours, theirs))
		}
	}
	return list
}

// tail returns the goal that the latencies of a row are not above those of another. They are of all rounds together.
func (t *table) tail(what, name, base string) goal {
	x := goal{what, "≤ " + base, notMeasured, notMeasured}
	a, b := t.row(name), t.row(base)
	if a == nil || b == nil {
		return x
	}
	x.measured = fmt.Sprintf("%.2f and %.2f ms, theirs %.2f and %.2f ms", a.P99/1e3, a.P999/1e3, b.P99/1e3, b.P999/1e3)
	x.holds = "no"
	if a.P99 <= b.P99 && a.P999 <= b.P999 {
		x.holds = "yes"
	}
	return x
}

func (all found) hopTargets() (list []goal) {
	for procs, limit := range []float64{1: 0.92, 2: 0.85} {
		if limit == 0 {
			continue
		}
		t := all.table("hop", 100, 1, 0, procs)
		x := more(fmt.Sprintf("frame of 64 B to an executor and back, GOMAXPROCS=%d", procs), limit, t, "eddy hop, parked", "eddy direct, parked")
		x.wanted = fmt.Sprintf("≥ %.2f × direct", limit)
		list = append(list, x)
	}
	return append(list, all.cell("objects allocated per message of a hop", "≤ 1 (1.02 with what the process makes besides)", "%.2f", atMost(1.02), "hop", "GOMAXPROCS=1", "eddy hop, parked", "per request"))
}

const onPoolName = "eddy, net/http handler on a pool"

func (all found) httpTargets() (list []goal) {
	const function, fast, std = "eddy, function on the loop", "valyala/fasthttp", "net/http"
	one, deep := all.table("http", 64, 1, 0, 1), all.table("http", 64, 16, 0, 1)
	list = []goal{
		more("HTTP/1.1, 64 connections, function on the loop", 1.05, one, function, uWebSocketsName),
		more("the same, 16 in flight", 1.05, deep, function, uWebSocketsName),
		more("HTTP/1.1, 64 connections, function on the loop", 1.5, one, function, fast),
		more("HTTP/1.1, 64 connections, net/http handler on a pool", 1.3, one, onPoolName, fast),
		more("the same, 16 in flight", 0.9, deep, onPoolName, fast),
		more("the same, 16 in flight", 5, deep, onPoolName, std),
		all.cell("the same: objects per request", "≤ 6", "%.2f", atMost(6), "http", "GOMAXPROCS=1", onPoolName, "per request"),
	}
	for _, c := range comparedFiles {
		t := all.table("files", c.conns, c.pipeline, c.size, 1)
		what := fmt.Sprintf("file of %d B by http.FileServer, %d connections", c.size, c.conns)
		list = append(list, more(what, 0.95, t, onPoolName, nginxName), more("the same", 1.5, t, onPoolName, std),
			more("the same over TLS", 1.2, all.table("files-tls", c.conns, c.pipeline, c.size, 1), onPoolName, std))
	}
	return list
}

func (all found) webSocketTargets() (list []goal) {
	for _, c := range []testCase{{conns: 100, pipeline: 1}, {conns: 2000, pipeline: 1}, {conns: 100, pipeline: 16}} {
		t := all.table("ws", c.conns, c.pipeline, 0, 1)
		what := fmt.Sprintf("WebSocket echo of 128 B, %d connections, %d in flight on each", c.conns, c.pipeline)
		best := all.ahead("the same", t, wsServers[1:]...)
		best.wanted = "≥ 1.3 × the best goroutine-based library"
		for _, peer := range wsServers[1:] {
			if s, ok := t.ratio(oneLoop, peer.Name, perCPUSecond); ok && best.measured == s.String()+" × "+peer.Name {
				best.holds = s.verdict(atLeast(1.3))
			}
		}
		list = append(list, more(what, 1, t, oneLoop, uWebSocketsName), best)
	}
	for _, conns := range []int{5000, 15000} {
		t := all.table("ws-broadcast", conns, 1, 0, 1)
		what := fmt.Sprintf("WebSocket broadcast of 256 B to %d: deliveries per CPU second", conns)
		list = append(list, more(what, 1.1, t, eddyHub, uWebSocketsName), t.sooner("the same: time until the last has it", eddyHub, uWebSocketsName),
			more("the same: deliveries per CPU second", 1, t, eddyHub, gwsHub), t.sooner("the same: time until the last has it", eddyHub, gwsHub))
	}
	return list
}

// sooner returns the goal that the median latency of a row is not above that of another. It is of all rounds together.
func (t *table) sooner(what, name, base string) goal {
	x := goal{what, "≤ " + base, notMeasured, notMeasured}
	a, b := t.row(name), t.row(base)
	if a != nil && b != nil {
		x.measured = fmt.Sprintf("p50 %.1f ms, theirs %.1f ms", a.P50/1e3, b.P50/1e3)
		x.holds = one(a.P50).verdict(atMost(b.P50))
	}
	return x
}

// visitTargets are those of connections that live for one exchange, and of TLS.
func (all found) visitTargets() (list []goal) {
	for _, c := range []struct{ part, what string }{{"topologies", "churn by reset"}, {"farewells", "churn by FIN"}} {
		t := all.table(c.part, 16, 1, 0, 2)
		for _, ours := range []string{eddyBoss, eddySingle} {
			list = append(list, more(c.what+", "+ours+": visits per CPU second", 1.05, t, ours, gnetEcho.Name), more("the same", 0.9, t, ours, cLoop.Name))
		}
	}
	return append(list,
		more("TLS handshakes: visits per CPU second", 1.2, all.table("handshakes", 16, 1, 0, 1), eddyTLS.Name, netTLS.Name),
		more("TLS echo of 64 B, 100 connections", 1.2, all.table("tls", 100, 1, 0, 1), eddyTLS.Name, netTLS.Name),
		more("TLS echo of 16 KiB, 100 connections", 1.2, all.table("tls", 100, 1, 16<<10, 1), eddyTLS.Name, netTLS.Name),
	)
}

func (all found) rpcTargets() []goal {
	const grpc, netrpc, ours, raw, direct = "grpc-go, protobuf", "net/rpc, gob", "eddy, protobuf", "eddy, raw", "eddy, raw, dispatcher direct"
	one, many := all.table("rpc", 1, 1, 0, 1), all.table("rpc", 64, 1, 0, 1)
	return []goal{
		more("RPC 128 B, 64 callers on one connection, protobuf: calls per CPU second of both sides", 4, many, ours, netrpc),
		more("the same", 3, many, ours, grpc),
		more("the same, raw: dispatcher all", 0.95, many, raw, direct),
		more("the same, 1 caller, protobuf", 1.4, one, ours, netrpc),
		all.cell("the same: epoll_pwait for each call, server", "≤ 3", "%.2f", atMost(3), "rpc", "epoll_pwait", ours, "of the server"),
		all.cell("the same: epoll_pwait for each call, client", "≤ 3", "%.2f", atMost(3), "rpc", "epoll_pwait", ours, "of the client"),
		more("gRPC 128 B, 1 caller of grpc-go: calls per CPU second of the server", 2, all.table("grpc", 1, 1, 0, 1), "eddy", "grpc-go"),
		more("the same, 64 callers on one connection", 2, all.table("grpc", 64, 1, 0, 1), "eddy", "grpc-go"),
		more("the same, 1000 callers on one connection", 2, all.table("grpc", 1000, 1, 0, 1), "eddy", "grpc-go"),
		more("gRPC, both sides: calls per CPU second of both, 64 callers", 3, many, "eddy, gRPC, protobuf", grpc),
		more("gRPC, 64 streams of 100 messages of 1 KiB: streams per CPU second of the server", 2, all.table("grpc-stream", 64, 100, 1024, 1), "eddy", "grpc-go"),
	}
}
