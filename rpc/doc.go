// Package rpc calls methods of services over the frame protocol. A Server runs methods on bounded pools, which services
// share or own. A Client multiplexes calls over few connections. docs/rpc.md is the guide.
//
// # Serve
//
// Make a Service of methods and a Server, then register and listen:
//
//	svc, err := rpc.NewService(key, rpc.Unary("Hello", hello))
//	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Addr: "127.0.0.1:20002"}}})
//	err = srv.Register(svc)
//	err = srv.Listen()
//
// # Call
//
// Invoke waits for the response, InvokeAsync returns a Future, and Send is one-way:
//
//	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{"127.0.0.1:20002"}, Codec: rpc.CodecJSON})
//	resp, err := rpc.Invoke[HelloResponse](ctx, cl, key, "Hello", &HelloRequest{"you"})
//
// # Wire format
//
// A CALL or ONEWAY frame begins with the RPC prefix, all integers big-endian:
//
//	bytes  field
//	4      timeout in ms, the time that was left when the request was sent; 0 = none
//	1      codec of the body: 0 raw, 1 JSON, 2 protobuf
//	1      flags, 0
//	2 + n  length and service key, group/interface:version
//	2 + n  length and method
//	2 + …  number of metadata pairs, each length and key, length and value
//	rest   body
//
// The prefix is at most 16 KiB. The loop finds the service and its pool in the prefix and does not look at the body. The
// body is decoded, and the response encoded, where the method runs.
package rpc
