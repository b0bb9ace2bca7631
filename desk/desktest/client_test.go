package desktest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
)

// pipe is a connection whose server is the test.
type pipe struct {
	in, out chan []byte
	end     chan struct{}
}

func (p *pipe) Write(_ context.Context, frame []byte) error {
	p.out <- frame
	return nil
}

func (p *pipe) Read(ctx context.Context) ([]byte, error) {
	select {
	case frame := <-p.in:
		return frame, nil
	case <-p.end:
		return nil, io.EOF
	}
}

func (p *pipe) Close() error {
	select {
	case <-p.end:
	default:
		close(p.end)
	}
	return nil
}

// TestSyncIsAskedAgain answers the sync of a client with an error. The client asks again when the error says so, and not otherwise.
func TestSyncIsAskedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		err   string
		again bool
	}{
		"unavailable": {`{"code":"unavailable","text":"the conversation could not be read now","retry_ms":1000}`, true},
		"not found":   {`{"code":"not_found","text":"there is no such conversation"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pipe{in: make(chan []byte, 16), out: make(chan []byte, 16), end: make(chan struct{})}
				c := New(func(context.Context) (Transport, proto.Hello, error) { return p, proto.Hello{}, nil })
				defer c.Close()
				sent := func(want string) (id string) {
					t.Helper()
					var cmd struct{ T, ID string }
					if err := json.Unmarshal(<-p.out, &cmd); err != nil || cmd.T != want {
						t.Fatalf("the client has sent %q, %v, want %q", cmd.T, err, want)
					}
					return cmd.ID
				}
				sent("hello")
				p.in <- []byte(`{"t":"welcome","re":"hello","d":{}}`)
				p.in <- []byte(`{"t":"ev.msg","c":"conv","s":2,"d":{}}`) // the first one is missing
				p.in <- fmt.Appendf(nil, `{"t":"err","re":%q,"c":"conv","d":%s}`, sent("sync"), test.err)
				time.Sleep(time.Minute)
				synctest.Wait()
				if again := len(p.out) > 0; again != test.again {
					t.Fatalf("the client has asked again: %t, want %t", again, test.again)
				}
				if !test.again {
					return
				}
				p.in <- fmt.Appendf(nil, `{"t":"ok","re":%q,"c":"conv","d":{"head":{"last":2},"events":[{"t":"ev.msg","c":"conv","s":1,"d":{}},{"t":"ev.msg","c":"conv","s":2,"d":{}}]}}`, sent("sync"))
				if err := c.Complete(t.Context(), "conv", 2); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
