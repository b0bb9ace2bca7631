package benchdesk_test

import (
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/cmd/eddy/internal/root"
	"github.com/go-eddy/eddy/desk/store/pgtest"
)

func TestMain(m *testing.M) { cmdtest.Main(pgtest.Closing{M: m}, root.Main) }
