package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/ring"
)

// claims measures common claims about engines like this one (requirement R237), each on its own. The claims are about an
// array of ready connections against a set, pooled memory against garbage, views against copies, and hand-off with
// garbage and without. The claim about ten thousand connections on one loop is the comparison named crowd.
func claims(ctx context.Context, b *binaries, s settings) (*report, error) {
	rep := &report{Rounds: s.rounds, Duration: s.duration.String(), Note: fmt.Sprintf(
		"%d rounds, %s for each row in each, in turn, in one process. Medians; \"times as fast\" compares with the first row within a round. Collections are those of the garbage collector.", s.rounds, s.duration)}
	file, err := zeros(filepath.Join(b.dir, "file"), fileSize)
	if err != nil {
		return nil, err
	}
	link, err := newLink(file)
	if err != nil {
		return nil, err
	}
	defer link.close()
	for _, c := range []struct {
		title, each string
		least       int // least number of times, so that what is made once does not show
		ways        []way
	}{
		{"1000 ready connections: put in, gone through, taken out", "connection", 100 * readyConns, cycles()},
		{"1000 ready connections: gone through", "connection", 100 * readyConns, walks()},
		{"A buffer of 4 KiB for each message, beside 300,000 objects that live on", "message", 20_000, buffers()},
		{"A message of 64 KiB handed on to who looks at its first line", "message", 1000, views()},
		{"A file of 1 MiB to a socket (the receiver's part is in both)", "MiB", 1, link.ways()},
		{"A message of 64 B handed to another goroutine", "message", 20_000, handOffs()},
	} {
		g, err := race(ctx, s, c.title+":", c.each, c.least, c.ways)
		if err != nil {
			return nil, err
		}
		rep.Grids = append(rep.Grids, g)
	}
	return rep, link.failed
}

// way is one of several ways to do the same; do does it n times.
type way struct {
	name string
	do   func(n int)
}

// race runs the ways in turn and returns a row for each.
func race(ctx context.Context, s settings, title, each string, least int, ways []way) (*grid, error) {
	g := &grid{Title: title, First: "way", Columns: []column{
		{"ns per " + each, "%.1f"}, {"times as fast", "%.1f"}, {"lowest", "%.1f"}, {"highest", "%.1f"}, {"allocations", "%.2f"}, {"bytes allocated", "%.0f"}, {"collections per million", "%.1f"},
	}}
	type sums struct{ ns, ratios, allocs, bytes, collections []float64 }
	all := make([]sums, len(ways))
	for round := range s.rounds {
		for i, w := range ways {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			progress("%s round %d of %d: %s", title, round+1, s.rounds, w.name)
			ns, allocs, bytes, collections := timed(w.do, least, s.duration)
			a := &all[i]
			a.ns, a.allocs, a.bytes, a.collections = append(a.ns, ns), append(a.allocs, allocs), append(a.bytes, bytes), append(a.collections, collections)
			a.ratios = append(a.ratios, all[0].ns[round]/ns)
		}
	}
	for i, w := range ways {
		a := all[i]
		g.add(w.name, median(a.ns), median(a.ratios), slices.Min(a.ratios), slices.Max(a.ratios), median(a.allocs), median(a.bytes), median(a.collections)*1e6)
	}
	return g, nil
}

// timed calls do with least and then with larger and larger numbers, until a call takes at least half of d. It returns
// the cost of one time in that last call.
func timed(do func(n int), least int, d time.Duration) (ns, allocs, bytes, collections float64) {
	var before, after runtime.MemStats
	for n := least; ; {
		runtime.GC()
		runtime.ReadMemStats(&before)
		from := time.Now()
		do(n)
		took := time.Since(from)
		runtime.ReadMemStats(&after)
		if took >= d/2 || n >= 1<<30 {
			each := func(v uint64) float64 { return float64(v) / float64(n) }
			return float64(took) / float64(n), each(after.Mallocs - before.Mallocs), each(after.TotalAlloc - before.TotalAlloc), each(uint64(after.NumGC - before.NumGC))
		}
		more := 100 * n
		if took > 0 {
			more = min(more, int(1.2*float64(n)*float64(d)/float64(took)))
		}
		n = max(more, n+1)
	}
}

