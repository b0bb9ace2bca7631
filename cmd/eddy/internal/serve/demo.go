package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc"
)

// demoGreeter and the others are the interfaces of the demo services of "eddy serve rpc".
const (
	demoGreeter = "demo.Greeter"
	demoSlow    = "demo.Slow"
	demoFlaky   = "demo.Flaky"
	demoEcho    = "demo.Echo"

	// Those of the samples in Dubbo's documentation.
	javaDemo  = "org.apache.dubbo.config.spring.api.DemoService"
	javaHello = "org.apache.dubbo.config.spring.api.HelloService"
)

// Requests and responses of the demo services.
type (
	helloRequest struct {
		Name string `json:"name"`
	}
	helloResponse struct {
		Message string `json:"message"`
	}
	logRequest struct {
		Line string `json:"line"`
	}
	sleepRequest struct {
		MS int64 `json:"ms"`
	}
	sleepResponse struct {
		Slept int64 `json:"slept_ms"`
	}
	failRequest struct {
		Message string `json:"message"`
	}
	busyRequest struct {
		RetryAfter int64 `json:"retry_after_ms"`
	}
	nothing struct{}
)

// demoMethods are the methods of a demo service.
func demoMethods(t *cli.Terminal, interf string) ([]rpc.Method, bool) {
	switch interf {
	case demoGreeter:
		return []rpc.Method{rpc.Unary("Hello", hello), rpc.OneWay("Log", logLine(t))}, true
	case demoSlow:
		return []rpc.Method{rpc.Unary("Sleep", sleep)}, true
	case demoFlaky:
		return []rpc.Method{rpc.Unary("Fail", fail), rpc.Unary("Panic", panics), rpc.Unary("Busy", busy)}, true
	case demoEcho:
		return []rpc.Method{rpc.Raw("Echo", func(_ context.Context, body []byte) ([]byte, error) { return body, nil })}, true
	case javaDemo:
		return []rpc.Method{text("sayName", demo{}.SayName)}, true
	case javaHello:
		return []rpc.Method{text("sayHello", helloService{}.SayHello)}, true
	}
	return nil, false
}

// demo and helloService are the services of the samples in Dubbo's documentation, with their answers.
type (
	demo         struct{}
	helloService struct{}
)

func (demo) SayName(context.Context, string) (string, error)          { return "server name", nil }
func (demo) GetBox(context.Context) (any, error)                      { return nil, nil }
func (helloService) SayHello(context.Context, string) (string, error) { return "server hello", nil }

// javaImpl is the implementation of a service of Java, nil if there is none.
func javaImpl(interf string) any {
	switch interf {
	case javaDemo:
		return demo{}
	case javaHello:
		return helloService{}
	}
	return nil
}

// text is a method from a text to a text, for callers that are not of Java.
func text(name string, call func(context.Context, string) (string, error)) rpc.Method {
	return rpc.Unary(name, func(ctx context.Context, req *string) (*string, error) {
		said, err := call(ctx, *req)
		return &said, err
	})
}

func hello(_ context.Context, req *helloRequest) (*helloResponse, error) {
	if req.Name == "" {
		return nil, &frame.StatusError{Status: frame.StatusBadRequest, Message: `the name is missing: {"name":"you"}`}
	}
	return &helloResponse{"Hello, " + req.Name + "!"}, nil
}

// logLine prints what a client wants to be logged.
func logLine(t *cli.Terminal) func(context.Context, *logRequest) error {
	return func(_ context.Context, req *logRequest) error {
		t.Note("log: %.200q", req.Line)
		return nil
	}
}

// sleep blocks its goroutine, as a call of a database would.
func sleep(ctx context.Context, req *sleepRequest) (*sleepResponse, error) {
	d := time.Duration(req.MS) * time.Millisecond
	if req.MS < 0 || d > longestSleep {
		return nil, &frame.StatusError{Status: frame.StatusBadRequest, Message: fmt.Sprintf("ms is %d: it must be from 0 to %d", req.MS, longestSleep.Milliseconds())}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return &sleepResponse{req.MS}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func fail(_ context.Context, req *failRequest) (*nothing, error) {
	return nil, errors.New(req.Message)
}

func panics(context.Context, *nothing) (*nothing, error) { panic("it was asked to") }

// busy answers as a full pool would.
func busy(_ context.Context, req *busyRequest) (*nothing, error) {
	return nil, &frame.StatusError{Status: frame.StatusBusy, Message: "as it was asked to be", RetryAfter: time.Duration(req.RetryAfter) * time.Millisecond}
}
