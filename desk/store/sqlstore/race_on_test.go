//go:build race

package sqlstore

// takeRounds is smaller under the race detector, where SQLite is about 15 times slower.
const takeRounds = 100

// burstCustomers is how many enter at once.
const burstCustomers = 40

// raceEnabled leaves out what has no goroutines but much work.
const raceEnabled = true
