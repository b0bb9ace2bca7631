package house

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/simhook"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestCallPath checks docs/callpath.md against what goroutines really do (R238). Every step of the page was seen, on
// the goroutine it names and with its functions in their order on the stack. Every application function that was seen
// stands on the page.
func TestCallPath(t *testing.T) {
	page := readCallPath(t)
	seen := &sightings{seen: map[string][]sighting{}}
	seen.frames(t)
	seen.web(t)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	told := map[string]bool{}
	for _, step := range page.steps {
		place := step.chain[len(step.chain)-1]
		told[place+" on "+step.goroutine] = true
		begin := page.begins[step.goroutine]
		if begin == nil {
			t.Errorf("step %q runs on %q, which the page does not introduce", step.name, step.goroutine)
			continue
		}
		if !slices.ContainsFunc(seen.seen[place], func(g sighting) bool {
			return g.label == step.goroutine && inOrder(slices.Concat(begin, step.chain), g.calls)
		}) {
			t.Errorf("step %q on %s was not seen: %s\nseen at %s:\n%s", step.name, step.goroutine, strings.Join(step.chain, " → "), place, listed(seen.seen[place]))
		}
	}
	for place, all := range seen.seen {
		for _, g := range all {
			application := !strings.HasPrefix(place, "Sockets.") && !strings.HasPrefix(place, "Poller.")
			if application && !told[place+" on "+g.label] {
				t.Errorf("the page has no step at %s on %s: %s", place, g.label, strings.Join(g.calls, " → "))
			}
		}
	}
}

// TestCallPathDoors: the page's functions between the door and the kernel exist and make the system calls it names.
func TestCallPathDoors(t *testing.T) {
	page, root := readCallPath(t), moduleRoot(t)
	doors := map[string]bool{}
	for _, d := range page.doors {
		doors[d.door] = true
		if body := bodyOf(t, filepath.Join(root, d.file), d.function); !regexp.MustCompile(`\b` + d.call + `\b`).MatchString(body) {
			t.Errorf("%s: %s in %s does not call %s", d.door, d.function, d.file, d.call)
		}
	}
	for _, step := range page.steps {
		place := step.chain[len(step.chain)-1]
		if (strings.HasPrefix(place, "Sockets.") || strings.HasPrefix(place, "Poller.")) && !doors[place] {
			t.Errorf("step %q ends at %s, of which the page does not say what is behind it", step.name, place)
		}
	}
	if !inOrder([]string{"reactor.(*Loop).run", "reactor.(*Loop).turn", "poll.(*epoll).Wait"}, []string{"x", "reactor.(*Loop).run", "y", "reactor.(*Loop).turn", "poll.(*epoll).Wait"}) ||
		inOrder([]string{"reactor.(*Loop).turn", "reactor.(*Loop).run"}, []string{"reactor.(*Loop).run", "reactor.(*Loop).turn"}) || inOrder([]string{"a", "b"}, []string{"a", "b", "c"}) {
		t.Error("inOrder is broken: the tests above mean nothing")
	}
}

// inOrder reports whether the chain's functions are among the calls in that order, the last of both the same.
func inOrder(chain, calls []string) bool {
	if len(calls) == 0 || chain[len(chain)-1] != calls[len(calls)-1] {
		return false
	}
	for _, f := range chain {
		i := slices.Index(calls, f)
		if i < 0 {
			return false
		}
		calls = calls[i+1:]
	}
	return true
}

func listed(all []sighting) string {
	lines := map[string]bool{}
	for _, g := range all {
		lines["\t"+g.label+": "+strings.Join(g.calls, " → ")] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(lines)), "\n")
}

// callPath is the content of the page.
type callPath struct {
	begins map[string][]string // by goroutine: the outermost calls
	steps  []callStep
	doors  []callDoor
}

type callStep struct {
	name, goroutine string
	chain           []string
}

type callDoor struct{ door, function, file, call string }

