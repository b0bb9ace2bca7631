package websocket

import (
	"errors"
	"strconv"
	"strings"
)

// extension is one element of a Sec-WebSocket-Extensions list.
type extension struct {
	name   string
	params []param
}

type param struct {
	name, value string
	valued      bool // "name=" was there
}

var errExtensions = errors.New("malformed Sec-WebSocket-Extensions")

// parseExtensions reads the lists of all header fields (RFC 6455 section 9.1).
func parseExtensions(fields []string) ([]extension, error) {
	var list []extension
	for _, f := range fields {
		s := scanner{rest: f}
		for {
			s.space()
			if s.rest == "" {
				break // also an empty field, or a comma at the end: RFC 9110 section 5.6.1
			}
			if s.take(',') {
				continue
			}
			e, ok := s.extension()
			if !ok {
				return nil, errExtensions
			}
			list = append(list, e)
			if s.space(); s.rest != "" && !s.take(',') {
				return nil, errExtensions
			}
		}
	}
	return list, nil
}

// scanner reads a header field.
type scanner struct{ rest string }

func (s *scanner) space() { s.rest = strings.TrimLeft(s.rest, " \t") }

func (s *scanner) take(c byte) bool {
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) extension() (e extension, ok bool) {
	if e.name, ok = s.token(); !ok {
		return e, false
	}
	for {
		s.space()
		if !s.take(';') {
			return e, true
		}
		s.space()
		p, ok := s.param()
		if !ok {
			return e, false
		}
		e.params = append(e.params, p)
	}
}

func (s *scanner) param() (p param, ok bool) {
	if p.name, ok = s.token(); !ok {
		return p, false
	}
	s.space()
	if !s.take('=') {
		return p, true
	}
	s.space()
	p.valued = true
	if s.take('"') {
		p.value, ok = s.quoted()
		return p, ok && isToken(p.value) // the value must be a token once unquoted
	}
	p.value, ok = s.token()
	return p, ok
}

func (s *scanner) token() (string, bool) {
	n := 0
	for n < len(s.rest) && tokenByte(s.rest[n]) {
		n++
	}
	t := s.rest[:n]
	s.rest = s.rest[n:]
	return t, n > 0
}

