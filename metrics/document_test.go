package metrics

import (
	"strings"
	"testing"

	"github.com/go-eddy/eddy/metrics/internal/expo"
	"github.com/go-eddy/eddy/metrics/internal/expotest"
)

// TestDocument: docs/metrics.md lists every metric of the package with its type, labels, unit and meaning, and none that is
// not there.
func TestDocument(t *testing.T) {
	for heading, of := range map[string]func() []*expo.Family{
		"Servers": serverFamilies, "Dialers": dialerFamilies, "Loops": loopFamilies, "Pools, keys and lanes": poolFamilies,
		"Rings and spill": ringFamilies, "HTTP, TLS, requests and classes": protocolFamilies, "WebSocket": websocketFamilies, "RPC": rpcFamilies, "Traces": traceFamilies, "Program": programFamilies, "Overload": overloadFamilies,
	} {
		expotest.Document(t, heading, of())
	}
	rows := map[string]bool{}
	for _, r := range expotest.Tables(t) {
		if rows[r.Name] {
			t.Errorf("%s is there twice", r.Name)
		}
		rows[r.Name] = true
	}
	for _, f := range families() {
		if !rows[f.Name] {
			t.Errorf("%s has no row", f.Name)
		}
	}
}

// TestQueries: each query of docs/metrics.md parses and asks for metrics, labels and words that exist.
func TestQueries(t *testing.T) {
	c, n := promised(t), 0
	for i, part := range strings.Split(expotest.Read(t, "docs", "metrics.md"), "```promql\n") {
		if query, _, ok := strings.Cut(part, "```"); ok && i > 0 {
			c.check(t, "docs/metrics.md", query)
			n++
		}
	}
	if n < 10 {
		t.Errorf("only %d queries were found", n)
	}
}
