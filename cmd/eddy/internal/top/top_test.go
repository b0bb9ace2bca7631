package top

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/go-eddy/eddy/admin"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// TestTopFrame: every line fits, and nothing that the other side sends moves the cursor.
func TestTopFrame(t *testing.T) {
	w := &watcher{}
	s := admin.Snapshot{
		Program: "evil\x1b[2Jprogram", Version: "v1\r\n", Reasons: []admin.Reason{{Check: "x\x07", Why: strings.Repeat("é", 300)}},
		Servers: []admin.ServerStats{{
			Name: "na\tme", Closed: map[string]uint64{"io_error": 2, "normal": 70_000, "a\x1b": 2},
			Loops: []admin.LoopStats{{Name: "worker-0", Active: 12_345, LagP99: 1500, LagMax: 2.5e6, Utilisation: 0.255, Outbound: 3 << 20}},
		}},
		Pools: []admin.PoolStats{{Name: "po\nol", Running: 1, MaxWorkers: 4, Queued: 5, MaxQueue: 6}},
		Lanes: []admin.LaneStats{{
			Set: "la\tnes", Name: "hea\x1bvy", Workers: 2, Queued: 3, Capacity: 11, Spilled: 4, Accepted: 5, Done: 6, Rejected: 7, Waited: 8, Lost: 9, Panics: 10, Fault: "disk\nfull",
		}},
		Overload: []admin.OverloadStats{{
			Name: "ma\tin", Grade: "end_idle", Source: "mem\x1bory", Sources: []admin.OverloadSource{{Name: "memory", Pressure: 0.914}, {Name: "cpu", Err: "not told"}},
			Actions: []admin.OverloadAction{{Name: "refuse_sheddable", Began: 4, Ended: 4}, {Name: "end_idle", Active: true, Began: 3, Ended: 2}},
		}},
	}
	for i := range 2 * topSamples {
		s.Samples = append(s.Samples, admin.Sample{Seq: int64(i + 1), Connections: int64(i), Requests: 2.5e6, Closed: map[string]uint64{"io_error": 1}})
	}
	w.take(s)
	if len(w.samples) != topSamples || w.samples[topSamples-1].Seq != 2*topSamples {
		t.Errorf("%d samples are kept, the last %d", len(w.samples), w.samples[len(w.samples)-1].Seq)
	}
	w.take(s)
	if len(w.samples) != topSamples {
		t.Errorf("%d samples after the same again", len(w.samples))
	}
	for _, width := range []int{1, 20, 100, 400} {
		lines := topFrame(w, width)
		text := strings.Join(lines, "\n")
		for _, line := range lines {
			if n := len([]rune(line)); n > width {
				t.Errorf("width %d: a line of %d characters: %q", width, n, line)
			}
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }); i >= 0 {
			t.Errorf("width %d: character %q", width, text[i])
		}
		if width < 100 {
			continue
		}
		for _, want := range []string{
			"evil?[2Jprogram v1??", "NOT READY x?:", "na?me worker-0 (poller fails)  12.3k  26 %", "1.5 ms", "2.50 s", "3.0 MiB", "po?ol  1 of 4   5 of 6",
			"\nOVERLOAD ma?in: end_idle (mem?ory)  memory 91 %, cpu cannot be read\n  times: refuse_sheddable 4, end_idle 3 (now)\n",
			"\nla?nes hea?vy  2        3 of 11  4        6     7         8       9     10      disk?full\n", "2.50M requests/s",
			"\nnormal    70000  0\n", "\na?        2      0\nio_error  2      300", "█",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("width %d: no %q in\n%s", width, want, text)
			}
		}
	}
	s.Process.PID, s.Samples = 7, s.Samples[:1]
	w.take(s)
	if len(w.samples) != 1 {
		t.Errorf("%d samples of another process", len(w.samples))
	}
}

// TestTopErrors: what cannot be asked, or answers something else, ends the command with what to do about it.
func TestTopErrors(t *testing.T) {
	var answer atomic.Value
	answer.Store("not json")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := answer.Load().(string); text != "" {
			fmt.Fprint(w, text)
			return
		}
		http.Error(w, "no\x1b such page", http.StatusNotFound)
	}))
	defer other.Close()
	gone := httptest.NewServer(nil)
	goneAddr := strings.TrimPrefix(gone.URL, "http://")
	gone.Close()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "needs one address"},
		{[]string{"a:1", "b:1"}, "needs one address"},
		{[]string{"localhost"}, "is not host:port"},
		{[]string{"ftp://localhost:1"}, "is no address of a program"},
		{[]string{"127.0.0.1:1", "--interval", "1ms"}, "--interval 1ms is out of range: use 100ms to 1h"},
		{[]string{"127.0.0.1:1", "--token-file", "/nowhere"}, "--token-file: cannot read"},
		{[]string{goneAddr, "--once"}, "does not answer"},
		{[]string{other.URL, "--once"}, "does not send the numbers of a program"},
	} {
		out, errs, code := cmdtest.Run(t, append([]string{"top"}, c.args...)...)
		if code != 1 || out != "" || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("top %q: exit code %d, %q, %q, want %q", c.args, code, out, errs, c.want)
		}
	}
	answer.Store("")
	if _, errs, code := cmdtest.Run(t, "top", other.URL, "--once"); code != 1 || !strings.Contains(errs, "answers 404 no? such page") {
		t.Errorf("a server without the page: exit code %d, %q", code, errs)
	}
	text, err := json.Marshal(admin.Snapshot{Program: "some program", Ready: true, Time: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	answer.Store(string(text))
	if out, errs, code := cmdtest.Run(t, "top", other.URL, "--once"); code != 0 || !strings.HasPrefix(out, "some program ") || strings.Contains(out, "\x1b") {
		t.Errorf("one look: exit code %d, %q, %q", code, out, errs)
	}
}

// TestTopWithoutTerminal: into a file or a pipe it writes a block for each look, until it is told to end.
func TestTopWithoutTerminal(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "echo", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	addr := strings.TrimPrefix(p.Operator(), "http://")
	top := cmdtest.StartCommand(t, cmdtest.Program("top", addr, "--interval", "100ms"))
	top.WaitOutput(top.Out, regexp.MustCompile(`(?s)(eddy serve echo.*){3}`))
	if strings.Contains(top.Out.String(), "\x1b") {
		t.Errorf("%q", top.Out)
	}
	p.Stop()
	if code := top.Wait(); code != 1 { // with an error: the program has gone
		t.Errorf("exit code %d after the end of the program", code)
	}
}
