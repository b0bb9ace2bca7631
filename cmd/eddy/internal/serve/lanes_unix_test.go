//go:build unix

package serve

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestServeLanesFullDisk: a disk that takes no more (here by the limit of a file's size) makes a full lane refuse with the
// disk's own words, to the client and in the log; light work does not notice; and after kill -9 the next run, with room
// again, works off what had reached the disk.
func TestServeLanesFullDisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spill")
	args := []string{"serve", "lanes", "--addr", "127.0.0.1:0", "--capacity", "2", "--spill", dir}
	cmd := cmdtest.Program(append(args, "--heavy", "1h")...)
	cmd.Args = append([]string{"sh", "-c", `ulimit -f 400; exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	p := cmdtest.StartProcess(t, cmd)
	c := cmdtest.Connect(t, p.Addr)
	r := bufio.NewReader(c)
	refused := regexp.MustCompile(`^busy: .*lane "heavy".*spill.*file too large`)
	for sent := 0; ; sent += 100 {
		if sent > 100_000 {
			t.Fatal("the full disk is not told to the client")
		}
		var lines strings.Builder
		for i := range 100 {
			fmt.Fprintf(&lines, "heavy %d %s\n", sent+i, strings.Repeat("x", 200))
		}
		fmt.Fprintln(&lines, "light")
		if _, err := c.Write([]byte(lines.String())); err != nil {
			t.Fatal(err)
		}
		full, a := false, ""
		for a = cmdtest.ReadLine(t, r); a != "5: light"; a = cmdtest.ReadLine(t, r) {
			full = full || refused.MatchString(a)
		}
		if full {
			break
		}
	}
	p.WaitOutput(p.Errs, regexp.MustCompile(`lane \\"heavy\\".*file too large`))
	if err := p.Cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	files, _ := filepath.Glob(filepath.Join(dir, "heavy", "*.seg"))
	if len(files) == 0 {
		t.Fatal("nothing reached the disk")
	}

	p = cmdtest.StartServer(t, append(args, "--heavy", "0s")...)
	testkit.Eventually(t, "the end of the log", func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "heavy", "*.seg"))
		return len(files) == 0
	})
	if a := cmdtest.Talk(t, p.Addr, "light\nbye\n"); a != "5: light\n" {
		t.Errorf("answer %q", a)
	}
	p.Stop()
	done := regexp.MustCompile(`heavy (\d+) done, 0 refused`).FindStringSubmatch(p.Errs.String())
	if done == nil || done[1] == "0" {
		t.Errorf("the end says %q", p.Errs)
	}
}

// TestServeLanesReadOnly: a directory that cannot be written to is refused at the start, by name.
func TestServeLanesReadOnly(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write to every directory")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := cmdtest.Run(t, "serve", "lanes", "--addr", "127.0.0.1:0", "--spill", filepath.Join(dir, "spill"))
	if code == 0 || !strings.Contains(stderr, "spill directory") || !strings.Contains(stderr, dir) {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
