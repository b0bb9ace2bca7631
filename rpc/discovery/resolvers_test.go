package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// watched collects what a Watch tells, as text.
type watched struct {
	told []string
	err  error
	done chan struct{}
}

// watch begins a Watch in a bubble.
func watch(ctx context.Context, r Resolver) *watched {
	w := &watched{done: make(chan struct{})}
	go func() {
		w.err = r.Watch(ctx, func(list []Instance) {
			var words []string
			for _, i := range list {
				words = append(words, fmt.Sprintf("%s*%d", i.Addr, i.Weight))
			}
			w.told = append(w.told, strings.Join(words, " "))
		})
		close(w.done)
	}()
	synctest.Wait()
	return w
}

// answers is a lookup that a test fills in.
type answers struct {
	hosts []string
	srv   []*net.SRV
	err   error
	asked atomic.Int32
	mu    sync.Mutex
}

// set changes the answers.
func (a *answers) set(hosts []string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hosts, a.err = hosts, err
}

func (a *answers) LookupHost(_ context.Context, host string) ([]string, error) {
	a.asked.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if host != "a.example" {
		return nil, errors.New("another host: " + host)
	}
	return slices.Clone(a.hosts), a.err
}

func (a *answers) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	a.asked.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if service+proto+name != "rpctcpa.example" {
		return "", nil, errors.New("another name: " + name)
	}
	return "", a.srv, a.err
}

// TestDNS: every address of a name is an instance. Another order is no change; an error ends the Watch.
func TestDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{hosts: []string{"10.0.0.2", "10.0.0.1", "fe80::1"}}
		r, err := newDNS(a, "a.example:7000", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		w := watch(t.Context(), r)
		a.set([]string{"10.0.0.1", "fe80::1", "10.0.0.2"}, nil)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		a.set([]string{"10.0.0.1"}, nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := fmt.Sprint(w.told); got != "[10.0.0.1:7000*0 10.0.0.2:7000*0 [fe80::1]:7000*0 10.0.0.1:7000*0]" || a.asked.Load() != 3 {
			t.Errorf("%v, asked %d times", got, a.asked.Load())
		}
		a.set(nil, nil)
		r.(Refresher).Refresh()
		synctest.Wait()
		if a.asked.Load() != 4 || w.told[len(w.told)-1] != "" {
			t.Errorf("after Refresh: %q, asked %d times", w.told, a.asked.Load())
		}
		failed := errors.New("no such host")
		a.set(nil, failed)
		r.(Refresher).Refresh()
		synctest.Wait()
		if a.asked.Load() != 4 {
			t.Error("asked again within a second")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		<-w.done
		if !errors.Is(w.err, failed) || !strings.Contains(w.err.Error(), "a.example") || a.asked.Load() != 5 {
			t.Errorf("%v, asked %d times", w.err, a.asked.Load())
		}
	})
	for _, bad := range []string{"", "host", "host:", "host:http", "host:70000", "a:b:c"} {
		if r, err := DNS(bad, 0); r != nil || err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestSRV: the records of the lowest priority are instances, with their weights in our scale.
func TestSRV(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{srv: []*net.SRV{{Target: "b.", Port: 2, Priority: 1, Weight: 65535}, {Target: "a.", Port: 1, Priority: 1}, {Target: "c.", Port: 3, Priority: 2}}}
		r, err := newSRV(a, "rpc", "tcp", "a.example", 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := watch(ctx, r)
		if fmt.Sprint(w.told) != "[a:1*1 b:2*10000]" {
			t.Error(w.told)
		}
		cancel()
		<-w.done
		if !errors.Is(w.err, context.Canceled) {
			t.Error(w.err)
		}
		a.err = errors.New("servfail")
		if w = watch(t.Context(), r); !errors.Is(w.err, a.err) {
			t.Error(w.err)
		}
	})
	if _, err := SRV("rpc", "tcp", "", 0); err == nil {
		t.Error("an empty name was taken")
	}
}

// TestStatic: the answer comes at once, and Watch ends with its context.
func TestStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := watch(ctx, Static(Addrs("a:1", "b:2")...))
		cancel()
		<-w.done
		if fmt.Sprint(w.told) != "[a:1*0 b:2*0]" || !errors.Is(w.err, context.Canceled) {
			t.Error(w.told, w.err)
		}
	})
}

// TestFile: a file is read again and again; what is not there or wrong is an error.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		write("a:1 # the first\n\nb:2 weight=7 zone=z rack=9\n")
		w := watch(t.Context(), File(path, 0))
		write(`[{"addr":"c:3","weight":5}]`)
		time.Sleep(DefaultFileEvery + 1)
		synctest.Wait()
		if fmt.Sprint(w.told) != "[a:1*0 b:2*7 c:3*5]" {
			t.Error(w.told)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultFileEvery)
		synctest.Wait()
		<-w.done
		if !errors.Is(w.err, os.ErrNotExist) {
			t.Error(w.err)
		}
	})
}

// TestParseFile: both forms have all fields, and the error names the line that is wrong.
func TestParseFile(t *testing.T) {
	want := Instance{Addr: "a:1", Weight: 3, Zone: "z", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Attributes: map[string]string{"rack": "9"}}
	for _, text := range []string{
		"a:1 weight=3 zone=z since=2026-01-02T03:04:05Z rack=9",
		`[{"addr":"a:1","weight":3,"zone":"z","since":"2026-01-02T03:04:05Z","attributes":{"rack":"9"}}]`,
	} {
		if got, err := ParseFile("f", []byte(text)); err != nil || len(got) != 1 || !got[0].Equal(want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	many := strings.Repeat("a:1\n", MaxInstances+1)
	for text, want := range map[string]string{
		"a:1\n\nb\n":                          "f:3: ",
		"a:1 weight=x":                        "weight",
		"a:1 weight=10001":                    "from 0 to 10000",
		"a:1 zone":                            `"zone" is not of the form`,
		"a:1 since=now":                       "since",
		many:                                  fmt.Sprintf("f:%d: more than %d instances", MaxInstances+1, MaxInstances),
		"[{\"addr\":\"a:1\"},\n{\"addr\":1}]": "f:2: ",
		"[{\"addr\":\"a:1\"},\n\n{\"addr\":\"b\"}\n]": "f:3: ",
		"[{\"adr\":\"a:1\"}]":                         "unknown field",
		"[{\"addr\":\"a:1\"}":                         "f:1: ",
		"[] x":                                        "f:1: ",
	} {
		if _, err := ParseFile("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, make([]byte, MaxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(path); err == nil || !strings.Contains(err.Error(), "the limit") {
		t.Error(err)
	}
}

// TestCheck: too many instances are refused, and so is one that is wrong.
func TestCheck(t *testing.T) {
	if err := Check(make([]Instance, MaxInstances+1)); err == nil || !strings.Contains(err.Error(), "limit 4096") {
		t.Error(err)
	}
	if err := Check(Addrs("a:1", "x")); err == nil {
		t.Error("x is an address")
	}
	if err := Check(Addrs("a:1")); err != nil {
		t.Error(err)
	}
}
