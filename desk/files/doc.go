// Package files keeps uploaded files in a directory or another Place. It bounds, checks and names them, gives out signed
// addresses, and removes files that nobody has sent.
package files
