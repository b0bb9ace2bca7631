package zookeeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	maxAnswer   = 8 << 20         // of one answer in bytes: the names of some thousand providers
	maxGreeting = 256             // of the first answer
	minAnswer   = 16              // xid, zxid and error code
	greetWithin = 5 * time.Second // from the connect to the end of the first answer
)

// guard is a connection whose answers are checked before the client library reads them, because it takes lengths as they come: it would allocate
// gigabytes, wait for ever or panic over the answer of something that is no ZooKeeper. One goroutine reads, as the library does.
type guard struct {
	net.Conn
	in      *bufio.Reader
	left    int // bytes of the answer at hand that were not read
	greeted bool
	greetBy time.Time
	failed  func(error) // is told why an answer is none
}

func newGuard(c net.Conn, failed func(error)) *guard {
	return &guard{Conn: c, in: bufio.NewReader(c), greetBy: time.Now().Add(greetWithin), failed: failed}
}

// SetReadDeadline implements net.Conn. The library takes its deadlines away before the body of an answer; here they stay until the next one.
func (g *guard) SetReadDeadline(t time.Time) error {
	switch {
	case t.IsZero():
		return nil
	case !g.greeted && g.greetBy.Before(t):
		t = g.greetBy
	}
	return g.Conn.SetReadDeadline(t)
}

// Read implements net.Conn. It ends with each answer.
func (g *guard) Read(p []byte) (int, error) {
	if g.left == 0 {
		if err := g.check(); err != nil {
			g.failed(err)
			return 0, err
		}
	}
	n, err := g.in.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

// check looks at the beginning of an answer.
func (g *guard) check() error {
	head, err := g.in.Peek(4)
	switch {
	case err == io.EOF && !g.greeted:
		return errors.New("zookeeper: the server has ended the connection: it is starting, full, or has lost its memory")
	case err != nil:
		return err
	}
	n := int(binary.BigEndian.Uint32(head))
	if !g.greeted {
		err = g.greeting(n)
	} else {
		err = g.answer(n)
	}
	g.left = 4 + n
	return err
}

// greeting checks the answer to the connect: version, timeout, session and password.
func (g *guard) greeting(n int) error {
	const fixed = 4 + 4 + 8 + 4
	if n < fixed || n > maxGreeting {
		return fmt.Errorf("zookeeper: a first answer of %d bytes: this is no server of ZooKeeper", n)
	}
	head, err := g.in.Peek(4 + fixed)
	if err != nil {
		return err
	}
	timeout := int32(binary.BigEndian.Uint32(head[8:]))
	session := binary.BigEndian.Uint64(head[12:])
	if password := int(int32(binary.BigEndian.Uint32(head[20:]))); password > n-fixed {
		return fmt.Errorf("zookeeper: a first answer with a password of %d bytes in %d", password, n)
	}
	if d := time.Duration(timeout) * time.Millisecond; session != 0 && (d < minSession/10 || d > 24*time.Hour) {
		return fmt.Errorf("zookeeper: a session of %v", d)
	}
	g.greeted = true
	return nil
}

// answer checks an answer to a request. The bodies of those that the registry makes begin with a length, or are empty.
func (g *guard) answer(n int) error {
	if n < minAnswer || n > maxAnswer {
		return fmt.Errorf("zookeeper: an answer of %d bytes: it must be from %d to %d", n, minAnswer, maxAnswer)
	}
	if n < minAnswer+4 {
		return nil
	}
	head, err := g.in.Peek(4 + minAnswer + 4)
	if err != nil {
		return err
	}
	xid, failure := int32(binary.BigEndian.Uint32(head[4:])), binary.BigEndian.Uint32(head[16:])
	length := int(int32(binary.BigEndian.Uint32(head[20:])))
	if xid >= 0 && failure == 0 && (length > n-minAnswer-4 || length < -1) {
		return fmt.Errorf("zookeeper: an answer of %d bytes that speaks of %d", n, length)
	}
	return nil
}
