//go:build race

package hessian

// raceEnabled leaves out what counts allocations: with the race detector, pools forget at random.
const raceEnabled = true
