package sim_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// http1Pipelines: requests by HTTP/1.1 in a row, for functions on the loop and handlers on a pool that may be too small, from clients of which some end their
// side behind the last one.
func http1Pipelines(t *trial) {
	work := t.pool("work")
	s := &http1Server{t: t}
	t.allow(eddy.CloseNormal, eddy.CloseIncompleteRequest)
	marks := t.marks()
	marks.Max = 1 << 20
	srv := &eddy.Server{CloseOnEOF: t.once(4), Watermarks: marks, Pools: []*executor.Pool{work}}
	srv.Init = http1.NewHandler(http.HandlerFunc(s.serve), work, http1.Options{
		HeaderTimeout: -1, BodyTimeout: -1, IdleTimeout: -1, WriteTimeout: -1, OnLoop: s.onLoop,
	}).Init
	addr := t.listen(srv)
	t.disturb(&crowd{srv: srv, mild: true})
	t.relieve(srv)
	clients := make([]*http1Client, 1+t.n(10))
	for i := range clients {
		clients[i] = s.client(addr)
	}
	if t.load(8000) {
		t.finish()
	}
	if t.w.Err() != nil {
		return
	}
	for _, c := range clients {
		c.verdict(!srv.CloseOnEOF)
	}
}

// http1Server answers requests whose path says who sent them, and how long the answer is.
type http1Server struct {
	t       *trial
	clients []*http1Client
}

// answer notes that a request is served, and returns what answers it.
func (s *http1Server) answer(target string) []byte {
	var kind, client, id, size int
	if _, err := fmt.Sscanf(target, "/%d/%d/%d/%d", &kind, &client, &id, &size); err != nil || client >= len(s.clients) {
		s.t.w.Failf("a request for %s that nobody has sent: %v", target, err)
		return nil
	}
	c := s.clients[client]
	if id < c.served {
		s.t.w.Failf("%s: request %d is served behind request %d", c.name, id, c.served-1)
	}
	c.served = id + 1
	return streamAt(client, id, size)
}

func (s *http1Server) onLoop(w *http1.LoopResponse, r *http1.LoopRequest) bool {
	if target := string(r.Target()); target[1] == '0' {
		_, _ = w.Write(s.answer(target)) // never fails
		return true
	}
	return false
}

func (s *http1Server) serve(w http.ResponseWriter, r *http.Request) {
	b := s.answer(r.URL.Path)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // an error is the connection's, which the client judges
}

// http1Client sends requests in a row and compares the answers.
type http1Client struct {
	*client
	sizes  []int // of the answers
	ends   []int // where each request ends in what is sent
	served int   // requests up to the last one that was served
	part   []byte
	done   int
}

func (s *http1Server) client(addr netip.AddrPort) *http1Client {
	t := s.t
	c := &http1Client{}
	me := len(s.clients)
	s.clients = append(s.clients, c)
	var out []byte
	for id := range 1 + t.n(pick(t, 3, 20, 100)) {
		size := t.n(pick(t, 1, 20, 400))
		out = fmt.Appendf(out, "GET /%d/%d/%d/%d HTTP/1.1\r\nHost: a\r\n\r\n", t.n(2), me, id, size)
		c.sizes, c.ends = append(c.sizes, size), append(c.ends, len(out))
	}
	base := &client{out: out, most: -1, ending: pick(t, finAfterAll, finAfterAll, stay, closeEarly, resetEarly, finEarly, vanish)}
	base.take = func(p []byte) { c.answers(me, p) }
	c.client = t.join(addr, base)
	return c
}

// answers takes what came back.
func (c *http1Client) answers(me int, p []byte) {
	c.part = append(c.part, p...)
	for {
		head, rest, ok := bytes.Cut(c.part, []byte("\r\n\r\n"))
		if !ok {
			return
		}
		if c.done == len(c.sizes) {
			c.t.w.Failf("%s: an answer to no request: %.80q", c.name, c.part)
			return
		}
		size := c.sizes[c.done]
		refused := bytes.HasPrefix(head, []byte("HTTP/1.1 503 ")) // the pool is full
		if refused {
			size = lengthOf(head)
		}
		if !refused && !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) || lengthOf(head) != size {
			c.t.w.Failf("%s: the answer to request %d begins with %q", c.name, c.done, head)
			return
		}
		if len(rest) < size {
			return
		}
		if !refused {
			c.t.same(c.name, rest[:size], streamAt(me, c.done, size), c.done)
		}
		c.part = rest[size:]
		c.done++
	}
}

// lengthOf returns the Content-Length of a response, -1 if it has none.
func lengthOf(head []byte) int {
	_, after, _ := bytes.Cut(head, []byte("\r\nContent-Length: "))
	field, _, _ := bytes.Cut(after, []byte("\r\n"))
	n, err := strconv.Atoi(string(field))
	if err != nil {
		return -1
	}
	return n
}

// verdict checks what has come back to a client that was not cut off: all whole requests in front of its end have answers.
func (c *http1Client) verdict(halfClose bool) {
	l := c.t.lifeOf(c.client)
	counts := c.t.w.Counts()
	if l == nil || l.reason != eddy.ClosePeerClosed && counts[sim.TimeJump]+counts[sim.Stall] > 0 {
		return // it may have ended because its time was over
	}
	if !c.whole() || !c.eof || c.t.cut(c.client) || c.ended && !halfClose || l.reason == eddy.CloseOverload {
		return
	}
	if len(c.part) > 0 {
		c.t.w.Failf("%s (%v, %v): the connection ended in order inside an answer", c.name, l.reason, l.err)
	}
	for id, end := range c.ends {
		if end <= c.sent && id >= c.done && l.reason != eddy.CloseNormal {
			c.t.w.Failf("%s (%v): %d of %d requests were sent, %d served, %d answered", c.name, l.reason, id+1, len(c.ends), c.served, c.done)
			return
		}
	}
}
