// Package meter holds what the engine counts with: the numbers of a loop, counts by label, and the last closes. It knows no
// connection and no server, and imports nothing of the engine.
package meter
