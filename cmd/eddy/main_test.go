package main

import (
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

func TestMain(m *testing.M) { cmdtest.Main(m, main) }