func readCallPath(t *testing.T) callPath {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "docs", "callpath.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := callPath{begins: map[string][]string{}}
	header := ""
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") {
			header = ""
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "| \n"), " | ") {
			cells = append(cells, strings.Trim(cell, " |"))
		}
		switch {
		case header == "":
			header = cells[0]
		case strings.HasPrefix(line, "|--"):
		case header == "goroutine":
			_, name, _ := strings.Cut(strings.Trim(cells[1], "`"), "=")
			page.begins[name] = chainOf(cells[3])
		case header == "step":
			page.steps = append(page.steps, callStep{cells[0], strings.Trim(cells[1], "`"), chainOf(cells[2])})
		case header == "door":
			page.doors = append(page.doors, callDoor{strings.Trim(cells[0], "`"), strings.Trim(cells[1], "`"), cells[2], strings.Trim(cells[3], "`")})
		}
	}
	if len(page.begins) < 4 || len(page.steps) < 20 || len(page.doors) < 5 {
		t.Fatalf("only %d goroutines, %d steps and %d doors found on the page", len(page.begins), len(page.steps), len(page.doors))
	}
	return page
}

func chainOf(cell string) (chain []string) {
	for name := range strings.SplitSeq(cell, " → ") {
		chain = append(chain, strings.Trim(name, "`"))
	}
	return chain
}

// bodyOf returns the text of a function, "" without it.
func bodyOf(t *testing.T, file, name string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return ""
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		full := fn.Name.Name
		if fn.Recv != nil {
			star, _ := fn.Recv.List[0].Type.(*ast.StarExpr)
			if star == nil {
				continue
			}
			full = "(*" + star.X.(*ast.Ident).Name + ")." + full
		}
		if full == name {
			return string(text[fset.Position(fn.Body.Pos()).Offset:fset.Position(fn.Body.End()).Offset])
		}
	}
	return ""
}

// wait returns when cond holds; any goroutine may call it.
func (s *sightings) wait(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(testkit.Patience); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Errorf("no %s within %v", what, testkit.Patience)
			return
		}
	}
}

// awaitSleep returns when the loop of that name is parked in Go's poller, as the page has it.
func (s *sightings) awaitSleep(t *testing.T, loop string) {
	t.Helper()
	s.wait(t, "sleep of "+loop, func() bool {
		return slices.ContainsFunc(goroutines(), func(g sighting) bool {
			i := slices.Index(g.calls, "poll.(*parker).park")
			return i >= 0 && g.label == loop && inOrder([]string{"reactor.(*Loop).run", "reactor.(*Loop).turn", "reactor.(*Loop).Wait", "poll.(*epoll).Wait", "poll.(*parkedWait).sleep", "poll.(*parker).park"}, g.calls[:i+1])
		})
	})
}

// borrowed is a line that must be copied before it leaves the loop.
type borrowed struct {
	s    *sightings
	text []byte
}

func (b borrowed) Detach() any {
	b.s.at("Detacher.Detach")
	return borrowed{b.s, bytes.Clone(b.text)}
}

// watchedLines is a decoder and an encoder.
type watchedLines struct{ s *sightings }

func (w watchedLines) Decode(ctx *eddy.Context, view []byte) (int, error) {
	n := bytes.IndexByte(view, '\n') + 1
	if n > 0 {
		w.s.at("Decoder.Decode")
		ctx.FireRead(borrowed{w.s, view[:n]})
	}
	return n, nil
}

func (w watchedLines) HandleWrite(ctx *eddy.Context, msg any) error {
	if text, ok := msg.(string); ok {
		w.s.at("WriteHandler.HandleWrite")
		msg = []byte(text)
	}
	return ctx.Write(msg)
}

type watchedReader struct {
	s  *sightings
	do func(ctx *eddy.Context, msg any) error
}

func (w watchedReader) HandleRead(ctx *eddy.Context, msg any) error {
	w.s.at("ReadHandler.HandleRead")
	return w.do(ctx, msg)
}

type watchedEnd struct{ s *sightings }

