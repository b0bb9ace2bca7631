package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/plan"
)

// TestSourceOf: the file that is there is the one that the command writes about its points.
func TestSourceOf(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("..", "..", "desk", "plan", "points.go"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := sourceOf(plan.Points())
	if err != nil || string(got) != string(want) {
		t.Errorf("%v: the command writes\n%s", err, got)
	}
}

// TestRuns: what is measured is what a model needs.
func TestRuns(t *testing.T) {
	found := make(map[string]int)
	for _, r := range runs {
		for part := range strings.SplitSeq(r.parts, ",") {
			found[part]++
			if r.nodes > 1 {
				found["several "+part]++
			}
		}
	}
	if found["idle"] != 1 || found["full"] != 2 || found["several full"] != 1 || found["rate"] < 4 || found["several rate"]*2 != found["rate"] {
		t.Errorf("%v", found)
	}
}

func TestMeasureRefuses(t *testing.T) {
	if err := measure(context.Background(), "", "nats://a", 1, "", ""); err == nil || !strings.Contains(err.Error(), "-store and -bus are needed") {
		t.Error(err)
	}
	if err := measure(context.Background(), "postgres://127.0.0.1:1/x", "nats://a", 1, "", ""); err == nil || !strings.Contains(err.Error(), "1 servers, idle: ") {
		t.Error(err)
	}
}
