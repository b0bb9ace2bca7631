// Package eddy is a multi-reactor network engine for servers that must stay responsive when the network, the clients or
// the business code misbehave.
//
// A [Server] runs one boss loop that accepts and a fixed set of worker loops. Exactly one worker loop owns a connection
// from registration to close, and only that loop reads and writes the connection's state. Other goroutines hold a [*Conn]
// or its [ConnID] and submit work, which the loop carries out in order.
//
// Every queue has a bound and an answer when it is full. Every connection ends with exactly one [CloseReason].
//
// The shortest server sends every byte back:
//
//	echo := eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error {
//		return ctx.WriteBytes(b.Bytes()) // copied: b is the loop's memory, valid during this call
//	})
//	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error { return p.Add("echo", echo) }}
//	log.Fatal(srv.ListenAndServe("tcp", "127.0.0.1:7000"))
//
// docs/getting-started.md goes on from there.
//
// # Names to learn first
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
// Fill the fields of a [Server] and call Listen or ListenAndServe. Init adds the handlers of each new connection. Handlers run
// on the connection's loop and must not block there: docs/handlers.md, docs/pipeline.md. How many loops there are, and what
// they share, is in docs/loops.md.
//
// # Dial
//
// Fill the fields of a [Dialer] and call Dial, or on a loop DialFuture or DialAddr. A Dialer and a Server with the same
// [Group] run on the same loops. To carry bytes between two connections, see docs/relay.md.
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
// messages in order; a message that borrows the loop's memory is detached first. For requests and responses use package
// responder, which keeps one of four orders: docs/executors.md, docs/requests.md.
//
// # Apply backpressure
//
// [Conn.Write] never blocks. Above the high watermark of [Watermarks] the connection's reads pause; beyond Max the
// [OverflowPolicy] applies. Use [Conn.OnWritable] or [Conn.WriteContext] to wait for room, and [Conn.PauseRead] or a
// [Demand] to slow the peer down. A [MessageClass] is for messages that may be dropped. Every bound is in
// docs/overload.md.
//
// # Drain
//
// Call [Server.Shutdown] to let requests in flight finish until a context ends; [DrainReport] counts what became of the
// connections. Handlers hear a [DrainEvent]. [Server.Close] ends everything at once. See docs/overload.md and
// docs/production.md.
//
// # Observe
//
// [Server.Stats] and [Group.Stats] return the numbers. [Server.EachConn] describes the open connections and
// [Server.RecentCloses] the ended ones. Group.OnStall is told of handlers that hold a loop up. See docs/metrics.md and
// docs/admin.md.
package eddy
