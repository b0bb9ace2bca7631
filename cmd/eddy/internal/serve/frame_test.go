package serve

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// frameClient speaks the frame protocol as its specification has it.
type frameClient struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func dialFrame(t *testing.T, addr string) *frameClient {
	c := cmdtest.Connect(t, addr)
	return &frameClient{c, t, bufio.NewReader(c)}
}

// The operations and statuses that the tests use.
const (
	fPing, fEcho, fCall, fOneWay, fCancel = 0, 1, 2, 3, 4

	sOK, sBadRequest, sNotFound, sAppError, sBusy, sLate, sCanceled, sUnavailable, sTooLarge = 0, 1, 2, 3, 5, 6, 7, 8, 9
	sProtocolError, sGoAway                                                                  = 64, 65
)

func frameOf(id uint64, op byte, payload string) []byte {
	b := []byte{0xED, 0xD1, 1}
	b = binary.BigEndian.AppendUint64(b, id)
	b = binary.BigEndian.AppendUint32(append(b, op), uint32(len(payload)))
	return append(b, payload...)
}

func (c *frameClient) ask(id uint64, op byte, payload string) {
	c.t.Helper()
	if _, err := c.Write(frameOf(id, op, payload)); err != nil {
		c.t.Fatal(err)
	}
}

// frameAnswer is a response; of one that is not OK text is the message.
type frameAnswer struct {
	id     uint64
	status byte
	text   string
}

func (c *frameClient) read() (a frameAnswer, retry uint32) {
	c.t.Helper()
	a, retry, err := c.next()
	if err != nil {
		c.t.Fatal(err)
	}
	return a, retry
}

// next is read for other goroutines; io.EOF is the end between two answers.
func (c *frameClient) next() (a frameAnswer, retry uint32, err error) {
	h := make([]byte, 16)
	if _, err := io.ReadFull(c.r, h); err != nil {
		return a, 0, err
	}
	p := make([]byte, binary.BigEndian.Uint32(h[12:]))
	if _, err := io.ReadFull(c.r, p); err != nil {
		return a, 0, fmt.Errorf("inside a payload: %v", err)
	}
	if !bytes.HasPrefix(h, []byte{0xED, 0xD1, 1}) {
		return a, 0, fmt.Errorf("header %X", h)
	}
	if h[11] != sOK {
		if len(p) < 6 || int(binary.BigEndian.Uint16(p[4:])) != len(p)-6 {
			return a, 0, fmt.Errorf("status %d with the payload %X", h[11], p)
		}
		retry = binary.BigEndian.Uint32(p)
		p = p[6:]
	}
	return frameAnswer{binary.BigEndian.Uint64(h[3:]), h[11], string(p)}, retry, nil
}

func (c *frameClient) expect(want ...frameAnswer) {
	c.t.Helper()
	for _, w := range want {
		if got, _ := c.read(); got != w {
			c.t.Fatalf("answer %.100v, want %.100v", got, w)
		}
	}
}

// expectEnd expects the server's end of the connection, and nothing before it.
func (c *frameClient) expectEnd() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Fatalf("%X, %v, want the end", rest, err)
	}
	c.Close()
}

var closedPattern = regexp.MustCompile(`(?s).*; closed ([^\n]*)\n`)

// closes stops the server and returns its close reasons.
func closes(p *cmdtest.Process) string {
	p.Stop()
	return p.WaitOutput(p.Errs, closedPattern)[1]
}

