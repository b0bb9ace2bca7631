package house

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/admin"
	"github.com/go-eddy/eddy/codec/delimiter"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/codec/lengthfield"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/metrics"
	"github.com/go-eddy/eddy/overload"
	"github.com/go-eddy/eddy/relay"
	"github.com/go-eddy/eddy/responder"
	"github.com/go-eddy/eddy/ring"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/balance/httpbalance"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/kubernetes"
	"github.com/go-eddy/eddy/rpc/discovery/nacos"
	"github.com/go-eddy/eddy/tlsx"
	"github.com/go-eddy/eddy/trace"
	"github.com/go-eddy/eddy/websocket"
)

// Structs with options whose name does not end in Options, by the package's directory.
var otherOptions = map[string][]string{
	"":         {"Server", "Dialer", "Group", "Admission", "Placement", "Watermarks", "Deadlines", "MessageClass"},
	"executor": {"Adaptive", "Lane"},
	"http1":    {"Transport"},
	"overload": {"Thresholds"},
	"http2":    {"Transport"},
	"rpc":      {"Backoff"},

	"rpc/balance": {"Attempts", "Ejection", "Trip"},
}

// optionsOf is a struct with options: a valid value, and a function that checks another value.
type optionsOf struct {
	name string
	good any // a pointer
	try  func(any) error
}

// check makes an optionsOf. try gets a copy.
func check[T any](name string, good T, try func(*T) error) optionsOf {
	return optionsOf{name, &good, func(o any) error { return try(o.(*T)) }}
}

// noError is for options without a check. Invalid values are taken for the default or for none, or are reported at
// their use.
func noError[T any](name string) optionsOf { return optionsOf{name: name, good: new(T)} }

func server(s *eddy.Server) error {
	s.Init = func(*eddy.Pipeline) error { return nil }
	if err := s.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	return s.Close()
}

// dialled ignores errors because there is no listener, or because the call was given up.
func dialled(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return err
}

