//go:build !race

package eddy

const raceDetector = false
