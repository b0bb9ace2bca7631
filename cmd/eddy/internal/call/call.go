// Package call is "eddy call": one call of an RPC server.
package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc"
)

// The exit codes of "eddy call".
const (
	exitUsage    = 1 // the command line
	exitConnect  = 2 // no connection, or it was lost
	exitNotFound = 3
	exitBad      = 4 // BAD_REQUEST, TOO_LARGE
	exitBusy     = 5 // BUSY, UNAVAILABLE: not executed
	exitDeadline = 6
	exitApp      = 7 // the method failed
	exitOther    = 8
)

// callFlags are the flags of "eddy call".
type callFlags struct {
	list, raw, oneWay bool
	grpc              bool
	timeout           time.Duration
	meta              []string
	file              string
	group, version    string
}

// Command builds the command.
func Command(t *cli.Terminal) *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:   "call ADDR [SERVICE METHOD [JSON]]",
		Short: "Call a method of an RPC server, or list its services",
		Long: `Call a method of an RPC server (docs/rpc.md) and print its response. SERVICE is an interface, or a whole key group/interface:version.
JSON is the request; without it the request is null, or what --file holds.

Exit codes: 0 a response, 1 the command line, 2 no connection, 3 NOT_FOUND, 4 BAD_REQUEST or TOO_LARGE, 5 BUSY or UNAVAILABLE (not executed),
6 the timeout, 7 the method failed, 8 anything else.`,
		Example: "  eddy serve rpc\n  eddy call 127.0.0.1:7000 --list\n  eddy call 127.0.0.1:7000 demo.Greeter Hello '{\"name\":\"you\"}'",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(_ *cobra.Command, args []string) error { return run(t, f, args) },
	}
	n := cmd.Flags()
	n.BoolVar(&f.list, "list", false, "list the services, methods, codecs and timeouts of the server")
	n.DurationVar(&f.timeout, "timeout", 5*time.Second, "for the call, connecting included; the server is told")
	n.StringArrayVar(&f.meta, "meta", nil, "metadata KEY=VALUE to send along; may be repeated")
	n.BoolVar(&f.raw, "raw", false, "the request and the response are bytes as they are, not JSON")
	n.StringVar(&f.file, "file", "", "file with the request; - is the standard input")
	n.BoolVar(&f.grpc, "grpc", false, "call by gRPC, of any server that has the reflection service; streams print a line for each response")
	n.BoolVar(&f.oneWay, "oneway", false, "send the request and wait for no response")
	n.StringVar(&f.group, "group", "", "group of the service")
	n.StringVar(&f.version, "version", "", "version of the service")
	return cmd
}

// request is a parsed command line.
type request struct {
	addr   string
	key    rpc.Key
	method string
	body   []byte
	meta   rpc.Metadata
}

func (f *callFlags) parse(args []string) (r request, err error) {
	const usage = `write it like "eddy call 127.0.0.1:7000 demo.Greeter Hello '{"name":"you"}'"`
	switch {
	case f.timeout <= 0:
		return r, fmt.Errorf("--timeout %v is not positive: use a duration such as 5s", f.timeout)
	case len(args) == 0:
		return r, fmt.Errorf("the address of the server is missing: %s", usage)
	}
	r.addr = args[0]
	if _, port, err := net.SplitHostPort(r.addr); err != nil || !cli.ValidPort(port) {
		return r, fmt.Errorf("%q is not host:port: %s", r.addr, usage)
	}
	for _, m := range f.meta {
		key, value, ok := strings.Cut(m, "=")
		if !ok || key == "" {
			return r, fmt.Errorf("--meta %q is not KEY=VALUE", m)
		}
		r.meta = append(r.meta, rpc.Pair{Key: key, Value: value})
	}
	if f.grpc && f.oneWay {
		return r, errors.New("--oneway and --grpc: every call by gRPC is answered; leave one of them out")
	}
	if f.list {
		if len(args) > 1 {
			return r, fmt.Errorf("unexpected argument %q: --list takes the address only", args[1])
		}
		return r, nil
	}
	if len(args) < 3 || len(args) > 4 {
		return r, fmt.Errorf("%d arguments, want an address, a service, a method and JSON: %s; \"eddy call %s --list\" lists what there is", len(args), usage, r.addr)
	}
	r.method = args[2]
	if r.key, err = f.key(args[1]); err != nil {
		return r, err
	}
	r.body, err = f.body(args[3:])
	return r, err
}

