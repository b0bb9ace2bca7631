package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/examples/internal/try"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEcho runs the example.
func TestEcho(t *testing.T) {
	c := try.Dial(t, try.Serve(t, server()))
	try.Talk(t, c, "hello\nis anybody there?\n", "hello", "is anybody there?")
}
