// Package files keeps uploaded files in a directory: it bounds, checks and names them, hands out signed addresses, and
// removes what nobody has sent.
package files
