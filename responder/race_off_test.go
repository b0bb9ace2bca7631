//go:build !race

package responder_test

const raceDetector = false
