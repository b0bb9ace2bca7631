package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// wallClock names the functions of tests that may sleep, measure the wall clock or set limits below a minute outside
// testing/synctest, each with its reason. The list gets shorter, not longer: docs/testing.md says what to use in its place.
var wallClock = map[string]string{
	"admin/life_test.go TestLife":                                                "the end must not wait for a trace of a minute that is being recorded",
	"cmd/eddy/internal/load/attack_test.go attackFor":                            "the least time that an attack must last, though its victims have ended",
	"cmd/eddy/internal/load/open_test.go TestRateMeasuresFromDue":                "a server that stands still for a known time, against which latencies are compared",
	"cmd/eddy/internal/serve/frame_test.go TestFrameLimits":                      "the least time that the read timeout of a process of its own must take",
	"desk/hub/webhook_test.go TestTakeOverRacesAnswer":                           "the pause decides which of two requests that race comes first; it adapts to the outcomes",
	"desk/model/model_test.go model.fault":                                       "the random time that the network stalls in a model that runs against a real process",
	"desk/model/steps_test.go person.pause":                                      "the random pause between two steps of a person in the model",
	"desk/store/sqlstore/report_bench_test.go BenchmarkReports":                  "a benchmark of the slowest of many reports",
	"desk/store/sqlstore/report_test.go TestReportIsCutOff":                      "the limit cuts off a query that computes for minutes; only real time passes while it does",
	"desk/store/sqlstore/search_test.go BenchmarkIndex":                          "a benchmark that compares two measured times",
	"desk/store/sqlstore/search_test.go TestSearchStaysFlat":                     "compares measured search times of two sizes; left out under the race detector",
	"http1/control_test.go TestHandlerSetsDeadlines":                             "deadlines that a handler sets itself are wall time and have to pass",
	"http1/hijack_test.go TestHijackDeadlinesAndBackpressure":                    "deadlines of a connection that was taken over are wall time and have to pass",
	"http2/flow_test.go TestWriteDeadline":                                       "deadlines that a handler sets itself are wall time and have to pass",
	"http2/limits_test.go TestReadDeadline":                                      "deadlines that a handler sets itself are wall time and have to pass",
	"http1/transport_test.go TestTransportCancel":                                "the deadline of a caller's context is wall time and has to pass",
	"internal/chaos/proxy_test.go TestProxyStalls":                               "a read that must find nothing ends after a moment",
	"internal/chaos/proxy_test.go TestProxyThrottles":                            "the least time that a throttled transfer must take",
	"internal/poll/epoll_gate_linux_test.go TestGateLosesNothing":                "wakes a kernel's wait that has begun, and tells a wake from the wait's own end",
	"internal/poll/epoll_linux_test.go TestWaitWithoutPwait2":                    "the least time that the kernel must wait",
	"internal/poll/quiet_unix_test.go TestLooksDoNotCutWaits":                    "the least time that the kernel must wait, and the shortest of many waits",
	"internal/poll/wake_linux_test.go benchmarkWake":                             "a benchmark of the time between a wake and its effect",
	"internal/poll/wake_linux_test.go burn":                                      "keeps a processor busy for a moment in a benchmark",
	"internal/sys/memnet/memnet_test.go pair":                                    "runs in the bubbles of its callers",
	"internal/sys/netsys/helpers_test.go fill":                                   "pauses between looks at a kernel's buffers, until they take nothing for a while",
	"internal/sys/netsys/listener_test.go TestAcceptAfterAnErrorDoesNotWaitLong": "the least time that a call waits for a connection",
	"internal/sys/sim/sim_test.go TestSim":                                       "logs how many seeds a second it has run",
	"internal/sys/sys_test.go TestClock":                                         "compares a clock of the system with package time",
	"internal/testkit/testkit.go Eventually":                                     "the pause between two looks at a condition",
	"isolation_test.go TestStuckPoolLeavesOthersAlone":                           "logs how long customers wait beside a stuck pool; nothing is judged by it",
	"overload_test.go TestZeroWindowPeers":                                       "peers that never read write again and again; a quiet spell proves that loops sleep",
	"responder/responder_test.go TestRequestTimeout":                             "tells a deadline of a minute with a margin of half a minute",
	"responder/random_test.go script.play":                                       "the random pauses of a client that follows a script",
	"responder/route_test.go TestExpiredIsNotRun":                                "two milliseconds must pass while the loop is inside a function",
	"rpc/chaos_test.go TestChaos":                                                "the network's own time between two of its changes, which calls of all kinds meet at random",
	"rpc/client_fail_test.go TestRetryAfterHoldsConnects":                        "the least time that a server's advice must hold back the next connect",
	"rpc/config/acceptance_test.go impl.where":                                   "reads what is left of a deadline that is far away",
	"rpc/internal/virtual/cluster_test.go cluster.call":                          "runs in a bubble, where time is virtual",
	"rpc/internal/virtual/cluster_test.go cluster.drive":                         "runs in a bubble, where time is virtual",
	"rpc/terminal_test.go TestTimeouts":                                          "reads what is left of a deadline that is hours away",
	"scale_test.go TestIdleConnections":                                          "a second in which the loops of ten thousand idle connections do not wake",
	"soak_test.go TestProducersFasterThanConsumers":                              "pauses of producers that leave a share of the processors to the others",
	"soak_test.go hopFlood":                                                      "a consumer's work, and short writes of clients that are held back by turns",
	"soak_test.go laneFloods":                                                    "the length of a consumer's work, which makes it slower than its producer",
	"soak_test.go ringFlood":                                                     "the length of a consumer's work, which makes it slower than its producer",
	"soak_test.go soakRunner.Run":                                                "the length of a consumer's work, which makes it slower than its producer",
	"stress_test.go chaos.HandleRead":                                            "the random length of a handler's work",
	"stress_test.go chaosClient":                                                 "the random pauses of a client",
	"stress_test.go runChaos":                                                    "lets chaos go on for a while, then ends it with a short patience",
	"websocket/hub_test.go benchBroadcast":                                       "the pause of a benchmark's sender while the loops are behind",
}

