package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/examples/internal/try"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPipeline runs the example: a login in the middle of questions, answered in the order of the lines.
func TestPipeline(t *testing.T) {
	srv, err := server()
	if err != nil {
		t.Fatal(err)
	}
	c := try.Dial(t, try.Serve(t, srv))
	try.Talk(t, c, "hello\n", "who are you?")
	try.Talk(t, c, "login ann\n", "welcome, ann")
	try.Talk(t, c, "hello\nédouard\n", "ann: olleh", "ann: drauodé")
}
