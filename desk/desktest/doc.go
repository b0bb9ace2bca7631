// Package desktest is the reference client of Desk for tests. It keeps an outbox with one send in flight per
// conversation, reconnects, resumes by sequence, fills gaps and drops what it has seen. Ask, Into, AuditLines and Clock
// serve tests of the handlers without a network. The package is not part of the server.
package desktest