// TestTestsOwnTheirTime: only the tests of the list sleep, measure the wall clock, or set a limit below a minute.
func TestTestsOwnTheirTime(t *testing.T) {
	root := moduleRoot(t)
	used := map[string]bool{}
	err := goFiles(root, func(rel string) error {
		if !strings.HasSuffix(rel, "_test.go") && !strings.HasPrefix(rel, "internal/testkit/") && !strings.HasPrefix(rel, "internal/enginetest/") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, rel))
		if err != nil {
			return err
		}
		found, err := clockUses(rel, text)
		for _, u := range found {
			if used[u.where] = true; wallClock[u.where] == "" {
				t.Errorf("%s:%d: %s in %s: docs/testing.md says what to use in its place", rel, u.line, u.what, u.where)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range slices.Sorted(maps.Keys(wallClock)) {
		if !used[where] {
			t.Errorf("%s is on the list and does not use the wall clock any more", where)
		}
	}
}

// A clockUse is a place where a test depends on the wall clock.
type clockUse struct {
	where string // file and function
	line  int
	what  string
}

// clockUses finds sleeps, measurements and limits below a minute, but not those in functions that testing/synctest runs.
func clockUses(file string, text []byte) ([]clockUse, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	limits := constants(tree)
	var found []clockUse
	for _, d := range tree.Decls {
		where := file + " " + declName(d)
		ast.Inspect(d, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if name := callName(call); name == "synctest.Test" {
				return false
			} else if what := clockUseOf(name, call, limits); what != "" {
				found = append(found, clockUse{where, set.Position(call.Pos()).Line, what})
			}
			return true
		})
	}
	return found, nil
}

// clockUseOf says how a call depends on the wall clock, "" if it does not.
func clockUseOf(name string, call *ast.CallExpr, limits map[string]time.Duration) string {
	switch name {
	case "time.Sleep":
		return "a sleep"
	case "time.Since", "time.Until":
		return name + " measures the wall clock"
	case "time.After", "time.NewTimer", "time.AfterFunc", "context.WithTimeout", "context.WithTimeoutCause":
		at := 0
		if strings.HasPrefix(name, "context.") {
			at = 1
		}
		if d, ok := duration(call.Args[at], limits); ok && d > 0 && d < time.Minute {
			return fmt.Sprintf("%s gives something %v", name, d)
		}
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && len(call.Args) == 1 {
		switch sel.Sel.Name {
		case "Sub":
			if inner, ok := sel.X.(*ast.CallExpr); ok && callName(inner) == "time.Now" {
				return "time.Now().Sub measures the wall clock"
			}
		case "SetDeadline", "SetReadDeadline", "SetWriteDeadline":
			add, ok := call.Args[0].(*ast.CallExpr)
			if !ok || len(add.Args) != 1 || !strings.HasSuffix(callName(add), ".Add") {
				break
			}
			if d, ok := duration(add.Args[0], limits); ok && d > 0 && d < time.Minute {
				return fmt.Sprintf("%s gives something %v", sel.Sel.Name, d)
			}
		}
	}
	return ""
}

// callName returns the name of the called function, with its qualifier.
func callName(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	switch x := sel.X.(type) {
	case *ast.Ident:
		return x.Name + "." + sel.Sel.Name
	case *ast.CallExpr:
		return callName(x) + "()." + sel.Sel.Name
	}
	return "." + sel.Sel.Name
}

// declName is the name of a function, Type.Method for a method, "" for other declarations.
func declName(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok {
		return ""
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// constants returns the named durations of a file.
func constants(tree *ast.File) map[string]time.Duration {
	named := map[string]time.Duration{}
	ast.Inspect(tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && len(spec.Names) == len(spec.Values) {
			for i, name := range spec.Names {
				if d, ok := duration(spec.Values[i], named); ok {
					named[name.Name] = d
				}
			}
		}
		return true
	})
	return named
}

// duration is the value of an expression of numbers, units and names of durations.
func duration(x ast.Expr, named map[string]time.Duration) (time.Duration, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseInt(x.Value, 0, 64)
		return time.Duration(n), err == nil
	case *ast.Ident:
		d, ok := named[x.Name]
		return d, ok
	case *ast.ParenExpr:
		return duration(x.X, named)
	case *ast.SelectorExpr:
		if id, ok := x.X.(*ast.Ident); !ok || id.Name != "time" {
			return 0, false
		}
		d, ok := map[string]time.Duration{"Nanosecond": 1, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
			"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[x.Sel.Name]
		return d, ok
	case *ast.BinaryExpr:
		a, ok1 := duration(x.X, named)
		b, ok2 := duration(x.Y, named)
		if !ok1 || !ok2 {
			return 0, false
		}
		switch x.Op {
		case token.MUL:
			return a * b, true
		case token.ADD:
			return a + b, true
		case token.QUO:
			return a / max(b, 1), true
		}
	}
	return 0, false
}

// TestClockRules shows that the rule finds what it must and leaves the rest, so that a green TestTestsOwnTheirTime means
// something.
func TestClockRules(t *testing.T) {
	const text = `package p
const short, far = 2 * time.Second, 3 * time.Minute
func TestA(t *testing.T) {
	time.Sleep(time.Hour)
	synctest.Test(t, func(t *testing.T) { time.Sleep(1); _ = time.Since(x); <-time.After(1) })
	_ = time.Since(x)
	<-time.After(far)
	<-time.After(short)
}
func (r *rig) wait() {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	ctx, cancel := context.WithTimeout(ctx, d)
	c.SetReadDeadline(time.Now().Add(short/2 + 5*time.Millisecond))
	c.SetReadDeadline(time.Now().Add(testkit.Patience))
	time.AfterFunc(59*time.Second, f)
	time.Now().Sub(x)
	a.Sub(b)
}
func (g gates[T]) wait() { time.NewTimer(60 * time.Second) }
`
	found, err := clockUses("f.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range found {
		got = append(got, fmt.Sprintf("%s %d %s", u.where, u.line, u.what))
	}
	want := []string{
		"f.go TestA 4 a sleep",
		"f.go TestA 6 time.Since measures the wall clock",
		"f.go TestA 8 time.After gives something 2s",
		"f.go rig.wait 11 context.WithTimeout gives something 10s",
		"f.go rig.wait 13 SetReadDeadline gives something 1.005s",
		"f.go rig.wait 15 time.AfterFunc gives something 59s",
		"f.go rig.wait 16 time.Now().Sub measures the wall clock",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
