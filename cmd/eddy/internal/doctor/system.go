package doctor

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"time"

	"github.com/go-eddy/eddy/internal/allowance"
)

// System reports the facts that the checks judge. A fact that a system does not have gives an error that is
// errors.ErrUnsupported or fs.ErrNotExist.
type System interface {
	OS() string                              // as runtime.GOOS has it
	Getenv(name string) string               // of this process
	ReadFile(path string) ([]byte, error)    // /proc and /sys, and the files that the question names
	Stat(path string) (fs.FileInfo, error)   // follows links
	Sysctl(name string) (string, error)      // a value of the kernel, in the kernel's spelling
	FileLimit() (soft, hard uint64, _ error) // descriptors of this process; Unlimited without a limit
	OpenFiles() (int, error)                 // descriptors that this process has
	Processors() int                         // that this process may use
	MaxProcs() int                           // GOMAXPROCS
	Memory() (total uint64, _ error)         // bytes of the machine
	MemoryLimit() int64                      // Go's own limit, GOMEMLIMIT; math.MaxInt64 without one
	Pollers() []string                       // backends that the platform has, best first
	TryPoller(name string) error             // opens one, wakes it, waits for that and closes it
	Clock() Instant
	Synchronised() (bool, error) // the wall clock follows a time server
	Roots() (*x509.CertPool, error)
	Listen(port int) error // on all addresses, and closes
	TryDir(dir string) (Trial, error)
	Volume(dir string) (Volume, error)
}

// Unlimited stands for no limit.
const Unlimited = allowance.Unlimited

// An Instant is one reading of both clocks, in nanoseconds.
type Instant struct{ Wall, Mono int64 }

// Trial is the result of writing, locking and removing a file in a directory.
type Trial struct {
	Sync     time.Duration // how long the disk took to store the file
	LockFree bool          // a second lock on the file was granted: locks are worth nothing here
}

// A Volume is the file system that a directory lies in.
type Volume struct {
	Type string // such as ext4, nfs; "" when unknown
	Free uint64 // bytes that this user may still fill
}

// missing reports whether a fact does not exist on this system, which is no failure.
func missing(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrNotExist)
}