// readyConn stands for a connection that is ready.
type readyConn struct{ events int }

const readyConns = 1000

func readyCrowd() []*readyConn {
	all := make([]*readyConn, readyConns)
	for i := range all {
		all[i] = &readyConn{events: i & 1}
	}
	return all
}

func cycles() []way {
	crowd := readyCrowd()
	return []way{
		{"set (map[*conn]struct{}), each removed when handled", func(n int) {
			set, handled := map[*readyConn]struct{}{}, 0
			for range (n + readyConns - 1) / readyConns {
				for _, c := range crowd {
					set[c] = struct{}{}
				}
				for c := range set {
					handled += c.events
					delete(set, c)
				}
			}
			runtime.KeepAlive(handled)
		}},
		{"array, its length set to 0", func(n int) {
			array, handled := make([]*readyConn, 0, readyConns), 0
			for range (n + readyConns - 1) / readyConns {
				array = append(array, crowd...)
				for _, c := range array {
					handled += c.events
				}
				array = array[:0]
			}
			runtime.KeepAlive(handled)
		}},
	}
}

func walks() []way {
	crowd := readyCrowd()
	set := map[*readyConn]struct{}{}
	for _, c := range crowd {
		set[c] = struct{}{}
	}
	return []way{
		{"set (map[*conn]struct{})", func(n int) {
			handled := 0
			for range (n + readyConns - 1) / readyConns {
				for c := range set {
					handled += c.events
				}
			}
			runtime.KeepAlive(handled)
		}},
		{"array", func(n int) {
			handled := 0
			for range (n + readyConns - 1) / readyConns {
				for _, c := range crowd {
					handled += c.events
				}
			}
			runtime.KeepAlive(handled)
		}},
	}
}

// buffers takes a buffer for each message, with 64 messages under way at a time.
func buffers() []way {
	const size, under = 4096, 64
	living := make([]*[16]byte, 300_000)
	for i := range living {
		living[i] = new([16]byte)
	}
	return []way{
		{"made for it, left to the collector", func(n int) {
			var out [under][]byte
			for i := range n {
				b := make([]byte, size)
				b[0] = byte(i)
				out[i%under] = b
			}
			runtime.KeepAlive(&out)
			runtime.KeepAlive(living)
		}},
		{"sync.Pool", func(n int) {
			pool := sync.Pool{New: func() any { return new([size]byte) }}
			var out [under]*[size]byte
			for i := range n {
				if old := out[i%under]; old != nil {
					pool.Put(old)
				}
				b := pool.Get().(*[size]byte)
				b[0] = byte(i)
				out[i%under] = b
			}
			runtime.KeepAlive(living)
		}},
		{"buf.Pool", func(n int) {
			pool := buf.NewPool(0)
			var out [under]*buf.Segment
			for i := range n {
				if old := out[i%under]; old != nil {
					pool.Put(old)
				}
				b := pool.Get(size)
				b.Free()[0] = byte(i)
				out[i%under] = b
			}
			runtime.KeepAlive(living)
		}},
	}
}

func views() []way {
	const size = 64 << 10
	scratch := make([]byte, size)
	copy(scratch, "GET / HTTP/1.1\r\n")
	look := func(b []byte) int { return slices.Index(b, '\n') }
	return []way{
		{"copied into memory of its own", func(n int) {
			seen := 0
			for range n {
				seen += look(slices.Clone(scratch))
			}
			runtime.KeepAlive(seen)
		}},
		{"copied into memory that is used again", func(n int) {
			seen, own := 0, make([]byte, size)
			for range n {
				copy(own, scratch)
				seen += look(own)
			}
			runtime.KeepAlive(seen)
		}},
		{"a view of the read buffer", func(n int) {
			seen := 0
			for range n {
				seen += look(scratch[:size:size])
			}
			runtime.KeepAlive(seen)
		}},
	}
}

