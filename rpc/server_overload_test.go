package rpc

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/overload"
)

// TestServerOverload: with ServerOptions.Overload a server refuses calls by the grade, also those on a pool that a service brought along, and
// takes them again when it is over. The manager ends with the server.
func TestServerOverload(t *testing.T) {
	var pressure atomic.Int64
	pressure.Store(83)
	watch := overload.Options{
		Memory: -1, Descriptors: -1, Processors: -1, Lag: -1, QueueAge: -1, Logger: quiet,
		Sources: []overload.Source{{Name: "test", Read: func() (float64, error) { return float64(pressure.Load()) / 100, nil }}},
	}
	pool, err := executor.NewFixed(executor.Options{Workers: 2, Adaptive: &executor.Adaptive{}, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s := newServer(t, ServerOptions{Isolation: PerService, Overload: &watch, Ports: []PortOptions{{}}})
	if s.Overload() != nil {
		t.Error("a manager before Listen")
	}
	g := newGate()
	close(g.open)
	for key, o := range map[string][]RegisterOption{"/low:": {Class(limit.Sheddable)}, "/plain:": nil} {
		if err := s.Register(holding(t, key, g), append(o, WithPool(pool))...); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, s)
	call := callerOf(t, s, "frame")
	grade := func(want overload.Action) {
		t.Helper()
		testkit.Eventually(t, want.String(), func() bool { return s.Overload().Stats().Grade == want })
	}
	grade(overload.RefuseSheddable)
	if low, plain := call("/low:", "Hold"), call("/plain:", "Hold"); !errors.Is(low, ErrBusy) || plain != nil {
		t.Errorf("under overload: %v, %v", low, plain)
	}
	pressure.Store(0)
	grade(overload.None)
	if err := call("/low:", "Hold"); err != nil {
		t.Errorf("when it is over: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !s.Overload().Stats().Over {
		t.Error("the manager goes on after its server")
	}
}

// TestServerOverloadOptions: options that make no sense are refused by Listen, which leaves nothing running.
func TestServerOverloadOptions(t *testing.T) {
	s := newServer(t, ServerOptions{Overload: &overload.Options{EndAtOnce: -1}, Ports: []PortOptions{{}}})
	if err := s.Listen(); err == nil || !strings.Contains(err.Error(), "ServerOptions.Overload: overload: Options.EndAtOnce is -1") {
		t.Errorf("%v", err)
	}
}
