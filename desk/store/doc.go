// Package store says what Desk keeps and how it may change. It has the data types, the state machine of a conversation,
// the commands that change things, and the Store interface that a database implements.
package store