// key returns the key of the service, from the argument, --group and --version.
func (f *callFlags) key(service string) (rpc.Key, error) {
	key, err := rpc.ParseKey(service)
	if err != nil {
		return key, fmt.Errorf("%q is no service: write interface, or group/interface:version", service)
	}
	for _, part := range []struct {
		flag, value string
		dst         *string
	}{{"group", f.group, &key.Group}, {"version", f.version, &key.Version}} {
		if part.value == "" {
			continue
		}
		if *part.dst != "" && *part.dst != part.value {
			return key, fmt.Errorf("--%s %s, but the service is %s: leave one of them out", part.flag, part.value, service)
		}
		*part.dst = part.value
	}
	if err := key.Validate(); err != nil {
		return key, fmt.Errorf("--group %q or --version %q cannot be part of a key: they have no '/', ':' or space", f.group, f.version)
	}
	return key, nil
}

// body returns the body of the request, checked if it is JSON.
func (f *callFlags) body(args []string) ([]byte, error) {
	if f.file != "" && len(args) > 0 {
		return nil, fmt.Errorf("unexpected argument %q: the request is in --file %s", args[0], f.file)
	}
	body, from := []byte("null"), "the request"
	switch {
	case len(args) > 0:
		body = []byte(args[0])
	case f.file == "-":
		data, err := io.ReadAll(os.Stdin)
		if err != nil {
			return nil, fmt.Errorf("cannot read the standard input: %w", err)
		}
		body, from = data, "the standard input"
	case f.file != "":
		data, err := os.ReadFile(f.file)
		if err != nil {
			return nil, fmt.Errorf("cannot read the request: %w", err)
		}
		body, from = data, f.file
	case f.raw:
		body = nil
	}
	if f.raw {
		return body, nil
	}
	var v any
	err := json.Unmarshal(body, &v)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, fmt.Errorf("%s is no JSON: %w, at byte %d of %.60q; in a shell put it in single quotes", from, e, e.Offset, body)
	}
	return body, err
}

func run(t *cli.Terminal, f callFlags, args []string) error {
	r, err := f.parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	ctx, stop := t.Interruptible(ctx)
	defer stop()
	if f.grpc {
		return f.explain(r, f.runGRPC(ctx, t, r))
	}
	return f.explain(r, f.runFramed(ctx, t, r))
}

// runFramed makes the call by the frame protocol.
func (f *callFlags) runFramed(ctx context.Context, t *cli.Terminal, r request) error {
	codec := rpc.CodecJSON
	if f.raw {
		codec = rpc.CodecRaw
	}
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{r.addr}, Codec: codec, Timeout: f.timeout, DialTimeout: f.timeout, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer cl.Close()
	switch {
	case f.list:
		err = listServices(ctx, t, cl)
	case f.oneWay && f.raw:
		err = rpc.Send(ctx, cl, r.key, r.method, r.body, rpc.CallMetadata(r.meta...), rpc.WaitWritten())
	case f.oneWay:
		err = rpc.Send(ctx, cl, r.key, r.method, json.RawMessage(r.body), rpc.CallMetadata(r.meta...), rpc.WaitWritten())
	case f.raw:
		var out *[]byte
		if out, err = rpc.Invoke[[]byte](ctx, cl, r.key, r.method, r.body, rpc.CallMetadata(r.meta...)); err == nil {
			_, err = t.Out.Write(*out)
		}
	default:
		var out *json.RawMessage
		if out, err = rpc.Invoke[json.RawMessage](ctx, cl, r.key, r.method, json.RawMessage(r.body), rpc.CallMetadata(r.meta...)); err == nil {
			t.Say("%s", *out)
		}
	}
	if err == nil && f.oneWay {
		// The answer shows that the server has read the one-way request before it, which then outlives the connection.
		_, err = rpc.Invoke[rpc.HealthResponse](ctx, cl, rpc.HealthKey, "Check", &rpc.HealthRequest{}, rpc.CallCodec(rpc.CodecJSON))
	}
	return err
}

