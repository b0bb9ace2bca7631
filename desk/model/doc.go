// Package model holds the model checker of Desk. It runs random customers, agents and bots on a server that is killed,
// over a network that cuts and stalls. Afterwards it compares every participant's view with the database. It has tests
// only.
package model