// allOptions lists the options of every package that programs use. An error about an invalid field names the field.
func allOptions(t *testing.T) []optionsOf {
	pool, err := executor.NewFixed(executor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	cert, err := tlsx.SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	client := func(o *rpc.ClientOptions) error {
		o.Addrs = []string{"127.0.0.1:1"}
		c, err := rpc.NewClient(*o)
		if err != nil {
			return err
		}
		return c.Close()
	}
	balancer := func(o *balance.Options) error {
		_, err := balance.New(*o)
		return err
	}
	port := func(o *rpc.PortOptions) error {
		o.Name, o.Addr = "p", "127.0.0.1:0"
		s, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{*o}})
		if err != nil {
			return err
		}
		return s.Close()
	}
	return []optionsOf{
		check("eddy.Server", eddy.Server{}, server),
		check("eddy.Admission", eddy.Admission{Rate: 1}, func(a *eddy.Admission) error { return server(&eddy.Server{Admission: *a}) }),
		check("eddy.Placement", eddy.Placement{Choose: eddy.PlaceByKey(nil)}, func(p *eddy.Placement) error { return server(&eddy.Server{Placement: *p}) }),
		check("eddy.Watermarks", eddy.Watermarks{}, func(w *eddy.Watermarks) error { return server(&eddy.Server{Watermarks: *w}) }),
		check("eddy.Dialer", eddy.Dialer{}, func(d *eddy.Dialer) error {
			d.Init = func(*eddy.Pipeline) error { return nil }
			defer d.Close()
			_, err := d.Dial(ended, "tcp", "127.0.0.1:1")
			return dialled(err)
		}),
		check("eddy.Group", eddy.Group{WaitMode: eddy.WaitPinned}, func(g *eddy.Group) error {
			if err := g.Start(); err != nil {
				return err
			}
			return g.Close()
		}),
		check("responder.Options", responder.Options[int]{Pool: pool}, func(o *responder.Options[int]) error {
			o.Run = func(context.Context, int) (any, error) { return nil, nil }
			o.Answer = func(int, any, error) any { return nil }
			_, err := responder.New(*o)
			return err
		}),
		check("trace.Options", trace.Options{}, func(o *trace.Options) error {
			_, err := trace.New(*o)
			return err
		}),
		noError[eddy.Deadlines]("eddy.Deadlines"),
		noError[eddy.MessageClass]("eddy.MessageClass"),
		noError[eddy.DialOptions]("eddy.DialOptions"),
		check("executor.Options", executor.Options{}, func(o *executor.Options) error {
			p, err := executor.NewFixed(*o)
			if err == nil {
				p.Close()
			}
			return err
		}),
		check("executor.Adaptive", executor.Adaptive{}, func(a *executor.Adaptive) error {
			p, err := executor.NewFixed(executor.Options{Adaptive: a})
			if err == nil {
				p.Close()
			}
			return err
		}),
		check("overload.Options", overload.Options{}, func(o *overload.Options) error {
			o.Servers = []*eddy.Server{{}}
			m, err := overload.New(*o)
			if err == nil {
				m.Close()
			}
			return err
		}),
		noError[overload.Thresholds]("overload.Thresholds"),
		check("limit.Options", limit.Options{Max: 1}, func(o *limit.Options) error {
			_, err := limit.NewConcurrency(*o)
			return err
		}),
		check("executor.Lane", executor.Lane{}, func(l *executor.Lane) error {
			_, err := executor.NewLanes(executor.LanesOptions[int, int]{Lanes: []executor.Lane{*l}, Run: func(int, *int, *int) {}, Wake: func() error { return nil }})
			return err
		}),
		noError[executor.LanesOptions[int, int]]("executor.LanesOptions"),
		check("ring.SpillOptions", ring.SpillOptions{}, func(o *ring.SpillOptions) error {
			o.Dir = t.TempDir()
			s, err := ring.OpenSpill(*o)
			if err != nil {
				return err
			}
			return s.Close()
		}),
		check("codec/delimiter.Options", delimiter.Options{}, func(o *delimiter.Options) error {
			o.Delimiters = [][]byte{{0}}
			_, err := delimiter.Codec(*o)
			return err
		}),
		check("codec/lengthfield.Options", lengthfield.Options{Length: 4}, func(o *lengthfield.Options) error {
			_, err := lengthfield.Codec(*o)
			return err
		}),
		check("codec/frame.Options", frame.Options{Pool: pool}, func(o *frame.Options) error {
			_, err := frame.NewServer(*o)
			return err
		}),
		check("http1.Options", http1.Options{}, func(o *http1.Options) (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = fmt.Errorf("%v", v)
				}
			}()
			http1.NewHandler(http.NotFoundHandler(), pool, *o)
			return nil
		}),
		check("http2.Options", http2.Options{}, func(o *http2.Options) (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = fmt.Errorf("%v", v)
				}
			}()
			http2.NewHandler(http.NotFoundHandler(), pool, *o)
			return nil
		}),
		check("http1.Transport", http1.Transport{}, func(tr *http1.Transport) error {
			defer tr.Close()
			r, err := http.NewRequestWithContext(ended, http.MethodGet, "http://127.0.0.1:1/", nil)
			if err != nil {
				return err
			}
			_, err = tr.RoundTrip(r) //nolint:bodyclose // there is none
			return dialled(err)
		}),
		check("http2.Transport", http2.Transport{}, func(tr *http2.Transport) error {
			defer tr.Close()
			r, err := http.NewRequestWithContext(ended, http.MethodGet, "http://127.0.0.1:1/", nil)
			if err != nil {
				return err
			}
			_, err = tr.RoundTrip(r) //nolint:bodyclose // there is none
			return dialled(err)
		}),
		check("websocket.Options", websocket.Options{}, func(o *websocket.Options) error {
			_, err := websocket.NewUpgrader(*o)
			return err
		}),
		check("websocket.HubOptions", websocket.HubOptions{}, func(o *websocket.HubOptions) error {
			_, err := websocket.NewHub(*o)
			return err
		}),
		check("websocket.CompressionOptions", websocket.CompressionOptions{}, func(o *websocket.CompressionOptions) error {
			_, err := websocket.NewCompression(*o)
			return err
		}),
		check("relay.Options", relay.Options{Dialer: &eddy.Dialer{}}, func(o *relay.Options) error {
			_, err := relay.New(*o)
			return err
		}),
		check("tlsx.Options", tlsx.Options{}, func(o *tlsx.Options) error {
			_, err := tlsx.Server(&tls.Config{Certificates: []tls.Certificate{cert}}, pool, *o)
			return err
		}),
		check("rpc.ServerOptions", rpc.ServerOptions{}, func(o *rpc.ServerOptions) error {
			o.Ports = []rpc.PortOptions{{Name: "p", Addr: "127.0.0.1:0"}}
			s, err := rpc.NewServer(*o)
			if err != nil {
				return err
			}
			return s.Close()
		}),
		check("rpc.DiscoveryOptions", rpc.DiscoveryOptions{}, func(o *rpc.DiscoveryOptions) error {
			s, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Name: "p", Addr: "127.0.0.1:0"}}, Discovery: *o})
			if err != nil {
				return err
			}
			return s.Close()
		}),
		check("rpc/discovery/nacos.Options", nacos.Options{Servers: []string{"127.0.0.1:1"}}, func(o *nacos.Options) error {
			r, err := nacos.New(*o)
			if err != nil {
				return err
			}
			return r.Close()
		}),
		noError[kubernetes.Options]("rpc/discovery/kubernetes.Options"),
		check("rpc.PortOptions", rpc.PortOptions{}, port),
		check("rpc.PoolOptions", rpc.PoolOptions{}, func(o *rpc.PoolOptions) error { return port(&rpc.PortOptions{Pool: *o}) }),
		check("rpc.ClientOptions", rpc.ClientOptions{}, client),
		check("rpc.GRPCOptions", rpc.GRPCOptions{}, func(o *rpc.GRPCOptions) error {
			o.Targets = []string{"http://127.0.0.1:1"}
			c, err := rpc.NewGRPCClient(*o)
			if err != nil {
				return err
			}
			return c.Close()
		}),
		check("rpc/balance.Options", balance.Options{}, balancer),
		check("rpc/balance.Ejection", balance.Ejection{}, func(e *balance.Ejection) error { return balancer(&balance.Options{Eject: *e}) }),
		check("rpc/balance.Trip", balance.Trip{}, func(tr *balance.Trip) error {
			_, err := balance.NewBreaker(*tr)
			return err
		}),
		check("rpc/balance.Attempts", balance.Attempts{Max: 2}, func(a *balance.Attempts) error {
			tr, err := httpbalance.New(httpbalance.Options{Resolver: discovery.Static(), Attempts: *a})
			if err != nil {
				return err
			}
			return tr.Close()
		}),
		noError[httpbalance.Options]("rpc/balance/httpbalance.Options"),
		check("rpc.Backoff", rpc.Backoff{}, func(b *rpc.Backoff) error { return client(&rpc.ClientOptions{Backoff: *b}) }),
		check("admin.Options", admin.Options{}, func(o *admin.Options) error {
			o.Addr, o.Logger = "127.0.0.1:0", slog.New(slog.DiscardHandler)
			_, err := admin.New(*o)
			return err
		}),
		noError[metrics.Options]("metrics.Options"),
		check("metrics.HandlerOptions", metrics.HandlerOptions{}, func(o *metrics.HandlerOptions) error {
			_, err := metrics.Handler(*o)
			return err
		}),
	}
}

