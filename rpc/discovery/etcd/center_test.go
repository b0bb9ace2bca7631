package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// TestCenter: a center has the texts that are in etcd, waits for one that does not answer, and says why it has waited; what is no name is refused.
func TestCenter(t *testing.T) {
	s := newServer(t)
	p := proxied(t, s)
	put(t, raw(t, s), "/dubbo/config/dubbo/dubbo.properties", "a=1")
	put(t, raw(t, s), "/own/config/dubbo/dubbo.properties", "a=2")
	center, err := Engine().OpenCenter("etcd://" + p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer center.Close()
	p.Refuse(true)
	late := make(chan string, 1)
	go func() {
		text, err := center.Text(testkit.Context(t), "dubbo", "dubbo.properties")
		late <- fmt.Sprintf("%s, %v", text, err)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := center.Text(ctx, "dubbo", "dubbo.properties"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	p.Refuse(false)
	if got := testkit.Receive(t, "the text", late); got != "a=1, <nil>" {
		t.Error(got)
	}
	if text, err := center.Text(testkit.Context(t), "shop", "dubbo.properties"); text != "" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	for _, name := range []string{"", "a/b"} {
		if _, err := center.Text(t.Context(), name, "k"); err == nil || !strings.Contains(err.Error(), "is no name of a text") {
			t.Errorf("%q: %v", name, err)
		}
	}
	own, err := Engine().OpenCenter("etcd://" + p.Addr() + "?group=own")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if text, err := own.Text(testkit.Context(t), "dubbo", "dubbo.properties"); text != "a=2" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := center.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := center.Text(t.Context(), "dubbo", "dubbo.properties"); !errors.Is(err, discovery.ErrClosed) {
		t.Error(err)
	}
	if _, err := Engine().OpenCenter("etcd://"); err == nil {
		t.Error("a center without servers")
	}
}

// TestCenterIsRefused: a name that etcd does not let in learns it at once.
func TestCenterIsRefused(t *testing.T) {
	s := newServer(t)
	c := raw(t, s)
	ctx := testkit.Context(t)
	for _, step := range []func() error{
		func() error { _, err := c.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.UserAdd(ctx, "u", "secret"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	for user, want := range map[string]string{"u:secret@": "permission denied", "": "user name is empty"} {
		center, err := Engine().OpenCenter("etcd://" + user + s.addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := center.Text(ctx, "g", "k"); err == nil || !strings.Contains(err.Error(), want) || ctx.Err() != nil {
			t.Errorf("%q: %v, want %s", user, err, want)
		}
		if err := center.Close(); err != nil {
			t.Error(err)
		}
	}
}
