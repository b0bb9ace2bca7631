package executor

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

// testLog is a log that tests read.
type testLog struct{ testkit.Output }

func (l *testLog) count(text string) int { return strings.Count(l.String(), text) }

func newLog() (*slog.Logger, *testLog) {
	l := new(testLog)
	return slog.New(slog.NewTextHandler(l, nil)), l
}

// filesIn returns the names of the files of a directory.
func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A thousand rejections at once in pools that share a Dumper: one dump, one report for each pool, all counted.
func TestOneDumpUnderManyRejections(t *testing.T) {
	const pools, each = 4, 250
	log, text := newLog()
	d := &Dumper{Dir: filepath.Join(t.TempDir(), "not", "there"), Logger: log}
	var mu sync.Mutex
	var told []Exhaustion
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range pools {
		p := newPool(t, Options{Name: "pool-" + string(rune('a'+i)), Workers: 1, Queue: HandOff, Dumper: d, Logger: log, OnExhausted: func(e Exhaustion) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
		}})
		t.Cleanup(occupy(t, p, 1))
		for range each {
			all.Go(func() {
				<-start
				if err := p.SubmitFunc(func() {}); !errors.Is(err, ErrRejected) {
					t.Error(err)
				}
			})
		}
		t.Cleanup(func() {
			if s := p.Stats(); s.Exhausted != each || s.Rejected != each {
				t.Errorf("%+v", s)
			}
		})
	}
	close(start)
	all.Wait()
	testkit.Eventually(t, "all reported", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) == pools })
	names := filesIn(t, d.Dir)
	if len(names) != 1 || !regexp.MustCompile(`^[A-Za-z0-9.-]+\.txt$`).MatchString(names[0]) {
		t.Fatalf("files %v", names)
	}
	path := filepath.Join(d.Dir, names[0])
	stacks, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{" is exhausted: 1 of 1 workers run", "TestOneDumpUnderManyRejections", `"eddy_pool":"pool-b"`} {
		if !bytes.Contains(stacks, []byte(part)) {
			t.Errorf("the dump has no %s:\n%.2000s", part, stacks)
		}
	}
	withDump := 0
	for _, e := range told {
		if e.Dump != "" && e.Dump == path {
			withDump++
		}
		if e.Workers != 1 || e.Queue != 0 || e.Since != 1 || e.Stats.Running != 1 {
			t.Errorf("told %+v", e)
		}
	}
	if n := text.count("pool is exhausted"); withDump != 1 || n != pools {
		t.Errorf("%d reports with a dump, %d warnings", withDump, n)
	}
}

func TestDumpInterval(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &Dumper{Dir: dir}
		for _, c := range []struct {
			after time.Duration
			files int
		}{{0, 1}, {0, 1}, {9*time.Minute + 59*time.Second, 1}, {time.Second, 2}, {time.Minute, 2}, {9 * time.Minute, 3}} {
			time.Sleep(c.after)
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if _, err := d.Dump("test"); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if names := filesIn(t, dir); len(names) != c.files {
				t.Errorf("%v, want %d files", names, c.files)
			}
		}
	})
}

// TestOldDumpsGo: a directory keeps the newest dumps, and whatever else lies there.
func TestOldDumpsGo(t *testing.T) {
	dir := t.TempDir()
	others := []string{"eddy-goroutines-1.tmp", "eddy-goroutines-notes.md", "letter.txt"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var newest []string
		for range 2 * DumpFiles {
			path, err := (&Dumper{Dir: dir}).Dump("test") // as by a program that is started again and again
			if err != nil {
				t.Fatal(err)
			}
			newest = append(newest, filepath.Base(path))
			time.Sleep(time.Minute)
		}
		want := append(newest[DumpFiles:], others...)
		slices.Sort(want)
		if names := filesIn(t, dir); !slices.Equal(names, want) {
			t.Errorf("%v, want %v", names, want)
		}
	})
}

func TestDumpGoesHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	log, text := newLog()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for n, d := range []*Dumper{{Logger: log}, {Dir: filepath.Join(file, "below"), Logger: log}} {
		path, err := d.Dump("test")
		if err != nil || filepath.Dir(path) != home {
			t.Errorf("%q, %v", path, err)
		}
		if got := text.count("goes to the home directory"); got != n {
			t.Errorf("%d warnings, want %d", got, n)
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
	path, err := (&Dumper{Disabled: true}).Dump("test")
	if names := filesIn(t, home); path != "" || err != nil || len(names) != 0 {
		t.Errorf("switched off: %q, %v, %v", path, err, names)
	}
}

// What cannot be written leaves nothing behind, is a warning, and is not tried again at once.
func TestDumpFails(t *testing.T) {
	home := filepath.Join(t.TempDir(), "gone")
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	log, text := newLog()
	told := make(chan Exhaustion, 1)
	d := &Dumper{Logger: log}
	p := newPool(t, Options{Workers: 1, Queue: HandOff, Dumper: d, Logger: log, OnExhausted: func(e Exhaustion) { told <- e; panic("contained") }})
	defer occupy(t, p, 1)()
	_ = p.SubmitFunc(func() {})
	if e := testkit.Receive(t, "the report", told); e.Dump != "" || text.count("no dump of goroutines") != 1 || text.count("pool is exhausted") != 1 {
		t.Errorf("told %+v, log %s", e, text.String())
	}
	testkit.Eventually(t, "the listener's panic is counted", func() bool { return p.Stats().Panics == 1 })
	if path, err := d.Dump("test"); path != "" || err != nil {
		t.Errorf("%q, %v right after a failure", path, err)
	}
}

// A dump that cannot get its final name leaves no other.
func TestDumpLeavesNoPart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeDump(dir, path, "head"); err == nil {
		t.Error("no error")
	}
	if names := filesIn(t, dir); len(names) != 1 {
		t.Errorf("files %v", names)
	}
}

// A pool warns at most once in ReportInterval and says how many there were.
func TestExhaustionIsRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Exhaustion
		log, text := newLog()
		p, err := NewFixed(Options{Workers: 1, Queue: HandOff, Logger: log, OnExhausted: func(e Exhaustion) { told = append(told, e) }})
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		if err := p.SubmitFunc(func() { <-gate }); err != nil {
			t.Fatal(err)
		}
		for range 4 * 100 {
			_ = p.SubmitFunc(func() {})
			time.Sleep(ReportInterval / 100)
		}
		synctest.Wait()
		var since []uint64
		for _, e := range told {
			since = append(since, e.Since)
		}
		if len(since) != 4 || since[0] != 1 || since[1] != 100 || since[3] != 100 || text.count("since_last_report=100") != 3 {
			t.Errorf("reports of %v", since)
		}
		close(gate)
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The goroutine that submits does not wait for the report, and Shutdown does.
func TestReportHasAnOwner(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: HandOff})
	gate, done := make(chan struct{}), make(chan struct{})
	var reported atomic.Bool
	p.o.OnExhausted = func(Exhaustion) { <-gate; reported.Store(true) }
	release := occupy(t, p, 1)
	for range 100 {
		_ = p.SubmitFunc(func() {}) // returns while the report is held
	}
	release()
	go func() {
		defer close(done)
		if _, err := p.Shutdown(t.Context()); err != nil || !reported.Load() {
			t.Errorf("Shutdown: %v, reported %v", err, reported.Load())
		}
	}()
	testkit.Eventually(t, "no worker", func() bool { return p.Stats().Workers == 0 })
	for range 1000 {
		runtime.Gosched()
	}
	select {
	case <-done:
		t.Error("Shutdown did not wait for the report")
	default:
	}
	close(gate)
	testkit.Receive(t, "the end", done)
}

// Nothing is reported while a pool still grows, nor for a submission that waits and then gets room.
func TestGrowthIsNoExhaustion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewEager(Options{Workers: 50, Queue: 1, Policy: Block(time.Hour, anyone), OnExhausted: func(e Exhaustion) { t.Error(e) }})
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		for range 52 {
			go func() {
				if err := p.SubmitFunc(func() { <-gate }); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if s := p.Stats(); s.Running != 50 || s.Queued != 1 || s.Waited != 1 || s.Exhausted != 0 {
			t.Errorf("%+v", s)
		}
		close(gate)
		synctest.Wait()
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
