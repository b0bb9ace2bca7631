package kubernetes

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// standIn answers as the API of Kubernetes is documented. It is no Kubernetes.
type standIn struct {
	mu      sync.Mutex
	slices  []string // those of a list, as JSON
	version int
	lists   int
	watches []string             // the versions that watches began at
	events  map[chan string]bool // of the watches that are open
	token   string
	odd     string // the answer to everything
	gone    bool   // every watch is answered 410
	ends    chan struct{}
}

func newStandIn(t *testing.T) *standIn {
	s := &standIn{events: map[chan string]bool{}, ends: make(chan struct{}), version: 100}
	t.Cleanup(func() { close(s.ends) })
	return s
}

func (s *standIn) serve(t *testing.T) string {
	srv := httptest.NewServer(s)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	q := req.URL.Query()
	switch {
	case s.token != "" && req.Header.Get("Authorization") != "Bearer "+s.token:
		s.mu.Unlock()
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"kind":"Status","code":401,"message":"Unauthorized"}`)
	case req.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices" || q.Get("labelSelector") != "kubernetes.io/service-name=greeter":
		s.mu.Unlock()
		http.NotFound(w, req)
	case s.odd != "":
		odd := s.odd
		s.mu.Unlock()
		_, _ = io.WriteString(w, odd)
	case q.Get("watch") == "":
		s.list(w, q.Get("continue"))
	case s.gone:
		s.mu.Unlock()
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, `{"kind":"Status","code":410,"message":"too old resource version"}`)
	default:
		s.watch(w, req, q.Get("resourceVersion"))
	}
}

// list answers one slice on each page. It unlocks.
func (s *standIn) list(w http.ResponseWriter, next string) {
	defer s.mu.Unlock()
	s.lists++
	at := 0
	_, _ = fmt.Sscan(next, &at)
	items, more := []json.RawMessage{}, ""
	if at < len(s.slices) {
		items = append(items, json.RawMessage(s.slices[at]))
	}
	if at+1 < len(s.slices) {
		more = fmt.Sprint(at + 1)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "EndpointSliceList", "metadata": map[string]any{"resourceVersion": fmt.Sprint(s.version), "continue": more}, "items": items})
}

// watch sends events until it is told to end. It unlocks.
func (s *standIn) watch(w http.ResponseWriter, req *http.Request, version string) {
	events := make(chan string, 2000)
	s.watches = append(s.watches, version)
	s.events[events] = true
	s.mu.Unlock()
	w.(http.Flusher).Flush()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			_, _ = io.WriteString(w, e+"\n")
			w.(http.Flusher).Flush()
		case <-req.Context().Done():
			s.do(func() { delete(s.events, events) })
			return
		case <-s.ends:
			return
		}
	}
}

func (s *standIn) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// send sends an event to the open watch; "" ends it.
func (s *standIn) send(t *testing.T, e string) {
	t.Helper()
	testkit.Eventually(t, "a watch", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.events) == 1 })
	s.broadcast(e)
}

// broadcast sends an event to whatever watches are open, those included whose client has just gone; "" ends them.
func (s *standIn) broadcast(e string) {
	s.do(func() {
		for c := range s.events {
			if e == "" {
				close(c)
				delete(s.events, c)
				continue
			}
			select {
			case c <- e:
			default:
			}
		}
	})
}

// sliceOf is an EndpointSlice as JSON.
func sliceOf(name string, version int, endpoints ...string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"%d"},"addressType":"IPv4","ports":[{"name":"rpc","port":20002},{"name":"http","port":80}],"endpoints":[%s]}`,
		name, version, strings.Join(endpoints, ","))
}

func ready(addr string) string {
	return fmt.Sprintf(`{"addresses":[%q],"conditions":{"ready":true}}`, addr)
}

