package websocket

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// A case has what a client sends and what must come back: frames, then the
// close frame with its code. It follows the sections of the Autobahn suite.
type conformanceCase struct {
	name, in string
	frames   []string // as the server writes them
	code     int      // of the close frame behind them, 0 = without a code
}

const closing = "\x03\xe8" // code 1000

func closeFrame() string { return frame(0x88, closing) }

// framing: sections 1, 2, 5 and 10.
func framingCases() (list []conformanceCase) {
	for _, n := range []int{0, 1, 125, 126, 127, 128, 65535, 65536, 65537, 200000} {
		for _, op := range []byte{0x81, 0x82} {
			p := strings.Repeat("*", n)
			list = append(list, conformanceCase{fmt.Sprintf("1 %#x of %d bytes", op, n), frame(op, p) + closeFrame(), []string{serverFrame(op, p)}, 1000})
		}
	}
	p125 := strings.Repeat("\xfe", 125)
	fr := func(parts ...string) string { return strings.Join(parts, "") }
	list = append(list, []conformanceCase{
		{"2.1 ping without payload", fr(frame(0x89, ""), closeFrame()), []string{serverFrame(0x8a, "")}, 1000},
		{"2.2 ping with text", fr(frame(0x89, "Hello, world!"), closeFrame()), []string{serverFrame(0x8a, "Hello, world!")}, 1000},
		{"2.3 ping with binary", fr(frame(0x89, "\x00\xff\xfe\xfd\xfc\xfb\x00\xff"), closeFrame()), []string{serverFrame(0x8a, "\x00\xff\xfe\xfd\xfc\xfb\x00\xff")}, 1000},
		{"2.4 ping of 125 bytes", fr(frame(0x89, p125), closeFrame()), []string{serverFrame(0x8a, p125)}, 1000},
		{"2.5 ping of 126 bytes", frame(0x89, p125+"\xfe"), nil, 1002},
		{"2.7 unsolicited pong", fr(frame(0x8a, ""), closeFrame()), nil, 1000},
		{"2.8 unsolicited pong with payload", fr(frame(0x8a, "unsolicited"), closeFrame()), nil, 1000},
		{"2.9 unsolicited pong, then a ping", fr(frame(0x8a, "unsolicited"), frame(0x89, "p"), closeFrame()), []string{serverFrame(0x8a, "p")}, 1000},
		{"2.10 ten pings", fr(strings.Repeat(frame(0x89, "p"), 10), closeFrame()), repeat(serverFrame(0x8a, "p"), 10), 1000},
		{"5.1 fragmented ping", fr(frame(0x09, "a"), frame(0x80, "b")), nil, 1002},
		{"5.2 fragmented pong", fr(frame(0x0a, "a"), frame(0x80, "b")), nil, 1002},
		{"5.3 text in two fragments", fr(frame(0x01, "one"), frame(0x80, "two"), closeFrame()), []string{serverFrame(0x81, "onetwo")}, 1000},
		{"5.6 with a ping between", fr(frame(0x01, "one"), frame(0x89, "p"), frame(0x80, "two"), closeFrame()), []string{serverFrame(0x8a, "p"), serverFrame(0x81, "onetwo")}, 1000},
		{"5.9 continuation without a start, final", fr(frame(0x80, "no"), frame(0x81, "Hello")), nil, 1002},
		{"5.12 continuation without a start, not final", fr(frame(0x00, "no"), frame(0x81, "Hello")), nil, 1002},
		{"5.15 continuation behind a whole message", fr(frame(0x01, "a"), frame(0x80, "b"), frame(0x00, "c"), frame(0x81, "Hello")), []string{serverFrame(0x81, "ab")}, 1002},
		{"5.18 two starts", fr(frame(0x01, "one"), frame(0x81, "two")), nil, 1002},
		{"5.19 five fragments with pings", fr(frame(0x01, "1"), frame(0x00, "2"), frame(0x89, "a"), frame(0x00, "3"), frame(0x00, "4"), frame(0x89, "b"), frame(0x80, "5"), closeFrame()),
			[]string{serverFrame(0x8a, "a"), serverFrame(0x8a, "b"), serverFrame(0x81, "12345")}, 1000},
		{"10.1 a text in many frames", fr(frame(0x01, "*"), strings.Repeat(frame(0x00, strings.Repeat("*", 1300)), 50), frame(0x80, "*"), closeFrame()),
			[]string{serverFrame(0x81, strings.Repeat("*", 65002))}, 1000},
	}...)
	return list
}

