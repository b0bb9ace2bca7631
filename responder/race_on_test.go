//go:build race

package responder_test

const raceDetector = true // makes sync.Pool forget some
