//go:build !race

package frame

const raceDetector = false