func repeat(s string, n int) (list []string) {
	for range n {
		list = append(list, s)
	}
	return list
}

// reserved: sections 3 and 4. Messages before the violation are answered, later
// ones are not.
func reservedCases() (list []conformanceCase) {
	hello := frame(0x81, "Hello")
	for bits := byte(1); bits < 8; bits++ {
		for _, op := range []byte{0x81, 0x82, 0x88, 0x89, 0x8a} {
			list = append(list, conformanceCase{fmt.Sprintf("3 reserved bits %d with %#x", bits, op), hello + frame(op|bits<<4, "x") + hello, []string{serverFrame(0x81, "Hello")}, 1002})
		}
	}
	for _, op := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		for _, payload := range []string{"", "reserved opcode payload"} {
			list = append(list, conformanceCase{fmt.Sprintf("4 opcode %d with %d bytes", op, len(payload)), hello + frame(0x80|op, payload) + frame(0x89, ""), []string{serverFrame(0x81, "Hello")}, 1002})
		}
	}
	return list
}

// text: section 6.
func textCases() (list []conformanceCase) {
	for _, s := range []string{
		"Hello-µ@ßöäüàá-UTF-8!!", "κόσμε", "\x00", "\x7f", "\u0080", "\u07ff", "\u0800", "\uffff", "\ufffd", "\ufffe", "\ufdd0", "\U00010000",
		"\U0010ffff", "\U0001fffe", "\ud7ff", "\ue000",
	} {
		list = append(list, conformanceCase{fmt.Sprintf("6 valid %x", s), frame(0x81, s) + closeFrame(), []string{serverFrame(0x81, s)}, 1000})
		whole := ""
		for i := range len(s) { // one byte in each fragment
			first := byte(0)
			if i == 0 {
				first = 1
			}
			whole += frame(first, s[i:i+1])
		}
		list = append(list, conformanceCase{fmt.Sprintf("6 valid %x in fragments", s), whole + frame(0x80, "") + closeFrame(), []string{serverFrame(0x81, s)}, 1000})
	}
	for _, s := range []string{
		"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80\x65\x64", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80", "\xf7\xbf\xbf\xbf",
		"\x80", "\xbf", "\x80\xbf\x80", "\xc0 \xc1 ", "\xe0 \xe1 ", "\xf0 \xf1 ", "\xf8 ", "\xc0", "\xe0\x80", "\xf0\x80\x80", "\xdf", "\xef\xbf", "\xf7\xbf\xbf",
		"\xfe", "\xff", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xc0\x80", "\xe0\x80\x80",
		"\xed\xa0\x80", "\xed\xad\xbf", "\xed\xbf\xbf", "\xed\xa0\x80\xed\xb0\x80", "\xce\xba\xe1\xbd", "\xce",
	} {
		list = append(list, conformanceCase{fmt.Sprintf("6 invalid %x", s), frame(0x81, s), nil, 1007},
			conformanceCase{fmt.Sprintf("6 invalid %x in fragments", s), frame(0x01, s[:1]) + frame(0x00, s[1:]) + frame(0x80, ""), nil, 1007})
	}
	return list
}

