// Package grpcwire has what gRPC puts into HTTP/2: messages with their prefix, timeouts, codes, details of a status, and
// the text of header fields. The sources are PROTOCOL-HTTP2.md of the gRPC project and google/rpc/status.proto.
package grpcwire
