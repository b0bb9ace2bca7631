// Package sqlite keeps Desk's data in one SQLite file: WAL, full synchronisation, one writer with group commit and
// two read-only connection pools.
package sqlite
