package eddy_test

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

var flowMatrix = flag.Bool("flow-matrix", false, "TestReadersAreServed goes through its whole matrix, not only its quick part")

// A flowCell is one case of the matrix: callers that share a server, each with its calls one after the other.
type flowCell struct {
	protocol *flowProtocol
	callers  int
	size     int  // bytes of what is large
	upload   bool // requests are large and answers small; else the other way round
	pace     flowPace
	want     []byte // what is large
	watch    *flowWatch
}

func (c *flowCell) String() string {
	what := "answers"
	if c.upload {
		what = "requests"
	}
	return fmt.Sprintf("%s/%dx%s/%s/%s", c.protocol.name, c.callers, sizeName(c.size), what, c.pace.name)
}

func sizeName(n int) string {
	if n < 1<<20 {
		return fmt.Sprint(n>>10, "KiB")
	}
	return fmt.Sprint(n>>20, "MiB")
}

// flowRoom is what the headers of a message need beside it, so that a whole one keeps to the limit of 1 MiB that the
// protocols set by default. Only what is larger needs another limit, which largest gives.
const flowRoom = 128

// largest is the limit of one message, 0 for the protocol's default.
func (c *flowCell) largest() int {
	if c.size <= 1<<20 {
		return 0
	}
	return c.size
}

// budget is the MemoryBudget of the server, in bytes: what the callers ask for at a time and a quarter more. All of it may
// be there at once, because calls whose answers nobody has seen yet begin together.
func (c *flowCell) budget() int { return max(16<<20, c.callers*c.size*5/4) }

// calls returns how many each caller makes: two where answers are large, because the server knows their size the second time.
func (c *flowCell) calls() int {
	if c.upload {
		return 1
	}
	return 2
}

// respond is what every server does with a request: it checks it, and answers. A request that is not large is empty.
func (c *flowCell) respond(request []byte) ([]byte, error) {
	c.watch.look()
	if !c.upload {
		return c.want, nil
	}
	if !bytes.Equal(request, c.want) {
		return nil, fmt.Errorf("a request of %d bytes is not the one that was sent", len(request))
	}
	return nil, nil
}

// request is what every client sends.
func (c *flowCell) request() []byte {
	if c.upload {
		return c.want
	}
	return nil
}

// check is what every client does with an answer.
func (c *flowCell) check(answer []byte) error {
	c.watch.look()
	want := c.want
	if c.upload {
		want = nil
	}
	if !bytes.Equal(answer, want) {
		return fmt.Errorf("an answer of %d bytes, want %d", len(answer), len(want))
	}
	return nil
}

// A flowPace says how fast the bytes of a connection move.
type flowPace struct {
	name  string
	piece int  // bytes after which a direction waits for the test; 0 = never
	stop  bool // until the server has nothing more that it can do; else for one turn of its loops
}

var flowPaces = []flowPace{{name: "fast"}, {name: "slow", piece: 16 << 10}, {name: "stop-and-go", piece: 256 << 10, stop: true}}

// A flowProtocol has a server with every default and a client that knows nothing of this module, but for RPC.
type flowProtocol struct {
	name  string
	tls   bool
	serve func(t *testing.T, c *flowCell, tune func(*eddy.Server)) string
	calls func(t *testing.T, c *flowCell, addr string) error
}

var flowProtocols = []*flowProtocol{
	{name: "frame", serve: flowFrameServer, calls: flowFrameCalls},
	{name: "rpc", serve: flowRPCServer, calls: flowRPCCalls},
	{name: "http1", serve: flowHTTPServer, calls: flowHTTPCalls},
	{name: "websocket", serve: flowWebSocketServer, calls: flowWebSocketCalls},
	{name: "rpc over tlsx", tls: true, serve: flowRPCServer, calls: flowRPCCalls},
}

// TestReadersAreServed: a client that reads, at whatever pace, has every answer, and one that sends gets everything
// through, with nothing set about queues: neither watermarks nor requests in flight. What the server holds for them stays
// within its budget. Deadlines are far away: nothing here is about them.
func TestReadersAreServed(t *testing.T) {
	for _, c := range flowCells(*flowMatrix) {
		t.Run(c.String(), func(t *testing.T) { c.run(t) })
	}
}

