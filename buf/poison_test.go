//go:build eddydebug

package buf

import (
	"bytes"
	"testing"
)

func TestPoison(t *testing.T) {
	scratch := []byte("scratch")
	Poison(scratch)
	if !bytes.Equal(scratch, bytes.Repeat([]byte{0xDD}, 7)) {
		t.Errorf("scratch is %x", scratch)
	}
}

func TestPutPoisonsAndGetChecks(t *testing.T) {
	p := NewPool(0)
	s := p.Get(512)
	s.Append([]byte("secret"))
	kept := s.Bytes()
	p.Put(s)
	if string(kept) != "\xdd\xdd\xdd\xdd\xdd\xdd" {
		t.Errorf("released memory reads %q", kept)
	}
	kept[2] = 1
	mustPanic(t, "written at 2 after it was put back", func() { p.Get(512) })

	foreign := []byte("foreign")
	p.Put(p.Adopt(foreign))
	if string(foreign) != "foreign" {
		t.Errorf("adopted memory was overwritten: %q", foreign)
	}
}