// closes: section 7.
func closeCases() (list []conformanceCase) {
	hello := frame(0x81, "Hello")
	list = append(list, []conformanceCase{
		{"7.1.1 message, then close", hello + closeFrame(), []string{serverFrame(0x81, "Hello")}, 1000},
		{"7.1.2 two closes", closeFrame() + closeFrame(), nil, 1000},
		{"7.1.3 ping behind the close", closeFrame() + frame(0x89, ""), nil, 1000},
		{"7.1.4 text behind the close", closeFrame() + hello, nil, 1000},
		{"7.1.5 close inside a fragmented message", frame(0x01, "frag") + closeFrame() + frame(0x80, "ment"), nil, 1000},
		{"7.3.1 no payload", frame(0x88, ""), nil, 0},
		{"7.3.2 one byte", frame(0x88, "a"), nil, 1002},
		{"7.3.4 code and reason", frame(0x88, closing+"Hello World!"), nil, 1000},
		{"7.3.5 longest reason", frame(0x88, closing+strings.Repeat("*", 123)), nil, 1000},
		{"7.3.6 reason too long", frame(0x88, closing+strings.Repeat("*", 124)), nil, 1002},
		{"7.5.1 reason not UTF-8", frame(0x88, closing+"\xce\xba\xed\xa0\x80"), nil, 1007},
		{"7 unmasked close", serverFrame(0x88, closing), nil, 1002},
	}...)
	code := func(n int) string { return string([]byte{byte(n >> 8), byte(n)}) }
	for _, n := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		list = append(list, conformanceCase{fmt.Sprintf("7.7 code %d", n), frame(0x88, code(n)), nil, n})
	}
	for _, n := range []int{0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		list = append(list, conformanceCase{fmt.Sprintf("7.9 code %d", n), frame(0x88, code(n)), nil, 1002},
			conformanceCase{fmt.Sprintf("7.9 code %d with a reason", n), frame(0x88, code(n)+"reason"), nil, 1002})
	}
	return list
}

// limits: section 9 with smaller messages, against smaller limits.
func limitCases() []conformanceCase {
	const most = 300000 // of the server below
	big := strings.Repeat("*", most)
	fragments := func(size int) string {
		var in strings.Builder
		in.WriteString(frame(0x02, big[:size]))
		for at := size; at < most; at += size {
			in.WriteString(frame(0x00, big[at:min(at+size, most)]))
		}
		return in.String()
	}
	return []conformanceCase{
		{"9 a message of the limit", frame(0x82, big) + closeFrame(), []string{serverFrame(0x82, big)}, 1000},
		{"9 a message of the limit in fragments", fragments(1000) + frame(0x80, "") + closeFrame(), []string{serverFrame(0x82, big)}, 1000},
		{"9 in fragments of 64 bytes", fragments(64) + frame(0x80, "") + closeFrame(), []string{serverFrame(0x82, big)}, 1000},
		{"9 one byte more", frame(0x82, big+"*"), nil, 1009},
		{"9 one byte more in the last fragment", fragments(1000) + frame(0x80, "*"), nil, 1009},
		{"9 a length that nobody has", "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff", nil, 1009},
		{"9 a length with its highest bit set", "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff", nil, 1002},
		{"9 more fragments than allowed", frame(0x02, "") + strings.Repeat(frame(0x00, ""), 5000), nil, 1009},
	}
}

// Every case in one piece, and in pieces of one and of seven bytes where that
// does not take long.
func TestConformance(t *testing.T) {
	s := startWith(t, newEcho(), quiet{}, Options{MaxMessage: 300000, MaxFragments: 5000, CloseTimeout: time.Hour}, eddy.Watermarks{})
	for _, list := range [][]conformanceCase{framingCases(), reservedCases(), textCases(), closeCases(), limitCases()} {
		for _, tt := range list {
			pieces := []int{len(tt.in)}
			if len(tt.in) < 300 {
				pieces = append(pieces, 1, 7)
			}
			for _, piece := range pieces {
				s.conform(t, tt, piece)
			}
		}
	}
	left := int64(0)
	if overHTTP2(t) { // the connection of all streams
		left = 1
	}
	testkit.Eventually(t, "all to end", func() bool { return s.srv.Stats().Active == left })
}