func newCluster(t *testing.T, host string, change ...func(*Options)) *Cluster {
	t.Helper()
	o := Options{Host: host, Namespace: "default", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// watcher collects what a watch tells. It calls the watch again after an error, as clients do.
type watcher struct {
	mu    sync.Mutex
	last  []discovery.Instance
	tells int
	err   error
}

func follow(t *testing.T, r discovery.Resolver) *watcher {
	w := &watcher{}
	ctx, cancel := context.WithCancel(t.Context())
	var task sync.WaitGroup
	task.Go(func() {
		for ctx.Err() == nil {
			err := r.Watch(ctx, func(list []discovery.Instance) { w.mu.Lock(); w.last = list; w.tells++; w.mu.Unlock() })
			w.mu.Lock()
			w.err = err
			w.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		task.Wait()
	})
	return w
}

func (w *watcher) wants(t *testing.T, addrs ...string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%q", addrs), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		var got []string
		for _, i := range w.last {
			got = append(got, i.Addr)
		}
		return w.tells > 0 && slices.Equal(got, addrs)
	})
}

func (w *watcher) fails(t *testing.T, text string) {
	t.Helper()
	w.failsAfter(t, text, func() {})
}

// failsAfter does something until the watch has an error with text.
func (w *watcher) failsAfter(t *testing.T, text string, do func()) {
	t.Helper()
	testkit.Eventually(t, "an error with "+text, func() bool {
		do()
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.err != nil && strings.Contains(w.err.Error(), text)
	})
}

// TestListAndWatch: all pages are read, changes are followed from their version, and a watch that ends goes on from the last one, bookmarks included.
func TestListAndWatch(t *testing.T) {
	s := newStandIn(t)
	s.slices = []string{
		sliceOf("a", 1, `{"addresses":["10.0.0.1","10.9.9.9"],"zone":"z","nodeName":"n","targetRef":{"name":"p"}}`, `{"addresses":["10.0.0.2"],"conditions":{"ready":false}}`),
		sliceOf("b", 2, ready("2001:db8::1")),
	}
	w := follow(t, newCluster(t, s.serve(t)).Resolver("greeter", "rpc"))
	w.wants(t, "10.0.0.1:20002", "[2001:db8::1]:20002")
	if i := w.last[0]; i.Zone != "z" || i.Attributes["pod"] != "p" || i.Attributes["node"] != "n" {
		t.Errorf("%+v", i)
	}
	s.send(t, `{"type":"MODIFIED","object":`+sliceOf("a", 101, ready("10.0.0.2"))+`}`)
	w.wants(t, "10.0.0.2:20002", "[2001:db8::1]:20002")
	s.send(t, `{"type":"DELETED","object":`+sliceOf("b", 102)+`}`)
	w.wants(t, "10.0.0.2:20002")
	s.send(t, `{"type":"ADDED","object":`+sliceOf("c", 103, ready("10.0.0.3"))+`}`)
	w.wants(t, "10.0.0.2:20002", "10.0.0.3:20002")
	s.send(t, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"200"}}}`)
	s.send(t, "")
	s.send(t, `{"type":"DELETED","object":`+sliceOf("a", 201)+`}`)
	w.wants(t, "10.0.0.3:20002")
	s.do(func() {
		if !slices.Equal(s.watches, []string{"100", "200"}) || s.lists != 2 {
			t.Errorf("watches from %q, %d pages", s.watches, s.lists)
		}
	})
}

// TestGone: a version that Kubernetes does not have any more has everything read again, whether it says so at once or later.
func TestGone(t *testing.T) {
	s := newStandIn(t)
	s.slices = []string{sliceOf("a", 1, ready("10.0.0.1"))}
	w := follow(t, newCluster(t, s.serve(t)).Resolver("greeter", "rpc"))
	w.wants(t, "10.0.0.1:20002")
	s.do(func() { s.slices, s.version = []string{sliceOf("b", 1, ready("10.0.0.2"))}, 300 })
	s.send(t, `{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}`)
	w.wants(t, "10.0.0.2:20002")
	testkit.Eventually(t, "the next watch", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.watches) == 2 && len(s.events) == 1 })
	s.do(func() { s.gone, s.slices = true, []string{sliceOf("c", 1, ready("10.0.0.3"))} })
	s.send(t, "")
	w.wants(t, "10.0.0.3:20002")
}

// TestGarbage: what is none of Kubernetes's answers is an error, and the receiver keeps what it knows.
func TestGarbage(t *testing.T) {
	s := newStandIn(t)
	s.slices = []string{sliceOf("a", 1, ready("10.0.0.1"))}
	w := follow(t, newCluster(t, s.serve(t)).Resolver("greeter", "rpc"))
	w.wants(t, "10.0.0.1:20002")
	for e, want := range map[string]string{
		`{`:                            "an event of greeter: unexpected end",
		`{"type":"ADDED","object":7}`:  "cannot unmarshal",
		`{"type":"NEW","object":{}}`:   `of the type "NEW"`,
		`{"type":"ADDED","object":{}}`: "without a version",
		`{"type":"ERROR","object":{"code":500,"message":"etcd is away"}}`: "status 500: etcd is away",
		`{"x":"` + strings.Repeat("x", maxEvent) + `"}`:                   "token too long",
	} {
		w.failsAfter(t, want, func() { s.broadcast(e) })
		w.wants(t, "10.0.0.1:20002")
	}
	for odd, want := range map[string]string{"<html>": "invalid character", "{}": "without items", `{"items":[{"endpoints":7}]}`: "cannot unmarshal"} {
		s.do(func() { s.odd = odd })
		w.failsAfter(t, want, func() { s.broadcast("") })
		s.do(func() { s.odd = "" })
		w.wants(t, "10.0.0.1:20002")
	}
}

// TestPorts: the only port needs no name. A port that is not there is an error that has the others, and not an empty answer.
func TestPorts(t *testing.T) {
	s := newStandIn(t)
	s.slices = []string{`{"metadata":{"name":"a"},"ports":[{"port":7}],"endpoints":[` + ready("a") + `,{"addresses":[]}]}`}
	c := newCluster(t, s.serve(t))
	follow(t, c.Resolver("greeter", "")).wants(t, "a:7")
	follow(t, c.Resolver("greeter", "rpc")).fails(t, `has no port "rpc", but [""]`)
	follow(t, c.Resolver("other", "rpc")).fails(t, "status 404")
	if err := c.Resolver("No Name", "").Watch(t.Context(), nil); err == nil || !strings.Contains(err.Error(), `"No Name"`) {
		t.Error(err)
	}
}

// TestToken: the token is read again for each request.
func TestToken(t *testing.T) {
	s := newStandIn(t)
	s.token = "one"
	s.slices = []string{sliceOf("a", 1, ready("10.0.0.1"))}
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	w := follow(t, newCluster(t, s.serve(t), func(o *Options) { o.TokenFile = file }).Resolver("greeter", "rpc"))
	w.wants(t, "10.0.0.1:20002")
	s.do(func() { s.token, s.slices = "two", []string{sliceOf("a", 1, ready("10.0.0.2"))} })
	w.failsAfter(t, "status 401: Unauthorized", func() { s.broadcast("") })
	write("two")
	w.wants(t, "10.0.0.2:20002")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	w.failsAfter(t, "Options.TokenFile", func() { s.broadcast("") })
}

// TestCertificates: the API's certificate is checked by the file.
func TestCertificates(t *testing.T) {
	s := newStandIn(t)
	s.slices = []string{sliceOf("a", 1, ready("10.0.0.1"))}
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	follow(t, newCluster(t, srv.URL, func(o *Options) { o.CAFile = file }).Resolver("greeter", "rpc")).wants(t, "10.0.0.1:20002")
	follow(t, newCluster(t, srv.URL).Resolver("greeter", "rpc")).fails(t, "certificate")
}

// TestFlapping: a thousand endpoints that come and go are told as they are in the end, in few answers.
func TestFlapping(t *testing.T) {
	s := newStandIn(t)
	s.slices = []string{sliceOf("a", 1, ready("10.0.0.1"))}
	w := follow(t, newCluster(t, s.serve(t)).Resolver("greeter", "rpc"))
	w.wants(t, "10.0.0.1:20002")
	for i := range 1000 {
		s.send(t, fmt.Sprintf(`{"type":"ADDED","object":%s}`, sliceOf("b", 200+i, ready(fmt.Sprintf("10.0.1.%d", i%250)))))
	}
	s.send(t, `{"type":"DELETED","object":`+sliceOf("b", 2000)+`}`)
	s.send(t, `{"type":"ADDED","object":`+sliceOf("c", 2001, ready("10.0.0.2"))+`}`)
	w.wants(t, "10.0.0.1:20002", "10.0.0.2:20002")
	if w.mu.Lock(); w.tells > 500 {
		t.Errorf("%d answers for 1,003 changes", w.tells)
	}
	w.mu.Unlock()
}

// TestClose: Close ends watches that wait, and those of later.
func TestClose(t *testing.T) {
	s := newStandIn(t)
	c := newCluster(t, s.serve(t))
	w := follow(t, c.Resolver("greeter", "rpc"))
	w.wants(t)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	w.fails(t, discovery.ErrClosed.Error())
	if err := c.Resolver("greeter", "rpc").Watch(t.Context(), nil); !errors.Is(err, discovery.ErrClosed) {
		t.Error(err)
	}
}

// TestOptions: what makes no sense is refused, and the error names it.
func TestOptions(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"this is no pod":        {Namespace: "default"},
		`Host is "ftp://a"`:     {Host: "ftp://a", Namespace: "default"},
		`Namespace is "a/b"`:    {Host: "http://a", Namespace: "a/b"},
		"has no certificate":    {Host: "https://a", Namespace: "default", CAFile: empty},
		"no such file":          {Host: "https://a", Namespace: "default", CAFile: empty + "x"},
		"the pod's is not know": {Host: "https://a"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	o, err := Options{Namespace: "default"}.inPod()
	if err != nil || o.Host != "https://10.0.0.1:443" || o.TokenFile != account+"token" || o.CAFile != account+"ca.crt" {
		t.Errorf("%+v, %v", o, err)
	}
}
