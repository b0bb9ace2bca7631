// Package backup copies what a Desk keeps to another directory while the Desk runs, and puts it back.
//
// A backup is a directory: the database as it was at one moment, the uploaded files, SHA256SUMS over both in the format of
// sha256sum, and manifest.json, which says what it is. It is complete once it has its name: it is written beside it, with the
// ending .partial.
package backup