// quiet is an echo that remembers nothing.
type quiet struct{}

func (quiet) HandleOpen(*Conn) error                              { return nil }
func (quiet) HandleMessage(c *Conn, op Opcode, data []byte) error { return c.WriteBytes(op, data) }
func (quiet) HandleClose(*Conn, int, string)                      {}

// conform runs one case.
func (s *server) conform(t *testing.T, tt conformanceCase, piece int) {
	t.Helper()
	c := s.rawDial("")
	<-s.errs
	defer func() { _ = c.Close() }()
	for in := tt.in; len(in) > 0; {
		n := min(piece, len(in))
		if _, err := c.Write([]byte(in[:n])); err != nil {
			break // the server has refused what came before
		}
		in = in[n:]
	}
	var want strings.Builder
	for _, f := range tt.frames {
		want.WriteString(f)
	}
	for _, f := range tt.frames {
		first, p, err := c.frame()
		if got := serverFrame(first, p); err != nil || got != f {
			t.Errorf("%s, pieces of %d: frame %.40q, %v; want %.40q", tt.name, piece, got, err, f)
			return
		}
	}
	first, p, err := c.frame()
	code := 0
	if len(p) >= 2 {
		code = int(p[0])<<8 | int(p[1])
	}
	if err != nil || first != 0x88 || code != tt.code || tt.code == 0 && p != "" {
		t.Errorf("%s, pieces of %d: frame %#x %.40q, %v; want a close frame with %d", tt.name, piece, first, p, err, tt.code)
		return
	}
	if _, err := c.br.ReadByte(); err == nil {
		t.Errorf("%s, pieces of %d: more behind the close frame", tt.name, piece)
	}
}

// An echoed message costs the server no allocation.
func TestEchoAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	e := newEcho()
	e.conns = make(chan *Conn, 1)
	s := startWith(t, e, nil, Options{}, eddy.Watermarks{})
	c := s.rawDial("")
	<-s.errs
	request := []byte(strings.Repeat(frame(0x82, strings.Repeat("x", 128)), 10))
	answer := make([]byte, 10*(4+128))
	exchange := func(times int) {
		for range times {
			if _, err := c.Write(request); err != nil {
				t.Fatal(err)
			}
			for at := 0; at < len(answer); {
				n, err := c.br.Read(answer[at:])
				if err != nil {
					t.Fatal(err)
				}
				at += n
			}
		}
	}
	exchange(50)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 300
	exchange(times)
	runtime.ReadMemStats(&after)
	if per := float64(after.Mallocs-before.Mallocs) / (10 * times); per > 0.05 {
		t.Errorf("%.3f allocations per message", per)
	}
}

// The server stops reading from a client that sends and does not read, so the
// client costs no more memory than its bounds. When the client reads, nothing
// is missing.
func TestSlowReader(t *testing.T) {
	s := startWith(t, newEcho(), nil, Options{}, eddy.Watermarks{Low: 16 << 10, High: 64 << 10, Max: 1 << 20}, narrow)
	c := s.rawDial("")
	sc := s.conn()
	const size, count = 16 << 10, 300
	sent := make(chan error, 1)
	go func() {
		for i := range count {
			if _, err := c.Write([]byte(frame(0x82, fmt.Sprintf("%08d", i)+strings.Repeat("x", size-8)))); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	testkit.Eventually(t, "reads to pause", func() bool { return !sc.conn.Writable() })
	for i := range count {
		_ = c.SetDeadline(time.Now().Add(testkit.Patience)) // for each message: all of them take their time
		first, p, err := c.frame()
		// High, what one read brings, a message that had begun before it, and the headers of their frames.
		if q := sc.conn.QueuedBytes(); q > 64<<10+64<<10+size+1<<10 {
			t.Fatalf("%d bytes queued", q)
		}
		if err != nil || first != 0x82 || len(p) != size || p[:8] != fmt.Sprintf("%08d", i) {
			t.Fatalf("message %d: %#x, %d bytes, %v", i, first, len(p), err)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}
