package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/serving"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/metrics"
)

// httpFlags are the flags of "eddy serve http".
type httpFlags struct {
	serving.Flags
	workers, queue, parked              int
	adaptive                            bool
	maxBody                             int64
	maxHeader, maxFields, maxRequests   int
	headerTimeout, bodyTimeout          time.Duration
	idleTimeout, writeTimeout, handling time.Duration
}

func newHTTP(t *cli.Terminal) *cobra.Command {
	var f httpFlags
	cmd := &cobra.Command{
		Use:   "http",
		Short: "A small HTTP server: greets, echoes, streams, hashes and waits",
		Long: `A small server of HTTP/1.1 and HTTP/2 for trying clients and checking conformance. With TLS the client chooses the version by
ALPN, otherwise by its first bytes:

  /            GET, HEAD and OPTIONS are answered "OK"; POST sends the body back
  /echo        the header fields of the request, one "Name: value" per line
  /cookie      the cookies of the request, one "name=value" per line
  /bytes?n=    n bytes, streamed
  /upload      the SHA-256 of the body of a POST or PUT, computed while it arrives
  /slow?ms=    "OK" after this many milliseconds, at most 60000, during which a worker is busy
  /events?ms=  a server-sent event every so many milliseconds, at least 10, without a worker`,
		Example: "  eddy serve http --addr 127.0.0.1:7000\n  curl -d hello http://127.0.0.1:7000/",
		RunE:    func(*cobra.Command, []string) error { return serveHTTP(t, f) },
	}
	f.Register(cmd, cli.ServeAddr)
	f.RegisterPerIP(cmd)
	f.RegisterOverload(cmd)
	n := cmd.Flags()
	n.IntVar(&f.workers, "workers", 64, "requests handled at a time")
	n.IntVar(&f.queue, "queue", 1024, "requests that wait for a worker; beyond it the answer is 503")
	n.BoolVar(&f.adaptive, "adaptive", false, "the pool finds by itself how many of its workers to use, and refuses by class what it cannot serve in time")
	n.IntVar(&f.parked, "parked", executor.DefaultParked, "requests that wait for slow clients beside the workers, a quarter for one address; beyond it the answer is 503")
	n.Int64Var(&f.maxBody, "max-body", 8<<20, "longest request body in bytes; beyond it the answer is 413")
	n.IntVar(&f.maxHeader, "max-header", 32<<10, "longest header section in bytes; beyond it the answer is 431")
	n.IntVar(&f.maxFields, "max-fields", 100, "most header fields; beyond it the answer is 431")
	n.IntVar(&f.maxRequests, "max-requests", 0, "requests on one connection of HTTP/1.1; 0 = no limit")
	n.DurationVar(&f.headerTimeout, "header-timeout", 10*time.Second, "for a request's header; beyond it the answer is 408")
	n.DurationVar(&f.bodyTimeout, "body-timeout", time.Minute, "for a request's body; beyond it the answer is 408")
	n.DurationVar(&f.idleTimeout, "idle-timeout", 2*time.Minute, "without a request")
	n.DurationVar(&f.writeTimeout, "write-timeout", time.Minute, "for a client that reads nothing of its response")
	n.DurationVar(&f.handling, "handler-timeout", 0, "for the response to a request; beyond it the answer is 503; 0 = no limit")
	return cmd
}

func (f *httpFlags) options() http1.Options {
	return http1.Options{
		MaxBody: f.maxBody, MaxHeaderBytes: f.maxHeader, MaxHeaderCount: f.maxFields, MaxRequests: f.maxRequests,
		HeaderTimeout: f.headerTimeout, BodyTimeout: f.bodyTimeout, IdleTimeout: f.idleTimeout, WriteTimeout: f.writeTimeout,
	}
}

func (f *httpFlags) options2() http2.Options {
	return http2.Options{
		MaxBody: f.maxBody, MaxHeaderBytes: f.maxHeader, MaxHeaderCount: f.maxFields,
		HeaderTimeout: f.headerTimeout, BodyTimeout: f.bodyTimeout, IdleTimeout: f.idleTimeout, WriteTimeout: f.writeTimeout,
	}
}

// check reports the first flag whose value makes no sense.
func (f *httpFlags) check() error {
	for _, n := range []struct {
		name        string
		value       int64
		least, most int64
	}{
		{"workers", int64(f.workers), 1, 100_000}, {"queue", int64(f.queue), 1, 1 << 20}, {"parked", int64(f.parked), 1, 1 << 20}, {"max-body", f.maxBody, 1, 1 << 50},
		{"max-header", int64(f.maxHeader), 1, 1 << 20}, {"max-fields", int64(f.maxFields), 1, 1 << 16}, {"max-requests", int64(f.maxRequests), 0, 1 << 30},
	} {
		if n.value < n.least || n.value > n.most {
			return fmt.Errorf("--%s %d is out of range: use %d to %d", n.name, n.value, n.least, n.most)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"header-timeout", f.headerTimeout}, {"body-timeout", f.bodyTimeout}, {"idle-timeout", f.idleTimeout}, {"write-timeout", f.writeTimeout},
	} {
		if d.value <= 0 {
			return fmt.Errorf("--%s %v is not positive: use a duration such as 10s", d.name, d.value)
		}
	}
	if f.handling < 0 {
		return fmt.Errorf("--handler-timeout %v is negative: use 0 for no limit", f.handling)
	}
	return f.Flags.Check()
}

