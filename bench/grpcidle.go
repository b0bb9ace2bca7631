package main

import (
	"bytes"
	"context"
	"encoding/binary"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// grpcIdle measures what an idle connection of gRPC costs, on which one call was made.
func grpcIdle(ctx context.Context, b *binaries, s settings) (*report, error) {
	x, err := grpcExchange(s.size)
	if err != nil {
		return nil, err
	}
	return idleAfter(ctx, b, s, x, grpcServers)
}

// grpcExchange returns the exchange of a client that makes one call: its preface and settings, the call, and a PING, whose
// answer ends the greeting; then what the client owes the server.
func grpcExchange(size int) (*script, error) {
	msg, err := proto.Marshal(&wrapperspb.BytesValue{Value: make([]byte, size)})
	if err != nil {
		return nil, err
	}
	var out, block, ack, rest bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/bench.Echo/Echo"}, {":authority", "localhost"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return nil, err
		}
	}
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg))), msg...)
	probe := [8]byte{'i', 'd', 'l', 'e'}
	out.WriteString(http2.ClientPreface)
	fr := http2.NewFramer(&out, nil)
	for _, write := range []func() error{
		func() error { return fr.WriteSettings() },
		func() error {
			return fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
		},
		func() error { return fr.WriteData(1, true, body) },
		func() error { return fr.WritePing(false, probe) },
		func() error { return http2.NewFramer(&ack, nil).WritePing(true, probe) },
		func() error { return http2.NewFramer(&rest, nil).WriteSettingsAck() },
	} {
		if err := write(); err != nil {
			return nil, err
		}
	}
	return &script{greeting: out.Bytes(), until: ack.Bytes(), request: rest.Bytes()}, nil
}
