package serve_test

import (
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/cmd/eddy/internal/root"
)

func TestMain(m *testing.M) { cmdtest.Main(m, root.Main) }