func serveHTTP(t *cli.Terminal, f httpFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: f.workers, Queue: f.queue, Parked: f.parked, Adaptive: adaptive(f.Adaptive(f.adaptive)), Dumper: f.Dumper})
	if err != nil {
		return err
	}
	defer pool.Close()
	f.AnswerWithin = f.handling
	site := http1.NewHandler(http.HandlerFunc(exampleSite), pool, f.options())
	f.Busy = site.Refuse
	site2 := http2.NewHandler(http.HandlerFunc(exampleSite), pool, f.options2())
	f.Measured = append(f.Measured, metrics.HTTP("http", site), metrics.HTTP2("http2", site2))
	f.ALPN = map[string]func(*eddy.Pipeline) error{"h2": site2.Init, "http/1.1": site.Init, "": site.Init}
	return serve(t, f.Flags, "http", http2.Either(site.Init, site2.Init), pool)
}

// exampleSite is what "eddy serve http" serves.
func exampleSite(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/":
		root(w, r)
	case "/echo":
		echoHeader(w, r)
	case "/cookie":
		echoCookies(w, r)
	case "/bytes":
		sendBytes(w, r)
	case "/upload":
		hashUpload(w, r)
	case "/slow":
		answerSlowly(w, r)
	case "/events":
		sendEvents(w, r)
	default:
		if allow(w, r, knownMethods...) {
			http.NotFound(w, r)
		}
	}
}

var knownMethods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"} //nolint:gochecknoglobals // a table, never written

// allow reports whether the method of the request is among methods. If it is not, allow answers 405 to a known method
// and 501 to an unknown one.
func allow(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	switch {
	case slices.Contains(methods, r.Method):
		return true
	case !slices.Contains(knownMethods, r.Method):
		http.Error(w, "unknown method", http.StatusNotImplemented)
	default:
		w.Header().Set("Allow", strings.Join(methods, ", "))
		http.Error(w, "this resource does not have this method", http.StatusMethodNotAllowed)
	}
	return false
}

func root(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r, "GET", "HEAD", "OPTIONS", "POST") {
		return
	}
	switch r.Method {
	case http.MethodPost:
		kind := r.Header.Get("Content-Type")
		if kind == "" {
			kind = "application/octet-stream"
		}
		w.Header().Set("Content-Type", kind)
		_, _ = io.Copy(w, r.Body) // an error ends the connection, and the server counts it
		return
	case http.MethodOptions:
		w.Header().Set("Allow", "GET, HEAD, OPTIONS, POST")
	}
	plainText(w)
	_, _ = io.WriteString(w, "OK")
}

func plainText(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
}

func echoHeader(w http.ResponseWriter, r *http.Request) {
	plainText(w)
	lines := []string{"Host: " + r.Host}
	for name, values := range r.Header {
		for _, v := range values {
			lines = append(lines, name+": "+v)
		}
	}
	for _, coding := range r.TransferEncoding { // net/http keeps it apart from the other fields
		lines = append(lines, "Transfer-Encoding: "+coding)
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(fieldName(a), fieldName(b)) })
	_, _ = io.WriteString(w, strings.Join(lines, "\n")+"\n")
}

func fieldName(line string) string {
	name, _, _ := strings.Cut(line, ":")
	return name
}

func echoCookies(w http.ResponseWriter, r *http.Request) {
	plainText(w)
	for _, c := range r.Cookies() {
		_, _ = fmt.Fprintf(w, "%s=%s\n", c.Name, c.Value)
	}
}

// maxBytes bounds /bytes: a terabyte.
const maxBytes = 1 << 40

func sendBytes(w http.ResponseWriter, r *http.Request) {
	n, err := number(r, "n", maxBytes)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = io.CopyN(w, new(digits), n) // an error ends the connection, and the server counts it
}

// digits reads as 0 to 9, again and again.
type digits struct{ at int }

const tenDigits = "0123456789"

var manyDigits = strings.Repeat(tenDigits, 3300) //nolint:gochecknoglobals // a table, never written

func (d *digits) Read(p []byte) (int, error) {
	n := copy(p, manyDigits[d.at:])
	d.at = (d.at + n) % len(tenDigits)
	return n, nil
}

// number returns the query parameter of this name, which must be from 0 to most.
func number(r *http.Request, name string, most int64) (int64, error) {
	text := r.URL.Query().Get(name)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s=%q is not a number from 0 to %d", name, text, most)
	}
	return n, nil
}

func hashUpload(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r, "POST", "PUT") {
		return
	}
	h := sha256.New()
	if _, err := io.Copy(h, r.Body); err != nil {
		http.Error(w, "the body did not arrive", http.StatusBadRequest)
		return
	}
	plainText(w)
	_, _ = io.WriteString(w, hex.EncodeToString(h.Sum(nil))+"\n")
}

// maxWait bounds /slow.
const maxWait = 60_000

func answerSlowly(w http.ResponseWriter, r *http.Request) {
	ms, err := number(r, "ms", maxWait)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		plainText(w)
		_, _ = io.WriteString(w, "OK")
	case <-r.Context().Done(): // nobody waits any more
	}
}

// leastPause is the shortest time between two events of /events, in ms.
const leastPause = 10

func sendEvents(w http.ResponseWriter, r *http.Request) {
	ms, err := number(r, "ms", maxWait)
	if err == nil && ms < leastPause {
		err = fmt.Errorf("ms=%d: at least %d", ms, leastPause)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	ticker := time.NewTicker(time.Duration(ms) * time.Millisecond)
	defer ticker.Stop()
	for i := 1; ; i++ {
		if _, err := fmt.Fprintf(w, "data: %d\n\n", i); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done(): // nobody listens any more
			return
		}
	}
}
