package nacos

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// TestCenter: a center has the texts of its namespace, after a login where that is asked for, waits for servers that fail, and says why it has waited.
func TestCenter(t *testing.T) {
	s, addr := newStandIn(t)
	s.password, s.texts = "secret", map[string]string{"/dubbo/dubbo.properties": "a=1", "dev/dubbo/dubbo.properties": "a=2\nb=3"}
	down := httptest.NewServer(nil)
	down.Close()
	host := strings.TrimPrefix(addr, "http://")
	for query, want := range map[string]string{"": "a=1", "?namespace=dev": "a=2\nb=3", "?group=dev": "a=2\nb=3"} {
		center, err := Engine().OpenCenter("nacos://u:secret@" + strings.TrimPrefix(down.URL, "http://") + "," + host + query)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := center.Text(testkit.Context(t), "dubbo", "dubbo.properties"); text != want || err != nil {
			t.Errorf("%q: %q, %v", query, text, err)
		}
		if text, err := center.Text(testkit.Context(t), "shop", "dubbo.properties"); text != "" || err != nil {
			t.Errorf("%q: %q, %v", query, text, err)
		}
		if err := center.Close(); err != nil {
			t.Error(err)
		}
	}
	center, err := Engine().OpenCenter("nacos://u:secret@" + host)
	if err != nil {
		t.Fatal(err)
	}
	defer center.Close()
	s.do(func() { s.status = 503 })
	ctx, cancel := context.WithCancelCause(t.Context())
	late, over := make(chan string, 1), make(chan error, 1)
	go func() {
		text, err := center.Text(testkit.Context(t), "dubbo", "dubbo.properties")
		late <- fmt.Sprintf("%s, %v", text, err)
	}()
	go func() {
		_, err := center.Text(ctx, "dubbo", "dubbo.properties")
		over <- err
	}()
	testkit.Eventually(t, "two attempts of each", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.failed >= 4
	})
	cancel(nil)
	if err := testkit.Receive(t, "the end of waiting", over); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "status 503") {
		t.Error(err)
	}
	s.do(func() { s.status = 0 })
	if got := testkit.Receive(t, "the text", late); got != "a=1, <nil>" {
		t.Error(got)
	}
	for _, name := range []string{"", "a b", "a\x00"} {
		if _, err := center.Text(t.Context(), name, "k"); err == nil || !strings.Contains(err.Error(), "is no name of a text") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := center.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := center.Text(t.Context(), "dubbo", "dubbo.properties"); !errors.Is(err, discovery.ErrClosed) {
		t.Error(err)
	}
	for _, address := range []string{"nacos://", "nacos://a?%zz"} {
		if _, err := Engine().OpenCenter(address); err == nil {
			t.Errorf("%s: no error", address)
		}
	}
}

// TestCenterIsRefused: a name that Nacos does not let in learns it at once.
func TestCenterIsRefused(t *testing.T) {
	s, addr := newStandIn(t)
	s.password = "secret"
	for _, user := range []string{"", "u:wrong@"} {
		center, err := Engine().OpenCenter("nacos://" + user + strings.TrimPrefix(addr, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := center.Text(testkit.Context(t), "dubbo", "k"); err == nil || !strings.Contains(err.Error(), "status 403") {
			t.Errorf("%q: %v", user, err)
		}
		if err := center.Close(); err != nil {
			t.Error(err)
		}
	}
}