const fileSize = 1 << 20

func zeros(name string, size int) (string, error) {
	return name, os.WriteFile(name, make([]byte, size), 0o600)
}

// link is a socket whose other end reads everything.
type link struct {
	conn   net.Conn
	file   *os.File
	done   chan struct{}
	failed error
}

func newLink(name string) (*link, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		file.Close()
		return nil, err
	}
	defer l.Close()
	k := &link{file: file, done: make(chan struct{})}
	if k.conn, err = net.Dial("tcp", l.Addr().String()); err != nil {
		file.Close()
		return nil, err
	}
	far, err := l.Accept()
	if err != nil {
		k.conn.Close()
		file.Close()
		return nil, err
	}
	go func() {
		defer close(k.done)
		defer far.Close()
		for b := make([]byte, 256<<10); ; {
			if _, err := far.Read(b); err != nil {
				return
			}
		}
	}()
	return k, nil
}

func (k *link) close() {
	k.conn.Close()
	<-k.done
	k.file.Close()
}

func (k *link) ways() []way {
	send := func(n int, one func() error) {
		for range n {
			if _, err := k.file.Seek(0, io.SeekStart); err != nil {
				k.failed = err
			}
			if err := one(); err != nil {
				k.failed = err
				return
			}
		}
	}
	chunk := make([]byte, 64<<10)
	return []way{
		{"read into memory and written", func(n int) {
			send(n, func() error {
				_, err := io.CopyBuffer(struct{ io.Writer }{k.conn}, struct{ io.Reader }{k.file}, chunk)
				return err
			})
		}},
		{"sendfile", func(n int) {
			send(n, func() error {
				_, err := io.Copy(k.conn, k.file)
				return err
			})
		}},
	}
}

// handed is the message that is handed over.
type handed struct {
	n int
	_ [56]byte
}

const handCapacity = 1024

func handOffs() []way {
	return []way{
		{"channel of pointers, a new message each", func(n int) {
			ch, done := make(chan *handed, handCapacity), make(chan int)
			go func() {
				sum := 0
				for m := range ch {
					sum += m.n
				}
				done <- sum
			}()
			for i := range n {
				ch <- &handed{n: i}
			}
			close(ch)
			<-done
		}},
		{"channel of values", func(n int) {
			ch, done := make(chan handed, handCapacity), make(chan int)
			go func() {
				sum := 0
				for m := range ch {
					sum += m.n
				}
				done <- sum
			}()
			for i := range n {
				ch <- handed{n: i}
			}
			close(ch)
			<-done
		}},
		{"ring.SPSC, the slots of which are the messages, in batches of 64", handOverRing},
	}
}

// handOverRing hands messages over through a ring. Both sides sleep while there is nothing to do, as with a channel.
func handOverRing(n int) {
	const batch = 64
	q, err := ring.NewSPSC[handed](handCapacity)
	if err != nil {
		panic(err) // the capacity is a constant
	}
	filled, freed, done := ring.NewBell(), ring.NewBell(), make(chan int)
	go func() {
		sum := 0
		for got := 0; got < n; {
			slots := q.FetchBatch(batch)
			for i := range slots {
				sum += slots[i].n
			}
			got += len(slots)
			q.Release()
			if len(slots) > 0 {
				freed.Ring()
				continue
			}
			filled.Wait(func() bool { return q.Len() > 0 }, nil)
		}
		done <- sum
	}()
	for i := 0; i < n; {
		slots := q.NextBatch(min(batch, n-i))
		for k := range slots {
			slots[k].n = i + k
		}
		i += len(slots)
		q.Publish()
		if len(slots) > 0 {
			filled.Ring()
			continue
		}
		freed.Wait(func() bool { return q.Len() < q.Cap()/2 }, nil)
	}
	<-done
}
