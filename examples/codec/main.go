// Command codec is a protocol of your own: netstrings, "5:hello,". A decoder turns bytes into messages and a write handler turns messages into bytes,
// so the handlers behind them see only messages. Try it with: printf '5:hello,' | nc -N 127.0.0.1 7000
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"strconv"

	"github.com/go-eddy/eddy"
)

// netstring is a message. A message that was just decoded lies in memory of the loop and is valid during the call.
type netstring []byte

// Detach copies the message into memory of its own. The pipeline calls it before the message leaves the loop.
func (s netstring) Detach() any { return netstring(bytes.Clone(s)) }

// netstrings is the codec. It keeps no state of a connection, so one value serves all.
type netstrings struct{ max int }

// errMalformed ends the connection with protocol_error.
var errMalformed = eddy.WithReason(eddy.CloseProtocolError, errors.New("codec: not a netstring"))

// Decode takes one message from the front of view, which holds everything received and not consumed. It refuses a malformed or too long message at
// once. So a peer can neither make it wait nor make it hold more than max.
func (n netstrings) Decode(ctx *eddy.Context, view []byte) (int, error) {
	digits := len(strconv.Itoa(n.max))
	colon := bytes.IndexByte(view[:min(len(view), digits+1)], ':')
	if colon < 0 && len(view) <= digits {
		return 0, nil // more is needed
	}
	if colon < 0 {
		return 0, errMalformed
	}
	length, err := strconv.ParseUint(string(view[:colon]), 10, 31)
	if err != nil {
		return 0, errMalformed
	}
	if length > uint64(n.max) {
		return 0, eddy.WithReason(eddy.CloseFrameTooLarge, fmt.Errorf("codec: netstring of %d bytes, the limit is %d", length, n.max))
	}
	end := colon + 1 + int(length)
	if len(view) <= end {
		return 0, nil
	}
	if view[end] != ',' {
		return 0, errMalformed
	}
	ctx.FireRead(netstring(view[colon+1 : end]))
	return end + 1, nil
}

// HandleWrite encodes netstrings. Other messages pass unchanged.
func (netstrings) HandleWrite(ctx *eddy.Context, msg any) error {
	if s, ok := msg.(netstring); ok {
		msg = fmt.Appendf(nil, "%d:%s,", len(s), s)
	}
	return ctx.Write(msg)
}

func server() *eddy.Server {
	return &eddy.Server{Init: func(p *eddy.Pipeline) error {
		p.Add("netstrings", netstrings{max: 1000})
		return p.Add("shout", eddy.Handle(func(ctx *eddy.Context, s netstring) error { return ctx.Write(netstring(bytes.ToUpper(s))) }))
	}}
}

func main() { log.Fatal(server().ListenAndServe("tcp", "127.0.0.1:7000")) }
