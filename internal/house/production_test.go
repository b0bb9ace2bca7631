package house

import (
	"maps"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/websocket"
)

// configurable are the types whose fields and methods documents may name as options, by the name they are written with.
var configurable = map[string]reflect.Type{
	"Server":            reflect.TypeFor[*eddy.Server](),
	"Group":             reflect.TypeFor[*eddy.Group](),
	"Conn":              reflect.TypeFor[*eddy.Conn](),
	"Context":           reflect.TypeFor[*eddy.Context](),
	"Admission":         reflect.TypeFor[*eddy.Admission](),
	"Watermarks":        reflect.TypeFor[*eddy.Watermarks](),
	"MessageClass":      reflect.TypeFor[*eddy.MessageClass](),
	"executor.Options":  reflect.TypeFor[*executor.Options](),
	"frame.Options":     reflect.TypeFor[*frame.Options](),
	"http1.Options":     reflect.TypeFor[*http1.Options](),
	"websocket.Options": reflect.TypeFor[*websocket.Options](),
}

// alone lists options that are not fields.
var alone = map[string]any{"RejectReply": eddy.RejectReply, "line.Codec": line.Codec}

// isField reports whether name is Type.Field, or Type.Method, of one of the types.
func isField(types map[string]reflect.Type, name string) bool {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return false
	}
	typ, ok := types[name[:dot]]
	if !ok {
		return false
	}
	if _, ok := typ.MethodByName(name[dot+1:]); ok {
		return true
	}
	_, ok = typ.Elem().FieldByName(name[dot+1:])
	return ok
}

// isOption reports whether name is Type.Field or Type.Method of configurable, or stands alone.
func isOption(name string) bool {
	_, ok := alone[name]
	return ok || isField(configurable, name)
}

var codePattern = regexp.MustCompile("`([^`]+)`")

// coded returns the texts between backquotes.
func coded(cell string) (words []string) {
	for _, m := range codePattern.FindAllStringSubmatch(cell, -1) {
		words = append(words, m[1])
	}
	return words
}

// everyTest returns the names of all tests of the repository.
func everyTest(t *testing.T) map[string]bool {
	all := map[string]bool{}
	for _, tests := range testFunctions(t, moduleRoot(t)) {
		maps.Copy(all, tests)
	}
	return all
}

// TestProductionChecklist: the checklist has its sixteen lines, in their order, and every option, metric and test that it names exists (R234).
func TestProductionChecklist(t *testing.T) {
	rows := tableOf(t, "docs/production.md", "| | line | set | default | watch | shown by |")
	lines := []string{
		"explicit address", "bounded batches", "One loop owns", "bounded queue, and one wakeup", "exactly one phase", "parser", "queue of the connection", "only while bytes wait",
		"Two watermarks", "slowly have a policy", "Five timeouts", "no longer accepting", "one reason", "how late the loops", "full pool", "tested",
	}
	if len(rows) != len(lines) {
		t.Fatalf("%d lines, want %d", len(rows), len(lines))
	}
	tests, metrics := everyTest(t), document(t, "docs/metrics.md")
	for i, row := range rows {
		if !strings.Contains(row[1], lines[i]) {
			t.Errorf("line %d is %q, not about %q", i+1, row[1], lines[i])
		}
		options, watched, shown := coded(row[2]), 0, coded(row[5])
		for _, name := range options {
			if !isOption(name) {
				t.Errorf("line %d: there is no option %s", i+1, name)
			}
		}
		for _, name := range coded(row[4]) {
			if !strings.HasPrefix(name, "eddy_") {
				continue // a close reason
			}
			if watched++; !strings.Contains(metrics, "\n| `"+name+"` |") {
				t.Errorf("line %d: docs/metrics.md does not have %s", i+1, name)
			}
		}
		for _, name := range shown {
			if !tests[name] {
				t.Errorf("line %d: there is no test %s", i+1, name)
			}
		}
		if len(options) == 0 || watched == 0 || len(shown) == 0 {
			t.Errorf("line %d: %d options, %d metrics, %d tests", i+1, len(options), watched, len(shown))
		}
	}
	for name, ok := range map[string]bool{"Server.MaxConns": true, "Server.Shutdown": true, "Server.Sockets": false, "Engine.X": false, "line.Codec": true, "MaxConns": false} {
		if isOption(name) != ok {
			t.Errorf("isOption(%s) is %v: the test means nothing", name, !ok)
		}
	}
	if !tests["TestProductionChecklist"] || tests["TestNothing"] {
		t.Error("the list of tests is wrong")
	}
}

// TestToyAndProduction: the table of what toys leave out has its eleven concerns, each with a proof that exists (R235).
func TestToyAndProduction(t *testing.T) {
	rows := tableOf(t, "docs/production.md", "| concern | on the page | here | proof |")
	concerns := []string{"ownership", "partial reads", "hostile input", "partial writes", "slow peers", "fairness", "blocking work", "time", "number of connections", "overload", "the end, and knowing"}
	if len(rows) != len(concerns) {
		t.Fatalf("%d concerns, want %d", len(rows), len(concerns))
	}
	tests := everyTest(t)
	for i, row := range rows {
		if row[0] != concerns[i] || row[1] == "" || row[2] == "" {
			t.Errorf("concern %d: %q", i+1, row)
		}
		proofs := coded(row[3])
		if len(proofs) == 0 {
			t.Errorf("%s: no proof", row[0])
		}
		for _, name := range proofs {
			if !tests[name] {
				t.Errorf("%s: there is no test %s", row[0], name)
			}
		}
	}
}
