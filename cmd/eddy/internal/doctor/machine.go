package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/go-eddy/eddy/internal/allowance"
	"github.com/go-eddy/eddy/internal/backend"
	"github.com/go-eddy/eddy/internal/filelock"
	"github.com/go-eddy/eddy/internal/poll"
	"github.com/go-eddy/eddy/internal/sys"
)

const largestFile = 1 << 20 // bytes of the largest file that the checks read

// Machine is the machine that the program runs on. Any goroutine.
func Machine() System { return machine{began: time.Now()} }

type machine struct{ began time.Time }

func (machine) OS() string                     { return runtime.GOOS }
func (machine) Getenv(name string) string      { return os.Getenv(name) }
func (machine) Processors() int                { return runtime.NumCPU() }
func (machine) MaxProcs() int                  { return runtime.GOMAXPROCS(0) }
func (machine) Pollers() []string              { return backend.Available() }
func (machine) Roots() (*x509.CertPool, error) { return x509.SystemCertPool() }
func (machine) Memory() (uint64, error)        { return allowance.Total() }
func (machine) MemoryLimit() int64             { return debug.SetMemoryLimit(-1) }

func (machine) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

func (machine) ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, largestFile+1))
	if err == nil && len(text) > largestFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, largestFile)
	}
	return text, err
}

func (m machine) Clock() Instant {
	now := time.Now()
	return Instant{Wall: now.UnixNano(), Mono: int64(now.Sub(m.began))}
}

// pollerPatience is how long a poller may take to notice that it was woken.
const pollerPatience = 30 * time.Second

func (machine) TryPoller(name string) error {
	p, err := backend.NewPoller(name, poll.Parked)
	if err != nil {
		return err
	}
	if err := p.Wake(); err != nil {
		return errors.Join(err, p.Close())
	}
	from := time.Now()
	_, err = p.Wait(make([]sys.Event, 1), pollerPatience)
	if err == nil && time.Since(from) >= pollerPatience {
		err = fmt.Errorf("it was not woken within %s", pollerPatience)
	}
	return errors.Join(err, p.Close())
}

func (machine) Listen(port int) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	return l.Close()
}

func (machine) TryDir(dir string) (Trial, error) {
	f, err := os.CreateTemp(dir, ".eddy-doctor-*")
	if err != nil {
		return Trial{}, bare(err)
	}
	t, err := tryFile(f)
	return t, errors.Join(err, f.Close(), os.Remove(f.Name()))
}

func tryFile(f *os.File) (Trial, error) {
	if _, err := f.WriteString("eddy doctor\n"); err != nil {
		return Trial{}, bare(err)
	}
	from := time.Now()
	if err := f.Sync(); err != nil {
		return Trial{}, bare(err)
	}
	t := Trial{Sync: time.Since(from)}
	if err := filelock.Lock(f); err != nil {
		return t, fmt.Errorf("it cannot be locked: %w", bare(err))
	}
	second, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
	if err != nil {
		return t, bare(err)
	}
	t.LockFree = filelock.Lock(second) == nil
	return t, second.Close()
}

// bare removes the path of a temporary file from an error.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