// optionRow is the row of a field in docs/options.md.
type optionRow struct{ zero, negative string }

// optionRows reads the tables of docs/options.md: struct, fields, what 0 means, what below 0.
func optionRows(doc string) (rows map[string]optionRow, problems []string) {
	rows = make(map[string]optionRow)
	for line := range strings.Lines(doc) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 6 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		for _, field := range list(cells[2]) {
			key := list(cells[1])[0] + "." + field
			row := optionRow{strings.TrimSpace(cells[3]), strings.TrimSpace(cells[4])}
			if _, twice := rows[key]; twice {
				problems = append(problems, key+" stands there twice")
			}
			if row.zero == "" || row.negative == "" {
				problems = append(problems, key+": a cell is empty")
			}
			rows[key] = row
		}
	}
	return rows, problems
}

// isNumber reports whether a field is a number or a duration, but not an enumeration.
func isNumber(f reflect.StructField) bool {
	k := f.Type.Kind()
	return f.IsExported() && k >= reflect.Int && k <= reflect.Float64 && k != reflect.Uintptr &&
		(f.Type.PkgPath() == "" || f.Type == reflect.TypeFor[time.Duration]())
}

// TestOptionsTable: docs/options.md says for every number and duration in the options what 0 and less mean. Values that
// the page calls refused give an error that names the field; no others do. All zero is fine.
func TestOptionsTable(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(moduleRoot(t), "docs", "options.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, problems := optionRows(string(doc))
	for _, p := range problems {
		t.Errorf("docs/options.md: %s", p)
	}
	for _, o := range allOptions(t) {
		kind := reflect.TypeOf(o.good).Elem()
		if o.try != nil {
			if err := o.try(copyOf(o.good).Interface()); err != nil {
				t.Errorf("%s: %v", o.name, err)
			}
		}
		for i := range kind.NumField() {
			f := kind.Field(i)
			if !isNumber(f) {
				continue
			}
			key := o.name + "." + f.Name
			row, ok := rows[key]
			if !ok {
				t.Errorf("docs/options.md does not say what 0 and less mean for %s: add | `%s` | `%s` | … | … |", key, o.name, f.Name)
				continue
			}
			delete(rows, key)
			if o.try == nil || f.Type.Kind() >= reflect.Uint && f.Type.Kind() <= reflect.Uint64 {
				continue
			}
			err := o.try(withNegative(o.good, i))
			refused := err != nil && strings.Contains(strings.ToLower(err.Error()), strings.ToLower(f.Name))
			if refused != strings.HasPrefix(row.negative, "refused") {
				t.Errorf("docs/options.md says that %s below 0 is: %s; the answer is: %v", key, row.negative, err)
			}
		}
	}
	for key := range rows {
		t.Errorf("docs/options.md: there is no %s", key)
	}
}

// withNegative returns a copy of the options in which a field is -1.
func withNegative(good any, field int) any {
	c := copyOf(good)
	if f := c.Elem().Field(field); f.CanFloat() {
		f.SetFloat(-1)
	} else {
		f.SetInt(-1)
	}
	return c.Interface()
}

func copyOf(good any) reflect.Value {
	from := reflect.ValueOf(good).Elem()
	c := reflect.New(from.Type())
	for i := range from.NumField() {
		if from.Type().Field(i).IsExported() { // the others are zero before the first use
			c.Elem().Field(i).Set(from.Field(i))
		}
	}
	return c
}

// TestEveryOptionsStruct: allOptions has every struct with options of the packages that programs use.
func TestEveryOptionsStruct(t *testing.T) {
	known := make(map[string]bool)
	for _, o := range allOptions(t) {
		known[o.name] = true
	}
	for _, name := range optionStructs(t, moduleRoot(t)) {
		if !known[name] {
			t.Errorf("allOptions lacks %s, and so may docs/options.md", name)
		}
		delete(known, name)
	}
	for name := range known {
		t.Errorf("there is no %s", name)
	}
}

// optionStructs finds the exported structs with options. Applications and internal packages have their own rules.
func optionStructs(t *testing.T, root string) (names []string) {
	t.Helper()
	outside := []string{"bench", "cmd", "desk", "deploy", "docs", "dubbo", "examples", "internal", "otel", "scripts", "testdata", "deskmetrics", "config", "etcd", "zookeeper"} // dubbo, etcd, otel and zookeeper are modules that this one cannot name
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if p != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains(outside, d.Name())) {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(filepath.ToSlash(rel), ".")
		files, err := filepath.Glob(filepath.Join(p, "*.go"))
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, name := range exportedStructs(t, file) {
				if strings.HasSuffix(name, "Options") || slices.Contains(otherOptions[dir], name) {
					names = append(names, strings.TrimPrefix(dir+"."+name, "."))
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if !strings.Contains(name, ".") {
			names[i] = "eddy." + name
		}
	}
	return names
}

func exportedStructs(t *testing.T, file string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() {
				if _, ok := ts.Type.(*ast.StructType); ok {
					names = append(names, ts.Name.Name)
				}
			}
		}
	}
	return names
}