func (w watchedEnd) HandleClose(*eddy.Context, eddy.CloseReason, error) {
	w.s.at("CloseHandler.HandleClose")
}

func callPool(t *testing.T, name string) *executor.Pool {
	t.Helper()
	p, err := executor.NewFixed(executor.Options{Name: name, Workers: 1, Queue: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// frames sends a line to a server and waits for its answer and for the end.
func (s *sightings) frames(t *testing.T) {
	pool := callPool(t, "business")
	answer := func(ctx *eddy.Context, msg any) error {
		s.awaitSleep(t, "worker-0") // so that the answer has to wake it
		return ctx.Write("hello " + string(msg.(borrowed).text))
	}
	group := &eddy.Group{Loops: 2, Chooser: func(netip.AddrPort, []*eddy.Loop) int { s.at("Group.Chooser"); return 0 }}
	srv := &eddy.Server{
		Group: group,
		Admission: eddy.Admission{Decide: func(netip.AddrPort) eddy.Decision {
			s.awaitSleep(t, "worker-0")
			s.at("Admission.Decide")
			return eddy.DecisionAccept
		}},
		Init: func(p *eddy.Pipeline) error {
			s.at("Server.Init")
			return errors.Join(p.Add("lines", watchedLines{s}), p.Add("end", watchedEnd{s}),
				p.Add("audit", watchedReader{s, func(ctx *eddy.Context, msg any) error {
					if l := ctx.Conn().Loop(); !l.In() || l.Name() != "worker-0" {
						t.Errorf("a handler of the loop is on the loop: %v, named %q", l.In(), l.Name())
					}
					ctx.FireRead(msg)
					return nil
				}}), p.Add("business", watchedReader{s, answer}, eddy.On(pool)))
		},
	}
	answered := make(chan string, 1)
	client := &eddy.Dialer{Init: func(p *eddy.Pipeline) error {
		s.at("Dialer.Init")
		return errors.Join(p.Add("lines", watchedLines{s}), p.Add("answer", watchedReader{s, func(_ *eddy.Context, msg any) error {
			answered <- string(msg.(borrowed).text)
			return nil
		}}))
	}}
	simhook.Simulate(s.machine(), srv, client, group)
	if err := group.Start(); err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	s.awaitSleep(t, "boss")
	dialed := func(c *eddy.Conn, err error) {
		s.at("DialAddr.done")
		if err == nil {
			err = c.Write([]byte("world\n"))
		}
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := client.DialAddr(srv.Addr(), eddy.DialOptions{}, dialed); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Receive(t, "an answer", answered); got != "hello world\n" {
		t.Errorf("the answer is %q", got)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	s.wait(t, "end of the connection", func() bool { return srv.Stats().Active == 0 && s.count("Sockets.Close") >= 2 })
}

// web asks an HTTP server, once with the kernel watched and once with a Transport that makes its own group.
func (s *sightings) web(t *testing.T) {
	pool := callPool(t, "web")
	site := http1.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.at("http.Handler.ServeHTTP")
		s.awaitSleep(t, "worker-0")
		_, _ = io.WriteString(w, "OK")
	}), pool, http1.Options{})
	srv := &eddy.Server{Loops: 1, Init: site.Init}
	group := &eddy.Group{Name: "http1", Loops: 1}
	simhook.Simulate(s.machine(), srv, group)
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	if err := group.Start(); err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	for _, transport := range []*http1.Transport{{Group: group}, {}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+srv.Addr().String()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan string, 1)
		if err := transport.Do(r, func(resp *http.Response, err error) {
			s.at("Transport.Do.done")
			if err != nil {
				t.Error(err)
				done <- ""
				return
			}
			done <- resp.Status
		}); err != nil {
			t.Fatal(err)
		}
		if status := testkit.Receive(t, "an answer", done); status != "200 OK" {
			t.Errorf("the answer is %q", status)
		}
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
	}
}

func (s *sightings) count(place string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen[place])
}
