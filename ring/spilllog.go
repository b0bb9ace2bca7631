package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-eddy/eddy/internal/filelock"
)

// The log is a row of files. Each begins with a header: a magic number, and the offset up to which its records were taken.
// A record is the length of the message and the CRC-32C of length and message, 4 bytes each, big endian, and the message.
const (
	segmentMagic  = "eddyspl1"
	segmentHeader = 16
	recordHeader  = 8
	firstSegment  = 1 << 32 // smaller numbers are left for what save puts before the first segment
	readAhead     = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func recordSize(msg []byte) int64 { return recordHeader + int64(len(msg)) }

// segmentLog is the part of a Spill that is on disk. Records are appended behind the last and taken from the first. One
// goroutine appends, and one at a time takes. mu guards what both look at and is held across no system call.
type segmentLog struct {
	o    SpillOptions
	lock *os.File
	buf  []byte // of append

	mu        sync.Mutex
	segments  []*segment
	count     int   // records not taken
	size      int64 // of all files
	cut       int64
	appending bool   // the last segment is being written to
	newest    uint64 // id of the newest segment ever: names are not used again, because the old file may still be on its way out

	// For the goroutine that takes.
	readFrom *segment
	ahead    []byte // bytes of readFrom from at on
	at       int64
}

// segment is one file.
type segment struct {
	id     uint64
	name   string
	f      logFile
	size   int64
	left   int   // records not taken
	at     int64 // where the first of them begins
	broken bool  // its end is unknown: nothing more is appended
}

// openLog locks the directory and finds what an earlier process left.
func openLog(o SpillOptions) (*segmentLog, error) {
	if err := o.files.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("ring: spill directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(o.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ring: spill directory: %w", err)
	}
	if err := filelock.Lock(lock); err != nil {
		lock.Close()
		if errors.Is(err, filelock.ErrLocked) {
			return nil, fmt.Errorf("ring: spill directory %s is in use by another queue", o.Dir)
		}
		return nil, fmt.Errorf("ring: spill directory %s: %w", o.Dir, err)
	}
	l := &segmentLog{o: o, lock: lock}
	if err := l.recover(); err != nil {
		_ = l.close() // the error that led here is the one to report
		return nil, fmt.Errorf("ring: spill log: %w", err)
	}
	return l, nil
}

