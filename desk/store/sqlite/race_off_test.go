//go:build !race

package sqlite

const takeRounds = 1000
