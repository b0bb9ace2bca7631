//go:build race

package frame

const raceDetector = true // makes sync.Pool forget some
