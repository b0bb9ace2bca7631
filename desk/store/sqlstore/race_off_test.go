//go:build !race

package sqlstore

const takeRounds = 1000

// burstCustomers is how many enter at once.
const burstCustomers = 200

const raceEnabled = false