// TestServeFrame walks through the operations and commands with the defaults: a boss and two worker loops, ids that match.
func TestServeFrame(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "frame", "--addr", "127.0.0.1:0", "--stats", "50ms")
	if !strings.Contains(p.Out.String(), "with the loop boss and 2 others, ordering completion") {
		t.Errorf("it says %q", p.Out)
	}
	c := dialFrame(t, p.Addr)
	const commands = `the commands are "sleep MS", "bytes N", "fail TEXT" and "upper TEXT"`
	for _, x := range []struct {
		op      byte
		payload string
		status  byte
		want    string
	}{
		{fPing, "hi", sOK, "hi"},
		{fEcho, "\x00\xff", sOK, "\x00\xff"},
		{fCall, "upper abc", sOK, "ABC"},
		{fCall, "sleep 1", sOK, "slept"},
		{fCall, "bytes 100000", sOK, strings.Repeat("x", 100_000)},
		{fCall, "fail it went wrong", sAppError, "it went wrong"},
		{fCall, "dance", sBadRequest, commands},
		{fCall, "sleep 60001", sBadRequest, commands},
		{fCall, "bytes -1", sBadRequest, commands},
		{16, "", sNotFound, "operation OP 16 is not served"},
	} {
		c.ask(9, x.op, x.payload)
		c.expect(frameAnswer{9, x.status, x.want})
	}
	c.ask(1, fOneWay, "fail quietly")
	c.ask(2, fCall, "sleep 60000")
	c.ask(3, fCall, "upper overtakes")
	c.expect(frameAnswer{3, sOK, "OVERTAKES"})
	c.ask(2, fCall, "upper me too")
	c.expect(frameAnswer{2, sBadRequest, "a request with this id is in flight"})
	c.ask(2, fCancel, "")
	c.expect(frameAnswer{2, sCanceled, ""})
	p.WaitOutput(p.Errs, regexp.MustCompile(`1 open, \d+ frames, .*loop lag p50 \S+ p95 \S+ p99 \S+ max \S+; requests busy 0, refused 1, cancelled 1,`))
	c.ask(4, 5, "")
	c.expect(frameAnswer{4, sProtocolError, "operation 5 is reserved"})
	c.expectEnd()
	big := dialFrame(t, p.Addr)
	big.Write(frameOf(5, fEcho, "")[:12])
	big.Write([]byte{0, 0x10, 0, 1}) // 1 MiB and a byte, of which none comes
	big.expect(frameAnswer{5, sTooLarge, "payload of 1048577 bytes, limit 1048576"})
	big.expectEnd()
	if got := closes(p); got != "protocol_error 1, frame_too_large 1" {
		t.Errorf("closed %q", got)
	}
}

// TestFrameOrderings: the four values of --ordering, as a client of the program sees them.
func TestFrameOrderings(t *testing.T) {
	t.Parallel()
	for ordering, want := range map[string][]frameAnswer{
		"completion": {{2, sOK, "FAST"}, {3, sOK, "ping"}, {1, sCanceled, ""}},
		"ordered":    {{1, sOK, "slept"}, {2, sOK, "FAST"}, {3, sOK, "ping"}},
		"serial":     {{1, sOK, "slept"}, {2, sOK, "FAST"}, {3, sOK, "ping"}},
	} {
		p := cmdtest.StartServer(t, "serve", "frame", "--addr", "127.0.0.1:0", "--ordering", ordering)
		c := dialFrame(t, p.Addr)
		sleep := "sleep 200"
		if ordering == "completion" {
			sleep = "sleep 60000" // it is cancelled when the others have passed it
		}
		c.Write(slices.Concat(frameOf(1, fCall, sleep), frameOf(2, fCall, "upper fast"), frameOf(3, fPing, "ping")))
		if ordering == "completion" { // the two are answered by different goroutines
			a, _ := c.read()
			b, _ := c.read()
			if a.id == 3 {
				a, b = b, a
			}
			if a != want[0] || b != want[1] {
				t.Errorf("%s: %v and %v", ordering, a, b)
			}
			want = want[2:]
			c.ask(1, fCancel, "")
		}
		c.expect(want...)
		c.Close()
		p.Stop()
	}
	p := cmdtest.StartServer(t, "serve", "frame", "--addr", "127.0.0.1:0", "--ordering", "no-pipelining", "--stats", "1h")
	c := dialFrame(t, p.Addr)
	for id := range uint64(5) {
		c.ask(id+1, fEcho, "one by one")
		c.expect(frameAnswer{id + 1, sOK, "one by one"})
	}
	c.Write(slices.Concat(frameOf(7, fCall, "sleep 60000"), frameOf(8, fPing, "")))
	c.expect(frameAnswer{8, sProtocolError, "a request before the response to the one before it"})
	c.expectEnd()
	if got := closes(p); got != "protocol_error 1" {
		t.Errorf("closed %q", got)
	}
}

