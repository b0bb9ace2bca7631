package eddy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/testkit"
)

// Tests that need many descriptors run their clients, or their server, in a second process: this binary again, in the
// role that roleEnv names.
const roleEnv = "EDDY_TEST_ROLE"

// runRole plays the role this process was started for, if any.
func runRole() bool {
	switch role, arg, _ := strings.Cut(os.Getenv(roleEnv), " "); role {
	case "idle-clients":
		idleClients(arg)
	case "scarce-server":
		scarceServer()
	default:
		return false
	}
	return true
}

// child starts this binary in a role; closing its standard input ends it.
func child(t *testing.T, role string) (out *bufio.Reader, stop func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, write := io.Pipe() // unlike StdoutPipe it is not closed under a reader when the child has ended
	cmd.Stdout = write
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what the child reports, it prints
		write.Close()
		close(ended)
	}()
	stop = sync.OnceFunc(func() {
		in.Close()
		<-ended
	})
	t.Cleanup(func() {
		pipe.Close() // what nobody reads must not hold the child up
		stop()
	})
	return bufio.NewReader(pipe), stop
}

// idleClients opens connections, says so, and holds them until standard input ends.
func idleClients(arg string) {
	addr, count, _ := strings.Cut(arg, " ")
	n, _ := strconv.Atoi(count)
	conns := make([]net.Conn, 0, n)
	for range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			fmt.Println("failed:", err)
			return
		}
		conns = append(conns, c)
	}
	fmt.Println("open", len(conns))
	io.Copy(io.Discard, os.Stdin)
}

func residentKiB(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("resident memory is read from /proc, which this system lacks")
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kib
		}
	}
	return 0
}

// TestIdleConnections: 10,000 idle connections with a pipeline of three handlers and an idle deadline cause no wakeups
// and no goroutines (but one each on net), and little memory each.
func TestIdleConnections(t *testing.T) {
	const n = 10_000
	if limit := descriptorLimit(); limit < n+200 {
		t.Skipf("needs %d descriptors, the limit is %d", n+200, limit)
	}
	fitsSelect(t, n)
	shared := eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) })
	pass := tag("pass")
	var ends closes
	srv := &eddy.Server{Loops: 2, IdleTimeout: 10 * time.Minute, Init: func(p *eddy.Pipeline) error {
		p.Add("echo", shared)
		p.Add("pass", pass)
		return p.Add("ends", &ends)
	}}
	addr := start(t, srv)
	runtime.GC()
	goroutines, before := runtime.NumGoroutine()+2, residentKiB(t) // two wait for the child
	descriptors := openDescriptors(t)
	out, stop := child(t, fmt.Sprintf("idle-clients %s %d", addr, n))
	if line, err := out.ReadString('\n'); err != nil || line != fmt.Sprintf("open %d\n", n) {
		t.Fatalf("clients: %q, %v", line, err)
	}
	waitFor(t, "all connections", func() bool {
		return srv.Stats().Loops[0].Active+srv.Stats().Loops[1].Active == n
	})
	if os.Getenv("EDDY_POLLER") == "net" {
		goroutines += n // each has a reader
	}
	if got := runtime.NumGoroutine(); got > goroutines+2 {
		t.Errorf("%d goroutines for %d connections, %d without", got, n, goroutines)
	}
	iterations := func() (sum uint64) {
		for _, l := range srv.Stats().Loops {
			sum += l.Iterations
		}
		return sum
	}
	waitFor(t, "an idle second in which the loops do not wake", func() bool { // not the first: the last wakeup for a connection may be under way
		quietFrom := iterations()
		<-time.After(time.Second)
		return iterations() == quietFrom
	})
	runtime.GC()
	t.Logf("%d idle connections: %d B of resident memory each", n, (residentKiB(t)-before)*1024/n)
	stop()
	waitFor(t, "the end of all connections", func() bool { return srv.Stats().Active == 0 })
	if runtime.GOOS == "linux" {
		waitFor(t, "their descriptors to be closed", func() bool { return openDescriptors(t) < descriptors+n/100 })
	}
}

// openDescriptors counts what this process has open, on Linux.
func openDescriptors(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// scarceServer serves lines with few descriptors.
func scarceServer() {
	if err := makeDescriptorsScarce(); err != nil {
		fmt.Println("failed:", err)
		return
	}
	srv := lineServer(new(closes))
	srv.Admission.SpareDescriptors = -1
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println("failed:", err)
		return
	}
	fmt.Println(srv.Addr())
	io.Copy(io.Discard, os.Stdin)
	st := srv.Stats()
	fmt.Println("shed", st.Shed > 0, "errors", st.AcceptErrors > 0, "calm", st.Boss.Iterations < 10_000,
		"paused", st.AcceptPauses > 0, "refused", st.Refused[eddy.RefuseDescriptors] == st.Shed, "undisturbed", st.Closed[eddy.CloseIOError] == 0)
	srv.Close()
}

// TestDescriptorExhaustion: a server out of descriptors answers new peers with a close, keeps serving the others, does
// not spin, and accepts again when descriptors are free.
func TestDescriptorExhaustion(t *testing.T) {
	out, stop := child(t, "scarce-server")
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimSpace(line)
	var served []net.Conn
	refused := 0
	for range 100 {
		c := dial(t, addr)
		io.WriteString(c, "hello\n")
		got, _ := bufio.NewReader(c).ReadString('\n')
		if got == "hello\n" {
			served = append(served, c)
		} else {
			refused++
			c.Close()
		}
		if refused == 3 {
			break
		}
	}
	if refused != 3 || len(served) < 20 {
		t.Fatalf("%d served, %d refused: the limit of 64 descriptors was not felt", len(served), refused)
	}
	for range 20 { // the served ones go on while accepting stands still
		for _, c := range served {
			io.WriteString(c, "still here\n")
			expectLines(t, bufio.NewReader(c), "still here")
		}
	}
	for _, c := range served {
		c.Close()
	}
	waitFor(t, "recovery", func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(testkit.Patience))
		io.WriteString(c, "back\n")
		got, _ := bufio.NewReader(c).ReadString('\n')
		return got == "back\n"
	})
	go stop() // it ends when its report was read
	if line, err := out.ReadString('\n'); err != nil || line != "shed true errors true calm true paused true refused true undisturbed true\n" {
		t.Errorf("server reports %q, %v", line, err)
	}
}
