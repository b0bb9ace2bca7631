//go:build race

package admin

const raceDetector = true
