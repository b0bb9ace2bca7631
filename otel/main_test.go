package otel_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// costEnv says to the test's own program that it is a server to be measured, and how it traces.
const costEnv = "EDDY_OTEL_COST"

func TestMain(m *testing.M) {
	if mode := os.Getenv(costEnv); mode != "" {
		if err := serveCost(mode); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
