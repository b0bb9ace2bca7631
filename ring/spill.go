package ring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Errors of a Spill.
var (
	// ErrFull means that neither memory nor disk takes the message, which was not taken.
	ErrFull = errors.New("ring: spill queue is full")
	// ErrBehind is an ErrFull that passes by itself: the disk works, and SpillOptions.Buffer messages wait for it.
	ErrBehind = fmt.Errorf("%w: the disk is behind", ErrFull)
	// ErrClosed means that the queue takes no more messages, or has given its last.
	ErrClosed = errors.New("ring: spill queue closed")
)

// Defaults of SpillOptions.
const (
	DefaultSpillMemory  = 1024
	DefaultSpillBuffer  = 1024
	DefaultSpillBytes   = 1 << 30
	DefaultSegmentBytes = 64 << 20
	DefaultSpillMessage = 1 << 20
)

// SpillOptions configure a Spill. Only Dir is required.
type SpillOptions struct {
	// Dir holds the log; it is created if it is missing, and used by one Spill at a time.
	Dir string
	// Memory is the number of messages held in memory before the disk is used. 0 means 1024.
	Memory int
	// Buffer is the number of messages that wait for the disk. 0 means 1024. When it is full, Send returns ErrBehind.
	Buffer int
	// MaxMessage is the length of the longest message in bytes. 0 means 1 MiB.
	MaxMessage int
	// MaxBytes bounds the log, its headers included. 0 means 1 GiB.
	MaxBytes int64
	// SegmentBytes is the size of a file of the log. 0 means 64 MiB.
	SegmentBytes int64
	// Sync makes the writer call fsync after each batch. The log then survives the machine and not only the process.
	Sync bool
	// Discard empties the log that an earlier process left. Otherwise its messages come first.
	Discard bool

	files fileSystem // nil = the real one
	retry time.Duration
}

// Spill is a first in, first out queue of messages that goes on on disk when its memory is full. A burst then costs
// neither the sender's time nor its memory. The order is kept: once a message went to disk all later ones do, until the
// log is empty again. Send never waits and never touches a file, because a goroutine of the queue writes the log.
//
// After kill -9, the next start finds the messages that had reached the log, in order. A last message that was written
// only in part is cut off, and messages that were in memory are lost. A message is delivered again if its removal was
// not yet noted: at least once, not exactly once.
//
// Any goroutine may call all methods.
type Spill struct {
	o   SpillOptions
	log *segmentLog

	mu       sync.Mutex
	memory   fifo // older than everything on its way to disk
	waiting  fifo // for the writer; younger than everything in the log
	writing  int  // how many of waiting the writer is writing
	closed   bool
	saved    bool  // what was left has gone to the log for the next start
	fault    error // why the log takes nothing at the moment
	accepted uint64
	spilled  uint64
	rejected uint64
	faults   uint64

	reading sync.Mutex    // one reader of the log at a time
	ready   chan struct{} // there may be something to take
	work    chan struct{} // there may be something to write
	stop    chan struct{}
	done    chan struct{}
}

// SpillStats are the numbers of a Spill.
type SpillStats struct {
	Memory   int    // messages in memory
	Waiting  int    // on their way to disk
	Disk     int    // in the log
	Bytes    int64  // of the log
	Accepted uint64 // messages taken by Send
	Spilled  uint64 // of those, written to the log
	Rejected uint64 // messages refused by Send
	Faults   uint64 // writes that failed
	Cut      int64  // bytes of the log of an earlier process that could not be read
	Fault    error  // why the log takes nothing at the moment, nil when it does
}

// OpenSpill opens the queue and what an earlier process left in its log.
func OpenSpill(o SpillOptions) (*Spill, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	log, err := openLog(o)
	if err != nil {
		return nil, err
	}
	s := &Spill{o: o, log: log, ready: make(chan struct{}, 1), work: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	signal(s.ready) // for what the log holds
	go s.write()
	return s, nil
}

// complete checks the options and fills in the defaults.
func (o *SpillOptions) complete() error {
	if o.Dir == "" {
		return errors.New("ring: SpillOptions.Dir is empty: it names the directory of the log")
	}
	for _, f := range []struct {
		name string
		v    *int64
		def  int64
	}{
		{"MaxBytes", &o.MaxBytes, DefaultSpillBytes}, {"SegmentBytes", &o.SegmentBytes, DefaultSegmentBytes},
	} {
		if err := orDefault(f.name, f.v, f.def); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name string
		v    *int
		def  int
	}{
		{"Memory", &o.Memory, DefaultSpillMemory}, {"Buffer", &o.Buffer, DefaultSpillBuffer}, {"MaxMessage", &o.MaxMessage, DefaultSpillMessage},
	} {
		if err := orDefault(f.name, f.v, f.def); err != nil {
			return err
		}
	}
	o.SegmentBytes = max(min(o.SegmentBytes, o.MaxBytes/4), segmentHeader+1) // at most a quarter, so that space is given back piece by piece
	if o.files == nil {
		o.files = realFiles{}
	}
	if o.retry == 0 {
		o.retry = time.Second
	}
	return nil
}

func orDefault[T int | int64](name string, v *T, def T) error {
	if *v < 0 {
		return fmt.Errorf("ring: SpillOptions.%s is %d: it must not be negative", name, *v)
	}
	if *v == 0 {
		*v = def
	}
	return nil
}

// Send takes a message, which must not be changed afterwards. Send never waits. Errors: ErrFull, which names the limit
// and the fault of the disk, if any; ErrBehind, which is an ErrFull, too; ErrClosed.
func (s *Spill) Send(msg []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if msg == nil {
		msg = []byte{} // nil is what TryRecv returns for none
	}
	if err := s.place(msg); err != nil {
		s.rejected++
		return err
	}
	s.accepted++
	return nil
}

// place puts a message into memory or in line for the disk, so that the order is kept. s.mu is held.
func (s *Spill) place(msg []byte) error {
	if len(msg) > s.o.MaxMessage {
		return fmt.Errorf("%w: message of %d bytes, limit %d", ErrFull, len(msg), s.o.MaxMessage)
	}
	count, size := s.log.held()
	if count == 0 && s.waiting.len() == 0 && s.memory.len() < s.o.Memory {
		s.memory.push(msg)
		signal(s.ready)
		return nil
	}
	if s.waiting.len() >= s.o.Buffer {
		if s.fault != nil {
			return fmt.Errorf("%w: %d messages in memory, and the log takes none: %w", ErrFull, s.memory.len()+s.waiting.len(), s.fault)
		}
		return fmt.Errorf("%w: %d messages wait for it, limit %d", ErrBehind, s.waiting.len(), s.o.Buffer)
	}
	if want := size + s.waiting.bytes + recordSize(msg); want > s.o.MaxBytes {
		return fmt.Errorf("%w: the log would hold %d bytes, limit %d", ErrFull, want, s.o.MaxBytes)
	}
	s.waiting.push(msg)
	signal(s.work)
	return nil
}

// Behind reports whether senders that got ErrBehind should go on waiting, because more than half of the buffer waits for
// a disk that works. When Behind becomes false, also when the disk fails or the queue is closed, Ready receives a value.
func (s *Spill) Behind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && s.fault == nil && s.waiting.len() > s.o.Buffer/2
}

