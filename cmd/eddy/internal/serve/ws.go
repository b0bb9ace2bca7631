package serve

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/serving"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/metrics"
	"github.com/go-eddy/eddy/websocket"
)

// handshakeWorkers serve the HTTP requests that become WebSockets; after the upgrade everything runs on the loop.
const handshakeWorkers = 4

// defaultWSMessage is --max-message: large enough for the conformance suites.
const defaultWSMessage = 16 << 20

// wsFlags are the limits of "eddy serve ws".
type wsFlags struct {
	compress, takeover                 bool
	threshold                          int
	maxMessage, maxFrame, maxFrag      int
	ping, pong, messageTime, closeTime time.Duration
}

func (f *wsFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.compress, "compress", false, "speak permessage-deflate with clients that offer it")
	fs.BoolVar(&f.takeover, "compress-takeover", false, "let compressed messages refer to earlier ones (more memory and work, shorter messages)")
	fs.IntVar(&f.threshold, "compress-threshold", 0, "smallest message that is compressed, in bytes; 0 = 256")
	fs.IntVar(&f.maxMessage, "max-message", defaultWSMessage, "largest message in bytes")
	fs.IntVar(&f.maxFrame, "max-frame", 0, "largest frame in bytes; 0 = as --max-message")
	fs.IntVar(&f.maxFrag, "max-fragments", 0, "most frames of one message; 0 = 131072")
	fs.DurationVar(&f.ping, "ping", 0, "silence after which a client is sent a ping; 0 = 25s, negative = never")
	fs.DurationVar(&f.pong, "pong-timeout", 0, "time to answer it; 0 = 10s")
	fs.DurationVar(&f.messageTime, "message-timeout", 0, "time from the first byte of a message to its last; 0 = 1m, negative = no limit")
	fs.DurationVar(&f.closeTime, "close-timeout", 0, "time to answer a close frame; 0 = 5s")
}

// maxWSLimit bounds the limits. It is the most that the engine takes as one write.
const maxWSLimit = 1<<30 - 1<<10

// check reports the first flag whose value makes no sense.
func (f *wsFlags) check() error {
	for _, n := range []struct {
		flag         string
		value, least int
	}{{"--max-message", f.maxMessage, 1}, {"--max-frame", f.maxFrame, 0}, {"--max-fragments", f.maxFrag, 0}, {"--compress-threshold", f.threshold, 0}} {
		if n.value < n.least || n.value > maxWSLimit {
			return fmt.Errorf("%s %d is out of range: use %d to %d", n.flag, n.value, n.least, maxWSLimit)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"--pong-timeout", f.pong}, {"--close-timeout", f.closeTime}} {
		if d.value < 0 {
			return fmt.Errorf("%s %v is negative: use a time such as 5s, or 0 for the default", d.flag, d.value)
		}
	}
	if !f.compress && (f.takeover || f.threshold != 0) {
		return fmt.Errorf("--compress-takeover and --compress-threshold need --compress: add it")
	}
	return nil
}

// upgrader returns an Upgrader with the options that the flags give.
func (f *wsFlags) upgrader(counts *websocket.Stats) (*websocket.Upgrader, error) {
	o := websocket.Options{
		MaxMessage: f.maxMessage, MaxFrame: f.maxFrame, MaxFragments: f.maxFrag,
		PingInterval: f.ping, PongTimeout: f.pong, MessageTimeout: f.messageTime, CloseTimeout: f.closeTime,
		CheckOrigin: func(*http.Request) bool { return true }, // an echo has nothing to protect
		Stats:       counts,
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.compress {
		z, err := websocket.NewCompression(websocket.CompressionOptions{Threshold: f.threshold, ContextTakeover: f.takeover})
		if err != nil {
			return nil, err
		}
		o.Compression = z
	}
	return websocket.NewUpgrader(o)
}

func newWS(t *cli.Terminal) *cobra.Command {
	var f serving.Flags
	var w wsFlags
	cmd := &cobra.Command{
		Use:     "ws",
		Short:   "Send every WebSocket message back, on every path, by HTTP/1.1 and HTTP/2",
		Example: "  eddy serve ws --addr 127.0.0.1:7000 --compress\n  eddy bench ws --addr 127.0.0.1:7000",
		RunE: func(*cobra.Command, []string) error {
			counts := new(websocket.Stats)
			u, err := w.upgrader(counts)
			if err != nil {
				return err
			}
			pool, err := handshakePool(f.Dumper)
			if err != nil {
				return err
			}
			defer pool.Close()
			echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = u.Upgrade(w, r, echoSocket{}) // Upgrade answers refusals itself
			})
			h1, h2 := http1.NewHandler(echo, pool, http1.Options{}), http2.NewHandler(echo, pool, http2.Options{Connect: true})
			f.Busy = h1.Refuse
			f.Measured = append(f.Measured, metrics.HTTP("ws", h1), metrics.HTTP2("ws2", h2), metrics.WebSocket("ws", counts))
			f.ALPN = map[string]func(*eddy.Pipeline) error{"h2": h2.Init, "http/1.1": h1.Init, "": h1.Init}
			return serve(t, f, "ws", http2.Either(h1.Init, h2.Init), pool)
		},
	}
	f.Register(cmd, cli.ServeAddr)
	w.register(cmd)
	return cmd
}

func handshakePool(d *executor.Dumper) (*executor.Pool, error) {
	return executor.NewFixed(executor.Options{Name: "handshakes", Workers: handshakeWorkers, Queue: 1024, Dumper: d})
}

// echoSocket sends every message back.
type echoSocket struct{}

func (echoSocket) HandleOpen(*websocket.Conn) error { return nil }

func (echoSocket) HandleMessage(c *websocket.Conn, op websocket.Opcode, data []byte) error {
	return c.WriteBytes(op, data)
}

func (echoSocket) HandleClose(*websocket.Conn, int, string) {}
