package benchdesk

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
)

// deskProcess is the server that is measured.
type deskProcess struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	addr string
}

// ownPath names the file of this program.
var ownPath = os.Executable

// stopMargin is for what comes after the drain.
const stopMargin = 5 * time.Second

func startDeskServer(f serverFlags) (*deskProcess, error) {
	self, err := ownPath()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "bench", benchServer, "--data", f.data, "--store", f.store, "--files", f.files, "--bus", f.bus, "--addr", f.addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &deskProcess{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	if p.addr, err = p.line(); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

func (p *deskProcess) line() (string, error) {
	if p.out.Scan() {
		return p.out.Text(), nil
	}
	return "", errors.Join(errors.New("the server that is measured has ended"), p.out.Err())
}

// ask sends a line and returns the answer.
func (p *deskProcess) ask(line string) (string, error) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return "", err
	}
	return p.line()
}

func (p *deskProcess) memory() (int64, error) {
	text, err := p.ask("memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// cpu returns the processor time that the server has used.
func (p *deskProcess) cpu() (time.Duration, error) {
	return processorTime(p.cmd.Process.Pid)
}

// processorTime reads what a process has used from /proc.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("processor time is read from /proc, which this system has not: %w", err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system, ticks = 11, 12, 100 // indexes of fields after the name; USER_HZ
	if len(fields) <= system {
		return 0, io.ErrUnexpectedEOF
	}
	u, err1 := strconv.ParseInt(fields[user], 10, 64)
	s, err2 := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * time.Second / ticks, errors.Join(err1, err2)
}

// stats returns what the server has counted.
func (p *deskProcess) stats() (s nodeStats, err error) {
	text, err := p.ask("stats")
	if err == nil {
		err = json.Unmarshal([]byte(text), &s)
	}
	return s, err
}

// base returns where clients find the server.
func (p *deskProcess) base() string { return "http://" + p.addr }

func (p *deskProcess) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.wait()
}

// stop lets the server end in order, as a signal to eddy desk does: its clients are told when to come back.
func (p *deskProcess) stop() error {
	_ = p.in.Close()
	timer := time.AfterFunc(cli.DrainTimeout+stopMargin, func() { _ = p.cmd.Process.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	return p.wait()
}

// wait returns when the process has ended. A process that was killed is no error. wait may be called again.
func (p *deskProcess) wait() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	err := p.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}
