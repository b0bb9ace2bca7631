package ring

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

func openSpill(t *testing.T, o SpillOptions) *Spill {
	t.Helper()
	s, err := OpenSpill(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// sendNumbers sends the numbers from, … to-1, each as a message with some padding.
func sendNumbers(t *testing.T, s *Spill, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := s.Send(number(i)); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

func number(i int) []byte { return fmt.Appendf(nil, "%d:%s", i, strings.Repeat("x", i%50)) }

// recvNumbers takes messages and expects the numbers from, … to-1.
func recvNumbers(t *testing.T, s *Spill, from, to int) {
	t.Helper()
	ctx := testkit.Context(t)
	for i := from; i < to; i++ {
		if m, err := s.Recv(ctx); err != nil || !bytes.Equal(m, number(i)) {
			t.Fatalf("took %q, %v, want %q; %+v", m, err, number(i), s.Stats())
		}
	}
}

// TestSpillKeepsOrder: from memory to disk and back, over many small files, with a reader that is now behind and now
// ahead, every message comes once and in its place, and the log is gone in the end.
func TestSpillKeepsOrder(t *testing.T) {
	dir := t.TempDir()
	s := openSpill(t, SpillOptions{Dir: dir, Memory: 8, Buffer: 1 << 16, SegmentBytes: 512})
	r := rand.New(rand.NewPCG(1, 2))
	sent, got := 40, 0
	sendNumbers(t, s, 0, sent)
	testkit.Eventually(t, "the log", func() bool { return s.Stats().Disk > 0 })
	for range 60 {
		n := r.IntN(60)
		sendNumbers(t, s, sent, sent+n)
		sent += n
		n = min(r.IntN(70), sent-got)
		recvNumbers(t, s, got, got+n)
		got += n
	}
	recvNumbers(t, s, got, sent)
	if st := s.Stats(); st.Spilled == 0 || st.Memory+st.Waiting+st.Disk != 0 || st.Accepted != uint64(sent) || st.Bytes != 0 || st.Fault != nil {
		t.Errorf("%+v", st)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.seg")); len(left) != 0 {
		t.Errorf("files %v are left", left)
	}
	sendNumbers(t, s, 0, 3)
	if st := s.Stats(); st.Memory != 3 {
		t.Errorf("it does not go on in memory: %+v", st)
	}
	if m, err := s.TryRecv(); err != nil || string(m) != "0:" {
		t.Errorf("TryRecv = %q, %v", m, err)
	}
}

// TestSpillCountsOnce: a written message leaves the waiting ones and enters the log in one step, so that the numbers
// never show it in both places.
func TestSpillCountsOnce(t *testing.T) {
	files := &heldFiles{written: make(chan struct{})}
	s := openSpill(t, SpillOptions{Dir: t.TempDir(), Memory: 1, files: files})
	sendNumbers(t, s, 0, 2)
	<-files.written // the second one
	s.mu.Lock()
	files.written <- struct{}{}
	for end := time.Now().Add(30 * time.Millisecond); time.Now().Before(end); {
		if count, _ := s.log.held(); count+s.waiting.len() != 1 {
			t.Errorf("%d on disk and %d on their way, want one in all", count, s.waiting.len())
			break
		}
	}
	s.mu.Unlock()
	testkit.Eventually(t, "the log", func() bool { return s.Stats().Disk == 1 && s.Stats().Waiting == 0 })
}

// heldFiles tells when the first record has been written, and goes on when it was told to.
type heldFiles struct {
	realFiles
	once    atomic.Bool
	written chan struct{}
}

func (f *heldFiles) Open(name string) (logFile, error) {
	file, err := f.realFiles.Open(name)
	return heldFile{file, f}, err
}

type heldFile struct {
	logFile
	of *heldFiles
}

func (f heldFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.logFile.WriteAt(b, at)
	if at >= segmentHeader && f.of.once.CompareAndSwap(false, true) {
		f.of.written <- struct{}{}
		<-f.of.written
	}
	return n, err
}

// slowRemoval keeps the removal of files waiting.
type slowRemoval struct {
	realFiles
	removing, goOn chan struct{}
}

func (f *slowRemoval) Remove(name string) error {
	f.removing <- struct{}{}
	<-f.goOn
	return f.realFiles.Remove(name)
}

// TestLogBesideARemoval: what is written while an emptied file is being removed is not removed with it.
func TestLogBesideARemoval(t *testing.T) {
	files := &slowRemoval{removing: make(chan struct{}), goOn: make(chan struct{})}
	o := SpillOptions{Dir: t.TempDir(), Memory: 1, Buffer: 100, files: files}
	s := openSpill(t, o)
	sendNumbers(t, s, 0, 3)
	testkit.Eventually(t, "the log", func() bool { return s.Stats().Disk == 2 })
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		recvNumbers(t, s, 0, 3)
	}()
	<-files.removing
	sendNumbers(t, s, 3, 10)
	testkit.Eventually(t, "the log again", func() bool { return s.Stats().Disk == 6 })
	close(files.goOn)
	<-taken
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.files = nil
	recvNumbers(t, openSpill(t, o), 3, 10)
}

// TestSpillUnderLoad: several senders and takers; each sender's messages stay in order for a single taker.
func TestSpillUnderLoad(t *testing.T) {
	const senders, each = 4, 3000
	s := openSpill(t, SpillOptions{Dir: t.TempDir(), Memory: 16, Buffer: 64, SegmentBytes: 4096})
	var wg sync.WaitGroup
	for p := range senders {
		patient := must(NewBlocker(everybody, Sleep(50*time.Microsecond, 0), testkit.Patience)) // while the writer is behind
		wg.Go(func() {
			for i := range each {
				var err error
				if waited := patient.Until(func() bool {
					err = s.Send(fmt.Appendf(nil, "%d %d", p, i))
					return !errors.Is(err, ErrFull)
				}); err != nil {
					t.Error(err, waited)
					return
				}
			}
		})
	}
	var next [senders]int
	ctx := testkit.Context(t)
	for range senders * each {
		m, err := s.Recv(ctx)
		var p, i int
		if _, serr := fmt.Sscan(string(m), &p, &i); err != nil || serr != nil || next[p] != i {
			t.Fatalf("took %q, %v, want %d of sender %d", m, err, next[p], p)
		}
		next[p]++
	}
	wg.Wait()
	s.CloseSend()
	if m, err := s.Recv(t.Context()); err != ErrClosed {
		t.Errorf("after the last: %q, %v", m, err)
	}
	if err := s.Send(nil); err != ErrClosed {
		t.Errorf("Send after CloseSend = %v", err)
	}
}

// TestSpillLimits: each bound refuses with its name and value, and takes again when there is room.
func TestSpillLimits(t *testing.T) {
	for name, c := range map[string]struct {
		o    SpillOptions
		want string
	}{
		"buffer": {SpillOptions{Memory: 1, Buffer: 2, files: &faultyFiles{fault: syscall.ENOSPC}, retry: time.Millisecond}, "3 messages in memory, and the log takes none: ring: spill log: no space left on device"},
		"bytes":  {SpillOptions{Memory: 1, MaxBytes: 100}, "limit 100"},
		"length": {SpillOptions{MaxMessage: 4}, "message of 10 bytes, limit 4"},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Dir = t.TempDir()
			s := openSpill(t, c.o)
			var err error
			testkit.Eventually(t, "a refusal", func() bool {
				err = s.Send([]byte("0123456789"))
				return errors.Is(err, ErrFull) && strings.Contains(err.Error(), c.want)
			})
			if s.Stats().Rejected == 0 {
				t.Errorf("%+v", s.Stats())
			}
			for s.Stats().Memory+s.Stats().Waiting+s.Stats().Disk > 0 {
				if _, err := s.Recv(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Send([]byte("abc")); err != nil {
				t.Errorf("with room again: %v", err)
			}
		})
	}
	for want, o := range map[string]SpillOptions{
		"SpillOptions.Dir is empty":       {},
		"SpillOptions.Memory is -1":       {Dir: "x", Memory: -1},
		"SpillOptions.SegmentBytes is -5": {Dir: "x", SegmentBytes: -5},
	} {
		if _, err := OpenSpill(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("OpenSpill = %v, want %q", err, want)
		}
	}
}

// TestSpillDiskFault: when the disk takes nothing, messages wait in memory up to the bound, are delivered from there in
// order, and go to disk again when it recovers; the fault is visible. What a write left behind half is not delivered.
func TestSpillDiskFault(t *testing.T) {
	files := &faultyFiles{}
	s := openSpill(t, SpillOptions{Dir: t.TempDir(), Memory: 2, Buffer: 20, files: files, retry: time.Millisecond})
	sendNumbers(t, s, 0, 5)
	testkit.Eventually(t, "the log", func() bool { return s.Stats().Disk == 3 })
	files.set(syscall.ENOSPC)
	sendNumbers(t, s, 5, 10)
	testkit.Eventually(t, "the fault", func() bool { return s.Stats().Fault != nil })
	if st := s.Stats(); !errors.Is(st.Fault, syscall.ENOSPC) || st.Faults == 0 || st.Disk != 3 || st.Waiting != 5 {
		t.Errorf("%+v", st)
	}
	recvNumbers(t, s, 0, 6)
	files.set(nil)
	sendNumbers(t, s, 10, 15)
	testkit.Eventually(t, "the end of the fault", func() bool { st := s.Stats(); return st.Fault == nil && st.Waiting == 0 })
	recvNumbers(t, s, 6, 15)
}

// TestSpillDirectory: a directory that cannot be used is an error that says so; two queues do not share one.
func TestSpillDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSpill(SpillOptions{Dir: filepath.Join(file, "sub")}); err == nil || !strings.Contains(err.Error(), "spill directory") {
		t.Errorf("a directory under a file: %v", err)
	}
	dir := t.TempDir()
	openSpill(t, SpillOptions{Dir: dir})
	if _, err := OpenSpill(SpillOptions{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use by another queue") {
		t.Errorf("the second queue: %v", err)
	}
	strange := t.TempDir()
	if err := os.WriteFile(filepath.Join(strange, "notes.seg"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSpill(SpillOptions{Dir: strange}); err == nil || !strings.Contains(err.Error(), "does not belong to a log") {
		t.Errorf("a strange file: %v", err)
	}
	readOnly := &faultyFiles{fault: syscall.EROFS}
	s := openSpill(t, SpillOptions{Dir: t.TempDir(), Memory: 1, Buffer: 1, files: readOnly})
	sendNumbers(t, s, 0, 2)
	testkit.Eventually(t, "the fault", func() bool { return errors.Is(s.Stats().Fault, syscall.EROFS) })
	if err := s.Send([]byte("x")); !errors.Is(err, ErrFull) || !errors.Is(err, syscall.EROFS) {
		t.Errorf("a read-only directory: %v", err)
	}
	if s.Behind() {
		t.Error("whoever waits is to go on waiting for a disk that fails")
	}
}

// TestSpillGoesOnWhereItEnded: Close saves what memory holds, in its place; the next start delivers everything in order,
// without what was taken before, or discards it.
func TestSpillGoesOnWhereItEnded(t *testing.T) {
	for _, taken := range []int{0, 2, 7, 30} {
		for _, discard := range []bool{false, true} {
			dir := t.TempDir()
			o := SpillOptions{Dir: dir, Memory: 4, Buffer: 100, SegmentBytes: 128}
			s := openSpill(t, o)
			sendNumbers(t, s, 0, 40)
			recvNumbers(t, s, 0, taken)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.TryRecv(); err != ErrClosed {
				t.Errorf("TryRecv after Close = %v", err)
			}
			o.Discard = discard
			s = openSpill(t, o)
			if discard {
				if st := s.Stats(); st.Disk != 0 || st.Bytes != 0 {
					t.Errorf("discarded: %+v", st)
				}
				taken = 40
			}
			sendNumbers(t, s, 40, 50)
			if discard {
				recvNumbers(t, s, 40, 50)
			} else {
				recvNumbers(t, s, taken, 50)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestTornLog: whatever byte the last file ends at, whole records before it are delivered and the rest is cut and
// counted; a flipped byte costs the rest of its file and nothing else.
func TestTornLog(t *testing.T) {
	build := func(t *testing.T) (dir string, files []string) {
		dir = t.TempDir()
		s := openSpill(t, SpillOptions{Dir: dir, Memory: 1, Buffer: 100, SegmentBytes: 100})
		for i := range 13 { // one at a time, so that files end where they should
			sendNumbers(t, s, i, i+1)
			testkit.Eventually(t, "the log", func() bool { return s.Stats().Waiting == 0 })
		}
		recvNumbers(t, s, 0, 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		files, _ = filepath.Glob(filepath.Join(dir, "*.seg"))
		return dir, files
	}
	take := func(t *testing.T, dir string) (got []string, cut int64) {
		s := openSpill(t, SpillOptions{Dir: dir})
		s.CloseSend()
		for {
			m, err := s.Recv(t.Context())
			if err == ErrClosed {
				return got, s.Stats().Cut
			}
			if err != nil {
				t.Fatal(err)
			}
			n, _, _ := strings.Cut(string(m), ":")
			got = append(got, n)
		}
	}
	_, files := build(t)
	size := sizeOf(t, files[len(files)-1])
	whole := -1
	for end := size; end >= 0; end-- {
		dir, files := build(t)
		last := files[len(files)-1]
		if err := os.Truncate(last, end); err != nil {
			t.Fatal(err)
		}
		got, cut := take(t, dir)
		if whole < 0 {
			whole = len(got)
			if whole != 12 || cut != 0 {
				t.Fatalf("untorn: %v, %d cut", got, cut)
			}
		}
		for i, n := range got {
			if n != strconv.Itoa(i+1) {
				t.Fatalf("torn at %d of %d: delivered %v", end, size, got)
			}
		}
		if end == size-1 && (len(got) != whole-1 || cut == 0) {
			t.Errorf("torn in the last record: delivered %v, cut %d", got, cut)
		}
	}
	dir, files := build(t)
	flip(t, files[0], segmentHeader+recordHeader)
	got, cut := take(t, dir)
	if len(got) == 0 || len(got) >= whole || got[len(got)-1] != "12" || cut == 0 {
		t.Errorf("flipped in the first file: delivered %v, cut %d", got, cut)
	}
}

// TestDamageUnderTheReader: a file that goes bad while the queue is in use costs what it held; what is sent later arrives.
func TestDamageUnderTheReader(t *testing.T) {
	dir := t.TempDir()
	s := openSpill(t, SpillOptions{Dir: dir, Memory: 1, Buffer: 100})
	sendNumbers(t, s, 0, 6)
	testkit.Eventually(t, "the log", func() bool { return s.Stats().Disk == 5 })
	files, _ := filepath.Glob(filepath.Join(dir, "*.seg"))
	flip(t, files[0], segmentHeader+2)
	recvNumbers(t, s, 0, 1)
	if m, err := s.TryRecv(); m != nil || err != nil || s.Stats().Cut == 0 {
		t.Errorf("took %q, %v from a damaged file; %+v", m, err, s.Stats())
	}
	sendNumbers(t, s, 6, 20)
	recvNumbers(t, s, 6, 20)
}

func sizeOf(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func flip(t *testing.T, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// faultyFiles are real files whose writes fail half-way while there is a fault.
type faultyFiles struct {
	realFiles
	mu    sync.Mutex
	fault error
}

func (f *faultyFiles) set(err error) {
	f.mu.Lock()
	f.fault = err
	f.mu.Unlock()
}

func (f *faultyFiles) Open(name string) (logFile, error) {
	file, err := f.realFiles.Open(name)
	return faultyFile{file, f}, err
}

type faultyFile struct {
	logFile
	of *faultyFiles
}

func (f faultyFile) WriteAt(b []byte, at int64) (int, error) {
	f.of.mu.Lock()
	fault := f.of.fault
	f.of.mu.Unlock()
	if fault != nil {
		n, _ := f.logFile.WriteAt(b[:len(b)/2], at)
		return n, fault
	}
	return f.logFile.WriteAt(b, at)
}

const spillRole = "RING_TEST_SPILL_DIR"

// TestSpillSurvivesKill: a process that sends and takes is killed again and again; what had reached the log comes out in
// order. What is missing was in memory, and what comes twice was taken and not yet noted.
func TestSpillSurvivesKill(t *testing.T) {
	if dir := os.Getenv(spillRole); dir != "" {
		spillUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	logged := 0
	for round := range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSpillSurvivesKill$")
		cmd.Env = append(os.Environ(), spillRole+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		count := 0
		for lines.Scan() {
			if n, ok := strings.CutPrefix(lines.Text(), "logged "); ok {
				logged, _ = strconv.Atoi(n)
				if count++; count > 3+round {
					break
				}
			}
		}
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}
	s := openSpill(t, SpillOptions{Dir: dir})
	s.CloseSend()
	last, n := -1, 0
	for {
		m, err := s.Recv(t.Context())
		if err == ErrClosed {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		i, err := strconv.Atoi(string(m))
		if err != nil || i <= last {
			t.Fatalf("%q after %d", m, last)
		}
		last = i
		n++
	}
	if n == 0 || last < logged {
		t.Errorf("%d messages, the last is %d; %d had reached the log", n, last, logged)
	}
}

// spillUntilKilled sends rising numbers, takes some, and says how far the log has come.
func spillUntilKilled(t *testing.T, dir string) {
	s, err := OpenSpill(SpillOptions{Dir: dir, Memory: 4, Buffer: 256, SegmentBytes: 4096})
	if err != nil {
		fmt.Println(err)
		return
	}
	next, _ := strconv.Atoi(readFile(filepath.Join(dir, "next")))
	for {
		for range 50 {
			if s.Send(strconv.AppendInt(nil, int64(next), 10)) == nil {
				next++
			}
		}
		_ = os.WriteFile(filepath.Join(dir, "new"), []byte(strconv.Itoa(next+1000)), 0o600)
		_ = os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "next")) // whole or not at all
		for range 20 {
			_, _ = s.TryRecv()
		}
		testkit.Eventually(t, "the log", func() bool { return s.Stats().Waiting == 0 })
		fmt.Println("logged", next-1)
	}
}

func readFile(name string) string {
	b, _ := os.ReadFile(name)
	return string(b)
}

// TestFileCutUnderTheReader: a file that became shorter is damage like any other, and does not fail for ever.
func TestFileCutUnderTheReader(t *testing.T) {
	dir := t.TempDir()
	s := openSpill(t, SpillOptions{Dir: dir, Memory: 1, Buffer: 100})
	sendNumbers(t, s, 0, 6)
	testkit.Eventually(t, "the log", func() bool { return s.Stats().Disk == 5 })
	files, _ := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err := os.Truncate(files[0], segmentHeader); err != nil {
		t.Fatal(err)
	}
	recvNumbers(t, s, 0, 1)
	if m, err := s.TryRecv(); m != nil || err != nil || s.Stats().Cut == 0 {
		t.Errorf("took %q, %v from a file that was cut; %+v", m, err, s.Stats())
	}
	sendNumbers(t, s, 6, 20)
	recvNumbers(t, s, 6, 20)
}

// TestSpillBehind: while the disk is slower than the sender, Send says that this passes, Behind until half of the buffer is
// on disk or was taken, and Ready tells its end.
func TestSpillBehind(t *testing.T) {
	files := &heldFiles{written: make(chan struct{})}
	s := openSpill(t, SpillOptions{Dir: t.TempDir(), Memory: 1, Buffer: 4, files: files})
	sendNumbers(t, s, 0, 2)
	<-files.written // the disk has one and does not say so
	sendNumbers(t, s, 2, 5)
	if err := s.Send(number(5)); !errors.Is(err, ErrBehind) || !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "4 messages wait") {
		t.Errorf("behind the disk: %v", err)
	}
	if !s.Behind() || s.Stats().Rejected != 1 {
		t.Errorf("behind: %v, %+v", s.Behind(), s.Stats())
	}
	select {
	case <-s.Ready():
	default:
	}
	files.written <- struct{}{}
	for s.Behind() {
		testkit.Receive(t, "the end of Behind", s.Ready())
	}
	recvNumbers(t, s, 0, 5)

	o := SpillOptions{Dir: t.TempDir(), Memory: 1, Buffer: 4} // one whose writer does not come to it
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	log, err := openLog(o)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	s = &Spill{o: o, log: log, ready: make(chan struct{}, 1), work: make(chan struct{}, 1)}
	sendNumbers(t, s, 0, 5)
	for i := range 3 {
		select {
		case <-s.Ready():
		default:
		}
		if !s.Behind() {
			t.Fatalf("not behind with %d taken", i)
		}
		if m, err := s.TryRecv(); err != nil || !bytes.Equal(m, number(i)) {
			t.Fatalf("took %q, %v", m, err)
		}
	}
	if len(s.ready) != 1 || s.Behind() {
		t.Errorf("told %d times, behind: %v, %+v", len(s.ready), s.Behind(), s.Stats())
	}
}
