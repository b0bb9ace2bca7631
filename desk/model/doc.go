// Package model holds the model checker of Desk: random customers, agents and bots on a server that is killed, over a network that
// cuts and stalls, and afterwards every participant's view against the database. It has tests only.
package model
