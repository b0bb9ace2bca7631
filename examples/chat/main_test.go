package main

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/examples/internal/try"
	"github.com/go-eddy/eddy/websocket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// member is a client that notes what it hears.
type member chan string

func (member) HandleOpen(*websocket.Conn) error { return nil }

func (m member) HandleMessage(_ *websocket.Conn, _ websocket.Opcode, data []byte) error {
	m <- string(data)
	return nil
}

func (member) HandleClose(*websocket.Conn, int, string) {}

// TestChat: what one member says, all hear, the speaker included.
func TestChat(t *testing.T) {
	srv, err := server()
	if err != nil {
		t.Fatal(err)
	}
	addr := try.Serve(t, srv)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var dialer websocket.Dialer
	defer dialer.Close()
	var members []member
	for _, text := range []string{"a", "b", "c"} {
		m := make(member, 10)
		c, err := dialer.Dial(ctx, "ws://"+addr+"/room", m)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
		if err := c.Write(websocket.Text, []byte(text)); err != nil { // it has joined before the server reads this
			t.Fatal(err)
		}
		for i, m := range members {
			select {
			case got := <-m:
				if got != text {
					t.Errorf("member %d hears %q, want %q", i, got, text)
				}
			case <-ctx.Done():
				t.Fatalf("member %d does not hear %q", i, text)
			}
		}
	}
}