// recover opens the files that are there, or removes them if they are to be discarded.
func (l *segmentLog) recover() error {
	names, err := l.o.files.Names(filepath.Join(l.o.Dir, "*.seg"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if l.o.Discard {
			if err := l.o.files.Remove(name); err != nil {
				return err
			}
			continue
		}
		if err := l.reopen(name); err != nil {
			return err
		}
	}
	return nil
}

// reopen reads a file of an earlier process, cuts off what is torn and drops it when nothing is left.
func (l *segmentLog) reopen(name string) error {
	s := &segment{name: name}
	if _, err := fmt.Sscanf(filepath.Base(name), "%016x.seg", &s.id); err != nil {
		return fmt.Errorf("%s does not belong to a log: move it away", name)
	}
	l.newest = max(l.newest, s.id)
	var err error
	if s.f, err = l.o.files.Open(name); err != nil {
		return err
	}
	size, err := s.f.Size()
	if err == nil {
		err = l.scan(s, size)
	}
	if err == nil && s.size < size {
		l.cut += size - s.size
		err = s.f.Truncate(s.size)
	}
	if err != nil {
		_ = s.f.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	if s.left == 0 {
		return errors.Join(s.f.Close(), l.o.files.Remove(name))
	}
	l.segments = append(l.segments, s)
	l.count += s.left
	l.size += s.size
	return nil
}

// scan counts the whole records that were not taken. s.size becomes the end of the last one.
func (l *segmentLog) scan(s *segment, size int64) error {
	var head [segmentHeader]byte
	if size < segmentHeader {
		return nil
	}
	if _, err := s.f.ReadAt(head[:], 0); err != nil {
		return err
	}
	if string(head[:8]) != segmentMagic {
		return nil
	}
	s.at = int64(binary.BigEndian.Uint64(head[8:]))
	if s.at < segmentHeader || s.at > size {
		s.at = segmentHeader
	}
	s.size = s.at
	r := reader{f: s.f, end: size}
	for {
		msg, err := r.record(s.size, l.o.MaxMessage)
		if err != nil {
			return err
		}
		if msg == nil {
			return nil
		}
		s.size += recordSize(msg)
		s.left++
	}
}

// reader reads records ahead.
type reader struct {
	f    logFile
	end  int64 // of what may be read
	buf  []byte
	from int64 // where buf stands in the file
}

// record returns the record at an offset, valid until the next call, or nil when there is no whole one. An empty message
// is not nil.
func (r *reader) record(at int64, most int) ([]byte, error) {
	head, err := r.bytes(at, recordHeader)
	if head == nil || err != nil {
		return nil, err
	}
	n, sum := int(binary.BigEndian.Uint32(head)), binary.BigEndian.Uint32(head[4:])
	if n < 0 || n > most {
		return nil, nil
	}
	rec, err := r.bytes(at, recordHeader+n)
	if rec == nil || err != nil || checksum(rec[:4], rec[recordHeader:]) != sum {
		return nil, err
	}
	return rec[recordHeader:], nil
}

// bytes returns n bytes at an offset, nil when the file is too short.
func (r *reader) bytes(at int64, n int) ([]byte, error) {
	if at+int64(n) > r.end {
		return nil, nil
	}
	if skip := at - r.from; skip >= 0 && skip+int64(n) <= int64(len(r.buf)) {
		return r.buf[skip : skip+int64(n)], nil
	}
	want := int(min(int64(max(n, readAhead)), r.end-at))
	if cap(r.buf) < want {
		r.buf = make([]byte, want)
	}
	r.buf, r.from = r.buf[:want], at
	if _, err := r.f.ReadAt(r.buf, at); err != nil {
		r.buf = r.buf[:0]
		return nil, err
	}
	return r.buf[:n], nil
}

func checksum(length, msg []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, msg)
}

// held returns how many records wait and the size of the files.
func (l *segmentLog) held() (count int, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count, l.size
}

func (l *segmentLog) cutBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// append writes messages behind the last record, all of them or none.
func (l *segmentLog) append(batch [][]byte) error {
	s, err := l.write(batch)
	if err == nil {
		l.added(s, len(batch))
	}
	return err
}

// write is append without the counting. Until added is called, readers do not see the records.
func (l *segmentLog) write(batch [][]byte) (*segment, error) {
	s, err := l.tail()
	if err != nil {
		return nil, fmt.Errorf("ring: spill log: %w", err)
	}
	l.buf = l.buf[:0]
	for _, msg := range batch {
		l.buf = appendRecord(l.buf, msg)
	}
	_, err = s.f.WriteAt(l.buf, s.size) // s.size is changed by this goroutine only
	if err == nil && l.o.Sync {
		err = s.f.Sync()
	}
	if err == nil {
		return s, nil
	}
	if s.f.Truncate(s.size) != nil {
		s.broken = true // its next reader cuts it
	}
	l.mu.Lock()
	l.appending = false
	l.mu.Unlock()
	return nil, fmt.Errorf("ring: spill log: %w", err)
}

// added counts the records that write has written to a segment.
func (l *segmentLog) added(s *segment, records int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appending = false
	s.size += int64(len(l.buf))
	l.size += int64(len(l.buf))
	s.left += records
	l.count += records
	if cap(l.buf) > 1<<20 {
		l.buf = nil
	}
}

func appendRecord(b, msg []byte) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(msg)))
	b = binary.BigEndian.AppendUint32(b, checksum(b[at:at+4], msg))
	return append(b, msg...)
}

// tail returns the segment to append to, a new one when the last is long enough or broken, and keeps it from being
// removed.
func (l *segmentLog) tail() (*segment, error) {
	l.mu.Lock()
	if n := len(l.segments); n > 0 {
		if s := l.segments[n-1]; s.size < l.o.SegmentBytes && !s.broken {
			l.appending = true
			l.mu.Unlock()
			return s, nil
		}
	}
	l.newest = max(l.newest+1, firstSegment)
	id := l.newest
	l.mu.Unlock()
	s, err := l.create(id)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.segments = append(l.segments, s)
	l.size += s.size
	l.appending = true
	l.mu.Unlock()
	return s, nil
}

