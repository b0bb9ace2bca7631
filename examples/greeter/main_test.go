package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestGreeter runs the example.
func TestGreeter(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	want := `gRPC: Hello, Ann!
count: Hello, Bob!
count: Hello, Bob!
gather: Hello, Ann and Bob and Eve!
chat: Hello, Ann!
chat: Hello, Bob!
frames: Hello, Ann!
`
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
