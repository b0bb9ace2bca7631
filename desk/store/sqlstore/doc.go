// Package sqlstore keeps Desk's data in a database that speaks SQL: a file of SQLite, with a write-ahead log and full
// synchronisation, or a database of PostgreSQL. Either has one writer, which commits in groups, and pools of connections
// that only read. Statements are written once; see dialect for where the two differ.
package sqlstore
