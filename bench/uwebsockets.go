package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

const uWebSocketsName = "uWebSockets"

// uWebSocketsVariable is the environment variable that names a checkout of uWebSockets. No package of a distribution has
// its source.
const uWebSocketsVariable = "EDDY_UWEBSOCKETS"

// withUWebSockets adds uWebSockets in a mode to the contenders, if its source is at hand. The note says whether it is.
func withUWebSockets(contenders []contender, mode string) (all []contender, note string, err error) {
	dir := os.Getenv(uWebSocketsVariable)
	if dir == "" {
		return contenders, uWebSocketsName + ": not measured, because " + uWebSocketsVariable + " names no folder with its source.", nil
	}
	if _, err := os.Stat(filepath.Join(dir, "src", "App.h")); err != nil {
		return nil, "", fmt.Errorf("%s=%s: no source of uWebSockets: %w", uWebSocketsVariable, dir, err)
	}
	c := contender{Name: uWebSocketsName, binary: "uwebsockets", args: []string{mode}}
	version := firstLine("git", "-C", dir, "describe", "--tags", "--always")
	return append(contenders[:len(contenders):len(contenders)], c), uWebSocketsName + " " + version + ", g++ -O3 -flto.", nil
}

// beside compares contenders with each other, and with uWebSockets in a mode if it is at hand.
func beside(ctx context.Context, b *binaries, s settings, unit, mode string, load func(*server, settings, testCase) rounder, contenders []contender) (*report, error) {
	contenders, note, err := withUWebSockets(contenders, mode)
	if err != nil {
		return nil, err
	}
	rep, err := compare(ctx, b, s, unit, load, contenders)
	if err == nil {
		rep.Note = note
	}
	return rep, err
}
