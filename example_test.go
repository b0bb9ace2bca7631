package eddy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
)

// tellExample sends text to a server of the examples and returns what it answers until it closes, or until it has answered so many lines.
func tellExample(srv *eddy.Server, text string, answers int) string {
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		return err.Error()
	}
	var all string
	r := bufio.NewReader(c)
	for range answers {
		got, err := r.ReadString('\n')
		if all += got; err != nil {
			return all + err.Error()
		}
	}
	return all
}

// loudExample is the pipeline of a server that answers lines in capital letters.
func loudExample(p *eddy.Pipeline) error {
	p.Add("lines", line.Codec(1024))
	return p.Add("shout", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
		return ctx.WriteBytes(append(bytes.ToUpper(l.Text()), '\n'))
	}))
}

func ExampleServer() {
	srv := &eddy.Server{
		Init:        loudExample,
		MaxConns:    10_000,
		IdleTimeout: time.Minute,
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil { // or ListenAndServe, which also waits
		fmt.Println(err)
		return
	}
	defer srv.Close()
	fmt.Print(tellExample(srv, "hello\n", 1))
	// Output: HELLO
}

func ExampleServer_Shutdown() {
	srv := &eddy.Server{Init: loudExample}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	// At a signal: what is in flight may finish, for at most a minute.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	report, err := srv.Shutdown(ctx)
	fmt.Println(report.Drained, "drained,", report.Forced, "forced,", report.Dropped, "dropped,", err)
	fmt.Println(srv.Wait())
	// Output:
	// 0 drained, 0 forced, 0 dropped, <nil>
	// eddy: server closed
}

// Two servers and a dialer on the same loops.
func ExampleGroup() {
	group := &eddy.Group{Name: "io", Loops: 2}
	defer group.Close()
	a, b := &eddy.Server{Group: group, Init: loudExample}, &eddy.Server{Group: group, Init: loudExample}
	for _, srv := range []*eddy.Server{a, b} {
		if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
			fmt.Println(err)
			return
		}
		defer srv.Close()
	}
	fmt.Print(tellExample(a, "one\n", 1), tellExample(b, "two\n", 1))
	fmt.Println(group.Loop(0).Name(), group.Loop(1).Name())
	// Output:
	// ONE
	// TWO
	// io-0 io-1
}

func ExampleDialer() {
	srv := &eddy.Server{Init: loudExample}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	answers := make(chan string, 1)
	dialer := &eddy.Dialer{Init: func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(1024))
		return p.Add("answers", eddy.Handle(func(_ *eddy.Context, l *line.Line) error {
			answers <- string(l.Text()) // on the loop: the channel has room
			return nil
		}))
	}}
	defer dialer.Close()
	conn, err := dialer.Dial(context.Background(), "tcp", srv.Addr().String())
	if err == nil {
		err = conn.Write("hello\n")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-answers)
	// Output: HELLO
}

// A handler that may block is on a pool. When that is full, the peer is told.
func ExampleRejectReply() {
	pool, err := executor.NewFixed(executor.Options{Name: "work", Workers: 1, Queue: executor.HandOff})
	if err != nil {
		fmt.Println(err)
		return
	}
	gate := make(chan struct{})
	work := eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
		<-gate
		return ctx.Write(fmt.Sprintf("done: %s\n", l.Text()))
	})
	busy := eddy.RejectReply(func(any) any { return "busy\n" })
	srv := &eddy.Server{Pools: []*executor.Pool{pool}, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(1024))
		return p.Add("work", work, eddy.On(pool), busy)
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	if err := pool.SubmitFunc(func() { <-gate }); err != nil { // the only worker
		fmt.Println(err)
	}
	fmt.Print(tellExample(srv, "hello\n", 1))
	close(gate)
	// Output: busy
}

func ExampleConn_WriteFuture() {
	sent := make(chan error, 1)
	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error {
		return p.Add("answer", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
			ctx.Conn().WriteFuture("take this\n").OnDone(func(f *eddy.Future) { sent <- f.Err() })
			return nil
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	fmt.Print(tellExample(srv, "?", 1))
	fmt.Println("in the kernel:", <-sent)
	// Output:
	// take this
	// in the kernel: <nil>
}

// Of positions that a slow peer has not taken yet only the newest is worth anything.
func ExampleMessageClass() {
	positions := &eddy.MessageClass{Name: "positions", Policy: eddy.OverflowKeepLatest, MaxMessages: 1}
	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error {
		return p.Add("fleet", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
			for i := range 1000 {
				if err := ctx.Write(positions.Wrap(fmt.Appendf(nil, "at %d\n", i))); err != nil {
					return err
				}
			}
			return nil
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	fmt.Print(tellExample(srv, "where?", 1))
	fmt.Println(positions.Stats().Dropped, "were out of date before they were sent")
	// Output:
	// at 999
	// 999 were out of date before they were sent
}

// The second connection of a network hears that it is one too many.
func ExampleAdmission() {
	srv := &eddy.Server{Init: loudExample, Admission: eddy.Admission{
		MaxPerIP: 1,
		OnLimit:  eddy.DecisionBusy,
		Busy:     func(r eddy.Refusal) []byte { return fmt.Appendf(nil, "busy: %v\n", r.Cause) },
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	first, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Close()
	fmt.Fprint(first, "hello\n")
	answer, _ := bufio.NewReader(first).ReadString('\n')
	fmt.Print(answer)
	fmt.Print(tellExample(srv, "", 1))
	// Output:
	// HELLO
	// busy: max_per_ip
}

func ExampleLoop_Every() {
	group := &eddy.Group{Loops: 1}
	if err := group.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer group.Close()
	var ticks sync.WaitGroup
	ticks.Add(3)
	left := 3
	timer, err := group.Loop(0).Every(time.Millisecond, func() {
		if left > 0 { // only the loop touches it
			left--
			ticks.Done()
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ticks.Wait()
	fmt.Println("three ticks, stopped:", timer.Stop())
	// Output: three ticks, stopped: true
}