// TryRecv takes the next message; nil when there is none at the moment. TryRecv may read a file. Errors: ErrClosed when
// the queue is closed and empty, or that of a log that cannot be read.
func (s *Spill) TryRecv() ([]byte, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for {
		s.mu.Lock()
		if s.saved {
			s.mu.Unlock()
			return nil, ErrClosed
		}
		if s.memory.len() > 0 {
			defer s.mu.Unlock()
			return s.memory.pop(), nil
		}
		count, _ := s.log.held()
		if count > 0 {
			s.mu.Unlock()
			msg, err := s.log.next()
			if msg == nil && err == nil {
				continue // the log has dropped what could not be read
			}
			return msg, err
		}
		defer s.mu.Unlock()
		switch {
		case s.waiting.len() > 0 && s.writing == 0: // the writer has not come to it, so the disk can be spared
			msg := s.waiting.pop()
			if s.waiting.len() == s.o.Buffer/2 {
				signal(s.ready) // the end of Behind
			}
			return msg, nil
		case s.closed && s.waiting.len() == 0:
			return nil, ErrClosed
		}
		return nil, nil
	}
}

// Recv takes the next message and waits for it as long as ctx allows.
func (s *Spill) Recv(ctx context.Context) ([]byte, error) {
	for {
		msg, err := s.TryRecv()
		if msg != nil || err != nil {
			signal(s.ready) // for the next receiver that waits
			return msg, err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Ready receives a value when there may be something to take. It is for receivers that wait for other things, too. After
// a value, call TryRecv until it returns nil.
func (s *Spill) Ready() <-chan struct{} { return s.ready }

// Stats returns the numbers so far.
func (s *Spill) Stats() SpillStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	count, size := s.log.held()
	return SpillStats{
		Memory: s.memory.len(), Waiting: s.waiting.len(), Disk: count, Bytes: size, Accepted: s.accepted,
		Spilled: s.spilled, Rejected: s.rejected, Faults: s.faults, Cut: s.log.cutBytes(), Fault: s.fault,
	}
}

// CloseSend refuses further messages. Recv gives what is left and then ErrClosed.
func (s *Spill) CloseSend() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	signal(s.ready)
}

// Close ends the queue. Messages that were not taken, those in memory included, stay in the log in order for the next
// start. The error says what could not be saved. Only the first call does anything.
func (s *Spill) Close() error {
	s.mu.Lock()
	first := !s.saved
	s.closed, s.saved = true, true
	s.mu.Unlock()
	if !first {
		return nil
	}
	close(s.stop)
	<-s.done
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	before, behind := s.memory.take(), s.waiting.take()
	s.mu.Unlock()
	err := s.log.save(before, behind)
	signal(s.ready)
	return errors.Join(err, s.log.close())
}

// write is the goroutine that appends to the log.
func (s *Spill) write() {
	defer close(s.done)
	for {
		select {
		case <-s.work:
		case <-s.stop:
			return
		}
		for s.writeBatch() {
		}
	}
}

// writeBatch appends a batch of what waits and reports whether to go on. After a fault it pauses first.
func (s *Spill) writeBatch() bool {
	s.mu.Lock()
	batch := s.waiting.first(maxBatch)
	s.writing = len(batch)
	s.mu.Unlock()
	if len(batch) == 0 {
		return false
	}
	segment, err := s.log.write(batch)
	s.mu.Lock()
	if err == nil { // under one lock, so that no reader finds a message in both places
		s.log.added(segment, len(batch))
		s.waiting.drop(len(batch))
		s.spilled += uint64(len(batch))
	} else {
		s.faults++
	}
	s.writing, s.fault = 0, err
	s.mu.Unlock()
	signal(s.ready)
	if err == nil {
		return true
	}
	select { // readers take what could not be written from memory meanwhile
	case <-time.After(s.o.retry):
		return true
	case <-s.stop:
		return false
	}
}

// maxBatch is the number of messages that are written with one call.
const maxBatch = 256

// signal makes a receive from c possible, unless one is already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