// TestFrameLimits: what is too much is refused as the flags say: requests, connections, bytes, time.
func TestFrameLimits(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "frame", "--addr", "127.0.0.1:0", "--workers", "1", "--queue", "1", "--retry-after", "250ms", "--max-per-ip", "2",
		"--max-payload", "1000", "--request-timeout", "300ms", "--read-timeout", "200ms", "--idle-timeout", "1h", "--stats", "1h")
	c := dialFrame(t, p.Addr)
	c.Write(slices.Concat(frameOf(1, fCall, "sleep 60000"), frameOf(2, fCall, "sleep 60000"), frameOf(3, fEcho, ""), frameOf(4, fPing, "alive")))
	if a, retry := c.read(); a.id != 3 || a.status != sBusy || retry != 250 {
		t.Errorf("%v with retry after %d ms, want BUSY with 250", a, retry)
	}
	c.expect(frameAnswer{4, sOK, "alive"})
	for range 2 {
		if a, _ := c.read(); a.status != sLate {
			t.Errorf("%v, want DEADLINE_EXCEEDED", a)
		}
	}
	for id := uint64(5); ; id++ { // busy until the pool has noticed that those are over
		c.ask(id, fCall, "bytes 1001")
		a, _ := c.read()
		if a.status == sBusy || a.status == sLate { // or its own time was over before the pool came to it
			continue
		}
		if want := (frameAnswer{id, sTooLarge, "response of 1001 bytes, limit 1000"}); a != want {
			t.Errorf("%v, want %v", a, want)
		}
		break
	}
	drip := dialFrame(t, p.Addr)
	if told := cmdtest.Talk(t, p.Addr, ""); !strings.Contains(told, "\x05\x00\x00\x006\x00\x00\x00\xfa\x00") || !strings.HasSuffix(told, "max_per_ip") { // BUSY, in 250 ms
		t.Errorf("a third connection of this address is told %q", told)
	}
	at := time.Now()
	drip.Write(frameOf(1, fEcho, "incomplete")[:20])
	drip.expectEnd()
	if d := time.Since(at); d < 200*time.Millisecond {
		t.Errorf("an incomplete frame is given up after %v", d)
	}
	if got := closes(p); got != "read_timeout 1, admission_rejected 1, server_shutdown 1" {
		t.Errorf("closed %q", got)
	}
	p = cmdtest.StartServer(t, "serve", "frame", "--addr", "127.0.0.1:0", "--idle-timeout", "200ms", "--stats", "1h")
	dialFrame(t, p.Addr).expectEnd()
	if got := closes(p); got != "idle_timeout 1" {
		t.Errorf("closed %q", got)
	}
}

// TestFrameSlowClient: a client that does not read what it asked for is read no more, then closed; another one does not
// notice.
func TestFrameSlowClient(t *testing.T) {
	t.Parallel()
	for reason, flags := range map[string][]string{
		"backpressure_limit": {"--backpressure-timeout", "400ms"},
		"write_timeout":      {"--write-timeout", "400ms"},
	} {
		args := append([]string{"serve", "frame", "--addr", "127.0.0.1:0", "--stats", "1h", "--high-watermark", "300000"}, flags...)
		p := cmdtest.StartServer(t, args...)
		slow, other := dialFrame(t, p.Addr), dialFrame(t, p.Addr)
		over := make(chan struct{})
		go func() {
			defer close(over)
			for id := uint64(1); ; id++ { // until the server resets the connection
				if _, err := slow.Write(frameOf(id, fCall, "bytes 100000")); err != nil {
					return
				}
			}
		}()
		for ended := false; !ended; {
			select {
			case <-over:
				ended = true
			default:
			}
			other.ask(1, fCall, "upper ok")
			other.expect(frameAnswer{1, sOK, "OK"})
		}
		other.Close()
		if got := closes(p); !strings.Contains(got, reason+" 1") {
			t.Errorf("closed %q, want %s", got, reason)
		}
	}
}

