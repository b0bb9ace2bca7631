package websocket

import (
	"fmt"
	"net/http"
	"time"
)

// Options are the limits and deadlines of the connections of one endpoint, server
// or client. The zero value is a working configuration: a zero field takes the
// default named beside it.
type Options struct {
	// MaxMessage is the largest message in bytes, all its fragments together.
	// It also bounds what a compressed message inflates to. A larger message
	// closes the connection with 1009, decided from the frame header or while
	// inflating. Default 1 MiB.
	MaxMessage int
	// MaxFrame is the largest payload of one data frame in bytes. Default
	// MaxMessage.
	MaxFrame int
	// MaxFragments is the largest number of frames of one message. Default 131,072.
	MaxFragments int
	// Subprotocols lists the subprotocols of this side. A server chooses the
	// client's first offer that is in the list. A client offers all of them, in
	// this order.
	Subprotocols []string
	// RequireSubprotocol makes a server refuse clients that offer none of
	// Subprotocols, and a client refuse servers that choose none.
	RequireSubprotocol bool
	// CheckOrigin reports whether a page of the request's Origin may connect. A
	// refused request is answered with 403. nil allows requests whose Origin
	// has the request's host, and requests without Origin, which no browser
	// makes. Servers only.
	CheckOrigin func(r *http.Request) bool
	// Compression makes the endpoint speak permessage-deflate (RFC 7692). Several
	// endpoints may share one. Default: no compression.
	Compression *Compression

	// PingInterval is how long a peer may be silent before it is sent a ping.
	// Default 25 s; negative: no pings.
	PingInterval time.Duration
	// PongTimeout is how long the peer may stay silent after the ping before
	// its connection is closed with CloseIdleTimeout. Default 10 s.
	PongTimeout time.Duration
	// MessageTimeout is the time from the first byte of a frame, or of a
	// fragmented message, to its last byte. It includes the application's own
	// pauses of reading. A message that takes longer closes the connection with
	// CloseReadTimeout. Default 60 s; negative: none.
	MessageTimeout time.Duration
	// CloseTimeout is how long the peer may take to answer a close frame. After
	// the answer it is how long a client waits for the server to end the
	// connection. Default 5 s.
	CloseTimeout time.Duration

	// Stats counts what happens to the connections, unless it is nil. Several
	// endpoints may share one.
	Stats *Stats
}

const (
	defaultMaxMessage     = 1 << 20
	defaultMaxFragments   = 1 << 17
	defaultPingInterval   = 25 * time.Second
	defaultPongTimeout    = 10 * time.Second
	defaultMessageTimeout = 60 * time.Second
	defaultCloseTimeout   = 5 * time.Second

	// largestMessage is the largest payload that fits a queued write with its header.
	largestMessage = 1<<30 - maxHeader
)

// withDefaults returns o with every zero field filled in, or an error that
// names the field that makes no sense.
func (o Options) withDefaults() (Options, error) {
	if o.MaxMessage < 0 || o.MaxMessage > largestMessage {
		return o, fmt.Errorf("websocket: Options.MaxMessage is %d, want 0 (default %d) up to %d", o.MaxMessage, defaultMaxMessage, largestMessage)
	}
	if o.MaxFrame < 0 || o.MaxFrame > largestMessage {
		return o, fmt.Errorf("websocket: Options.MaxFrame is %d, want 0 (default MaxMessage) up to %d", o.MaxFrame, largestMessage)
	}
	if o.MaxFragments < 0 {
		return o, fmt.Errorf("websocket: Options.MaxFragments is %d, want 0 (default %d) or more", o.MaxFragments, defaultMaxFragments)
	}
	for _, p := range o.Subprotocols {
		if !isToken(p) {
			return o, fmt.Errorf("websocket: Options.Subprotocols has %q, which is not a token", p)
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"PongTimeout", o.PongTimeout}, {"CloseTimeout", o.CloseTimeout}} {
		if f.value < 0 {
			return o, fmt.Errorf("websocket: Options.%s is %v, want 0 (the default) or more", f.name, f.value)
		}
	}
	if o.RequireSubprotocol && len(o.Subprotocols) == 0 {
		return o, fmt.Errorf("websocket: Options.RequireSubprotocol without Subprotocols")
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = defaultMaxMessage
	}
	if o.MaxFrame == 0 {
		o.MaxFrame = o.MaxMessage
	}
	if o.MaxFragments == 0 {
		o.MaxFragments = defaultMaxFragments
	}
	setDefault(&o.PingInterval, defaultPingInterval)
	setDefault(&o.PongTimeout, defaultPongTimeout)
	setDefault(&o.MessageTimeout, defaultMessageTimeout)
	setDefault(&o.CloseTimeout, defaultCloseTimeout)
	if o.CheckOrigin == nil {
		o.CheckOrigin = sameOrigin
	}
	if o.Stats == nil {
		o.Stats = new(Stats)
	}
	return o, nil
}

// config is shared by all connections of an endpoint. Only arrivals changes
// after newConfig.
type config struct {
	Options
	limits   limits
	client   bool
	arrivals arrivals
}

func newConfig(o Options, client bool) (*config, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &config{Options: o, limits: limits{o.MaxMessage, o.MaxFrame, o.MaxFragments, client}, client: client}, nil
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}
