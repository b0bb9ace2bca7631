package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/examples/internal/try"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestShout runs the example.
func TestShout(t *testing.T) {
	c := try.Dial(t, try.Serve(t, server()))
	try.Talk(t, c, "hello\r\nis anybody there?\n", "HELLO", "IS ANYBODY THERE?")
}
