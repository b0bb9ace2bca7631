package bus

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/bus/bustest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heard is what a bus has taken.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) take(topic string, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, topic+" "+string(data))
}

func (h *heard) has(what ...string) func() bool {
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Equal(h.all, what)
	}
}

func key(fill byte) []byte { return bytes.Repeat([]byte{fill}, 32) }

// join opens a bus that is up and hears.
func join(t *testing.T, o Options) (*Bus, *heard) {
	t.Helper()
	if o.Key == nil {
		o.Key = key(1)
	}
	if o.Room == "" {
		o.Room = "desk"
	}
	o.Logger = slog.New(slog.DiscardHandler)
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	h := new(heard)
	if err := b.Join(h.take); err != nil {
		t.Fatal(err)
	}
	return b, h
}

func up(t *testing.T, all ...*Bus) {
	t.Helper()
	for _, b := range all {
		testkit.Eventually(t, "the bus to be up", b.Up)
	}
}

func send(t *testing.T, b *Bus, topic, data string) {
	t.Helper()
	if err := b.Send(topic, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

// flush waits until NATS has what was sent.
func flush(t *testing.T, all ...*Bus) {
	t.Helper()
	for _, b := range all {
		if err := b.conn.FlushTimeout(testkit.Patience); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBus: what one server sends, the others of the same Desk hear once, and nobody else reads it.
func TestBus(t *testing.T) {
	s := bustest.Start(t, nil)
	one, own := join(t, Options{URL: s.URL()})
	two, to := join(t, Options{URL: s.URL()})
	three, tooTo := join(t, Options{URL: s.URL()})
	elsewhere, silent := join(t, Options{URL: s.URL(), Room: "other"})
	stranger, strange := join(t, Options{URL: s.URL(), Key: key(2)})
	up(t, one, two, three, elsewhere, stranger)
	flush(t, one, two, three, elsewhere, stranger) // they are subscribed
	raw := make(chan *nats.Msg, 10)
	eve, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(eve.Close)
	if _, err := eve.ChanSubscribe(">", raw); err != nil {
		t.Fatal(err)
	}
	if err := eve.Flush(); err != nil {
		t.Fatal(err)
	}

	send(t, one, "conv.1", "hello secret")
	testkit.Eventually(t, "the others to hear it", to.has("conv.1 hello secret"))
	testkit.Eventually(t, "the third to hear it", tooTo.has("conv.1 hello secret"))
	testkit.Eventually(t, "the stranger to refuse it", func() bool { return stranger.Stats().Refused == 1 })
	m := <-raw
	if bytes.Contains(m.Data, []byte("secret")) {
		t.Error("NATS has the message in clear text")
	}

	damaged := bytes.Clone(m.Data)
	damaged[len(damaged)-1] ^= 1
	for subject, data := range map[string][]byte{"conv.2": m.Data, "conv.1": damaged, "feed": []byte("x"), "conv.3": nil} { // replayed elsewhere, changed, short, empty
		if err := eve.Publish("eddy.desk."+subject, data); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "what was forged to be refused", func() bool { return two.Stats().Refused == 4 })
	send(t, two, "feed", "")
	testkit.Eventually(t, "the answer", own.has("feed "))
	if !to.has("conv.1 hello secret")() || !silent.has()() || !strange.has()() {
		t.Errorf("heard: %q, of another Desk %q, with another key %q", to.all, silent.all, strange.all)
	}
	const sealed = 24 + 16 // bytes
	if got := one.Stats(); got.Sent != 1 || got.SentOf != uint64(len("hello secret"))+sealed || got.Heard != 1 || got.HeardOf != sealed || got.Failed != 0 || got.Connects != 1 {
		t.Errorf("the first server counts %+v", got)
	}
}

// TestBusAway: without NATS a server begins, and sends nothing. When NATS comes back, both hear each other, but nothing of before.
func TestBusAway(t *testing.T) {
	s := bustest.Start(t, nil)
	s.End()
	one, _ := join(t, Options{URL: s.URL()})
	two, to := join(t, Options{URL: s.URL()})
	testkit.Eventually(t, "an attempt to connect", func() bool { ok, _ := two.failures.Allow(logEvery); return !ok })
	if err := one.Send("feed", []byte("too early")); !errors.Is(err, ErrDown) || one.Up() {
		t.Fatalf("without NATS: %v, up %v", err, one.Up())
	}
	for range 2 {
		s.Begin()
		up(t, one, two)
		before := two.Stats().Heard
		testkit.Eventually(t, "the other one to hear", func() bool {
			_ = one.Send("feed", []byte("now")) // perhaps before the other one has subscribed again
			return two.Stats().Heard > before
		})
		flush(t, one, two)
		s.End()
		testkit.Eventually(t, "the end to be noticed", func() bool { return !one.Up() && !two.Up() })
		for range 100 {
			if err := one.Send("feed", []byte("lost")); err == nil {
				t.Fatal("a message was taken while NATS was gone")
			}
		}
		to.mu.Lock()
		if slices.Contains(to.all, "feed lost") || slices.Contains(to.all, "feed too early") {
			t.Errorf("heard %q", to.all)
		}
		to.mu.Unlock()
	}
	if got := one.Stats(); got.Connects != 2 || got.Failed < 201 {
		t.Errorf("the first server counts %+v", got)
	}
}

// TestBusLimits: a message that NATS does not take is refused, and who takes too slowly loses messages, which is counted.
func TestBusLimits(t *testing.T) {
	s := bustest.Start(t, func(o *server.Options) { o.MaxPayload = 4096 })
	one, _ := join(t, Options{URL: s.URL()})
	up(t, one)
	if err := one.Send("feed", make([]byte, 4096)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("a message over the limit of NATS: %v", err)
	}
	slow, err := Open(Options{URL: s.URL(), Room: "desk", Key: key(1), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slow.Close)
	hold := make(chan struct{})
	if err := slow.Join(func(string, []byte) { <-hold }); err != nil {
		t.Fatal(err)
	}
	up(t, slow)
	flush(t, slow)
	for range maxWaiting + 100 {
		send(t, one, "feed", "x")
	}
	flush(t, one)
	testkit.Eventually(t, "messages to be dropped", func() bool { return slow.Stats().Dropped > 0 })
	close(hold)
	testkit.Eventually(t, "the others to be taken", func() bool { return slow.Stats().Heard >= maxWaiting-1 })
}

// TestBusRefused: a wrong password is told, never shown, and tried again, because it may be put right at NATS.
func TestBusRefused(t *testing.T) {
	s := bustest.Start(t, func(o *server.Options) { o.Username, o.Password = "desk", "right" })
	var log testkit.Output
	b, err := Open(Options{URL: s.User("desk", "wrongpassword"), Room: "desk", Key: key(1), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	testkit.Eventually(t, "the refusal to be told", func() bool { return strings.Contains(log.String(), "uthorization") })
	if b.Up() || strings.Contains(log.String(), "wrongpassword") {
		t.Errorf("up %v, log %s", b.Up(), log.String())
	}
	s.End()
	s.Change(func(o *server.Options) { o.Password = "wrongpassword" })
	s.Begin()
	up(t, b)
}

func TestCheckURL(t *testing.T) {
	seed := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(seed, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"":                                "",
		"nats://db.example":               "",
		"nats://u:p@a:4222, tls://b:4222": "",
		"nats://a?creds=/x&ca=/y":         "",
		"nats://a?cert=/x&key=/y":         "",
		"http://a":                        `begins with "http://"`,
		"a:4222":                          "begins with",
		"nats://":                         "no host",
		"nats://a/b":                      "something behind it",
		"nats://a:secret@b:x":             "is no address",
		"nats://a?cert=/x":                "needs both",
		"nats://a?ca=":                    "1 values of ca",
		"nats://a?ca=/x,nats://b?ca=/y":   "2 values of ca",
		"nats://a?colour=red":             `asks for "colour"`,
		"nats://a?nkey=" + seed:           "the seed of the bus",
		strings.Repeat("nats://a,", 16) + "nats://a": "names 17 servers",
	} {
		err := CheckURL(address)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is shown: %v", err)
		}
	}
	if got := Place("nats://u:secret@a:4222, tls://t@b?ca=/x"); got != "nats://a:4222,tls://b" {
		t.Errorf("the place is %q", got)
	}
	if _, err := Open(Options{URL: "nats://a", Room: "desk", Key: []byte("short")}); err == nil {
		t.Error("a short key was taken")
	}
	if _, err := Open(Options{URL: "nats://a?ca=/no/such/file", Room: "desk", Key: key(1)}); err == nil {
		t.Error("a missing file was taken")
	}
}
