// Package rpc is services over the frame protocol: a Server that runs the methods of services on bounded pools of their own
// or shared ones, and a Client that multiplexes calls over few connections.
//
// A CALL or ONEWAY frame begins with the RPC prefix, all integers big-endian:
//
//	bytes  field
//	4      timeout in ms, 0 = none: the time that was left when the request was sent
//	1      codec of the body: 0 raw, 1 JSON, 2 protobuf
//	1      flags, 0
//	2 + n  length and service key, group/interface:version
//	2 + n  length and method
//	2 + …  number of metadata pairs, each length and key, length and value
//	rest   body
//
// The prefix is at most 16 KiB. The server finds the service and its pool in it, on the loop, without a look at the body;
// the body is decoded and the response encoded where the method runs.
package rpc
