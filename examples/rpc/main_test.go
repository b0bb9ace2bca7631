package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRPC runs the example.
func TestRPC(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	want := "Hello, you!\nHello, later!\nBAD_REQUEST the name is missing\nheard: and goodbye\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