func (s *scanner) quoted() (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; c {
		case '"':
			s.rest = s.rest[i+1:]
			return b.String(), true
		case '\\':
			if i++; i == len(s.rest) {
				return "", false
			}
			b.WriteByte(s.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

func isToken(s string) bool {
	for i := range len(s) {
		if !tokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

// tokenByte reports whether a token may hold c (RFC 9110 section 5.6.2).
func tokenByte(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// deflateName is the extension of RFC 7692.
const deflateName = "permessage-deflate"

// deflateParams are the parameters of one offer or answer.
type deflateParams struct {
	serverNoTakeover, clientNoTakeover bool
	serverBits, clientBits             int  // 0 when absent or without a value
	clientBitsNamed                    bool // client_max_window_bits was there
}

// parseDeflate reads the parameters and reports whether they are all known, not
// repeated and valid (RFC 7692 section 7.1). An offer may name
// client_max_window_bits without a value, an answer may not.
func parseDeflate(params []param, offer bool) (d deflateParams, ok bool) {
	for _, p := range params {
		switch p.name {
		case "server_no_context_takeover":
			if p.valued || d.serverNoTakeover {
				return d, false
			}
			d.serverNoTakeover = true
		case "client_no_context_takeover":
			if p.valued || d.clientNoTakeover {
				return d, false
			}
			d.clientNoTakeover = true
		case "server_max_window_bits":
			if d.serverBits != 0 {
				return d, false
			}
			if d.serverBits = windowBits(p.value); d.serverBits == 0 {
				return d, false
			}
		case "client_max_window_bits":
			if d.clientBitsNamed {
				return d, false
			}
			d.clientBitsNamed = true
			if !p.valued && offer {
				continue
			}
			if d.clientBits = windowBits(p.value); d.clientBits == 0 {
				return d, false
			}
		default:
			return d, false
		}
	}
	return d, true
}

// windowBits reads a decimal from 8 to 15 without leading zeros, else it returns 0.
func windowBits(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < minWindowBits || n > maxWindowBits || s != strconv.Itoa(n) {
		return 0
	}
	return n
}

// accept agrees to the first valid offer. It returns what was agreed on and the
// header field that says so, "" when there is no valid offer.
func (z *Compression) accept(offers []extension) (d deflation, answer string) {
	for _, e := range offers {
		if e.name != deflateName {
			continue
		}
		if p, ok := parseDeflate(e.params, true); ok {
			d = z.agree(p)
			return d, d.answer(p)
		}
	}
	return d, ""
}

// agree decides on an offer. It can agree to every valid one, because it
// supports windows of all sizes and either side can do without context
// takeover.
func (z *Compression) agree(p deflateParams) deflation {
	d := deflation{outBits: z.o.WindowBits, inBits: maxWindowBits}
	if p.serverBits != 0 {
		d.outBits = min(d.outBits, p.serverBits)
	}
	if p.clientBitsNamed {
		d.inBits = z.o.PeerWindowBits
		if p.clientBits != 0 {
			d.inBits = min(d.inBits, p.clientBits)
		}
	}
	d.outTakeover = z.o.ContextTakeover && !p.serverNoTakeover
	d.inTakeover = z.o.ContextTakeover && !p.clientNoTakeover
	if n := d.window(); n > 0 && !z.reserve(n) {
		d.outTakeover, d.inTakeover = false, false
	}
	return d
}

// answer writes the server's side of the agreement.
func (d deflation) answer(p deflateParams) string {
	s := deflateName
	if !d.outTakeover {
		s += "; server_no_context_takeover"
	}
	if !d.inTakeover {
		s += "; client_no_context_takeover"
	}
	if p.serverBits != 0 {
		s += "; server_max_window_bits=" + strconv.Itoa(d.outBits)
	}
	if d.inBits < maxWindowBits {
		s += "; client_max_window_bits=" + strconv.Itoa(d.inBits)
	}
	return s
}

// offer returns a client's offer and reserves the memory it may cost. want is
// what holds if the server answers with nothing but the name.
func (z *Compression) offer() (want deflation, field string) {
	want = deflation{
		outBits: z.o.WindowBits, inBits: z.o.PeerWindowBits,
		outTakeover: z.o.ContextTakeover, inTakeover: z.o.ContextTakeover,
	}
	if n := want.window(); n > 0 && !z.reserve(n) {
		want.outTakeover, want.inTakeover = false, false
	}
	field = deflateName
	if !want.inTakeover {
		field += "; server_no_context_takeover"
	}
	if !want.outTakeover {
		field += "; client_no_context_takeover"
	}
	if want.inBits < maxWindowBits {
		field += "; server_max_window_bits=" + strconv.Itoa(want.inBits)
	}
	field += "; client_max_window_bits"
	if want.outBits < maxWindowBits {
		field += "=" + strconv.Itoa(want.outBits)
	}
	return want, field
}

// settle judges the server's answer to an offer (RFC 7692 section 7.1) and
// gives back reserved memory that is not needed. on is false when the server
// declined. ok is false when the client has to fail the connection; all
// reserved memory is given back then.
func (z *Compression) settle(want deflation, answer []extension) (d deflation, on, ok bool) {
	reserved := want.window()
	d, on, ok = want.answeredBy(answer)
	if !on || !ok {
		z.giveBack(reserved)
		return deflation{}, false, ok
	}
	z.giveBack(reserved - d.window())
	return d, true, true
}

func (d deflation) answeredBy(answer []extension) (got deflation, on, ok bool) {
	if len(answer) == 0 {
		return d, false, true
	}
	if len(answer) > 1 || answer[0].name != deflateName {
		return d, false, false
	}
	p, ok := parseDeflate(answer[0].params, false)
	switch {
	case !ok,
		!d.inTakeover && !p.serverNoTakeover,                                       // section 7.1.1.1
		d.inBits < maxWindowBits && (p.serverBits == 0 || p.serverBits > d.inBits): // section 7.1.2.1
		return d, false, false
	}
	d.inTakeover = d.inTakeover && !p.serverNoTakeover
	d.outTakeover = d.outTakeover && !p.clientNoTakeover
	if p.serverBits != 0 {
		d.inBits = p.serverBits
	}
	if p.clientBits != 0 { // section 7.1.2.2: a server that allows more than was offered can also read less
		d.outBits = min(d.outBits, p.clientBits)
	}
	return d, true, true
}
