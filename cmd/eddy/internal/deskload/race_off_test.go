//go:build !race

package deskload

const raceDetector = false
