package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestGRPC runs the example.
func TestGRPC(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	want := "member 1 heard: I am ann\nmember 1 heard: I am bob\nmember 2 heard: I am bob\nINVALID_ARGUMENT an empty line\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