// also is what belongs to the address in a command that lists what there is.
func (f *callFlags) also() string {
	if f.grpc {
		return " --grpc"
	}
	return ""
}

// explain turns the reason why a call failed into what to do about it, and an exit code.
func (f *callFlags) explain(r request, err error) error {
	if err == nil {
		return nil
	}
	code, text := exitOther, err
	e, _ := errors.AsType[*rpc.Error](err)
	message := err.Error()
	if e != nil && e.Message != "" {
		message = e.Message
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		code, text = exitConnect, fmt.Errorf("no server listens on %s: start one with \"eddy serve rpc --addr %s\"", r.addr, r.addr)
	case errors.As(err, &dns):
		code, text = exitConnect, fmt.Errorf("the host of %s is unknown", r.addr)
	case errors.Is(err, rpc.ErrNotFound):
		code, text = exitNotFound, fmt.Errorf("NOT_FOUND: %s; \"eddy call %s --list\" lists what there is", message, r.addr+f.also())
	case errors.Is(err, rpc.ErrBadRequest), errors.Is(err, rpc.ErrTooLarge):
		code, text = exitBad, fmt.Errorf("%v: %s", e.Status, message)
	case errors.Is(err, rpc.ErrBusy), errors.Is(err, rpc.ErrUnavailable):
		advice := "later"
		if e.RetryAfter > 0 {
			advice = fmt.Sprintf("after %v", e.RetryAfter)
		}
		code, text = exitBusy, fmt.Errorf("%v: %s; it was not executed: try again %s", e.Status, message, advice)
	case errors.Is(err, rpc.ErrDeadline), errors.Is(err, context.DeadlineExceeded):
		code, text = exitDeadline, fmt.Errorf("no response within the timeout; it may have been executed, and --timeout %v may be too short", f.timeout)
		if e != nil && e.Executed == rpc.ExecutedNo {
			text = fmt.Errorf("no connection to %s within %v", r.addr, f.timeout)
		}
	case errors.Is(err, rpc.ErrApp):
		code, text = exitApp, fmt.Errorf("APP_ERROR: %s", message)
	case errors.Is(err, rpc.ErrConnection):
		code, text = exitConnect, fmt.Errorf("the connection to %s was lost: %w; is it an RPC server?", r.addr, err)
	case errors.Is(err, context.Canceled):
		text = errors.New("interrupted; it may have been executed")
	case e != nil && e.Status != frame.StatusOK:
		text = fmt.Errorf("%v: %s", e.Status, message)
	}
	return &cli.ExitError{Err: text, Code: code}
}

// listServices prints the answer of eddy.Reflection, a line for each method.
func listServices(ctx context.Context, t *cli.Terminal, cl *rpc.Client) error {
	list, err := rpc.Invoke[rpc.ListResponse](ctx, cl, rpc.ReflectionKey, "List", &rpc.ListRequest{})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(t.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERVICE\tVERSION\tGROUP\tMETHOD\tCODECS\tTIMEOUT\tPORTS")
	for _, s := range list.Services {
		timeout := "-"
		if s.TimeoutMS > 0 {
			timeout = (time.Duration(s.TimeoutMS) * time.Millisecond).String()
		}
		for _, m := range s.Methods {
			name := m.Name
			if m.OneWay {
				name += " (one-way)"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Interface, cmp.Or(s.Version, "-"), cmp.Or(s.Group, "-"), name, strings.Join(m.Codecs, ","), timeout, strings.Join(s.Ports, ","))
		}
	}
	return w.Flush()
}
