//go:build !linux

package pgtest

import "testing"

// Disk is never there.
type Disk struct{ URL string }

// OnDisk skips the test: disks are mounted on Linux only.
func OnDisk(t testing.TB, _ int64) *Disk {
	t.Helper()
	t.Skip("mount: disks are mounted on Linux only")
	return nil
}

// Fill is never called.
func (*Disk) Fill(testing.TB) {}

// Free is never called.
func (*Disk) Free(testing.TB) {}
