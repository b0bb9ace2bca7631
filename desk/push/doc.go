// Package push calls agents through the push services of their browsers while no console of theirs is open (RFC 8030,
// RFC 8291, RFC 8292). A call says how much has happened, and never what somebody has written.
package push