// TestFrameDrain: told to stop, the server says GOAWAY, finishes what is in flight and refuses what comes later.
func TestFrameDrain(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "frame", "--addr", "127.0.0.1:0", "--stats", "1h")
	c, idle := dialFrame(t, p.Addr), dialFrame(t, p.Addr)
	idle.ask(1, fPing, "")
	idle.expect(frameAnswer{1, sOK, ""})
	c.ask(1, fCall, "sleep 60000") // until it is cancelled
	c.ask(2, fEcho, "there")
	c.expect(frameAnswer{2, sOK, "there"})
	p.Signal(syscall.SIGTERM)
	goAway := frameAnswer{0, sGoAway, "the server is draining"}
	idle.expect(goAway)
	idle.expectEnd()
	c.expect(goAway)
	c.ask(3, fCall, "upper late")
	c.expect(frameAnswer{3, sUnavailable, "the server is draining"})
	c.ask(1, fCancel, "")
	c.expect(frameAnswer{1, sCanceled, ""})
	c.expectEnd()
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d; stderr %q", code, p.Errs)
	}
	if report := p.WaitOutput(p.Errs, reportPattern); report[1] != "2" || report[2] != "0" {
		t.Errorf("report %q", report[0])
	}
	if got := p.WaitOutput(p.Errs, closedPattern)[1]; got != "server_shutdown 2" {
		t.Errorf("closed %q", got)
	}
}

// TestFrameUnderLoad: the server is stopped while clients ask: every answer is right and in its turn, after GOAWAY too, the
// end comes between two answers, and none is forced.
func TestFrameUnderLoad(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "frame", "--addr", "127.0.0.1:0", "--ordering", "ordered", "--workers", "4")
	const clients = 10
	told := make(chan error, clients)
	busy := make(chan struct{}, clients)
	for i := range clients {
		c := dialFrame(t, p.Addr)
		go func() { told <- chatFrames(c, i, busy) }()
	}
	for range clients {
		<-busy
	}
	p.Signal(syscall.SIGTERM)
	for range clients {
		if err := <-told; err != nil {
			t.Error(err)
		}
	}
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if report := p.WaitOutput(p.Errs, reportPattern); report[1] != fmt.Sprint(clients) || report[2] != "0" || report[3] != "0" {
		t.Errorf("report %q", report[0])
	}
}

// chatFrames keeps four requests in flight until it is told to go away, and then takes what is still answered: requests
// that reach the server after its last response meet the end instead.
func chatFrames(c *frameClient, client int, busy chan<- struct{}) error {
	next, oldest, goAway := uint64(1), uint64(1), false
	for !goAway || oldest < next {
		for ; !goAway && next < oldest+4; next++ {
			if _, err := c.Write(frameOf(next, fCall, fmt.Sprintf("upper c%d-%d", client, next))); err != nil {
				return fmt.Errorf("client %d, request %d: %w", client, next, err)
			}
		}
		a, _, err := c.next()
		switch {
		case err == io.EOF && goAway:
			return c.Close()
		case err != nil:
			return fmt.Errorf("client %d after %d answers, told to go %v: %w", client, oldest-1, goAway, err)
		case a.status == sGoAway && a.id == 0 && !goAway:
			goAway = true
		case a.id != oldest || a.status != sOK && a.status != sUnavailable || a.status == sOK && a.text != fmt.Sprintf("C%d-%d", client, a.id):
			return fmt.Errorf("client %d: answer %v to request %d", client, a, oldest)
		default:
			if oldest++; oldest == 100 {
				busy <- struct{}{}
			}
		}
	}
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		return fmt.Errorf("client %d: %X, %v after the last answer", client, rest, err)
	}
	return c.Close()
}
