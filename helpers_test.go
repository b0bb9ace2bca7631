package eddy_test

import (
	"log/slog"

	"github.com/go-eddy/eddy/internal/testkit"
)

// quiet is a logger for tests that provoke errors.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// logBuffer collects log output.
type logBuffer struct{ testkit.Output }

func newLog() *logBuffer { return &logBuffer{} }

func (b *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
