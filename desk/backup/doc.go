// Package backup copies the data of a Desk to another directory while the Desk runs, and puts it back.
//
// A backup is a directory. It holds the database as it was at one moment, the uploaded files, SHA256SUMS over both in
// the format of sha256sum, and manifest.json, which describes it. A backup is complete once it has its name. Until then
// the name ends in .partial.
package backup