// create makes a file with nothing but its header.
func (l *segmentLog) create(id uint64) (*segment, error) {
	s := &segment{id: id, name: filepath.Join(l.o.Dir, fmt.Sprintf("%016x.seg", id)), size: segmentHeader, at: segmentHeader}
	var err error
	if s.f, err = l.o.files.Open(s.name); err != nil {
		return nil, err
	}
	head := binary.BigEndian.AppendUint64([]byte(segmentMagic), segmentHeader)
	err = s.f.Truncate(0) // left by a creation that failed before
	if err == nil {
		_, err = s.f.WriteAt(head, 0)
	}
	if err != nil {
		_ = s.f.Close()
		_ = l.o.files.Remove(s.name)
		return nil, err
	}
	return s, nil
}

// next takes the first record. nil without an error means that the rest of the first file could not be read and was
// dropped.
func (l *segmentLog) next() ([]byte, error) {
	s := l.first()
	if s == nil {
		return nil, nil
	}
	l.mu.Lock()
	end := s.size
	l.mu.Unlock()
	r := reader{f: s.f, end: end, buf: l.ahead, from: l.at}
	if l.readFrom != s {
		r.buf = r.buf[:0]
	}
	rec, err := r.record(s.at, l.o.MaxMessage)
	l.ahead, l.at, l.readFrom = r.buf, r.from, s
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the file is shorter than what was written, and will stay so
		return nil, fmt.Errorf("ring: spill log: %s: %w", s.name, err)
	}
	if rec == nil {
		l.skip(s, end)
		return nil, nil
	}
	msg := append(make([]byte, 0, len(rec)), rec...)
	s.at += recordSize(msg)
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(s.at))
	_, _ = s.f.WriteAt(at[:], 8) // if this fails, the record is delivered again after a crash
	l.mu.Lock()
	s.left--
	l.count--
	l.mu.Unlock()
	l.tidy()
	return msg, nil
}

// first returns the oldest segment that holds a record.
func (l *segmentLog) first() *segment {
	l.tidy()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return nil
	}
	return l.segments[0]
}

// skip gives up what a damaged file still holds.
func (l *segmentLog) skip(s *segment, end int64) {
	l.mu.Lock()
	l.cut += end - s.at
	l.count -= s.left
	s.left, s.at = 0, end // what is appended later can be read
	l.mu.Unlock()
	l.tidy()
}

// tidy removes the files in front that hold no record any more, except one that is being written to.
func (l *segmentLog) tidy() {
	for {
		l.mu.Lock()
		if len(l.segments) == 0 || l.segments[0].left > 0 || len(l.segments) == 1 && (l.appending || l.count > 0) {
			l.mu.Unlock()
			return
		}
		s := l.segments[0]
		l.segments = l.segments[1:]
		l.size -= s.size
		l.mu.Unlock()
		_ = s.f.Close()
		_ = l.o.files.Remove(s.name) // if it stays, the next start finds nothing in it and tries again
	}
}

// save writes what a queue holds in memory before and behind the records of the log. Nobody else uses the log any more.
func (l *segmentLog) save(before, behind [][]byte) error {
	if len(before) > 0 && l.count > 0 {
		rest := l.segments
		s, err := l.create(rest[0].id - 1)
		if err != nil {
			return fmt.Errorf("ring: spill log: %d messages are lost: %w", len(before)+len(behind), err)
		}
		l.segments = []*segment{s}
		limit := l.o.SegmentBytes
		l.o.SegmentBytes = 1 << 62 // all into this one
		err = l.append(before)
		l.o.SegmentBytes = limit
		l.segments = append(l.segments, rest...)
		if err != nil {
			return fmt.Errorf("%w: %d messages are lost", err, len(before)+len(behind))
		}
		before = nil
	}
	for _, batch := range [][][]byte{before, behind} {
		if len(batch) == 0 {
			continue
		}
		if err := l.append(batch); err != nil {
			return fmt.Errorf("%w: %d messages are lost", err, len(batch))
		}
	}
	return nil
}

// close gives the files and the directory back.
func (l *segmentLog) close() error {
	var errs []error
	l.tidy()
	for _, s := range l.segments {
		errs = append(errs, s.f.Close())
	}
	return errors.Join(append(errs, l.lock.Close())...)
}
