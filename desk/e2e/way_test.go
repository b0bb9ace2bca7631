package e2e

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// middlebox is a proxy in front of a desk that breaks WebSockets.
type middlebox struct {
	*httptest.Server
	upgrades, polls atomic.Int64
	end             chan struct{}
}

// refusing answers an upgrade with a status and passes nothing on.
func refusing(status int) func(*middlebox, http.ResponseWriter, *http.Request) {
	return func(_ *middlebox, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// swallowing says yes to an upgrade, and passes no byte in either direction.
func swallowing(m *middlebox, w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: im.v1.json\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
	select {
	case <-gone:
	case <-m.end:
		_ = conn.Close()
		<-gone
	}
}

// newMiddlebox starts a proxy in front of d, and returns it with the desk as its clients see it.
func newMiddlebox(t *testing.T, d *desk, upgrade func(*middlebox, http.ResponseWriter, *http.Request)) (*middlebox, *desk) {
	t.Helper()
	target, err := url.Parse(d.url(""))
	if err != nil {
		t.Fatal(err)
	}
	own := &http.Transport{MaxIdleConnsPerHost: 100}
	through := &httputil.ReverseProxy{Transport: own, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	through.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	m := &middlebox{end: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			m.upgrades.Add(1)
			upgrade(m, w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/v1/poll") {
			m.polls.Add(1)
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(m.end)
		m.CloseClientConnections()
		m.Close()
		own.CloseIdleConnections()
	})
	behind := *d
	behind.addr = strings.TrimPrefix(m.URL, "http://")
	return m, &behind
}

// TestChatBehindProxyThatBreaksWebSockets: the customer's page and the console fall back by themselves, both directions work, no
// message is lost or shown twice when the proxy cuts its connections and when the server starts again, and a reload stays with
// what has worked.
func TestChatBehindProxyThatBreaksWebSockets(t *testing.T) {
	for name, upgrade := range map[string]func(*middlebox, http.ResponseWriter, *http.Request){
		"400": refusing(http.StatusBadRequest), "200": refusing(http.StatusOK), "accepts and passes nothing": swallowing,
	} {
		t.Run(name, func(t *testing.T) {
			b := startBrowser(t, "en")
			d := newDesk(t)
			m, behind := newMiddlebox(t, d, upgrade)
			customer, agent := meet(t, behind, b)
			var sent, answered []string
			talk := func(n int) {
				t.Helper()
				for i := range 3 {
					text, reply := fmt.Sprintf("question %d %d", n, i), fmt.Sprintf("answer %d %d", n, i)
					sent, answered = append(sent, text), append(answered, reply)
					customer.send(text)
					agent.send(reply)
				}
				for _, text := range []string{sent[len(sent)-1], answered[len(answered)-1]} {
					for _, p := range []*tab{customer, agent} {
						p.until("it comes to both", messagesOf+fmt.Sprintf(`.some((m) => m.Text === %q && m.State !== 'pending')`, text))
					}
				}
			}
			talk(1)
			m.CloseClientConnections()
			talk(2)
			d.stop()
			d.start()
			hurry(customer)
			hurry(agent)
			talk(3)
			before := m.upgrades.Load()
			customer.reload()
			customer.until("the chat is back", messagesOf+fmt.Sprintf(`.some((m) => m.Text === %q)`, answered[len(answered)-1]))
			customer.send("after the reload")
			customer.until("it is acknowledged", accepted("after the reload"))
			agent.until("it comes", messagesOf+`.some((m) => m.Text === 'after the reload')`)
			ownInOrder(t, customer, append(sent, "after the reload"))
			ownInOrder(t, agent, answered)
			sameStory(t, customer, agent)
			if m.upgrades.Load() > before+2 { // each page looks for a WebSocket once, soon after it has begun with polls
				t.Errorf("%d upgrades after the reload", m.upgrades.Load()-before)
			}
			if m.polls.Load() == 0 || m.upgrades.Load() == 0 {
				t.Errorf("%d upgrades and %d polls", m.upgrades.Load(), m.polls.Load())
			}
		})
	}
}

// TestPageReturnsToWebSocket: where a WebSocket has a way again, the page takes it by itself, without a word to the reader.
func TestPageReturnsToWebSocket(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	var broken atomic.Bool
	broken.Store(true)
	var sockets atomic.Int64
	target, err := url.Parse(d.url(""))
	if err != nil {
		t.Fatal(err)
	}
	own := &http.Transport{}
	pass := &httputil.ReverseProxy{Transport: own, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	m, behind := newMiddlebox(t, d, func(_ *middlebox, w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		sockets.Add(1)
		pass.ServeHTTP(w, r)
	})
	t.Cleanup(own.CloseIdleConnections)
	customer := b.open("customer", phone, 740, behind.url("/chat/demo"))
	customer.until("the page is connected", `document.querySelector('[data-testid="banner"]').hidden`)
	customer.send("by polls")
	customer.until("it is acknowledged", accepted("by polls"))
	if m.polls.Load() == 0 {
		t.Error("no polls")
	}
	broken.Store(false)
	d.eventually("the page looks for a WebSocket and takes it", func() bool { return sockets.Load() >= 2 })
	customer.send("by a WebSocket")
	customer.until("it is acknowledged", accepted("by a WebSocket"))
	before := m.polls.Load()
	customer.send("still")
	customer.until("it is acknowledged", accepted("still"))
	if n := m.polls.Load() - before; n > 1 { // the last one may end late
		t.Errorf("%d polls beside the WebSocket", n)
	}
}
