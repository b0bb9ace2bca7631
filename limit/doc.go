// Package limit finds limits that nobody has to set: how much work a server should do at once, and which work goes first when that is not enough. Pools of
// package executor use it, see executor.Options.Adaptive.
package limit
