// Package store says what Desk keeps and how it may change: the data types, the state machine of a conversation, the
// commands that change things and the Store interface that a database implements.
package store
