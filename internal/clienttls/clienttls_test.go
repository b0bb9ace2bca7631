package clienttls

import (
	"crypto/tls"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/tlsx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPrepare: what is asked for first is made once; the caller's config stays as it is; after Close nothing is made.
func TestPrepare(t *testing.T) {
	closed := errors.New("closed")
	var used, unused TLS
	config := &tls.Config{}
	for range 2 {
		if err := used.Prepare(config, []string{"x"}, "test", tlsx.Options{}); err != nil || used.Layer() == nil || config.NextProtos != nil {
			t.Errorf("%v, %v", err, config.NextProtos)
		}
	}
	used.Close(closed)
	unused.Close(closed)
	if err := unused.Prepare(nil, nil, "test", tlsx.Options{}); !errors.Is(err, closed) {
		t.Error(err)
	}
}
