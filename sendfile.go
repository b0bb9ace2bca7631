package eddy

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/go-eddy/eddy/internal/transport"
)

// File is an outbound message: Length bytes of a file from Offset on. The kernel sends them (sendfile) in their place
// between the other messages, without passing them through the process. Writing a File gives it away, whatever Write
// returns. The engine closes the os.File once: after the last byte, or when the message is refused or lost with its
// connection.
//
// In the outbound queue a File counts as its unsent bytes, at most 256 KiB, because it holds no memory. So files of
// any length are taken, and a few of them make the connection unwritable. Messages behind a file are not refused because
// of its size.
//
// A file that ends early closes the connection with CloseInternalError, because the peer was promised more.
//
// The system calls run on the loop. Data that is not in the page cache is read from the disk, and every connection of
// that loop waits. For files that may be cold, read on a pool and write the pieces with Conn.WriteContext there. Or have
// the pool read the file once (io.Copy to io.Discard) before it writes the File.
type File struct {
	File   *os.File
	Offset int64
	Length int64

	released atomic.Bool
}

const (
	// fileWindow is the most that a File counts for in the outbound queue, in bytes.
	fileWindow = 256 << 10

	// fileChunk is the most bytes of a file that one call sends; such a call counts as fileCalls of the write budget.
	fileChunk = 256 << 10
	fileCalls = 4
)

// Release closes the file, once; the engine calls it. It implements Releaser.
func (f *File) Release() {
	if f.File != nil && f.released.CompareAndSwap(false, true) {
		_ = f.File.Close() // a file that was only read; nobody to tell
	}
}

// window returns the bytes that a file with left bytes to send counts as queued.
func window(left int64) int { return int(min(max(left, 0), fileWindow)) }

func (f *File) check() error {
	if f.File == nil || f.Offset < 0 || f.Length < 0 {
		return fmt.Errorf("eddy: File at offset %d with length %d: it needs an os.File, and neither may be negative", f.Offset, f.Length)
	}
	return nil
}

// enqueueFile queues a file.
func (c *Conn) enqueueFile(f *File) error {
	err := f.check()
	if err == nil && c.loop.out.collect.conn == c {
		err = fmt.Errorf("eddy: a File cannot be part of a message of class %q", c.loop.out.collect.class.Name)
	}
	if err == nil {
		err = c.admitOnLoop(window(f.Length))
	}
	if err == nil && c.has(marked) && len(c.outMarks().Units()) >= transport.MaxUnits {
		err = fmt.Errorf("%w: %d messages and files wait, limit %d", ErrBackpressure, transport.MaxUnits, transport.MaxUnits)
	}
	if err != nil {
		c.refused(err)
	}
	if err != nil || f.Length == 0 {
		f.Release()
		return err
	}
	place := c.loop.mem.segments.Adopt(nil)
	c.pushUnit(transport.Queue{Head: place, Tail: place}, 1, unit{File: f, Left: f.Length})
	c.count(window(f.Length))
	return nil
}

// source is what sends itself in its place in the queue: a File, or the bytes of a pipe.
type source interface {
	// send makes one system call. left is what is left of it.
	send(c *Conn, left int64) (n, offered int, err error)
	// Release ends it, sent or not.
	Release()
}

// fileError says that a file could not be sent to its end.
type fileError struct{ err error }

func (e *fileError) Error() string { return e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// fileAtHead returns the file or pipe at the head of the queue, nil if bytes are there.
func (c *Conn) fileAtHead() *unit {
	if c.out.Head.Len() > 0 {
		return nil
	}
	return &c.outMarks().Units()[0]
}

// dropFile releases the file or pipe that u is, if it is one, because the rest is not sent.
func (c *Conn) dropFile(u unit) {
	if u.File != nil {
		c.queued.Add(-int64(window(u.Left)))
		u.File.Release()
	}
}

// send implements source.
func (f *File) send(c *Conn, left int64) (n, offered int, err error) {
	at := f.Offset + f.Length - left
	offered = int(min(left, fileChunk))
	n, err = c.loop.sock.SendFile(c.fd, f.File, at, offered)
	if n == 0 && err == nil {
		err = &fileError{fmt.Errorf("eddy: file %s ends at %d, %d bytes before what was promised: %w", f.File.Name(), at, left, io.ErrUnexpectedEOF)}
	}
	return n, offered, err
}

// fileSent counts n sent bytes of what is at the head of the queue and removes it after the last one.
func (c *Conn) fileSent(u *unit, n int) {
	was := window(u.Left)
	u.Left -= int64(n)
	c.queued.Add(int64(window(u.Left) - was))
	if u.Left > 0 {
		return
	}
	u.File.Release()
	c.loop.mem.segments.Put(c.out.Pop())
	c.passed(1)
}
