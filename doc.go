// Package eddy is a multi-reactor network engine for servers that must stay responsive when the network, the clients or
// the business code misbehave. A boss loop accepts, and exactly one worker loop owns each connection; other goroutines hold
// its [*Conn] or [ConnID] and submit work to it. Every queue has a bound and an answer when it is full, and every connection
// ends with exactly one [CloseReason].
//
// # The names to learn first
//
//   - [Server] accepts connections on one address and serves them; its Init builds the pipeline of each.
//   - [Dialer] makes connections to servers and serves them in the same way.
//   - [Group] is a set of loops, which servers and dialers can share.
//   - [Conn] is one connection; most of its methods may be called from any goroutine.
//   - [Pipeline] is the chain of handlers of one connection.
//   - [Decoder], [ReadHandler], [WriteHandler], [ErrorHandler] and [CloseHandler] are what a handler most often implements.
//   - [Handle] makes a ReadHandler of a function for one type of message.
//   - [Context] is a handler's place in the pipeline: it passes messages on and writes answers.
//   - [On] adds a handler to a pool, where it may block.
//   - [Watermarks] and [OverflowPolicy] bound what waits for a slow reader.
//   - [Admission] says which connections a server takes.
//   - [Deadlines] are the time limits of one connection.
//   - [Future] is the outcome of a write, a dial or a close.
//   - [CloseReason] and [CloseError] say why a connection ended.
//   - [Stats] are the numbers of a server.
//
// # Serve
//
// Fill the fields of a [Server] and call Listen or ListenAndServe. The shortest server sends every byte back:
//
//	echo := eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error {
//		return ctx.WriteBytes(b.Bytes()) // copied: b is the loop's memory, valid during this call
//	})
//	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error { return p.Add("echo", echo) }}
//	log.Fatal(srv.ListenAndServe("tcp", "127.0.0.1:7000"))
//
// Init adds the handlers of each new connection. Handlers run on the connection's loop and must not block there:
// docs/getting-started.md, docs/handlers.md, docs/pipeline.md.
//
// # Dial
//
// Fill the fields of a [Dialer] and call Dial, or on a loop DialFuture or DialAddr. [DialOptions] give one connection a loop
// or a pipeline of its own. A Dialer and a Server with the same [Group] run on the same loops. To carry bytes between two
// connections, see docs/relay.md.
//
// # Decode
//
// Add a [Decoder] as the first handler. The packages under codec decode lines, fixed lengths, delimiters, length fields and
// frames: docs/codecs.md. Packages http1, websocket, tlsx and rpc speak whole protocols: docs/http.md, docs/websocket.md,
// docs/tls.md, docs/rpc.md.
//
// # Answer from a pool
//
// Add a handler with [On] and an [executor.Pool] when it may block. Each connection has one strand on the pool, which keeps its
// messages in order; a message that borrows the loop's memory is detached first (see [Detacher]). [OnUnordered] gives the order
// up. [RejectReply], [RejectPause], [RejectFunc] and [RejectClose] say what happens when the pool is full. For requests and
// responses use package responder, which keeps one of four orders: docs/executors.md, docs/requests.md.
//
// # Write
//
// [Context.Write] passes a message towards the peer from a handler, [Conn.Write] from anywhere. [Conn.WriteFuture] also tells
// what became of it, see docs/futures.md. A message may be a [File], or hold counted memory (see [Releaser] and
// docs/buffers.md). [Conn.WriteContext] waits for room; it is for goroutines of your own.
//
// # Apply backpressure
//
// [Conn.Write] never blocks. Above the high watermark of [Watermarks] the connection's reads pause; beyond Max the
// [OverflowPolicy] applies. Use [Conn.OnWritable] or a [WritabilityHandler] to learn of room, and [Conn.PauseRead] or a
// [Demand] to slow the peer down. A [MessageClass] is for messages that may be dropped. Server.MemoryBudget bounds all
// connections together. Every bound is in docs/overload.md.
//
// # Limit who comes, and for how long
//
// Server.MaxConns and [Admission] bound connections in all, by network, by tenant and by time; a [Decision] says whether the
// others are told. The timeouts of a Server, or [Deadlines] for one connection, end what takes too long: docs/overload.md.
// For timers of your own use [Context.After] and [Loop.Every].
//
// # Tell why a connection ends
//
// A handler or decoder that returns an error ends the connection, unless an [ErrorHandler] handles it. [WithReason] says which
// [CloseReason] it ends with. Handlers call [Context.CloseAfterFlush] or [Context.Fail], others [Conn.CloseAfterFlush] or
// [Conn.Close]. A [CloseHandler] and [Conn.CloseError] tell the reason.
//
// # Drain
//
// Call [Server.Shutdown] to let requests in flight finish until a context ends; [DrainReport] counts what became of the
// connections. Handlers hear a [DrainEvent]. [Server.Close] ends everything at once. See docs/overload.md and
// docs/production.md.
//
// # Share and tune loops
//
// A [Group] has the loops of several servers and dialers, and the settings that few programs need. Its [Chooser] says which
// loop gets a connection. A [Loop] runs functions and timers, and watches descriptors that are no connections. Code that
// blocks asks [OnLoop] first. See docs/loops.md and docs/tuning.md.
//
// # Observe
//
// [Server.Stats] and [Group.Stats] return the numbers. [Server.EachConn] describes the open connections and
// [Server.RecentCloses] the ended ones. Group.OnStall is told of handlers that hold a loop up. See docs/metrics.md and
// docs/admin.md.
package eddy
