package reactor

import (
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/goid"
)

func TestFindStack(t *testing.T) {
	dump := []byte("goroutine 1 [running]:\nmain.main()\n\t/x/main.go:3 +0x1d\n\ngoroutine 17 [chan receive]:\nmain.f(0x1, 0x2)\n\t/x/f.go:1\n\n" +
		"goroutine 7 [select]:\nmain.g()\n\t/x/g.go:1\n")
	for id, want := range map[uint64]string{1: "main.main()", 17: "main.f(", 7: "main.g()", 2: ""} {
		got := findStack(dump, id)
		if (want == "") != (got == "") || !strings.Contains(got, want) || strings.Count(got, "goroutine ") > 1 {
			t.Errorf("goroutine %d: %q", id, got)
		}
	}
	if s := StackOf(goid.Current()); !strings.Contains(s, "TestFindStack") || strings.Count(s, "\n\n") > 0 {
		t.Errorf("my own stack is %q", s)
	}
	if s := StackOf(1 << 60); s != "" {
		t.Errorf("nobody's stack is %q", s)
	}
}

func TestHandlerIn(t *testing.T) {
	const deliver = "github.com/go-eddy/eddy.(*Context).deliverRead(...)\n\t/e.go:1\n"
	const run = "github.com/go-eddy/eddy.(*loop).run(0x1)\n\t/e.go:2\n" + "created by github.com/go-eddy/eddy.(*loop).start in goroutine 1\n\t/e.go:3"
	for stack, want := range map[string]string{
		"goroutine 5 [chan receive]:\nmain.wait(0x1)\n\t/x.go:1\nmain.(*App).HandleRead(0x1, {0x2, 0x3})\n\t/x.go:2\n" + deliver + run: "main.(*App).HandleRead",
		"goroutine 5 [running]:\ngithub.com/go-eddy/eddy/buf.(*Segment).Commit(0x1)\n\t/b.go:1\ngithub.com/go-eddy/eddy.(*Conn).enqueue(0x1)\n\t/e.go:1\n" +
			"main.main.func1(0x1)\n\t/x.go:2\ngithub.com/go-eddy/eddy.typed[...].HandleRead(0x1)\n\t/e.go:2": "main.main.func1",
		"goroutine 5 [sleep]:\ntime.Sleep(0x1)\n\t/s.go:1\nexample.org/x/app.Guard.HandleRead(0x1)\n\t/x.go:1\n" + deliver +
			"github.com/go-eddy/eddy/codec/line.(*Decoder).Decode(0x1)\n\t/d.go:1\n" + run: "example.org/x/app.Guard.HandleRead",
		"goroutine 5 [runnable]:\nmain.less(0x1)\n\t/x.go:1\nsort.Slice(0x1)\n\t/s.go:1\nmain.page(0x1)\n\t/x.go:2\nnet/http.HandlerFunc.ServeHTTP(0x1)\n\t/h.go:1\n" +
			"github.com/go-eddy/eddy/http1.(*exchange).run(0x1)\n\t/h.go:2\nmain.outer(0x1)\n\t/x.go:3\n" + deliver + run: "main.page",
		"goroutine 5 [select]:\ngithub.com/go-eddy/eddy/desk/hub.(*Hub).wait(0x1)\n\t/x.go:1\n" + deliver + run:                 "github.com/go-eddy/eddy/desk/hub.(*Hub).wait",
		"goroutine 5 [select]:\ngopkg.in/yaml%2ev3.(*Node).Decode(0x1)\n\t/y.go:1\nmain.f()\n\t/x.go:1\n" + deliver:             "main.f",
		"goroutine 5 [syscall]:\nsyscall.Syscall(0x1)\n\t/s.go:1\ngithub.com/go-eddy/eddy/http1.(*F).x(0x1)\n\t/h.go:1\n" + run: "",
		"goroutine 5 [running]:\n" + run: "",
		"":                               "",
	} {
		if got := HandlerIn(stack); got != want {
			t.Errorf("%q for\n%s", got, stack)
		}
	}
}

func TestStarved(t *testing.T) {
	const run = "github.com/go-eddy/eddy.(*loop).run(0x1)\n\t/e.go:2\n"
	for stack, want := range map[string]bool{
		"goroutine 5 [runnable]:\n" + run:                   true,
		"goroutine 5 [runnable, locked to thread]:\n" + run: true,
		"goroutine 5 [syscall]:\nsyscall.Syscall6(0x1)\n\t/s.go:1\ngithub.com/go-eddy/eddy/internal/poll.(*epoll).Wait(0x1)\n\t/p.go:1\n" + run: true,
		"goroutine 5 [sync.Mutex.Lock]:\nsync.(*Mutex).Lock(0x1)\n\t/s.go:1\n" + run:                                                            false,
		"": false,
	} {
		if got := Starved(stack); got != want {
			t.Errorf("%v for\n%s", got, stack)
		}
	}
}