// flowCells are the cases: all of them, or those that show most for their time.
func flowCells(all bool) (cells []*flowCell) {
	for _, p := range flowProtocols {
		for _, callers := range []int{1, 16, 64} {
			for _, size := range []int{1 << 10, 64 << 10, 1 << 20, 7 << 20} {
				for _, upload := range []bool{false, true} {
					for _, pace := range flowPaces {
						quick := callers == 16 && size == 1<<20 && pace.name == "stop-and-go" || callers == 64 && size == 64<<10 && pace.name == "fast"
						if all || quick {
							cells = append(cells, &flowCell{protocol: p, callers: callers, size: size, upload: upload, pace: pace})
						}
					}
				}
			}
		}
	}
	return cells
}

func (c *flowCell) run(t *testing.T) {
	c.want = bytes.Repeat([]byte("0123456789abcdef\n"), c.size/17+1)[:c.size-flowRoom]
	c.watch = &flowWatch{t: t}
	addr := c.protocol.serve(t, c, func(srv *eddy.Server) {
		enginetest.Relax(srv)
		srv.MemoryBudget = c.budget()
		if c.pace.piece > 0 { // so that what is not read stays with the server
			srv.RecvBuffer, srv.SendBuffer = flowBuffer, flowBuffer
		}
		c.watch.srv = srv
	})
	asks := make(chan chan<- struct{})
	if c.protocol.tls || c.pace.piece > 0 {
		r := newFlowRelay(t, addr, c, asks)
		defer r.close()
		addr = r.ln.Addr().String()
	}
	done := make(chan error, 1)
	go func() { done <- c.protocol.calls(t, c, addr) }()
	for {
		select {
		case err := <-done:
			c.watch.judge(err)
			return
		case ask := <-asks:
			c.watch.wait(c.pace)
			close(ask)
		}
	}
}

// flowWatch looks at what a server holds.
type flowWatch struct {
	t    *testing.T
	srv  *eddy.Server
	most atomic.Int64
}

// look may be called by any goroutine.
func (w *flowWatch) look() {
	m := w.srv.Stats().Memory
	held := m.Outbound + m.Inbound
	for most := w.most.Load(); held > most && !w.most.CompareAndSwap(most, held); most = w.most.Load() {
	}
}

// wait returns when a direction may go on.
func (w *flowWatch) wait(p flowPace) {
	enginetest.Barrier(w.t, w.srv)
	w.look()
	if !p.stop {
		return
	}
	testkit.Eventually(w.t, "the server to have nothing to do", func() bool {
		before := w.moved()
		for range 3 {
			enginetest.Barrier(w.t, w.srv)
		}
		w.look()
		return w.moved() == before
	})
}

// moved changes with everything that the server does.
func (w *flowWatch) moved() (n [3]uint64) {
	for _, l := range w.srv.Stats().Loops {
		n[0] += l.BytesIn
		n[1] += l.BytesOut
		n[2] += uint64(l.OutboundBytes)
	}
	return n
}

// judge says whether the calls of a cell went well.
func (w *flowWatch) judge(err error) {
	st := enginetest.Stats(w.t, w.srv)
	m := st.Memory
	w.t.Logf("%d KiB were held at most, budget %d KiB, %d times under pressure", w.most.Load()>>10, m.Budget>>10, m.Pressures)
	if err != nil {
		w.t.Errorf("%v; closed: %v", err, closedNames(st))
	}
	if w.most.Load() > m.Budget || m.Closed > 0 || m.Refused > 0 {
		w.t.Errorf("the budget did not hold: %d MiB held at most, %+v", w.most.Load()>>20, m)
	}
}

func closedNames(st eddy.Stats) string {
	var names []string
	for reason, n := range st.Closed {
		if n > 0 {
			names = append(names, fmt.Sprint(reason, ": ", n))
		}
	}
	return strings.Join(names, ", ")
}

// listenLocal listens on a free port.
func listenLocal(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}
