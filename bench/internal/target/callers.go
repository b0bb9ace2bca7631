package target

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// Calls configures a process of callers. Each of Callers goroutines calls, waits for its response, and calls again.
type Calls struct {
	Addr     string // of the server; "" makes the process the server
	Callers  int
	Size     int // bytes of a request, and of its response
	Warmup   time.Duration
	Duration time.Duration
	Profile  string // file for a processor profile of this process; "" = none
}

// CallFlags reads the command line that servers and callers of the rpc comparison have in common.
func CallFlags() *Calls {
	c := new(Calls)
	flag.StringVar(&c.Addr, "client", "", "be the client of the server at this address")
	flag.IntVar(&c.Callers, "callers", 1, "goroutines that call")
	flag.IntVar(&c.Size, "size", 128, "bytes of a request and of its response")
	flag.DurationVar(&c.Warmup, "warmup", 500*time.Millisecond, "calls before the window")
	flag.DurationVar(&c.Duration, "duration", 2*time.Second, "measured window")
	flag.StringVar(&c.Profile, "profile", "", "write a processor profile of this process to a file")
	return c
}

// Profiled runs the server or the client, under a profile if one is wanted.
func (c *Calls) Profiled(run func() error) error {
	if c.Profile == "" {
		return run()
	}
	f, err := os.Create(c.Profile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	err = run()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}

// CallsDone is the report of a process of callers when it is done, as a line of JSON.
type CallsDone struct {
	Calls     int64                  // in the window
	All       int64                  // with the warm-up
	Elapsed   time.Duration          // the window
	Used      time.Duration          // processor time of this process in the window
	Mallocs   uint64                 // of this process in the window
	Latencies *hdrhistogram.Snapshot // nanoseconds
}

// Run calls from all goroutines, and tells the driver when the window begins and what there was in it. After the window's begin it waits
// for a line of the driver, so that the driver looks at the server's clock in between.
func (c *Calls) Run(call func(request []byte) (response int, err error)) error {
	var wg sync.WaitGroup
	stop := make(chan struct{})
	counting := make([]counter, c.Callers)
	failed := make(chan error, c.Callers)
	for i := range counting {
		wg.Go(func() {
			if err := counting[i].run(stop, c.Size, call); err != nil {
				failed <- err
			}
		})
	}
	over := func() error {
		close(stop)
		wg.Wait()
		select {
		case err := <-failed:
			return err
		default:
			return nil
		}
	}
	time.Sleep(c.Warmup)
	in := bufio.NewScanner(os.Stdin)
	fmt.Println("begin")
	if !in.Scan() {
		return over()
	}
	var all int64
	for i := range counting {
		all += counting[i].reset()
	}
	before, from, used := mallocs(), time.Now(), processTime()
	time.Sleep(c.Duration)
	done := CallsDone{Elapsed: time.Since(from), Used: processTime() - used, Mallocs: mallocs() - before}
	sum := newLatencies()
	for i := range counting {
		done.Calls += counting[i].add(sum)
	}
	fmt.Println("end")
	in.Scan()
	if err := over(); err != nil {
		return err
	}
	done.All, done.Latencies = all+done.Calls, sum.Export()
	return json.NewEncoder(os.Stdout).Encode(done)
}

func newLatencies() *hdrhistogram.Histogram {
	return hdrhistogram.New(1000, int64(10*time.Second), 3)
}

// counter is what one caller has measured.
type counter struct {
	mu        sync.Mutex
	calls     int64
	latencies *hdrhistogram.Histogram
}

func (c *counter) run(stop <-chan struct{}, size int, call func([]byte) (int, error)) error {
	request := make([]byte, size)
	for i := range request {
		request[i] = byte(i)
	}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		from := time.Now()
		n, err := call(request)
		if err != nil {
			return err
		}
		if n != size {
			return fmt.Errorf("a response of %d bytes, want %d", n, size)
		}
		c.mu.Lock()
		if c.latencies == nil {
			c.latencies = newLatencies()
		}
		c.calls++
		_ = c.latencies.RecordValue(int64(min(time.Since(from), 10*time.Second))) // in range, so it cannot fail
		c.mu.Unlock()
	}
}

// reset begins anew and returns the calls until now.
func (c *counter) reset() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.calls
	c.calls = 0
	if c.latencies != nil {
		c.latencies.Reset()
	}
	return n
}

func (c *counter) add(sum *hdrhistogram.Histogram) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latencies != nil {
		sum.Merge(c.latencies)
	}
	return c.calls
}

// processTime returns the processor time of this process, user and system.
func processTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
