package serve

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/admin"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestServeLanes: light lines pass heavy ones, all are answered, and a client like nc needs nothing but lines.
func TestServeLanes(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "lanes", "--addr", "127.0.0.1:0", "--heavy", "2s", "--medium", "1ms")
	c := cmdtest.Connect(t, p.Addr)
	io.WriteString(c, "heavy one\nmedium two\nlight three\nfour\r\n")
	r := bufio.NewReader(c)
	got := map[string]int{}
	for i := range 4 {
		got[cmdtest.ReadLine(t, r)] = i
	}
	if i, ok := got["9: heavy one"]; !ok || i != 3 || len(got) != 4 {
		t.Errorf("answers %v, want the heavy one last", got)
	}
	for _, want := range []string{"10: medium two", "11: light three", "4: four"} {
		if _, ok := got[want]; !ok {
			t.Errorf("no answer %q in %v", want, got)
		}
	}
	if a := cmdtest.Talk(t, p.Addr, strings.Repeat("x", 300)); !strings.Contains(a, "the limit is 256 bytes") {
		t.Errorf("too long a line: %q", a)
	}
	c.Close()
	p.Stop()
	if !strings.Contains(p.Errs.String(), "heavy 1 done, 0 refused") {
		t.Errorf("the end says %q", p.Errs.String())
	}
}

// TestServeLanesBusy: a full lane answers at once, and light work does not notice: no heavy one ends while the test waits.
// The operator sees which lane it is.
func TestServeLanesBusy(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "lanes", "--addr", "127.0.0.1:0", "--heavy", "1h", "--capacity", "2", "--admin", "127.0.0.1:0")
	c := cmdtest.Connect(t, p.Addr)
	io.WriteString(c, strings.Repeat("heavy\n", 6)+"light\n")
	r := bufio.NewReader(c)
	var busy, light int
	for busy < 3 || light < 1 { // the lane holds two, and perhaps one is being worked on
		switch a := cmdtest.ReadLine(t, r); {
		case strings.HasPrefix(a, "busy: ") && strings.Contains(a, "heavy"):
			busy++
		case a == "5: light":
			light++
		default:
			t.Fatalf("answer %q", a)
		}
	}
	if busy > 4 || light != 1 {
		t.Errorf("%d busy, %d light", busy, light)
	}
	base := p.Operator()
	_, body := cmdtest.Get(t, base+"/stats.json")
	var s admin.Snapshot
	if err := json.Unmarshal([]byte(body), &s); err != nil || len(s.Lanes) != 3 {
		t.Fatalf("%v, %d lanes: %s", err, len(s.Lanes), body)
	}
	if l, h := s.Lanes[0], s.Lanes[2]; l.Name != "light" || l.Accepted != 1 || l.Done != 1 || l.Rejected != 0 ||
		h.Name != "heavy" || h.Accepted+h.Rejected != 6 || h.Rejected < 3 || h.Done != 0 {
		t.Errorf("light %+v, heavy %+v", l, h)
	}
	if out, errs, code := cmdtest.Run(t, "top", strings.TrimPrefix(base, "http://"), "--once"); code != 0 || !strings.Contains(out, "\nlanes heavy  ") {
		t.Errorf("top: exit code %d, %q, %q", code, out, errs)
	}
}

// TestServeLanesSpill: what the lane cannot hold goes to disk and is answered in order; after kill -9 the next run works
// off what was left, and serves.
func TestServeLanesSpill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spill")
	args := []string{"serve", "lanes", "--addr", "127.0.0.1:0", "--capacity", "2", "--heavy", "2ms", "--spill", dir}
	p := cmdtest.StartServer(t, args...)
	c := cmdtest.Connect(t, p.Addr)
	const n = 300
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "heavy %d\n", i)
	}
	io.WriteString(c, lines.String())
	r := bufio.NewReader(c)
	for i := range n {
		want := fmt.Sprintf("heavy %d", i)
		if a := cmdtest.ReadLine(t, r); a != fmt.Sprintf("%d: %s", len(want), want) {
			t.Fatalf("answer %d is %q", i, a)
		}
	}
	c.Close()
	p.Stop()

	p = cmdtest.StartServer(t, append(args, "--heavy", "1h")...)
	c = cmdtest.Connect(t, p.Addr)
	io.WriteString(c, strings.Repeat("heavy later\n", 3000))
	log := filepath.Join(dir, "heavy", "*.seg")
	testkit.Eventually(t, "the spilled lines", func() bool {
		files, _ := filepath.Glob(log)
		var size int64
		for _, f := range files {
			if info, err := os.Stat(f); err == nil {
				size += info.Size()
			}
		}
		return size > 10_000
	})
	if err := p.Cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	c.Close()

	p = cmdtest.StartServer(t, append(args, "--heavy", "0s")...)
	if a := cmdtest.Talk(t, p.Addr, "light\nbye\n"); a != "5: light\n" {
		t.Errorf("answer %q", a)
	}
	testkit.Eventually(t, "the end of the log", func() bool {
		files, _ := filepath.Glob(log)
		return len(files) == 0
	})
	p.Stop()
}

// TestServeLanesBurst: a burst that is faster than the disk is taken as a whole while the log has room: its client waits, and
// is read on afterwards. Nothing of it is answered while the test looks.
func TestServeLanesBurst(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "lanes", "--addr", "127.0.0.1:0", "--capacity", "4", "--heavy", "1h", "--spill", t.TempDir(), "--admin", "127.0.0.1:0")
	c := cmdtest.Connect(t, p.Addr)
	const n = 50_000
	io.WriteString(c, strings.Repeat("heavy line\n", n)+"light\n")
	if a := cmdtest.ReadLine(t, bufio.NewReader(c)); a != "5: light" {
		t.Errorf("answer %q", a)
	}
	_, body := cmdtest.Get(t, p.Operator()+"/stats.json")
	var s admin.Snapshot
	if err := json.Unmarshal([]byte(body), &s); err != nil || len(s.Lanes) != 3 {
		t.Fatalf("%v, %d lanes: %s", err, len(s.Lanes), body)
	}
	if h := s.Lanes[2]; h.Accepted != n || h.Rejected != 0 || h.Spilled < n-5 {
		t.Errorf("%+v", h)
	}
}

// TestServeLanesFlags: what makes no sense is refused by name.
func TestServeLanesFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--heavy -1s is negative":      {"--heavy", "-1s"},
		"--light-workers 0":            {"--light-workers", "0"},
		"capacity 3 is not a power":    {"--capacity", "3"},
		"--loops 2: the lanes have":    {"--loops", "2"},
		"--max-line 0":                 {"--max-line", "0"},
		`lane "light": ring: spill di`: {"--spill", filepath.Join(file, "sub")},
	} {
		_, stderr, code := cmdtest.Run(t, append([]string{"serve", "lanes"}, args...)...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit %d, %q, want %q", args, code, stderr, want)
		}
	}
}
